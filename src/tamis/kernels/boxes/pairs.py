"""Grids over pairs of axes, for boxes that constrain few of many axes.

A box is filed under its two narrowest axes. Each pair of axes that is used often is a *group* with a
grid of its own; the boxes of rare pairs form one-axis groups, and boxes without any constraint one group
without axes. An event looks into one cell of each group. A cell lists the boxes that touch it in blocks of sixteen
lanes. A lane has four uint8 codes per side: two say where in the cell the box lies, two are about its next two
axes, which each lane names; an event keeps the codes of all its values in a table of 64 bytes, where sixteen lanes
look theirs up with one instruction. So a few of a million boxes survive; those that tie somewhere, or have more axes
than a lane can say, are settled on float64.

An event *interval* may touch several cells; a box is then reported by one of them only, the first cell that
both touch. A missing value skips every group of its axis, because all boxes there ask for it.

For many events the loop over groups is outside and the events run along the group's first axis inside, so
neighbouring cells stay in cache: several times as fast at a million boxes as event by event.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tamis.kernels.boxes.fit import fit_corners
from tamis.kernels.boxes.pairs_build import (
    AXIS_0,
    AXIS_1,
    BITS_1,
    FIRST_CELL,
    GROUP_WIDTH,
    NO_AXIS,
    NO_COLUMN,
    SHIFT_0,
    SHIFT_1,
    cell_code,
    coarse_code,
)
from tamis.kernels.boxes.quantise import code_values
from tamis.kernels.boxes.sparse import holds
from tamis.kernels.compile import Int, hot_kernel, inline_kernel
from tamis.kernels.directory import (
    ALIVE,
    AXIS,
    CELLS,
    COLUMN_AXES,
    CORNERS,
    ENDS,
    FIRST,
    GROUPS,
    LANE_AXES,
    MEMBERS,
    N_COLUMNS,
    N_GROUPS,
    QUANTISER,
    ROWS,
)
from tamis.kernels.emit import (
    emit_lanes,
    int32_at,
    int64_at,
    lowest_bit,
    prefetch,
    spread_lanes,
    uint8_at,
    uint32_at,
)
from tamis.kernels.vector_ir import LANES

__all__ = [
    "SURVIVORS",
    "PairOutput",
    "TabledEvents",
    "code_events",
    "fill_table",
    "join_csr",
    "make_tables",
    "match_pairs",
    "match_pairs_one",
    "meet_pairs_one",
]

#: Survivors that are collected before they are tested.
SURVIVORS: Final = 4_096


class TabledEvents(NamedTuple):
    """n events, each as least and greatest: tables uint8[n, 64] of coarse codes by column, and values float64[n, d]."""

    low_tables: npt.NDArray[np.uint8]
    high_tables: npt.NDArray[np.uint8]
    low: npt.NDArray[np.float64]
    high: npt.NDArray[np.float64]


def make_tables(n: int) -> npt.NDArray[np.uint8]:
    """Return n tables of 64 bytes, each on a cache line of its own."""
    room = np.zeros(64 * n + 64, np.uint8)
    start = -room.ctypes.data % 64
    return room[start : start + 64 * n].reshape(n, 64)


@inline_kernel
def fill_table(segment: npt.NDArray[np.int64], codes: npt.NDArray[np.int16], table: npt.NDArray[np.uint8]) -> None:
    """Write the table uint8[64] of an event with the codes int16[d]."""
    for j in range(segment[N_COLUMNS]):
        table[j] = coarse_code(np.int64(codes[int32_at(segment[COLUMN_AXES], j)]))
    table[NO_COLUMN] = 128


@hot_kernel
def code_events(
    segment: npt.NDArray[np.int64],
    values: npt.NDArray[np.float64],
    codes: npt.NDArray[np.int16],
    columns: npt.NDArray[np.int16],
    tables: npt.NDArray[np.uint8],
) -> None:
    """Write the codes of many events by axis, int16[d, n], and their tables; ``codes`` int16[d] is scratch."""
    for e in range(values.shape[0]):
        code_values(segment[QUANTISER : QUANTISER + 5], values[e], codes)
        fill_table(segment, codes, tables[e])
        for k in range(values.shape[1]):
            columns[k, e] = codes[k]


class PairOutput(NamedTuple):
    """Where matches go: ``survivors`` int32[2, SURVIVORS] is filled first; ``rows``, ``events`` take the matches.

    ``events`` may be empty when there is one event only. A survivor is a slot and the number of its event; the
    complement of either says that float64 must decide.
    """

    survivors: npt.NDArray[np.int32]
    rows: npt.NDArray[np.int32]
    events: npt.NDArray[np.int32]


@inline_kernel
def _plain(number: Int) -> Int:
    """Return a number or, if it is a complement, that of which it is one."""
    return np.int64(number) ^ (np.int64(number) >> 63)


@inline_kernel
def _deliver(segment: npt.NDArray[np.int64], events: TabledEvents, n: Int, output: PairOutput, count: Int) -> Int:
    """Settle ``n`` survivors and write those that match after ``count``; return the new count or -1 (full).

    They lie far apart in memory, so everything is asked for ahead.
    """
    if count < 0 or count + n > output.rows.size:
        return np.int64(-1)
    for i in range(n):
        slot = _plain(output.survivors[0, i])
        prefetch(segment[ROWS] + 4 * slot)
        prefetch(segment[FIRST] + 4 * slot)
    for i in range(n):
        if output.survivors[0, i] < 0 or output.survivors[1, i] < 0:
            entry = np.int64(uint32_at(segment[FIRST], _plain(output.survivors[0, i])))
            prefetch(segment[AXIS] + 2 * entry)
            prefetch(segment[ENDS] + 16 * entry)
            prefetch(segment[ENDS] + 16 * entry + 63)
    for i in range(n):
        slot, e = _plain(output.survivors[0, i]), _plain(output.survivors[1, i])
        sure = output.survivors[0, i] >= 0 and output.survivors[1, i] >= 0
        output.rows[count] = int32_at(segment[ROWS], slot)
        if output.events.size > 0:
            output.events[count] = e
        if (uint8_at(segment[ALIVE], slot >> 3) >> (slot & 7)) & 1 != 0:
            count += np.int64(sure or holds(segment, slot, events.low[e], events.high[e]))
    return count


@inline_kernel
def _collect(
    segment: npt.NDArray[np.int64], block: Int, masks: tuple[Int, Int], e: Int, survivors: npt.NDArray[np.int32], n: Int
) -> Int:
    """Note the lanes of a block that fit, ``masks[1]`` for sure; return the new number of survivors."""
    members = segment[MEMBERS] + 64 * block
    spread_lanes(e, survivors[1], n)
    n += emit_lanes(members, masks[0] & masks[1], survivors[0], n)
    spread_lanes(~e, survivors[1], n)
    return n + emit_lanes(members, masks[0] & ~masks[1], survivors[0], n)


@inline_kernel
def _owned(line: Int, mask: Int, first: tuple[bool, bool]) -> Int:
    """Drop the lanes that another cell of the event reports: the owner is the first cell that both touch.

    ``first`` says for both axes whether this is the event's first cell. A box that began before this cell has the
    lower code 0.
    """
    remaining = mask
    while remaining != 0:
        lane = lowest_bit(remaining)
        remaining &= remaining - 1
        for j in range(2):
            if not first[j] and uint8_at(line, 4 * lane + 2 + j) == 0:
                mask &= ~(np.int64(1) << lane)
    return mask


@inline_kernel
def _visit(
    segment: npt.NDArray[np.int64],
    group: Int,
    codes: tuple[Int, Int, Int, Int],
    events: TabledEvents,
    e: Int,
    output: PairOutput,
    state: tuple[Int, Int],
) -> tuple[Int, Int]:
    """Collect the survivors of one event in one group; ``state`` is (survivors, matches), matches -1 when full."""
    n, count = state
    s0, s1 = int64_at(group, SHIFT_0), int64_at(group, SHIFT_1)
    lows, highs = events.low_tables[e].ctypes.data, events.high_tables[e].ctypes.data
    for u in range(codes[0] >> s0, (codes[1] >> s0) + 1):
        for v in range(codes[2] >> s1, (codes[3] >> s1) + 1):
            cell = int64_at(group, FIRST_CELL) + (u << int64_at(group, BITS_1)) + v
            low = (lows, cell_code(codes[0], u, s0) << 16 | cell_code(codes[2], v, s1) << 24)
            high = (highs, cell_code(codes[1], u, s0) << 16 | cell_code(codes[3], v, s1) << 24)
            first = (u == codes[0] >> s0, v == codes[2] >> s1)
            for block in range(
                np.int64(uint32_at(segment[CELLS], cell)), np.int64(uint32_at(segment[CELLS], cell + 1))
            ):
                line, axes = segment[CORNERS] + 128 * block, segment[LANE_AXES] + 32 * block
                mask = _owned(line, fit_corners(line, axes, low, high, 0), first)
                if mask == 0:
                    continue
                n = _collect(segment, block, (mask, fit_corners(line, axes, low, high, 1)), e, output.survivors, n)
                if n + 2 * LANES > SURVIVORS:
                    count = _deliver(segment, events, n, output, count)
                    n = np.int64(0)
    return n, count


@inline_kernel
def _grid_of(group: Int) -> tuple[Int, Int, Int, Int]:
    """Return what a point needs to find its cell: both shifts, the bits of the second number, the first cell."""
    return (
        int64_at(group, SHIFT_0),
        int64_at(group, SHIFT_1),
        int64_at(group, BITS_1),
        int64_at(group, FIRST_CELL),
    )


@inline_kernel
def _visit_cell(
    segment: npt.NDArray[np.int64],
    grid: tuple[Int, Int, Int, Int],
    codes: tuple[Int, Int],
    events: TabledEvents,
    e: Int,
    output: PairOutput,
    state: tuple[Int, Int],
) -> tuple[Int, Int]:
    """As :func:`_visit` for a point of the grid, which lies in one cell; a fifth faster, and most events are points."""
    n, count = state
    s0, s1, bits, first = grid
    u, v = codes[0] >> s0, codes[1] >> s1
    cell = first + (u << bits) + v
    grid_codes = cell_code(codes[0], u, s0) << 16 | cell_code(codes[1], v, s1) << 24
    low, high = (events.low_tables[e].ctypes.data, grid_codes), (events.high_tables[e].ctypes.data, grid_codes)
    start, stop = np.int64(uint32_at(segment[CELLS], cell)), np.int64(uint32_at(segment[CELLS], cell + 1))
    for block in range(start, stop):
        line, axes = segment[CORNERS] + 128 * block, segment[LANE_AXES] + 32 * block
        mask = fit_corners(line, axes, low, high, 0)
        if mask == 0:
            continue
        n = _collect(segment, block, (mask, fit_corners(line, axes, low, high, 1)), e, output.survivors, n)
        if n + 2 * LANES > SURVIVORS:
            count = _deliver(segment, events, n, output, count)
            n = np.int64(0)
    return n, count


@inline_kernel
def _code_at(codes: npt.NDArray[np.int16], axis: Int) -> Int:
    """Return an event's code on an axis of a group; 0 where the group has no such axis."""
    return np.int64(codes[axis]) if axis != NO_AXIS else np.int64(0)


