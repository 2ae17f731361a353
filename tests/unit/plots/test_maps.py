"""The map: the right shade for each count, nothing outside the view, the same bytes every time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib.colors
import pyarrow as pa
import pytest
import shapely

from tamis.errors import ModelError
from tamis.plots.canvas import write_figure
from tamis.plots.maps import _SHADES, _names, _starts, draw_map


def row_of_squares(counts: list[int | None]) -> pa.Table:
    squares = [shapely.to_wkb(shapely.box(x, 0, x + 1, 1)) for x in range(len(counts))]
    return pa.table({"region": pa.array(squares, pa.binary()), "count": pa.array(counts, pa.int64())})


def two_storms(n_discs: int = 1) -> pa.Table:
    disc = shapely.to_wkb(shapely.Point(1, 0.5).buffer(0.4))
    n = n_discs + 3
    return pa.table(
        {
            "storm": ["Ada-2001"] * (n - 2) + ["Bob-2001"] * 2,
            "lon": [0.5 + 0.01 * number for number in range(n)],
            "lat": [0.5] * n,
            "disc": pa.array([None, *[disc] * n_discs, None, None], pa.binary()),
        }
    )


def colours(figure: Any) -> list[str]:
    [panel] = figure.axes
    return [matplotlib.colors.to_hex(colour) for colour in panel.collections[0].get_facecolor()]


def legend(figure: Any) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_each_count_has_its_shade() -> None:
    figure = draw_map(row_of_squares([0, None, 1, 2, 2]), title="five", view=(0, 0, 5, 1))
    none, unknown, once, twice, again = colours(figure)
    assert none == unknown != once
    assert (once, twice, again) == (_SHADES[0], _SHADES[-1], _SHADES[-1])
    assert legend(figure) == ["none", "1", "2"]


def test_nothing_was_counted() -> None:
    figure = draw_map(row_of_squares([0, 0]), title="quiet")
    assert len(set(colours(figure))) == 1
    assert legend(figure) == ["none"]


@pytest.mark.parametrize("most", [1, 7, 8, 99, 100, 2_000, 10_000_000, 10**9])
def test_shades_suffice_and_reach_the_highest_count(most: int) -> None:
    starts = _starts(most)
    assert starts[0] == 1
    assert starts == sorted(set(starts))
    assert starts[-1] <= most
    assert len(starts) == len(_names(starts, most)) <= len(_SHADES)


def test_the_view_is_where_something_was_counted() -> None:
    figure = draw_map(row_of_squares([0] * 20 + [5] + [0] * 20), title="one of many")
    west, east = figure.axes[0].get_xlim()
    assert 19.9 < west < 20 < 21 < east < 21.1
    assert len(colours(figure)) == 3, "its neighbours are seen, the others are not"


def test_a_view_that_is_told_is_taken() -> None:
    figure = draw_map(row_of_squares([1, 2, 3]), title="told", view=(-1, -1, 1.5, 2))
    assert figure.axes[0].get_xlim() == (-1, 1.5)
    assert len(colours(figure)) == 2


def test_few_storms_are_named_and_legend_tells_the_lines() -> None:
    figure = draw_map(row_of_squares([1, 2]), two_storms(), title="storms", counted="warnings per square")
    assert [text.get_text() for text in figure.axes[0].texts] == ["Ada-2001", "Bob-2001"]
    assert legend(figure)[-2:] == ["wind field", "track"]
    assert figure.legends[0].get_title().get_text() == "warnings per square"
    _, fields, tracks = figure.axes[0].collections[:3]
    assert (len(fields.get_segments()), len(tracks.get_segments())) == (1, 2)


def test_no_region() -> None:
    with pytest.raises(ModelError, match="there is no region to draw"):
        draw_map(row_of_squares([]), title="nothing")


@pytest.mark.parametrize("n_discs", [3, 600], ids=["lines", "pixels"])
def test_same_data_same_bytes(tmp_path: Path, n_discs: int) -> None:
    written = []
    for name in ("one.svg", "two.svg", "one.png", "two.png"):
        write_figure(draw_map(row_of_squares([1, 3]), two_storms(n_discs), title="twice"), tmp_path / name)
        written.append((tmp_path / name).read_bytes())
    assert written[0] == written[1]
    assert written[2] == written[3]
    assert (b"<image" in written[0]) == (n_discs > 500)
