"""The Hilbert curve by tables: cell to key, key to cell, box of cells to ranges of keys.

A cube of cells has 2**d corners (halves of its sides). A corner is named by its *label*: bit j says that it lies in
the upper half of side j. The curve enters a cube in some *state* (which corner it enters by, and along which side it
leaves); the state says in which order, the *digit*, the corners are visited and in which state each is entered.
A key is the digits from the largest cube down to the cell, d bits each.

Both tables hold, for ``state * 2**d + label`` (or ``+ digit``), the other of the two in the low byte and the next
state, already multiplied, above it: one load per level.

A key of more than `MAX_KEY_BITS` bits does not fit one int64; then the levels are walked in several goes,
which ``states`` joins, and each go gives a word of its own.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tamis.kernels.compile import Int, hot_kernel, inline_kernel

__all__ = [
    "DIGIT_BITS",
    "MAX_KEY_BITS",
    "STACK_WIDTH",
    "HilbertTables",
    "box_ranges",
    "boxes_ranges",
    "hilbert_cells",
    "hilbert_keys",
]

#: A key, and the key after the last one, fit an int64.
MAX_KEY_BITS: Final = 62
#: The low bits of a table's entry.
DIGIT_BITS: Final = 8
_DIGIT: Final = (1 << DIGIT_BITS) - 1

#: Columns of the stack of `box_ranges`; the corner of the cube follows.
_STATE: Final = 0
_NEXT_DIGIT: Final = 1
_PREFIX: Final = 2
_MISSED_LOWER: Final = 3
_MISSED_UPPER: Final = 4
_CUT_LOWER: Final = 5
_CUT_UPPER: Final = 6
_CORNER: Final = 7
#: Rows of the stack are this wide for the largest d; it needs a row for each level and one more.
STACK_WIDTH: Final = _CORNER + 8


class HilbertTables(NamedTuple):
    """The curve in d dimensions: ``to_digit`` by label, ``to_label`` by digit, each int32[states * 2**d]."""

    to_digit: npt.NDArray[np.int32]
    to_label: npt.NDArray[np.int32]


@hot_kernel
def hilbert_keys(
    tables: HilbertTables,
    cells: npt.NDArray[np.int64],
    top: Int,
    bottom: Int,
    states: npt.NDArray[np.int32],
    keys: npt.NDArray[np.int64],
) -> None:
    """Write the digits of cells int64[n, d] for bits ``top - 1`` down to ``bottom``; ``states`` moves on."""
    to_digit = tables.to_digit
    d = cells.shape[1]
    for i in range(cells.shape[0]):
        state = np.int64(states[i])
        key = np.int64(0)
        for bit in range(top - 1, bottom - 1, -1):
            label = np.int64(0)
            for j in range(d):
                label |= ((cells[i, j] >> bit) & 1) << j
            entry = np.int64(to_digit[state + label])
            key = (key << d) | (entry & _DIGIT)
            state = entry >> DIGIT_BITS
        keys[i] = key
        states[i] = state


@hot_kernel
def hilbert_cells(
    tables: HilbertTables,
    keys: npt.NDArray[np.int64],
    top: Int,
    bottom: Int,
    states: npt.NDArray[np.int32],
    cells: npt.NDArray[np.int64],
) -> None:
    """Set bits ``top - 1`` down to ``bottom`` of cells from their digits; the inverse of `hilbert_keys`."""
    to_label = tables.to_label
    d = cells.shape[1]
    mask = (1 << d) - 1
    for i in range(keys.size):
        state = np.int64(states[i])
        for bit in range(top - 1, bottom - 1, -1):
            digit = (keys[i] >> (d * (bit - bottom))) & mask
            entry = np.int64(to_label[state + digit])
            for j in range(d):
                cells[i, j] |= ((entry >> j) & 1) << bit
            state = entry >> DIGIT_BITS
        states[i] = state


@inline_kernel
def _enter(box: npt.NDArray[np.int64], half: Int, frame: npt.NDArray[np.int64]) -> None:
    """Note for each half of a cube's sides whether the box misses it, and whether it leaves part of it out."""
    missed_lower = missed_upper = cut_lower = cut_upper = np.int64(0)
    for j in range(box.shape[1]):
        start = frame[_CORNER + j]
        middle = start + half
        bit = np.int64(1) << j
        if box[0, j] >= middle:
            missed_lower |= bit
        if box[1, j] < middle:
            missed_upper |= bit
        if box[0, j] > start or box[1, j] < middle - 1:
            cut_lower |= bit
        if box[0, j] > middle or box[1, j] < middle + half - 1:
            cut_upper |= bit
    frame[_NEXT_DIGIT] = 0
    frame[_MISSED_LOWER] = missed_lower
    frame[_MISSED_UPPER] = missed_upper
    frame[_CUT_LOWER] = cut_lower
    frame[_CUT_UPPER] = cut_upper


