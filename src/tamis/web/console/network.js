/** Network: this broker and its links with table sizes and traffic; what other policies would cost; who stands for whom. */

import { get, post } from "./api.js";
import { count, el, fill, svg, table } from "./dom.js";

export function networkView(view) {
  const picture = el("div"), links = el("div"), costs = el("div", { id: "comparison" }), hidden = el("div", { id: "forwarding" });
  const id = el("input", { "aria-label": "Subscription", placeholder: "id of a subscription" });
  const brokers = el("input", { type: "number", min: 2, max: 31, value: 7, "aria-label": "Brokers" });
  const run = el("button", { class: "act main", onclick: compare }, "Compare policies");
  let timer = 0;
  fill(view, el("div", { class: "columns" },
    el("section", { class: "panel" }, el("h2", {}, "This broker and its links"), picture, links),
    el("section", { class: "panel" }, el("h2", {}, "Why was it not forwarded?"),
      el("div", { class: "row" }, id, el("button", { class: "act", onclick: forwarding }, "Look")), hidden)),
    el("p"),
    el("section", { class: "panel" }, el("h2", {}, "What a network would cost"),
      el("p", { class: "quiet" }, "The subscriptions and the last events of this broker in a simulated tree of brokers, once per policy. All deliver the same."),
      el("div", { class: "row" }, brokers, "brokers", run), costs));

  async function poll() {
    try {
      draw(await get("/v1/statistics"));
    } catch { /* the page's head says that the broker does not answer */ }
    timer = setTimeout(poll, 2000);
  }

  function draw(statistics) {
    fill(picture, star(statistics));
    fill(links, statistics.links.length ? table([
      ["link", (one) => one.link], ["", (one) => (one.connected ? "up" : "down")],
      ["entries", (one) => count(one.table_entries), "n"], ["withheld", (one) => count(one.suppressed), "n"],
      ["events", (one) => count(one.events), "n"], ["needless", (one) => count(one.false_positives), "n"], ["waiting", (one) => count(one.waiting), "n"],
    ], statistics.links) : el("p", { class: "quiet" }, "It stands alone. Links are written in broker.toml: tamis serve --config broker.toml."));
  }

  async function forwarding() {
    try {
      const told = await post("/v1/explain", { id: id.value.trim() });
      fill(hidden, told.links.length ? told.links.map((one) => el("p", {}, el("b", {}, one.link), `: ${one.reason}`)) : el("p", { class: "quiet" }, "There are no links."));
    } catch (problem) {
      fill(hidden, el("p", { class: "problem" }, problem.message));
    }
  }

  async function compare() {
    run.disabled = true;
    fill(costs, el("p", { class: "quiet" }, "Running the same subscriptions and events through every policy ..."));
    try {
      const found = await post("/v1/comparison", { brokers: Number(brokers.value) });
      fill(costs, el("p", {}, `${count(found.subscriptions)} subscriptions, ${count(found.events)} events, ${found.brokers} brokers`), table([
        ["policy", (one) => one.policy], ["delivered", (one) => count(one.delivered), "n"], ["lost", (one) => count(one.lost), "n"],
        ["updates", (one) => count(one.subscription_messages), "n"], ["bytes", (one) => count(one.subscription_bytes), "n"],
        ["events", (one) => count(one.event_messages), "n"], ["needless", (one) => count(one.false_positives), "n"], ["entries", (one) => count(one.table_entries), "n"],
      ], found.policies));
    } catch (problem) {
      fill(costs, el("p", { class: "problem" }, problem.message));
    }
    run.disabled = false;
  }

  poll();
  return () => clearTimeout(timer);
}

/** The broker in the middle, its neighbours around it. */
function star({ broker, links, now }) {
  const width = 520, height = links.length ? 300 : 120, x = width / 2, y = height / 2, shapes = [];
  links.forEach((link, i) => {
    const turn = 2 * Math.PI * i / links.length - Math.PI / 2, ox = x + 190 * Math.cos(turn), oy = y + 105 * Math.sin(turn);
    shapes.push(svg("line", { x1: x, y1: y, x2: ox, y2: oy, class: link.connected ? "up" : "down" }), node(ox, oy, link.link, `${count(link.table_entries)} entries`));
  });
  return svg("svg", { class: "tree", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${broker} with ${links.length} links` },
    ...shapes, node(x, y, broker, `${count(now.subscriptions)} subscriptions`));
}

function node(x, y, name, more) {
  return svg("g", {}, svg("circle", { cx: x, cy: y, r: 12 }), svg("text", { x, y: y + 28, "text-anchor": "middle" }, name), svg("text", { x, y: y + 43, "text-anchor": "middle", class: "quiet" }, more));
}
