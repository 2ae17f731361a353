"""Match events against a bitmap segment: walk the nodes, AND one row per column, compare the codes of the rest.

An event visits the leaves whose ranges of buckets contain it. There the AND of its buckets' rows leaves some boxes,
which are *collected*; their codes are prefetched and compared once there are many, because they lie far apart in
memory. A box that ties is decided with float64 (:func:`tamis.kernels.boxes.sparse.holds`), as in every segment.

Many events go through the nodes together, as lists that become shorter on the way down, so a leaf is read once per
batch: with many events in it the next leaf is prefetched meanwhile, with few events only the rows that they need. An
event interval that touches several buckets walks alone, and uses the OR of their rows.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tamis.kernels.bitmaps.build import CODE_SHIFT, MISSING_ROW, N_STEPS
from tamis.kernels.bitmaps.order import (
    COLUMN,
    DEPTH,
    GREATEST,
    LEAF,
    LEAF_SIZE,
    LEAST,
    MOST_DEPTH,
    NODE_WIDTH,
    SKIP,
    START,
    STOP,
)
from tamis.kernels.bitmaps.words import N_ROWS, N_WORDS, ROW_BYTES, TABLE_BYTES, VECTOR, and_rows, fit_box
from tamis.kernels.boxes.pairs import SURVIVORS, PairOutput
from tamis.kernels.boxes.quantise import code_values
from tamis.kernels.boxes.sparse import holds
from tamis.kernels.compile import Int, hot_kernel, inline_kernel
from tamis.kernels.directory import (
    ALIVE,
    BOX_CODES,
    BUCKETS,
    COLUMN_AXES,
    FIRST_TABLE,
    N_COLUMNS,
    N_NODES,
    NODES,
    QUANTISER,
    ROWS,
    TABLE_COLUMNS,
    TABLES,
)
from tamis.kernels.emit import int32_at, int64_at, lowest_bit, prefetch, prefetch_far, uint8_at, uint32_at

__all__ = ["BitmapScratch", "BucketedEvents", "bucket_events", "make_bitmap_scratch", "make_events", "match_bitmaps"]

#: Visits of a leaf from which on the whole next leaf is fetched ahead; with fewer, the rows they need.
_MANY: Final = 24
#: Such single visits that wait for their rows.
_QUEUE: Final = 32
#: Boxes that are collected before their codes are compared.
_ENOUGH: Final = 1_024
_MISSES: Final = 0xFFFFFFFF

_Values = tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]


class BucketedEvents(NamedTuple):
    """n events as a bitmap segment sees them: everything twice, for the least and the greatest value.

    Codes int16[2, n, columns in whole vectors] and buckets uint8[2, n, columns]; ``spans`` uint8[n] is not 0 where an
    event touches several buckets of a column; ``by_column`` uint8[columns, n] are the least buckets once more.
    """

    codes: npt.NDArray[np.int16]
    buckets: npt.NDArray[np.uint8]
    spans: npt.NDArray[np.uint8]
    by_column: npt.NDArray[np.uint8]


class BitmapScratch(NamedTuple):
    """Memory of one reader.

    The words of a row int64[8], visits that wait int32[2, 32], lists of events int32[MOST_DEPTH, n], for each depth
    which list counts and how long it is int64[2, MOST_DEPTH], and int64[2]: how many leaves were visited, how many
    boxes collected.
    """

    words: npt.NDArray[np.int64]
    queue: npt.NDArray[np.int32]
    lists: npt.NDArray[np.int32]
    levels: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]


def make_events(n: int, columns: int) -> BucketedEvents:
    """Return memory for n events of a segment of at most ``columns`` columns."""
    lanes = -(-max(1, columns) // VECTOR) * VECTOR
    codes, buckets = np.zeros((2, n, lanes), np.int16), np.zeros((2, n, max(1, columns)), np.uint8)
    return BucketedEvents(codes, buckets, np.zeros(n, np.uint8), np.zeros((max(1, columns), n), np.uint8))


def make_bitmap_scratch(n: int) -> BitmapScratch:
    """Return memory for a batch of n events."""
    lists = np.empty((MOST_DEPTH, n), np.int32)
    levels, counts = np.zeros((2, MOST_DEPTH), np.int64), np.zeros(2, np.int64)
    return BitmapScratch(np.zeros(N_WORDS, np.int64), np.zeros((2, _QUEUE), np.int32), lists, levels, counts)


@inline_kernel
def _bucket_event(
    segment: npt.NDArray[np.int64],
    low: npt.NDArray[np.int16],
    high: npt.NDArray[np.int16],
    events: BucketedEvents,
    e: Int,
) -> None:
    """Write event ``e`` from its codes by axis, int16[d] each."""
    spans = np.uint8(0)
    for k in range(segment[N_COLUMNS]):
        axis = np.int64(int32_at(segment[COLUMN_AXES], k))
        for side in range(2):
            code = np.int64(low[axis] if side == 0 else high[axis])
            bucket = np.uint8(MISSING_ROW)
            if code >= 0:
                bucket = uint8_at(segment[BUCKETS], N_STEPS * k + (code >> CODE_SHIFT))
            events.codes[side, e, k] = code
            events.buckets[side, e, k] = bucket
        events.by_column[k, e] = events.buckets[0, e, k]
        if events.buckets[0, e, k] != events.buckets[1, e, k]:
            spans = np.uint8(1)
    events.spans[e] = spans


@hot_kernel
def bucket_events(
    segment: npt.NDArray[np.int64], values: _Values, codes: npt.NDArray[np.int16], events: BucketedEvents
) -> None:
    """Write all events from their values; ``codes`` int16[2, d] is scratch."""
    for e in range(values[0].shape[0]):
        code_values(segment[QUANTISER : QUANTISER + 5], values[0][e], codes[0])
        code_values(segment[QUANTISER : QUANTISER + 5], values[1][e], codes[1])
        _bucket_event(segment, codes[0], codes[1], events, e)


@inline_kernel
def _settle(
    segment: npt.NDArray[np.int64], events: BucketedEvents, values: _Values, n: Int, output: PairOutput, count: Int
) -> Int:
    """Compare ``n`` collected boxes with their events and write those that match; return the new count or -1 (full)."""
    if count < 0 or count + n > output.rows.size:
        return np.int64(-1)
    columns = segment[N_COLUMNS]
    for i in range(n):
        slot, e = np.int64(output.survivors[0, i]), np.int64(output.survivors[1, i])
        low, high = events.codes[0, e].ctypes.data, events.codes[1, e].ctypes.data
        fits = fit_box(segment[BOX_CODES] + 4 * columns * slot, low, high, columns)
        output.rows[count] = int32_at(segment[ROWS], slot)
        output.events[count] = e
        alive = np.int64(uint8_at(segment[ALIVE], slot >> 3)) >> (slot & 7) & 1
        if fits == 0:
            count += alive
        elif fits & _MISSES == 0 and alive != 0:
            count += np.int64(holds(segment, slot, values[0][e], values[1][e]))
    return count


@inline_kernel
def _and_spans(tables: Int, columns: Int, n: Int, buckets: npt.NDArray[np.uint8], words: npt.NDArray[np.int64]) -> Int:
    """As :func:`and_rows` for an event, uint8[2, columns], that touches several buckets: each table gives their OR."""
    words[:] = -1
    for table in range(n):
        k = np.int64(uint8_at(columns, table))
        for w in range(N_WORDS):
            union = np.int64(0)
            for b in range(np.int64(buckets[0, k]), np.int64(buckets[1, k]) + 1):
                union |= int64_at(tables, (N_ROWS * table + b) * N_WORDS + w)
            words[w] &= union
    nonzero = np.int64(0)
    for w in range(N_WORDS):
        if words[w] != 0:
            nonzero |= np.int64(1) << w
    return nonzero


@inline_kernel
def _visit_leaf(
    segment: npt.NDArray[np.int64],
    x: Int,
    events: BucketedEvents,
    e: Int,
    scratch: BitmapScratch,
    collected: npt.NDArray[np.int32],
    n: Int,
) -> Int:
    """Collect the boxes of leaf node ``x`` that event ``e`` may meet; return the new number of collected boxes."""
    node = segment[NODES] + 4 * NODE_WIDTH * x
    leaf, start, stop = np.int64(int32_at(node, LEAF)), int32_at(node, START), int32_at(node, STOP)
    first = np.int64(uint32_at(segment[FIRST_TABLE], leaf))
    tables, columns = segment[TABLES] + TABLE_BYTES * first, segment[TABLE_COLUMNS] + first
    n_tables = np.int64(uint32_at(segment[FIRST_TABLE], leaf + 1)) - first
    if events.spans[e] != 0:
        nonzero = _and_spans(tables, columns, n_tables, events.buckets[:, e], scratch.words)
    else:
        nonzero = and_rows(tables, events.buckets[0, e].ctypes.data, columns, n_tables, scratch.words.ctypes.data)
    size = 4 * segment[N_COLUMNS]
    while nonzero != 0:
        w = np.int64(lowest_bit(nonzero))
        nonzero &= nonzero - 1
        word = scratch.words[w]
        while word != 0:
            bit = np.int64(lowest_bit(word))
            word ^= np.int64(1) << bit
            slot = start + 64 * w + bit
            prefetch(segment[BOX_CODES] + size * slot)
            prefetch(segment[BOX_CODES] + size * slot + size - 1)
            collected[0, n] = slot
            collected[1, n] = e
            n += np.int64(slot < stop)  # a leaf need not be full
    return n


@inline_kernel
def _fetch_rows(segment: npt.NDArray[np.int64], leaf: Int, buckets: npt.NDArray[np.uint8]) -> None:
    """Ask for the rows of an event, uint8[columns], in a leaf."""
    first = np.int64(uint32_at(segment[FIRST_TABLE], leaf))
    for table in range(first, np.int64(uint32_at(segment[FIRST_TABLE], leaf + 1))):
        row = np.int64(buckets[uint8_at(segment[TABLE_COLUMNS], table)])
        prefetch(segment[TABLES] + TABLE_BYTES * table + ROW_BYTES * row)


@inline_kernel
def _visit_queue(
    segment: npt.NDArray[np.int64],
    events: BucketedEvents,
    values: _Values,
    scratch: BitmapScratch,
    output: PairOutput,
    state: tuple[Int, Int, Int],
) -> tuple[Int, Int]:
    """Make the visits that wait; ``state`` is (visits, boxes collected, count), the last two are returned again."""
    waiting, n, count = state
    for i in range(waiting):
        n = _visit_leaf(
            segment, np.int64(scratch.queue[0, i]), events, np.int64(scratch.queue[1, i]), scratch, output.survivors, n
        )
        if n > SURVIVORS - LEAF_SIZE:
            scratch.counts[1] += n
            count, n = _settle(segment, events, values, n, output, count), np.int64(0)
    scratch.counts[0] += waiting
    return n, count


@inline_kernel
def _match_span(
    segment: npt.NDArray[np.int64],
    events: BucketedEvents,
    values: _Values,
    e: Int,
    scratch: BitmapScratch,
    output: PairOutput,
    count: Int,
) -> Int:
    """Match event ``e`` alone, which touches several buckets of a column; return the new count or -1 (full)."""
    n, x = np.int64(0), np.int64(0)
    while x < segment[N_NODES]:
        node = segment[NODES] + 4 * NODE_WIDTH * x
        column = np.int64(int32_at(node, COLUMN))
        if column >= 0:
            least, greatest = int32_at(node, LEAST), int32_at(node, GREATEST)
            if events.buckets[0, e, column] > greatest or events.buckets[1, e, column] < least:
                x = np.int64(int32_at(node, SKIP))
                continue
        if int32_at(node, LEAF) >= 0:
            scratch.queue[0, 0], scratch.queue[1, 0] = x, e
            n, count = _visit_queue(segment, events, values, scratch, output, (np.int64(1), n, count))
        x += 1
    scratch.counts[1] += n
    return _settle(segment, events, values, n, output, count)


@inline_kernel
def _narrow(node: Int, events: BucketedEvents, scratch: BitmapScratch) -> tuple[Int, Int]:
    """List the events of the parent's list that lie in the range of a node; return which list, and its length."""
    depth, column = np.int64(int32_at(node, DEPTH)), np.int64(int32_at(node, COLUMN))
    if column < 0:
        return scratch.levels[0, 0], scratch.levels[1, 0]
    list_number, length = scratch.levels[0, depth - 1], scratch.levels[1, depth - 1]
    least, greatest = int32_at(node, LEAST), int32_at(node, GREATEST)
    if least > 0 or greatest < MISSING_ROW:
        n_kept, low, width = np.int64(0), np.uint8(least), np.uint8(greatest - least)
        for i in range(length):
            e = scratch.lists[list_number, i]
            scratch.lists[depth, n_kept] = e
            n_kept += np.int64(np.uint8(events.by_column[column, e] - low) <= width)
        list_number, length = depth, n_kept
    scratch.levels[0, depth], scratch.levels[1, depth] = list_number, length
    return list_number, length


