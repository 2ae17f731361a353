/** Trees in SVG: brokers with what their links carry, or the seats of peers, level by level. */

import { count, svg } from "./dom.js";

const WIDTH = 900, ROW = 74, SIDE = 46;

/** A tree of brokers; links are {source, target, table_entries, events}, one for each direction. */
export function brokerTree(links) {
  const neighbours = new Map();
  for (const { source, target } of links) neighbours.set(source, [...(neighbours.get(source) ?? []), target]);
  const places = layout([...neighbours.keys()][0], (name, from) => neighbours.get(name).filter((one) => one !== from), (name) => name);
  const most = Math.max(1, ...links.map((link) => link.events)), few = neighbours.size <= 15, lines = [];
  for (const link of links) {
    const back = links.find((one) => one.source === link.target && one.target === link.source), a = places.get(link.source), b = places.get(link.target);
    if (a.y > b.y) continue; // once for each pair
    const told = `${link.source} and ${link.target}: ${count(link.events)} events down, ${count(back.events)} up; ${count(link.table_entries)} and ${count(back.table_entries)} entries`;
    lines.push(svg("line", { x1: a.x, y1: a.y, x2: b.x, y2: b.y, class: "up", "stroke-width": (1 + 6 * Math.max(link.events, back.events) / most).toFixed(1) }, svg("title", {}, told)));
    if (few) lines.push(svg("text", { class: "quiet", x: (a.x + b.x) / 2 + 6, y: (a.y + b.y) / 2 }, `↓${count(link.events)} ↑${count(back.events)}`));
  }
  const dots = [...places].map(([name, { x, y }]) => svg("g", { "data-node": name }, svg("circle", { cx: x, cy: y, r: 10 }), svg("text", { x, y: y - 15, "text-anchor": "middle" }, name)));
  return frame(places, [...lines, ...dots], `A tree of ${places.size} brokers`);
}

/** A tree of peers; a seat is {name, parent, children: [names at level 1, at level 2, ...]}. */
export function peerTree(seats) {
  const byName = new Map(seats.map((seat) => [seat.name, seat])), roots = seats.filter((seat) => seat.parent === null);
  const key = ({ name, level }) => `${name} ${level}`;
  const below = ({ name, level }) => (level ? byName.get(name).children[level - 1] : []).filter((child) => byName.has(child)).map((child) => ({ name: child, level: level - 1 }));
  const root = roots.reduce((a, b) => (b.children.length > a.children.length ? b : a));
  const places = layout({ name: root.name, level: root.children.length }, below, key), lines = [], dots = [];
  for (const { x, y, node } of places.values()) {
    for (const child of below(node)) {
      const to = places.get(key(child));
      lines.push(svg("line", { x1: x, y1: y, x2: to.x, y2: to.y, class: child.name === node.name ? "own" : "child" }));
    }
    dots.push(svg("circle", { cx: x, cy: y, r: node.level ? 7 : 4, class: `level-${Math.min(node.level, 3)}`, "data-seat": node.name }, svg("title", {}, `${node.name}, level ${node.level}`)));
    if (node.level) dots.push(svg("text", { x, y: y - 11, "text-anchor": "middle" }, node.name.split("/")[0]));
  }
  return frame(places, [...lines, ...dots], `A tree of ${seats.length} seats, ${root.children.length + 1} levels`);
}

/** Leaves stand side by side in the order of the tree; a node stands over the middle of its children. */
function layout(root, below, key) {
  const places = new Map();
  let next = 0;
  const place = (node, from, depth) => {
    const xs = below(node, from).map((child) => place(child, node, depth + 1));
    const x = xs.length ? (xs[0] + xs.at(-1)) / 2 : next++;
    places.set(key(node), { x, y: depth, node });
    return x;
  };
  place(root, null, 0);
  for (const one of places.values()) {
    one.x = next > 1 ? SIDE + one.x * (WIDTH - 2 * SIDE) / (next - 1) : WIDTH / 2;
    one.y = 34 + one.y * ROW;
  }
  return places;
}

function frame(places, shapes, label) {
  const height = Math.max(...[...places.values()].map(({ y }) => y)) + 24;
  return svg("svg", { class: "tree", viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-label": label }, ...shapes);
}