@inline_kernel
def match_pairs_one(
    segment: npt.NDArray[np.int64], codes: npt.NDArray[np.int16], event: TabledEvents, output: PairOutput, count: Int
) -> Int:
    """Match one event, codes int16[2, d], against every group; return the new count of rows or -1 (full)."""
    n = np.int64(0)
    for g in range(segment[N_GROUPS]):
        group = segment[GROUPS] + 8 * GROUP_WIDTH * g
        axis_0, axis_1 = int64_at(group, AXIS_0), int64_at(group, AXIS_1)
        low_0, low_1 = _code_at(codes[0], axis_0), _code_at(codes[0], axis_1)
        if low_0 >= 0 and low_1 >= 0:
            grid_codes = (low_0, _code_at(codes[1], axis_0), low_1, _code_at(codes[1], axis_1))
            n, count = _visit(segment, group, grid_codes, event, np.int64(0), output, (n, count))
    return _deliver(segment, event, n, output, count)


@inline_kernel
def meet_pairs_one(
    segment: npt.NDArray[np.int64], codes: npt.NDArray[np.int16], event: TabledEvents, output: PairOutput
) -> bool:
    """Whether one event, codes int16[2, d], matches in some group; groups behind the first such one are not visited.

    There is room in ``output.rows`` for twice ``SURVIVORS``, so it is full only when something was found.
    """
    for g in range(segment[N_GROUPS]):
        group = segment[GROUPS] + 8 * GROUP_WIDTH * g
        axis_0, axis_1 = int64_at(group, AXIS_0), int64_at(group, AXIS_1)
        low_0, low_1 = _code_at(codes[0], axis_0), _code_at(codes[0], axis_1)
        if low_0 >= 0 and low_1 >= 0:
            grid_codes = (low_0, _code_at(codes[1], axis_0), low_1, _code_at(codes[1], axis_1))
            n, count = _visit(segment, group, grid_codes, event, np.int64(0), output, (np.int64(0), np.int64(0)))
            if _deliver(segment, event, n, output, count) != 0:
                return True
    return False


