"""Columns that are read at once, points as coordinates and lists as one run of elements, answer as single events do."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import shapely

from tamis import Engine, EventError, Many, Number, Region, Schema, String, Timestamp
from tamis.index.packed.single_values import MOST_POINTS
from tamis.model.columns import Column
from tamis.model.tables import EventTable
from tamis.model.types.column import ManyColumn, PointColumn

DAY = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
LISTS = Schema({"tags": Many(String()), "sizes": Many(Number()), "times": Many(Timestamp()), "x": Number()})
QUESTIONS = (
    *("tags = 'a'", "NOT tags = 'a'", "tags = 'a' AND sizes > 2", "sizes BETWEEN 2 AND 3", "sizes > 3 AND sizes < 1"),
    *(
        "A_CONTAINS(tags, ('a', 'b'))",
        "A_EQUALS(sizes, (1, 2))",
        "tags IS NULL",
        "tags LIKE '%b%'",
        "x > 1 OR tags <> 'c'",
    ),
    *("sizes = 1 AND times = DATE('2026-01-02')", "sizes > 2 AND times < DATE('2026-01-03')"),
    *("T_AFTER(times, DATE('2026-01-03'))", "tags = 'b' AND sizes = 1 AND times = DATE('2026-01-02')"),
)


def lists(n: int, seed: int) -> dict[str, list[Any]]:
    """Return columns of lists, some of them missing or empty, some elements null or repeated."""
    rng = np.random.default_rng(seed)

    def some(values: list[Any], most: int) -> list[Any]:
        drawn = [
            None if rng.random() < 0.15 else [values[i] for i in rng.integers(0, len(values), rng.integers(0, most))]
            for _ in range(n)
        ]
        return [
            None if elements is None else [None if rng.random() < 0.1 else value for value in elements]
            for elements in drawn
        ]

    return {
        "tags": some(["a", "b", "c", "abc"], 5),
        "sizes": some([0, 1, 2, 3, 4, 2**53 + 1], 6),
        "times": some([DAY + dt.timedelta(days=i) for i in range(4)], 5),
        "x": [None if rng.random() < 0.2 else int(rng.integers(0, 4)) for _ in range(n)],
    }


def layouts() -> list[tuple[str, Any]]:
    return [("list", pa.list_), ("large_list", pa.large_list)]


@pytest.mark.parametrize("make", [make for _, make in layouts()], ids=[name for name, _ in layouts()])
def test_lists_of_a_table_answer_as_single_events_do(make: Any) -> None:
    columns = lists(300, seed=7)
    kinds = {"tags": make(pa.string()), "sizes": make(pa.int64()), "times": make(pa.timestamp("us", "UTC"))}
    table = pa.table({name: pa.array(values, kinds.get(name)) for name, values in columns.items()}).slice(37, 200)
    read = EventTable.of(table, LISTS).columns
    assert all(isinstance(read[name], ManyColumn) for name in kinds), "no list is read value by value"
    engine = Engine(LISTS)
    for text in QUESTIONS:
        engine.subscribe(text, id=text)
    matches = engine.match_table(table)
    for row, event in enumerate(table.to_pylist()):
        assert matches.of(row) == engine.match(event), event


def test_every_combination_of_elements_is_a_point() -> None:
    engine = Engine(Schema({"lengths": Many(Number()), "sizes": Many(Number())}))
    for length in range(400):  # more than are asked one by one
        engine.subscribe(f"lengths = {length} AND sizes = 3", id=str(length))
    matches = engine.match_table(pa.table({"lengths": [[5, 6]] * 3, "sizes": [[1, 3], [3, 1], [1, 1]]}))
    assert [matches.of(row) for row in range(3)] == [["5", "6"], ["5", "6"], []]


def test_more_combinations_than_points_are_matched_alone() -> None:
    side = list(range(MOST_POINTS))
    table = pa.table({"tags": [["a"], ["a", "b"], []], "sizes": [side, side, [1]], "x": [1, 2, 3]})
    engine = Engine(LISTS)
    for text in QUESTIONS:
        engine.subscribe(text, id=text)
    matches = engine.match_table(table)
    assert [matches.of(row) for row in range(3)] == [engine.match(event) for event in table.to_pylist()]
    assert "tags = 'a' AND sizes > 2" in matches.of(1)


def test_a_list_with_an_element_that_does_not_fit_is_refused_and_the_others_are_read() -> None:
    table = pa.table({"sizes": [[1.0], [float("nan"), 2.0], [2.0, 3.0]]})
    engine = Engine(LISTS)
    engine.subscribe("sizes = 2", id="two")
    matches = engine.match_table(table, on_bad="skip")
    assert [matches.of(row) for row in range(3)] == [[], [], ["two"]]
    with pytest.raises(EventError, match="row 1, attribute 'sizes': NaN"):
        engine.match_table(table)


def read_regions(geometries: Any, kind: Region) -> Column:
    return EventTable.of(
        pa.table({"where": pa.array(shapely.to_wkb(geometries), pa.binary())}), Schema({"where": kind})
    ).columns["where"]


def test_points_are_held_as_coordinates() -> None:
    places = np.array([[1.5, -2.0], [0.0, 90.0], [-180.0, 3.0]])
    column = read_regions(shapely.points(places), Region(geodetic=True))
    assert isinstance(column, PointColumn)
    assert column.xy.tolist() == places.tolist()
    assert column.value(1) == column.values[1] == shapely.Point(0, 90)
    assert column.part(1, 3).values.tolist() == [shapely.Point(0, 90), shapely.Point(-180, 3)]


@pytest.mark.parametrize("other", [shapely.Point(200, 0), shapely.box(0, 0, 1, 1), shapely.Point(1, 2, 3), None])
def test_a_column_with_anything_else_is_read_as_geometry(other: shapely.Geometry | None) -> None:
    column = read_regions(np.array([shapely.Point(1, 2), other]), Region(geodetic=True))
    assert not isinstance(column, PointColumn)
    assert column.value(0) == shapely.Point(1, 2)
    assert (1 in column.bad) == (other is not None and (other.has_z or other.bounds[0] > 180))


def test_circles_over_a_table_of_points_answer_as_single_events_do() -> None:
    rng = np.random.default_rng(3)
    engine = Engine(Schema({"where": Region(geodetic=True)}))
    texts = [
        f"S_DWITHIN(where, POINT({x} {y}), {r}, 'km')"
        for x, y, r in rng.uniform((-180, -90, 1), (180, 90, 2000), (60, 3)).round(3)
    ]
    for text in texts:
        engine.subscribe(text, id=text)
    points = shapely.points(rng.uniform((-180, -90), (180, 90), (400, 2)))
    table = pa.table({"where": pa.array(shapely.to_wkb(points), pa.binary())}).slice(100, 250)
    matches = engine.match_table(table)
    assert len(np.unique(matches.rows)) > 20
    assert np.count_nonzero(np.diff(matches.offsets) == 0) > 50
    for row in range(250):
        assert matches.of(row) == engine.match({"where": points[100 + row]})
