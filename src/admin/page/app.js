// The page: chooses the view by the address, and asks for the gateway's state every two seconds while it is looked at.

import { Refused, ask, el, setText } from "./parts.js";
import { recordsView } from "./records.js";
import { activityView, groupView, groupsView, history, keepStatus, overview, topicView, topicsView } from "./views.js";

const STATUS_EVERY_MS = 2000;
const LISTS_EVERY_MS = 4000;

const main = document.getElementById("main");

function viewOf(hash) {
  const [path, query] = hash.replace(/^#/, "").split("?");
  const [, name, of] = path.split("/");
  let decoded = "";
  try {
    decoded = decodeURIComponent(of || "");
  } catch {
    return overview();
  }
  switch (name) {
    case "topics": return topicsView();
    case "topic": return topicView(decoded);
    case "groups": return groupsView();
    case "group": return groupView(decoded);
    case "records": return recordsView(new URLSearchParams(query), guarded);
    case "activity": return activityView();
    default: return overview();
  }
}

let current = null;
let loading = null;
const notice = el("p", { class: "notice", role: "alert", hidden: true });

/** Runs `act` and shows why it failed, if it did. */
async function guarded(act) {
  const view = current;
  try {
    await act();
    if (view === current) notice.hidden = true;
  } catch (error) {
    if (view !== current) return;
    setText(notice, error instanceof Refused ? error.message : "The gateway cannot be reached.");
    notice.hidden = false;
  }
}

function show(takeFocus) {
  clearTimeout(loading);
  current = viewOf(location.hash);
  document.title = current.title + " – Hanzo Kafka";
  const heading = el("h2", { tabindex: "-1" }, current.title);
  main.replaceChildren(heading, notice, ...current.content);
  notice.hidden = true;
  const here = current.current || "#/" + location.hash.replace(/^#\/?/, "").split(/[/?]/)[0];
  for (const anchor of document.querySelectorAll("nav a")) {
    if (anchor.getAttribute("href") === here) anchor.setAttribute("aria-current", "page");
    else anchor.removeAttribute("aria-current");
  }
  if (takeFocus) heading.focus();
  if (history.status && current.tick) current.tick(history.status.status);
  load();
}

async function load() {
  const view = current;
  if (!document.hidden) await guarded(view.load);
  if (view === current && !view.once) loading = setTimeout(load, view.every || LISTS_EVERY_MS);
}

async function watch() {
  const state = document.getElementById("state");
  if (!document.hidden) {
    try {
      const status = await ask("status");
      keepStatus(status);
      setText(state, status.connected ? "connected to JetStream" : "JetStream cannot be reached");
      state.className = status.connected ? "good" : "bad";
      const address = status.addresses;
      setText(document.getElementById("about"), "version " + status.version + ", broker " + (status.broker_id ?? "not known yet") + ", Kafka on " + address.advertised + ", JetStream " + status.server.version + " at " + address.store);
      if (current.tick) current.tick(status);
    } catch {
      setText(state, "the gateway cannot be reached");
      state.className = "bad";
    }
  }
  setTimeout(watch, STATUS_EVERY_MS);
}

window.addEventListener("hashchange", () => show(true));
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
show(false);
watch();
