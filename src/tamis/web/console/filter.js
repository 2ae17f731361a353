/** A field for a filter: tried while it is written, with the place of a mistake under the text. */

import { post } from "./api.js";
import { el, fill } from "./dom.js";

export function filterField(text, tried) {
  const area = el("textarea", { rows: 4, spellcheck: "false", "aria-label": "Filter", placeholder: "A condition on the attributes of events: price < 10 AND name LIKE 'A%'" });
  const problem = el("div", { class: "problem", role: "status", "aria-live": "polite" });
  let timer = 0, latest = 0, asking = new AbortController();
  area.value = text;

  async function check() {
    const number = ++latest, filter = area.value.trim();
    asking.abort(); // the former answer is no longer needed
    asking = new AbortController();
    if (!filter) {
      fill(problem);
      return tried(null);
    }
    try {
      const answer = await post("/v1/trial", { filter, covering: false }, asking.signal);
      if (number !== latest) return;
      fill(problem);
      tried(answer);
      const whole = await post("/v1/trial", { filter }, asking.signal);
      if (number === latest) tried(whole);
    } catch (failure) {
      if (number !== latest) return;
      show(failure);
      tried(null);
    }
  }

  /** Show what is wrong, and offer the text that was probably meant. */
  function show(failure) {
    const use = () => { area.value = failure.corrected; check(); area.focus(); };
    fill(problem, failure.message, failure.corrected ? el("button", { type: "button", onclick: use }, "Use this text") : null);
  }

  area.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(check, 250); });
  return {
    element: el("div", {}, area, problem),
    get value() { return area.value.trim(); },
    set value(text) { area.value = text; check(); },
    show,
    check,
  };
}
