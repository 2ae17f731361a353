"""Operands with holes and several parts, in every form; what asks too much of them; the antimeridian."""

from __future__ import annotations

import numpy as np
import pytest
import shapely

from tamis.engine import Engine
from tamis.errors import EventError, ModelError, SubscriptionError, TableError
from tamis.geometry.relations import checked_regions, relation, relations
from tamis.model import shapes
from tamis.model.language.cql2_json import from_json, to_json
from tamis.model.language.format import format_node
from tamis.model.language.parse import parse
from tamis.model.schema import Schema
from tamis.model.types import Region
from tamis.model.values import UnfitError
from tests.region_worlds import cell_regions, mixed_regions, points

SCHEMA = Schema({"area": Region()})
RING = "POLYGON((0 0, 10 0, 10 10, 0 10, 0 0), (3 3, 7 3, 7 7, 3 7, 3 3))"
ISLANDS = "MULTIPOLYGON(((0 0, 2 0, 2 2, 0 2, 0 0)), ((5 0, 9 0, 9 4, 5 4, 5 0), (6 1, 8 1, 8 3, 6 3, 6 1)))"
#: The second hole touches the outer ring in a point, the holes touch each other in another.
TOUCHING = "POLYGON((0 0, 6 0, 6 6, 0 6, 0 0), (1 1, 3 1, 3 3, 1 3, 1 1), (3 3, 6 4, 4 5, 3 3))"

Rng = np.random.Generator


@pytest.mark.parametrize("text", [RING, ISLANDS, TOUCHING], ids=["ring", "islands", "touching"])
def test_intersects_and_disjoint_like_shapely(text: str, rng: Rng) -> None:
    operand = shapely.from_wkt(text)
    events = np.concatenate([cell_regions(rng, 60)[1], mixed_regions(rng, 60), points(rng, 60)])
    events = np.concatenate([events, shapely.points(rng.integers(0, 21, (60, 2)) / 2), [shapely.box(3, 3, 7, 7)]])
    for matcher in ("packed", "counting", "linear"):
        engine = Engine(SCHEMA, matcher)
        engine.subscribe(f"S_INTERSECTS(area, {text})", id="in")
        engine.subscribe(f"S_DISJOINT(area, {text})", id="out")
        engine.subscribe(f"NOT S_INTERSECTS(area, {text})", id="not in")
        for event in events:
            want = ["in"] if shapely.intersects(event, operand) else ["not in", "out"]
            assert engine.match({"area": event}) == want, event.wkt
        assert engine.match({}) == []


@pytest.mark.parametrize("text", [RING, ISLANDS])
def test_they_are_written_as_they_were_read(text: str) -> None:
    node = parse(f"S_INTERSECTS(area, {text})")
    assert parse(format_node(node)) == node
    assert from_json(to_json(node)) == node


def test_geojson_operands() -> None:
    islands = {key: _lists(value) for key, value in shapely.geometry.mapping(shapely.from_wkt(ISLANDS)).items()}
    engine = Engine(SCHEMA)
    engine.subscribe({"op": "s_intersects", "args": [{"property": "area"}, islands]}, id=1)
    assert engine.match({"area": (1, 1)}) == [1]
    assert engine.match({"area": (7, 2)}) == []


def _lists(value: object) -> object:
    return [_lists(item) for item in value] if isinstance(value, tuple) else value


@pytest.mark.parametrize("function", ["RCC_MEETS", "RCC_INSIDE", "RCC_DISJOINT"])
def test_strict_relations_refuse_lines_and_say_which_functions_do_not(function: str) -> None:
    with pytest.raises(SubscriptionError, match=f"{function} compares with polygons.*S_\\* take every geometry"):
        Engine(SCHEMA).subscribe(f"{function}(area, LINESTRING(0 0, 1 1))")


