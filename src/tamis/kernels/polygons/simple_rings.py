"""Whether a ring is simple: no two edges meet, except neighbours at their common vertex."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tamis.kernels.compile import Int, hot_kernel, inline_kernel
from tamis.kernels.emit import count_bits, lowest_bit
from tamis.kernels.polygons.edge_lanes import EDGES, UNSURE, crossing_edges, edges_around, edges_on_ray
from tamis.kernels.polygons.flat_rings import Corners, Rings, middle, plain_side, same_way, side

__all__ = ["check_simple"]


@hot_kernel
def check_simple(rings: Rings, simple: npt.NDArray[np.bool_], corners: Corners) -> None:
    """Write whether each ring is a point or simple; for some dozen vertices each.

    A ring that turns once around its middle is; of others every pair of edges is compared.
    """
    for i in range(simple.size):
        first, last = rings.start[i], rings.start[i + 1] - 1
        if first == last or _turns_once(rings.xy, first, last):
            simple[i] = True
        else:
            simple[i] = _is_simple(rings.xy, first, last, corners)


@inline_kernel
def _turns_once(xy: npt.NDArray[np.float64], first: Int, last: Int) -> bool:
    """Return whether a ring surely goes once around the mean of its vertices and never back: then it is simple.

    All edges have the point on the same side, so each direction from it is met as often as the ring goes around;
    a ray is met once. Sure in saying yes.
    """
    if last - first < 3:
        return False
    x, y = middle(xy, first, last)
    left = right = all_edges = (1 << EDGES) - 1
    crossed = np.int64(0)
    for p in range(first, last, EDGES):
        n = min(EDGES, last - p)
        beyond = all_edges << n & all_edges
        around, on_ray = edges_around(xy, p, n, x, y), edges_on_ray(xy, p, n, x, y)
        left &= around | beyond
        right &= around >> UNSURE | beyond
        crossed += count_bits(on_ray)
    return (left == all_edges or right == all_edges) and crossed == 1


@hot_kernel
def _is_simple(xy: npt.NDArray[np.float64], first: Int, last: Int, corners: Corners) -> bool:
    """Return whether the ring of rows ``first`` to ``last`` has at least three edges, none of which meet elsewhere."""
    if last - first < 3:
        return False
    for p in range(first, last):
        before = p - 1 if p > first else last - 1
        if xy[p, 0] == xy[p + 1, 0] and xy[p, 1] == xy[p + 1, 1]:
            return False
        if plain_side(xy, before, xy, p, xy, p + 1, corners) == 0 and same_way(xy, p, before, xy, p + 1):
            return False
        if _meets_later(xy, p, last - 1 if p == first else last, corners):
            return False
    return True


@inline_kernel
def _meets_later(xy: npt.NDArray[np.float64], p: Int, stop: Int, corners: Corners) -> bool:
    """Return whether the edge from ``p`` meets one that comes after its neighbour, up to the one before ``stop``."""
    for begin in range(p + 2, stop, EDGES):
        n = min(EDGES, stop - begin)
        met = crossing_edges(xy, begin, n, xy[p, 0], xy[p, 1], xy[p + 1, 0], xy[p + 1, 1])
        if met & ((1 << UNSURE) - 1):
            return True
        met >>= UNSURE
        while met:
            q = begin + lowest_bit(met)
            if _cuts(xy, p, q, corners) and _cuts(xy, q, p, corners):
                return True
            met &= met - 1
    return False


@hot_kernel
def _cuts(xy: npt.NDArray[np.float64], p: Int, q: Int, corners: Corners) -> bool:
    """Return whether the line through the edge from ``p`` touches the edge from ``q``."""
    first, second = side(xy, p, xy, p + 1, xy, q, corners), side(xy, p, xy, p + 1, xy, q + 1, corners)
    return bool(first * second <= 0)
