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
  let timer = 0, latest = 0;
  for (const field of [event, filter, id]) field.addEventListener("input", () => {
    if (field !== id) grow(field);
    clearTimeout(timer);
    timer = setTimeout(explain, 250);
  });
  get("/v1/events?limit=1").then(({ events }) => begin(events[0]?.event ?? { mag: 5.1, place: "Alaska" })).catch(() => {});

  /** Start with a recent event and a filter about its values, unless something was typed meanwhile. */
  function begin(recent) {
    const isTyped = event.value || filter.value || id.value;
    if (!event.value) event.value = JSON.stringify(recent, null, 1);
    if (!filter.value) filter.value = filterAbout(recent);
    grow(event);
    grow(filter);
    if (!isTyped) explain();
  }

  async function explain() {
    clearTimeout(timer);
    const number = ++latest;
    try {
      const question = { event: JSON.parse(event.value) };
      if (id.value.trim()) question.id = id.value.trim();
      else question.filter = filter.value;
      const explanation = await post("/v1/explain", question);
      if (number !== latest) return;
      fill(answer, verdict(explanation), steps(explanation), (explanation.links ?? []).map((link) => el("p", {}, `${link.link}: ${link.reason}`)));
    } catch (problem) {
      if (number !== latest) return;
      if (problem.status === 503) timer = setTimeout(explain, 1000); // the broker has too much to do just now
      fill(answer, el("p", { class: "problem" }, problem instanceof SyntaxError ? `The event is not JSON: ${problem.message}` : problem.message));
    }
  }

  return () => clearTimeout(timer);
}

/** A filter of two conditions on an event: its first number, which holds, and its first text, which does not. */
function filterAbout(event) {
  const entries = Object.entries(event).filter(([name]) => /^[A-Za-z_]\w*$/.test(name));
  const number = entries.find(([, value]) => typeof value === "number"), text = entries.find(([, value]) => typeof value === "string" && value.length < 40);
  const conditions = [number && `${number[0]} >= ${number[1]}`, text && `${text[0]} LIKE 'A%'`].filter(Boolean);
  return conditions.join(" AND ") || "mag >= 4";
}

/** Make a field as high as its text, up to 480 pixels. */
function grow(area) {
  area.style.height = "auto";
  area.style.height = `${Math.min(area.scrollHeight + 2, 480)}px`;
}

function verdict(explanation) {
  return el("p", { class: explanation.matched ? "good" : "bad" }, el("b", { "data-matched": String(explanation.matched) }, explanation.matched ? "It matches." : "It does not match."));
}

/** A block per condition with the value it saw; AND, OR and NOT around it are steps of their own. */
export function steps({ tree }) {
  return tree.operator === "AND" ? tree.parts.map((part) => step(part, true)) : step(tree, true);
}

/** What counts is green or red. Under NOT a condition has no colour: that it fails may be just what is wanted. */
function step(node, counts) {
  const colour = !counts ? "" : node.outcome === true ? "good" : "bad", mark = { true: "✓", false: "✗", null: "?" }[node.outcome];
  const parts = (node.parts ?? []).map((part) => step(part, counts && node.operator !== "NOT"));
  const text = node.operator && node.operator !== "NOT" ? node.operator : node.condition;
  return el("div", { class: `condition ${colour}` }, el("code", {}, `${mark} ${text}`), because(node), parts);
}

function because(node) {
  if (node.operator === "NOT") return el("div", { class: "quiet" }, { true: "holds, because this does not:", false: "does not hold, because this does:", null: "unknown, because this is:" }[node.outcome]);
  if (node.operator) return el("div", { class: "quiet" }, `${node.parts.filter((part) => part.outcome === true).length} of ${node.parts.length} hold; ${node.operator === "OR" ? "one is enough" : "all must"}`);
  return node.attribute === null ? null : el("div", { class: "quiet" }, `${node.attribute} is ${node.value ?? "missing"}`);
}
