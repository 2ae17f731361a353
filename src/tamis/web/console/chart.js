/** Two small charts in SVG: a line of the last values, bars of counts. */

import { svg } from "./dom.js";

const WIDTH = 640, HEIGHT = 144, LEFT = 46, BOTTOM = 18, TOP = 8;

export function line(values, unit) {
  const most = Math.max(1, ...values);
  const step = (WIDTH - LEFT) / Math.max(values.length - 1, 1);
  const points = values.map((value, i) => `${(LEFT + i * step).toFixed(1)},${height(value, most).toFixed(1)}`);
  return frame(most, unit, [svg("polyline", { class: "line", points: points.join(" ") })], `${values.at(-1) ?? 0} ${unit} now`);
}

export function bars(counts, unit) {
  const most = Math.max(1, ...counts);
  const step = (WIDTH - LEFT) / Math.max(counts.length, 1);
  const shapes = counts.map((value, i) => svg("rect", {
    class: "bar", x: LEFT + i * step + 1, width: Math.max(step - 2, 1), y: height(value, most), height: HEIGHT - BOTTOM - height(value, most),
  }));
  return frame(most, unit, shapes, `${counts.reduce((a, b) => a + b, 0)} in all`);
}

function height(value, most) {
  return TOP + (HEIGHT - BOTTOM - TOP) * (1 - value / most);
}

/** Shapes are stretched to the width there is; letters are not. */
function frame(most, unit, shapes, label) {
  const ground = HEIGHT - BOTTOM;
  const inner = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", width: "100%", height: "100%" },
    svg("line", { class: "axis", x1: LEFT, x2: WIDTH, y1: ground, y2: ground }), ...shapes);
  const letters = [[TOP + 10, most.toLocaleString("en-US")], [ground, "0"], [HEIGHT - 3, unit]]
    .map(([y, text]) => svg("text", { x: 2, y: `${(100 * y / HEIGHT).toFixed(1)}%` }, text));
  return svg("svg", { class: "chart", role: "img", "aria-label": label }, inner, ...letters);
}
