/** Elements from values. Text is always a text node: nothing that comes from outside is ever read as markup. */

export function el(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "class") element.className = value;
    else if (value === true) element.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(key, value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined).map(asNode));
  return element;
}

export function svg(name, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children.flat(Infinity).map(asNode));
  return element;
}

export function fill(element, ...children) {
  element.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined).map(asNode));
  return element;
}

/** Numbers as people read them; the full one is the title. */
export function count(value) {
  return value === null || value === undefined ? "–" : Number(value).toLocaleString("en-US");
}

export function clock(microseconds) {
  return new Date(microseconds / 1000).toISOString().replace("T", " ").slice(0, 19);
}

/**
 * A table: columns are [title, cell of a row, class]. Rows that can be picked work with the keyboard, too.
 * On a narrow page a row is a block: each cell then says its title, which it has as a label. The roles keep it a table
 * for screen readers.
 */
export function table(columns, rows, pick) {
  const head = el("tr", { role: "row" }, columns.map(([title, , kind]) => el("th", { role: "columnheader", class: kind ?? "" }, title)));
  const body = rows.map((row) => {
    const cells = columns.map(([title, cell, kind]) => el("td", { role: "cell", class: kind ?? "", "data-label": title || null }, cell(row)));
    if (!pick) return el("tr", { role: "row" }, cells);
    const chosen = () => pick(row);
    return el("tr", { role: "row", class: "pick", tabindex: "0", onclick: chosen, onkeydown: (event) => event.key === "Enter" && chosen() }, cells);
  });
  return el("div", { class: "scroll", tabindex: pick ? null : "0" }, el("table", { role: "table" }, el("thead", { role: "rowgroup" }, head), el("tbody", { role: "rowgroup" }, body)));
}

function asNode(child) {
  return child instanceof Node ? child : document.createTextNode(String(child));
}
