"""Charts are drawn from rows alone: a line per series, a panel per value, the same bytes for the same rows."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from tamis.plots.canvas import write_figure
from tamis_lab.plots.charts import Chart, draw_chart
from tamis_lab.rows import Row, where

ROWS: list[Row] = [
    {"n": n, "kind": kind, "panel": panel, "time": n * (1 + len(kind)), "bound": 2 * n}
    for panel in ("left", "right")
    for kind in ("zipf", "uniform")
    for n in (10, 100, 1_000)
]


def labels(chart: Chart, rows: list[Row] = ROWS) -> list[list[str]]:
    return [[str(line.get_label()) for line in axes.get_lines()] for axes in draw_chart(rows, chart).axes]


def test_a_line_per_series_and_a_panel_per_value() -> None:
    assert labels(Chart("t", "n", "time", ("kind",), panels="panel")) == [["uniform", "zipf"]] * 2
    assert labels(Chart("t", "n", "time", ("kind",), only={"kind": "zipf"})) == [["zipf"]]
    [[alone]] = labels(Chart("t", "n", "time"))
    assert alone.startswith("_")  # not in the legend


def test_what_all_series_share_is_drawn_once() -> None:
    [label] = labels(Chart("t", "n", "time", ("kind",), beside=("bound",)))
    assert label == ["uniform, time", "zipf, time", "bound"]


def test_values_at_one_place_are_averaged() -> None:
    figure = draw_chart([{"x": 1, "y": 2.0}, {"x": 1, "y": 4.0}, {"x": 2, "y": 5.0}, {"x": 3}], Chart("t", "x", "y"))
    [line] = figure.axes[0].get_lines()
    assert (list(line.get_xdata()), list(line.get_ydata())) == ([1, 2], [3.0, 5.0])


def test_few_places_are_marked_each() -> None:
    axes = draw_chart(ROWS, Chart("t", "n", "time", log_x=True)).axes[0]
    assert [text.get_text() for text in axes.get_xticklabels()] == ["10", "100", "1k"]


@pytest.mark.parametrize("kind", ["svg", "png"])
def test_same_rows_same_bytes(kind: str, tmp_path: Path) -> None:
    chart = Chart("t", "n", "time", ("kind",), panels="panel", log_x=True, log_y=True)
    for name in ("a", "b"):
        write_figure(draw_chart(ROWS, chart), tmp_path / f"{name}.{kind}")
    assert (tmp_path / f"a.{kind}").read_bytes() == (tmp_path / f"b.{kind}").read_bytes()


def test_where_needs_the_column() -> None:
    assert where([{"a": 1}, {"b": 1}, {"a": 2}], a=[1, 3]) == [{"a": 1}]


def test_many_words_are_slanted_and_few_are_not() -> None:
    def turned(words: list[str]) -> set[float]:
        rows: list[Row] = [{"policy": word, "y": 1.0} for word in words]
        return {text.get_rotation() for text in draw_chart(rows, Chart("t", "policy", "y")).axes[0].get_xticklabels()}

    assert turned(["a", "b", "c"]) == {0.0}
    assert turned(["drtree", "drtree-brokers", "flood", "identity", "merging", "mics-gap", "subsumption"]) == {35.0}


def test_words_have_bars_in_their_order_and_no_line_between_them() -> None:
    rows: list[Row] = [{"word": word, "k": k, "y": 1.0 + k} for word in ("zipf", "flat") for k in (1, 2)]
    axes = draw_chart(rows, Chart("t", "word", "y", ("k",))).axes[0]
    assert [text.get_text() for text in axes.get_xticklabels()] == ["zipf", "flat"]
    assert [[bar.get_height() for bar in bars] for bars in axes.containers] == [[2.0, 2.0], [3.0, 3.0]]
    assert not axes.get_lines()
    lefts = sorted(bar.get_x() for bars in axes.containers for bar in bars)
    assert all(b - a >= bars[0].get_width() for a, b in pairwise(lefts) for bars in axes.containers)


def test_what_a_logarithmic_axis_cannot_show_is_left_out() -> None:
    rows: list[Row] = [{"x": x, "y": 1.0} for x in (0.0, 0.1, 1.0)]
    for log_x, shown in ((True, [0.1, 1.0]), (False, [0.0, 0.1, 1.0])):
        [line] = draw_chart(rows, Chart("t", "x", "y", log_x=log_x)).axes[0].get_lines()
        assert list(line.get_xdata()) == shown


def test_a_logarithmic_axis_within_a_decade_has_marks() -> None:
    axes = draw_chart([{"x": 1, "y": 1.4}, {"x": 2, "y": 3.4}], Chart("t", "x", "y", log_y=True)).axes[0]
    low, high = axes.get_ylim()
    assert len([y for y in axes.get_yticks() if low <= y <= high]) >= 2
    assert "$" not in axes.yaxis.get_major_formatter()(2.0)


def test_seeds_give_a_band_and_one_seed_none() -> None:
    rows: list[Row] = [{"x": x, "seed": seed, "y": x + seed} for x in (1, 2) for seed in range(20)]
    axes = draw_chart(rows, Chart("t", "x", "y")).axes[0]
    [band] = axes.collections
    lows, highs = band.get_paths()[0].vertices[:, 1].min(), band.get_paths()[0].vertices[:, 1].max()
    assert 1 < lows < 10.5 < 11.5 < highs < 21  # the interval of the mean, not the spread of all seeds
    assert not draw_chart(rows[:1] + rows[20:21], Chart("t", "x", "y")).axes[0].collections


def test_bars_of_seeds_have_error_bars() -> None:
    rows: list[Row] = [{"word": word, "seed": seed, "y": 1.0 + seed} for word in ("a", "b") for seed in range(9)]
    axes = draw_chart(rows, Chart("t", "word", "y")).axes[0]
    assert len(axes.collections) == 1  # the vertical lines of both bars
    assert len(axes.collections[0].get_segments()) == 2
