"""Match events against the trees, grids and deltas of an index in one call.

One kernel walks the directory (:mod:`tamis.kernels.directory`) for each event: a call costs about one
microsecond however many segments there are. :func:`match_point` takes one event and finds all its data through one
array, which costs a fifth of that. Event values are coded once per quantiser; segments that share one are adjacent in
the directory. Bitmaps have their own kernel
(:mod:`tamis.kernels.bitmaps.match`): here it would cost every process seven seconds of compiling, needed or not.

Output is CSR: rows of event ``e`` are ``out[offsets[e]:offsets[e + 1]]``. When ``out`` is full the kernel stops at
that event; the caller enlarges ``out`` and goes on from there, so nothing is computed twice and no
maximum is assumed.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tamis.kernels.boxes.pairs import (
    SURVIVORS,
    PairOutput,
    TabledEvents,
    fill_table,
    make_tables,
    match_pairs_one,
)
from tamis.kernels.boxes.quantise import MISSING, code_values
from tamis.kernels.boxes.tree import Event, match_flat, match_tree
from tamis.kernels.compile import Int, hot_kernel, inline_kernel
from tamis.kernels.directory import (
    COLUMN_AXES,
    FLAT,
    LAYOUT,
    N_COLUMNS,
    PAIRS,
    QUANTISER,
    WIDTH,
)
from tamis.kernels.emit import int32_at
from tamis.kernels.vector_ir import array_at

__all__ = ["CALL_AT", "POINT_AT", "Scratch", "code_event", "make_scratch", "match_events", "match_point"]

_TABLE: Final = 64
_STACK: Final = 1_024
#: Numbers of a frame before those that change with each event: the directory, its segments, and the values.
CALL_AT: Final = 7
#: Numbers of a frame before the values of the event.
POINT_AT: Final = 9


class Scratch(NamedTuple):
    """Memory of one reader.

    Event codes int16[4, d], tables uint8[2, 64], a stack int64[1_024], survivors int32[2, SURVIVORS].
    """

    codes: npt.NDArray[np.int16]
    tables: npt.NDArray[np.uint8]
    stack: npt.NDArray[np.int64]
    survivors: npt.NDArray[np.int32]


def make_scratch(n_axes: int) -> Scratch:
    """Return the memory of a reader of events with ``n_axes`` values."""
    codes = np.full((4, max(1, n_axes)), MISSING, np.int16)
    stack, survivors = np.empty(_STACK, np.int64), np.empty((2, SURVIVORS), np.int32)
    return Scratch(codes, make_tables(2), stack, survivors)


@inline_kernel
def code_event(
    quantiser: npt.NDArray[np.int64],
    low: npt.NDArray[np.float64],
    high: npt.NDArray[np.float64],
    codes: npt.NDArray[np.int16],
) -> None:
    """Write the codes of an event to ``codes[0]`` and ``codes[1]``; a point is coded once."""
    code_values(quantiser, low, codes[0])
    for k in range(low.size):
        if not (low[k] == high[k] or np.isnan(low[k])):
            code_values(quantiser, high, codes[1])
            return
    for k in range(low.size):
        codes[1, k] = codes[0, k]


@inline_kernel
def _match_segment(
    segment: npt.NDArray[np.int64],
    low: npt.NDArray[np.float64],
    high: npt.NDArray[np.float64],
    scratch: Scratch,
    out: npt.NDArray[np.int32],
    count: Int,
) -> Int:
    """Match one coded event, low and high float64[1, d], against one segment; return the new count or -1 (full)."""
    codes = scratch.codes
    if segment[LAYOUT] == PAIRS:
        fill_table(segment, codes[0], scratch.tables[0])
        fill_table(segment, codes[1], scratch.tables[1])
        event = TabledEvents(scratch.tables[0:1], scratch.tables[1:2], low, high)
        return match_pairs_one(
            segment, codes, event, PairOutput(scratch.survivors, out, scratch.survivors[0, :0]), count
        )
    for k in range(segment[N_COLUMNS]):
        axis = int32_at(segment[COLUMN_AXES], k)
        codes[2, k] = codes[0, axis]
        codes[3, k] = codes[1, axis]
    coded = Event(codes[2], codes[3], low[0], high[0], scratch.survivors[0])
    if segment[LAYOUT] == FLAT:
        return match_flat(segment, coded, out, count)
    return match_tree(segment, coded, scratch.stack, out, count)


@hot_kernel
def match_events(
    directory: npt.NDArray[np.int64],
    events: tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]],
    begin: Int,
    offsets: npt.NDArray[np.int64],
    out: npt.NDArray[np.int32],
    scratch: Scratch,
) -> Int:
    """Match the events from number ``begin`` on; return the number of the first one not done.

    Parameters
    ----------
    directory
        int64[segments, WIDTH].
    events
        Least and greatest possible values, float64[n, d] each; NaN in both is missing.
    begin
        ``offsets[begin]`` rows are already in ``out``.
    offsets, out
        int64[n + 1] and int32; filled as far as the returned event.
    """
    lows, highs = events
    for e in range(begin, lows.shape[0]):
        count = offsets[e]
        coded_by = np.int64(-1)
        for g in range(directory.shape[0]):
            segment = directory[g]
            if segment[QUANTISER] != coded_by:
                coded_by = segment[QUANTISER]
                code_event(segment[QUANTISER : QUANTISER + 5], lows[e], highs[e], scratch.codes)
            count = _match_segment(segment, lows[e : e + 1], highs[e : e + 1], scratch, out, count)
            if count < 0:
                return e
        offsets[e + 1] = count
    return lows.shape[0]


@hot_kernel
def match_point(frame: npt.NDArray[np.int64]) -> Int:
    """Match one event that is a point; return how many rows were written, -1 if there was too little room.

    ``frame`` int64[POINT_AT + d]: addresses of the frame itself, of the four arrays of `Scratch` and of the rows int32,
    and how many of these there is room for; the address of the directory and its segments; the values as float64.
    """
    d = frame.size - POINT_AT
    scratch = Scratch(
        array_at(frame[1], 4 * d, np.int16).reshape(4, d),
        array_at(frame[2], 2 * _TABLE, np.uint8).reshape(2, _TABLE),
        array_at(frame[3], _STACK, np.int64),
        array_at(frame[4], 2 * SURVIVORS, np.int32).reshape(2, SURVIVORS),
    )
    out = array_at(frame[5], frame[6], np.int32)
    directory = array_at(frame[7], frame[8] * WIDTH, np.int64).reshape(frame[8], WIDTH)
    values = array_at(frame[0] + 8 * POINT_AT, d, np.float64).reshape(1, d)
    count, coded_by = np.int64(0), np.int64(-1)
    for g in range(directory.shape[0]):
        segment = directory[g]
        if segment[QUANTISER] != coded_by:
            coded_by = segment[QUANTISER]
            code_event(segment[QUANTISER : QUANTISER + 5], values[0], values[0], scratch.codes)
        count = _match_segment(segment, values, values, scratch, out, count)
        if count < 0:
            return count
    return count