@inline_kernel
def _visit_all(
    segment: npt.NDArray[np.int64],
    x: Int,
    events: BucketedEvents,
    values: _Values,
    listed: npt.NDArray[np.int32],
    scratch: BitmapScratch,
    output: PairOutput,
    state: tuple[Int, Int],
) -> tuple[Int, Int]:
    """Visit one leaf with all listed events, and fetch as many rows as it has from behind it meanwhile."""
    n, count = state
    leaf = np.int64(int32_at(segment[NODES] + 4 * NODE_WIDTH * x, LEAF))
    first, stop = np.int64(uint32_at(segment[FIRST_TABLE], leaf)), np.int64(uint32_at(segment[FIRST_TABLE], leaf + 1))
    ahead, end = segment[TABLES] + TABLE_BYTES * stop, segment[TABLES] + TABLE_BYTES * (2 * stop - first)
    step = N_ROWS * (stop - first) // listed.size + 1
    for i in range(listed.size):
        for _ in range(step):
            if ahead < end:
                prefetch_far(ahead)
                ahead += ROW_BYTES
        n = _visit_leaf(segment, x, events, np.int64(listed[i]), scratch, output.survivors, n)
        if n > SURVIVORS - LEAF_SIZE:
            scratch.counts[1] += n
            count, n = _settle(segment, events, values, n, output, count), np.int64(0)
    scratch.counts[0] += listed.size
    if n >= _ENOUGH:
        scratch.counts[1] += n
        count, n = _settle(segment, events, values, n, output, count), np.int64(0)
    return n, count


