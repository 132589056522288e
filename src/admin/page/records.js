// The view of one partition's records. What stands in them reaches the document as text nodes only.

import { ask, bytes, el, link, number, setText, time } from "./parts.js";

function hexToBytes(hex) {
  return Uint8Array.from(hex.match(/../g) || [], (pair) => parseInt(pair, 16));
}

function hexDump(data) {
  const lines = [];
  for (let at = 0; at < data.length; at += 16) {
    const row = [...data.slice(at, at + 16)];
    const pairs = row.map((byte) => byte.toString(16).padStart(2, "0")).join(" ");
    const text = row.map((byte) => (byte >= 32 && byte < 127 ? String.fromCharCode(byte) : ".")).join("");
    lines.push(at.toString(16).padStart(6, "0") + "  " + pairs.padEnd(48) + " " + text);
  }
  return lines.join("\n");
}

/** JSON with line breaks and nothing else changed: numbers, repeated names and their order stay as they were written. */
function indented(json) {
  let depth = 0;
  const line = () => "\n" + "  ".repeat(depth);
  return json.replace(/"(?:[^"\\]|\\.)*"|[^\s"[\]{},:]+|[[{]\s*[\]}]|./gs, (token) => {
    if (token === "{" || token === "[") {
      depth += 1;
      return token + line();
    }
    if (token === "}" || token === "]") {
      depth -= 1;
      return line() + token;
    }
    if (token === ",") return token + line();
    if (token === ":") return ": ";
    return token.startsWith('"') ? token : token.trim().replace(/\s+/g, "");
  });
}

/** A key or value as it is to be seen. */
function written(field, as) {
  if (field === null) return "null";
  const isText = field.text !== undefined;
  if (as === "hex" || !isText) return hexDump(isText ? new TextEncoder().encode(field.text) : hexToBytes(field.hex));
  if (as !== "text" && !field.cut && /^\s*[[{]/.test(field.text)) {
    try {
      JSON.parse(field.text);
      return indented(field.text);
    } catch {
      // Not JSON: text.
    }
  }
  return field.text === "" ? "(empty)" : field.text;
}

/** A header's value: mostly short. */
function inOneLine(field, as) {
  if (field === null || (field.text !== undefined && as !== "hex")) return written(field, "text");
  const data = field.text === undefined ? hexToBytes(field.hex) : new TextEncoder().encode(field.text);
  return data.length > 16 ? "\n" + hexDump(data) : [...data].map((byte) => byte.toString(16).padStart(2, "0")).join(" ") || "(empty)";
}

function described(field, as) {
  const cut = field && field.cut ? el("p", { class: "soft" }, "cut: it has " + bytes(field.size)) : null;
  return el("dd", {}, el("pre", { class: field === null ? "soft" : null, tabindex: "0" }, written(field, as)), cut);
}

function recordItem(record, as) {
  if (record.fault) {
    return el("article", { class: "record" }, el("h3", {}, el("b", {}, "from offset " + number(record.offset)), el("span", { class: "bad" }, record.fault)));
  }
  const facts = [time(record.timestamp) + (record.timestamp_type === "LogAppendTime" ? " (append time)" : ""),
    record.value ? bytes(record.value.size) : "tombstone", record.compression === "none" ? null : record.compression,
    record.producer_id >= 0 ? "producer " + record.producer_id : null, record.control ? "control record" : null];
  const rows = [el("dt", {}, "Key"), described(record.key, as), el("dt", {}, "Value"), described(record.value, as)];
  for (const header of record.headers) {
    rows.push(el("dt", {}, "Header"), el("dd", {}, el("pre", {}, header.name + ": " + inOneLine(header.value, as))));
  }
  return el("article", { class: "record", "aria-label": "Record at offset " + record.offset },
    el("h3", {}, el("b", {}, "offset " + number(record.offset)), ...facts.filter(Boolean).map((fact) => el("span", {}, fact))),
    el("dl", {}, ...rows));
}

export function recordsView(parameters, guarded) {
  let topics = [];
  let answer = null;
  const topic = el("select", { id: "topic" });
  const partition = el("select", { id: "partition" });
  const offset = el("input", { id: "offset", inputmode: "numeric", size: "14", placeholder: "newest", value: parameters.get("offset") || "" });
  const count = el("select", { id: "count" }, ...[10, 20, 50, 200].map((value) => el("option", { value, selected: value === 20 }, String(value))));
  const kinds = ["auto", "text", "JSON", "hex"].map((kind) => el("label", {}, el("input", { type: "radio", name: "as", value: kind.toLowerCase(), checked: kind === "auto", onchange: draw }), kind));
  const button = (text, act) => el("button", { type: "button", onclick: act }, text);
  const older = button("Older", () => look(Math.max(Number(answer.log_start), Number(answer.from) - Number(count.value))));
  const newer = button("Newer", () => look(answer.continue_at));
  const form = el("form", { onsubmit: (event) => { event.preventDefault(); look(offset.value.trim()); } },
    el("label", { for: "topic" }, "Topic", topic), el("label", { for: "partition" }, "Partition", partition),
    el("label", { for: "offset" }, "From offset", offset), el("label", { for: "count" }, "Records", count),
    el("div", { class: "buttons" }, el("button", {}, "Show"), older, newer, button("Newest", () => look(""))),
    el("fieldset", {}, el("legend", { class: "hidden" }, "Show content as"), ...kinds));
  const bounds = el("p", { class: "soft", role: "status" });
  const list = el("div");

  function fillPartitions() {
    const chosen = topics.find((one) => one.topic === topic.value);
    const wanted = partition.value || parameters.get("partition");
    partition.replaceChildren(...(chosen ? chosen.partitions : []).map((one) => el("option", { value: one.partition, selected: String(one.partition) === wanted }, String(one.partition))));
  }
  topic.addEventListener("change", () => { partition.replaceChildren(); fillPartitions(); look(""); });
  partition.addEventListener("change", () => look(""));

  function draw() {
    if (!answer) return;
    const as = form.elements.as.value;
    list.replaceChildren(...answer.records.map((record) => recordItem(record, as)).reverse());
    if (!answer.records.length) list.replaceChildren(el("p", { class: "empty" }, "No record here."));
    setText(bounds, "Offsets " + number(answer.log_start) + " to " + number(answer.next_offset) + "; shown from " + number(answer.from) + ", the newest first.");
    older.disabled = Number(answer.from) <= Number(answer.log_start);
    newer.disabled = Number(answer.continue_at) >= Number(answer.next_offset);
  }

  async function look(from) {
    if (!topic.value) return;
    offset.value = from;
    const asked = { topic: topic.value, partition: partition.value || 0, count: count.value, offset: from };
    const address = link.records(asked.topic, asked.partition, from === "" ? {} : { offset: from });
    if (location.hash !== address) window.history.replaceState(null, "", address);
    await guarded(async () => {
      answer = await ask("records", asked);
      draw();
    });
  }

  return {
    title: "Records",
    content: [form, bounds, list],
    once: true,
    async load() {
      ({ topics } = await ask("topics"));
      const wanted = parameters.get("topic");
      topic.replaceChildren(...topics.map((one) => el("option", { value: one.topic, selected: one.topic === wanted }, one.topic)));
      fillPartitions();
      if (!topics.length) list.replaceChildren(el("p", { class: "empty" }, "There is no topic yet."));
      await look(offset.value);
    },
  };
}
