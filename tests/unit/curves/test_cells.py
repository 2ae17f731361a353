"""The one quantiser: monotone, the same for bounds and values, with a place for what is missing (R10)."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tamis.curves.cells import Cells
from tamis.errors import ModelError

numbers = st.floats(allow_nan=False)
finite = st.floats(allow_nan=False, allow_infinity=False)
grids = st.one_of(
    st.builds(
        lambda ends, bits, null: Cells.equal(min(ends), max(ends), bits, null=null),
        st.tuples(finite, finite),
        st.integers(1, 8),
        st.booleans(),
    ),
    st.builds(
        lambda values, bits, null: Cells.from_sample(values, bits, null=null),
        st.lists(numbers, max_size=60),
        st.integers(1, 6),
        st.booleans(),
    ),
)


@given(grids, numbers, numbers, numbers)
def test_a_value_within_bounds_is_in_the_span(cells, a, b, c) -> None:
    lo, value, hi = sorted([a, b, c])
    first, last = cells.span(lo, hi)
    assert cells.everything[0] <= first <= cells.cell(value) <= last <= cells.everything[1]
    assert first >= cells.present[0]


@given(grids, st.lists(numbers, min_size=1, max_size=20))
def test_many_values_are_as_one(cells, values) -> None:
    array = np.array([*values, np.nan, -0.0])
    assert cells.cells(array).tolist() == [cells.cell(value) for value in [*values, None, 0.0]]


@pytest.mark.parametrize("null", [False, True])
def test_clamping_top_value_and_cuts(null: bool) -> None:
    cells = Cells.equal(0, 8, bits=3, null=null) if not null else Cells.equal(0, 7, bits=3)
    top = 8 if not null else 7
    assert cells.cell(top) == cells.cell(math.inf) == cells.cell(1e300) == 7
    assert cells.cell(0) == cells.cell(-0.0) == cells.cell(-math.inf) == cells.cell(-5) == cells.present[0]
    assert [cells.cell(value) for value in (1, math.nextafter(1, 0))] == [null + 1, null]
    assert cells.cell(2**53 + 1) == cells.cell(float(2**53)) == 7
    assert cells.cell(Fraction(10**30, 3)) == 7


def test_only_what_accepts_a_missing_value_includes_its_cell() -> None:
    cells = Cells.equal(0, 10)
    assert cells.cell(None) == cells.cell(math.nan) == 0
    assert cells.span(-math.inf, math.inf) == cells.present == (1, 255)
    assert cells.everything == (0, 255)
    assert cells.missing == (0, 0)
    without = Cells.equal(0, 10, null=False)
    assert without.cell(None) == 0
    assert without.present == without.everything


def test_256_equal_cells_by_default() -> None:
    cells = Cells.equal(0, 256, null=False)
    assert cells.cuts == tuple(map(float, range(1, 256)))
    assert [cells.cell(value) for value in (0, 0.99, 1, 255.5, 256)] == [0, 0, 1, 255, 255]


def test_variable_cells_follow_the_distribution() -> None:
    values = np.random.default_rng(1).exponential(1.0, 100_000)
    cells = Cells.from_sample(values)
    equal = Cells.equal(0, float(values.max()))
    counts = np.bincount(cells.cells(values), minlength=256)
    assert len(cells.cuts) == len(equal.cuts) == 254
    assert counts[1:].max() < 2 * counts[1:].min()
    assert np.bincount(equal.cells(values), minlength=256).max() > 10 * counts.max()


def test_few_values_get_a_cell_each() -> None:
    cells = Cells.from_sample([3, 1, 2, 2, math.inf, math.nan])
    assert cells.cuts == (1.0, 2.0, 3.0)
    assert [cells.cell(value) for value in (0, 1, 2, 2.5, 3, 9)] == [1, 2, 3, 3, 4, 4]
    assert Cells.from_sample([]).cell(5.0) == 1


@pytest.mark.parametrize("cuts", [(1.0, 0.0), (math.nan,), (math.inf,), tuple(map(float, range(4)))])
def test_cuts_are_checked(cuts) -> None:
    with pytest.raises(ModelError, match="cuts"):
        Cells(cuts, bits=2)
