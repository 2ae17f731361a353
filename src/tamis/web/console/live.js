/** Live: rates, the newest deliveries, and one event with all subscriptions that match it, and why. */

import { get, post } from "./api.js";
import { line } from "./chart.js";
import { clock, count, el, fill, table } from "./dom.js";
import { steps } from "./explain.js";
import { WorldMap } from "./map.js";

/** Milliseconds of the chart, and subscriptions that are explained for one event. */
const MINUTE = 60_000, SHOWN = 10;

export function liveView(view) {
  const rates = [], numbers = el("div", { class: "numbers" }), chart = el("div"), list = el("div"), chosen = el("div", { id: "inspected" });
  const pause = el("button", { class: "act", "aria-pressed": "false", onclick: () => setPaused(!paused) }, "Pause");
  const mapElement = el("div", { class: "map", "aria-label": "Map of the newest events" });
  let paused = false, before = null, timer = 0;

  fill(view, numbers,
    el("section", { class: "panel" }, el("h2", {}, "Events per second"), chart),
    el("p"),
    el("div", { class: "columns" },
      el("section", { class: "panel" }, el("div", { class: "row" }, el("h2", {}, "Newest deliveries"), pause), list),
      el("section", { class: "panel" }, el("h2", {}, "Where"), mapElement, el("h3", {}, "One event"), chosen)));
  fill(chosen, el("p", { class: "quiet" }, "Choose a delivery or a dot on the map."));
  const map = new WorldMap(mapElement);

  function setPaused(value) {
    paused = value;
    pause.setAttribute("aria-pressed", value);
    fill(pause, value ? "Resume" : "Pause");
    if (!value) { map.mark([]); poll(); }
  }

  async function poll() {
    clearTimeout(timer);
    try {
      const [statistics, { deliveries }, { events }] = await Promise.all([
        get("/v1/statistics"), get("/v1/deliveries?limit=200"), get("/v1/events?limit=200")]);
      if (!paused) draw(statistics, deliveries, events);
    } catch { /* the page's head says that the broker does not answer */ }
    timer = setTimeout(poll, 1000);
  }

  function draw(statistics, deliveries, events) {
    const now = performance.now(), { totals, now: held } = statistics;
    const rate = before ? Math.max(0, Math.round((totals.events - before.events) / ((now - before.at) / 1000))) : 0;
    before = { events: totals.events, at: now };
    rates.push({ at: now, value: rate });
    while (now - rates[0].at > MINUTE) rates.shift();
    const commit = totals.commits ? (1000 * totals.commit_seconds / totals.commits) : null;
    fill(numbers,
      number("events", totals.events, "events in all"), number("rate", rate, "events per second"),
      number("deliveries", totals.deliveries, "deliveries in all"), number("subscriptions", held.subscriptions, "subscriptions"),
      number("commit", commit === null ? null : commit.toFixed(1), "ms to be durable"), number("waiting", held.waiting, "waiting for clients"));
    fill(chart, line(rates.map(({ at, value }) => ({ part: 1 - (now - at) / MINUTE, value })), "events per second", ["a minute ago", "now"]));
    fill(list, deliveries.length ? table([
      ["time", (delivery) => clock(delivery.at).slice(11)],
      ["event", (delivery) => el("code", {}, brief(delivery.event))],
      ["for", (delivery) => delivery.subscriptions.join(", ")],
    ], byEvent(deliveries), inspect) : el("p", { class: "quiet" }, `No events have been delivered yet. Publish one: curl -d '{"mag": 6.1}' ${location.origin}/v1/events`));
    map.show(events, inspect);
  }

  async function inspect(delivery) {
    setPaused(true);
    fill(chosen, el("pre", {}, JSON.stringify(delivery.event, null, 1)), el("p", { class: "quiet" }, "Finding the subscriptions that match ..."));
    try {
      const { subscriptions, count: n } = await post("/v1/matches", { event: delivery.event, namespace: delivery.namespace });
      const explanations = await Promise.all(subscriptions.slice(0, SHOWN).map((subscription) => post("/v1/explain", { event: delivery.event, filter: subscription.filter, namespace: delivery.namespace })));
      map.mark(subscriptions.map((subscription) => subscription.filter));
      const more = n > SHOWN ? `, the first ${SHOWN} are shown` : "";
      fill(chosen, el("pre", {}, JSON.stringify(delivery.event, null, 1)), el("h3", { id: "matched" }, `${count(n)} subscription${n === 1 ? " matches" : "s match"}${more}`),
        subscriptions.slice(0, SHOWN).map((subscription, i) => el("div", { class: "found" }, el("h4", {}, String(subscription.id)), steps(explanations[i]))));
    } catch (problem) {
      fill(chosen, el("p", { class: "problem" }, problem.message));
    }
  }

  poll();
  return () => { clearTimeout(timer); map.remove(); };
}

function number(name, value, label) {
  return el("div", { class: "number" }, el("b", { "data-number": name, "data-value": value ?? "" }, typeof value === "string" ? value : count(value)), el("span", {}, label));
}

/** Neighbouring deliveries of one event as one, with all its subscriptions: each HTTP subscription is a client of its own. */
function byEvent(deliveries) {
  const merged = [];
  for (const delivery of deliveries) {
    const before = merged.at(-1);
    if (before?.id === delivery.id) before.subscriptions = [...delivery.subscriptions, ...before.subscriptions];
    else merged.push({ ...delivery });
  }
  return merged;
}

/** The first few attributes of an event in one line. */
export function brief(event) {
  return Object.entries(event).filter(([, value]) => typeof value !== "object").slice(0, 5)
    .map(([name, value]) => `${name}: ${String(value).replace(/(:\d\d)\.\d+Z$/, "$1Z").slice(0, 32)}`).join(", ");
}
