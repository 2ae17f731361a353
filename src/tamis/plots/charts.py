"""Charts as data: which columns of some rows to draw, and how. The picture needs the rows and the chart, nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tamis.plots.canvas import new_figure

__all__ = ["Chart", "Row", "draw_chart", "where"]

Row = Mapping[str, Any]

#: Told apart by people who do not see red and green, too.
_COLOURS = ("#3b6ea5", "#b3261e", "#5a9367", "#8a6bbe", "#c98a1b", "#4f4f4f", "#2aa1a1", "#a14d7f")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")


@dataclass(frozen=True)
class Chart:
    """A line per combination of the ``series`` columns, a panel per value of ``panels``; ``only`` chooses rows."""

    title: str
    x: str
    y: str
    series: tuple[str, ...] = ()
    panels: str | None = None
    only: Mapping[str, Any] = field(default_factory=dict)
    log_x: bool = False
    log_y: bool = False
    x_label: str = ""
    y_label: str = ""


def where(rows: Sequence[Row], **wanted: Any) -> list[Row]:
    """Return the rows with these values; a list or tuple means any of its values.

    >>> where([{"d": 2}, {"d": 3}, {"k": 1}], d=(3, 4))
    [{'d': 3}]
    """
    return [row for row in rows if all(name in row and _fits(row[name], value) for name, value in wanted.items())]


def _fits(value: Any, wanted: Any) -> bool:
    return value in wanted if isinstance(wanted, list | tuple) else bool(value == wanted)


def draw_chart(rows: Sequence[Row], chart: Chart) -> Any:
    """Return a figure of a chart; values of one series at one x are averaged."""
    chosen = [row for row in where(rows, **chart.only) if row.get(chart.x) is not None and row.get(chart.y) is not None]
    panels = sorted({row[chart.panels] for row in chosen}) if chart.panels else [None]
    figure = new_figure(4.4 * max(1, len(panels)) + 0.6, 4.0)
    figure.suptitle(chart.title, fontsize=10)
    names = sorted({_series(row, chart) for row in chosen}, key=str)
    styles = {name: i for i, name in enumerate(names)}
    for panel, value in zip(figure.subplots(1, len(panels), squeeze=False, sharey=True)[0], panels, strict=True):
        inside = chosen if value is None else where(chosen, **{str(chart.panels): value})
        _draw_lines(panel, inside, chart, styles)
        panel.set_title("" if value is None else f"{chart.panels} = {value}", fontsize=9)
    handles = {
        label: line for panel in figure.axes for line, label in zip(*panel.get_legend_handles_labels(), strict=True)
    }
    if chart.series:
        figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=4, frameon=False, fontsize=8)
    return figure


def _series(row: Row, chart: Chart) -> tuple[Any, ...]:
    return tuple(row.get(name) for name in chart.series)


def _draw_lines(panel: Any, rows: Sequence[Row], chart: Chart, styles: Mapping[tuple[Any, ...], int]) -> None:
    for name in sorted({_series(row, chart) for row in rows}, key=str):
        points: dict[Any, list[float]] = {}
        for row in rows:
            if _series(row, chart) == name:
                points.setdefault(row[chart.x], []).append(float(row[chart.y]))
        xs = sorted(points)
        ys = [sum(points[x]) / len(points[x]) for x in xs]
        style, label = styles[name], ", ".join(_label(*pair) for pair in zip(chart.series, name, strict=True))
        colour, marker = _COLOURS[style % len(_COLOURS)], _MARKERS[style % len(_MARKERS)]
        panel.plot(xs, ys, color=colour, marker=marker, markersize=4, linewidth=1.2, label=label)
    if chart.log_x:
        panel.set_xscale("log")
    if chart.log_y:
        panel.set_yscale("log")
    panel.set_xlabel(chart.x_label or chart.x.replace("_", " "))
    panel.set_ylabel(chart.y_label or chart.y.replace("_", " "))
    panel.grid(color="#dddddd", linewidth=0.6)
    panel.spines[["top", "right"]].set_visible(False)


def _label(name: str, value: Any) -> str:
    return str(value) if isinstance(value, str) else f"{name} {value}"
