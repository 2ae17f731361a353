/** Network: this broker and its links with table sizes and traffic; what other policies would cost; who stands for whom. */

import { get, post } from "./api.js";
import { count, el, fill, svg, table } from "./dom.js";
import { brokerTree, peerTree } from "./tree.js";

/** What the policies of the comparison are, in a few words. */
const MEANS = { flood: "no tables: every event goes everywhere", every: "covering off: every subscription is announced", covering: "covering on", merging: "covering on, and filters joined", drtree: "no brokers: peers in a distributed R-tree" };

export function networkView(view) {
  const picture = el("div"), links = el("div"), costs = el("div", { id: "comparison" }), hidden = el("div", { id: "forwarding" });
  const chosen = el("div", { id: "chosen-policy", role: "status" });
  const id = el("input", { "aria-label": "Subscription", placeholder: "id of a subscription" });
  const brokers = el("input", { type: "number", min: 2, max: 31, value: 7, "aria-label": "Brokers" });
  const policies = el("input", { "aria-label": "Policies", size: 48, placeholder: "covering zcurve:epsilon=0.1,bits=8 mics:axes=2", title: "Policies with options, separated by spaces; the usual ones when empty. tamis tune --options lists all options." });
  const run = el("button", { class: "act main", onclick: compare }, "Compare policies");
  let timer = 0, shown = null;
  fill(hidden, el("p", { class: "quiet" }, "For each link: whether a subscription was announced to the neighbour, and if not, which announced one covers it."));
  fill(view, el("div", { class: "columns" },
    el("section", { class: "panel" }, el("h2", {}, "This broker and its links"), picture, links),
    el("section", { class: "panel" }, el("h2", {}, "Why was it not forwarded?"),
      el("div", { class: "row" }, id, el("button", { class: "act", onclick: forwarding }, "Look")), hidden)),
    el("p"),
    el("section", { class: "panel" }, el("h2", {}, "What a network would cost"),
      el("p", { class: "quiet" }, "The subscriptions and the last events of this broker in a simulated network, once per policy. All deliver the same. Choose a row to see its tree."),
      el("div", { class: "row" }, brokers, "brokers", policies, run), costs, chosen));

  async function poll() {
    try {
      draw(await get("/v1/statistics"));
    } catch { /* the page's head says that the broker does not answer */ }
    timer = setTimeout(poll, 2000);
  }

  function draw(statistics) {
    fill(picture, star(statistics, roomIn(picture)));
    fill(links, statistics.links.length ? table([
      ["link", (link) => link.link], ["policy", (link) => link.policy], ["state", (link) => (link.connected ? "up" : "down")],
      ["entries", (link) => count(link.table_entries), "n"], ["withheld", (link) => count(link.suppressed), "n"],
      ["events", (link) => count(link.events), "n"], ["needless", (link) => count(link.false_positives), "n"], ["waiting", (link) => count(link.waiting), "n"],
    ], statistics.links) : el("p", { class: "quiet" }, "This broker has no links. Configure them in broker.toml: tamis serve --config broker.toml."));
  }

  async function forwarding() {
    try {
      const explanation = await post("/v1/explain", { id: id.value.trim() });
      fill(hidden, explanation.links.length ? explanation.links.map((link) => el("p", {}, el("b", {}, link.link), `: ${link.reason}`)) : el("p", { class: "quiet" }, "There are no links."));
    } catch (problem) {
      fill(hidden, el("p", { class: "problem" }, problem.message));
    }
  }

  async function compare() {
    run.disabled = true;
    shown = null;
    fill(chosen);
    fill(costs, el("p", { class: "quiet" }, "Running the same subscriptions and events through every policy; the broker keeps running. This takes some seconds ..."));
    try {
      const named = policies.value.split(/\s+/).filter(Boolean);
      const comparison = await post("/v1/comparison", { brokers: Number(brokers.value), ...(named.length ? { policies: named } : {}) });
      fill(costs, el("p", {}, `${count(comparison.subscriptions)} subscriptions, ${count(comparison.events)} events, ${comparison.brokers} brokers`), table([
        ["policy", (policy) => policy.policy], ["meaning", (policy) => MEANS[policy.policy] ?? "", "means"], ["delivered", (policy) => count(policy.delivered), "n"], ["lost", (policy) => count(policy.lost), "n"],
        ["updates", (policy) => count(policy.subscription_messages), "n"], ["bytes", (policy) => count(policy.subscription_bytes), "n"],
        ["events", (policy) => count(policy.event_messages), "n"], ["needless", (policy) => count(policy.false_positives), "n"], ["entries", (policy) => count(policy.table_entries), "n"],
      ], comparison.policies, showPolicy), saved(comparison.policies));
      showPolicy(comparison.policies.find((policy) => policy.policy === "covering") ?? comparison.policies[0]);
    } catch (problem) {
      fill(costs, el("p", { class: "problem" }, problem.message));
    }
    run.disabled = false;
  }

  /** The tree of one policy, what each of its links carried, and which subscriptions were not announced because others cover them. */
  function showPolicy(policy) {
    shown = policy;
    const room = roomIn(chosen);
    const because = policy.links.flatMap((link) => link.because.map((withheld) => ({ ...withheld, link: `${link.source} to ${link.target}` })));
    fill(chosen, el("h3", {}, `The tree of ${policy.policy}`),
      el("div", { class: "scroll" }, policy.seats.length ? peerTree(policy.seats, room) : brokerTree(policy.links, room)),
      el("p", { class: "quiet" }, policy.seats.length ? "A dot at the bottom is a subscription of a client; a node above belongs to one of those below it (the thick line); its box contains all of theirs." : "A line is as thick as the events it carried: ↓ away from the first broker, ↑ towards it."),
      policy.links.length ? table([
        ["link", (link) => `${link.source} to ${link.target}`], ["updates", (link) => count(link.updates), "n"], ["entries", (link) => count(link.table_entries), "n"],
        ["withheld", (link) => count(link.withheld), "n"], ["events", (link) => count(link.events), "n"], ["needless", (link) => count(link.false_positives), "n"],
      ], policy.links) : null,
      because.length ? [el("h3", {}, "Not announced, because another subscription covers it"), table([
        ["subscription", (withheld) => withheld.id], ["link", (withheld) => withheld.link, "short"], ["covered by", (withheld) => withheld.covered_by.join(", ")],
      ], because)] : null);
  }

  const redraw = () => shown && showPolicy(shown);
  addEventListener("resize", redraw);
  poll();
  return () => { clearTimeout(timer); removeEventListener("resize", redraw); };
}

