// The views of what is there and what goes on. Each builds its elements once; `load` and `tick` are called again and again.

import { SAMPLES_MAX, ask, bytes, chart, duration, el, link, number, panel, rate, table, tiles, time } from "./parts.js";

export const history = { status: null, samples: [], topics: new Map() };

export function keepStatus(status) {
  const now = { at: performance.now(), status };
  const before = history.status;
  history.status = now;
  if (!before || before.status.process_id !== status.process_id) return;
  const seconds = (now.at - before.at) / 1000;
  const grown = (read) => Math.max(0, (read(status) - read(before.status)) / seconds);
  history.samples.push({
    requests: grown((one) => one.requests),
    received: grown((one) => one.bytes_in),
    sent: grown((one) => one.bytes_out),
    busy: grown((one) => one.workers.busy_seconds),
    connections: status.connections.open,
    parked: status.parked,
  });
  history.samples.splice(0, history.samples.length - SAMPLES_MAX);
}

const line = (name) => history.samples.map((sample) => sample[name]);

/** Takes note of each topic's end, and gives the records appended per second since the look before. */
function keepTopics(topics) {
  const now = performance.now();
  for (const topic of topics) {
    const end = topic.partitions.reduce((sum, partition) => sum + Number(partition.next_offset), 0);
    const seen = history.topics.get(topic.id) || { at: now, end, rates: [] };
    if (now > seen.at) {
      seen.rates.push(Math.max(0, (end - seen.end) / ((now - seen.at) / 1000)));
      seen.rates.splice(0, seen.rates.length - SAMPLES_MAX);
    }
    Object.assign(seen, { at: now, end });
    history.topics.set(topic.id, seen);
  }
}

function rates(topic) {
  const seen = history.topics.get(topic.id);
  return seen ? seen.rates : [];
}

const lastOf = (list) => (list.length ? list[list.length - 1] : null);
const recordsIn = (partition) => Number(partition.next_offset) - Number(partition.log_start);
const sum = (list, read) => list.reduce((total, one) => total + read(one), 0);

const stateMoods = { Stable: "good", Empty: "soft", PreparingRebalance: "warn", CompletingRebalance: "warn" };

function groupTable(caption, empty) {
  return table(caption, [
    { title: "Group", name: true, text: (row) => row.group, href: (row) => link.group(row.group), sort: (row) => row.group },
    { title: "State", text: (row) => row.state, mood: (row) => stateMoods[row.state] || "", sort: (row) => row.state },
    { title: "Members", number: true, text: (row) => number(row.members.length), sort: (row) => row.members.length },
    { title: "Partitions", number: true, text: (row) => number(row.partitions.length), sort: (row) => row.partitions.length },
    { title: "Lag", number: true, text: (row) => number(row.lag), sort: (row) => Number(row.lag) },
  ], (row) => row.group, empty);
}

export function overview() {
  const facts = tiles(["JetStream", "Uptime", "Connections", "Requests waiting", "Workers busy", "Requests", "Panics"]);
  const charts = [
    [chart("Requests", ["Requests per second"], rate), ["requests"]],
    [chart("Traffic", ["Received per second", "Sent per second"], bytes), ["received", "sent"]],
    [chart("Connections", ["Connections", "Requests waiting"], number), ["connections", "parked"]],
    [chart("Workers", ["Workers busy, on average"], rate), ["busy"]],
  ];
  const groups = groupTable("Groups with the greatest lag", "No group has committed anything.");
  const topics = table("Topics that grow most", [
    { title: "Topic", name: true, text: (row) => row.topic, href: (row) => link.topic(row.topic) },
    { title: "Records", number: true, text: (row) => number(sum(row.partitions, recordsIn)) },
    { title: "Records per second", number: true, text: (row) => rate(lastOf(rates(row))) },
  ], (row) => row.id, "There is no topic yet: one is made when a client first produces to it.");
  return {
    title: "Overview",
    content: [facts.root, el("div", { class: "charts" }, ...charts.map(([one]) => one.root)),
      ...panel("Greatest lag", groups.root), ...panel("Topics that grow most", topics.root)],
    tick(status) {
      facts.update([
        status.connected ? status.server.version : "away", duration(status.uptime_seconds), number(status.connections.open),
        number(status.parked), status.workers.busy + " of " + (status.workers.regular + status.workers.light),
        number(status.requests), number(status.panics),
      ]);
      for (const [one, names] of charts) one.update(names.map(line));
    },
    async load() {
      const [told, listed] = await Promise.all([ask("groups"), ask("topics")]);
      groups.update([...told.groups].sort((a, b) => b.lag - a.lag).slice(0, 8));
      keepTopics(listed.topics);
      const grown = (topic) => lastOf(rates(topic)) || 0;
      topics.update([...listed.topics].sort((a, b) => grown(b) - grown(a)).slice(0, 8));
    },
  };
}

