"use strict";
// A map in one file: outlines, dots, and the subscriptions that match. Text is always a text node.
const { events, subscriptions, outlines } = JSON.parse(document.getElementById("data").textContent);
const at = (id) => document.getElementById(id);
const whole = [-180, -84, 360, 150];
let view = [...whole], chosenEvent = null;

function el(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

function shape(name, attributes) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
}

/** North is up, longitude and latitude are drawn as they are. */
const outline = (rings) => rings.map((ring) => `M${ring.map(([lon, lat]) => `${lon} ${-lat}`).join("L")}Z`).join("");

const map = shape("svg", { role: "img", "aria-label": `Map of ${events.length} events`, preserveAspectRatio: "xMidYMid meet" });
const chosenRegions = shape("g", {}), scale = innerWidth < 600 ? .6 : 1;
map.append(shape("path", { class: "land", d: outline(outlines) }), chosenRegions);
// A line of no length with round ends is a dot whose size does not change with the map.
const dots = events.map((event, row) => {
  const dot = shape("path", { class: "dot", d: `M${event.lon} ${-event.lat}h0`, "stroke-width": event.size * scale });
  dot.addEventListener("click", () => showEvent(row));
  map.append(dot);
  return dot;
});
at("frame").append(map);
look(view);

function look(box) {
  view = box;
  map.setAttribute("viewBox", box.join(" "));
}

/** Change the scale and keep the place (x, y), in degrees, where it is. */
function zoom(factor, x = view[0] + view[2] / 2, y = view[1] + view[3] / 2) {
  const width = Math.min(360, Math.max(1, view[2] * factor)), part = width / view[2];
  look([x - (x - view[0]) * part, y - (y - view[1]) * part, width, view[3] * part]);
}

/** Show these places, some room around them, and not less than ten degrees. */
function lookAt(places) {
  const lons = places.map(([lon]) => lon), lats = places.map(([, lat]) => -lat);
  const west = Math.min(...lons), east = Math.max(...lons), north = Math.min(...lats), south = Math.max(...lats);
  const width = Math.min(360, 1.6 * Math.max(10, east - west)), height = Math.min(150, 1.6 * Math.max(10, south - north));
  look([(west + east - width) / 2, (north + south - height) / 2, width, height]);
}

function degrees(event) {
  const place = new DOMPoint(event.clientX, event.clientY).matrixTransform(map.getScreenCTM().inverse());
  return [place.x, place.y];
}

map.addEventListener("wheel", (event) => { event.preventDefault(); zoom(event.deltaY > 0 ? 1.25 : .8, ...degrees(event)); }, { passive: false });
let grip = null;
map.addEventListener("pointerdown", (event) => { grip = degrees(event); });
map.addEventListener("pointermove", (event) => {
  if (!grip || !event.buttons) return;
  const [x, y] = degrees(event);
  look([view[0] - x + grip[0], view[1] - y + grip[1], view[2], view[3]]);
});
addEventListener("pointerup", () => { grip = null; });
at("closer").addEventListener("click", () => zoom(.6));
at("farther").addEventListener("click", () => zoom(1 / .6));
at("whole").addEventListener("click", () => look([...whole]));

const matches = subscriptions.reduce((sum, subscription) => sum + subscription.rows.length, 0);
const wanted = new Set(subscriptions.flatMap((subscription) => subscription.rows));
at("numbers").dataset.matches = matches;
at("numbers").append(`${events.length.toLocaleString("en-US")} events, ${subscriptions.length} subscriptions: ${matches.toLocaleString("en-US")} matches. ${wanted.size.toLocaleString("en-US")} of the events match a subscription.`);

const buttons = subscriptions.map((subscription) => {
  const button = el("button", { "aria-pressed": "false", "data-id": subscription.id, "data-matches": subscription.rows.length },
    el("span", {}, String(subscription.id)), el("span", {}, subscription.rows.length.toLocaleString("en-US")));
  button.addEventListener("click", () => choose(subscription));
  at("subscriptions").append(el("li", {}, button));
  return button;
});
at("all").addEventListener("click", () => choose(null));
at("search").addEventListener("input", () => {
  const text = at("search").value.toLowerCase();
  subscriptions.forEach((subscription, i) => { buttons[i].parentElement.hidden = !`${subscription.id} ${subscription.filter}`.toLowerCase().includes(text); });
});

/** Show the events that a subscription matches; null shows those that any subscription matches. */
function choose(subscription) {
  const rows = subscription ? new Set(subscription.rows) : wanted;
  dots.forEach((dot, row) => dot.classList.toggle("rest", !rows.has(row)));
  buttons.forEach((button, i) => button.setAttribute("aria-pressed", subscriptions[i] === subscription));
  map.append(...dots.filter((_, row) => rows.has(row))); // over the others
  const regions = subscription?.regions ?? [];
  chosenRegions.replaceChildren(...regions.map((rings) => shape("path", { class: "asked", d: outline(rings) })));
  if (regions.length) lookAt(regions.flat(2));
  at("filter").replaceChildren(subscription ? subscription.filter : "");
}

function showEvent(row) {
  dots[chosenEvent]?.classList.remove("chosen");
  chosenEvent = row;
  dots[row].classList.add("chosen");
  const facts = Object.entries(events[row].facts).flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, String(value))]);
  const matching = subscriptions.filter((subscription) => subscription.rows.includes(row));
  const links = matching.map((subscription) => {
    const button = el("button", {}, String(subscription.id));
    button.addEventListener("click", () => choose(subscription));
    return button;
  });
  at("event").replaceChildren(el("dl", {}, ...facts),
    el("p", { id: "asked", "data-count": matching.length }, matching.length ? `It matches ${matching.length}:` : "It matches no subscription."), el("p", { class: "row" }, ...links));
}

choose(null);