/** What covering spares, in a sentence. */
function saved(policies) {
  const off = policies.find((policy) => policy.policy === "every"), on = policies.find((policy) => policy.policy === "covering");
  if (!off || !on || !off.subscription_messages) return null;
  const part = Math.round(100 * (1 - on.subscription_messages / off.subscription_messages));
  return el("p", { id: "saved" }, `Covering on: ${count(on.subscription_messages)} updates instead of ${count(off.subscription_messages)}, ${part} % fewer, and ${count(on.table_entries)} table entries instead of ${count(off.table_entries)}.`);
}

/** The width that a picture can have in an element, in pixels; what scrolls beside it is not taken. */
function roomIn(element) {
  return Math.max(240, Math.floor(element.clientWidth) - 16);
}

/** The broker in the middle, its neighbours around it. */
function star({ broker, links, now }, width) {
  const height = links.length ? 300 : 80, x = width / 2, y = links.length ? height / 2 - 12 : 20, shapes = [];
  links.forEach((link, i) => {
    const turn = 2 * Math.PI * i / links.length - (links.length === 2 ? Math.PI : Math.PI / 2), ox = x + (width / 2 - 60) * Math.cos(turn), oy = y + 105 * Math.sin(turn);
    shapes.push(svg("line", { x1: x, y1: y, x2: ox, y2: oy, class: link.connected ? "up" : "down" }), node(ox, oy, link.link, `${count(link.table_entries)} entries`));
  });
  return svg("svg", { class: "tree", width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${broker} with ${links.length} links` },
    ...shapes, node(x, y, broker, `${count(now.subscriptions)} subscriptions`));
}

function node(x, y, name, more) {
  const short = name.length > 18 ? `${name.slice(0, 17)}…` : name;
  return svg("g", {}, svg("title", {}, name), svg("circle", { cx: x, cy: y, r: 12 }), svg("text", { x, y: y + 28, "text-anchor": "middle" }, short), svg("text", { x, y: y + 44, "text-anchor": "middle", class: "quiet" }, more));
}
