"""Covering of conditions on geometry of several parts, circles, cosines and clocks."""

from __future__ import annotations

import pytest

from tamis.algebra.conflicts import conflicts
from tamis.algebra.covers import covers, equivalent

RING = "POLYGON((0 0, 9 0, 9 9, 0 9, 0 0), (3 3, 6 3, 6 6, 3 6, 3 3))"
TWO = "MULTIPOLYGON(((0 0, 2 0, 2 2, 0 2, 0 0)), ((6 0, 8 0, 8 2, 6 2, 6 0)))"


@pytest.mark.parametrize(
    ("outer", "inner"),
    [
        (f"S_INTERSECTS(a, {TWO})", "S_INTERSECTS(a, BBOX(6, 0, 7, 1))"),
        (f"S_INTERSECTS(a, {TWO})", f"S_WITHIN(a, {TWO})"),
        (f"S_INTERSECTS(a, {TWO})", f"S_TOUCHES(a, {TWO})"),
        (f"S_WITHIN(a, {TWO})", "S_WITHIN(a, BBOX(0, 0, 1, 1))"),
        (f"S_CONTAINS(a, {TWO})", "S_CONTAINS(a, BBOX(0, 0, 8, 2))"),
        (f"S_DISJOINT(a, {RING})", "RCC_INSIDE(a, BBOX(3, 3, 6, 6))"),
        ("S_INTERSECTS(a, BBOX(0, 0, 9, 9))", f"S_INTERSECTS(a, {TWO})"),
        ("RCC_OVERLAPS(a, BBOX(0, 0, 9, 9))", "S_OVERLAPS(a, BBOX(0, 0, 9, 9))"),
        ("S_DWITHIN(a, POINT(0 0), 5)", "S_DWITHIN(a, POINT(1 0), 3)"),
        ("S_DWITHIN(a, POINT(0 0), 500, 'km')", "S_DWITHIN(a, POINT(1 0), 300, 'km')"),
        ("S_DWITHIN(a, POINT(179 0), 500, 'km')", "S_DWITHIN(a, POINT(-179 0), 200, 'km')"),
        ("V_COSINE(v, (1, 0), 0.5)", "V_COSINE(v, (1, 0.1), 0.9)"),
        ("T_TIME(t, '20:00', '06:00', 'UTC')", "T_TIME(t, '22:00', '05:00', 'UTC') AND T_WEEKDAY(t, 'Sat', 'UTC')"),
    ],
)
def test_covers_and_not_the_other_way_round(outer: str, inner: str) -> None:
    assert covers(outer, inner)
    assert not covers(inner, outer)


def test_a_missing_part_of_the_answer_is_shown() -> None:
    answer = covers(f"S_INTERSECTS(a, {RING})", "S_INTERSECTS(a, BBOX(0, 0, 9, 9))")
    assert not answer
    assert not answer.unknown
    assert answer.witness is not None
    assert not covers(f"S_CROSSES(a, {RING})", f"S_INTERSECTS(a, {RING})")


def test_zeros_have_no_direction() -> None:
    both = covers(
        "V_COSINE(v, (1, 0), 0.5) OR NOT V_COSINE(v, (1, 0), 0.5)", "v IS NOT NULL AND V_WITHIN(v, (0, 0), 9)"
    )
    assert not both
    assert both.witness is not None
    assert not any(both.witness["v"])


def test_clocks_are_written_back_as_the_same_set() -> None:
    night = "T_TIME(t, '22:00', '06:00', 'Europe/Berlin')"
    assert equivalent(f"NOT NOT {night}", night)
    assert conflicts(night, "T_TIME(t, '06:00', '22:00', 'Europe/Berlin')")
    assert not conflicts(night, "T_TIME(t, '06:00', '22:00', 'UTC')")


def test_two_circles_do_not_conflict_for_a_line_between_them() -> None:
    assert not conflicts("S_DWITHIN(a, POINT(0 0), 1)", "S_DWITHIN(a, POINT(9 0), 1)")
