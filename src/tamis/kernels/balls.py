"""Balls that cover balls: exact decisions, and three ways to find the candidates.

A ball (s, r) covers (s', r') iff ``||s - s'|| <= r - r'``; a point is a ball of radius 0, so *the balls
around a point are the balls that cover it*, and matching and covering are one question.

* :func:`tree_covers` walks a packed max-corner tree (:mod:`tamis.kernels.boxes.tree`) of projection rectangles:
  a rectangle contains another iff ``lo <= lo'`` and ``hi >= hi'``, which is the test of that tree for the
  event ``[low, high] = [hi', lo']``.
* :func:`block_covers` reads a block of float32 products that BLAS made.
* :func:`scan_covers` looks at every ball.

All three decide a candidate with :func:`cover_side` on float64 and report it as a *doubt* where rounding
could matter. The balls are given by addresses, as everywhere in the packed index: writable and mapped
arrays share one compiled form. See :func:`ball_table`.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tamis.kernels.bisection import bisect_left
from tamis.kernels.boxes.fit import fit_block
from tamis.kernels.boxes.quantise import code_values
from tamis.kernels.compile import Int, hot_kernel, inline_kernel
from tamis.kernels.directory import BLOCKS, HEIGHT, LEVELS, N_COLUMNS, QUANTISER
from tamis.kernels.emit import float64_at, int64_at, lowest_bit, uint8_at
from tamis.kernels.vectors import INSIDE, OUTSIDE, UNCERTAIN

__all__ = [
    "CANDIDATES",
    "COVERS",
    "DOUBTS",
    "VERIFIED",
    "BallScratch",
    "Hits",
    "Queries",
    "ball_table",
    "block_covers",
    "cover_side",
    "decide_pairs",
    "scan_covered",
    "scan_covers",
    "tree_covers",
]

#: Outside these a square may have lost bits to underflow, or the next operation may overflow.
_SAFE_LOW, _SAFE_HIGH = 1e-280, 1e280
#: Coordinates between two checks whether the distance is already too large.
_STRIDE: Final = 16
#: Positions of addresses and counts in a ball table; the last is the caller's slot number of the first ball.
_CENTERS, _RADII, _ALIVE, _N, _D, _START = range(6)
#: Positions in ``Hits.counts``.
COVERS, DOUBTS, CANDIDATES, VERIFIED = range(4)
#: Products whose signs are tested together.
_RUN: Final = 256
#: Splits a float64 into two halves whose products are exact (Veltkamp).
_SPLITTER: Final = 134217729.0

_Table = npt.NDArray[np.int64]


class Queries(NamedTuple):
    """The balls of the queries: float64[m, d], float64[m], and their projection rectangles float64[m, k] each."""

    centers: npt.NDArray[np.float64]
    radii: npt.NDArray[np.float64]
    low: npt.NDArray[np.float64]
    high: npt.NDArray[np.float64]


class Hits(NamedTuple):
    """The results.

    Attributes
    ----------
    covers, doubts
        int32[2, room]: query and slot of the covers, and of those that float64 cannot decide.
    counts
        int64[4]: covers, doubts, candidates of the filter, candidates whose distance was computed.
    done
        uint8[m]: queries that are settled because one cover is enough.
    """

    covers: npt.NDArray[np.int32]
    doubts: npt.NDArray[np.int32]
    counts: npt.NDArray[np.int64]
    done: npt.NDArray[np.uint8]


class BallScratch(NamedTuple):
    """Memory of one walk: codes int16[2, k] and a stack int64[1_024]."""

    codes: npt.NDArray[np.int16]
    stack: npt.NDArray[np.int64]


def ball_table(
    centers: npt.NDArray[np.float64],
    radii: npt.NDArray[np.float64],
    alive: npt.NDArray[np.uint8],
    span: tuple[int, int],
) -> _Table:
    """Return the table by which kernels read the balls in a span of slots; the caller keeps the contiguous arrays."""
    start, stop = span
    addresses = [array[start:].ctypes.data for array in (centers, radii, alive)]
    return np.array([*addresses, stop - start, centers.shape[1], start], np.int64)


@inline_kernel
def _error_of_difference(a: float, b: float, difference: float) -> float:
    """Return the rounding error of ``a - b`` (Knuth's TwoSum)."""
    virtual = a - difference
    return (a - (difference + virtual)) + (virtual - b)


@inline_kernel
def _error_of_square(a: float, square: float) -> float:
    """Return the rounding error of ``a * a`` (Dekker's product)."""
    wide = _SPLITTER * a
    high = wide - (wide - a)
    low = a - high
    return ((high * high - square) + 2.0 * high * low) + low * low


@hot_kernel
def _exact_side(start: Int, center: npt.NDArray[np.float64], outer: float, inner: float) -> Int:
    """Decide if no operation rounds, as for integers and short fractions; otherwise return UNCERTAIN."""
    gap = outer - inner
    lost = abs(_error_of_difference(outer, inner, gap)) + abs(_error_of_square(gap, gap * gap))
    total = 0.0
    for j in range(center.shape[0]):
        coordinate = float64_at(start, j)
        difference = coordinate - center[j]
        square = difference * difference
        larger = total + square
        lost += abs(_error_of_difference(coordinate, center[j], difference))
        lost += abs(_error_of_square(difference, square))
        lost += abs(_error_of_difference(larger, total, larger - total)) + abs((larger - total) - square)
        total = larger
    if lost != 0.0:
        return UNCERTAIN
    return INSIDE if total <= gap * gap else OUTSIDE


@hot_kernel
def _side(start: Int, center: npt.NDArray[np.float64], outer: float, inner: float) -> Int:
    """Return whether the float64 numbers at ``start`` are at most ``outer - inner`` away from ``center``."""
    gap = outer - inner
    if gap < 0.0:
        return OUTSIDE
    d = center.shape[0]
    slack = (d + 16) * 2.3e-16
    limit = gap * gap
    bound = max(limit * (1.0 + slack), _SAFE_LOW)
    total = 0.0
    j = 0
    while j < d:
        stop = min(j + _STRIDE, d)
        while j < stop:
            difference = float64_at(start, j) - center[j]
            total += difference * difference
            j += 1
        if total * (1.0 - slack) > bound:
            return OUTSIDE
    if gap == 0.0 or total == 0.0:
        for i in range(d):
            if float64_at(start, i) != center[i]:
                return OUTSIDE if gap == 0.0 else UNCERTAIN
        return INSIDE
    if not (_SAFE_LOW < limit < _SAFE_HIGH):
        return UNCERTAIN
    if total * (1.0 + slack) < limit * (1.0 - slack):
        return INSIDE
    return _exact_side(start, center, outer, inner) if _SAFE_LOW < total < _SAFE_HIGH else UNCERTAIN


@inline_kernel
def cover_side(balls: _Table, slot: Int, center: npt.NDArray[np.float64], radius: float) -> Int:
    """Return whether ball ``slot`` covers the ball (center, radius): INSIDE, OUTSIDE, or UNCERTAIN for float64.

    Implements: [projection] Proposition 2.1.
    """
    return _side(balls[_CENTERS] + 8 * slot * balls[_D], center, float64_at(balls[_RADII], slot), radius)


@inline_kernel
def _judge(balls: _Table, slot: Int, queries: Queries, e: Int, first: bool, hits: Hits) -> bool:
    """Decide one candidate of query ``e`` and note it; return whether the query is settled."""
    if uint8_at(balls[_ALIVE], slot) == 0:
        return False
    hits.counts[VERIFIED] += 1
    radius: Any = queries.radii[e]
    side = cover_side(balls, slot, queries.centers[e], radius)
    if side == OUTSIDE:
        return False
    if side == UNCERTAIN:
        at = hits.counts[DOUBTS]
        hits.doubts[0, at] = e
        hits.doubts[1, at] = balls[_START] + slot
        hits.counts[DOUBTS] = at + 1
        return False
    at = hits.counts[COVERS]
    hits.covers[0, at] = e
    hits.covers[1, at] = balls[_START] + slot
    hits.counts[COVERS] = at + 1
    if first:
        hits.done[e] = 1
    return first


@inline_kernel
def _has_room(hits: Hits, count: Int) -> Any:
    """Return whether ``count`` further pairs fit."""
    return max(hits.counts[COVERS], hits.counts[DOUBTS]) + count <= hits.covers.shape[1]


@inline_kernel
def _walk(tree: _Table, balls: _Table, queries: Queries, e: Int, first: bool, hits: Hits, scratch: BallScratch) -> bool:
    """Walk one tree for one query; return False if the room for pairs is too small."""
    size = 64 * tree[N_COLUMNS]
    leaf_level = tree[HEIGHT]
    scratch.stack[0] = 0
    depth = 1
    while depth > 0:
        depth -= 1
        level, node = scratch.stack[depth] >> 40, scratch.stack[depth] & 0xFFFFFFFFFF
        address = tree[BLOCKS] + (int64_at(tree[LEVELS], level) + node) * size
        mask = fit_block(address, tree[N_COLUMNS], scratch.codes[0], scratch.codes[1]) & 0xFFFF
        if level < leaf_level:
            while mask != 0:
                scratch.stack[depth] = ((level + 1) << 40) | (16 * node + lowest_bit(mask))
                mask &= mask - 1
                depth += 1
            continue
        if mask != 0 and not _has_room(hits, 16):
            return False
        while mask != 0:
            hits.counts[CANDIDATES] += 1
            if _judge(balls, 16 * node + lowest_bit(mask), queries, e, first, hits):
                return True
            mask &= mask - 1
    return True


@hot_kernel
def tree_covers(
    trees: _Table, balls: _Table, queries: Queries, begin: Int, first: bool, hits: Hits, scratch: BallScratch
) -> Int:
    """Find covers among the balls of trees, for the queries from ``begin`` on; return the first query not done.

    Parameters
    ----------
    trees, balls
        int64[t, WIDTH] and int64[t, 6]: directory rows of trees whose columns are all k projection axes, and the tables
        of their balls in slot order; searched in this order.
    first
        Whether one cover per query is enough; queries that are done are skipped.

    Implements: [projection] section III, dominating points, and step 2 of the algorithm for a new subscription.
    Deviation: R.3.1: dominance is asked of (-a, b), where a coverer is the larger one; step 2b verifies one
    candidate, this verifies until one passes, because that one is nearly always wrong (R.3.6).
    """
    for e in range(begin, queries.radii.size):
        if first and hits.done[e]:
            continue
        n_covers, n_doubts = hits.counts[COVERS], hits.counts[DOUBTS]
        coded_by = np.int64(-1)
        for t in range(trees.shape[0]):
            if trees[t, QUANTISER] != coded_by:
                coded_by = trees[t, QUANTISER]
                code_values(trees[t, QUANTISER : QUANTISER + 5], queries.high[e], scratch.codes[0])
                code_values(trees[t, QUANTISER : QUANTISER + 5], queries.low[e], scratch.codes[1])
            if not _walk(trees[t], balls[t], queries, e, first, hits, scratch):
                hits.counts[COVERS] = n_covers
                hits.counts[DOUBTS] = n_doubts
                hits.done[e] = 0
                return e
            if first and hits.done[e]:
                break
    return queries.radii.size


@hot_kernel
def block_covers(
    products: npt.NDArray[np.int32],
    active: npt.NDArray[np.int32],
    balls: _Table,
    start: Int,
    queries: Queries,
    begin: Int,
    first: bool,
    hits: Hits,
) -> Int:
    """Find covers among the balls from slot ``start`` on, from their ``products`` [active, balls].

    A product is ``||s - s'||**2 - (r - r')**2`` less its rounding bound, float32 viewed as int32: there can be a cover
    only where the sign bit is set, and bits are combined ten times as fast as floats are compared. Starts at row
    ``begin`` of the products; returns the first row not done because there was no room.
    """
    width = products.shape[1]
    for a in range(begin, products.shape[0]):
        if not _has_room(hits, width):
            return a
        e = np.int64(active[a])
        settled = False
        for run_start in range(0, width, _RUN):
            stop = min(run_start + _RUN, width)
            signs = np.int32(0)
            for i in range(run_start, stop):
                signs |= products[a, i]
            if signs >= 0:
                continue
            for i in range(run_start, stop):
                if products[a, i] < 0:
                    hits.counts[CANDIDATES] += 1
                    if _judge(balls, start + i, queries, e, first, hits):
                        settled = True
                        break
            if settled:
                break
    return products.shape[0]


@hot_kernel
def scan_covers(balls: _Table, queries: Queries, begin: Int, first: bool, hits: Hits) -> Int:
    """Test every ball, for the queries from ``begin`` on; return the first query not done because there was no room."""
    n = balls[_N]
    for e in range(begin, queries.radii.size):
        if first and hits.done[e]:
            continue
        if not _has_room(hits, n):
            return e
        hits.counts[CANDIDATES] += n
        for slot in range(n):
            if _judge(balls, slot, queries, e, first, hits):
                break
    return queries.radii.size


@hot_kernel
def scan_covered(balls: _Table, center: npt.NDArray[np.float64], radius: float, sides: npt.NDArray[np.uint8]) -> None:
    """Write for every ball whether (center, radius) covers it: INSIDE, OUTSIDE or UNCERTAIN; dead ones are OUTSIDE."""
    for slot in range(balls[_N]):
        sides[slot] = OUTSIDE
        if uint8_at(balls[_ALIVE], slot) != 0:
            sides[slot] = _side(balls[_CENTERS] + 8 * slot * balls[_D], center, radius, float64_at(balls[_RADII], slot))


@hot_kernel
def decide_pairs(
    balls: _Table,
    owners: npt.NDArray[np.int32],
    entries: npt.NDArray[np.int32],
    points: npt.NDArray[np.float64],
    rows: npt.NDArray[np.int64],
    verdicts: npt.NDArray[np.int8],
) -> None:
    """Write for each pair whether the ball of ``entries[i]`` holds the point ``points[rows[i]]``: 1 or 0.

    Ball ``slot`` belongs to the entry ``owners[slot]``; these ascend. Here the flag "alive" of the table means negated.
    A pair without a ball or without a point (NaN), or that float64 cannot decide, keeps its verdict.
    """
    n = balls[_N]
    for i in range(entries.size):
        slot = bisect_left(owners, entries[i], 0, n)
        if slot == n or owners[slot] != entries[i] or np.isnan(points[rows[i], 0]):
            continue
        side = cover_side(balls, slot, points[rows[i]], 0.0)
        if side != UNCERTAIN:
            verdicts[i] = (side == INSIDE) != (uint8_at(balls[_ALIVE], slot) != 0)
