"""The plain scan: compiled and plain, against NumPy, with too little room, with gaps."""

from __future__ import annotations

import numpy as np
import pytest

from tamis_bench.scan import scan_boxes

FORMS = pytest.mark.parametrize("scan", [scan_boxes, scan_boxes.py_func], ids=["compiled", "plain"])


def all_found(scan, lo, hi, points, room):
    offsets, out = np.zeros(len(points) + 1, np.int64), np.empty(room, np.int32)
    done = 0
    while (done := scan(lo, hi, points, done, offsets, out)) < len(points):
        out = np.concatenate((out, np.empty(room, np.int32)))
    return [out[offsets[e] : offsets[e + 1]].tolist() for e in range(len(points))]


@FORMS
@pytest.mark.parametrize("room", [1, 1_000])
def test_scan_agrees_with_numpy(scan, room, rng):
    lo = rng.integers(0, 6, (60, 3)).astype(float)
    hi = lo + rng.integers(0, 3, (60, 3))
    lo[rng.random((60, 3)) < 0.2], hi[rng.random((60, 3)) < 0.2] = -np.inf, np.inf
    points = rng.integers(0, 8, (25, 3)).astype(float)
    want = [np.flatnonzero(((lo <= point) & (point <= hi)).all(axis=1)).tolist() for point in points]
    assert sum(map(len, want)) > 30
    assert all_found(scan, lo, hi, points, room) == want


@FORMS
def test_a_gap_fits_no_side(scan):
    side = np.array([[-np.inf]]), np.array([[np.inf]])
    assert all_found(scan, *side, np.array([[np.nan], [0.0]]), 8) == [[], [0]]


@FORMS
def test_nothing_to_scan(scan):
    none, point = np.empty((0, 2)), np.zeros((1, 2))
    assert all_found(scan, none, none, point, 4) == [[]]
    assert all_found(scan, point, point, none, 4) == []
