"""Long results of many events: first which lanes match, in an order that suits the caches; then their rows.

Events that follow each other along a Z-curve read many of the same blocks, which are then still in the cache. But the
rows of events must be in the order of the events, and copying thousands of rows per event there costs as much as is
gained. So the first pass writes no rows: it *stages* one number per block, with the address of the block's rows and the
mask of the sixteen that match. A second pass goes through the events in their own order and writes the rows, once, from
addresses that are all known beforehand.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tamis.kernels.boxes.match import Scratch, code_event
from tamis.kernels.boxes.tree import Event, match_flat, match_tree
from tamis.kernels.compile import Int, hot_kernel
from tamis.kernels.directory import COLUMN_AXES, FLAT, LAYOUT, N_COLUMNS, QUANTISER
from tamis.kernels.emit import count_bits, emit_lanes, int32_at
from tamis.kernels.vector_ir import LANES

__all__ = ["emit_staged", "stage_events"]

_MASK = 0xFFFF


@hot_kernel
def stage_events(
    directory: npt.NDArray[np.int64],
    events: tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]],
    begin: Int,
    starts: npt.NDArray[np.int64],
    stage: npt.NDArray[np.int64],
    scratch: Scratch,
) -> Int:
    """Match as :func:`tamis.kernels.boxes.match.match_events` trees and deltas, into lanes instead of rows.

    ``starts`` int64[n + 1] and ``stage`` int64 correspond to its ``offsets`` and ``out``.
    """
    lows, highs = events
    codes = scratch.codes
    for e in range(begin, lows.shape[0]):
        count = starts[e]
        coded_by = np.int64(-1)
        for g in range(directory.shape[0]):
            segment = directory[g]
            if segment[QUANTISER] != coded_by:
                coded_by = segment[QUANTISER]
                code_event(segment[QUANTISER : QUANTISER + 5], lows[e], highs[e], codes)
            for k in range(segment[N_COLUMNS]):
                axis = int32_at(segment[COLUMN_AXES], k)
                codes[2, k] = codes[0, axis]
                codes[3, k] = codes[1, axis]
            coded = Event(codes[2], codes[3], lows[e], highs[e], scratch.survivors[0])
            if segment[LAYOUT] == FLAT:
                count = match_flat(segment, coded, stage, count)
            else:
                count = match_tree(segment, coded, scratch.stack, stage, count)
            if count < 0:
                return e
        starts[e + 1] = count
    return lows.shape[0]


@hot_kernel
def emit_staged(
    staged_at: npt.NDArray[np.int64],
    staged: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]],
    offsets: npt.NDArray[np.int64],
    out: npt.NDArray[np.int32],
) -> Int:
    """Write the rows of staged events, given as (starts, stage); event ``e`` was staged as number ``staged_at[e]``.

    ``offsets[0]`` is their beginning in ``out``; the others are written. Returns the size that ``out`` must have; if it
    is smaller, no rows were written.
    """
    starts, stage = staged
    for e in range(staged_at.size):
        count = offsets[e]
        for j in range(starts[staged_at[e]], starts[staged_at[e] + 1]):
            count += count_bits(stage[j] & _MASK)
        offsets[e + 1] = count
    room_needed = offsets[staged_at.size] + LANES  # the last lanes are written sixteen at a time, too
    if room_needed > out.size:
        return room_needed
    for e in range(staged_at.size):
        count = offsets[e]
        for j in range(starts[staged_at[e]], starts[staged_at[e] + 1]):
            count += emit_lanes(stage[j] >> 16, stage[j] & _MASK, out, count)
    return room_needed
