"""The codes: monotone, the same for bounds and values, and honest about ties."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tamis.kernels.boxes import quantise as q
from tests.unit.kernels.naive_boxes import nasty_values

HUGE = np.finfo(float).max
values = st.floats(allow_nan=False, allow_infinity=False)


def train(numbers):
    ends = np.array(numbers, float).reshape(-1, 1).repeat(2, 1)
    quantiser = q.train_quantiser(1, np.zeros(len(ends), np.int16), ends)
    return quantiser, quantiser.addresses()


def code_values(table, numbers, function=q.code_values):
    codes = np.empty(1, np.int16)
    result = []
    for number in numbers:
        function(table, np.array([number]), codes)
        result.append(int(codes[0]))
    return result


def side_codes(table, lo, hi, function=q.code_sides):
    codes = np.empty((1, 2), np.int16)
    function(table, np.zeros(1, np.int16), np.array([[lo, hi]]), codes)
    return int(codes[0, 0]), int(codes[0, 1])


@given(st.lists(values, min_size=1, max_size=40), values, values, values)
@settings(max_examples=settings.default.max_examples * 3, deadline=None)
def test_codes_never_contradict_float64(knots, lo, hi, x):
    """Below and above by code is below and above in float64; only a tie is left open."""
    _, table = train(knots)
    [code] = code_values(table, [x])
    low, high = side_codes(table, lo, hi)
    assert code % 2 == 0
    assert 2 <= code < 32_000
    if low < code:
        assert lo <= x
    if low > code:
        assert x < lo
    if high > code:
        assert x <= hi
    if high < code:
        assert hi < x


@given(st.lists(values, min_size=1, max_size=40))
@settings(max_examples=settings.default.max_examples, deadline=None)
def test_a_bound_on_a_knot_never_ties(knots):
    _, table = train(knots)
    for x in knots:
        [code] = code_values(table, [x])
        low, high = side_codes(table, x, x)
        if x != -HUGE:
            assert low < code < high


@pytest.mark.parametrize("numbers", [np.geomspace(1e-3, 1e9, 20_000), np.linspace(-5, 5, 9_001), np.repeat(3.0, 10)])
def test_the_map_is_monotone_on_many_knots(numbers):
    quantiser, table = train(numbers)
    assert quantiser.knots.size <= 4_000
    rng = np.random.default_rng(1)
    probes = np.sort(np.concatenate((rng.choice(numbers, 2_000), rng.normal(0, 1e4, 2_000), [-HUGE, HUGE, 0.0, -0.0])))
    codes = code_values(table, probes)
    assert (np.diff(codes) >= 0).all()
    assert codes[0] >= 2


def test_plain_and_compiled_codes_are_equal():
    rng = np.random.default_rng(2)
    numbers = nasty_values(rng, 300)
    _, table = train(numbers)
    probes = np.concatenate((numbers[:60], nasty_values(rng, 60), [np.nan]))
    assert code_values(table, probes) == code_values(table, probes, q.code_values.py_func)
    for lo, hi in zip(numbers[:40], numbers[40:80], strict=True):
        assert side_codes(table, lo, hi) == side_codes(table, lo, hi, q.code_sides.py_func)
        assert q.code_of(table, 0, lo) == q.code_of.py_func(table, 0, lo)


def test_sentinels():
    _, table = train([1.0, 2.0, 3.0])
    assert code_values(table, [np.nan]) == [q.MISSING]
    assert side_codes(table, -np.inf, 2.0)[0] == q.PRESENT
    assert side_codes(table, q.ANY_VALUE, np.inf) == (q.PRESENT, q.OPEN)
    assert side_codes(table, 2.0, np.inf)[1] == q.OPEN
    assert side_codes(table, -HUGE / 2, HUGE)[0] > q.PRESENT
    assert side_codes(table, 2.0, HUGE)[1] < q.OPEN


def test_an_axis_without_knots_counts_as_missing():
    quantiser = q.train_quantiser(3, np.array([1], np.int16), np.array([[0.0, 1.0]]))
    codes = np.empty(4, np.int16)
    q.code_values(quantiser.addresses(), np.array([5.0, 0.5, 5.0, 5.0]), codes)
    assert codes[1] > 0
    assert codes[[0, 2, 3]].tolist() == [q.MISSING] * 3
    assert quantiser.has_axes(np.array([1]))
    assert not quantiser.has_axes(np.array([0]))
    assert not quantiser.has_axes(np.array([3]))


def test_no_bounds_at_all():
    quantiser = q.train_quantiser(2, np.zeros(0, np.int16), np.zeros((0, 2)))
    codes = np.empty(2, np.int16)
    q.code_values(quantiser.addresses(), np.array([5.0, 0.5]), codes)
    assert codes.tolist() == [q.MISSING] * 2
