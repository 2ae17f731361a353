"""Tiles: whatever meets, meets in the tile that owns the pair, and only there."""

from __future__ import annotations

import numpy as np
import pytest
import shapely

from tamis.model.language.compiler import compile_text
from tamis.model.schema import Schema
from tamis.model.subscription import Filter
from tamis.model.tables import EventTable
from tamis.model.types import Number, Region, String
from tamis.spark.tiles.tiling import Extents, TileAxis, Tiling, hull

SCHEMA = Schema({"x": Number(), "area": Region(), "name": String()})
TILING = Tiling([TileAxis("area", "x", [1.0, 2.0, 3.0]), TileAxis("area", "y", [2.0])])
INF = float("inf")


def tiles_of(filters: tuple[Filter, ...]) -> np.ndarray:
    """Return the tiles that a subscription goes to."""
    lo, hi, missing = zip(*(hull(filters, axis) for axis in TILING.axes), strict=True)
    rows, tiles = TILING.of_subscriptions(Extents(np.array([lo]), np.array([hi]), np.array([missing])))
    assert not rows.any()
    return tiles


@pytest.mark.parametrize(
    ("text", "extent"),
    [
        ("x BETWEEN 1 AND 2", (np.nextafter(1, -INF), np.nextafter(2, INF), False)),
        ("x < 5 OR x = 9", (-INF, np.nextafter(9, INF), False)),
        ("x IS NULL", (INF, -INF, True)),
        ("x IS NOT NULL", (-INF, INF, False)),
        ("name = 'a'", (-INF, INF, True)),
        ("name = 'a' OR x = 1", (-INF, INF, True)),
        ("FALSE", (INF, -INF, False)),
        ("x = 9007199254740993", (2.0**53 - 1 + 0.0, 2.0**53 + 4, False)),
    ],
)
def test_the_hull_of_a_number(text: str, extent: tuple[float, float, bool]) -> None:
    lo, hi, missing = hull(compile_text(text, SCHEMA).filters, TileAxis("x", "value"))
    assert missing is extent[2]
    assert lo == extent[0] or extent[0] <= lo <= 2.0**53
    assert hi == extent[1] or 2.0**53 < hi <= extent[1]


def test_the_hull_of_a_region() -> None:
    inside = compile_text("S_WITHIN(area, POLYGON((1 2, 5 2, 1 7, 1 2)))", SCHEMA).filters
    apart = compile_text("S_DISJOINT(area, POLYGON((1 2, 5 2, 1 7, 1 2)))", SCHEMA).filters
    assert hull(inside, TileAxis("area", "x")) == (1, 5, False)
    assert hull(inside, TileAxis("area", "y")) == (2, 7, False)
    assert hull(apart, TileAxis("area", "x")) == (-INF, INF, False)


def test_numbers_of_tiles_and_their_cells() -> None:
    cells = [np.array([0, 3, 4], np.int32), np.array([0, 2, 1], np.int32)]
    tiles = TILING.number(cells)
    assert len(set(tiles.tolist())) == 3
    assert [cell.tolist() for cell in TILING.cells(tiles)] == [cell.tolist() for cell in cells]


def test_every_meeting_pair_has_one_owner_that_holds_both() -> None:
    generator = np.random.default_rng(1)
    corners = generator.integers(0, 5, (60, 2)).astype(float)
    shapes = [
        shapely.box(x, y, x + w, y + h)
        for (x, y), (w, h) in zip(corners, generator.integers(0, 3, (60, 2)), strict=True)
    ]
    events = [shape if shape.area else shapely.Point(shape.bounds[:2]) for shape in shapes]
    table = EventTable.of({"area": [shapely.to_wkb(event) for event in events]}, SCHEMA)
    places, tiles, low = TILING.of_events(dict(table.columns), len(events))
    where = {(int(event), int(tile)) for event, tile in zip(places, tiles, strict=True)}
    lowest = dict(zip(places.tolist(), low.tolist(), strict=True))
    met = 0
    for x, y in generator.integers(0, 5, (40, 2)).tolist():
        box = shapely.box(x, y, x + 2, y + 1)
        filters = compile_text(f"S_INTERSECTS(area, {box.wkt})", SCHEMA).filters
        mine = tiles_of(filters)
        for i, event in enumerate(events):
            if event.intersects(box):
                met += 1
                owner = TILING.owner(np.array([lowest[i]], np.int32), mine[:1])[0]
                assert owner in mine
                assert (i, owner) in where
    assert met > 100


def test_events_without_the_attribute_have_a_tile_of_their_own() -> None:
    table = EventTable.of({"area": [None, (1.5, 2.0)]}, SCHEMA)
    places, tiles, low = TILING.of_events(dict(table.columns), 2)
    assert places.tolist() == [0, 1]
    assert tiles.tolist() == low.tolist() == [0, TILING.number([np.array([2]), np.array([2])]).tolist()[0]]
    assert 0 in tiles_of(compile_text("name = 'a'", SCHEMA).filters)
