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
  const outcome = el("div", { id: "trial" }), list = el("div"), status = el("p", { role: "status" });
  const name = el("input", { "aria-label": "Id", placeholder: "id (made up when empty)" });
  const attribute = el("select", { "aria-label": "Region attribute" });
  const search = el("input", { type: "search", "aria-label": "Search", placeholder: "search ids, filters, metadata" });
  const drawButton = el("button", { class: "act", onclick: draw }, "Draw a region");
  const field = filterField("", showTrial);
  let after = 0, drawing = false, timer = 0;

  fill(view, el("div", { class: "columns" },
    el("section", { class: "panel" }, el("h2", {}, "A new subscription"), field.element,
      el("div", { class: "row" }, drawButton, attribute), mapElement,
      el("div", { class: "row" }, name, el("button", { class: "act main", onclick: create }, "Subscribe")), status),
    el("section", { class: "panel" }, el("h2", {}, "Dry run on recent events"), outcome)),
    el("p"),
    el("section", { class: "panel" }, el("div", { class: "row" }, el("h2", {}, "Subscriptions"), search), list));
  const map = new WorldMap(mapElement);
  fill(outcome, el("p", { class: "quiet" }, "Write a filter: what it would have got, and who covers it, is shown here."));
  search.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(() => { after = 0; reload(); }, 250); });
  get("/v1/statistics").then(({ schema }) => {
    const regions = Object.entries(schema).filter(([, kind]) => kind === "region").map(([one]) => one);
    fill(attribute, (regions.length ? regions : ["region"]).map((one) => el("option", {}, one)));
  }).catch(() => fill(attribute, el("option", {}, "region")));
  reload();

  function draw() {
    if (!drawing) {
      drawing = true;
      fill(drawButton, "Finish the region");
      fill(status, "Click the corners of the region on the map.");
      map.draw((corners) => fill(status, `${corners} corners`));
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
      bars(timeline(answer), "matches over time"),
      answer.covers_count === null ? el("p", { class: "quiet" }, "Looking for subscriptions that cover it ...") : [
      el("p", { id: "covered-by" }, answer.covered_by === null ? "No subscription covers it." : `Covered by ${answer.covered_by}: links need not hear of it.`),
      el("p", { id: "covers" }, `It covers ${count(answer.covers_count)} subscriptions${answer.covers_count ? `: ${answer.covers.slice(0, 8).join(", ")}` : ""}.`)],
      answer.events.length ? table([["time", (one) => clock(one.at).slice(11)], ["event", (one) => el("code", {}, brief(one.event))]], answer.events.slice(0, 20)) : null);
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
      field.say(problem.message);
    }
  }

  async function reload() {
    try {
      const page = await get(`/v1/subscriptions?limit=${PAGE}&after=${after}&search=${encodeURIComponent(search.value.trim())}`);
      fill(list, page.subscriptions.length ? table([
        ["id", (one) => String(one.id)], ["filter", (one) => el("code", {}, one.filter.slice(0, 300))], ["state", (one) => one.state],
        ["waiting", (one) => count(one.waiting), "n"],
        ["", (one) => el("button", { class: "act", "aria-label": `Delete ${one.id}`, onclick: () => drop(one) }, "Delete")],
      ], page.subscriptions) : el("p", { class: "quiet" }, "None here."),
      el("div", { class: "row" },
        el("button", { class: "act", disabled: after === 0, onclick: () => { after = Math.max(0, after - PAGE); reload(); } }, "Previous page"),
        el("button", { class: "act", disabled: page.next === null, onclick: () => { after = page.next; reload(); } }, "Next page"),
        el("span", { class: "quiet" }, page.subscriptions.length ? `${count(after + 1)} to ${count(after + page.subscriptions.length)}` : "")));
    } catch (problem) {
      fill(list, el("p", { class: "problem" }, problem.message));
    }
  }

  async function drop(one) {
    const client = one.client === null ? "" : `&client=${encodeURIComponent(one.client)}`;
    try {
      await remove(`/v1/subscriptions/${encodeURIComponent(one.id)}?namespace=${encodeURIComponent(one.namespace)}${client}`);
    } catch (problem) {
      fill(status, problem.message);
    }
    reload();
  }

  return () => { clearTimeout(timer); map.remove(); };
}

function timeline({ first, last, moments }) {
  const counts = new Array(BARS).fill(0), width = Math.max(last - first, 1);
  for (const moment of moments) counts[Math.min(BARS - 1, Math.floor(BARS * (moment - first) / width))] += 1;
  return counts;
}
