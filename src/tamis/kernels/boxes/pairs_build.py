"""Build pair grids: which two axes a box is filed under, how fine each grid is, what stands in each cell.

See :mod:`tamis.kernels.boxes.pairs` for the layout. A box is filed under its two narrowest axes: those on which it has
the smallest share of the bounds of all boxes. Events are likely to have the values that boxes name, so an equality with
a value that few boxes name is narrower than one with a value that half of them do. The grid of a group is as fine as
pays: finer cells hold fewer
rectangles, but a rectangle is copied to every cell it touches.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tamis.kernels.boxes.quantise import FREE, OPEN
from tamis.kernels.compile import Int, hot_kernel, inline_kernel, kernel

__all__ = [
    "AXIS_0",
    "AXIS_1",
    "BITS_1",
    "FIRST_CELL",
    "GROUP_WIDTH",
    "NO_AXIS",
    "NO_COLUMN",
    "N_BUCKETS",
    "N_FILTERED",
    "N_MEMBERS",
    "SHIFT_0",
    "SHIFT_1",
    "START",
    "CellArrays",
    "cell_code",
    "choose_grid",
    "coarse_code",
    "count_bounds",
    "count_cells",
    "fill_cells",
    "find_bad_group",
    "write_records",
    "zorder_keys",
]

#: Columns of a group: its two axes (``NO_AXIS`` if absent), the shifts from codes to cells, the bits of the
#: second cell number, the number of its first cell, its first slot and how many there are.
AXIS_0: Final = 0
AXIS_1: Final = 1
SHIFT_0: Final = 2
SHIFT_1: Final = 3
BITS_1: Final = 4
FIRST_CELL: Final = 5
START: Final = 6
N_MEMBERS: Final = 7
GROUP_WIDTH: Final = 8
NO_AXIS: Final = -1

#: Columns that a lane can name for its own axes: an event's table has 64 bytes. ``NO_COLUMN`` is where it fits any box.
N_FILTERED: Final = 63
NO_COLUMN: Final = 63

#: Bits of a code that a bucket of bounds leaves out, and the buckets of an axis.
_BUCKET_SHIFT: Final = 4
N_BUCKETS: Final = 1 << 11

#: A cell is at least 256 codes wide, so that a uint8 can tell where in the cell a bound lies.
_MOST_BITS: Final = 7
#: Bits of a code that is not negative.
_CODE_BITS: Final = 15
_MOST_CELLS: Final = 13
#: Copies of a rectangle are worth this many blocks read; more than the limit are never made.
_COPY_COST: Final = 0.3
_MOST_COPIES: Final = 64.0


class CellArrays(NamedTuple):
    """What stands in the cells, sixteen lanes to a block.

    Attributes
    ----------
    corners
        uint8[blocks * 128]; a block is ``lo[16, 4] hi[16, 4]``: two axes of the box's own, the two of the grid.
    axes
        uint8[blocks * 32]; the columns of a lane's own two axes.
    members
        int32[blocks * 16]; the slot of a lane, or its complement if the lane does not say all about the box.
    """

    corners: npt.NDArray[np.uint8]
    axes: npt.NDArray[np.uint8]
    members: npt.NDArray[np.int32]


def find_bad_group(groups: npt.NDArray[np.int64], n_axes: int, n_cells: int, n_slots: int) -> int:
    """Return the number of a group int64[groups, GROUP_WIDTH] that leads beyond axes, cells or slots; -1: none does."""
    shifts = groups[:, SHIFT_0 : SHIFT_1 + 1]
    good = np.all((shifts >= _CODE_BITS - _MOST_BITS) & (shifts <= _CODE_BITS), axis=1)
    bits = np.where(good.reshape(-1, 1), _CODE_BITS - shifts, 0)
    good &= (groups[:, AXIS_0 : AXIS_1 + 1] >= NO_AXIS).all(axis=1) & (groups[:, BITS_1] == bits[:, 1])
    good &= (groups[:, AXIS_0 : AXIS_1 + 1] < n_axes).all(axis=1)
    for first, count, limit in (
        (groups[:, FIRST_CELL], 1 << bits.sum(axis=1), n_cells),
        (groups[:, START], groups[:, N_MEMBERS], n_slots),
    ):
        good &= (first >= 0) & (count >= 0) & (first <= limit) & (count <= limit - first)
    bad = np.flatnonzero(~good)
    return int(bad[0]) if bad.size else -1


@inline_kernel
def _bucket(code: Int) -> Int:
    """Return the bucket of a code; an open end is in the first or the last one."""
    floor: Int = max(np.int64(code), 0)
    return floor >> _BUCKET_SHIFT


@hot_kernel
def count_bounds(axis: npt.NDArray[np.int16], codes: npt.NDArray[np.int16], below: npt.NDArray[np.int32]) -> None:
    """Count for each axis the bounds of boxes in the buckets before each one: ``below`` int32[axes, N_BUCKETS + 1]."""
    below[:] = 0
    for j in range(axis.size):
        below[axis[j], _bucket(codes[j, 0]) + 1] += 1
        below[axis[j], _bucket(codes[j, 1]) + 1] += 1
    for a in range(below.shape[0]):
        for bucket in range(N_BUCKETS):
            below[a, bucket + 1] += below[a, bucket]


@inline_kernel
def _share(below: npt.NDArray[np.int32], low: Int, high: Int) -> float:
    """Return the share of an axis's bounds that lie between two codes; of two equal shares the narrower is less."""
    inside = below[_bucket(high) + 1] - below[_bucket(low)]
    return float(inside / max(1, below[N_BUCKETS]) + (np.int64(high) - np.int64(low)) * 1e-10)


