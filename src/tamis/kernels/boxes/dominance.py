"""Covering of boxes on the packed tree: which boxes cover a box, and which lie inside it.

A box covers another iff its corner ``(-lo, hi)`` is at least the other's on every axis. Matching tests ``lo <=
event_high and hi >= event_low``; so the search for the covers of a box is that of an event turned inside out, ``high =
lo`` and ``low = hi``, and the tree, its codes and its ties serve both (:mod:`tamis.kernels.boxes.tree`). An axis that
the box leaves free is a missing value: only boxes that leave it free as well can cover it.

Of all covers the one with the least row is returned, so the result does not depend on how the boxes are packed.
``least`` holds the least row below each block of a tree; a subtree that cannot improve the result is skipped. A box
*inside* another meets it, so that search walks the tree like an interval event.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tamis.kernels.boxes.fit import fit_event
from tamis.kernels.boxes.quantise import code_values
from tamis.kernels.boxes.sparse import holds
from tamis.kernels.compile import Int, hot_kernel, inline_kernel
from tamis.kernels.directory import (
    ALIVE,
    BLOCKS,
    COLUMN_AXES,
    FLAT,
    HEIGHT,
    LAYOUT,
    LEAVES,
    LEVELS,
    N_COLUMNS,
    N_SLOTS,
    QUANTISER,
    ROWS,
)
from tamis.kernels.emit import (
    float64_at,
    int16_at,
    int32_at,
    int64_at,
    lowest_bit,
    uint16_at,
    uint32_at,
)

__all__ = [
    "Question",
    "Walk",
    "code_question",
    "find_inside",
    "find_least_covers",
    "scan_least_covers",
    "write_least_rows",
]


class Walk(NamedTuple):
    """Memory of one question: codes int16[4, d], a stack int64[1_024], counters int64[2] of blocks and of ties."""

    codes: npt.NDArray[np.int16]
    stack: npt.NDArray[np.int64]
    counters: npt.NDArray[np.int64]


class Question(NamedTuple):
    """A box or point in the codes of a segment, in column order, and its float64 ends, in axis order."""

    low_codes: npt.NDArray[np.int16]
    high_codes: npt.NDArray[np.int16]
    low: npt.NDArray[np.float64]
    high: npt.NDArray[np.float64]


@hot_kernel
def write_least_rows(rows: npt.NDArray[np.int32], levels: npt.NDArray[np.int64], least: npt.NDArray[np.int32]) -> None:
    """Write the least row at or below each block of a tree to ``least`` int32[blocks]; rows stand in slot order."""
    height = levels.size - 2
    for block in range(least.size):
        least[block] = np.int32(2147483647)
    for slot in range(rows.size):
        leaf = levels[height] + (slot >> 4)
        least[leaf] = min(least[leaf], rows[slot])
    for level in range(height - 1, -1, -1):
        for child in range(levels[level + 1], levels[level + 2]):
            parent = levels[level] + ((child - levels[level + 1]) >> 4)
            least[parent] = min(least[parent], least[child])


@inline_kernel
def code_question(
    segment: npt.NDArray[np.int64],
    low: npt.NDArray[np.float64],
    high: npt.NDArray[np.float64],
    codes: npt.NDArray[np.int16],
    fresh: bool,
) -> None:
    """Write a question in the codes (0, 1) and columns (2, 3) of a segment; ``fresh``: its quantiser is a new one."""
    if fresh:
        code_values(segment[QUANTISER : QUANTISER + 5], low, codes[0])
        code_values(segment[QUANTISER : QUANTISER + 5], high, codes[1])
    for k in range(segment[N_COLUMNS]):
        axis = int32_at(segment[COLUMN_AXES], k)
        codes[2, k] = codes[0, axis]
        codes[3, k] = codes[1, axis]


@inline_kernel
def _least_of_block(
    segment: npt.NDArray[np.int64], event: Question, block: Int, best: Int, counters: npt.NDArray[np.int64]
) -> Int:
    """Return the least row below ``best`` in one leaf block that covers, or ``best``."""
    columns = segment[N_COLUMNS]
    fits = fit_event(segment[LEAVES] + 64 * columns * block, columns, event)
    mask = fits & np.int64(uint16_at(segment[ALIVE], block))
    ties = fits >> 16
    counters[0] += 1
    while mask != 0:
        lane = lowest_bit(mask)
        mask &= mask - 1
        row = np.int64(int32_at(segment[ROWS], 16 * block + lane))
        if row < best:
            if (ties >> lane) & 1 == 0:
                best = row
            else:
                counters[1] += 1
                if holds(segment, 16 * block + lane, event.low, event.high):
                    best = row
    return best


@inline_kernel
def _least_of_tree(segment: npt.NDArray[np.int64], least: Int, event: Question, best: Int, walk: Walk) -> Int:
    """Return the least row below ``best`` in one tree that covers, or ``best``; ``least`` is an address."""
    size = 64 * segment[N_COLUMNS]
    leaf_level = segment[HEIGHT] - 1
    stack = walk.stack
    stack[0] = 0
    depth = 1
    while depth > 0:
        depth -= 1
        level, node = stack[depth] >> 40, stack[depth] & 0xFFFFFFFFFF
        block = int64_at(segment[LEVELS], level) + node
        if np.int64(int32_at(least, block)) >= best:
            continue
        mask = fit_event(segment[BLOCKS] + block * size, segment[N_COLUMNS], event) & 0xFFFF
        walk.counters[0] += 1
        below = int64_at(segment[LEVELS], level + 1)
        while mask != 0:
            child = 16 * node + lowest_bit(mask)
            mask &= mask - 1
            if np.int64(int32_at(least, below + child)) >= best:
                continue
            if level == leaf_level:
                best = _least_of_block(segment, event, child, best, walk.counters)
            else:
                stack[depth] = ((level + 1) << 40) | child
                depth += 1
    return best


@hot_kernel
def find_least_covers(
    directory: npt.NDArray[np.int64],
    least: npt.NDArray[np.int64],
    corners: tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]],
    best: npt.NDArray[np.int32],
    walk: Walk,
) -> None:
    """Lower ``best[e]`` to the least row whose box covers box ``e``, if there is one below it.

    Parameters
    ----------
    directory, least
        int64[segments, WIDTH] of trees and deltas, and the address of each tree's least rows.
    corners
        ``hi`` and ``lo`` of the boxes, float64[n, d] each, in this order; NaN in both where an axis is free.
    best
        int32[n]; rows from here on are not of interest.
    """
    low, high = corners
    for e in range(low.shape[0]):
        least_row = np.int64(best[e])
        coded_by = np.int64(-1)
        for g in range(directory.shape[0]):
            segment = directory[g]
            code_question(segment, low[e], high[e], walk.codes, segment[QUANTISER] != coded_by)
            event = Question(walk.codes[2], walk.codes[3], low[e], high[e])
            coded_by = segment[QUANTISER]
            if segment[LAYOUT] == FLAT:
                for block in range((segment[N_SLOTS] + 15) >> 4):
                    least_row = _least_of_block(segment, event, block, least_row, walk.counters)
            else:
                least_row = _least_of_tree(segment, least[g], event, least_row, walk)
        best[e] = least_row


@inline_kernel
def _lies_inside(
    boxes: npt.NDArray[np.int64], slot: Int, lo: npt.NDArray[np.float64], hi: npt.NDArray[np.float64]
) -> bool:
    """Whether box ``slot`` lies in the box ``[lo, hi]``, whose free axes are NaN; a box free elsewhere does not."""
    at = np.int64(uint32_at(boxes[0], slot))
    end = np.int64(uint32_at(boxes[0], slot + 1))
    for k in range(lo.size):
        if np.isnan(lo[k]):
            continue
        while at < end and np.int64(int16_at(boxes[1], at)) < k:
            at += 1
        if at == end or np.int64(int16_at(boxes[1], at)) != k:
            return False
        if not (float64_at(boxes[2], 2 * at) >= lo[k] and float64_at(boxes[2], 2 * at + 1) <= hi[k]):
            return False
    return True


@inline_kernel
def _inside_block(
    segment: npt.NDArray[np.int64],
    event: Question,
    block: Int,
    box: tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]],
    out: npt.NDArray[np.int32],
    count: Int,
) -> Int:
    """Write the rows of one leaf block whose box lies inside; return the new count."""
    columns = segment[N_COLUMNS]
    mask = fit_event(segment[LEAVES] + 64 * columns * block, columns, event)
    mask &= np.int64(uint16_at(segment[ALIVE], block))
    while mask != 0:
        slot = 16 * block + lowest_bit(mask)
        mask &= mask - 1
        out[count] = int32_at(segment[ROWS], slot)
        count += _lies_inside(segment, slot, box[0], box[1])
    return count


@inline_kernel
def _inside_segment(
    segment: npt.NDArray[np.int64],
    event: Question,
    box: tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]],
    stack: npt.NDArray[np.int64],
    out: npt.NDArray[np.int32],
    count: Int,
) -> Int:
    """Write the rows of one segment that lie inside after ``count``; return the new count or -1 (full)."""
    if segment[LAYOUT] == FLAT:
        if count + segment[N_SLOTS] + 32 > out.size:
            return np.int64(-1)
        for block in range((segment[N_SLOTS] + 15) >> 4):
            count = _inside_block(segment, event, block, box, out, count)
        return count
    stack[0] = 0
    depth = 1
    while depth > 0:
        depth -= 1
        level, node = stack[depth] >> 40, stack[depth] & 0xFFFFFFFFFF
        address = segment[BLOCKS] + (int64_at(segment[LEVELS], level) + node) * 64 * segment[N_COLUMNS]
        mask = fit_event(address, segment[N_COLUMNS], event) & 0xFFFF
        if count + 288 > out.size:
            return np.int64(-1)
        while mask != 0:
            child = 16 * node + lowest_bit(mask)
            mask &= mask - 1
            if level == segment[HEIGHT] - 1:
                count = _inside_block(segment, event, child, box, out, count)
            else:
                stack[depth] = ((level + 1) << 40) | child
                depth += 1
    return count


@hot_kernel
def find_inside(
    directory: npt.NDArray[np.int64],
    events: tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]],
    boxes: tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]],
    begin: Int,
    offsets: npt.NDArray[np.int64],
    out: npt.NDArray[np.int32],
    walk: Walk,
) -> Int:
    """Find the rows inside the boxes from number ``begin`` on; return the number of the first one not done.

    ``boxes`` are ``lo`` and ``hi`` with NaN where an axis is free; ``events`` the same boxes as the least and
    greatest value that meets them, which on a free axis is any. Output as in
    :func:`tamis.kernels.boxes.match.match_events`.
    """
    for e in range(begin, offsets.size - 1):
        count = offsets[e]
        coded_by = np.int64(-1)
        for g in range(directory.shape[0]):
            segment = directory[g]
            code_question(segment, events[0][e], events[1][e], walk.codes, segment[QUANTISER] != coded_by)
            event = Question(walk.codes[2], walk.codes[3], events[0][e], events[1][e])
            coded_by = segment[QUANTISER]
            count = _inside_segment(segment, event, (boxes[0][e], boxes[1][e]), walk.stack, out, count)
            if count < 0:
                return e
        offsets[e + 1] = count
    return offsets.size - 1


@hot_kernel
def scan_least_covers(
    lo: npt.NDArray[np.float64],
    hi: npt.NDArray[np.float64],
    questions: tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]],
    best: npt.NDArray[np.int32],
) -> None:
    """Do what :func:`find_least_covers` does, by a plain scan of dense boxes: the base of the benchmarks.

    An infinite side is open; a free axis of a box that is asked for is covered by a free axis only, which on
    closed boxes without missing values is the same as comparing infinities.
    """
    for e in range(questions[0].shape[0]):
        for row in range(min(lo.shape[0], best[e])):
            covers = True
            for k in range(lo.shape[1]):
                if not (lo[row, k] <= questions[0][e, k] and hi[row, k] >= questions[1][e, k]):
                    covers = False
                    break
            if covers:
                best[e] = row
                break
