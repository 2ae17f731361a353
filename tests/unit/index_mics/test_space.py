"""From filters to cells and from events to keys: what matches is never outside its ranges."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st

from tamis.curves.cells import Cells
from tamis.curves.runs import covers
from tamis.errors import ModelError, SchemaError
from tamis.index.mics.projection import SAMPLE, group_axes, ranked_axes, selectivity
from tamis.index.mics.space import ContentSpace
from tamis.index.mics.spans import MAX_BOXES, boxes_of_cells, sides_of, spans_of
from tamis.index.packed.axes import AttributePart, Axis
from tamis.model.language.compiler import compile_text
from tamis.model.schema import Schema
from tamis.model.subscription import Ball
from tamis.model.tables import EventTable
from tamis.model.types import Boolean, Number, Region, String, Timestamp, Vector
from tests import naive
from tests.contract.strategies import SCHEMA, compiled, events, nodes

#: Every kind of axis, few cells, so that bounds and values share cells and edges.
AXES = [
    (Axis("x", AttributePart.NUMBER), Cells((0.0, 1.0, 2.0, 2.5, 2.0**53), 3)),
    (Axis("name", AttributePart.KEY), Cells.from_sample([0.0, 1e14, 1.1e14], 3)),
    (Axis("area", AttributePart.X), Cells.equal(0, 4, 3)),
    (Axis("area", AttributePart.Y), Cells.equal(0, 4, 3)),
    (Axis("look", AttributePart.COORDINATE, 0), Cells.equal(0, 3, 3)),
    (Axis("on", AttributePart.NUMBER), Cells.equal(0, 1, 3)),
]
SPACES = [ContentSpace(AXES[:2]), ContentSpace(AXES[2:4]), ContentSpace(AXES[4:]), ContentSpace(AXES), ContentSpace([])]


@settings(max_examples=settings.default.max_examples * 3)
@given(nodes, events)
def test_what_matches_lies_in_the_ranges(node, raw) -> None:
    subscription, event = compiled(node), SCHEMA.event(raw)
    if naive.evaluate(node, event) is not True:
        return
    for space in SPACES:
        for most in (4_096, 3):
            ranges = space.ranges_of(subscription, most)
            event_ranges = space.ranges_of_event(event)
            assert any(a <= d and c <= b for a, b in ranges.tolist() for c, d in event_ranges.tolist())


@settings(max_examples=settings.default.max_examples)
@given(events, events)
def test_a_table_gives_the_keys_of_single_events(left, other) -> None:
    table = EventTable.of({name: [raw.get(name) for raw in (left, other)] for name in SCHEMA}, SCHEMA)
    for space in SPACES:
        keys, spread = space.keys_of_table(table)
        for row, raw in enumerate((left, other)):
            event = SCHEMA.event(raw)
            alone = space.ranges_of_event(event).tolist()
            assert keys[row] == space.key_of(event)
            assert (spread[row].tolist() if row in spread else [[keys[row]] * 2]) == alone


def spans(text: str, axis: int, schema: Schema = SCHEMA) -> list[tuple[int, int]]:
    [filter] = compile_text(text, schema).filters
    return spans_of(filter, *AXES[axis])


def test_spans_of_values() -> None:
    assert spans("x >= 1 AND x <= 2", 0) == [(3, 4)]
    assert spans("x < 1", 0) == [(1, 3)]  # open bounds are taken as closed
    assert spans("y = 1", 0) == [(0, 7)]  # nothing is said about x
    assert spans("x IS NULL", 0) == [(0, 0)]
    assert spans("x IS NOT NULL", 0) == [(1, 7)]
    assert spans("x IN (0, 2.5)", 0) == [(2, 2), (5, 5)]
    assert spans("on = TRUE", 5) == [(7, 7)]
    assert spans("on = FALSE", 5) == [(1, 1)]


def test_spans_of_strings_regions_and_balls() -> None:
    assert spans("name LIKE 'a%b'", 1) == spans("name >= 'a' AND name < 'b'", 1)
    assert spans("name LIKE '%b'", 1) == spans("name NOT LIKE 'a%b'", 1) == [(1, 7)]
    assert spans("S_INTERSECTS(area, POLYGON((0 0, 1 0, 1 1, 0 0)))", 2) == [(1, 2)]
    assert spans("S_DISJOINT(area, POLYGON((0 0, 1 0, 1 1, 0 0)))", 2) == [(1, 7)]
    apart = "S_INTERSECTS(area, BBOX(0, 0, 0.1, 0.1)) AND S_INTERSECTS(area, BBOX(3.9, 3.9, 4, 4))"
    assert len(spans(apart, 2)) == 1  # a large region meets both: one of them is asked for
    assert spans("V_WITHIN(look, (1, 9), 0.1)", 4) == [(3, 3)]
    assert spans("NOT V_WITHIN(look, (1, 9), 0.1)", 4) == [(1, 7)]
    assert spans("x = 1", 1) == [(0, 7)]


@given(st.floats(-1e9, 1e9), st.floats(0, 1e9))
def test_the_side_of_a_ball_holds_its_rim(center: float, radius: float) -> None:
    """In exact arithmetic: the sum and the difference in float64 may be rounded inward."""
    [(low, high)] = sides_of(Ball("look", (center, 9.0), radius), AXES[4][0])
    assert Fraction(low) <= Fraction(center) - Fraction(radius)
    assert Fraction(high) >= Fraction(center) + Fraction(radius)


def test_many_alternatives_become_their_hull() -> None:
    schema = Schema({name: Number(0, 100) for name in "ab"})
    space = ContentSpace.from_schema(schema)
    values = ", ".join(str(3 * i) for i in range(30))
    [only] = compile_text(f"a IN ({values}) AND b IN (1, 50)", schema).filters
    assert 1 < len(boxes_of_cells(only, space.axes)) <= MAX_BOXES
    [two] = compile_text("a IN (1, 50) AND b IN (1, 50)", schema).filters
    assert len(boxes_of_cells(two, space.axes)) == 4


def test_a_filter_that_matches_nothing_has_no_ranges() -> None:
    assert SPACES[3].ranges_of(compile_text("FALSE", SCHEMA)).tolist() == []
    assert SPACES[4].ranges_of(compile_text("FALSE", SCHEMA)).tolist() == []
    assert SPACES[0].ranges_of(compile_text("x = 1 AND name LIKE 'b%' AND name < 'a'", SCHEMA)).tolist() == []


def test_an_unexpanded_tree_has_the_ranges_of_its_hull() -> None:
    text = " AND ".join(f"(x <> {i} OR y <> {i} OR name = '{i}')" for i in range(9))
    subscription = compile_text(f"({text}) AND x < 3", SCHEMA)
    assert subscription.filters[0].rest is not None
    event = SCHEMA.event({"x": 0.5, "y": 2})
    key = SPACES[0].key_of(event)
    assert covers(SPACES[0].ranges_of(subscription), np.array([[key, key]]))


def test_many_filters_are_coarsened_together() -> None:
    schema = Schema({"x": Number(0, 256), "y": Number(0, 256)})
    space = ContentSpace.from_schema(schema)
    text = " OR ".join(f"(x = {5 * i} AND y = {(37 * i) % 256})" for i in range(50))
    whole, rough = space.ranges_of(compile_text(text, schema)), space.ranges_of(compile_text(text, schema), 7)
    assert len(rough) <= 7 < len(whole)
    assert covers(rough, whole)


def test_json_and_version() -> None:
    for space in SPACES:
        again = ContentSpace.from_json(space.to_json())
        assert (again.axes, again.version, again.n_keys) == (space.axes, space.version, space.n_keys)
    assert len({space.version for space in SPACES}) == len(SPACES)
    for bad in ("", "[]", '{"axes": 5}', '{"other": []}', '{"axes": [["x", "nothing", 0, 3, true, []]]}'):
        with pytest.raises(ModelError, match="content space"):
            ContentSpace.from_json(bad)
    with pytest.raises(ModelError, match="cuts"):
        ContentSpace.from_json('{"axes": [["x", "number", 0, 1, true, [1, 2, 3]]]}')


def test_spaces_that_cannot_be() -> None:
    with pytest.raises(ModelError, match="equally many cells"):
        ContentSpace([AXES[0], (Axis("y", AttributePart.NUMBER), Cells((), 4))])
    with pytest.raises(ModelError, match="duplicate axis"):
        ContentSpace([AXES[0], AXES[0]])
    with pytest.raises(ModelError, match="too many for a key"):
        ContentSpace([(Axis(f"a{i}", AttributePart.NUMBER), Cells((), 8)) for i in range(8)])
    with pytest.raises(SchemaError, match="Number\\(lo, hi\\)"):
        ContentSpace.from_schema(Schema({"x": Number()}), ["x"])
    with pytest.raises(SchemaError, match="nothing"):
        ContentSpace.from_schema(Schema({"x": Number()}), ["nothing"])


def test_a_schema_gives_what_has_a_domain() -> None:
    kinds = {"n": Number(0, 9), "m": Number(), "s": String(), "b": Boolean(), "t": Timestamp(), "r": Region()}
    space = ContentSpace.from_schema(Schema({**kinds, "v": Vector(2)}))
    assert [(axis.attribute, axis.part) for axis, _ in space.axes] == [
        ("n", AttributePart.NUMBER),
        ("s", AttributePart.KEY),
        ("b", AttributePart.NUMBER),
    ]


def test_the_most_selective_axes_are_chosen() -> None:
    schema = Schema({name: Number() for name in "abcd"})
    texts = [f"a < {i + 500} AND b BETWEEN {i} AND {i + 2} AND c BETWEEN {i} AND {i + 300}" for i in range(1_000)]
    some = [compile_text(text, schema) for text in texts]
    assert [axis.attribute for (axis, _), _ in ranked_axes(some)] == ["b", "c", "a"]
    assert [axis.attribute for axis, _ in group_axes(some, 1, n_axes=2)[0].axes] == ["b", "c"]
    groups = group_axes(some, n_groups=2, n_axes=1)
    assert [[axis.attribute for axis, _ in group.axes] for group in groups] == [["b"], ["c"]]
    assert [space.axes for space in group_axes([], 1)] == [()]
    assert selectivity([], AXES[0]) == 1.0
    assert len(some[:: max(1, len(some) // SAMPLE)]) == 1_000


def test_axes_and_cells_follow_the_events() -> None:
    """All events have the same ``a``: ranges of it that are short tell no event from another, those of ``b`` do."""
    schema = Schema({"a": Number(), "b": Number()})
    some = [compile_text(f"a BETWEEN 0 AND {i + 1} AND b BETWEEN {i} AND {i + 60}", schema) for i in range(100)]
    events = [{"a": 0.5, "b": float(i % 160)} for i in range(1_000)]
    assert [axis.attribute for (axis, _), _ in ranked_axes(some)] == ["b", "a"]
    assert [axis.attribute for (axis, _), _ in ranked_axes(some, events=events)] == ["b"]
    narrow = [compile_text("b BETWEEN 0 AND 10", schema), compile_text("b BETWEEN 150 AND 160", schema)]
    crowded = [{"b": 5 + i / 1_000} for i in range(900)] + [{"b": 100.0}] * 100
    [((_, cells), share)] = ranked_axes(narrow, bits=4, events=crowded)
    assert sum(5 <= cut < 6 for cut in cells.cuts) >= 4
    assert not any(5 <= cut < 6 for cut in ranked_axes(narrow, bits=4)[0][0][1].cuts)
    assert share == pytest.approx(0.45)
    assert group_axes(some, 1, names=["a"])[0].axes[0][0].attribute == "a"


def test_places_of_regions_and_numbers_beyond_float64() -> None:
    space = ContentSpace(AXES[2:4])
    wide = SCHEMA.event({"area": shapely.box(0.5, 0.5, 3.5, 3.5)})
    assert len(space.ranges_of_event(wide)) >= 1
    assert space.ranges_of_event(wide)[:, 1].sum() > space.ranges_of_event(wide)[:, 0].sum()
    numbers = ContentSpace(AXES[:1])
    between = numbers.ranges_of_event({"x": 2**53 + 1})
    assert between.tolist() == [[6, 6]]
    assert math.isfinite(numbers.n_keys)
