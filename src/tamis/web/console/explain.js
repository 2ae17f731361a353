/** Explain: one event and one filter or subscription, each condition green or red. */

import { get, post } from "./api.js";
import { el, fill } from "./dom.js";

export function explainView(view) {
  const event = el("textarea", { rows: 3, spellcheck: "false", "aria-label": "Event as JSON" });
  const filter = el("textarea", { rows: 2, spellcheck: "false", "aria-label": "Filter" });
  const id = el("input", { "aria-label": "Subscription", placeholder: "or the id of a subscription" });
  const answer = el("div", { id: "explanation", role: "status", "aria-live": "polite" });
  const run = el("button", { class: "act main", onclick: explain }, "Explain");
  fill(view, el("div", { class: "columns" },
    el("section", { class: "panel" }, el("h2", {}, "Event"), event, el("h2", {}, "Filter"), filter, el("div", { class: "row" }, id, run)),
    el("section", { class: "panel" }, el("h2", {}, "Why, or why not"), answer)));
  fill(answer, el("p", { class: "quiet" }, "Each condition of the filter is shown here with the value of the event."));
  for (const area of [event, filter]) area.addEventListener("input", () => grow(area));
  get("/v1/events?limit=1").then(({ events }) => {
    if (!event.value) event.value = JSON.stringify(events[0]?.event ?? { mag: 5.1 }, null, 1);
    grow(event);
  }).catch(() => {});
  filter.value = "mag >= 4";
  grow(filter);

  async function explain() {
    try {
      const asked = { event: JSON.parse(event.value) };
      if (id.value.trim()) asked.id = id.value.trim();
      else asked.filter = filter.value;
      const told = await post("/v1/explain", asked);
      fill(answer, verdict(told), steps(told), (told.links ?? []).map((link) => el("p", {}, `${link.link}: ${link.reason}`)));
    } catch (problem) {
      fill(answer, el("p", { class: "problem" }, problem instanceof SyntaxError ? `The event is not JSON: ${problem.message}` : problem.message));
    }
  }
}

/** Let a field be as high as what stands in it, within reason. */
function grow(area) {
  area.style.height = "auto";
  area.style.height = `${Math.min(area.scrollHeight + 2, 480)}px`;
}

function verdict(told) {
  return el("p", { class: told.matched ? "good" : "bad" }, el("b", { "data-matched": String(told.matched) }, told.matched ? "It matches." : "It does not match."));
}

/** A block per condition with the value it saw; AND, OR and NOT around it are steps of their own. */
export function steps({ tree }) {
  return tree.operator === "AND" ? tree.parts.map((part) => step(part, true)) : step(tree, true);
}

/** What counts is green or red. Under NOT a condition has no colour: that it fails may be just what is wanted. */
function step(one, counts) {
  const colour = !counts ? "" : one.outcome === true ? "good" : "bad", mark = { true: "✓", false: "✗", null: "?" }[one.outcome];
  const parts = (one.parts ?? []).map((part) => step(part, counts && one.operator !== "NOT"));
  const text = one.operator && one.operator !== "NOT" ? one.operator : one.condition;
  return el("div", { class: `condition ${colour}` }, el("code", {}, `${mark} ${text}`), because(one), parts);
}

function because(one) {
  if (one.operator === "NOT") return el("div", { class: "quiet" }, { true: "holds, because this does not:", false: "does not hold, because this does:", null: "unknown, because this is:" }[one.outcome]);
  if (one.operator) return el("div", { class: "quiet" }, `${one.parts.filter((part) => part.outcome === true).length} of ${one.parts.length} hold; ${one.operator === "OR" ? "one is enough" : "all must"}`);
  return one.attribute === null ? null : el("div", { class: "quiet" }, `${one.attribute} is ${one.value ?? "missing"}`);
}
