"""The topological relation of two simple polygons, exactly and in batches.

The one of the eight relations that holds is found by elimination. A set of relations is a byte, one bit per code of
`tamis.model.subscription.Relation`. It starts with the relations that the bounding boxes allow and shrinks with every
contact of the two boundaries, until the question is answered: which relation, or whether it is in a wanted set.

The rules of elimination are Table 1 of [crtree], here as four *sights* instead of the paper's witnesses i2, i3 and i4:
a piece of A's boundary inside B or outside B, a piece of B's boundary inside A or outside A. The boundaries are not
sampled. Where they cross properly, all four are seen at once. Every other contact is a vertex of one on the
boundary of the other; there the edges that leave it are compared with the corner (or the straight edge) of the
other polygon, and each runs into its inside, its outside, or along its boundary. Every piece of boundary between
two contacts starts at a contact, so after the last contact all sights were seen. Without a contact one boundary lies
wholly on one side of the other, and one vertex of each tells on which.

The only arithmetic is the side of a line on which a given point lies (`side`): float64 where its error bound allows,
else integers (`tamis.kernels.polygons.ring.exact_side`). So the result is exact for the given float64 numbers, for all
finite ones; no slower method is needed.

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
#: The relations in which each sight occurs (Table 1 of [crtree] and its inverse); in the others it does not.
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
        relation = narrow(a, i[k], b, j[k], np.int64(0), corners)  # a literal 0 would compile everything below again
        code = 0
        while relation > 1:
            relation >>= 1
            code += 1
        codes[k] = code


@inline_kernel
def narrow(a: Rings, i: Int, b: Rings, j: Int, wanted: Int, corners: Corners) -> Int:
    """Return the relation of two rings as a set of one. May stop early with a set that is all in ``wanted`` or outside.

    With ``wanted`` 0 it never stops early.
    """
    possible = _by_bounds(a.bounds[i], b.bounds[j])
    if _settled(possible, wanted):
        return possible
    possible = _by_inner(possible, a, i, b, j)
    if _settled(possible, wanted):
        return possible
    proved = _by_sure_signs(possible, a, i, b, j, wanted)
    return proved if proved else _by_contacts(possible, a, i, b, j, wanted, corners)


@inline_kernel
def relation_of_point(a: Rings, i: Int, b: Rings, j: Int, corners: Corners) -> Int:
    """Return the relation of a point to a ring, as a set of one; a ring of few edges is tested without its box."""
    x, y, place = a.xy[a.start[i], 0], a.xy[a.start[i], 1], np.int64(0)
    if b.start[j + 1] - b.start[j] <= BLOCK + 1:
        place = place_by_edges(x, y, b, j)
    elif _holds(b.inner[j], a.bounds[i]):
        place = np.int64(INSIDE)
    if place == 0:
        place = point_in_ring(a.xy, a.start[i], b, j, corners)
    return np.int64(_D if place == OUTSIDE else (_M if place == ON else _I))


@inline_kernel
def _by_sure_signs(possible: Int, a: Rings, i: Int, b: Rings, j: Int, wanted: Int) -> Int:
    """Return the result of `narrow` if eight edges at a time can prove it in float64; 0: they cannot.

    Most pairs end here. No vertex lies on the other boundary then, so boundaries cross properly or not at all.
    """
    if a.start[i + 1] - a.start[i] == 1:
        place = place_surely(a.xy[a.start[i], 0], a.xy[a.start[i], 1], b, j)
        return np.int64(0) if place == 0 else np.int64(_I if place > 0 else _D)
    corner = _choose_corner(b, j, a.bounds[i], wanted)
    place = place_surely(b.xy[corner, 0], b.xy[corner, 1], a, i)
    if place == 0:
        return np.int64(0)
    possible &= _SHOWS_B_IN if place > 0 else _SHOWS_B_OUT
    if _settled(possible, wanted):
        return possible
    if place < 0:
        corner = _choose_corner(a, i, b.bounds[j], wanted)
        place = place_surely(a.xy[corner, 0], a.xy[corner, 1], b, j)
        if place == 0:
            return np.int64(0)
        possible &= _SHOWS_A_IN if place > 0 else _SHOWS_A_OUT
        if _settled(possible, wanted):
            return possible
    crossing = find_crossing(a, i, b, j)
    if crossing < 0:
        return np.int64(0)
    return possible & _O if crossing else possible & ~_TOUCHING


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
def _by_contacts(possible: Int, a: Rings, i: Int, b: Rings, j: Int, wanted: Int, corners: Corners) -> Int:
    """Return the result of `narrow` from all contacts of the boundaries, exactly."""
    if a.start[i + 1] - a.start[i] == 1:
        place = point_in_ring(a.xy, a.start[i], b, j, corners)
        return _D if place == OUTSIDE else (_M if place == ON else _I)
    sights = _look(a, i, b, j, possible, wanted, corners)
    if sights < 0:
        return -sights
    if sights > 0:
        return possible & _TOUCHING & _shown(sights) & ~_shown_by_others(sights)
    if possible & _I and point_in_ring(a.xy, a.start[i], b, j, corners) == INSIDE:
        return np.int64(_I)
    if possible & _CT and point_in_ring(b.xy, b.start[j], a, i, corners) == INSIDE:
        return np.int64(_CT)
    return np.int64(_D)


@inline_kernel
def _settled(possible: Int, wanted: Int) -> bool:
    """Return whether the possible relations are one, or all in a wanted set, or all outside it."""
    if possible & (possible - 1) == 0:
        return True
    return bool(wanted != 0 and (possible & wanted == 0 or possible & wanted == possible))


@inline_kernel
def _by_bounds(a: npt.NDArray[np.float64], b: npt.NDArray[np.float64]) -> Int:
    """Return the relations that the bounds of two rings allow: Table 2 of [crtree], corrected, in reverse.

    Diagonals can show that rings are apart, or that one is not within the other. They cannot show that one is strictly
    within: they are rounded.
    """
    if apart(a, b) or apart(a[4:], b[4:]):
        return np.int64(_D)
    possible = np.int64(ALL)
    a_within, b_within = _holds(b, a) and _holds(b[4:], a[4:]), _holds(a, b) and _holds(a[4:], b[4:])
    if not (a_within and b_within):
        possible &= ~_E
    elif a[0] < a[2]:  # equal boxes of two polygons: a left-right path crosses a bottom-top path
        possible &= ~_D
    if not a_within:
        possible &= ~(_I | _CB)
    elif not (a[0] > b[0] and a[1] > b[1] and a[2] < b[2] and a[3] < b[3]):
        possible &= ~_I
    if not b_within:
        possible &= ~(_CT | _CV)
    elif not (b[0] > a[0] and b[1] > a[1] and b[2] < a[2] and b[3] < a[3]):
        possible &= ~_CT
    return possible


@inline_kernel
def _by_inner(possible: Int, a: Rings, i: Int, b: Rings, j: Int) -> Int:
    """Return the relations that the inner boxes of two rings allow: they overlap, or one contains the other ring."""
    a_inner, b_inner = a.inner[i], b.inner[j]
    if _holds(b_inner, a.bounds[i]):
        return possible & _I
    if _holds(a_inner, b.bounds[j]):
        return possible & _CT
    return possible if apart(a_inner, b_inner) else possible & ~(_D | _M)


@inline_kernel
def _holds(outer: npt.NDArray[np.float64], box: npt.NDArray[np.float64]) -> bool:
    """Return whether a box lies within another one; they may share sides."""
    return bool(outer[0] <= box[0] and outer[1] <= box[1] and outer[2] >= box[2] and outer[3] >= box[3])


@hot_kernel
def _shown(sights: Int) -> Int:
    """Return the relations in which all seen sights occur."""
    possible = np.int64(ALL)
    if sights & _A_IN:
        possible &= _SHOWS_A_IN
    if sights & _A_OUT:
        possible &= _SHOWS_A_OUT
    if sights & _B_IN:
        possible &= _SHOWS_B_IN
    if sights & _B_OUT:
        possible &= _SHOWS_B_OUT
    return possible


@hot_kernel
def _shown_by_others(sights: Int) -> Int:
    """Return the relations in which a sight occurs that was not seen."""
    excluded = np.int64(0)
    if not sights & _A_IN:
        excluded |= _SHOWS_A_IN
    if not sights & _A_OUT:
        excluded |= _SHOWS_A_OUT
    if not sights & _B_IN:
        excluded |= _SHOWS_B_IN
    if not sights & _B_OUT:
        excluded |= _SHOWS_B_OUT
    return excluded


@hot_kernel
def _look(a: Rings, i: Int, b: Rings, j: Int, possible: Int, wanted: Int, corners: Corners) -> Int:
    """Return the sights of all contacts of two rings, or the negative of a set that settles the question earlier."""
    touch_settles = _settled(possible & _TOUCHING, wanted)
    bounds = b.bounds[j]
    sights = np.int64(0)
    for m in range(a.block_start[i], a.block_start[i + 1]):
        if apart(a.blocks[m], bounds):
            continue
        for n in range(b.block_start[j], b.block_start[j + 1]):
            if apart(b.blocks[n], a.blocks[m]):
                continue
            sights |= _look_at_blocks(a, i, m, b, j, n, touch_settles, corners)
            if sights:
                remaining = possible & _TOUCHING & _shown(sights)
                if _settled(remaining, wanted):
                    return -remaining
    return sights


@hot_kernel
def _look_at_blocks(a: Rings, i: Int, m: Int, b: Rings, j: Int, n: Int, touch_settles: bool, corners: Corners) -> Int:
    """Return the sights of the contacts between the edges of two blocks; only some if those settle the question."""
    sights = np.int64(0)
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
            sights |= _contact(a, i, p, b, j, q, corners)
            if sights == _CROSSING or (sights and touch_settles):
                return sights
    return sights


@hot_kernel
def _contact(a: Rings, i: Int, p: Int, b: Rings, j: Int, q: Int, corners: Corners) -> Int:
    """Return the sights where the edges from ``p`` and ``q`` meet; the ends of both belong to the next edges."""
    b0, b1 = side(a.xy, p, a.xy, p + 1, b.xy, q, corners), side(a.xy, p, a.xy, p + 1, b.xy, q + 1, corners)
    if b0 * b1 > 0:
        return np.int64(0)
    a0, a1 = side(b.xy, q, b.xy, q + 1, a.xy, p, corners), side(b.xy, q, b.xy, q + 1, a.xy, p + 1, corners)
    if a0 * a1 > 0:
        return np.int64(0)
    if a0 and a1 and b0 and b1:
        return np.int64(_CROSSING)
    if a.xy[p, 0] == b.xy[q, 0] and a.xy[p, 1] == b.xy[q, 1]:
        own_sights = _corner(a, i, p, b.xy, _before(b, j, q), q + 1, corners)
        return _TOUCH | own_sights << 2 | _corner(b, j, q, a.xy, _before(a, i, p), p + 1, corners)
    sights = np.int64(0)
    if a0 == 0 and _between(b.xy, q, a.xy, p):
        sights |= _vertex_on_edge(a, i, p, b, j, q, corners)
    if b0 == 0 and _between(a.xy, p, b.xy, q):
        own_sights = _vertex_on_edge(b, j, q, a, i, p, corners)
        sights |= _TOUCH | (own_sights & 3) << 2 | (own_sights >> 2 & 3)
    return sights


@hot_kernel
def _between(xy: npt.NDArray[np.float64], q: Int, points: npt.NDArray[np.float64], r: Int) -> bool:
    """Return whether row ``r`` lies between the ends of the edge from ``q``, on whose line it is."""
    axis = 0 if xy[q, 0] != xy[q + 1, 0] else 1
    low, high = min(xy[q, axis], xy[q + 1, axis]), max(xy[q, axis], xy[q + 1, axis])
    return bool(low < points[r, axis] < high)


@hot_kernel
def _before(rings: Rings, i: Int, p: Int) -> Int:
    """Return the vertex of a ring before ``p``."""
    return p - 1 if p > rings.start[i] else rings.start[i + 1] - 2


@hot_kernel
def _vertex_on_edge(a: Rings, i: Int, p: Int, b: Rings, j: Int, q: Int, corners: Corners) -> Int:
    """Return the sights where vertex ``p`` of A lies within the edge from ``q`` of B."""
    sights = _TOUCH | _corner(a, i, p, b.xy, q, q + 1, corners) << 2
    for r in (_before(a, i, p), p + 1):
        edge_side = plain_side(b.xy, q, b.xy, q + 1, a.xy, r, corners) * b.turn[j]
        if edge_side:
            sights |= _A_IN if edge_side > 0 else _A_OUT
    return sights


@hot_kernel
def _corner(ring: Rings, i: Int, p: Int, xy: npt.NDArray[np.float64], r: Int, s: Int, corners: Corners) -> Int:
    """Return where the ways from vertex ``p`` to rows ``r`` and ``s`` lead, as bits: 1 into the ring, 2 out of it."""
    before, after = _before(ring, i, p), p + 1
    if ring.turn[i] < 0:
        before, after = after, before
    bend = plain_side(ring.xy, before, ring.xy, p, ring.xy, after, corners)
    ways = np.int64(0)
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
            ways |= 1 if inside else (2 if outside else 0)
    return ways
