"""Draw the picture that opens the README: three events, five subscriptions, and who gets each event.

    python scripts/draw_overview.py

The engine decides who matches; the picture only shows it. Writes docs/overview.svg, which cycles through the events
where a viewer plays CSS animations and shows the first one elsewhere.
"""

from __future__ import annotations

import json
from html import escape
from pathlib import Path
from typing import Any

import tamis

TARGET = Path(__file__).resolve().parents[1] / "docs" / "overview.svg"

SCHEMA = tamis.Schema(
    {
        "symbol": tamis.String(),
        "price": tamis.Number(),
        "headline": tamis.String(),
        "halted": tamis.Boolean(),
        "where": tamis.Region(geodetic=True),
        "look": tamis.Vector(2),
    }
)
SUBSCRIPTIONS = {
    "alice": "symbol = 'IBM' AND price < 100",
    "bob": "price BETWEEN 50 AND 60 OR halted = TRUE",
    "carol": "headline ILIKE '%merger%'",
    "dora": "S_DWITHIN(where, POINT(13.4 52.5), 50, 'km')",
    "emil": "V_COSINE(look, (0.8, 0.6), 0.95)",
}
EVENTS: list[dict[str, Any]] = [
    {"symbol": "IBM", "price": 55, "headline": "IBM merger"},
    {"where": [13.1, 52.4], "halted": True},
    {"symbol": "ICE", "price": 120, "look": [0.9, 0.5]},
]

SECONDS = 4
WIDTH, HEIGHT = 880, 290
ROW, TOP = 40, 62

STYLE = f"""
  .page {{ fill: #ffffff; }}
  .tip {{ fill: #2f855a; }}
  text {{ font: 13px ui-monospace, Menlo, Consolas, monospace; fill: #1f2933; }}
  .title {{ font: 600 14px system-ui, sans-serif; fill: #52606d; }}
  .card {{ fill: #f5f7fa; stroke: #cbd2d9; }}
  .hit {{ fill: #d9f2e3; stroke: #2f855a; stroke-width: 1.5; }}
  .arrow {{ stroke: #2f855a; stroke-width: 1.5; fill: none; marker-end: url(#head); }}
  .scene {{ opacity: 0; animation: turn {SECONDS * len(EVENTS)}s infinite; }}
  .scene:first-of-type {{ opacity: 1; }}
  @keyframes turn {{ 0%, 31% {{ opacity: 1; }} 33.4%, 98% {{ opacity: 0; }} 100% {{ opacity: 1; }} }}
  @media (prefers-reduced-motion: reduce) {{ .scene {{ animation: none; }} }}
  @media (prefers-color-scheme: dark) {{
    .page {{ fill: #16181d; }}
    text {{ fill: #e4e7eb; }}
    .title {{ fill: #9aa5b1; }}
    .card {{ fill: #23272f; stroke: #3e4c59; }}
    .hit {{ fill: #1c4532; stroke: #68d391; }}
    .arrow {{ stroke: #68d391; }}
    .tip {{ fill: #68d391; }}
  }}
"""


def main() -> None:
    """Write the picture."""
    engine = tamis.Engine(SCHEMA)
    for id, text in SUBSCRIPTIONS.items():
        engine.subscribe(text, id=id)
    scenes = [scene(number, event, engine.match(event)) for number, event in enumerate(EVENTS)]
    TARGET.write_text(document("\n".join(scenes)), encoding="utf-8")
    print(f"wrote {TARGET}")


def document(scenes: str) -> str:
    """Return the whole picture around the scenes."""
    title = "An event on the left, subscriptions in the middle, and the subscribers that get the event on the right"
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">
<title>{title}</title>
<style>{STYLE}</style>
<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
<path class="tip" d="M0 0 8 4 0 8z"/></marker></defs>
<rect class="page" width="{WIDTH}" height="{HEIGHT}"/>
<text class="title" x="20" y="36">event</text>
<text class="title" x="285" y="36">subscriptions, millions of them</text>
<text class="title" x="775" y="36">delivered to</text>
{cards()}
{scenes}
</svg>
"""


def cards() -> str:
    """Return a card for each subscription."""
    return "\n".join(card(row, text, "card") for row, text in enumerate(SUBSCRIPTIONS.values()))


def card(row: int, text: str, kind: str) -> str:
    """Return one subscription in its row."""
    y = TOP + row * ROW
    return (
        f'<rect class="{kind}" x="285" y="{y}" width="420" height="30" rx="5"/>'
        f'<text x="297" y="{y + 20}">{escape(text)}</text>'
    )


def scene(number: int, event: dict[str, Any], matched: list[str]) -> str:
    """Return an event, the subscriptions it matches and their owners."""
    middle = TOP + ROW * len(SUBSCRIPTIONS) // 2 - 5
    lines = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in event.items()]
    top = middle - 12 * len(lines) - 6
    parts = [f'<rect class="hit" x="20" y="{top}" width="215" height="{24 * len(lines) + 14}" rx="5"/>']
    parts += [f'<text x="30" y="{top + 24 * i + 24}">{escape(line)}</text>' for i, line in enumerate(lines)]
    for row, (id, text) in enumerate(SUBSCRIPTIONS.items()):
        if id in matched:
            y = TOP + row * ROW + 15
            parts += [
                card(row, text, "hit"),
                f'<path class="arrow" d="M235 {middle} C 260 {middle} 260 {y} 282 {y}"/>',
                f'<path class="arrow" d="M705 {y} H 768"/>',
                f'<text x="777" y="{y + 5}">{id}</text>',
            ]
    return f'<g class="scene" style="animation-delay: {number * SECONDS - SECONDS * len(EVENTS)}s">{"".join(parts)}</g>'


if __name__ == "__main__":
    main()
