"""The lattice of value sets against sets of sample points."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tamis.model.types import Boolean, Number, ScalarType, String, Timestamp
from tamis.model.value_set import ANYTHING, EMPTY, MISSING, PRESENT, ValueSet
from tamis.model.values import INT64_MAX, INT64_MIN

POINTS = [None, *(x / 2 for x in range(-2, 10))]

cuts = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 1)), max_size=6, unique=True).map(
    lambda c: tuple(sorted(c))
)
sets = st.builds(ValueSet, cuts, st.booleans(), st.booleans())


def points(value_set: ValueSet) -> set[float | None]:
    return {point for point in POINTS if point in value_set}


@given(sets, sets)
def test_operations_are_those_of_sets(a: ValueSet, b: ValueSet) -> None:
    assert points(a & b) == points(a) & points(b)
    assert points(a | b) == points(a) | points(b)
    assert points(a - b) == points(a) - points(b)
    assert points(a.complement()) == set(POINTS) - points(a)
    assert points(a.negated()) == set(POINTS) - points(a) - {None}
    assert (a <= b) == (points(a) <= points(b))
    assert bool(a) == bool(points(a))
    assert (a == b) == (points(a) == points(b))


@given(st.lists(sets, max_size=5))
def test_many_at_once_equal_one_by_one(some: list[ValueSet]) -> None:
    union, common = EMPTY, ANYTHING
    for values in some:
        union, common = union | values, common & values
    assert ValueSet.any_of(some) == union
    assert ValueSet.all_of(some) == common


@given(sets)
def test_intervals_rebuild_the_set(value_set: ValueSet) -> None:
    rebuilt = ValueSet.any_of([ValueSet.between(start, stop) for start, stop in value_set.intervals()])
    assert rebuilt == ValueSet(value_set.cuts, value_set.from_below)


def test_present_is_not_everything() -> None:
    below, above = ValueSet.between(None, (100, 0)), ValueSet.between((100, 0), None)
    assert below | above == PRESENT != ANYTHING
    assert PRESENT | MISSING == ANYTHING
    assert None not in PRESENT


def span(kind: ScalarType, lo: object, hi: object, *, open_lo: bool, open_hi: bool) -> ValueSet:
    start = kind.after(lo) if open_lo else kind.before(lo)  # type: ignore[arg-type]
    stop = kind.before(hi) if open_hi else kind.after(hi)  # type: ignore[arg-type]
    return ValueSet.between(start, stop)


def test_gaps_that_hold_no_value_are_empty() -> None:
    assert not span(Timestamp(), 5, 6, open_lo=True, open_hi=True)
    assert not span(String(), "a", "a\0", open_lo=True, open_hi=True)
    assert span(String(), "a", "b", open_lo=True, open_hi=True)
    assert span(Number(), 5, 6, open_lo=True, open_hi=True)
    assert not span(Number(), 5, 5, open_lo=True, open_hi=False)


def test_the_ends_of_bounded_types() -> None:
    assert Timestamp().after(INT64_MAX) is None
    assert Timestamp().before(INT64_MIN) is None
    assert String().before("") is None
    assert span(Boolean(), False, True, open_lo=False, open_hi=False) == PRESENT
    assert list(span(Boolean(), False, False, open_lo=False, open_hi=False).intervals()) == [(None, (True, 0))]


def test_large_integers_and_floats_stay_apart() -> None:
    values = ValueSet.between((2**53, 0), (2**53, 1))
    assert 2**53 in values
    assert float(2**53) in values
    assert 2**53 + 1 not in values
