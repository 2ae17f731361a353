"""Runs against Python's sets."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tamis.curves import runs
from tests.unit.curves.naive_curves import keys_of, runs_of

ranges = st.lists(st.tuples(st.integers(0, 40), st.integers(-2, 8)).map(lambda one: [one[0], one[0] + one[1]]))
sets = ranges.map(runs.merged)


@given(ranges, st.integers(0, 6))
def test_merged_is_the_set_with_gaps_closed(given_ranges, gap) -> None:
    assert runs.merged(given_ranges, gap).tolist() == runs_of(keys_of(given_ranges), gap)


@given(sets, sets)
def test_operations_are_those_of_sets(one, other) -> None:
    a, b = keys_of(one), keys_of(other)
    assert runs.union(one, other).tolist() == runs_of(a | b)
    assert runs.intersection(one, other).tolist() == runs_of(a & b)
    assert runs.difference(one, other).tolist() == runs_of(a - b)
    assert runs.covers(one, other) == (b <= a)
    assert runs.covered_ranges(one, other).tolist() == [set(range(x, y + 1)) <= b for x, y in one.tolist()]


@given(sets, st.integers(1, 5))
def test_coarsened_goes_outward_by_the_smallest_gaps(one, most) -> None:
    rough = runs.coarsened(one, most)
    assert len(rough) <= most
    assert keys_of(one) <= keys_of(rough)
    gaps = sorted((one[1:, 0] - one[:-1, 1] - 1).tolist())
    closed = gaps[: max(len(one) - most, 0)]
    assert len(keys_of(rough)) == len(keys_of(one)) + sum(closed)
