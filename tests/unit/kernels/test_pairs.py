"""Pair grids: how they are built, and that they find what brute force finds, compiled and plain."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tamis.index.packed.boxes.box_index import BoxIndex
from tamis.index.packed.boxes.coding import Coding, boxes_from_dense
from tamis.index.packed.boxes.grouping import file_boxes, is_sparse
from tamis.index.packed.boxes.segment import Segment
from tamis.kernels import directory as at
from tamis.kernels.boxes import pairs, pairs_build
from tamis.kernels.boxes.quantise import FREE, OPEN
from tests.unit.kernels.naive_boxes import fast_match, nasty_boxes, nasty_events

#: Bitmaps stay out.
GRIDS = (at.TREE, at.PAIRS)
FORMS = pytest.mark.parametrize("plain", [False, True], ids=["compiled", "plain"])


def pick(function, plain):
    return function.py_func if plain else function


def sparse_boxes(rng, n, d, free=0.75):
    lo, hi = nasty_boxes(rng, n, d, free=free)
    smooth = rng.random((n, 1)) < 0.7
    a = rng.random((n, d)) * 8 - 4
    bounded = np.isfinite(lo) & np.isfinite(hi) & smooth
    return np.where(bounded, a, lo), np.where(bounded, a + rng.random((n, d)), hi)


def segment_of(lo, hi):
    boxes = boxes_from_dense(lo, hi)
    return Segment.build(boxes, np.arange(len(lo), dtype=np.int32), Coding.train(boxes), at.PAIRS)


def csr_sets(offsets, rows):
    return [sorted(rows[a:b].tolist()) for a, b in itertools.pairwise(offsets)]


@pytest.mark.parametrize("seed", range(10))
def test_sparse_boxes_are_found_in_batches_and_one_by_one(seed):
    rng = np.random.default_rng(seed)
    d, n = int(rng.integers(8, 24)), int(rng.choice([20, 400, 6_000]))
    lo, hi = sparse_boxes(rng, n, d, free=rng.choice([0.7, 0.9, 0.99]))
    index = BoxIndex(d, GRIDS)
    index.add_boxes(lo, hi, np.arange(n, dtype=np.int32))
    index.compact()
    lows, highs = nasty_events(rng, lo, hi, 60, missing=rng.choice([0.0, 0.2, 0.5]))
    want = [fast_match(lo, hi, low, high) for low, high in zip(lows, highs, strict=True)]
    assert csr_sets(*index.match_points(lows, highs)) == want
    for low, high, rows in zip(lows, highs, want, strict=True):
        assert sorted(index.match_point(low, high).tolist()) == rows


def test_wide_event_intervals_report_each_box_once():
    rng = np.random.default_rng(3)
    d, n = 10, 3_000
    lo = np.full((n, d), -np.inf)
    hi = np.full((n, d), np.inf)
    axes = np.argsort(rng.random((n, d)), axis=1)[:, :2]
    start = rng.random((n, 2)) * 100
    np.put_along_axis(lo, axes, start, 1)
    np.put_along_axis(hi, axes, start + rng.random((n, 2)) * 30, 1)
    index = BoxIndex(d, GRIDS)
    index.add_boxes(lo, hi, np.arange(n, dtype=np.int32))
    assert index.statistics()["segments"][0]["layout"] == "pairs"
    lows = rng.random((40, d)) * 100
    highs = lows + rng.random((40, d)) * 60
    highs[0], lows[0] = np.finfo(float).max, -np.finfo(float).max
    want = [fast_match(lo, hi, low, high) for low, high in zip(lows, highs, strict=True)]
    assert csr_sets(*index.match_points(lows, highs)) == want
    assert want[0] == list(range(n))


def test_more_matches_than_any_buffer():
    """All boxes in one cell, all matching: survivors and output both overflow."""
    n, d = 30_000, 8
    lo, hi = np.full((n, d), -np.inf), np.full((n, d), np.inf)
    lo[:, 3], hi[:, 3], lo[:, 5], hi[:, 5] = 0, 1, 0, 1
    lo[0] = hi[0] = 9.0
    index = BoxIndex(d, GRIDS)
    index.add_boxes(lo, hi, np.arange(n, dtype=np.int32))
    assert index.statistics()["segments"][0]["layout"] == "pairs"
    events = np.full((20, d), 0.5)
    offsets, rows = index.match_points(events)
    assert np.diff(offsets).tolist() == [n - 1] * 20
    assert np.array_equal(np.sort(rows[: n - 1]), np.arange(1, n))
    assert index.match_point(events[0]).size == n - 1


def test_which_boxes_are_sparse():
    rng = np.random.default_rng(5)
    assert is_sparse(boxes_from_dense(*sparse_boxes(rng, 100, 20)), 20)
    assert not is_sparse(boxes_from_dense(*sparse_boxes(rng, 100, 5)), 5)
    assert not is_sparse(boxes_from_dense(np.zeros((5, 20)), np.ones((5, 20))), 20)


@FORMS
def test_records_name_the_narrowest_axes_first(plain):
    first = np.array([0, 0, 2, 7], np.uint32)
    axis = np.array([3, 5, 0, 1, 2, 3, 4], np.int16)
    codes = np.array([[10, 90], [20, 30], [0, 50], [0, 10], [0, 30], [5, 15], [0, 40]], np.int16)
    records, below = np.zeros((3, 16), np.int16), np.empty((6, pairs_build.N_BUCKETS + 1), np.int32)
    codes *= 16  # a bucket of bounds each
    pick(pairs_build.count_bounds, plain)(axis, codes, below)
    below[:] = np.arange(pairs_build.N_BUCKETS + 1)  # as many bounds everywhere
    pick(pairs_build.write_records, plain)(first, axis, codes, below, records)
    assert records[0, 4:12].tolist() == [FREE, OPEN] * 4
    assert records[1, :2].tolist() == [5, 3]
    assert records[1, 4:12].tolist() == [320, 480, 160, 1440, FREE, OPEN, FREE, OPEN]
    assert records[2, :4].tolist() == [1, 3, 2, 4]  # equal widths: the first axis first
    assert records[:, 12].tolist() == [0, 0, 1]


@FORMS
def test_an_equality_with_a_rare_value_is_narrower_than_one_with_a_common_value(plain):
    first = np.arange(0, 22, 2).astype(np.uint32)
    axis = np.tile(np.array([0, 1], np.int16), 10)
    codes = np.repeat(np.array([[160, 160]], np.int16), 20, axis=0)
    codes[1::2] = 320
    codes[0], codes[3] = 480, 640  # box 0 has a rare value on axis 0, box 1 on axis 1
    records, below = np.zeros((10, 16), np.int16), np.empty((2, pairs_build.N_BUCKETS + 1), np.int32)
    pick(pairs_build.count_bounds, plain)(axis, codes, below)
    assert below[:, -1].tolist() == [20, 20]
    assert below[0, [10, 11, 30, 31]].tolist() == [0, 18, 18, 20]
    pick(pairs_build.write_records, plain)(first, axis, codes, below, records)
    assert records[0, :2].tolist() == [0, 1]
    assert records[1, :2].tolist() == [1, 0]


@FORMS
def test_every_box_stands_in_every_cell_it_touches(plain):
    rng = np.random.default_rng(6)
    lo, hi = sparse_boxes(rng, 150, 8)
    boxes = boxes_from_dense(lo, hi)
    _, records, groups = file_boxes(boxes, Coding.train(boxes).codes_of(boxes))
    groups[:, pairs_build.SHIFT_0], groups[:, pairs_build.BITS_1] = 12, 0  # eight cells each
    groups[:, pairs_build.SHIFT_1] = 15
    groups[:, pairs_build.FIRST_CELL] = 8 * np.arange(len(groups))
    cells = np.empty(8 * len(groups) + 1, np.uint32)
    pick(pairs_build.count_cells, plain)(groups, records, cells)
    n = int(cells[-1])
    arrays = pairs_build.CellArrays(
        np.zeros(128 * n, np.uint8), np.zeros(32 * n, np.uint8), np.full(16 * n, 1_000, np.int32)
    )
    fill = np.zeros(cells.size, np.int32)
    pick(pairs_build.fill_cells, plain)(groups, records, cells, fill, np.arange(8, dtype=np.int16), arrays)
    for group in groups:
        for slot in range(group[pairs_build.START], group[pairs_build.START] + group[pairs_build.N_MEMBERS]):
            for u in range(8):
                cell = group[pairs_build.FIRST_CELL] + u
                listed = arrays.members[16 * cells[cell] : 16 * cells[cell + 1]]
                touches = max(records[slot, 4], 0) >> 12 <= u <= records[slot, 5] >> 12
                assert (slot in listed or ~slot in listed) == touches


@FORMS
def test_coarse_codes_are_monotone_and_leave_room_for_open_sides(plain):
    coarse = [pick(pairs_build.coarse_code, plain)(code) for code in range(-1, 32_767, 7)]
    assert coarse == sorted(coarse)
    assert (coarse[0], coarse[1], coarse[-1]) == (0, 1, 253)
    cell = [pick(pairs_build.cell_code, plain)(code, 3, 10) for code in range(2_900, 4_200)]
    assert cell == sorted(cell)
    assert (cell[0], cell[-1]) == (1, 253)


@pytest.mark.parametrize("d", [12, 62, 63, 64, 150])
def test_more_axes_than_a_table_has_columns(d):
    """Axes that no lane can name, and boxes with more axes than a lane can say, are settled on float64."""
    rng = np.random.default_rng(d)
    n = 4_000
    lo, hi = np.full((n, d), -np.inf), np.full((n, d), np.inf)
    chosen = np.argsort(rng.random((n, d)), axis=1)[:, :6]
    bounded = np.arange(6) < rng.integers(0, 7, (n, 1))
    start = rng.integers(0, 40, (n, 6)) / 4
    np.put_along_axis(lo, chosen, np.where(bounded, start, -np.inf), 1)
    np.put_along_axis(hi, chosen, np.where(bounded, start + rng.integers(0, 30, (n, 6)) / 4, np.inf), 1)
    index = BoxIndex(d, GRIDS)
    index.add_boxes(lo, hi, np.arange(n, dtype=np.int32))
    assert index.statistics()["segments"][0]["layout"] == "pairs"
    lows = rng.integers(0, 60, (40, d)) / 4
    lows[rng.random((40, d)) < 0.1] = np.nan
    highs = lows + rng.choice([0.0, 0.25, 3.0], (40, d))
    for high in (lows, highs):
        want = [fast_match(lo, hi, low, other) for low, other in zip(lows, high, strict=True)]
        assert csr_sets(*index.match_points(lows, high)) == want
        assert [sorted(index.match_point(*pair).tolist()) for pair in zip(lows, high, strict=True)] == want


@FORMS
def test_the_grid_choice_and_keys_run_in_both_forms(plain):
    rng = np.random.default_rng(7)
    records = np.zeros((500, 16), np.int16)
    records[:, 0], records[:, 1] = 4, 2
    for column in (4, 6):
        records[:, column] = rng.integers(0, 30_000, 500)
        records[:, column + 1] = records[:, column] + 300
    b0, b1 = pick(pairs_build.choose_grid, plain)(records, 0, 500, True)
    assert b0 + b1 >= 4
    assert pick(pairs_build.choose_grid, plain)(records, 0, 500, False)[1] == 0
    lower = records[:, 4:7:2].max(axis=1) < 1 << 14
    keys = np.empty(500, np.uint16)
    pick(pairs_build.zorder_keys, plain)(records, np.ones(500, bool), keys)
    assert keys[lower].max() < 1 << 14
    assert (records[:, 0] == 2).all()
    assert (records[:, 1] == 4).all()


@FORMS
def test_match_pairs_and_join_run_in_both_forms(plain):
    rng = np.random.default_rng(8)
    lo, hi = sparse_boxes(rng, 120, 9)
    segment = segment_of(lo, hi)
    lows, highs = nasty_events(rng, lo, hi, 5)
    coded = []
    for values in (lows, highs):
        columns, tables = np.empty(values.shape[::-1], np.int16), np.zeros((len(values), 64), np.uint8)
        pick(pairs.code_events, plain)(segment.row, values, np.empty(9, np.int16), columns, tables)
        coded.append((tables, columns))
    events = pairs.TabledEvents(coded[0][0], coded[1][0], lows, highs)
    order = np.argsort(coded[0][1], axis=1, kind="stable").astype(np.int32)
    output = pairs.PairOutput(
        np.empty((2, pairs.SURVIVORS), np.int32), np.empty(2_000, np.int32), np.empty(2_000, np.int32)
    )
    count = pick(pairs.match_pairs, plain)(segment.row, events, (coded[0][1], coded[1][1]), order, output)
    part = (np.array([0, 1, 1, 1, 1, 2]), np.array([777, 888], np.int32))
    offsets, out = np.empty(6, np.int64), np.empty(count + 2, np.int32)
    written = (output.events[:count], output.rows[:count])
    pick(pairs.join_csr, plain)(part, written, offsets, np.empty(5, np.int64), out)
    want = [fast_match(lo, hi, low, high) for low, high in zip(lows, highs, strict=True)]
    want[0], want[4] = [*want[0], 777], [*want[4], 888]
    assert csr_sets(offsets, out) == want
