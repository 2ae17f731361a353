"""The order of boxes in a bitmap segment: a shallow tree whose leaves hold up to 512 boxes that look alike.

A node splits on the column that spares most visits per bit of information: first come ranges of box centres, up to
four, then the boxes that leave the column free. A child knows the range of buckets that its boxes touch on that column,
so an event whose bucket lies outside skips all of it. Boxes are seen in buckets (`build`), and a large node is judged
by a sample. Where nothing separates the boxes they are cut by position.

Nodes stand in preorder, int32[nodes, NODE_WIDTH]; the columns are below. The slots of a leaf follow those of the leaf
before it.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import numpy.typing as npt

from tamis.kernels.bitmaps.words import N_ROWS, N_WORDS
from tamis.kernels.compile import Int, hot_kernel, kernel

__all__ = [
    "COLUMN",
    "DEPTH",
    "GREATEST",
    "LEAF",
    "LEAF_SIZE",
    "LEAST",
    "MOST_DEPTH",
    "NODE_WIDTH",
    "SKIP",
    "START",
    "STOP",
    "order_by_tree",
]

#: Boxes of a leaf.
LEAF_SIZE: Final = 64 * N_WORDS

#: Columns of a node: on which column of the segment it was split off (-1: the root), the least and the greatest bucket
#: of its boxes there, its depth, its slots, the number of the leaf (-1: it is none), and the node after its subtree.
COLUMN, LEAST, GREATEST, DEPTH, START, STOP, LEAF, SKIP = range(8)
NODE_WIDTH: Final = 8
#: Levels of nodes. From ``_DEEP`` on boxes are cut in halves by position, of which 2**31 boxes have 22 levels.
MOST_DEPTH: Final = 64
_DEEP: Final = 40

#: Buckets of values; a box that touches all of them counts as free.
_N_BUCKETS: Final = N_ROWS - 1
#: Centres are twice the middle bucket; the last bin holds free boxes.
_FREE_BIN: Final = 2 * _N_BUCKETS - 1
#: Boxes of a large node that are looked at, and the size from which a node counts as large.
_SAMPLE: Final = 4_096
_LARGE: Final = 4 * LEAF_SIZE
#: Ranges of centres that a split may make.
_MOST_PARTS: Final = 4
_MOST_CUTS: Final = 16
#: A split that gains fewer bits is not considered, nor a column that a smaller share of the boxes constrains.
_LEAST_BITS: Final = 0.02
_UNKNOWN: Final = 1 << 30


@hot_kernel
def _bin_of(least: Int, greatest: Int) -> Int:
    """Return the bin of a box on a column: its centre, or the bin of the free."""
    if greatest - least >= _N_BUCKETS - 1:
        return _FREE_BIN
    return least + min(greatest, _N_BUCKETS - 1)


@hot_kernel
def _count_bins(
    corners: npt.NDArray[np.uint8],
    order: npt.NDArray[np.int32],
    span: tuple[Int, Int],
    step: Int,
    bins: npt.NDArray[np.int64],
) -> Int:
    """Fill ``bins`` int64[3, columns, bins] from every ``step``-th box of a span; return how many were looked at.

    They are the boxes in each bin, and the least and the greatest bucket that those touch.
    """
    bins[0] = 0
    bins[1] = _UNKNOWN
    bins[2] = -1
    n_boxes = np.int64(0)
    for i in range(span[0], span[1], step):
        box = order[i]
        n_boxes += 1
        for k in range(bins.shape[1]):
            least, greatest = np.int64(corners[box, 2 * k]), np.int64(corners[box, 2 * k + 1])
            bin_number = _bin_of(least, greatest)
            bins[0, k, bin_number] += 1
            bins[1, k, bin_number] = min(bins[1, k, bin_number], least)
            bins[2, k, bin_number] = max(bins[2, k, bin_number], greatest)
    return n_boxes


@hot_kernel
def _judge(
    bins: npt.NDArray[np.int64], column: Int, cuts: npt.NDArray[np.int64], n_parts: Int, small: bool
) -> tuple[float, float]:
    """Return the share of visits that a split keeps, and its entropy; ``cuts`` are positions in the order of bins.

    The last cut is the number of boxes. In a small node a part counts its leaves, so that leaves come out full.
    """
    total = float(cuts[n_parts - 1])
    first, last = np.int64(_UNKNOWN), np.int64(-1)
    for c in range(bins.shape[2]):
        first, last = min(first, bins[1, column, c]), max(last, bins[2, column, c])
    width = float(_N_BUCKETS if bins[0, column, _FREE_BIN] else last - first + 1)
    visit_share, entropy = 0.0, 0.0
    position, start, part = np.int64(0), np.int64(0), 0
    first, last = np.int64(_UNKNOWN), np.int64(-1)
    for c in range(bins.shape[2]):
        n_left = bins[0, column, c]
        while n_left > 0:
            n_taken = min(n_left, cuts[part] - position)
            first, last = min(first, bins[1, column, c]), max(last, bins[2, column, c])
            position += n_taken
            n_left -= n_taken
            if position == cuts[part]:
                share = (position - start) / total
                weight = math.ceil((position - start) / LEAF_SIZE) if small else share
                visit_share += weight * min(1.0, (last - first + 1) / width)
                entropy -= share * math.log2(share)
                start, first, last = position, np.int64(_UNKNOWN), np.int64(-1)
                part += 1
    return visit_share, entropy


@hot_kernel
def _cut(n_bound: Int, n_free: Int, k: Int, small: bool, cuts: npt.NDArray[np.int64]) -> Int:
    """Propose a split into ``k`` ranges of centres and the free boxes; return how many parts it has (0: none).

    ``k`` of ``_MOST_PARTS + 1`` cuts a small node into full leaves, free boxes or not.
    """
    total, n = n_bound + n_free, 0
    if k > _MOST_PARTS:
        for position in range(LEAF_SIZE, total if small else 0, LEAF_SIZE):
            cuts[n] = position
            n += 1
    elif not small or k <= (n_bound + LEAF_SIZE - 1) // LEAF_SIZE:
        for j in range(1, k):
            position = n_bound * j // k
            if small:
                position = (position + LEAF_SIZE // 2) // LEAF_SIZE * LEAF_SIZE
            if (cuts[n - 1] if n else 0) < position < n_bound:
                cuts[n] = position
                n += 1
        if n_free > 0:
            cuts[n] = n_bound
            n += 1
    cuts[n] = total
    return n + 1 if n else 0


@hot_kernel
def _choose_split(
    bins: npt.NDArray[np.int64], n_boxes: Int, small: bool, cuts: npt.NDArray[np.int64], best: npt.NDArray[np.int64]
) -> tuple[Int, Int]:
    """Write the cuts of the best split to ``best``; return its column (-1: nothing separates) and its parts."""
    column, parts, best_score = np.int64(-1), np.int64(0), -math.inf
    for k in range(bins.shape[1]):
        n_free = bins[0, k, _FREE_BIN]
        if n_boxes - n_free < _LEAST_BITS * n_boxes:
            continue
        for n_ranges in range(1, _MOST_PARTS + 2):
            n_parts = _cut(n_boxes - n_free, n_free, n_ranges, small, cuts)
            if n_parts < 2:
                continue
            visit_share, entropy = _judge(bins, k, cuts, n_parts, small)
            score = -visit_share if small else -math.log2(max(visit_share, 1e-3)) / max(entropy, 1e-9)
            if entropy >= _LEAST_BITS and score > best_score:
                column, parts, best_score = np.int64(k), np.int64(n_parts), score
                for j in range(n_parts):
                    best[j] = cuts[j]
    return column, parts


@hot_kernel
def _sort_by_bin(
    corners: npt.NDArray[np.uint8],
    order: npt.NDArray[np.int32],
    scratch: npt.NDArray[np.int32],
    span: tuple[Int, Int],
    column: Int,
    starts: npt.NDArray[np.int64],
) -> Int:
    """Sort the boxes of a span by their bin on a column, free ones last; return how many are free."""
    starts[:] = 0
    for i in range(span[0], span[1]):
        box = order[i]
        starts[_bin_of(np.int64(corners[box, 2 * column]), np.int64(corners[box, 2 * column + 1])) + 1] += 1
    n_free = starts[_FREE_BIN + 1]
    for c in range(1, starts.size):
        starts[c] += starts[c - 1]
    for i in range(span[0], span[1]):
        box = order[i]
        bin_number = _bin_of(np.int64(corners[box, 2 * column]), np.int64(corners[box, 2 * column + 1]))
        scratch[span[0] + starts[bin_number]] = box
        starts[bin_number] += 1
    for i in range(span[0], span[1]):
        order[i] = scratch[i]
    return n_free


@hot_kernel
def _place_cuts(cuts: npt.NDArray[np.int64], n_parts: Int, span: tuple[Int, Int], n_free: tuple[Int, Int]) -> None:
    """Turn cuts of a sample into slots; ``n_free`` are the free boxes of the sample and of the span.

    A cut before the free boxes of the sample falls before those of the span, the others fall on whole leaves.
    """
    start, stop = span
    n_sampled = cuts[n_parts - 1]
    for j in range(n_parts - 1):
        position = cuts[j]
        if j == n_parts - 2 and position == n_sampled - n_free[0] and 0 < n_free[1] < stop - start:
            cuts[j] = stop - n_free[1]
        elif n_sampled < stop - start:
            position = np.int64(position * ((stop - start) / n_sampled))
            cuts[j] = start + (position + LEAF_SIZE // 2) // LEAF_SIZE * LEAF_SIZE
        else:
            cuts[j] = start + position
    cuts[n_parts - 1] = stop


@hot_kernel
def _push_parts(
    corners: npt.NDArray[np.uint8],
    order: npt.NDArray[np.int32],
    start: Int,
    column: Int,
    cuts: npt.NDArray[np.int64],
    stack: npt.NDArray[np.int64],
    state: tuple[Int, Int, Int],
) -> Int:
    """Push the parts of a node, the last one first; ``state`` is (parts, depth of the parts, stack in use)."""
    n_parts, depth, used = state
    stop = cuts[n_parts - 1]
    for j in range(n_parts - 1, -1, -1):
        begin = min(start if j == 0 else max(cuts[j - 1], start), stop)
        if begin == stop:
            continue
        least, greatest = np.int64(_UNKNOWN), np.int64(-1)
        for i in range(begin, stop):
            least = min(least, np.int64(corners[order[i], 2 * column]))
            greatest = max(greatest, np.int64(corners[order[i], 2 * column + 1]))
        stack[used, COLUMN], stack[used, LEAST], stack[used, GREATEST] = column, least, greatest
        stack[used, DEPTH], stack[used, START], stack[used, STOP] = depth, begin, stop
        used += 1
        stop = begin
    return used


@kernel
def order_by_tree(corners: npt.NDArray[np.uint8]) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Order boxes, uint8[n, 2 * columns] of least and greatest rows of each column; return the order and the nodes."""
    n, columns = corners.shape[0], corners.shape[1] // 2
    order, scratch = np.arange(n).astype(np.int32), np.empty(n, np.int32)
    nodes = np.zeros((1_024 + 64 * (n // LEAF_SIZE + 1), NODE_WIDTH), np.int32)
    stack = np.zeros((_MOST_CUTS * MOST_DEPTH, NODE_WIDTH), np.int64)
    bins, starts = np.zeros((3, columns, _FREE_BIN + 1), np.int64), np.zeros(_FREE_BIN + 2, np.int64)
    cuts, best = np.zeros(_MOST_CUTS, np.int64), np.zeros(_MOST_CUTS, np.int64)
    stack[0, COLUMN], stack[0, STOP] = -1, n
    used, n_nodes, n_leaves = 1, 0, 0
    while used > 0:
        used -= 1
        start, stop, depth = stack[used, START], stack[used, STOP], stack[used, DEPTH]
        if n_nodes == nodes.shape[0]:
            nodes = np.concatenate((nodes, np.zeros_like(nodes)))
        nodes[n_nodes] = stack[used].astype(np.int32)
        nodes[n_nodes, LEAF] = n_leaves if stop - start <= LEAF_SIZE else -1
        n_nodes += 1
        if stop - start <= LEAF_SIZE:
            n_leaves += 1
            continue
        small = stop - start <= _LARGE
        n_sampled = _count_bins(corners, order, (start, stop), 1 if small else max(1, (stop - start) // _SAMPLE), bins)
        column, parts = _choose_split(bins, n_sampled, small, cuts, best)
        if column < 0 or depth >= _DEEP:
            column, parts = np.int64(0), np.int64(2)
            best[0], best[1] = n_sampled // 2, n_sampled
        free = _sort_by_bin(corners, order, scratch, (start, stop), column, starts)
        _place_cuts(best, parts, (start, stop), (bins[0, column, _FREE_BIN], free))
        used = _push_parts(corners, order, start, column, best, stack, (parts, depth + 1, used))
    nodes = nodes[:n_nodes].copy()
    next_node = np.full(MOST_DEPTH + 1, n_nodes, np.int32)
    for x in range(n_nodes - 1, -1, -1):
        depth = nodes[x, DEPTH]
        nodes[x, SKIP] = next_node[depth]
        next_node[depth:] = x
    return order, nodes
