"""Whether an event meets any box at all: the walk of :mod:`tamis.kernels.boxes.match` that stops at the first hit.

A broker tests this for each neighbour: one matching filter is enough to forward an event, and an event may match fifty
thousand filters of one neighbour. So only one byte per event is written. A tree and a delta stop at the first lane that
fits, and only a lane that ties needs float64; pair grids stop after the first group with a match.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tamis.kernels.boxes.fit import fit_event
from tamis.kernels.boxes.match import Scratch, code_event
from tamis.kernels.boxes.pairs import PairOutput, TabledEvents, fill_table, meet_pairs_one
from tamis.kernels.boxes.sparse import holds
from tamis.kernels.boxes.tree import Event
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
    PAIRS,
    QUANTISER,
)
from tamis.kernels.emit import int32_at, int64_at, lowest_bit, uint16_at

__all__ = ["meet_events"]


@inline_kernel
def _meets_block(segment: npt.NDArray[np.int64], event: Event, block: Int) -> bool:
    """Whether a living box of one leaf block fits."""
    columns = segment[N_COLUMNS]
    fits = fit_event(segment[LEAVES] + 64 * columns * block, columns, event)
    mask = fits & np.int64(uint16_at(segment[ALIVE], block))
    ties = mask & (fits >> 16)
    if mask != ties:
        return True
    while ties != 0:
        if holds(segment, 16 * block + lowest_bit(ties), event.low, event.high):
            return True
        ties &= ties - 1
    return False


@inline_kernel
def _meets_flat(segment: npt.NDArray[np.int64], event: Event) -> bool:
    """Whether a box of a delta fits."""
    block, n_blocks = np.int64(0), (segment[N_SLOTS] + 15) >> 4
    while block < n_blocks and not _meets_block(segment, event, block):
        block += 1
    return bool(block < n_blocks)


@inline_kernel
def _meets_tree(segment: npt.NDArray[np.int64], event: Event, stack: npt.NDArray[np.int64]) -> bool:
    """Whether a box of a tree fits."""
    size = 64 * segment[N_COLUMNS]
    leaf_level = segment[HEIGHT] - 1
    stack[0] = 0
    depth = 1
    while depth > 0:
        depth -= 1
        level, node = stack[depth] >> 40, stack[depth] & 0xFFFFFFFFFF
        address = segment[BLOCKS] + (int64_at(segment[LEVELS], level) + node) * size
        mask = fit_event(address, segment[N_COLUMNS], event) & 0xFFFF
        while mask != 0:
            child = 16 * node + lowest_bit(mask)
            mask &= mask - 1
            if level < leaf_level:
                stack[depth] = ((level + 1) << 40) | child
                depth += 1
            elif _meets_block(segment, event, child):
                return True
    return False


@inline_kernel
def _meets_segment(
    segment: npt.NDArray[np.int64],
    low: npt.NDArray[np.float64],
    high: npt.NDArray[np.float64],
    scratch: Scratch,
    out: npt.NDArray[np.int32],
) -> bool:
    """Whether one coded event, low and high float64[1, d], meets a box of one segment."""
    codes = scratch.codes
    if segment[LAYOUT] == PAIRS:
        fill_table(segment, codes[0], scratch.tables[0])
        fill_table(segment, codes[1], scratch.tables[1])
        event = TabledEvents(scratch.tables[0:1], scratch.tables[1:2], low, high)
        return meet_pairs_one(segment, codes, event, PairOutput(scratch.survivors, out, scratch.survivors[0, :0]))
    for k in range(segment[N_COLUMNS]):
        axis = int32_at(segment[COLUMN_AXES], k)
        codes[2, k] = codes[0, axis]
        codes[3, k] = codes[1, axis]
    coded = Event(codes[2], codes[3], low[0], high[0], scratch.survivors[0])
    if segment[LAYOUT] == FLAT:
        return _meets_flat(segment, coded)
    return _meets_tree(segment, coded, scratch.stack)


@hot_kernel
def meet_events(
    directory: npt.NDArray[np.int64],
    events: tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]],
    met: npt.NDArray[np.bool_],
    out: npt.NDArray[np.int32],
    scratch: Scratch,
) -> None:
    """Set ``met`` of each event that meets a box; an event whose ``met`` is set already is skipped.

    ``events`` as in :func:`tamis.kernels.boxes.match.match_events`; ``out`` is room for the rows of at least twice
    as many survivors as a pair grid collects.
    """
    lows, highs = events
    for e in range(lows.shape[0]):
        coded_by = np.int64(-1)
        for g in range(directory.shape[0]):
            if met[e]:
                break
            segment = directory[g]
            if segment[QUANTISER] != coded_by:
                coded_by = segment[QUANTISER]
                code_event(segment[QUANTISER : QUANTISER + 5], lows[e], highs[e], scratch.codes)
            met[e] = _meets_segment(segment, lows[e : e + 1], highs[e : e + 1], scratch, out)
