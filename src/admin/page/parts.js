// What views are made of: questions to the gateway, elements, numbers as people read them, charts and tables.

const ROWS_MAX = 500;
const CHART_POINTS_MIN = 30;
const SVG = "http://www.w3.org/2000/svg";

/** How many values a chart shows. */
export const SAMPLES_MAX = 150;

export class Refused extends Error {}

/** Integers beyond 2^53 stay exact: as strings, where the browser can tell. */
function exact(_, value, context) {
  const unsafe = typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value);
  return unsafe && context && context.source ? context.source : value;
}

export async function ask(path, parameters) {
  const query = parameters ? "?" + new URLSearchParams(parameters) : "";
  const response = await fetch("/v1/stream/" + path + query, { cache: "no-store" });
  const text = await response.text();
  if (response.ok) return JSON.parse(text, exact);
  let why = response.status + " " + response.statusText;
  try {
    why = JSON.parse(text).error || why;
  } catch {
    // No JSON: the status has to do.
  }
  throw new Refused(why);
}

export function el(tag, properties, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties || {})) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== undefined && value !== null && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

function svg(tag, properties) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(properties)) made.setAttribute(name, value);
  return made;
}

export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

const grouped = new Intl.NumberFormat("en");
export const number = (value) => (value === null || value === undefined ? "–" : typeof value === "string" ? value : grouped.format(value));

export function rate(value) {
  if (value === null) return "–";
  return value >= 100 ? grouped.format(Math.round(value)) : grouped.format(Math.round(value * 10) / 10);
}

export function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return (unit === 0 ? grouped.format(Math.round(value)) : value.toFixed(value < 10 ? 2 : 1)) + " " + units[unit];
}

export function duration(seconds) {
  const parts = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const at = parts.findIndex(([size]) => seconds >= size);
  if (at < 0) return "0 s";
  const [size, name] = parts[at];
  const rest = parts[at + 1] ? Math.floor((seconds % size) / parts[at + 1][0]) : 0;
  return Math.floor(seconds / size) + " " + name + (rest ? " " + rest + " " + parts[at + 1][1] : "");
}

export const time = (ms) => (ms < 0 ? "no time" : new Date(ms).toISOString().replace("T", " ").replace("Z", " UTC"));

export const link = {
  topic: (name) => "#/topic/" + encodeURIComponent(name),
  group: (name) => "#/group/" + encodeURIComponent(name),
  records: (topic, partition, more) => "#/records?" + new URLSearchParams({ topic, partition, ...more }),
};

/** Named numbers. `update` takes the same names in the same order. */
export function tiles(names) {
  const values = names.map(() => el("dd", {}, "–"));
  const root = el("dl", { class: "tiles" }, ...names.map((name, at) => el("div", { class: "tile" }, el("dt", {}, name), values[at])));
  return { root, update: (texts) => texts.forEach((text, at) => setText(values[at], text)) };
}

/** Lines over the last minutes. `series`: names; `show`: how a value is written. */
export function chart(title, series, show) {
  const classes = ["first", "second"];
  const drawing = svg("svg", { viewBox: "0 0 300 80", preserveAspectRatio: "none", role: "img" });
  drawing.append(svg("path", { class: "base", d: "M0 79H300" }));
  const lines = series.map((_, at) => drawing.appendChild(svg("path", { class: classes[at] })));
  const values = series.map(() => el("b", {}, "–"));
  const keys = series.map((name, at) => el("span", {}, series.length > 1 ? el("i", { class: "key " + classes[at] }) : null, name + " ", values[at]));
  const root = el("figure", { class: "chart" }, el("figcaption", {}, ...keys), drawing);
  /** `points`: for each series an array of numbers, the newest last. */
  const update = (points) => {
    const top = Math.max(1e-9, ...points.flat()) * 1.08;
    points.forEach((line, at) => {
      const step = 300 / (Math.max(CHART_POINTS_MIN, line.length) - 1);
      const from = 300 - (line.length - 1) * step;
      const path = line.map((value, n) => (n ? "L" : "M") + (from + n * step).toFixed(1) + " " + (79 - (value / top) * 76).toFixed(1));
      lines[at].setAttribute("d", path.join(""));
      setText(values[at], line.length ? show(line[line.length - 1]) : "–");
    });
    drawing.setAttribute("aria-label", title + ": " + series.map((name, at) => name + " " + values[at].textContent).join(", "));
  };
  return { root, update };
}

/**
 * A table whose rows are changed in place, so that focus and selection stay. A column: `title`, `text(row)`, and where
 * wanted `href(row)`, `sort(row)`, `number`, `name`, `mono`, `mood(row)`. `key(row)` names a row.
 */
export function table(caption, columns, key, empty) {
  const rows = new Map();
  const body = el("tbody");
  const nothing = el("p", { class: "empty", hidden: true }, empty);
  const more = el("p", { class: "empty", hidden: true });
  let order = null;
  let shown = [];
  const heads = columns.map((column) => {
    const properties = { scope: "col", class: column.number ? "number" : null };
    if (!column.sort) return el("th", properties, column.title);
    const sort = () => {
      order = { column, down: order && order.column === column ? !order.down : !!column.number };
      heads.forEach((head, at) => (columns[at] === column ? head.setAttribute("aria-sort", order.down ? "descending" : "ascending") : head.removeAttribute("aria-sort")));
      update(shown);
    };
    return el("th", properties, el("button", { type: "button", title: "Sort by " + column.title, onclick: sort }, column.title));
  });
  const root = el("div", { class: "scroll", role: "region", "aria-label": caption, tabindex: "0" },
    el("table", {}, el("caption", { class: "hidden" }, caption), el("thead", {}, el("tr", {}, ...heads)), body), nothing, more);

  function make() {
    const cells = columns.map((column) => {
      const kind = [column.number && "number", column.name && "name", column.mono && "mono"].filter(Boolean).join(" ");
      const anchor = column.href ? el("a") : null;
      const cell = el("td", { class: kind || null }, anchor);
      return { cell, holder: anchor || cell, kind };
    });
    return { row: el("tr", {}, ...cells.map(({ cell }) => cell)), cells };
  }

  function fill({ cells }, row) {
    columns.forEach((column, at) => {
      const { cell, holder, kind } = cells[at];
      setText(holder, column.text(row));
      const href = column.href && column.href(row);
      if (href && holder.getAttribute("href") !== href) holder.setAttribute("href", href);
      if (column.mood) cell.className = (kind + " " + column.mood(row)).trim();
    });
  }

  function update(list) {
    shown = list;
    let sorted = list;
    if (order) {
      const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
      sorted = [...list].sort((a, b) => compare(order.column.sort(a), order.column.sort(b)) * (order.down ? -1 : 1));
    }
    const visible = sorted.slice(0, ROWS_MAX);
    const kept = new Set(visible.map(key));
    for (const [name, made] of rows) {
      if (!kept.has(name)) {
        made.row.remove();
        rows.delete(name);
      }
    }
    visible.forEach((row, at) => {
      const name = key(row);
      if (!rows.has(name)) rows.set(name, make());
      const made = rows.get(name);
      fill(made, row);
      if (body.children[at] !== made.row) body.insertBefore(made.row, body.children[at] || null);
    });
    nothing.hidden = list.length > 0;
    more.hidden = list.length <= ROWS_MAX;
    setText(more, grouped.format(list.length - ROWS_MAX) + " more: use the filter, or the JSON");
  }
  return { root, update };
}

export function panel(title, ...content) {
  return [el("h3", {}, title), ...content];
}
