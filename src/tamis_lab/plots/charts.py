"""Charts as data: which columns of some rows to draw, and how. A picture needs the rows and the chart alone."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tamis.plots.canvas import new_figure
from tamis_lab.intervals import bootstrap
from tamis_lab.rows import Row, where

__all__ = ["Chart", "draw_chart"]

_Key = tuple[Any, ...]
_Points = dict[Any, float]

#: Told apart by people who do not see red and green, too, on light and on dark ground.
_COLOURS = ("#4c86c6", "#d1495b", "#4f9d69", "#9a7bd0", "#d1932b", "#2aa1a1", "#b0628f", "#8a8a8a")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_GREY = "#8a8a8a"
#: The least share of the axis between two marks.
_CROWDED = 0.07
#: More letters than this under a panel run into one another, and are written aslant.
_LETTERS = 56
#: The share of the room at a word that its bars take.
_GROUP = 0.8
#: A logarithmic axis that spans less has marks between the powers of ten.
_FEW_DECADES = 100.0


@dataclass(frozen=True)
class Chart:
    """A line per combination of the ``series`` columns, a panel per value of ``panels``; ``only`` chooses rows.

    Where x is a word there are bars instead of lines: nothing lies between two words.
    Columns in ``beside`` are drawn dashed in the colours of their series; once, and grey, where all series share them.
    """

    title: str
    x: str
    y: str
    series: tuple[str, ...] = ()
    panels: str | None = None
    beside: tuple[str, ...] = ()
    only: Mapping[str, Any] = field(default_factory=dict)
    log_x: bool = False
    log_y: bool = False
    x_label: str = ""
    y_label: str = ""


class _Line(NamedTuple):
    label: str
    points: _Points
    colour: str
    marker: str
    dashes: str
    #: The bootstrap interval of each point that several seeds gave a value for.
    bands: dict[Any, tuple[float, float]]


def draw_chart(rows: Sequence[Row], chart: Chart) -> Any:
    """Return a figure of a chart; values of one series at one x are averaged, and seeds give a band around them."""
    chosen = [row for row in where(rows, **chart.only) if chart.x in row and chart.y in row and _has_place(row, chart)]
    panels = sorted({row[chart.panels] for row in chosen}) if chart.panels else [None]
    series = sorted({_key(row, chart) for row in chosen}, key=_order)
    figure = new_figure(5.6 if len(panels) == 1 else 3.4 * len(panels) + 0.8, 3.9)
    figure.suptitle(chart.title, fontsize=10.5)
    for axes, value in zip(figure.subplots(1, len(panels), squeeze=False, sharey=True)[0], panels, strict=True):
        inside = chosen if value is None else where(chosen, **{str(chart.panels): value})
        lines, xs = _lines(inside, chart, series), _in_order(row[chart.x] for row in inside)
        if _are_words(xs):
            _draw_bars(axes, lines, xs)
        else:
            _draw_lines(axes, lines)
        if value is not None:
            axes.set_title(_label(str(chart.panels), value), fontsize=9)
        _finish(axes, chart)
        _mark(axes, chart, xs)
    if chart.log_y:
        _mark_decades(figure.axes[0])
    else:
        figure.axes[0].set_ylim(0, 1.04 * max(axes.get_ylim()[1] for axes in figure.axes))
    figure.axes[0].set_ylabel(chart.y_label or chart.y.replace("_", " "), fontsize=9)
    _legend(figure)
    return figure


def _has_place(row: Row, chart: Chart) -> bool:
    """Whether x is on the axis: a logarithmic one does not reach 0."""
    return not chart.log_x or row[chart.x] > 0


def _key(row: Row, chart: Chart) -> _Key:
    return tuple(row.get(name) for name in chart.series)


def _order(key: _Key) -> list[tuple[bool, Any]]:
    """Numbers before words, each in its order."""
    return [(isinstance(value, str), value) for value in key]


def _label(name: str, value: Any) -> str:
    return value if isinstance(value, str) else f"{name} = {value}"


def _lines(rows: Sequence[Row], chart: Chart, series: Sequence[_Key]) -> list[_Line]:
    lines: list[_Line] = []
    for number, y in enumerate((chart.y, *chart.beside)):
        word = _word(y) if chart.beside else ""
        dashes = ("-", "--", ":", "-.")[number % 4]
        chosen = {key: [row for row in rows if _key(row, chart) == key] for key in series}
        by_series = {key: _points(chosen[key], chart.x, y) for key in series}
        shared = number > 0 and len({tuple(points.items()) for points in by_series.values() if points}) == 1
        for style, (key, points) in enumerate(by_series.items()):
            names = [] if shared else [_label(*pair) for pair in zip(chart.series, key, strict=True)]
            label = ", ".join(filter(None, [*names, word]))
            colour = _GREY if shared or not (chart.series or number == 0) else _COLOURS[style % len(_COLOURS)]
            marker = "" if shared else _MARKERS[(style + (0 if chart.series else number)) % len(_MARKERS)]
            if points and label not in {line.label for line in lines}:
                lines.append(_Line(label, points, colour, marker, dashes, _bands(chosen[key], chart.x, y)))
    return lines


def _word(column: str) -> str:
    return column.removesuffix("_seconds").replace("_", " ")


def _points(rows: Sequence[Row], x: str, y: str) -> _Points:
    """Return the mean of y by x, in the order of x."""
    values: dict[Any, list[float]] = {}
    for row in rows:
        if y in row:
            values.setdefault(row[x], []).append(float(row[y]))
    return {at: sum(values[at]) / len(values[at]) for at in _in_order(values)}


def _bands(rows: Sequence[Row], x: str, y: str) -> dict[Any, tuple[float, float]]:
    """Return the ends of the interval of the mean of y over seeds, by x; none where there is one seed."""
    values: dict[Any, dict[int, list[float]]] = {}
    for row in rows:
        if y in row and "seed" in row:
            values.setdefault(row[x], {}).setdefault(row["seed"], []).append(float(row[y]))
    means = {at: [sum(each) / len(each) for each in values[at].values()] for at in _in_order(values)}
    ends = {at: bootstrap(sample) for at, sample in means.items() if len(sample) > 1}
    return {at: (interval.low, interval.high) for at, interval in ends.items()}


def _in_order(xs: Iterable[Any]) -> list[Any]:
    """Return each x once: numbers by size, words in order of appearance."""
    values = list(dict.fromkeys(xs))
    return values if _are_words(values) else sorted(values)


def _are_words(xs: Sequence[Any]) -> bool:
    return bool(xs) and all(isinstance(x, str) for x in xs)


def _draw_lines(axes: Any, lines: Sequence[_Line]) -> None:
    for line in lines:
        style = {"color": line.colour, "linestyle": line.dashes, "linewidth": 1.3}
        xs, ys = list(line.points), list(line.points.values())
        axes.plot(xs, ys, marker=line.marker, markersize=4, label=line.label, **style)
        if line.bands:
            lows, highs = zip(*line.bands.values(), strict=True)
            axes.fill_between(list(line.bands), lows, highs, color=line.colour, alpha=0.2, linewidth=0)


def _draw_bars(axes: Any, lines: Sequence[_Line], words: Sequence[str]) -> None:
    """Draw a group of bars at each word, a bar for each line."""
    width = _GROUP / len(lines)
    for number, line in enumerate(lines):
        places = [words.index(word) + (number - (len(lines) - 1) / 2) * width for word in line.points]
        heights = list(line.points.values())
        axes.bar(places, heights, 0.92 * width, color=line.colour, label=line.label, zorder=2)
        if line.bands:
            ends = [line.bands.get(word, (height, height)) for word, height in line.points.items()]
            middles = [(low + high) / 2 for low, high in ends]
            halves = [(high - low) / 2 for low, high in ends]
            axes.errorbar(places, middles, halves, fmt="none", ecolor=_GREY, elinewidth=1, capsize=2, zorder=3)
    axes.set_xticks(range(len(words)), words)


def _finish(axes: Any, chart: Chart) -> None:
    if chart.log_x:
        axes.set_xscale("log")
    if chart.log_y:
        axes.set_yscale("log")
    axes.set_xlabel(chart.x_label or chart.x.replace("_", " "), fontsize=9)
    axes.tick_params(labelsize=8)
    axes.minorticks_off()
    axes.grid(color="#8a8a8a", alpha=0.25, linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)


def _mark(axes: Any, chart: Chart, xs: Sequence[Any]) -> None:
    """Put a mark at every x, where they are few whole numbers and not crowded; slant many words."""
    if _are_words(xs) and sum(len(x) + 2 for x in xs) > _LETTERS:
        axes.tick_params(axis="x", rotation=35)
        for label in axes.get_xticklabels():
            label.set(ha="right", rotation_mode="anchor")
    if len(xs) < 2 or not all(isinstance(x, int) for x in xs):
        return
    places = [math.log(x) for x in xs] if chart.log_x else xs
    apart = min(b - a for a, b in itertools.pairwise(places)) / (places[-1] - places[0])
    if apart >= _CROWDED:
        axes.set_xticks(xs, [_short(x) for x in xs])
        axes.set_xticks([], minor=True)


def _mark_decades(axes: Any) -> None:
    """Mark 1, 2 and 5 of each decade where the powers of ten alone would say little or nothing."""
    from matplotlib.ticker import FuncFormatter, LogLocator

    low, high = axes.get_ylim()
    if high / low < _FEW_DECADES:
        axes.yaxis.set_major_locator(LogLocator(base=10, subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: _plain(y)))


def _plain(y: float) -> str:
    """Write a number without powers of ten.

    >>> _plain(0.00002), _plain(0.5), _plain(50.0)
    ('0.00002', '0.5', '50')
    """
    return f"{y:.12f}".rstrip("0").rstrip(".")


def _short(x: int) -> str:
    """Write a whole number in few characters.

    >>> _short(128), _short(2_500), _short(100_000), _short(1_000_000)
    ('128', '2.5k', '100k', '1M')
    """
    for size, word in ((1_000_000, "M"), (1_000, "k")):
        if x >= size and x % (size // 10) == 0:
            return f"{x / size:g}{word}"
    return str(x)


def _legend(figure: Any) -> None:
    handles = {
        label: line
        for axes in figure.axes
        for line, label in zip(*axes.get_legend_handles_labels(), strict=True)
        if label
    }
    if handles:
        columns = 4 if max(map(len, handles)) < 22 else 2
        place = {"loc": "outside lower center", "ncols": columns, "frameon": False, "fontsize": 8}
        figure.legend(handles.values(), handles.keys(), **place)
