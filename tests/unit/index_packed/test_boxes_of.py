"""From filters to boxes and from events to points: nothing that matches is outside, and exact boxes decide."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tamis.algebra.evaluate import matches
from tamis.index.packed.axes import Axes, float_above, float_below, string_key
from tamis.index.packed.boxes_of import MAX_BOXES, boxes_of
from tamis.index.packed.points_of import points_of
from tamis.kernels.boxes.quantise import ANY_VALUE
from tamis.model.language.compiler import compile_text
from tamis.model.language.nodes import Node
from tamis.model.subscription import Filter
from tamis.model.tables import EventTable
from tests.contract.strategies import SCHEMA, compiled, events, nodes


def meets(sides: dict[int, tuple[float, float]], low: list[float], high: list[float]) -> bool:
    return all(lo <= high[axis] and hi >= low[axis] for axis, (lo, hi) in sides.items())


@pytest.mark.hypothesis
def test_boxes_contain_what_matches_and_exact_ones_decide() -> None:
    reached: Counter[str] = Counter()

    @given(nodes, st.lists(events, min_size=1, max_size=5))
    @settings(max_examples=max(settings.default.max_examples, 100) * 4)  # fewer reach too little, in `make check` too
    def law(node: Node, some: list[dict[str, Any]]) -> None:
        axes = Axes()
        pairs = [(filter, boxes_of(filter, axes)) for filter in compiled(node).filters]
        for raw in some:
            event = SCHEMA.event(raw)
            low, high, is_point = axes.place(event, len(axes))
            for filter, boxes in pairs:
                inside = [box for box in boxes if meets(box.sides, low, high)]
                if matches(event, filter):
                    assert inside
                    reached["match"] += 1
                elif is_point:
                    assert not any(box.exact for box in inside)
                    reached["exact"] += any(box.exact for box in boxes)

    law()
    assert min(reached["match"], reached["exact"]) >= 50, reached


@given(nodes, st.lists(events, max_size=5))
def test_a_table_lies_where_its_events_lie(node: Node, some: list[dict[str, Any]]) -> None:
    axes = Axes()
    for filter in compiled(node).filters:
        boxes_of(filter, axes)
    points = points_of(EventTable.of({name: [e.get(name) for e in some] for name in SCHEMA}, SCHEMA), axes, len(axes))
    for i, raw in enumerate(some):
        low, high, is_point = axes.place(SCHEMA.event(raw), len(axes))
        np.testing.assert_array_equal(points.low[i], low)
        np.testing.assert_array_equal(points.high[i], high)
        assert (i in points.between) == (not is_point)


def only_filter(text: str) -> Filter:
    [filter] = compile_text(text, SCHEMA).filters
    return filter


def sides_of(text: str) -> list[tuple[float, float]]:
    return [side for box in boxes_of(only_filter(text), Axes()) for side in box.sides.values()]


def test_open_ends_stop_at_the_neighbouring_float64() -> None:
    assert sides_of("x < 100") == [(ANY_VALUE, math.nextafter(100.0, 0))]
    assert sides_of("x > 100") == [(math.nextafter(100.0, 200), math.inf)]
    assert sides_of("x BETWEEN 1 AND 2") == [(1.0, 2.0)]
    assert sides_of("x <> 5") == [(ANY_VALUE, math.nextafter(5.0, 0)), (math.nextafter(5.0, 6), math.inf)]


def test_an_interval_between_two_float64_is_asked_again() -> None:
    [box] = boxes_of(only_filter("x > 9007199254740992 AND x < 9007199254740994"), Axes())
    assert not box.exact
    assert list(box.sides.values()) == [(2.0**53, 2.0**53 + 2)]


def test_many_intervals_become_their_hull() -> None:
    many = ", ".join(str(i) for i in range(0, 4 * MAX_BOXES, 2))
    [box] = boxes_of(only_filter(f"x IN ({many})"), Axes())
    assert not box.exact
    assert len(boxes_of(only_filter("x IN (0, 2, 4) AND y IN (0, 2, 4)"), Axes())) == 9


def test_an_event_may_meet_two_regions_that_are_apart() -> None:
    apart = "S_INTERSECTS(area, BBOX(0,0,1,1)) AND S_INTERSECTS(area, BBOX(5,5,6,6)) AND name = 'a'"
    [box] = boxes_of(only_filter(apart), Axes())
    of_each = [[(0.0, 0.0), side, side] for side in ((0.0, 1.0), (5.0, 6.0))]  # the box around either of them will do
    assert sorted(box.sides.values()) in of_each
    assert not box.exact


@pytest.mark.parametrize("text", ["area IS NULL", "x IS NULL OR x > 5"])
def test_what_has_no_box(text: str) -> None:
    [box] = boxes_of(only_filter(text), Axes())
    assert (box.sides, box.exact) == ({}, False)


@given(st.text(), st.text())
def test_keys_keep_the_order_of_strings(a: str, b: str) -> None:
    low, high = sorted((a, b))
    assert string_key(low) <= string_key(high)


@given(st.integers(-(2**63), 2**64 - 1) | st.fractions())
def test_neighbouring_float64(value: Any) -> None:
    below, above = float_below(value), float_above(value)
    assert below <= value <= above
    assert above in (below, math.nextafter(below, math.inf))
