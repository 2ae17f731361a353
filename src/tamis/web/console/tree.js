/**
 * Trees in SVG: brokers with what their links carry, or the seats of peers, level by level.
 *
 * A tree is drawn for the width there is, one unit to the pixel, so that letters keep their size. It stands upright where
 * its leaves have room side by side; otherwise it is a list, a row for each node and its children indented below it.
 */

import { count, svg } from "./dom.js";

const ROW = 78, SIDE = 40, INDENT = 26, LINE = 30, LETTER = 6.6;

/** Widths: of a leaf with a name, of a leaf whose link has numbers, and the least one at which peers stand upright. */
const NAMED = 48, NUMBERED = 104, UPRIGHT = 640;

/** A tree of brokers; links are {source, target, table_entries, events}, one for each direction. */
export function brokerTree(links, width) {
  const neighbours = new Map(), byEnds = new Map(links.map((link) => [`${link.source} ${link.target}`, link]));
  for (const { source, target } of links) neighbours.set(source, [...(neighbours.get(source) ?? []), target]);
  const tree = layout([...neighbours.keys()][0], (name, from) => neighbours.get(name).filter((neighbour) => neighbour !== from), (name) => name, width, (leaves) => leaves * NAMED <= width);
  const most = Math.max(1, ...links.map((link) => link.events)), shapes = [], labels = [];
  for (const { node: name, parent, x, y, isLeaf } of tree.places.values()) { // upright, the name of a leaf is below it
    if (parent) {
      const down = byEnds.get(`${parent.node} ${name}`), up = byEnds.get(`${name} ${parent.node}`);
      const title = `${parent.node} and ${name}: ${count(down.events)} events down, ${count(up.events)} up; ${count(down.table_entries)} and ${count(up.table_entries)} entries`;
      shapes.unshift(...edge(tree, parent, { x, y }, { class: "up", "stroke-width": (1 + 6 * Math.max(down.events, up.events) / most).toFixed(1) }, title));
      labels.push(...traffic(tree, parent, { x, y }, name, `↓ ${count(down.events)}  ↑ ${count(up.events)}`));
    }
    shapes.push(svg("g", { "data-node": name }, svg("circle", { cx: x, cy: y, r: 9 }), nameOf(tree, x, y, name, isLeaf && tree.upright ? -22 : 14)));
  }
  return frame(tree, [...shapes, ...labels], `A tree of ${tree.places.size} brokers`);
}

/** A tree of peers; a seat is {name, parent, children: [names at level 1, at level 2, ...]}. */
export function peerTree(seats, width) {
  const byName = new Map(seats.map((seat) => [seat.name, seat])), roots = seats.filter((seat) => seat.parent === null);
  const key = ({ name, level }) => `${name} ${level}`;
  const below = ({ name, level }) => (level ? byName.get(name).children[level - 1] : []).filter((child) => byName.has(child)).map((child) => ({ name: child, level: level - 1 }));
  const root = roots.reduce((a, b) => (b.children.length > a.children.length ? b : a));
  const tree = layout({ name: root.name, level: root.children.length }, below, key, width, () => width >= UPRIGHT), shapes = [], ends = new Map();
  for (const { x, y, node, parent } of tree.places.values()) {
    if (parent) shapes.unshift(...edge(tree, parent, { x, y }, { class: parent.node.name === node.name ? "own" : "child" }));
    shapes.push(svg("circle", { cx: x, cy: y, r: node.level ? 7 : 4, class: `level-${Math.min(node.level, 3)}`, "data-seat": node.name }, svg("title", {}, `${node.name}, level ${node.level}`)));
    const name = node.name.split("/")[0], half = LETTER * name.length / 2 + 2;
    // Upright, a name stands only where the one before it on its level leaves room.
    if (tree.upright && (!node.level || x - half < (ends.get(y) ?? 0))) continue;
    ends.set(y, x + half);
    shapes.push(nameOf(tree, x, y, name, 11));
  }
  return frame(tree, shapes, `A tree of ${seats.length} seats, ${root.children.length + 1} levels`);
}

/** Places of all nodes by key: {x, y, node, parent}, parents first. `fits` says whether a number of leaves fits side by side. */
function layout(root, below, key, width, fits) {
  const order = [];
  let leaves = 0;
  const visit = (node, from, parent, depth) => {
    const place = { node, parent, depth, row: order.length, x: 0, y: 0 };
    order.push(place);
    const children = below(node, from).map((child) => visit(child, node, place, depth + 1));
    place.isLeaf = !children.length;
    place.at = children.length ? (children[0].at + children.at(-1).at) / 2 : leaves++;
    return place;
  };
  visit(root, null, null, 0);
  const upright = fits(leaves), inner = width - 2 * SIDE;
  for (const position of order) {
    position.x = !upright ? 12 + position.depth * INDENT : leaves > 1 ? SIDE + position.at * inner / (leaves - 1) : width / 2;
    position.y = upright ? 30 + position.depth * ROW : 16 + position.row * LINE;
  }
  return { places: new Map(order.map((position) => [key(position.node), position])), upright, width, leaves };
}

/** A line from a node to its child; in a list down along the parent and then across. */
function edge({ upright }, from, to, attributes, words) {
  const title = words ? [svg("title", {}, words)] : [];
  if (upright) return [svg("line", { x1: from.x, y1: from.y, x2: to.x, y2: to.y, ...attributes }, ...title)];
  return [svg("line", { x1: from.x, y1: from.y, x2: from.x, y2: to.y, class: "trunk" }), svg("line", { x1: from.x, y1: to.y, x2: to.x, y2: to.y, ...attributes }, ...title)];
}

function nameOf({ upright }, x, y, name, away) {
  return svg("text", upright ? { x, y: y - away, "text-anchor": "middle" } : { x: x + away, y: y + 4 }, name);
}

/** What a link carried: on a ground of its own across the line, where there is room; in a list behind the name. */
function traffic({ upright, leaves, width }, from, to, name, text) {
  if (!upright) return [svg("text", { class: "quiet", x: to.x + 22 + LETTER * 1.25 * name.length, y: to.y + 4 }, text)];
  if (leaves * NUMBERED > width) return [];
  const x = from.x + .55 * (to.x - from.x), y = from.y + .55 * (to.y - from.y), half = LETTER * text.length / 2 + 5;
  return [svg("rect", { x: x - half, y: y - 10, width: 2 * half, height: 20, rx: 5 }), svg("text", { class: "quiet", x, y: y + 4, "text-anchor": "middle" }, text)];
}

function frame({ places, width }, shapes, label) {
  const height = Math.max(...[...places.values()].map(({ y }) => y)) + 26;
  return svg("svg", { class: "tree", width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label }, ...shapes);
}