@hot_kernel
def match_pairs(
    segment: npt.NDArray[np.int64],
    events: TabledEvents,
    columns: tuple[npt.NDArray[np.int16], npt.NDArray[np.int16]],
    order: npt.NDArray[np.int32],
    output: PairOutput,
) -> Int:
    """Match many events; return how many (event, row) pairs were written, or -1 (full).

    Parameters
    ----------
    columns
        The codes by axis, int16[d, n] each, least and greatest.
    order
        int32[d, n]: for each axis the events in the order of their codes.
    """
    count = np.int64(0)
    for g in range(segment[N_GROUPS]):
        group = segment[GROUPS] + 8 * GROUP_WIDTH * g
        axis_0, axis_1 = int64_at(group, AXIS_0), int64_at(group, AXIS_1)
        grid = _grid_of(group)
        n = np.int64(0)
        for i in range(order.shape[1]):
            e = np.int64(order[max(axis_0, 0), i])
            low_0, high_0, low_1, high_1 = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
            if axis_0 != NO_AXIS:
                low_0, high_0 = np.int64(columns[0][axis_0, e]), np.int64(columns[1][axis_0, e])
            if axis_1 != NO_AXIS:
                low_1, high_1 = np.int64(columns[0][axis_1, e]), np.int64(columns[1][axis_1, e])
            if low_0 < 0 or low_1 < 0:
                continue
            if low_0 == high_0 and low_1 == high_1:
                n, count = _visit_cell(segment, grid, (low_0, low_1), events, e, output, (n, count))
            else:
                n, count = _visit(segment, group, (low_0, high_0, low_1, high_1), events, e, output, (n, count))
        count = _deliver(segment, events, n, output, count)
        if count < 0:
            return count
    return count


@hot_kernel
def join_csr(
    parts: tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]],
    pairs: tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]],
    offsets: npt.NDArray[np.int64],
    cursor: npt.NDArray[np.int64],
    out: npt.NDArray[np.int32],
) -> None:
    """Join a CSR result (offsets, rows) with pairs (event, row) to ``offsets`` int64[n + 1] and ``out``.

    ``cursor`` int64[n] is scratch.
    """
    n = offsets.size - 1
    for e in range(n):
        offsets[e + 1] = parts[0][e + 1] - parts[0][e]
    for i in range(pairs[0].size):
        offsets[pairs[0][i] + 1] += 1
    offsets[0] = 0
    for e in range(n):
        offsets[e + 1] += offsets[e]
        cursor[e] = offsets[e]
        for j in range(parts[0][e], parts[0][e + 1]):
            out[cursor[e]] = parts[1][j]
            cursor[e] += 1
    for i in range(pairs[0].size):
        out[cursor[pairs[0][i]]] = pairs[1][i]
        cursor[pairs[0][i]] += 1
