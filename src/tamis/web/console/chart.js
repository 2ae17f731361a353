/** Two small charts in SVG: a line of the last values, bars of counts. */

import { svg } from "./dom.js";

const WIDTH = 640, HEIGHT = 150, LEFT = 46, BOTTOM = 18, TOP = 8;

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

function frame(most, unit, shapes, label) {
  const ground = HEIGHT - BOTTOM;
  return svg("svg", { class: "chart", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label },
    svg("line", { class: "axis", x1: LEFT, x2: WIDTH, y1: ground, y2: ground }),
    svg("text", { x: 2, y: TOP + 10 }, most.toLocaleString("en-US")),
    svg("text", { x: 2, y: ground }, "0"),
    svg("text", { x: LEFT, y: HEIGHT - 3 }, unit),
    ...shapes);
}