@hot_kernel
def match_bitmaps(
    segment: npt.NDArray[np.int64], events: BucketedEvents, values: _Values, scratch: BitmapScratch, output: PairOutput
) -> Int:
    """Match events, one or many; return how many (event, row) pairs were written, or -1 (full).

    ``scratch.counts`` says afterwards how many leaves were visited and how many boxes collected.
    """
    scratch.counts[:] = 0
    points = np.int64(0)
    for e in range(events.spans.size):
        scratch.lists[0, points] = e
        points += np.int64(events.spans[e] == 0)
    scratch.levels[0, 0], scratch.levels[1, 0] = 0, points
    waiting, n, count, x = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    while x < segment[N_NODES]:
        node = segment[NODES] + 4 * NODE_WIDTH * x
        list_number, length = _narrow(node, events, scratch)
        if length == 0:
            x = np.int64(int32_at(node, SKIP))
            continue
        leaf = np.int64(int32_at(node, LEAF))
        if leaf >= 0 and length >= _MANY:
            listed = scratch.lists[list_number, :length]
            n, count = _visit_all(segment, x, events, values, listed, scratch, output, (n, count))
        elif leaf >= 0:
            for i in range(length):
                event = np.int64(scratch.lists[list_number, i])
                _fetch_rows(segment, leaf, events.buckets[0, event])
                scratch.queue[0, waiting], scratch.queue[1, waiting] = x, event
                waiting += 1
                if waiting == _QUEUE:
                    n, count = _visit_queue(segment, events, values, scratch, output, (waiting, n, count))
                    waiting = np.int64(0)
        if count < 0:
            return count
        x += 1
    n, count = _visit_queue(segment, events, values, scratch, output, (waiting, n, count))
    scratch.counts[1] += n
    count = _settle(segment, events, values, n, output, count)
    for e in range(events.spans.size):
        if events.spans[e] != 0 and count >= 0:
            count = _match_span(segment, events, values, np.int64(e), scratch, output, count)
    return count