@hot_kernel
def write_records(
    first: npt.NDArray[np.uint32],
    axis: npt.NDArray[np.int16],
    codes: npt.NDArray[np.int16],
    below: npt.NDArray[np.int32],
    records: npt.NDArray[np.int16],
) -> None:
    """Write the record int16[16] of each box: its four narrowest axes and their codes, narrowest first.

    ``below`` is that of :func:`count_bounds`. Columns 0-3 are the axes, 4-11 their lo and hi codes, 12 is 1 if the box
    has more than four. An unused
    place names axis 0 and fits every code.
    """
    for s in range(records.shape[0]):
        start, stop = np.int64(first[s]), np.int64(first[s + 1])
        records[s, 12] = stop - start > 4
        least = -1.0
        least_at: Int = -1
        for z in range(4):
            best = np.inf
            best_at: Int = -1
            for j in range(start, stop):
                width = _share(below[axis[j]], codes[j, 0], codes[j, 1])
                if (width > least or (width == least and j > least_at)) and width < best:
                    best, best_at = width, j
            least, least_at = best, best_at
            records[s, z] = 0
            records[s, 4 + 2 * z] = FREE
            records[s, 5 + 2 * z] = OPEN
            if best_at >= 0:
                records[s, z] = axis[best_at]
                records[s, 4 + 2 * z] = codes[best_at, 0]
                records[s, 5 + 2 * z] = codes[best_at, 1]


@hot_kernel
def zorder_keys(records: npt.NDArray[np.int16], two: npt.NDArray[np.bool_], keys: npt.NDArray[np.uint16]) -> None:
    """Put the axes of a two-axis group in ascending order in the record; write sort keys, the Z-order of lo.

    Survivors of one cell then lie near each other, and share cache lines of records.
    """
    for s in range(records.shape[0]):
        if two[s] and records[s, 0] > records[s, 1]:
            records[s, 0], records[s, 1] = records[s, 1], records[s, 0]
            records[s, 4], records[s, 6] = records[s, 6], records[s, 4]
            records[s, 5], records[s, 7] = records[s, 7], records[s, 5]
        x = np.int64(max(records[s, 4], 0)) >> 7
        y = np.int64(max(records[s, 6], 0)) >> 7 if two[s] else np.int64(0)
        z = np.int64(0)
        for i in range(8):
            z |= ((x >> i) & 1) << (2 * i + 1) | ((y >> i) & 1) << (2 * i)
        keys[s] = z


