"""The storage of boxes: only the sides that constrain something.

A dense ``lo, hi`` float64[n, d] pair costs 320 bytes for a box that constrains 4 of 20 axes. Here box ``s``
owns the entries ``first[s]:first[s + 1]``; an entry is an axis and its two closed ends. An axis that is
not named is free; an event value that is missing fits free axes only, so a missing value fails every
entry (NaN compares false). These float64 ends are the last word wherever the int16 codes tie.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tamis.kernels.compile import Int, hot_kernel
from tamis.kernels.emit import float64_at, int16_at, prefetch, uint32_at

__all__ = ["Boxes", "count_boxes", "holds", "pack_boxes", "take_boxes"]

#: Boxes that are prefetched while others are copied: their order in memory is random.
_AHEAD: Final = 16


class Boxes(NamedTuple):
    """n boxes with m entries in all.

    Attributes
    ----------
    first
        uint32[n + 1], where the entries of each box start.
    axis
        int16[m], ascending inside a box.
    ends
        float64[m, 2], closed; ``-inf`` and ``+inf`` where one side is open.
    """

    first: npt.NDArray[np.uint32]
    axis: npt.NDArray[np.int16]
    ends: npt.NDArray[np.float64]


@hot_kernel
def count_boxes(lo: npt.NDArray[np.float64], hi: npt.NDArray[np.float64], first: npt.NDArray[np.uint32]) -> Int:
    """Count the constrained axes of each dense box into ``first``; return the first bad row, or -1.

    A row is bad if an end is NaN, ``lo > hi``, ``lo = +inf`` or ``hi = -inf``.
    """
    total = np.int64(0)
    for s in range(lo.shape[0]):
        first[s] = total
        for k in range(lo.shape[1]):
            if not (lo[s, k] <= hi[s, k]) or lo[s, k] == np.inf or hi[s, k] == -np.inf:
                return s
            total += lo[s, k] > -np.inf or hi[s, k] < np.inf
    first[lo.shape[0]] = total
    return -1


@hot_kernel
def pack_boxes(
    lo: npt.NDArray[np.float64],
    hi: npt.NDArray[np.float64],
    axis: npt.NDArray[np.int16],
    ends: npt.NDArray[np.float64],
) -> None:
    """Write the entries of dense boxes; ``-0.0`` becomes ``0.0``."""
    at = 0
    for s in range(lo.shape[0]):
        for k in range(lo.shape[1]):
            if lo[s, k] > -np.inf or hi[s, k] < np.inf:
                axis[at] = k
                ends[at, 0] = lo[s, k] + 0.0
                ends[at, 1] = hi[s, k] + 0.0
                at += 1


@hot_kernel
def take_boxes(source: Boxes, slots: npt.NDArray[np.int64], target: Boxes, at: Int) -> Int:
    """Append the boxes ``slots`` of ``source`` to ``target``, which holds ``at`` boxes; return the new count.

    ``target`` must be large enough; only its first ``at`` boxes are read.
    """
    write = np.int64(target.first[at])
    ends = source.ends.ctypes.data
    axes = source.axis.ctypes.data
    for i in range(slots.size):
        entry = np.int64(source.first[slots[min(i + _AHEAD, slots.size - 1)]])
        prefetch(ends + 16 * entry)
        prefetch(axes + 2 * entry)
        for j in range(np.int64(source.first[slots[i]]), np.int64(source.first[slots[i] + 1])):
            target.axis[write] = source.axis[j]
            target.ends[write, 0] = source.ends[j, 0]
            target.ends[write, 1] = source.ends[j, 1]
            write += 1
        at += 1
        target.first[at] = write
    return at


@hot_kernel
def holds(boxes: npt.NDArray[np.int64], slot: Int, low: npt.NDArray[np.float64], high: npt.NDArray[np.float64]) -> bool:
    """Decide in float64 whether box ``slot`` meets the event ``[low, high]``; NaN fits no entry.

    ``boxes`` begins with the addresses of ``first``, ``axis`` and ``ends``.
    """
    start = np.int64(uint32_at(boxes[0], slot))
    for j in range(start, np.int64(uint32_at(boxes[0], slot + 1))):
        k = np.int64(int16_at(boxes[1], j))
        if not (float64_at(boxes[2], 2 * j) <= high[k] and float64_at(boxes[2], 2 * j + 1) >= low[k]):
            return False
    return True