function filtered(name, list) {
  let all = [];
  const input = el("input", { type: "search", id: "filter", autocomplete: "off", spellcheck: "false" });
  const show = () => list.update(all.filter((row) => name(row).toLowerCase().includes(input.value.toLowerCase())));
  input.addEventListener("input", show);
  const form = el("form", { onsubmit: (event) => event.preventDefault() }, el("label", { for: "filter" }, "Filter by name", input));
  return { form, update: (rows) => { all = rows; show(); } };
}

export function topicsView() {
  const list = table("Topics", [
    { title: "Topic", name: true, text: (row) => row.topic, href: (row) => link.topic(row.topic), sort: (row) => row.topic },
    { title: "Partitions", number: true, text: (row) => number(row.partitions.length), sort: (row) => row.partitions.length },
    { title: "Records", number: true, text: (row) => number(sum(row.partitions, recordsIn)), sort: (row) => sum(row.partitions, recordsIn) },
    { title: "Records per second", number: true, text: (row) => rate(lastOf(rates(row))), sort: (row) => lastOf(rates(row)) || 0 },
    { title: "Stored messages", number: true, text: (row) => number(row.messages), sort: (row) => row.messages },
    { title: "Size", number: true, text: (row) => bytes(row.bytes), sort: (row) => row.bytes },
  ], (row) => row.id, "No topic here.");
  const filter = filtered((row) => row.topic, list);
  return {
    title: "Topics",
    content: [filter.form, list.root],
    async load() {
      const { topics } = await ask("topics");
      keepTopics(topics);
      filter.update(topics);
    },
  };
}

export function topicView(name) {
  const facts = tiles(["Partitions", "Records", "Records per second", "Stored messages", "Size", "Topic id"]);
  const growth = chart("Growth", ["Records per second"], rate);
  const mark = (text, isExact) => text + (isExact ? "" : " or more");
  const list = table("Partitions", [
    { title: "Partition", number: true, text: (row) => number(row.partition), href: (row) => link.records(name, row.partition) },
    { title: "Log start", number: true, text: (row) => mark(number(row.log_start), row.log_start_exact) },
    { title: "Next offset", number: true, text: (row) => mark(number(row.next_offset), row.next_offset_exact) },
    { title: "Stored messages", number: true, text: (row) => number(row.messages) },
    { title: "Size", number: true, text: (row) => bytes(row.bytes) },
    { title: "Leader", number: true, text: (row) => number(row.leader) },
    { title: "Stream", mono: true, text: (row) => row.stream + (row.stream_leader ? " on " + row.stream_leader : "") + (row.stream_found ? "" : " (missing)") },
    { title: "Subject", mono: true, text: (row) => row.subject },
    { title: "Sequences", mono: true, text: (row) => row.first_sequence + " – " + row.last_sequence },
  ], (row) => row.partition, "No partitions.");
  const settings = table("Settings", [
    { title: "Setting", text: ([setting]) => setting },
    { title: "Value", name: true, text: ([, value]) => value },
  ], ([setting]) => setting, "Nothing was set for this topic: all settings have their defaults.");
  const groups = groupTable("Groups", "No group has committed for this topic.");
  return {
    title: "Topic " + name,
    current: "#/topics",
    content: [facts.root, el("p", {}, el("a", { href: link.records(name, 0) }, "Look at its newest records")),
      el("div", { class: "charts" }, growth.root), ...panel("Partitions", list.root),
      ...panel("Groups that read it", groups.root), ...panel("Settings", settings.root)],
    async load() {
      const [told, readers] = await Promise.all([ask("topics", { topic: name }), ask("groups", { topic: name })]);
      const [topic] = told.topics;
      keepTopics([topic]);
      facts.update([number(topic.partitions.length), number(sum(topic.partitions, recordsIn)), rate(lastOf(rates(topic))),
        number(topic.messages), bytes(topic.bytes), topic.id]);
      growth.update([rates(topic)]);
      list.update(topic.partitions);
      settings.update(Object.entries(topic.settings));
      groups.update(readers.groups);
    },
  };
}

