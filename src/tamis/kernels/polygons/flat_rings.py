"""Many polygons in flat arrays, and predicates on one of them: its orientation, and whether a point is inside.

The only arithmetic is the side of a line on which a given point lies (`side`): float64 where its error bound allows,
else integers (`tamis.kernels.polygons.ring.exact_side`). So every result is exact for the given float64 numbers, for
all finite ones, and there is no uncertain case.

Edges are grouped in blocks of `BLOCK` with a bounding box each: a test at one point of a long ring reads few edges.
Inside a block eight edges are tested together (`tamis.kernels.polygons.edge_lanes`), and one by one only where float64
is not sure.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tamis.kernels.compile import Int, hot_kernel, inline_kernel
from tamis.kernels.polygons.edge_lanes import EDGES, UNSURE, edges_near_box, edges_on_ray
from tamis.kernels.polygons.ring import RELATIVE_ERROR, SUM_DIGITS, UNDERFLOW, exact_side

__all__ = [
    "BLOCK",
    "INSIDE",
    "ON",
    "OUTSIDE",
    "Corners",
    "Rings",
    "are_points",
    "find_bad_ring",
    "measure",
    "middle",
    "new_corners",
    "new_rings",
    "place_by_edges",
    "place_surely",
    "plain_side",
    "point_in_ring",
    "same_way",
    "side",
]

#: Edges of a block.
BLOCK: Final = 16

#: Squares that are tried inside a ring, each so much smaller than the one before.
_TRIES, _SMALLER = 6, 0.8
#: By how much the one that fits is made smaller, for the rounding of its corners, and what then is surely smaller.
_SHRUNK, _SURELY_LESS = 1 - 1e-9, 1 - 1e-12

#: The places of a point.
OUTSIDE, ON, INSIDE = -1, 0, 1


class Rings(NamedTuple):
    """Many rings in flat arrays; see `new_rings`. A ring of one row is a point.

    Attributes
    ----------
    xy
        float64[rows, 2]; the rings one after the other, each closed: its last row is its first.
    start
        int64[n + 1]; ring i has the rows ``start[i]`` to ``start[i + 1] - 1``.
    turn
        int8[n]; 1 when the inside is left of the edges, -1 when it is right of them.
    bounds
        float64[n, 8]; min x, min y, max x, max y, and on the diagonals u = x + y and v = x - y, rounded: min u, min v,
        max u, max v. Rounding keeps order: what is less here is less in truth.
    block_start, blocks
        int64[n + 1] and float64[m, 4]; the blocks of each ring, and their bounds.
    inner
        float64[n, 4]; a box in the inside of each ring, or one that meets none: a quick yes for many questions.
    """

    xy: npt.NDArray[np.float64]
    start: npt.NDArray[np.int64]
    turn: npt.NDArray[np.int8]
    bounds: npt.NDArray[np.float64]
    block_start: npt.NDArray[np.int64]
    blocks: npt.NDArray[np.float64]
    inner: npt.NDArray[np.float64]


class Corners(NamedTuple):
    """Scratch for the exact side of three points: their coordinates, the same as bits, and digits."""

    xy: npt.NDArray[np.float64]
    bits: npt.NDArray[np.int64]
    digits: npt.NDArray[np.int64]
    total: npt.NDArray[np.int64]


def new_corners() -> Corners:
    """Return scratch for one thread."""
    xy = np.zeros((3, 2))
    digits, total = np.empty((2, 3, 4), np.int64), np.empty(SUM_DIGITS, np.int64)
    return Corners(xy, xy.view(np.int64), digits, total)


def new_rings(xy: npt.NDArray[np.float64], start: npt.NDArray[np.int64]) -> Rings:
    """Return rings measured: ``xy`` float64[rows, 2] closed rings, ``start`` int64[n + 1] where each begins.

    >>> square = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0], [0.0, 0.0]])
    >>> rings = new_rings(np.concatenate([square, square + 1.0]), np.array([0, 5, 10]))
    >>> rings.turn, rings.bounds[1]
    (array([1, 1], dtype=int8), array([ 1.,  1.,  2.,  2.,  2., -1.,  4.,  1.]))
    """
    n = len(start) - 1
    block_start = np.zeros(n + 1, np.int64)
    np.cumsum((np.diff(start) - 1 + BLOCK - 1) // BLOCK, out=block_start[1:])
    bounds, blocks = np.empty((n, 8)), np.empty((max(int(block_start[-1]), 0), 4))
    xy = np.ascontiguousarray(xy, np.float64)
    start = np.ascontiguousarray(start, np.int64)
    rings = Rings(xy, start, np.ones(n, np.int8), bounds, block_start, blocks, np.empty((n, 4)))
    measure(rings, new_corners())
    return rings


def are_points(rings: Rings) -> bool:
    """Whether every ring is a point."""
    return bool((np.diff(rings.start) == 1).all())


def find_bad_ring(rings: Rings) -> int:
    """Return the number of a ring that is neither a point nor closed, or lacks blocks for its edges; -1: none is."""
    rows = np.diff(rings.start)
    good = (rows == 1) | (rows >= 4)
    good &= np.diff(rings.block_start) == (rows - 1 + BLOCK - 1) // BLOCK
    good[good] &= (rings.xy[rings.start[:-1][good]] == rings.xy[rings.start[1:][good] - 1]).all(axis=1)
    bad = np.flatnonzero(~good)
    return int(bad[0]) if bad.size else -1


@hot_kernel
def measure(rings: Rings, corners: Corners) -> None:
    """Write the bounds, the blocks and the turn of every ring."""
    for i in range(rings.bounds.shape[0]):
        first, last = rings.start[i], rings.start[i + 1] - 1
        bounds, inner = rings.bounds[i], rings.inner[i]
        inner[0] = inner[1] = np.inf  # a box that meets none
        inner[2] = inner[3] = -np.inf
        if last < first:
            for k in range(4):
                bounds[k] = bounds[4 + k] = inner[k]
            continue
        _bound(rings.xy, first, last + 1, bounds)
        _bound_diagonals(rings.xy, first, last + 1, bounds)
        for k in range(rings.block_start[i + 1] - rings.block_start[i]):
            begin = first + k * BLOCK
            _bound(rings.xy, begin, min(begin + BLOCK, last) + 1, rings.blocks[rings.block_start[i] + k])
        if last > first:
            rings.turn[i] = _turn(rings.xy, first, last, corners)
            _find_inner(rings, i)


@inline_kernel
def _bound(xy: npt.NDArray[np.float64], begin: Int, stop: Int, bounds: npt.NDArray[np.float64]) -> None:
    """Write the bounds of some rows."""
    bounds[0] = bounds[2] = xy[begin, 0]
    bounds[1] = bounds[3] = xy[begin, 1]
    for p in range(begin + 1, stop):
        x, y = xy[p, 0], xy[p, 1]
        bounds[0], bounds[2] = min(bounds[0], x), max(bounds[2], x)
        bounds[1], bounds[3] = min(bounds[1], y), max(bounds[3], y)


@inline_kernel
def _bound_diagonals(xy: npt.NDArray[np.float64], begin: Int, stop: Int, bounds: npt.NDArray[np.float64]) -> None:
    """Write the bounds of some rows on the diagonals."""
    bounds[4] = bounds[6] = xy[begin, 0] + xy[begin, 1]
    bounds[5] = bounds[7] = xy[begin, 0] - xy[begin, 1]
    for p in range(begin + 1, stop):
        u, v = xy[p, 0] + xy[p, 1], xy[p, 0] - xy[p, 1]
        bounds[4], bounds[6] = min(bounds[4], u), max(bounds[6], u)
        bounds[5], bounds[7] = min(bounds[5], v), max(bounds[7], v)


@inline_kernel
def _turn(xy: npt.NDArray[np.float64], first: Int, last: Int, corners: Corners) -> Int:
    """Return on which side of its edges a simple ring has its inside, by its lowest leftmost corner."""
    p = first
    for k in range(first + 1, last):
        if xy[k, 0] < xy[p, 0] or (xy[k, 0] == xy[p, 0] and xy[k, 1] < xy[p, 1]):
            p = k
    before = p - 1 if p > first else last - 1
    return plain_side(xy, before, xy, p, xy, p + 1, corners)


@inline_kernel
def middle(xy: npt.NDArray[np.float64], first: Int, last: Int) -> tuple[float, float]:
    """Return the mean of the vertices of a ring, about."""
    x, y = 0.0, 0.0
    for p in range(first, last):
        x += xy[p, 0] / (last - first)
        y += xy[p, 1] / (last - first)
    return x, y


@inline_kernel
def _find_inner(rings: Rings, i: Int) -> None:
    """Write a square around the mean of the vertices, if one lies in the inside: proved, whatever was rounded."""
    xy, first, last = rings.xy, rings.start[i], rings.start[i + 1] - 1
    x, y = middle(xy, first, last)
    if place_surely(x, y, rings, i) != INSIDE:
        return
    half = np.inf
    for p in range(first, last):
        half = min(half, max(abs(xy[p, 0] - x), abs(xy[p, 1] - y)))
    for _ in range(_TRIES):
        half *= _SMALLER
        near = np.int64(0)
        for p in range(first, last, EDGES):
            near |= edges_near_box(xy, p, min(EDGES, last - p), x, y, half, half)
        if not near:
            box = half * _SHRUNK
            if max(x - (x - box), (x + box) - x, y - (y - box), (y + box) - y) < half * _SURELY_LESS:
                inner = rings.inner[i]
                inner[0], inner[1], inner[2], inner[3] = x - box, y - box, x + box, y + box
            return


@inline_kernel
def side(
    a: npt.NDArray[np.float64],
    p: Int,
    b: npt.NDArray[np.float64],
    q: Int,
    c: npt.NDArray[np.float64],
    r: Int,
    corners: Corners,
) -> Int:
    """Return on which side of the line from row ``p`` of a to row ``q`` of b row ``r`` of c lies: left 1, right -1."""
    left = (a[p, 0] - c[r, 0]) * (b[q, 1] - c[r, 1])
    right = (a[p, 1] - c[r, 1]) * (b[q, 0] - c[r, 0])
    error = RELATIVE_ERROR * (abs(left) + abs(right)) + UNDERFLOW
    if left - right > error:  # never true of infinity minus a number: then the error is infinite, too
        return np.int64(1)
    if right - left > error:
        return np.int64(-1)
    return _side_in_integers(a, p, b, q, c, r, corners)


@hot_kernel
def plain_side(
    a: npt.NDArray[np.float64],
    p: Int,
    b: npt.NDArray[np.float64],
    q: Int,
    c: npt.NDArray[np.float64],
    r: Int,
    corners: Corners,
) -> Int:
    """Return the result of `side`, without inlining: for rare calls, where copied code would only cost compiling."""
    return side(a, p, b, q, c, r, corners)


@hot_kernel
def _side_in_integers(
    a: npt.NDArray[np.float64],
    p: Int,
    b: npt.NDArray[np.float64],
    q: Int,
    c: npt.NDArray[np.float64],
    r: Int,
    corners: Corners,
) -> Int:
    """Return the result of `side`, with integers unless both products have a zero factor, as for equal points."""
    x, y = c[r, 0], c[r, 1]
    if (a[p, 0] == x or b[q, 1] == y) and (a[p, 1] == y or b[q, 0] == x):
        return np.int64(0)
    corners.xy[0, 0], corners.xy[0, 1] = a[p, 0], a[p, 1]
    corners.xy[1, 0], corners.xy[1, 1] = b[q, 0], b[q, 1]
    corners.xy[2, 0], corners.xy[2, 1] = c[r, 0], c[r, 1]
    return exact_side(corners, 0, 1, 2)


@hot_kernel
def same_way(xy: npt.NDArray[np.float64], p: Int, q: Int, other: npt.NDArray[np.float64], r: Int) -> bool:
    """Return whether rows ``q`` and ``r`` lie on the same side of row ``p``, all three being on one line."""
    axis = 0 if xy[q, 0] != xy[p, 0] else 1
    return bool((xy[q, axis] > xy[p, axis]) == (other[r, axis] > xy[p, axis]))


@hot_kernel
def point_in_ring(xy: npt.NDArray[np.float64], r: Int, rings: Rings, j: Int, corners: Corners) -> Int:
    """Return whether row ``r`` of xy is inside ring ``j`` (1), on it (0) or outside (-1), by crossings of a ray.

    Implements: [crtree] POINTCHECK, section 3.
    """
    place = place_surely(xy[r, 0], xy[r, 1], rings, j)
    return place if place else _place_exactly(xy, r, rings, j, corners)


@inline_kernel
def place_surely(x: float, y: float, rings: Rings, j: Int) -> Int:
    """Return whether a point is inside a ring (1) or outside (-1), as float64 proves; 0: it does not."""
    crossed, last = np.int64(0), rings.start[j + 1] - 1
    for m in range(rings.block_start[j], rings.block_start[j + 1]):
        block = rings.blocks[m]
        if y < block[1] or y > block[3] or x > block[2]:
            continue
        begin = rings.start[j] + (m - rings.block_start[j]) * BLOCK
        stop = min(begin + BLOCK, last)
        if x < block[0]:  # all of it is right of the point: only where it begins and ends counts
            crossed ^= np.int64((rings.xy[begin, 1] <= y) != (rings.xy[stop, 1] <= y))
            continue
        edges = _edges_crossed(rings.xy, begin, stop, x, y)
        if edges < 0:
            return np.int64(0)
        crossed ^= edges
    return _place(crossed)


@inline_kernel
def place_by_edges(x: float, y: float, rings: Rings, j: Int) -> Int:
    """Return the result of `place_surely` without reading blocks: for rings of few edges."""
    edges = _edges_crossed(rings.xy, rings.start[j], rings.start[j + 1] - 1, x, y)
    return np.int64(0) if edges < 0 else _place(edges)


@inline_kernel
def _edges_crossed(xy: npt.NDArray[np.float64], begin: Int, stop: Int, x: float, y: float) -> Int:
    """Return bits, an odd number of them if the ray from (x, y) crosses an odd number of the edges; unsure: -1."""
    crossed = np.int64(0)
    for p in range(begin, stop, EDGES):
        edges = edges_on_ray(xy, p, min(EDGES, stop - p), x, y)
        if edges >> UNSURE:
            return np.int64(-1)
        crossed ^= edges
    return crossed


@inline_kernel
def _place(crossed: Int) -> Int:
    """Return the place of a point whose ray crosses as many edges as there are bits, or two, four, ... more."""
    crossed ^= crossed >> 4
    crossed ^= crossed >> 2
    crossed ^= crossed >> 1
    return np.int64(INSIDE) if crossed & 1 else np.int64(OUTSIDE)


@hot_kernel
def _place_exactly(xy: npt.NDArray[np.float64], r: Int, rings: Rings, j: Int, corners: Corners) -> Int:
    """Return the result of `point_in_ring`, edge by edge, with integers where float64 is not sure."""
    x, y = xy[r, 0], xy[r, 1]
    inside = False
    last = rings.start[j + 1] - 1
    for m in range(rings.block_start[j], rings.block_start[j + 1]):
        block = rings.blocks[m]
        if y < block[1] or y > block[3] or x > block[2]:
            continue
        begin = rings.start[j] + (m - rings.block_start[j]) * BLOCK
        stop = min(begin + BLOCK, last)
        if x < block[0]:  # all of it is right of the point: only where it begins and ends counts
            inside ^= (rings.xy[begin, 1] <= y) != (rings.xy[stop, 1] <= y)
            continue
        for p in range(begin, stop):
            ux, uy, wx, wy = rings.xy[p, 0], rings.xy[p, 1], rings.xy[p + 1, 0], rings.xy[p + 1, 1]
            if (uy <= y) != (wy <= y):
                if x > max(ux, wx):
                    continue
                if x < min(ux, wx):
                    inside ^= True
                    continue
                side_of_edge = side(rings.xy, p, rings.xy, p + 1, xy, r, corners)
                if side_of_edge == 0:
                    return np.int64(ON)
                inside ^= (side_of_edge > 0) == (wy > uy)
            elif (ux == x and uy == y) or (uy == y and wy == y and min(ux, wx) <= x <= max(ux, wx)):
                return np.int64(ON)
    return np.int64(INSIDE) if inside else np.int64(OUTSIDE)
