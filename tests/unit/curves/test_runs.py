"""Runs against Python's sets."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tamis.curves import runs
from tests.unit.curves.naive_curves import keys_of, runs_of

ranges = st.lists(st.tuples(st.integers(0, 40), st.integers(-2, 8)).map(lambda pair: [pair[0], pair[0] + pair[1]]))
sets = ranges.map(runs.merged)


@given(ranges, st.integers(0, 6))
def test_merged_is_the_set_with_gaps_closed(given_ranges, gap) -> None:
    assert runs.merged(given_ranges, gap).tolist() == runs_of(keys_of(given_ranges), gap)


@given(sets, sets)
def test_operations_are_those_of_sets(left, other) -> None:
    a, b = keys_of(left), keys_of(other)
    assert runs.union(left, other).tolist() == runs_of(a | b)
    assert runs.intersection(left, other).tolist() == runs_of(a & b)
    assert runs.difference(left, other).tolist() == runs_of(a - b)
    assert runs.covers(left, other) == (b <= a)
    assert runs.covered_ranges(left, other).tolist() == [set(range(x, y + 1)) <= b for x, y in left.tolist()]


@given(sets, st.integers(1, 5))
def test_coarsened_goes_outward_by_the_smallest_gaps(left, most) -> None:
    rough = runs.coarsened(left, most)
    assert len(rough) <= most
    assert keys_of(left) <= keys_of(rough)
    gaps = sorted((left[1:, 0] - left[:-1, 1] - 1).tolist())
    closed = gaps[: max(len(left) - most, 0)]
    assert len(keys_of(rough)) == len(keys_of(left)) + sum(closed)
