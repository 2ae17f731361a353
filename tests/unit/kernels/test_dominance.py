"""Covering on the packed tree and exact subtraction: compiled and plain, against the obvious."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tamis.index.dominance import corners
from tamis.index.dominance.corners import NOBODY, CornerIndex
from tamis.index.packed.boxes.coding import Coding, boxes_from_dense
from tamis.index.packed.boxes.segment import Segment
from tamis.kernels import directory as at
from tamis.kernels.boxes import dominance, subtract
from tamis.kernels.boxes.dominance import Walk
from tamis.kernels.boxes.quantise import ANY_VALUE
from tests.unit.kernels.naive_boxes import nasty_boxes

FORMS = pytest.mark.parametrize("plain", [False, True], ids=["compiled", "plain"])


def pick(function, plain):
    return function.py_func if plain else function


def some_boxes(rng, n, d=3):
    """Nasty boxes as the corner index takes them: a constrained axis without a lower end demands a value."""
    lo, hi = nasty_boxes(rng, n, d, free=0.2)
    return np.where(np.isneginf(lo) & np.isfinite(hi), ANY_VALUE, lo) + 0.0, hi + 0.0


def question_of(lo, hi):
    free = np.isneginf(lo) & np.isposinf(hi)
    return np.where(free, np.nan, lo), np.where(free, np.nan, hi)


def naive_covers(lo, hi, low, high):
    """Return bool[n, m]: box j covers box i; a free axis is covered by a free one only."""
    free, other = np.isneginf(lo) & np.isposinf(hi), np.isneginf(low) & np.isposinf(high)
    fits = (lo[None] <= low[:, None]) & (hi[None] >= high[:, None]) & ~other[:, None]
    return (fits | free[None]).all(axis=2)


@pytest.mark.parametrize("n", [1, 40, 1_500, 5_000])
def test_least_covers_and_insides_are_those_of_a_scan(n):
    rng = np.random.default_rng(n)
    lo, hi = some_boxes(rng, n)
    low, high = some_boxes(rng, 200)
    same = rng.integers(0, n, 50)
    low[:50], high[:50] = lo[same], hi[same]
    index = CornerIndex(3)
    rows = rng.permutation(3 * n)[:n].astype(np.int32)
    index.add_boxes(lo, hi, rows)
    removed = rows[rng.random(n) < 0.2]
    index.remove(removed)
    alive = ~np.isin(rows, removed)
    covers = naive_covers(lo, hi, low, high) & alive
    least = np.where(covers, rows[None].astype(np.int64), NOBODY).min(axis=1)
    assert np.array_equal(index.find_least_covers(*question_of(low, high)), least)
    offsets, rows_inside = index.find_inside(*question_of(low, high))
    inside = naive_covers(low, high, lo, hi).T & alive
    for i in range(200):
        assert sorted(rows_inside[offsets[i] : offsets[i + 1]].tolist()) == sorted(rows[inside[i]].tolist())
    index.check_invariants()


def test_a_large_batch_is_answered_in_its_own_order(monkeypatch):
    """Large batches are asked along a curve, and answered as they came."""
    rng = np.random.default_rng(12)
    lo, hi = some_boxes(rng, 1_500)
    low, high = some_boxes(rng, 300)
    index = CornerIndex(3)
    index.add_boxes(lo, hi, rng.permutation(1_500).astype(np.int32))
    apart = index.find_least_covers(*question_of(low, high))
    assert len(set(apart.tolist())) > 10
    monkeypatch.setattr(corners, "_MANY", 100)
    monkeypatch.setattr(corners, "_LARGE", 1_000)
    assert index.find_least_covers(*question_of(low, high)).tolist() == apart.tolist()


@FORMS
def test_kernels_in_both_forms(plain):
    rng = np.random.default_rng(3)
    lo, hi = some_boxes(rng, 60)
    low, high = some_boxes(rng, 12)
    packed = boxes_from_dense(lo, hi)
    segment = Segment.build(packed, np.arange(60, dtype=np.int32), Coding.train(packed), at.TREE)
    least = np.empty(int(segment.arrays["levels"][-1]), np.int32)
    pick(dominance.write_least_rows, plain)(segment.rows, segment.arrays["levels"], least)
    assert least[0] == 0
    walk = Walk(np.zeros((4, 3), np.int16), np.empty(1_024, np.int64), np.zeros(2, np.int64))
    directory, address = segment.row.reshape(1, -1), np.array([least.ctypes.data])
    best = np.full(12, NOBODY, np.int32)
    asked_lo, asked_hi = question_of(low, high)
    pick(dominance.find_least_covers, plain)(directory, address, (asked_hi, asked_lo), best, walk)
    covers = naive_covers(lo, hi, low, high)
    assert best.tolist() == np.where(covers.any(1), covers.argmax(1), NOBODY).tolist()
    offsets, out = np.zeros(13, np.int64), np.empty(4_096, np.int32)
    events = np.where(np.isnan(asked_lo), ANY_VALUE, asked_lo), np.where(np.isnan(asked_hi), np.inf, asked_hi)
    find = pick(dominance.find_inside, plain)
    assert find(directory, events, (asked_lo, asked_hi), 0, offsets, out, walk) == 12
    inside = naive_covers(low, high, lo, hi).T
    assert np.diff(offsets).tolist() == inside.sum(axis=1).tolist()
    scanned = np.full(12, NOBODY, np.int32)
    finite = (np.minimum(lo, 9.0), np.maximum(hi, -9.0))  # the scan compares closed boxes without free axes
    pick(dominance.scan_least_covers, plain)(*finite, (low, high), scanned)
    plain_covers = ((finite[0][None] <= low[:, None]) & (finite[1][None] >= high[:, None])).all(axis=2)
    assert scanned.tolist() == np.where(plain_covers.any(1), plain_covers.argmax(1), NOBODY).tolist()


def test_out_is_enlarged_when_it_is_full():
    index = CornerIndex(1)
    index.add_boxes(np.zeros((9_000, 1)), np.ones((9_000, 1)), np.arange(9_000, dtype=np.int32))
    offsets, rows = index.find_inside(np.array([[0.0], [0.5]]), np.array([[1.0], [2.0]]))
    assert offsets.tolist() == [0, 9_000, 9_000]
    assert np.array_equal(np.sort(rows), np.arange(9_000))


def cells_of(lo, hi):
    """The places where integer boxes can differ: whole numbers and the gaps between them, as doubled numbers."""
    return set(itertools.product(*(range(int(2 * a), int(2 * b) + 1) for a, b in zip(lo, hi, strict=True))))


@FORMS
@pytest.mark.parametrize("seed", range(6))
def test_unions_are_exact_on_closed_boxes(plain, seed):
    rng = np.random.default_rng(seed)
    lo = rng.integers(0, 5, (14, 2)).astype(float)
    hi = lo + rng.integers(0, 4, (14, 2))
    packed = boxes_from_dense(lo, hi)
    segment = Segment.build(packed, np.arange(14, dtype=np.int32), Coding.train(packed), at.TREE)
    walk = Walk(np.zeros((4, 2), np.int16), np.empty(1_024, np.int64), np.zeros(2, np.int64))
    pieces = subtract.Pieces(np.empty((202, 2)), np.empty((202, 2)), np.empty((202, 2), bool))
    alive, used = np.ones(14, bool), np.full((14, 100), -1, np.int32)
    order = rng.permutation(14).astype(np.int32)
    pick(subtract.find_unions, plain)(segment.row, (lo, hi), order, alive, pieces, used, walk)
    living = np.ones(14, bool)
    for i, row in enumerate(order.tolist()):
        living[row] = False
        others = set().union(*(cells_of(lo[j], hi[j]) for j in np.flatnonzero(living)))
        contained = cells_of(lo[row], hi[row]) <= others
        assert (not alive[row]) == contained
        by = used[i][used[i] >= 0]
        if contained:
            assert cells_of(lo[row], hi[row]) <= set().union(*(cells_of(lo[j], hi[j]) for j in by))
        else:
            assert by.size == 0
            living[row] = True