export function groupsView() {
  const list = groupTable("Groups", "No group here.");
  const filter = filtered((row) => row.group, list);
  return {
    title: "Groups",
    content: [filter.form, list.root],
    load: async () => filter.update((await ask("groups")).groups),
  };
}

export function groupView(name) {
  const facts = tiles(["State", "Members", "Lag", "Protocol"]);
  const behind = chart("Lag", ["Lag"], number);
  const lags = [];
  const members = table("Members", [
    { title: "Member", name: true, mono: true, text: (row) => row.member_id },
    { title: "Instance", text: (row) => row.instance_id || "" },
    { title: "Client", text: (row) => row.client_id },
    { title: "Host", text: (row) => row.host },
    { title: "Partitions", number: true, text: (row) => number(row.count) },
  ], (row) => row.member_id, "Nobody is in the group.");
  const list = table("Partitions", [
    { title: "Topic", name: true, text: (row) => row.topic, href: (row) => link.topic(row.topic) },
    { title: "Partition", number: true, text: (row) => number(row.partition), href: (row) => link.records(row.topic, row.partition, row.committed === null ? {} : { offset: row.committed }) },
    { title: "Committed", number: true, text: (row) => number(row.committed) },
    { title: "Log end", number: true, text: (row) => number(row.log_end) },
    { title: "Lag", number: true, text: (row) => number(row.lag), sort: (row) => row.lag || 0 },
    { title: "Committed at", text: (row) => (row.commit_ms === null ? "–" : time(row.commit_ms)) },
    { title: "Metadata", name: true, text: (row) => row.metadata },
    { title: "Member", name: true, mono: true, text: (row) => row.member || "–" },
  ], (row) => row.topic + " " + row.partition, "Nothing is committed or assigned.");
  return {
    title: "Group " + name,
    current: "#/groups",
    content: [facts.root, el("div", { class: "charts" }, behind.root), ...panel("Partitions", list.root), ...panel("Members", members.root)],
    async load() {
      const [group] = (await ask("groups", { group: name })).groups;
      facts.update([group.state, number(group.members.length), number(group.lag), group.protocol || group.protocol_type || "–"]);
      lags.push(Math.max(0, Number(group.lag)));
      lags.splice(0, lags.length - SAMPLES_MAX);
      behind.update([lags]);
      list.update(group.partitions);
      const count = (member) => group.partitions.filter((row) => row.member === member.member_id).length;
      members.update(group.members.map((member) => ({ ...member, count: count(member) })));
    },
  };
}

export function activityView() {
  const facts = tiles(["Workers", "Busy", "Jobs queued", "Jobs so far", "Requests waiting"]);
  const work = chart("Workers", ["Workers busy, on average"], rate);
  const waits = chart("Waiting", ["Requests waiting"], number);
  const who = (request) => (request ? request.api + " v" + request.version + " #" + request.correlation_id + " of " + (request.client_id || "(no id)") + " at " + request.peer : "");
  const workers = table("Workers", [
    { title: "Thread", mono: true, text: (row) => row.thread },
    { title: "Does", text: (row) => row.phase + (row.call ? " " + row.call + " " + row.on : ""), mood: (row) => (row.phase === "idle" ? "soft" : "") },
    { title: "For", number: true, text: (row) => number(row.phase_ms) + " ms" },
    { title: "Request", name: true, text: (row) => who(row.request) },
  ], (row) => row.thread, "Nothing is told of the workers.");
  const parked = table("Waiting requests", [
    { title: "Request", name: true, text: (row) => who(row.request) },
    { title: "Waits for", name: true, text: (row) => String(row.waits_for) },
    { title: "Since", number: true, text: (row) => number(row.since_ms) + " ms" },
    { title: "At most", number: true, text: (row) => number(row.deadline_in_ms) + " ms more" },
  ], (row) => row.request.peer + " " + row.request.correlation_id, "No request waits.");
  return {
    title: "Activity",
    content: [facts.root, el("div", { class: "charts" }, work.root, waits.root), ...panel("Workers", workers.root), ...panel("Waiting requests", parked.root)],
    every: 2000,
    tick(status) {
      const { workers: pool } = status;
      facts.update([pool.regular + " and " + pool.light + " light", number(pool.busy), number(pool.queued), number(pool.jobs), number(status.parked)]);
      work.update([line("busy")]);
      waits.update([line("parked")]);
    },
    async load() {
      const told = await ask("threads");
      workers.update(told.workers);
      parked.update(told.parked);
    },
  };
}
