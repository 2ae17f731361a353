/** The console: four views of one broker. A view is a function that fills the page and returns how to leave it. */

import { get, onEvents } from "./api.js";
import { el, fill } from "./dom.js";
import { explainView } from "./explain.js";
import { liveView } from "./live.js";
import { networkView } from "./network.js";
import { subscriptionsView } from "./subscriptions.js";

/** By name: the title of the tab, what fills the page, and what the view is for. */
const VIEWS = {
  live: ["Live", liveView, "Events as they arrive, and the subscriptions that each of them matched. Choose an event to see why."],
  subscriptions: ["Subscriptions", subscriptionsView, "Write or draw a filter, try it on recent events, and subscribe; search and delete subscriptions."],
  network: ["Network", networkView, "The links of this broker: what it announced to its neighbours, what it withheld because of covering, and what crossed."],
  explain: ["Explain", explainView, "Why one event matches one filter, or why it does not, condition by condition."],
};
const view = document.getElementById("view"), tabs = document.getElementById("tabs"), health = document.getElementById("health"), purpose = document.getElementById("purpose");
let leave = () => {};

function show() {
  const [name, query = ""] = location.hash.slice(1).split("?");
  const chosen = name in VIEWS ? name : "live";
  for (const tab of tabs.children) {
    const selected = tab.dataset.view === chosen;
    tab.setAttribute("aria-selected", selected);
    tab.tabIndex = selected ? 0 : -1;
  }
  leave();
  fill(view);
  fill(purpose, VIEWS[chosen][2]);
  leave = VIEWS[chosen][1](view, new URLSearchParams(query)) ?? (() => {});
}

function moveBetweenTabs(event) {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!step) return;
  const all = [...tabs.children], next = all[(all.indexOf(document.activeElement) + step + all.length) % all.length];
  next.focus();
  next.click();
}

/** Ask for a token once; it lives in this page and nowhere else. */
function needToken() {
  return new Promise((resolve) => {
    const field = el("input", { type: "password", autocomplete: "off", "aria-label": "Token" });
    const send = (event) => { event.preventDefault(); resolve(field.value.trim()); form.remove(); };
    const form = el("form", { class: "panel", onsubmit: send }, el("h2", {}, "This broker requires a token"), el("div", { class: "row" }, field, el("button", { class: "act main" }, "Use it")));
    view.prepend(form);
    field.focus();
  });
}

onEvents({
  needToken,
  health: (answers) => {
    health.className = answers ? "good" : "bad";
    fill(health, answers ? "connected" : "No answer from the broker; trying again");
  },
});
for (const [name, [title]] of Object.entries(VIEWS)) {
  tabs.append(el("button", { role: "tab", "data-view": name, onclick: () => { location.hash = name; } }, title));
}
tabs.addEventListener("keydown", moveBetweenTabs);
addEventListener("hashchange", show);
get("/healthz").then((answer) => fill(document.getElementById("broker"), answer.broker)).catch(() => {});
show();