def test_bad_operands_are_refused() -> None:
    for text, problem in (
        ("POLYGON((0 0, 9 0, 9 9, 0 0), (8 8, 20 8, 20 20, 8 8))", "not a valid Polygon"),
        ("POLYGON((0 0, 9 0, 9 9, 0 0), (5 1, 7 3, 7 1, 5 3, 5 1))", "not a simple polygon"),
        ("MULTIPOLYGON(((0 0, 4 0, 4 4, 0 0)), ((1 0, 5 0, 5 4, 1 0)))", "not a valid MultiPolygon"),
    ):
        with pytest.raises(ModelError, match=problem):
            Engine(SCHEMA).subscribe(f"S_INTERSECTS(area, {text})")
    with pytest.raises(UnfitError, match="not a point"):
        shapes.polygon((1, 2))
    with pytest.raises(EventError, match="NaN"):
        Engine(SCHEMA).match({"area": "LINESTRING(0 0, nan 1)"})


@pytest.mark.parametrize(
    "ring", ["177 -16, 177 -20, -178 -20, -178 -16, 177 -16", "179 0, -179 1, -179.5 2, 178 1, 179 0"]
)
def test_a_ring_across_the_antimeridian_is_refused(ring: str) -> None:
    with pytest.raises(ModelError, match="antimeridian.*MULTIPOLYGON"):
        Engine(SCHEMA).subscribe(f"S_INTERSECTS(area, POLYGON(({ring})))")
    with pytest.raises(EventError, match="antimeridian"):
        Engine(SCHEMA).match({"area": f"POLYGON(({ring}))"})
    many = [f"POLYGON(({ring}))"] * 200
    with pytest.raises(EventError, match="antimeridian"):
        Engine(SCHEMA).match_table({"area": np.array([shapely.from_wkt(text) for text in many])})


def test_what_only_looks_like_it_is_accepted() -> None:
    for text in (
        "BBOX(-180, -90, 180, 90)",
        "BBOX(-100, -50, 100, 50)",
        "POLYGON((-150 0, 0 0, 150 0, 150 50, -150 50, -150 0))",
        "POLYGON((-1500 0, 1500 0, 1500 50, -1500 50, -1500 0))",
        "MULTIPOLYGON(((177 -20, 180 -20, 180 -16, 177 -20)), ((-180 -20, -178 -20, -178 -16, -180 -20)))",
    ):
        Engine(SCHEMA).subscribe(f"S_INTERSECTS(area, {text})")
    with pytest.raises(SubscriptionError, match="antimeridian"):
        Engine(SCHEMA).subscribe("S_INTERSECTS(area, BBOX(177, -20, -178, -16))")


def test_relation_takes_every_form_and_names_what_it_refuses() -> None:
    square = shapely.box(0, 0, 4, 4)
    for array in (
        square,
        square.wkt,
        square.wkb,
        {"type": "Polygon", "coordinates": [[[0, 0], [4, 0], [4, 4], [0, 4], [0, 0]]]},
    ):
        assert relation(array, square) == "equals"
        assert relations([array], square).tolist() == [3]
    assert relation((2, 2), square) == "inside"
    assert relation(RING, square) == "overlaps"
    with pytest.raises(ModelError, match="holes"):
        relation(square, RING)
    with pytest.raises(TableError, match="region 0: .*Polygon"):
        relations([RING], square)
    with pytest.raises(ModelError, match="not a point"):
        relation(square, (1, 1))
    with pytest.raises(TableError, match="region 1: .*simple"):
        relations([square, "POLYGON((0 0, 2 2, 2 0, 0 2, 0 0))"], square)
    with pytest.raises(TableError, match="b contains a point"):
        relations([square], [(1, 2)])
    with pytest.raises(TableError, match="in pairs"):
        relations([square] * 3, [square] * 2)
    assert relations([], []).tolist() == []
    many = checked_regions([square, shapely.box(1, 1, 2, 2), shapely.Point(9, 9)])
    assert relations(many, square).tolist() == [3, 4, 0]
