/** The map: outlines without tiles, events as dots, a region that is drawn by clicking its corners, or with keys. */

const POINT = /^POINT\s*\(\s*(-?[\d.eE+]+)\s+(-?[\d.eE+]+)\s*\)$/;
const POLYGON = /POLYGON\s*\(\(([^()]*)\)/g;

/** Regions that are drawn for one event or its subscriptions: more would slow the page down. */
const MOST_REGIONS = 100;
let outlines = null;

/** The outer rings of all polygons in a text, as places; a text without any gives none. */
export function regionsIn(text) {
  return [...text.matchAll(POLYGON)].map(([, ring]) => ring.split(",").map((corner) => corner.trim().split(/\s+/).map(Number)))
    .filter((ring) => ring.every((corner) => corner.length >= 2 && corner.every(Number.isFinite)))
    .map((ring) => ring.map(([lon, lat]) => [lat, lon]));
}

/** Where an event lies: the first attribute that is a point, or lon and lat. */
export function placeOf(event) {
  for (const value of Object.values(event)) {
    const point = typeof value === "string" && value.length < 100 ? POINT.exec(value) : null;
    if (point) return [Number(point[2]), Number(point[1])];
  }
  const { lon, lat } = event;
  return Number.isFinite(lon) && Number.isFinite(lat) ? [lat, lon] : null;
}

export class WorldMap {
  constructor(element) {
    const L = globalThis.L;
    this.L = L;
    this.map = L.map(element, { worldCopyJump: false, minZoom: 1, maxZoom: 12, keyboard: true }).setView([25, -100], 2);
    this.map.attributionControl.setPrefix(false).addAttribution("Natural Earth, U.S. Census Bureau");
    this.areas = L.layerGroup().addTo(this.map);
    this.marked = L.layerGroup().addTo(this.map);
    this.dots = L.layerGroup().addTo(this.map);
    this.fitted = false;
    this.shape = L.layerGroup().addTo(this.map);
    this.corners = null;
    const style = getComputedStyle(document.documentElement);
    [this.dot, this.line] = ["--dot", "--accent"].map((name) => style.getPropertyValue(name));
    this.map.on("click", (event) => this.corners && this.addCorner(event.latlng));
    element.addEventListener("keydown", (event) => this.corners && event.target === element && this.drawByKey(event));
    this.base();
  }

  async base() {
    outlines ??= (await fetch("/console/world.geojson")).json();
    const style = getComputedStyle(document.documentElement);
    const land = style.getPropertyValue("--land"), border = style.getPropertyValue("--line");
    this.L.geoJSON(await outlines, { style: { color: border, weight: 1, fillColor: land, fillOpacity: 1 }, interactive: false })
      .addTo(this.map).bringToBack();
  }

  /** Show events: {id, event}; picked by a click. The first events that have a place decide what part of the world is seen. */
  show(events, pick) {
    this.dots.clearLayers();
    this.areas.clearLayers();
    const places = [];
    for (const delivery of events) {
      const place = placeOf(delivery.event);
      if (!place) continue;
      places.push(place);
      const dot = this.L.circleMarker(place, { radius: 5, color: this.dot, weight: 1, fillOpacity: .6 }).addTo(this.dots);
      if (pick) dot.on("click", () => pick(delivery));
    }
    const regions = events.flatMap(({ event }) => Object.values(event).flatMap((value) => (typeof value === "string" ? regionsIn(value) : [])));
    for (const ring of regions.slice(0, MOST_REGIONS)) this.L.polygon(ring, { color: this.dot, weight: 1, opacity: .35, fillOpacity: .04, interactive: false }).addTo(this.areas);
    if (!this.fitted && !this.corners && places.length) {
      this.fitted = true;
      this.map.fitBounds(places, { maxZoom: 5, padding: [20, 20], animate: false });
    }
  }

  /** Mark the regions that filters name, and nothing else. */
  mark(filters) {
    this.marked.clearLayers();
    for (const ring of filters.flatMap(regionsIn).slice(0, MOST_REGIONS)) this.L.polygon(ring, { color: this.line, weight: 1, fillOpacity: .35, interactive: false }).addTo(this.marked);
  }

  draw(changed) {
    this.corners = [];
    this.changed = changed;
    this.shape.clearLayers();
    const container = this.map.getContainer();
    container.classList.add("drawing");
    container.focus({ preventScroll: true });
  }

  /** Arrow keys move the map itself; Enter sets a corner at its centre, and Backspace removes the last one. */
  drawByKey(event) {
    if (event.key === "Enter") this.addCorner(this.map.getCenter());
    else if (event.key === "Backspace") this.removeCorner();
    else return;
    event.preventDefault();
  }

  addCorner(place) {
    this.corners.push([place.lat, place.lng]);
    this.redraw();
  }

  removeCorner() {
    this.corners.pop();
    this.redraw();
  }

  redraw() {
    this.shape.clearLayers();
    this.L.polygon(this.corners, { color: this.line, weight: 2 }).addTo(this.shape);
    for (const corner of this.corners) this.L.circleMarker(corner, { radius: 4, color: this.line }).addTo(this.shape);
    this.changed(this.corners.length);
  }

  /** Return the drawn region as WKT, longitude first; null when it has fewer than three corners. */
  finish() {
    const corners = this.corners ?? [];
    this.corners = null;
    this.map.getContainer().classList.remove("drawing");
    if (corners.length < 3) return null;
    const text = [...corners, corners[0]].map(([lat, lon]) => `${lon.toFixed(4)} ${lat.toFixed(4)}`);
    return `POLYGON((${text.join(", ")}))`;
  }

  remove() {
    this.map.remove();
  }
}
