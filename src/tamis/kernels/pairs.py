"""Grids over pairs of axes, for boxes that constrain few of many axes.

A box is filed under its two narrowest axes. Each pair of axes that is used often is a *group* with a
grid of its own; the boxes of rare pairs form one-axis groups, and boxes without any constraint one group
without axes. An event looks into one cell of each group. A cell lists the rectangles that touch it in
blocks of sixteen: one 64-byte line of uint8, ``lo0[16] hi0[16] lo1[16] hi1[16]`` relative to the cell, beside
sixteen slots. Survivors are tested by their *record*, 32 bytes: the four narrowest axes with their int16
codes, and the row. Boxes with more axes, and ties, are settled on float64.

An event *interval* may touch several cells; a box is then reported by one of them only, the first cell that
both touch. A missing value skips every group of its axis, because all boxes there ask for it.

For many events the loop over groups is outside and the events run along the group's first axis inside, so
neighbouring cells stay in cache: several times as fast at a million boxes as event by event.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tamis.kernels.boxes import holds
from tamis.kernels.compile import Int, hot_kernel, inline_kernel
from tamis.kernels.directory import (
    ALIVE,
    CELLS,
    GROUPS,
    MEMBERS,
    N_GROUPS,
    QUANTISER,
    RECORDS,
    RECTANGLES,
)
from tamis.kernels.emit import (
    LANES,
    emit_lanes,
    fit_bytes,
    int16_at,
    int32_at,
    int64_at,
    spread_lanes,
    uint8_at,
    uint32_at,
)
from tamis.kernels.pairs_build import (
    AXIS_0,
    AXIS_1,
    BITS_1,
    FIRST_CELL,
    GROUP_WIDTH,
    NO_AXIS,
    SHIFT_0,
    SHIFT_1,
)
from tamis.kernels.quantise import code_values

__all__ = ["SURVIVORS", "CodedEvents", "PairOutput", "code_events", "join_csr", "match_pairs", "match_pairs_one"]

#: Survivors that are collected before they are tested.
SURVIVORS: Final = 4_096


class CodedEvents(NamedTuple):
    """n events: codes int16[n, d] and float64[n, d] values, each as least and greatest."""

    low_codes: npt.NDArray[np.int16]
    high_codes: npt.NDArray[np.int16]
    low: npt.NDArray[np.float64]
    high: npt.NDArray[np.float64]


@hot_kernel
def code_events(
    segment: npt.NDArray[np.int64],
    values: npt.NDArray[np.float64],
    codes: npt.NDArray[np.int16],
    columns: npt.NDArray[np.int16],
) -> None:
    """Write the codes of many events by row, int16[n, d], and by column, int16[d, n]."""
    for e in range(values.shape[0]):
        code_values(segment[QUANTISER : QUANTISER + 5], values[e], codes[e])
        for k in range(values.shape[1]):
            columns[k, e] = codes[e, k]


class PairOutput(NamedTuple):
    """Where matches go: ``found`` int32[2, SURVIVORS] collects survivors; ``rows``, ``events`` take the matches.

    ``events`` may be empty when there is one event only.
    """

    found: npt.NDArray[np.int32]
    rows: npt.NDArray[np.int32]
    events: npt.NDArray[np.int32]


@inline_kernel
def _verify(segment: npt.NDArray[np.int64], events: CodedEvents, slot: Int, e: Int) -> Int:
    """Decide by the record of a slot and by float64 where codes tie."""
    record = segment[RECORDS] + 32 * slot
    ties = int16_at(record, 12) != 0
    for z in range(4):
        axis = np.int64(int16_at(record, z))
        lo, hi = int16_at(record, 4 + 2 * z), int16_at(record, 5 + 2 * z)
        low, high = events.low_codes[e, axis], events.high_codes[e, axis]
        if not ((lo <= high) and (hi >= low)):
            return np.int64(0)
        ties |= (lo == high) or (hi == low)
    if (uint8_at(segment[ALIVE], slot >> 3) >> (slot & 7)) & 1 == 0:
        return np.int64(0)
    if ties:
        return np.int64(holds(segment, slot, events.low[e], events.high[e]))
    return np.int64(1)


@inline_kernel
def _deliver(segment: npt.NDArray[np.int64], events: CodedEvents, n: Int, output: PairOutput, count: Int) -> Int:
    """Test ``n`` survivors and write those that match after ``count``; return the new count or -1 (full).

    The cell has tested the group's axes; the first loop tests the next two without a branch, which leaves
    few for the second.
    """
    if count < 0 or count + n > output.rows.size:
        return np.int64(-1)
    kept = np.uint64(0)
    for i in range(np.uint64(n)):  # unsigned: indexing needs no test for a negative number
        slot, e = np.uint64(output.found[0, i]), np.uint64(output.found[1, i])
        record = segment[RECORDS] + 32 * np.int64(slot)
        y, z = np.uint64(int16_at(record, 2)), np.uint64(int16_at(record, 3))
        fits = (int16_at(record, 8) <= events.high_codes[e, y]) & (int16_at(record, 9) >= events.low_codes[e, y])
        fits &= (int16_at(record, 10) <= events.high_codes[e, z]) & (int16_at(record, 11) >= events.low_codes[e, z])
        output.found[0, kept] = slot
        output.found[1, kept] = e
        kept += np.uint64(fits)
    for i in range(kept):
        output.rows[count] = int32_at(segment[RECORDS] + 32 * np.int64(output.found[0, i]), 7)
        if output.events.size > 0:
            output.events[count] = output.found[1, i]
        count += _verify(segment, events, np.int64(output.found[0, i]), np.int64(output.found[1, i]))
    return count


@inline_kernel
def _keep_owned(
    segment: npt.NDArray[np.int64],
    group: Int,
    corner: tuple[Int, Int],
    cell: Int,
    found: npt.NDArray[np.int32],
    span: tuple[Int, Int],
) -> Int:
    """Drop survivors that another cell of the event reports: the owner is the first cell that both touch."""
    kept = span[0]
    for i in range(span[0], span[1]):
        record = segment[RECORDS] + 32 * np.int64(found[0, i])
        u = max(max(np.int64(int16_at(record, 4)), 0) >> int64_at(group, SHIFT_0), corner[0])
        v = max(max(np.int64(int16_at(record, 6)), 0) >> int64_at(group, SHIFT_1), corner[1])
        found[0, kept] = found[0, i]
        kept += int64_at(group, FIRST_CELL) + (u << int64_at(group, BITS_1)) + v == cell
    return kept


@inline_kernel
def _limit(code: Int, cell: Int, shift: Int) -> Int:
    """Return where in a cell an event code lies, 0 to 255; codes outside go to the nearer end."""
    return min(max((code - (cell << shift)) >> (shift - 8), 0), 255)


@inline_kernel
def _visit(
    segment: npt.NDArray[np.int64],
    group: Int,
    codes: tuple[Int, Int, Int, Int],
    events: CodedEvents,
    e: Int,
    output: PairOutput,
    state: tuple[Int, Int],
) -> tuple[Int, Int]:
    """Collect the survivors of one event in one group; ``state`` is (survivors, matches), matches -1 when full."""
    n, count = state
    s0, s1 = int64_at(group, SHIFT_0), int64_at(group, SHIFT_1)
    corner = (codes[0] >> s0, codes[2] >> s1)
    single = corner[0] == codes[1] >> s0 and corner[1] == codes[3] >> s1
    for u in range(corner[0], (codes[1] >> s0) + 1):
        for v in range(corner[1], (codes[3] >> s1) + 1):
            cell = int64_at(group, FIRST_CELL) + (u << int64_at(group, BITS_1)) + v
            low_0, high_0 = _limit(codes[0], u, s0), _limit(codes[1], u, s0)
            low_1, high_1 = _limit(codes[2], v, s1), _limit(codes[3], v, s1)
            for block in range(
                np.int64(uint32_at(segment[CELLS], cell)), np.int64(uint32_at(segment[CELLS], cell + 1))
            ):
                line = segment[RECTANGLES] + 64 * block
                mask = fit_bytes(line, low_0, high_0) & fit_bytes(line + 32, low_1, high_1)
                more = n + emit_lanes(segment[MEMBERS] + 64 * block, mask, output.found[0], n)
                spread_lanes(e, output.found[1], n)
                n = more if single else _keep_owned(segment, group, corner, cell, output.found, (n, more))
                if n + LANES > SURVIVORS:
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
    events: CodedEvents,
    e: Int,
    output: PairOutput,
    state: tuple[Int, Int],
) -> tuple[Int, Int]:
    """As :func:`_visit` for a point, which looks into one cell; a fifth faster, and most events are points."""
    n, count = state
    s0, s1, bits, first = grid
    cell = first + (codes[0] >> s0 << bits) + (codes[1] >> s1)
    x, y = codes[0] >> (s0 - 8) & 255, codes[1] >> (s1 - 8) & 255
    start, stop = np.int64(uint32_at(segment[CELLS], cell)), np.int64(uint32_at(segment[CELLS], cell + 1))
    for block in range(start, stop):
        line = segment[RECTANGLES] + 64 * block
        mask = fit_bytes(line, x, x) & fit_bytes(line + 32, y, y)
        spread_lanes(e, output.found[1], n)
        n += emit_lanes(segment[MEMBERS] + 64 * block, mask, output.found[0], n)
        if n + LANES > SURVIVORS:
            count = _deliver(segment, events, n, output, count)
            n = np.int64(0)
    return n, count


@inline_kernel
def _code_at(codes: npt.NDArray[np.int16], e: Int, axis: Int) -> Int:
    """Return an event's code on an axis of a group; 0 where the group has no such axis."""
    return np.int64(codes[e, axis]) if axis != NO_AXIS else np.int64(0)


