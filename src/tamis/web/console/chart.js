/** Two small charts in SVG: a line of values over the last time, bars of counts. Both say when they begin and end. */

import { svg } from "./dom.js";

const WIDTH = 640, HEIGHT = 144, TOP = 20, BOTTOM = 20, GROUND = HEIGHT - BOTTOM;

/** A line through {part, value}: part 0 is the left end of the time, 1 the right one. */
export function line(points, unit, [first, last]) {
  const most = Math.max(1, ...points.map(({ value }) => value));
  const places = points.map(({ part, value }) => `${(WIDTH * part).toFixed(1)},${height(value, most).toFixed(1)}`);
  return frame(`${most.toLocaleString("en-US")} ${unit}`, [first, last], [svg("polyline", { class: "line", points: places.join(" ") })],
    `${unit}: ${points.at(-1)?.value ?? 0} now`);
}

export function bars(counts, unit, [first, last]) {
  const most = Math.max(1, ...counts), step = WIDTH / Math.max(counts.length, 1);
  const shapes = counts.map((value, i) => svg("rect", {
    class: "bar", x: i * step + 1, width: Math.max(step - 2, 1), y: height(value, most), height: GROUND - height(value, most),
  }));
  return frame(`${most.toLocaleString("en-US")} ${unit}`, [first, last], shapes, `${unit}: ${counts.reduce((a, b) => a + b, 0)} in all`);
}

function height(value, most) {
  return TOP + (GROUND - TOP) * (1 - value / most);
}

/** Shapes are stretched to the width there is; letters are not: the greatest value above, the time below. */
function frame(most, [first, last], shapes, label) {
  const inner = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", width: "100%", height: "100%" },
    svg("line", { class: "axis most", x1: 0, x2: WIDTH, y1: TOP, y2: TOP }), svg("line", { class: "axis", x1: 0, x2: WIDTH, y1: GROUND, y2: GROUND }), ...shapes);
  const letters = [[0, TOP - 6, "start", most], [0, HEIGHT - 5, "start", first], ["100%", HEIGHT - 5, "end", last]]
    .map(([x, y, anchor, text]) => svg("text", { x, y: `${(100 * y / HEIGHT).toFixed(1)}%`, "text-anchor": anchor }, text));
  return svg("svg", { class: "chart", role: "img", "aria-label": `${label}; from ${first} to ${last}` }, inner, ...letters);
}
