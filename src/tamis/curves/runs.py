"""Runs: sets of keys as sorted ranges, int64[n, 2], each with its first and its last key.

The ranges of a `Runs` are ascending and apart: no two overlap or touch. So a set of keys has one form, two sets are
equal iff their arrays are, and each operation of [mics] on subscriptions is one line:

======================= ======================================================================================
total covering          `covers`: every inner range lies inside an outer range
partial covering        `covered_ranges`: the inner ranges that do; they can be dropped
subsumption             `covers`, with the union of all as ``outer``
perfect merging         `merged`: ranges that overlap or touch become one, as often as there are such
imperfect merging       `merged` with a gap: ranges at most ``gap`` keys apart become one
partial merging         `merged`, since each range is taken alone
======================= ======================================================================================

Implements: [mics] sections 3.4 to 3.7.
Deviation: "gap less than a threshold" is here "at most ``gap`` keys between", so that 0 is perfect merging.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

__all__ = [
    "NO_RUNS",
    "Runs",
    "coarsened",
    "covered_ranges",
    "covers",
    "difference",
    "intersection",
    "merged",
    "union",
]

#: Ascending ranges of keys, apart from one another; column 0 is the first key, column 1 the last.
Runs = npt.NDArray[np.int64]

NO_RUNS: Final[Runs] = np.empty((0, 2), np.int64)


def merged(ranges: Sequence[Any] | Runs, gap: int = 0) -> Runs:
    """Return the runs of any ranges: those that overlap, touch, or leave at most ``gap`` keys between become one.

    >>> merged([[8, 9], [1, 3], [4, 4], [3, 2]]).tolist(), merged([[1, 3], [6, 6]], gap=2).tolist()
    ([[1, 4], [8, 9]], [[1, 6]])
    """
    bounds = np.asarray(ranges, dtype=np.int64).reshape(-1, 2)
    bounds = bounds[bounds[:, 0] <= bounds[:, 1]]
    if len(bounds) < 2:
        return bounds.copy()
    bounds = bounds[np.argsort(bounds[:, 0], kind="stable")]
    reach = np.maximum.accumulate(bounds[:, 1])
    opens = np.concatenate([[True], bounds[1:, 0] - reach[:-1] > 1 + gap])
    return np.column_stack([bounds[opens, 0], reach[np.concatenate([opens[1:], [True]])]])


def union(*sets: Runs) -> Runs:
    """Return the keys that are in one of the sets."""
    return merged(np.concatenate([NO_RUNS, *sets]))


def difference(keys: Runs, removed: Runs) -> Runs:
    """Return the keys that are not in ``removed``.

    >>> difference(merged([[0, 9]]), merged([[2, 3], [9, 12]])).tolist()
    [[0, 1], [4, 8]]
    """
    if not len(keys) or not len(removed):
        return keys.copy()
    lowest, highest = min(keys[0, 0], removed[0, 0]), max(keys[-1, 1], removed[-1, 1])
    starts = np.concatenate([[lowest], removed[:, 1] + 1])
    stops = np.concatenate([removed[:, 0] - 1, [highest]])
    outside = starts <= stops
    return intersection(keys, np.column_stack([starts[outside], stops[outside]]))


def intersection(left: Runs, right: Runs) -> Runs:
    """Return the keys that are in both sets.

    >>> intersection(merged([[0, 9]]), merged([[2, 3], [9, 12]])).tolist()
    [[2, 3], [9, 9]]
    """
    first = np.searchsorted(right[:, 1], left[:, 0])
    stop = np.searchsorted(right[:, 0], left[:, 1], side="right")
    counts = np.maximum(stop - first, 0)
    left_rows = np.repeat(np.arange(len(left)), counts)
    offset = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    right_rows = first[left_rows] + offset
    return np.column_stack(
        [np.maximum(left[left_rows, 0], right[right_rows, 0]), np.minimum(left[left_rows, 1], right[right_rows, 1])]
    ).astype(np.int64)


def covered_ranges(inner: Runs, outer: Runs) -> npt.NDArray[np.bool_]:
    """Return for each range of ``inner`` whether ``outer`` contains all of it: partial covering."""
    if not len(outer):
        return np.zeros(len(inner), bool)
    row = np.searchsorted(outer[:, 0], inner[:, 0], side="right") - 1
    inside: npt.NDArray[np.bool_] = (row >= 0) & (inner[:, 1] <= outer[row, 1])
    return inside


def covers(outer: Runs, inner: Runs) -> bool:
    """Whether ``outer`` contains every key of ``inner``: total covering, or subsumption if ``outer`` is a union.

    This holds for cells, not for exact boxes: two boxes may have the same cells and differ inside them.
    """
    return bool(covered_ranges(inner, outer).all())


def coarsened(runs: Runs, most: int) -> Runs:
    """Return at most ``most`` ranges that contain a set of keys, by closing the smallest gaps, the first ones first.

    >>> coarsened(merged([[0, 1], [3, 4], [9, 9], [11, 12]]), 2).tolist()
    [[0, 4], [9, 12]]
    """
    if len(runs) <= most:
        return runs
    gaps = runs[1:, 0] - runs[:-1, 1]
    kept = np.sort(np.argsort(gaps, kind="stable")[len(runs) - most :])
    starts = np.concatenate([[0], kept + 1])
    stops = np.concatenate([kept, [len(runs) - 1]])
    return np.column_stack([runs[starts, 0], runs[stops, 1]])
