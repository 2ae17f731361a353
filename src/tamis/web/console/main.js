/** The console: four views of one broker. A view is a function that fills the page and returns how to leave it. */

import { get, onEvents } from "./api.js";
import { el, fill } from "./dom.js";
import { explainView } from "./explain.js";
import { liveView } from "./live.js";
import { networkView } from "./network.js";
import { subscriptionsView } from "./subscriptions.js";

const VIEWS = { live: ["Live", liveView], subscriptions: ["Subscriptions", subscriptionsView], network: ["Network", networkView], explain: ["Explain", explainView] };
const view = document.getElementById("view"), tabs = document.getElementById("tabs"), health = document.getElementById("health");
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
