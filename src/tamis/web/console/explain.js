/** Explain: one event and one filter or subscription, each condition green or red. */

import { get, post } from "./api.js";
import { el, fill } from "./dom.js";

export function explainView(view) {
  const event = el("textarea", { rows: 16, spellcheck: "false", "aria-label": "Event as JSON" });
  const filter = el("textarea", { rows: 4, spellcheck: "false", "aria-label": "Filter" });
  const id = el("input", { "aria-label": "Subscription", placeholder: "or the id of a subscription" });
  const answer = el("div", { id: "explanation", role: "status", "aria-live": "polite" });
  const run = el("button", { class: "act main", onclick: explain }, "Explain");
  fill(view, el("div", { class: "columns" },
    el("section", { class: "panel" }, el("h2", {}, "Event"), event, el("h2", {}, "Filter"), filter, el("div", { class: "row" }, id, run)),
    el("section", { class: "panel" }, el("h2", {}, "Why, or why not"), answer)));
  get("/v1/events?limit=1").then(({ events }) => { if (!event.value) event.value = JSON.stringify(events[0]?.event ?? { mag: 5.1 }, null, 1); }).catch(() => {});
  filter.value = "mag >= 4";

  async function explain() {
    try {
      const asked = { event: JSON.parse(event.value) };
      if (id.value.trim()) asked.id = id.value.trim();
      else asked.filter = filter.value;
      const told = await post("/v1/explain", asked);
      fill(answer, conditions(told), (told.links ?? []).map((link) => el("p", {}, `${link.link}: ${link.reason}`)));
    } catch (problem) {
      fill(answer, el("p", { class: "problem" }, problem instanceof SyntaxError ? `The event is not JSON: ${problem.message}` : problem.message));
    }
  }
}

/** The verdict, and a line per condition with the value it saw. */
export function conditions(told) {
  return [
    el("p", { class: told.matched ? "good" : "bad" }, el("b", { "data-matched": String(told.matched) }, told.matched ? "It matches." : "It does not match.")),
    ...told.conditions.map((one) => el("div", { class: `condition ${one.outcome === true ? "good" : "bad"}` },
      el("code", {}, `${one.outcome === true ? "✓" : "✗"} ${one.condition}`),
      one.attribute === null ? null : el("div", { class: "quiet" }, `${one.attribute} is ${one.value ?? "missing"}`))),
  ];
}
