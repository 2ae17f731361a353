"""The packed max-corner tree: boxes in blocks of sixteen, hulls of sixteen children above them.

Matching asks ``lo <= event_hi and hi >= event_lo`` on every axis, which is dominance of the corner
``(-lo, hi)``; a hull keeps the least ``lo`` and the greatest ``hi`` of what lies below, so a subtree whose
hull fails is skipped. Leaves and inner nodes have one layout (:mod:`tamis.kernels.emit`): a block is 16
boxes or 16 hulls, one 64-byte line of int16 codes per *column*. A column is an axis that some box of the
segment constrains; axes that no box constrains cost nothing.

``blocks`` holds all levels, the root first and the leaves last; ``levels[l]`` is the first block of level
``l``, and block ``b`` of one level has the blocks ``16 b`` to ``16 b + 15`` of the next below it. The box in lane ``i``
of leaf block ``b`` is *slot* ``16 b + i``: rows, float64 ends and the alive bits are stored in slot order, so a
block's rows are one vector and its alive bits one uint16. Lanes beyond the last box never fit.

Why leaves of a single block: of a million uniform boxes an event then tests 300, with 128 boxes per leaf
1,200, and large results are limited by the bytes read. All hulls together are a fifteenth of the leaves.

Codes that tie are settled on float64 (:func:`tamis.kernels.boxes.sparse.holds`); everything else is decided by
codes alone, exactly, because the quantiser is monotone.

``out`` may be an array of rows or of staged lanes (:mod:`tamis.kernels.boxes.staged`); the walk is the same.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from tamis.kernels.boxes.fit import fit_event
from tamis.kernels.boxes.quantise import FREE, OPEN
from tamis.kernels.boxes.sparse import holds
from tamis.kernels.compile import Int, hot_kernel, inline_kernel, kernel
from tamis.kernels.directory import (
    ALIVE,
    AXIS,
    BLOCKS,
    ENDS,
    FIRST,
    HEIGHT,
    LEAVES,
    LEVELS,
    N_COLUMNS,
    N_SLOTS,
    ROWS,
)
from tamis.kernels.emit import emit_lane, emit_lanes, int64_at, lowest_bit, prefetch, uint16_at, uint32_at
from tamis.kernels.vector_ir import LANES

__all__ = [
    "TIES",
    "Event",
    "append_lanes",
    "dense_codes",
    "fill_blocks",
    "find_loose_lane",
    "levels_of",
    "match_flat",
    "match_tree",
    "order_boxes",
]

#: The most tied slots that are collected; a delta has no more slots.
TIES: Final = 4_096
#: Codes of a lane without a box: no event code reaches them.
_NEVER_LOW: Final = 32767
_NEVER_HIGH: Final = -3


#: Rows int32, or staged lanes int64.
Out: TypeAlias = npt.NDArray[np.int32] | npt.NDArray[np.int64]


class Event(NamedTuple):
    """One event as the kernels see it: codes in column order, float64 values in axis order.

    ``ties`` int32[TIES] is scratch.
    """

    low_codes: npt.NDArray[np.int16]
    high_codes: npt.NDArray[np.int16]
    low: npt.NDArray[np.float64]
    high: npt.NDArray[np.float64]
    ties: npt.NDArray[np.int32]


@hot_kernel
def dense_codes(
    first: npt.NDArray[np.uint32],
    axis: npt.NDArray[np.int16],
    codes: npt.NDArray[np.int16],
    column: npt.NDArray[np.int32],
    corners: npt.NDArray[np.int16],
) -> None:
    """Spread the codes of entries to ``corners`` int16[n, 2 * columns]: lo and hi of each column."""
    for s in range(corners.shape[0]):
        for k in range(corners.shape[1] // 2):
            corners[s, 2 * k] = FREE
            corners[s, 2 * k + 1] = OPEN
        for j in range(np.int64(first[s]), np.int64(first[s + 1])):
            column_number = np.int64(column[axis[j]])
            corners[s, 2 * column_number] = codes[j, 0]
            corners[s, 2 * column_number + 1] = codes[j, 1]


@hot_kernel
def _widest(corners: npt.NDArray[np.int16], order: npt.NDArray[np.int32], start: Int, stop: Int) -> Int:
    """Return the corner coordinate with the greatest variance in a sample of ``order[start:stop]``."""
    best = -1.0
    chosen = 0
    step = max(1, (stop - start) // 256)
    for j in range(corners.shape[1]):
        total = 0.0
        squares = 0.0
        count = 0
        for i in range(start, stop, step):
            value = float(corners[order[i], j])
            total += value
            squares += value * value
            count += 1
        variance = squares / count - (total / count) ** 2
        if variance > best:
            best = variance
            chosen = j
    return chosen


@hot_kernel
def _select(keys: npt.NDArray[np.int16], order: npt.NDArray[np.int32], span: tuple[Int, Int], middle: Int) -> None:
    """Rearrange a span so that no key before ``middle`` exceeds a key after it (quickselect)."""
    left, right = span[0], span[1] - 1
    while left < right:
        pivot = keys[(left + right) >> 1]
        i = left
        j = right
        while i <= j:
            while keys[i] < pivot:
                i += 1
            while keys[j] > pivot:
                j -= 1
            if i <= j:
                keys[i], keys[j] = keys[j], keys[i]
                order[i], order[j] = order[j], order[i]
                i += 1
                j -= 1
        if middle <= j:
            right = j
        elif middle >= i:
            left = i
        else:
            return


@kernel
def order_boxes(corners: npt.NDArray[np.int16]) -> npt.NDArray[np.int32]:
    """Order boxes so that neighbours look alike: median splits on the widest corner coordinate.

    Splits fall on whole blocks of a full left subtree, so every block but the last is full. Cost:
    O(n log n) with one pass over int16 keys per level.
    """
    n = corners.shape[0]
    order = np.arange(n).astype(np.int32)
    keys = np.empty(n, np.int16)
    stack = np.empty((128, 2), np.int64)
    stack[0, 0] = 0
    stack[0, 1] = n
    depth = 1
    while depth > 0:
        depth -= 1
        start, stop = stack[depth, 0], stack[depth, 1]
        if stop - start <= LANES:
            continue
        coordinate = _widest(corners, order, start, stop)
        for i in range(start, stop):
            keys[i] = corners[order[i], coordinate]
        leaves = (stop - start + LANES - 1) // LANES
        left_leaves = 1
        while left_leaves * 2 < leaves:
            left_leaves *= 2
        middle = start + left_leaves * LANES
        _select(keys, order, (start, stop), middle)
        stack[depth, 0] = start
        stack[depth, 1] = middle
        stack[depth + 1, 0] = middle
        stack[depth + 1, 1] = stop
        depth += 2
    return order


def levels_of(n: int) -> npt.NDArray[np.int64]:
    """Return the first block of each level of a tree of n boxes; the last entry is the number of blocks.

    >>> levels_of(16), levels_of(17)
    (array([0, 1, 2]), array([0, 1, 3]))
    """
    counts = [max(1, -(-n // LANES))]
    while counts[-1] > 1 or len(counts) == 1:
        counts.append(-(-counts[-1] // LANES))
    return np.cumsum([0, *reversed(counts)])


@kernel
def fill_blocks(
    corners: npt.NDArray[np.int16],
    order: npt.NDArray[np.int32],
    levels: npt.NDArray[np.int64],
    blocks: npt.NDArray[np.int16],
) -> None:
    """Pack boxes in the given order into ``blocks``, whose levels are those of `levels_of`."""
    n = corners.shape[0]
    columns = corners.shape[1] // 2
    leaves = levels.size - 2
    size = 32 * columns
    for i in range(blocks.size):
        blocks[i] = _NEVER_LOW if i & 16 == 0 else _NEVER_HIGH
    for i in range(n):
        lane = (levels[leaves] + i // 16) * size + i % 16
        for k in range(2 * columns):
            blocks[lane + 16 * k] = corners[order[i], k]
    for level in range(leaves - 1, -1, -1):
        for child in range(levels[level + 2] - levels[level + 1]):
            hull = (levels[level] + child // 16) * size + child % 16
            lane = (levels[level + 1] + child) * size
            for k in range(columns):
                for i in range(32 * k, 32 * k + 16):
                    blocks[hull + 32 * k] = min(blocks[hull + 32 * k], blocks[lane + i])
                    blocks[hull + 32 * k + 16] = max(blocks[hull + 32 * k + 16], blocks[lane + 16 + i])


def find_loose_lane(blocks: npt.NDArray[np.int16], levels: npt.NDArray[np.int64], columns: int) -> int:
    """Return a block above the leaves that has a lane without a child which some event could fit; -1: there is none.

    Only the last block of a level has lanes without a child. One that never fits says so in the first column.
    """
    for level in range(len(levels) - 2):
        children = int(levels[level + 2] - levels[level + 1])
        block = int(levels[level + 1]) - 1
        lanes = blocks[32 * columns * block :][:LANES]
        if (lanes[(children - 1) % LANES + 1 :] != _NEVER_LOW).any():
            return block
    return -1


@inline_kernel
def _scan_block(
    segment: npt.NDArray[np.int64], event: Event, block: Int, out: Out, state: tuple[Int, Int]
) -> tuple[Int, Int]:
    """Write the matching rows of one leaf block, and collect the slots that tie.

    ``state`` is (rows written, slots noted). There is room for sixteen of each.
    """
    count, n_ties = state
    columns = segment[N_COLUMNS]
    fits = fit_event(segment[LEAVES] + 64 * columns * block, columns, event)
    mask = fits & np.int64(uint16_at(segment[ALIVE], block))
    ties = mask & (fits >> 16)
    count += emit_lanes(segment[ROWS] + 64 * block, mask & ~ties, out, count)
    while ties != 0:
        event.ties[n_ties] = 16 * block + lowest_bit(ties)
        ties &= ties - 1
        n_ties += 1
    return count, n_ties


@inline_kernel
def _settle_ties(segment: npt.NDArray[np.int64], event: Event, n_ties: Int, out: Out, count: Int) -> Int:
    """Decide the tied slots with float64; return the new count.

    Their ends lie far apart in memory, so all are prefetched before the first is read.
    """
    for i in range(n_ties):
        prefetch(segment[FIRST] + 4 * np.int64(event.ties[i]))
    for i in range(n_ties):
        entry = np.int64(uint32_at(segment[FIRST], np.int64(event.ties[i])))
        prefetch(segment[AXIS] + 2 * entry)
        prefetch(segment[ENDS] + 16 * entry)
        prefetch(segment[ENDS] + 16 * entry + 63)
    for i in range(n_ties):
        slot = np.int64(event.ties[i])
        emit_lane(segment[ROWS], slot, out, count)
        count += holds(segment, slot, event.low, event.high)
    return count


@inline_kernel
def match_flat(segment: npt.NDArray[np.int64], event: Event, out: Out, count: Int) -> Int:
    """Test every block of a delta; return the new count or -1 (full)."""
    if count + segment[N_SLOTS] + 32 > out.size:
        return -1
    n_ties = np.int64(0)
    for block in range((segment[N_SLOTS] + 15) >> 4):
        count, n_ties = _scan_block(segment, event, block, out, (count, n_ties))
    return _settle_ties(segment, event, n_ties, out, count)


@inline_kernel
def match_tree(
    segment: npt.NDArray[np.int64],
    event: Event,
    stack: npt.NDArray[np.int64],
    out: Out,
    count: Int,
) -> Int:
    """Write the rows of one tree that match the event after ``count``; return the new count or -1 (full)."""
    size = 64 * segment[N_COLUMNS]
    leaf_level = segment[HEIGHT] - 1
    stack[0] = 0
    depth = 1
    n_ties = np.int64(0)
    while depth > 0:
        depth -= 1
        level, node = stack[depth] >> 40, stack[depth] & 0xFFFFFFFFFF
        address = segment[BLOCKS] + (int64_at(segment[LEVELS], level) + node) * size
        mask = fit_event(address, segment[N_COLUMNS], event) & 0xFFFF
        if level < leaf_level:
            while mask != 0:
                stack[depth] = ((level + 1) << 40) | (16 * node + lowest_bit(mask))
                mask &= mask - 1
                depth += 1
            continue
        if n_ties > TIES - 256:
            count, n_ties = _settle_ties(segment, event, n_ties, out, count), np.int64(0)
        if count + 288 + n_ties > out.size:
            return -1
        while mask != 0:
            count, n_ties = _scan_block(segment, event, 16 * node + lowest_bit(mask), out, (count, n_ties))
            mask &= mask - 1
    return _settle_ties(segment, event, n_ties, out, count)


@hot_kernel
def append_lanes(blocks: npt.NDArray[np.int16], corners: npt.NDArray[np.int16], at: Int) -> None:
    """Write boxes to the unordered blocks of a delta, from slot ``at`` on."""
    size = 16 * corners.shape[1]
    for i in range(corners.shape[0]):
        lane = (at + i) // 16 * size + (at + i) % 16
        for k in range(corners.shape[1]):
            blocks[lane + 16 * k] = corners[i, k]
