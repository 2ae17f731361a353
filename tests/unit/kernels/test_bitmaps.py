"""Bitmaps: how they are built, and that they find what brute force finds, compiled and plain."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tamis.index.packed.boxes.box_index import BoxIndex
from tamis.index.packed.boxes.coding import Coding, boxes_from_dense
from tamis.index.packed.boxes.segment import Segment
from tamis.kernels import directory as at
from tamis.kernels.bitmaps import match as bitmaps
from tamis.kernels.bitmaps import order as node
from tamis.kernels.bitmaps.build import MISSING_ROW, bucket_map
from tamis.kernels.bitmaps.words import N_ROWS, N_WORDS, VECTOR, and_rows, fit_box
from tamis.kernels.boxes.pairs import SURVIVORS, PairOutput
from tamis.kernels.compile import hot_kernel
from tests.unit.kernels.naive_boxes import fast_match, nasty_boxes, nasty_events

FORMS = pytest.mark.parametrize("plain", [False, True], ids=["compiled", "plain"])


def index_of(lo, hi):
    index = BoxIndex(lo.shape[1], (at.BITMAPS,))
    index.add_boxes(lo, hi, np.arange(len(lo), dtype=np.int32))
    index.compact()
    return index


def segment_of(lo, hi):
    boxes = boxes_from_dense(lo, hi)
    return Segment.build(boxes, np.arange(len(lo), dtype=np.int32), Coding.train(boxes), at.BITMAPS)


def csr_sets(offsets, rows):
    return [sorted(rows[a:b].tolist()) for a, b in itertools.pairwise(offsets)]


def wide_boxes(rng, n, d, width=0.5):
    lo = rng.random((n, d)) * (1 - width)
    hi = lo + width
    free = rng.random((n, d)) < 0.5
    lo[free], hi[free] = -np.inf, np.inf
    return lo, hi


@hot_kernel
def call_and_rows(tables, buckets, columns, n, out):
    return and_rows(tables, buckets, columns, n, out)


@hot_kernel
def call_fit_box(box, low, high, columns):
    return fit_box(box, low, high, columns)


def pick(function, plain):
    return function.py_func if plain else function


@FORMS
@pytest.mark.parametrize("n", [0, 1, 5])
def test_rows_are_combined(plain, n):
    rng = np.random.default_rng(n)
    tables = rng.integers(-(2**63), 2**63 - 1, (n, N_ROWS, N_WORDS))
    tables[:, :, 3] = 0
    buckets, columns = rng.integers(0, N_ROWS, 9).astype(np.uint8), rng.permutation(9)[:n].astype(np.uint8)
    out = np.zeros(N_WORDS, np.int64)
    mask = pick(call_and_rows, plain)(*(a.ctypes.data for a in (tables, buckets, columns)), n, out.ctypes.data)
    want = np.full(N_WORDS, -1)
    for table, column in zip(tables, columns, strict=True):
        want &= table[buckets[column]]
    assert out.tolist() == want.tolist()
    assert mask == sum(1 << w for w in range(N_WORDS) if want[w])


@FORMS
@pytest.mark.parametrize("columns", [1, 20, 32, 33, 70])
def test_one_box_is_compared(plain, columns):
    rng = np.random.default_rng(columns)
    lanes = -(-columns // VECTOR) * VECTOR
    box, low, high = np.zeros(2 * columns + VECTOR, np.int16), np.zeros(lanes, np.int16), np.zeros(lanes, np.int16)
    fit = pick(call_fit_box, plain)

    def fits():
        return fit(box.ctypes.data, low.ctypes.data, high.ctypes.data, columns)

    box[:columns], box[columns : 2 * columns] = 10, 30
    low[:], high[:] = 20, 22
    low[columns:], high[columns:] = 99, -99  # beyond the last column nothing counts
    box[2 * columns :] = 5
    assert fits() == 0
    k = int(rng.integers(columns))
    for at_lower, at_upper, missed in ((22, 30, False), (10, 20, False), (23, 30, True), (10, 19, True)):
        box[k], box[columns + k] = at_lower, at_upper
        assert fits() != 0
        assert bool(fits() & 0xFFFFFFFF) == missed
        box[k], box[columns + k] = 10, 30


@pytest.mark.parametrize("seed", range(10))
def test_boxes_are_found_in_batches_one_by_one_and_at_all(seed):
    rng = np.random.default_rng(seed)
    d, n, m = int(rng.integers(1, 40)), int(rng.choice([3, 513, 3_000, 9_000])), int(rng.choice([20, 300]))
    lo, hi = nasty_boxes(rng, n, d, free=rng.choice([0.0, 0.5, 0.9]))
    index = index_of(lo, hi)
    assert [segment["layout"] for segment in index.statistics()["segments"]] == ["bitmaps"]
    removed = rng.choice(n, n // 10, replace=False).astype(np.int32)
    index.remove(removed)
    lows, highs = nasty_events(rng, lo, hi, m, missing=rng.choice([0.0, 0.2, 0.6]))
    want = [np.setdiff1d(fast_match(lo, hi, *event), removed).tolist() for event in zip(lows, highs, strict=True)]
    assert csr_sets(*index.match_points(lows, highs)) == want
    assert [sorted(index.match_point(*event).tolist()) for event in zip(lows, highs, strict=True)] == want
    met = np.zeros(m, np.bool_)
    index.meet_points(lows, highs, met, index.snapshot)
    assert met.tolist() == [bool(rows) for rows in want]


def test_wide_ranges_by_the_thousand():
    """Leaves that many events visit, leaves that few visit, and boxes left over in plenty."""
    rng = np.random.default_rng(1)
    lo, hi = wide_boxes(rng, 20_000, 12)
    points = rng.random((500, 12))
    points[rng.random(points.shape) < 0.05] = np.nan
    want = [fast_match(lo, hi, point, point) for point in points]
    assert sum(map(len, want)) > 100_000
    assert csr_sets(*index_of(lo, hi).match_points(points)) == want


def test_wide_event_intervals_report_each_box_once():
    rng = np.random.default_rng(3)
    lo, hi = wide_boxes(rng, 3_000, 10, width=0.1)
    lows = rng.random((40, 10))
    highs = lows + rng.random((40, 10))
    highs[0], lows[0] = np.finfo(float).max, -np.finfo(float).max
    want = [fast_match(lo, hi, low, high) for low, high in zip(lows, highs, strict=True)]
    assert csr_sets(*index_of(lo, hi).match_points(lows, highs)) == want
    assert want[0] == list(range(3_000))


def test_more_matches_than_any_buffer():
    lo, hi = np.zeros((30_000, 8)), np.ones((30_000, 8))
    lo[0] = hi[0] = 9.0
    index = index_of(lo, hi)
    events = np.full((20, 8), 0.5)
    offsets, rows = index.match_points(events)
    assert np.diff(offsets).tolist() == [29_999] * 20
    assert np.array_equal(np.sort(rows[:29_999]), np.arange(1, 30_000))
    assert index.match_point(events[0]).size == 29_999


def test_boxes_without_any_bound():
    index = index_of(np.full((700, 2), -np.inf), np.full((700, 2), np.inf))
    assert sorted(index.match_point(np.array([np.nan, 1.0])).tolist()) == list(range(700))


@pytest.mark.parametrize("n", [1, 512, 513, 40_000])
@pytest.mark.parametrize("kind", ["wide", "equal", "nasty"])
def test_the_order_holds_each_box_once_inside_its_nodes(n, kind):
    rng = np.random.default_rng(n)
    lo, hi = wide_boxes(rng, n, 5) if kind == "wide" else nasty_boxes(rng, n, 5)
    if kind == "equal":
        lo[:], hi[:] = 1.0, 2.0
    arrays = segment_of(lo, hi).arrays
    nodes, slots = arrays["nodes"], arrays["rows"][:n]
    assert np.array_equal(np.sort(slots), np.arange(n))
    leaves = nodes[nodes[:, node.LEAF] >= 0]
    sizes = leaves[:, node.STOP] - leaves[:, node.START]
    assert sizes.min() > 0
    assert sizes.max() <= node.LEAF_SIZE
    assert sizes.sum() == n
    codes = arrays["codes"][:-VECTOR].reshape(n, 2, -1)
    for x, record in enumerate(nodes[1:], start=1):
        children = nodes[x : record[node.SKIP]]
        own = codes[record[node.START] : record[node.STOP], :, record[node.COLUMN]]
        buckets = arrays["buckets"][record[node.COLUMN]][np.maximum(own, 0) >> 5]
        free = own[:, 0] == -2
        assert np.where(free, 0, buckets[:, 0]).min() == record[node.LEAST]
        assert np.where(free, MISSING_ROW, buckets[:, 1]).max() == record[node.GREATEST]
        assert (children[:, node.START] >= record[node.START]).all()
        assert (children[:, node.STOP] <= record[node.STOP]).all()


def test_leaves_are_nearly_full_where_boxes_are_alike():
    arrays = segment_of(*wide_boxes(np.random.default_rng(2), 50_000, 12)).arrays
    assert arrays["first_table"].size - 1 < 1.4 * 50_000 / node.LEAF_SIZE


def test_buckets_hold_about_equally_many_bounds_and_never_fall():
    rng = np.random.default_rng(4)
    corners = np.sort(rng.integers(2, 32_000, (5_000, 2)), axis=1).astype(np.int16)
    buckets = bucket_map(corners)[0]
    assert (np.diff(buckets.astype(int)) >= 0).all()
    assert buckets.max() == MISSING_ROW - 1
    counts = np.bincount(buckets[corners.ravel() >> 5], minlength=MISSING_ROW)
    assert counts.min() > 200
    assert counts.max() < 450


def test_the_kernel_gives_the_same_pairs_as_plain_python():
    rng = np.random.default_rng(6)
    lo, hi = nasty_boxes(rng, 700, 3)
    lows, highs = nasty_events(rng, lo, hi, 30)
    segment = segment_of(lo, hi)
    results = []
    for plain in (False, True):
        events, scratch = bitmaps.make_events(30, 3), bitmaps.make_bitmap_scratch(30)
        pick(bitmaps.bucket_events, plain)(segment.row, (lows, highs), np.zeros((2, 3), np.int16), events)
        output = PairOutput(np.empty((2, SURVIVORS), np.int32), *np.empty((2, 30_000), np.int32))
        count = pick(bitmaps.match_bitmaps, plain)(segment.row, events, (lows, highs), scratch, output)
        results.append((output.events[:count].tolist(), output.rows[:count].tolist(), scratch.counts.tolist()))
    assert results[0] == results[1]
    assert results[0][2][0] > 30
