"""Each constraint index against the one truth, and empty again after everything was removed."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st

from tamis.algebra.evaluate import constraint_holds
from tamis.errors import InvariantError
from tamis.index.counting.constraint_index import ConstraintIndex, ScanIndex
from tamis.index.counting.value_sets import IntervalIndex, PointIndex, ValueSetIndex
from tamis.index.protocols import Guarantee
from tamis.model.subscription import Ball, Constraint, Like, Relation, Spatial, Values
from tamis.model.types import Boolean, Number, ScalarType, String, Timestamp
from tamis.model.value_set import ANYTHING, MISSING, PRESENT, ValueSet

LARGE = 2**53
WORLDS: dict[str, tuple[ScalarType, list[Any]]] = {
    "numbers": (Number(), [0, 0.5, 1, 2.5, Decimal("2.50000000000000000001"), LARGE, LARGE + 1, float(LARGE + 2)]),
    "strings": (String(), ["", "a", "a\0", "ab", "b", "\U0010ffff"]),
    "moments": (Timestamp(), [-(2**63), -1, 0, 1, 2, 2**63 - 1]),
    "booleans": (Boolean(), [False, True]),
}


def point(kind: ScalarType, value: Any) -> ValueSet:
    return ValueSet.between(kind.before(value), kind.after(value))


@st.composite
def value_sets(draw: st.DrawFn, world: str) -> ValueSet:
    """Draw points, ranges, unions and complements of them, with and without the missing value."""
    kind, values = WORLDS[world]
    parts = []
    for _ in range(draw(st.integers(0, 3))):
        low, high = sorted((draw(st.sampled_from(values)), draw(st.sampled_from(values))))
        open_ends = draw(st.sampled_from([(False, False), (True, False), (False, True)]))
        start, stop = kind.before(low), kind.after(high)
        parts.append(ValueSet.between(None if open_ends[0] else start, None if open_ends[1] else stop))
    whole = ValueSet.any_of(parts)
    if draw(st.booleans()):
        whole = whole.negated()
    return ValueSet(whole.cuts, whole.from_below, draw(st.booleans()))


def agree(index: ConstraintIndex, held: dict[int, Constraint], values: list[Any]) -> None:
    index.check_invariants()
    assert len(index) == len(held)
    for value in [None, *values]:
        event = {} if value is None else {"a": value}
        want = [number for number, constraint in held.items() if constraint_holds(event, constraint)]
        assert sorted(index.satisfied(value)) == want


@pytest.mark.parametrize("world", WORLDS)
@given(data=st.data())
def test_value_sets_through_a_life(world: str, data: st.DataObject) -> None:
    index, values = ValueSetIndex(), WORLDS[world][1]
    held: dict[int, Constraint] = {}
    sets = data.draw(st.lists(value_sets(world), max_size=30))
    for number, allowed in enumerate(sets):
        held[number] = Values("a", allowed)
        index.add(number, held[number])
        if number % 7 == 6:  # the sizes at which it happens by itself are rare here
            index._intervals._sort_in()
    agree(index, held, values)
    for number in data.draw(st.permutations(list(held)))[: len(held) * 2 // 3]:
        index.remove(number, held.pop(number))
    agree(index, held, values)
    for number in list(held):
        index.remove(number, held.pop(number))
    agree(index, {}, values)


def test_presence_needs_no_order() -> None:
    index = ValueSetIndex()
    for number, allowed in enumerate([PRESENT, MISSING, ANYTHING]):
        index.add(number, Values("a", allowed))
    for value in (shapely.Point(1, 2), np.array([1.0, 2.0])):
        assert sorted(index.satisfied(value)) == [0, 2]
    assert sorted(index.satisfied(None)) == [1, 2]


@pytest.mark.parametrize(
    ("allowed", "is_points"),
    [
        (point(Number(), 5), True),
        (ValueSet.any_of([point(Number(), 5), point(Number(), Decimal("0.1"))]), True),
        (point(String(), ""), True),
        (point(String(), "a\0"), True),
        (ValueSet.any_of([point(String(), ""), point(String(), "b")]), True),
        (ValueSet.any_of([point(String(), "a"), point(String(), "a\0")]), False),
        (ValueSet.between(None, ("a\0", 0)), False),
        (ValueSet.any_of([point(Number(), 5), ValueSet.between((7, 0), None)]), False),
        (point(Number(), 5).negated(), False),
        (ValueSet.between((5, 0), (6, 0)), False),  # a number's range of length one, or the moment 5
        (point(Boolean(), True), False),
    ],
)
def test_sets_of_single_values_are_hashed(allowed: ValueSet, is_points: bool) -> None:
    index = ValueSetIndex()
    index.add(0, Values("a", allowed))
    assert (len(index._points), len(index._intervals)) == ((1, 0) if is_points else (0, 1))


def test_a_point_is_found_whatever_number_it_is_written_as() -> None:
    index = PointIndex()
    index.add(3, ValueSet.any_of([point(Number(), 1), point(Number(), 2.5)]))
    index.add(4, point(Number(), 1.0))
    assert index.around(1.0) == index.around(1) == index.around(Decimal(1)) == [3, 4]
    assert (index.around(2.5), index.around(2)) == ([3], [])
    index.remove(3, ValueSet())
    index.check_invariants()
    assert (index.around(1), index.around(2.5), len(index)) == ([4], [], 1)


def test_intervals_are_sorted_in_and_out(rng: np.random.Generator) -> None:
    index, held = IntervalIndex(), {}
    for number in range(1_000):
        low = float(rng.integers(100))
        held[number] = ValueSet.between((low, 0), (low + float(rng.integers(50)), 1))
        index.add(number, held[number])
        assert len(index._state[1]) <= max(32, len(index) // 16)
    for number in rng.permutation(1_000)[:900].tolist():
        index.remove(number, held.pop(number))
    index.check_invariants()
    assert len(index._state[0].numbers) <= 2 * len(held)
    for value in np.arange(-1, 151, 0.5).tolist():
        assert sorted(index.around(value)) == sorted(n for n, allowed in held.items() if value in allowed)


def test_few_are_left_over_when_new_sets_go_too() -> None:
    index = IntervalIndex()
    allowed = ValueSet.between((1, 0), None)
    for number in range(33 + 10):
        index.add(number, allowed)
    assert (len(index._state[0].numbers), len(index._state[1])) == (33, 10)
    for number in [*range(21), *range(33, 43)]:
        index.remove(number, allowed)
        index.check_invariants()
    assert sorted(index.around(1)) == list(range(21, 33))


def test_a_reader_that_began_before_a_sort_finishes_on_what_it_took() -> None:
    index = IntervalIndex()
    for number in range(100):
        index.add(number, ValueSet.between((number, 0), None))
    ranked, recent = index._state
    before = (ranked.around(99), list(recent))
    index._sort_in()
    assert (ranked.around(99), list(recent)) == before
    assert sorted(index.around(99)) == list(range(100)) == sorted(before[0] + before[1])


@pytest.mark.parametrize(
    ("constraints", "values"),
    [
        (
            [Like("a", "%b%"), Like("a", "%b%", negated=True), Like("a", "_"), Like("a", "a_c%")],
            ["", "b", "abc", "aXcd"],
        ),
        (
            [
                Spatial("a", frozenset({Relation.INSIDE, Relation.COVERED_BY}), shapely.box(0, 0, 4, 4)),
                Spatial("a", frozenset({Relation.DISJOINT}), shapely.box(0, 0, 1, 1)),
            ],
            [shapely.Point(2, 2), shapely.Point(9, 9), shapely.box(0, 0, 1, 1), shapely.box(3, 3, 5, 5)],
        ),
        (
            [Ball("a", (0.0, 0.0), 5.0), Ball("a", (0.0, 0.0), 5.0, negated=True), Ball("a", (9.0, 9.0), 1.0)],
            [np.array([3.0, 4.0]), np.array([9.0, 8.5]), np.array([100.0, 0.0])],
        ),
    ],
    ids=["like", "spatial", "ball"],
)
def test_a_scan_tests_every_constraint(constraints: list[Constraint], values: list[Any]) -> None:
    index, held = ScanIndex(), dict(enumerate(constraints))
    for number, constraint in held.items():
        index.add(number, constraint)
    agree(index, held, values)
    assert index.evaluations == len(constraints) * (len(values) + 1)
    index.remove(1, held.pop(1))
    agree(index, held, values)


def test_a_scan_is_lazy_and_asks_only_what_is_wanted() -> None:
    index = ScanIndex()
    for number in range(10):
        index.add(number, Like("a", f"%{'b' * number}%"))
    answers = index.satisfied("bbbb")
    assert (next(iter(answers)), index.evaluations) == (0, 1)
    assert list(index.satisfied("bbbb", wanted=lambda number: number % 2 == 0)) == [0, 2, 4]
    assert index.evaluations == 1 + 5


def test_the_guarantees() -> None:
    assert ScanIndex().guarantee == ValueSetIndex().guarantee == Guarantee.EXACT


def test_invariants_can_fail() -> None:
    index = ValueSetIndex()
    index.add(0, Values("a", point(Number(), 5)))
    index.add(1, Values("a", ValueSet.between((1, 0), None)))
    index.add(2, Values("a", MISSING))
    for part, broken in (
        (index, lambda: index._absent.clear()),
        (index._points, lambda: index._points._by_value.clear()),
        (index._intervals, lambda: index._intervals._state[1].clear()),
    ):
        part.check_invariants()
        broken()
        with pytest.raises(InvariantError):
            index.check_invariants()
        with pytest.raises(InvariantError):
            part.check_invariants()
