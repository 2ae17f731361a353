"""Whether two rings cross, as far as float64 is sure: block by block, eight edges at a time."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tamis.kernels.compile import Int, inline_kernel
from tamis.kernels.emit import lowest_bit
from tamis.kernels.polygons.edge_lanes import EDGES, UNSURE, crossing_edges, edges_near_box
from tamis.kernels.polygons.flat_rings import BLOCK, Rings

__all__ = ["apart", "find_crossing"]

_CROSSED = (1 << UNSURE) - 1


@inline_kernel
def apart(a: npt.NDArray[np.float64], b: npt.NDArray[np.float64]) -> bool:
    """Return whether two boxes (min x, min y, max x, max y) have no point in common."""
    return bool(a[2] < b[0] or b[2] < a[0] or a[3] < b[1] or b[3] < a[1])


@inline_kernel
def find_crossing(a: Rings, i: Int, b: Rings, j: Int) -> Int:
    """Return whether two rings cross properly (1) or have no contact (0), as float64 proves; -1: it does not.

    A crossing ends the search, and so does the first pair of edges that may touch.
    """
    bounds = b.bounds[j]
    for m in range(a.block_start[i], a.block_start[i + 1]):
        if apart(a.blocks[m], bounds):
            continue
        begin = a.start[i] + (m - a.block_start[i]) * BLOCK
        stop = min(begin + BLOCK, a.start[i + 1] - 1)
        for n in range(b.block_start[j], b.block_start[j + 1]):
            if apart(b.blocks[n], a.blocks[m]):
                continue
            near_a = _near_both(a.xy, begin, stop, a.blocks[m], b.blocks[n])
            if not near_a:
                continue
            first = b.start[j] + (n - b.block_start[j]) * BLOCK
            last = min(first + BLOCK, b.start[j + 1] - 1)
            near_b = _near_both(b.xy, first, last, a.blocks[m], b.blocks[n])
            if not near_b:
                continue
            while near_a:
                met = _met(a.xy, begin + lowest_bit(near_a), b.xy, first, last, near_b)
                if met:
                    return np.int64(1 if met & _CROSSED else -1)
                near_a &= near_a - 1
    return np.int64(0)


@inline_kernel
def _near_both(
    xy: npt.NDArray[np.float64], begin: Int, stop: Int, a: npt.NDArray[np.float64], b: npt.NDArray[np.float64]
) -> Int:
    """Return which edges, one bit each, may meet what two boxes have in common: only there can rings meet."""
    low_x, low_y, high_x, high_y = max(a[0], b[0]), max(a[1], b[1]), min(a[2], b[2]), min(a[3], b[3])
    x, y = low_x + (high_x - low_x) * 0.5, low_y + (high_y - low_y) * 0.5
    half_x, half_y = max(high_x - x, x - low_x), max(high_y - y, y - low_y)
    near = np.int64(0)
    for p in range(begin, stop, EDGES):
        near |= edges_near_box(xy, p, min(EDGES, stop - p), x, y, half_x, half_y) << (p - begin)
    return near


@inline_kernel
def _met(a: npt.NDArray[np.float64], p: Int, b: npt.NDArray[np.float64], first: Int, last: Int, near: Int) -> Int:
    """Return which edges of b from ``first`` on, among those ``near``, the edge from ``p`` of a crosses or may touch.

    Groups of eight without any such edge are skipped; bits of different edges may be combined.
    """
    met = np.int64(0)
    for q in range(first, last, EDGES):
        if near >> (q - first) & _CROSSED:
            met |= crossing_edges(b, q, min(EDGES, last - q), a[p, 0], a[p, 1], a[p + 1, 0], a[p + 1, 1])
    return met
