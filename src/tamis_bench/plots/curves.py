"""The picture of insertion: microseconds per subscription over the size of the table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tamis.plots.canvas import new_figure
from tamis_bench.report import size_name
from tamis_bench.rows import Row

__all__ = ["draw_insertion"]

#: One colour for each number of dimensions; zipf is dashed.
_COLOURS = {"2-d": "#b3261e", "3-d": "#3b6ea5", "4-d": "#5a9367"}


def draw_insertion(rows: Sequence[Row]) -> Any:
    """Return a figure: the time to insert one subscription, by dimensions and distribution."""
    times = [row for row in rows if row.what == "insertion" and row.rate is not None]
    figure = new_figure(5.2, 3.6)
    panel = figure.subplots()
    for work in dict.fromkeys(row.work for row in times):
        points = sorted((row.n, row.rate) for row in times if row.work == work and row.rate is not None)
        xs, ys = zip(*points, strict=True)
        colour = next((colour for name, colour in _COLOURS.items() if name in work), "#8a8a8a")
        panel.plot(xs, ys, color=colour, marker="o", markersize=4, ls="--" if "zipf" in work else "-", label=work)
    sizes = sorted({row.n for row in times})
    panel.set_xscale("log")
    panel.set_xticks(sizes, [size_name(n) for n in sizes])
    panel.minorticks_off()
    panel.set_ylim(bottom=0)
    panel.set_xlabel("subscriptions in the table")
    panel.set_ylabel("microseconds to insert one")
    panel.grid(axis="y", color="#dddddd", linewidth=0.6)
    panel.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    return figure
