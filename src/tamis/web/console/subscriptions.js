/** Subscriptions: write or draw one, see what it would have got and who covers it; list, search, delete. */

import { get, post, remove } from "./api.js";
import { bars } from "./chart.js";
import { clock, count, el, fill, table } from "./dom.js";
import { filterField } from "./filter.js";
import { brief } from "./live.js";
import { WorldMap } from "./map.js";

const PAGE = 50, BARS = 40;

export function subscriptionsView(view) {
  const mapElement = el("div", { class: "map", "aria-label": "Map of matching events" });
  const outcome = el("div", { id: "trial" }), list = el("div"), pager = el("div", { class: "row pager" }), status = el("p", { role: "status" });
  const name = el("input", { "aria-label": "Id", placeholder: "id (made up when empty)" });
  const attribute = el("select", { "aria-label": "Region attribute" });
  const search = el("input", { type: "search", "aria-label": "Search", placeholder: "search ids, filters, metadata" });
  const drawButton = el("button", { class: "act", onclick: draw }, "Draw a region");
  const field = filterField("", showTrial);
  const former = [];  // where the pages before this one begin
  let after = 0, drawing = false, timer = 0;

  fill(view, el("div", { class: "columns" },
    el("section", { class: "panel" }, el("h2", {}, "A new subscription"), field.element,
      el("div", { class: "row" }, drawButton, attribute), mapElement,
      el("div", { class: "row" }, name, el("button", { class: "act main", onclick: create }, "Subscribe")), status),
    el("section", { class: "panel" }, el("h2", {}, "Dry run on recent events"), outcome)),
    el("p"),
    el("section", { class: "panel" }, el("div", { class: "row" }, el("h2", {}, "Subscriptions"), search, pager), list));
  const map = new WorldMap(mapElement);
  fill(outcome, el("p", { class: "quiet" }, "Write a filter to see which recent events match it, and which subscription covers it."));
  search.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(() => { after = 0; reload(); }, 250); });
  get("/v1/statistics").then(({ schema }) => {
    const regions = Object.entries(schema).filter(([, kind]) => kind === "region").map(([attributeName]) => attributeName);
    fill(attribute, (regions.length ? regions : ["region"]).map((attributeName) => el("option", {}, attributeName)));
  }).catch(() => fill(attribute, el("option", {}, "region")));
  reload();

  function draw() {
    if (!drawing) {
      drawing = true;
      fill(drawButton, "Finish the region");
      fill(status, "Click the corners of the region on the map. With keys: arrows move the map, Enter sets a corner at the cross, Backspace removes the last one.");
      map.draw((corners) => fill(status, corners === 1 ? "1 corner" : `${corners} corners`));
      return;
    }
    drawing = false;
    fill(drawButton, "Draw a region");
    const region = map.finish();
    if (!region) return fill(status, "A region has three corners or more.");
    const condition = `S_INTERSECTS(${attribute.value}, ${region})`;
    field.value = field.value ? `${field.value} AND ${condition}` : condition;
    fill(status);
  }

  function showTrial(answer) {
    if (!answer) { map.show([]); return fill(outcome); }
    map.show(answer.events);
    fill(outcome,
      el("p", {}, el("b", { id: "matched-count", "data-value": answer.matched }, count(answer.matched)), ` of the last ${count(answer.examined)} events match`),
      bars(timeline(answer), "matches in a bar", spanOf(answer)),
      el("div", { id: "around" }, around(answer)),
      answer.events.length ? table([["time", (row) => clock(row.at).slice(11)], ["event", (row) => el("code", {}, brief(row.event))]], answer.events.slice(0, 20)) : null);
  }

  async function create() {
    const body = { filter: field.value };
    if (name.value.trim()) body.id = name.value.trim();
    try {
      const made = await post("/v1/subscriptions", body);
      fill(status, `Subscribed as ${made.id}.`);
      name.value = "";
      reload();
    } catch (problem) {
      fill(status);
      field.show(problem);
    }
  }

  async function reload() {
    try {
      const page = await get(`/v1/subscriptions?limit=${PAGE}&after=${after}&search=${encodeURIComponent(search.value.trim())}`);
      fill(list, page.subscriptions.length ? table([
        ["id", (subscription) => String(subscription.id)], ["filter", (subscription) => el("code", {}, subscription.filter.slice(0, 300))], ["state", (subscription) => subscription.state],
        ["waiting", (subscription) => count(subscription.waiting), "n"],
        ["action", (subscription) => el("button", { class: "act small", "aria-label": `Delete ${subscription.id}`, onclick: () => drop(subscription) }, "Delete")],
      ], page.subscriptions) : el("p", { class: "quiet" }, search.value.trim() ? "No subscription matches this search." : `No subscriptions yet. Write a filter above, or: curl -d '{"filter": "mag >= 5"}' ${location.origin}/v1/subscriptions`));
      fill(pager,
        el("span", { class: "quiet" }, page.subscriptions.length ? `${count(after + 1)} to ${count(after + page.subscriptions.length)}` : ""),
        el("button", { class: "act", disabled: after === 0, onclick: () => { after = former.pop() ?? 0; reload(); } }, "Previous page"),
        el("button", { class: "act", disabled: page.next === null, onclick: () => { former.push(after); after = page.next; reload(); } }, "Next page"));
    } catch (problem) {
      fill(list, el("p", { class: "problem" }, problem.message));
    }
  }

  async function drop(subscription) {
    const client = subscription.client === null ? "" : `&client=${encodeURIComponent(subscription.client)}`;
    try {
      await remove(`/v1/subscriptions/${encodeURIComponent(subscription.id)}?namespace=${encodeURIComponent(subscription.namespace)}${client}`);
    } catch (problem) {
      fill(status, problem.message);
    }
    reload();
  }

  return () => { clearTimeout(timer); map.remove(); };
}

/** Who covers a filter and what it covers, as far as the broker looked; it says so when that is not all. */
function around({ covered_by: cover, covers, covers_count: n, covering_complete: complete }) {
  if (n === null) return el("p", { class: "quiet" }, "Comparing it with the other subscriptions; with very many, the first time takes some seconds ...");
  const none = complete ? "No subscription covers it." : "No subscription that was compared covers it.";
  const named = n ? `: ${covers.slice(0, 8).join(", ")}${n > 8 ? ` and ${complete ? "" : "at least "}${count(n - 8)} more` : ""}` : "";
  return [
    el("p", { id: "covered-by" }, cover === null ? none : `Covered by ${cover}: it is not announced on links.`),
    el("p", { id: "covers" }, `It covers ${complete ? "" : "at least "}${count(n)} subscription${n === 1 ? "" : "s"}${named}.`),
    complete ? null : el("p", { class: "quiet" }, "There are too many subscriptions to compare all of them quickly; a narrower filter gets a complete answer."),
  ];
}

/** The first and the last moment of a dry run, as short as they still differ. */
function spanOf({ first, last }) {
  if (first === null) return ["", ""];
  const [from, to] = [clock(first), clock(last)];
  return from.slice(0, 10) === to.slice(0, 10) ? [from.slice(11), to.slice(11)] : [from, to];
}

function timeline({ first, last, moments }) {
  const counts = new Array(BARS).fill(0), width = Math.max(last - first, 1);
  for (const moment of moments) counts[Math.min(BARS - 1, Math.floor(BARS * (moment - first) / width))] += 1;
  return counts;
}