@hot_kernel
def choose_grid(records: npt.NDArray[np.int16], start: Int, stop: Int, two: bool) -> tuple[Int, Int]:
    """Return the bits of both cell numbers that make reading plus copying cheapest, from a sample."""
    n = stop - start
    step = max(1, n // 256)
    best = 1e300
    chosen = (np.int64(0), np.int64(0))
    for b0 in range(_MOST_BITS + 1):
        for b1 in range(_MOST_BITS + 1 if two else 1):
            if b0 + b1 > _MOST_CELLS:
                continue
            reads = 0.0
            copies = 0.0
            sample = 0
            for s in range(start, stop, step):
                w0 = (records[s, 5] - max(records[s, 4], 0)) / 32768.0
                w1 = (records[s, 7] - max(records[s, 6], 0)) / 32768.0 if two else 1.0
                c0, c1 = float(1 << b0), float(1 << b1)
                reads += min(1.0, w0 + 1.0 / c0) * min(1.0, w1 + 1.0 / c1)
                copies += (1.0 + w0 * (c0 - 1.0)) * (1.0 + w1 * (c1 - 1.0))
                sample += 1
            copies = copies / sample + 8.0 * (1 << (b0 + b1)) / n
            cost = reads / sample * n / 16.0 + _COPY_COST * copies
            if cost < best and copies <= _MOST_COPIES:
                best = cost
                chosen = (np.int64(b0), np.int64(b1))
    return chosen


@hot_kernel
def _cells_of(group: npt.NDArray[np.int64], record: npt.NDArray[np.int16]) -> tuple[Int, Int, Int, Int]:
    """Return the first and last cell number of a record on both axes of its group."""
    s0, s1 = group[SHIFT_0], group[SHIFT_1]
    two = group[AXIS_1] != NO_AXIS
    return (
        max(np.int64(record[4]), 0) >> s0,
        np.int64(record[5]) >> s0,
        max(np.int64(record[6]), 0) >> s1 if two else np.int64(0),
        np.int64(record[7]) >> s1 if two else np.int64(0),
    )


@hot_kernel
def count_cells(groups: npt.NDArray[np.int64], records: npt.NDArray[np.int16], cells: npt.NDArray[np.uint32]) -> None:
    """Write the first block of every cell, uint32[cells + 1]: a cell has as many blocks as it needs."""
    for c in range(cells.size):
        cells[c] = 0
    for g in range(groups.shape[0]):
        for s in range(groups[g, START], groups[g, START] + groups[g, N_MEMBERS]):
            u0, u1, v0, v1 = _cells_of(groups[g], records[s])
            for u in range(u0, u1 + 1):
                for v in range(v0, v1 + 1):
                    cells[groups[g, FIRST_CELL] + (u << groups[g, BITS_1]) + v] += np.uint32(1)
    total = np.int64(0)
    for c in range(cells.size):
        blocks = (np.int64(cells[c]) + 15) // 16
        cells[c] = total
        total += blocks


@inline_kernel
def coarse_code(code: Int) -> Int:
    """Map a code that is not negative to 1..253, monotone; what is missing to 0."""
    return 1 + (code * 253 >> 15) if code >= 0 else np.int64(0)


@inline_kernel
def cell_code(code: Int, cell: Int, shift: Int) -> Int:
    """Map a code to 1..253 by its place in a cell of a grid, monotone; codes outside go to the nearer end."""
    offset = min(max((code - (cell << shift)) >> (shift - 8), 0), 255)
    return 1 + (offset * 253 >> 8)


@hot_kernel
def _own_sides(
    record: npt.NDArray[np.int16], two: bool, column: npt.NDArray[np.int16], quad: npt.NDArray[np.uint8]
) -> bool:
    """Write what a lane says about two axes besides those of the grid: ``lo lo hi hi`` and their columns.

    Return whether all axes of the box are then said, those of the grid included.
    """
    is_complete = record[12] == 0 and (two or record[10] == FREE)
    for j in range(2):
        z = 2 + j if two else 1 + j
        lo, hi = np.int64(record[4 + 2 * z]), np.int64(record[5 + 2 * z])
        column_number = np.int64(column[record[z]]) if lo != FREE else np.int64(NO_COLUMN)
        is_named = column_number < N_FILTERED
        quad[j] = coarse_code(lo) if is_named else 0
        quad[2 + j] = coarse_code(hi) if is_named and hi != OPEN else 255
        quad[4 + j] = column_number if is_named else NO_COLUMN
        is_complete = is_complete and (is_named or lo == FREE)
    return is_complete


@hot_kernel
def _write_lane(
    group: npt.NDArray[np.int64], record: npt.NDArray[np.int16], at: tuple[Int, Int], lane: Int, cells: CellArrays
) -> None:
    """Write what a lane says about the axes of the grid, in the cell ``at``.

    A box that began before the cell has the lower code 0, one that ends behind it the upper code 255.
    """
    block, i = lane // 16, lane % 16
    two = group[AXIS_1] != NO_AXIS
    for j in range(2):
        shift = group[SHIFT_0 + j]
        lo, hi = max(np.int64(record[4 + 2 * j]), 0), np.int64(record[5 + 2 * j])
        is_constrained = group[AXIS_0] != NO_AXIS and (two or j == 0)
        begins, ends = is_constrained and lo >> shift == at[j], is_constrained and hi >> shift == at[j] and hi != OPEN
        cells.corners[128 * block + 4 * i + 2 + j] = cell_code(lo, at[j], shift) if begins else 0
        cells.corners[128 * block + 64 + 4 * i + 2 + j] = cell_code(hi, at[j], shift) if ends else 255


@kernel
def fill_cells(
    groups: npt.NDArray[np.int64],
    records: npt.NDArray[np.int16],
    cells: npt.NDArray[np.uint32],
    fill: npt.NDArray[np.int32],
    column: npt.NDArray[np.int16],
    arrays: CellArrays,
) -> None:
    """Copy each box to its cells. ``column`` is the column of each axis; ``fill`` comes with 0.

    ``arrays`` come with lanes that fit nothing.
    """
    quad = np.empty(6, np.uint8)
    for g in range(groups.shape[0]):
        two = groups[g, AXIS_1] != NO_AXIS
        for s in range(groups[g, START], groups[g, START] + groups[g, N_MEMBERS]):
            member = s if _own_sides(records[s], two, column, quad) else ~s
            u0, u1, v0, v1 = _cells_of(groups[g], records[s])
            for u in range(u0, u1 + 1):
                for v in range(v0, v1 + 1):
                    cell = groups[g, FIRST_CELL] + (u << groups[g, BITS_1]) + v
                    lane = 16 * np.int64(cells[cell]) + fill[cell]
                    fill[cell] += 1
                    arrays.members[lane] = member
                    _write_lane(groups[g], records[s], (u, v), lane, arrays)
                    at = 128 * (lane // 16) + 4 * (lane % 16)
                    for j in range(2):
                        arrays.corners[at + j] = quad[j]
                        arrays.corners[at + 64 + j] = quad[2 + j]
                        arrays.axes[2 * lane + j] = quad[4 + j]
