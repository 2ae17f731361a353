"""The picture of a benchmark: events per second by system, one panel for each work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tamis.plots.canvas import new_figure
from tamis_bench.report import size_name
from tamis_bench.rows import Row

__all__ = ["draw_rates"]

#: tamis stands out, the scan is the ground, the others are told apart by shade and mark.
_LOOKS = {"ours": ("#b3261e", "o", 2.4), "scan": ("#1f1f1f", "s", 1.6)}
_OTHERS = (("#3b6ea5", "^"), ("#5a9367", "v"), ("#c98b2b", "D"), ("#7d5ba6", "P"), ("#8a8a8a", "X"))


def draw_rates(rows: Sequence[Row]) -> Any:
    """Return a figure: matching rates over the number of subscriptions, both on a log scale."""
    rates = [row for row in rows if row.what == "match" and row.rate is not None]
    works = list(dict.fromkeys(row.work for row in rates))
    systems = sorted(dict.fromkeys(row.system for row in rates), key=lambda system: (system not in _LOOKS, system))
    figure = new_figure(3.4 * max(len(works), 1), 3.6)
    panels = figure.subplots(1, max(len(works), 1), sharey=True, squeeze=False)[0]
    for panel, work in zip(panels, works, strict=False):
        _draw_work(panel, [row for row in rates if row.work == work], systems)
        panel.set_title(work)
    panels[0].set_ylabel("events per second")
    for panel in panels[:1]:
        panel.yaxis.set_major_formatter(lambda value, _: size_name(round(value)))
    handles = {line.get_label(): line for panel in panels for line in panel.get_lines()}
    figure.legend([handles[system] for system in systems], systems, loc="outside lower center", ncols=7, frameon=False)
    return figure


def _draw_work(panel: Any, rows: Sequence[Row], systems: Sequence[str]) -> None:
    sizes = sorted({row.n for row in rows})
    for number, system in enumerate(systems):
        points = sorted((row.n, row.rate) for row in rows if row.system == system and row.rate is not None)
        others = (*_OTHERS[number % len(_OTHERS)], 1.2)
        colour, mark, width = _LOOKS.get(system, others)
        if points:
            xs, ys = zip(*points, strict=True)
            panel.plot(xs, ys, color=colour, marker=mark, markersize=4, linewidth=width, label=system)
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.set_xticks(sizes, [size_name(n) for n in sizes])
    panel.minorticks_off()
    panel.set_xlabel("subscriptions")
    panel.grid(axis="y", color="#dddddd", linewidth=0.6)
    panel.spines[["top", "right"]].set_visible(False)