@inline_kernel
def _append(ranges: npt.NDArray[np.int64], count: Int, first: Int, last: Int) -> Int:
    """Append a range that follows all others, or lengthen the last one; return the count, -1 when there is no room."""
    if count > 0 and ranges[count - 1, 1] + 1 == first:
        ranges[count - 1, 1] = last
        return count
    if count == ranges.shape[0]:
        return -1
    ranges[count, 0] = first
    ranges[count, 1] = last
    return count + 1


@hot_kernel
def box_ranges(
    to_label: npt.NDArray[np.int32],
    box: npt.NDArray[np.int64],
    bits: Int,
    smallest: Int,
    stack: npt.NDArray[np.int64],
    ranges: npt.NDArray[np.int64],
) -> Int:
    """Write the ranges of keys of the closed box int64[2, d]; return how many, -1 when there are more than fit.

    The cubes are walked in the order of the curve, so ranges come out ascending, and joined where they touch: they
    are the fewest that are exactly the box. A cube of side ``2**smallest`` that the box meets is taken whole; with
    ``smallest = 0`` that is a cell.
    """
    d = box.shape[1]
    count = np.int64(0)
    depth = np.int64(0)
    stack[0, :] = 0
    _enter(box, np.int64(1) << (bits - 1), stack[0])
    while depth >= 0:
        frame = stack[depth]
        digit = frame[_NEXT_DIGIT]
        if digit == 1 << d:
            depth -= 1
            continue
        frame[_NEXT_DIGIT] = digit + 1
        entry = np.int64(to_label[frame[_STATE] + digit])
        label = entry & _DIGIT
        if (label & frame[_MISSED_UPPER]) | (~label & frame[_MISSED_LOWER]):
            continue
        level = bits - 1 - depth
        prefix = (frame[_PREFIX] << d) | digit
        if level <= smallest or not ((label & frame[_CUT_UPPER]) | (~label & frame[_CUT_LOWER])):
            size = np.int64(1) << (d * level)
            count = _append(ranges, count, prefix * size, prefix * size + size - 1)
            if count < 0:
                return -1
            continue
        child = stack[depth + 1]
        child[_STATE] = entry >> DIGIT_BITS
        child[_PREFIX] = prefix
        for j in range(d):
            child[_CORNER + j] = frame[_CORNER + j] + (((label >> j) & 1) << level)
        _enter(box, np.int64(1) << (level - 1), child)
        depth += 1
    return count


@hot_kernel
def boxes_ranges(
    to_label: npt.NDArray[np.int32],
    boxes: npt.NDArray[np.int64],
    begin: Int,
    bits: Int,
    limit: Int,
    stack: npt.NDArray[np.int64],
    offsets: npt.NDArray[np.int64],
    ranges: npt.NDArray[np.int64],
) -> Int:
    """Write the ranges of boxes int64[n, 2, d] from number ``begin`` on; return the first one that did not fit.

    The ranges of box i are ``ranges[offsets[i]:offsets[i + 1]]``. A box of more than ``limit`` ranges (2**d or
    more) is coarsened outward: the smallest cubes grow until it has no more than that.
    """
    for i in range(begin, boxes.shape[0]):
        start = offsets[i]
        room = min(limit, ranges.shape[0] - start)
        smallest = np.int64(0)
        count = box_ranges(to_label, boxes[i], bits, smallest, stack, ranges[start : start + room])
        while count < 0 and room == limit and smallest < bits:
            smallest += 1
            count = box_ranges(to_label, boxes[i], bits, smallest, stack, ranges[start : start + room])
        if count < 0:
            return i
        offsets[i + 1] = start + count
    return boxes.shape[0]
