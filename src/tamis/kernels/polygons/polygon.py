"""How two simple polygons stand to each other, exactly and in batches.

Which of the eight relations holds is found by elimination. A set of relations is a byte, one bit per code of
`tamis.model.subscription.Relation`; it starts with what the bounding boxes leave possible and shrinks with every
contact of the two boundaries, until it says what was asked: one relation, or whether it lies in a wanted set.

What eliminates is Table 1 of [crtree], here as four sights instead of the paper's witnesses i2, i3 and i4:
a piece of A's boundary inside B or outside B, a piece of B's boundary inside A or outside A. The boundaries are not
sampled. Where they cross properly, all four are seen at once. Every other contact is a vertex of one on the
boundary of the other; there the edges that leave it are compared with the corner (or the straight edge) of the
other polygon, and each runs into its inside, its outside, or along its boundary. Every piece of boundary between
two contacts leaves some contact, so after the last one everything there is to see was seen. Without a contact one
boundary lies wholly on one side of the other, and one vertex of each says where.

The only arithmetic is the side of a line on which a given point lies (`side`): float64 where its error bound allows,
else integers (`tamis.kernels.polygons.ring.exact_side`). So the answer is the truth about the given float64 numbers,
for all finite ones; nothing is left to a slower judge.

Edges are compared block by block (`tamis.kernels.polygons.flat_rings`), so that two coasts of ten thousand vertices
compare some boxes, not a hundred million pairs of edges.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from tamis.kernels.compile import Int, hot_kernel, inline_kernel
from tamis.kernels.polygons.flat_rings import (
    BLOCK,
    INSIDE,
    ON,
    OUTSIDE,
    Corners,
    Rings,
    place_by_edges,
    place_surely,
    plain_side,
    point_in_ring,
    same_way,
    side,
)
from tamis.kernels.polygons.ring_crossings import apart, find_crossing

__all__ = ["ALL", "find_relations", "narrow", "relation_of_point"]

#: The eight relations by code, as bits of a set.
_D, _M, _O, _E, _I, _CT, _CV, _CB = (1 << code for code in range(8))
ALL: Final = 255
#: With a contact of the boundaries three relations go; without one five do.
_TOUCHING: Final = _M | _O | _E | _CV | _CB
#: The sights: a piece of A's boundary in B, out of B, a piece of B's boundary in A, out of A.
_A_IN, _A_OUT, _B_IN, _B_OUT = 1, 2, 4, 8
#: There is a contact at all; a proper crossing shows everything.
_TOUCH, _CROSSING = 16, 31
#: The relations in which each sight is to be seen (Table 1 of [crtree] and its inverse); in the others it is not.
_SHOWS_A_IN: Final = _O | _I | _CB
_SHOWS_A_OUT: Final = _D | _M | _O | _CT | _CV
_SHOWS_B_IN: Final = _O | _CT | _CV
_SHOWS_B_OUT: Final = _D | _M | _O | _I | _CB


@hot_kernel
def find_relations(
    a: Rings,
    i: npt.NDArray[np.int64],
    b: Rings,
    j: npt.NDArray[np.int64],
    codes: npt.NDArray[np.uint8],
    corners: Corners,
) -> None:
    """Write the code of the relation "ring ``i[k]`` of a REL ring ``j[k]`` of b" for every k."""
    for k in range(i.size):
        left = narrow(a, i[k], b, j[k], np.int64(0), corners)  # a literal 0 would compile everything below again
        code = 0
        while left > 1:
            left >>= 1
            code += 1
        codes[k] = code


@inline_kernel
def narrow(a: Rings, i: Int, b: Rings, j: Int, wanted: Int, corners: Corners) -> Int:
    """Return a set with the relation of two rings that lies in ``wanted`` or outside it; 0: with nothing else."""
    left = _by_bounds(a.bounds[i], b.bounds[j])
    if _settled(left, wanted):
        return left
    left = _by_inner(left, a, i, b, j)
    if _settled(left, wanted):
        return left
    found = _by_sure_signs(left, a, i, b, j, wanted)
    return found if found else _by_contacts(left, a, i, b, j, wanted, corners)


@inline_kernel
def relation_of_point(a: Rings, i: Int, b: Rings, j: Int, corners: Corners) -> Int:
    """Return the relation of a point to a ring, as a set of one; of few edges all are looked at, and no box."""
    x, y, place = a.xy[a.start[i], 0], a.xy[a.start[i], 1], np.int64(0)
    if b.start[j + 1] - b.start[j] <= BLOCK + 1:
        place = place_by_edges(x, y, b, j)
    elif _holds(b.inner[j], a.bounds[i]):
        place = np.int64(INSIDE)
    if place == 0:
        place = point_in_ring(a.xy, a.start[i], b, j, corners)
    return np.int64(_D if place == OUTSIDE else (_M if place == ON else _I))


@inline_kernel
def _by_sure_signs(left: Int, a: Rings, i: Int, b: Rings, j: Int, wanted: Int) -> Int:
    """Return as `narrow` does what eight edges at a time can prove in float64; 0: they cannot.

    Most pairs end here. No vertex lies on the other boundary then, so boundaries cross properly or not at all.
    """
    if a.start[i + 1] - a.start[i] == 1:
        place = place_surely(a.xy[a.start[i], 0], a.xy[a.start[i], 1], b, j)
        return np.int64(0) if place == 0 else np.int64(_I if place > 0 else _D)
    corner = _choose_corner(b, j, a.bounds[i], wanted)
    place = place_surely(b.xy[corner, 0], b.xy[corner, 1], a, i)
    if place == 0:
        return np.int64(0)
    left &= _SHOWS_B_IN if place > 0 else _SHOWS_B_OUT
    if _settled(left, wanted):
        return left
    if place < 0:
        corner = _choose_corner(a, i, b.bounds[j], wanted)
        place = place_surely(a.xy[corner, 0], a.xy[corner, 1], b, j)
        if place == 0:
            return np.int64(0)
        left &= _SHOWS_A_IN if place > 0 else _SHOWS_A_OUT
        if _settled(left, wanted):
            return left
    crossing = find_crossing(a, i, b, j)
    if crossing < 0:
        return np.int64(0)
    return left & _O if crossing else left & ~_TOUCHING


@inline_kernel
def _choose_corner(rings: Rings, j: Int, box: npt.NDArray[np.float64], wanted: Int) -> Int:
    """Return the row of the corner that most likely settles the question when its place in the other ring is known.

    A corner inside proves that the insides meet: the corner nearest to the middle of the other's box is likely inside.
    A corner outside proves that one ring does not hold the other: the farthest is likely outside. Of a long ring only
    a block is searched.
    For the relation itself (``wanted`` 0) no corner is better than another: the first one is taken.
    """
    if wanted == 0:
        return rings.start[j]
    x, y, sign = box[0] + (box[2] - box[0]) * 0.5, box[1] + (box[3] - box[1]) * 0.5, 1.0 if wanted & _O else -1.0
    chosen: Int = rings.start[j]
    least = np.inf
    for p in range(rings.start[j], min(rings.start[j] + BLOCK, rings.start[j + 1] - 1)):
        u, v = rings.xy[p, 0] - x, rings.xy[p, 1] - y
        far = (u * u + v * v) * sign
        nearer = far < least  # no branch: the processor could not predict it
        chosen, least = p if nearer else chosen, far if nearer else least
    return chosen


@hot_kernel
def _by_contacts(left: Int, a: Rings, i: Int, b: Rings, j: Int, wanted: Int, corners: Corners) -> Int:
    """Return as `narrow` does, from all contacts of the boundaries, exactly."""
    if a.start[i + 1] - a.start[i] == 1:
        place = point_in_ring(a.xy, a.start[i], b, j, corners)
        return _D if place == OUTSIDE else (_M if place == ON else _I)
    seen = _look(a, i, b, j, left, wanted, corners)
    if seen < 0:
        return -seen
    if seen > 0:
        return left & _TOUCHING & _shown(seen) & ~_shown_by_others(seen)
    if left & _I and point_in_ring(a.xy, a.start[i], b, j, corners) == INSIDE:
        return np.int64(_I)
    if left & _CT and point_in_ring(b.xy, b.start[j], a, i, corners) == INSIDE:
        return np.int64(_CT)
    return np.int64(_D)


@inline_kernel
def _settled(left: Int, wanted: Int) -> bool:
    """Say whether what is left is one relation, or lies in a wanted set or outside it."""
    if left & (left - 1) == 0:
        return True
    return bool(wanted != 0 and (left & wanted == 0 or left & wanted == left))


@inline_kernel
def _by_bounds(a: npt.NDArray[np.float64], b: npt.NDArray[np.float64]) -> Int:
    """Return the relations that the bounds of two rings leave possible: Table 2 of [crtree], corrected, read backwards.

    Diagonals say when rings are apart, or one is not within the other; not where one is strictly within: they are
    rounded.
    """
    if apart(a, b) or apart(a[4:], b[4:]):
        return np.int64(_D)
    left = np.int64(ALL)
    a_within, b_within = _holds(b, a) and _holds(b[4:], a[4:]), _holds(a, b) and _holds(a[4:], b[4:])
    if not (a_within and b_within):
        left &= ~_E
    elif a[0] < a[2]:  # equal boxes of two polygons: a left-right path crosses a bottom-top path
        left &= ~_D
    if not a_within:
        left &= ~(_I | _CB)
    elif not (a[0] > b[0] and a[1] > b[1] and a[2] < b[2] and a[3] < b[3]):
        left &= ~_I
    if not b_within:
        left &= ~(_CT | _CV)
    elif not (b[0] > a[0] and b[1] > a[1] and b[2] < a[2] and b[3] < a[3]):
        left &= ~_CT
    return left


@inline_kernel
def _by_inner(left: Int, a: Rings, i: Int, b: Rings, j: Int) -> Int:
    """Return what is left when the boxes inside two rings are known: they overlap, or one holds all of the other."""
    mine, yours = a.inner[i], b.inner[j]
    if _holds(yours, a.bounds[i]):
        return left & _I
    if _holds(mine, b.bounds[j]):
        return left & _CT
    return left if apart(mine, yours) else left & ~(_D | _M)


@inline_kernel
def _holds(outer: npt.NDArray[np.float64], box: npt.NDArray[np.float64]) -> bool:
    """Say whether a box lies within another one; they may share sides."""
    return bool(outer[0] <= box[0] and outer[1] <= box[1] and outer[2] >= box[2] and outer[3] >= box[3])


@hot_kernel
def _shown(seen: Int) -> Int:
    """Return the relations in which all sights can be seen that were."""
    left = np.int64(ALL)
    if seen & _A_IN:
        left &= _SHOWS_A_IN
    if seen & _A_OUT:
        left &= _SHOWS_A_OUT
    if seen & _B_IN:
        left &= _SHOWS_B_IN
    if seen & _B_OUT:
        left &= _SHOWS_B_OUT
    return left


@hot_kernel
def _shown_by_others(seen: Int) -> Int:
    """Return the relations in which a sight is to be seen that was not."""
    gone = np.int64(0)
    if not seen & _A_IN:
        gone |= _SHOWS_A_IN
    if not seen & _A_OUT:
        gone |= _SHOWS_A_OUT
    if not seen & _B_IN:
        gone |= _SHOWS_B_IN
    if not seen & _B_OUT:
        gone |= _SHOWS_B_OUT
    return gone


@hot_kernel
def _look(a: Rings, i: Int, b: Rings, j: Int, left: Int, wanted: Int, corners: Corners) -> Int:
    """Return the sights of all contacts of two rings, or the negative of a set that settles the question earlier."""
    touch_settles = _settled(left & _TOUCHING, wanted)
    bounds = b.bounds[j]
    seen = np.int64(0)
    for m in range(a.block_start[i], a.block_start[i + 1]):
        if apart(a.blocks[m], bounds):
            continue
        for n in range(b.block_start[j], b.block_start[j + 1]):
            if apart(b.blocks[n], a.blocks[m]):
                continue
            seen |= _look_at_blocks(a, i, m, b, j, n, touch_settles, corners)
            if seen:
                now = left & _TOUCHING & _shown(seen)
                if _settled(now, wanted):
                    return -now
    return seen


@hot_kernel
def _look_at_blocks(a: Rings, i: Int, m: Int, b: Rings, j: Int, n: Int, touch_settles: bool, corners: Corners) -> Int:
    """Return the sights of the contacts between the edges of two blocks; some of them, where those settle all."""
    seen = np.int64(0)
    a_begin = a.start[i] + (m - a.block_start[i]) * BLOCK
    b_begin = b.start[j] + (n - b.block_start[j]) * BLOCK
    a_stop, b_stop = min(a_begin + BLOCK, a.start[i + 1] - 1), min(b_begin + BLOCK, b.start[j + 1] - 1)
    x_low, y_low, x_high, y_high = b.blocks[n, 0], b.blocks[n, 1], b.blocks[n, 2], b.blocks[n, 3]
    for p in range(a_begin, a_stop):
        low_x, high_x = min(a.xy[p, 0], a.xy[p + 1, 0]), max(a.xy[p, 0], a.xy[p + 1, 0])
        low_y, high_y = min(a.xy[p, 1], a.xy[p + 1, 1]), max(a.xy[p, 1], a.xy[p + 1, 1])
        if high_x < x_low or low_x > x_high or high_y < y_low or low_y > y_high:
            continue
        for q in range(b_begin, b_stop):
            x, y, to_x, to_y = b.xy[q, 0], b.xy[q, 1], b.xy[q + 1, 0], b.xy[q + 1, 1]
            if (x < low_x and to_x < low_x) or (x > high_x and to_x > high_x):
                continue
            if (y < low_y and to_y < low_y) or (y > high_y and to_y > high_y):
                continue
            seen |= _contact(a, i, p, b, j, q, corners)
            if seen == _CROSSING or (seen and touch_settles):
                return seen
    return seen


@hot_kernel
def _contact(a: Rings, i: Int, p: Int, b: Rings, j: Int, q: Int, corners: Corners) -> Int:
    """Return what is to be seen where the edges from ``p`` and ``q`` meet, the ends of both left to the next edges."""
    b0, b1 = side(a.xy, p, a.xy, p + 1, b.xy, q, corners), side(a.xy, p, a.xy, p + 1, b.xy, q + 1, corners)
    if b0 * b1 > 0:
        return np.int64(0)
    a0, a1 = side(b.xy, q, b.xy, q + 1, a.xy, p, corners), side(b.xy, q, b.xy, q + 1, a.xy, p + 1, corners)
    if a0 * a1 > 0:
        return np.int64(0)
    if a0 and a1 and b0 and b1:
        return np.int64(_CROSSING)
    if a.xy[p, 0] == b.xy[q, 0] and a.xy[p, 1] == b.xy[q, 1]:
        mine = _corner(a, i, p, b.xy, _before(b, j, q), q + 1, corners)
        return _TOUCH | mine << 2 | _corner(b, j, q, a.xy, _before(a, i, p), p + 1, corners)
    seen = np.int64(0)
    if a0 == 0 and _between(b.xy, q, a.xy, p):
        seen |= _vertex_on_edge(a, i, p, b, j, q, corners)
    if b0 == 0 and _between(a.xy, p, b.xy, q):
        mine = _vertex_on_edge(b, j, q, a, i, p, corners)
        seen |= _TOUCH | (mine & 3) << 2 | (mine >> 2 & 3)
    return seen


@hot_kernel
def _between(xy: npt.NDArray[np.float64], q: Int, other: npt.NDArray[np.float64], r: Int) -> bool:
    """Say whether row ``r`` lies between the ends of the edge from ``q``, on whose line it is."""
    axis = 0 if xy[q, 0] != xy[q + 1, 0] else 1
    low, high = min(xy[q, axis], xy[q + 1, axis]), max(xy[q, axis], xy[q + 1, axis])
    return bool(low < other[r, axis] < high)


@hot_kernel
def _before(rings: Rings, i: Int, p: Int) -> Int:
    """Return the vertex of a ring before ``p``."""
    return p - 1 if p > rings.start[i] else rings.start[i + 1] - 2


@hot_kernel
def _vertex_on_edge(a: Rings, i: Int, p: Int, b: Rings, j: Int, q: Int, corners: Corners) -> Int:
    """Return what is to be seen where vertex ``p`` of A lies within the edge from ``q`` of B."""
    seen = _TOUCH | _corner(a, i, p, b.xy, q, q + 1, corners) << 2
    for r in (_before(a, i, p), p + 1):
        where = plain_side(b.xy, q, b.xy, q + 1, a.xy, r, corners) * b.turn[j]
        if where:
            seen |= _A_IN if where > 0 else _A_OUT
    return seen


@hot_kernel
def _corner(ring: Rings, i: Int, p: Int, xy: npt.NDArray[np.float64], r: Int, s: Int, corners: Corners) -> Int:
    """Say where two ways from vertex ``p`` lead, to the rows ``r`` and ``s``: 1 into the ring, 2 out of it, or both."""
    before, after = _before(ring, i, p), p + 1
    if ring.turn[i] < 0:
        before, after = after, before
    bend = plain_side(ring.xy, before, ring.xy, p, ring.xy, after, corners)
    found = np.int64(0)
    for to in (r, s):
        first = plain_side(ring.xy, before, ring.xy, p, xy, to, corners)
        second = plain_side(ring.xy, p, ring.xy, after, xy, to, corners)
        if bend > 0:
            inside, outside = first > 0 and second > 0, first < 0 or second < 0
        elif bend < 0:
            inside, outside = first > 0 or second > 0, first < 0 and second < 0
        else:
            inside, outside = second > 0, second < 0
        along = second == 0 and same_way(ring.xy, p, after, xy, to)
        along |= first == 0 and same_way(ring.xy, p, before, xy, to)
        if not along:
            found |= 1 if inside else (2 if outside else 0)
    return found