@inline_kernel
def match_pairs_one(segment: npt.NDArray[np.int64], events: CodedEvents, e: Int, output: PairOutput, count: Int) -> Int:
    """Match one event against every group; return the new count of rows or -1 (full)."""
    n = np.int64(0)
    for g in range(segment[N_GROUPS]):
        group = segment[GROUPS] + 8 * GROUP_WIDTH * g
        axis_0, axis_1 = int64_at(group, AXIS_0), int64_at(group, AXIS_1)
        low_0, low_1 = _code_at(events.low_codes, e, axis_0), _code_at(events.low_codes, e, axis_1)
        if low_0 >= 0 and low_1 >= 0:
            codes = (low_0, _code_at(events.high_codes, e, axis_0), low_1, _code_at(events.high_codes, e, axis_1))
            n, count = _visit(segment, group, codes, events, e, output, (n, count))
    return _deliver(segment, events, n, output, count)


@hot_kernel
def match_pairs(
    segment: npt.NDArray[np.int64],
    events: CodedEvents,
    columns: tuple[npt.NDArray[np.int16], npt.NDArray[np.int16]],
    order: npt.NDArray[np.int32],
    output: PairOutput,
) -> Int:
    """Match many events; return how many (event, row) pairs were written, or -1 (full).

    Parameters
    ----------
    columns
        The codes once more by column, int16[d, n] each, least and greatest.
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
