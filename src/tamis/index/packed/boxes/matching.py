"""Matches events against a snapshot, with the buffers of one reader and the loop that enlarges them.

A *snapshot* is a directory and the parts whose arrays it names. The writer replaces the index's snapshot
and never changes one, so a reader can match against the snapshot it holds for any time, while segments
merge. A reader's buffers are its own; the index keeps a pool of readers (`ReaderPool`), because a list's ``pop``
and ``append`` are atomic and a thread-local would need a thread module here.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from tamis.index.packed.boxes.delta import Delta
from tamis.index.packed.boxes.outputs import Outputs
from tamis.index.packed.boxes.segment import Segment
from tamis.kernels import directory as at
from tamis.kernels.bitmaps.match import (
    BitmapScratch,
    BucketedEvents,
    bucket_events,
    make_bitmap_scratch,
    make_events,
    match_bitmaps,
)
from tamis.kernels.boxes.event_order import event_keys, reorder_csr
from tamis.kernels.boxes.match import CALL_AT, POINT_AT, make_scratch, match_events, match_point
from tamis.kernels.boxes.meet import meet_events
from tamis.kernels.boxes.pairs import (
    SURVIVORS,
    PairOutput,
    TabledEvents,
    code_events,
    join_csr,
    make_tables,
    match_pairs,
)
from tamis.kernels.boxes.staged import emit_staged, stage_events

__all__ = ["BoxReader", "ReaderPool", "Snapshot", "find_order", "make_snapshot"]

_FloatArray: TypeAlias = npt.NDArray[np.float64]
_RowArray: TypeAlias = npt.NDArray[np.int32]
_Csr: TypeAlias = tuple[npt.NDArray[np.int64], _RowArray]
_Pairs: TypeAlias = tuple[_RowArray, _RowArray]
_Events: TypeAlias = tuple[_FloatArray, _FloatArray]
_FIRST_ROOM: Final = 4_096
#: Fewer events than this are matched one by one against grids and bitmaps too.
_FEW: Final = 16
#: At least ``_MANY`` events are sorted if a tree has at least ``_LARGE`` boxes, where caches matter. Answers of up to
#: ``_SHORT`` rows per event are copied back into the order of the events; longer ones are staged.
_MANY: Final = 512
_LARGE: Final = 200_000
_SHORT: Final = 100.0
#: Events that are put in order, or walk through grids and bitmaps, together.
_CHUNK: Final = 4_096


class Snapshot(NamedTuple):
    """A directory int64[parts, WIDTH] and the parts that own its arrays.

    ``blocks`` and ``batched`` are the directory's rows by kind: the events of a batch visit trees and deltas one after
    the other, grids and bitmaps together. A few events visit all but the ``bitmaps`` one after the other (``walked``).
    No box constrains an axis beyond ``n_axes``: an event needs ``n_axes`` values, or kernels would read past its end.
    ``walked_at`` are the address and length of ``walked``: to ask NumPy for them takes longer than a kernel to match.
    """

    directory: npt.NDArray[np.int64]
    parts: tuple[Segment | Delta, ...]
    blocks: npt.NDArray[np.int64]
    batched: npt.NDArray[np.int64]
    walked: npt.NDArray[np.int64]
    bitmaps: npt.NDArray[np.int64]
    n_axes: int
    walked_at: tuple[int, int]


def make_snapshot(parts: list[Segment | Delta], n_axes: int) -> Snapshot:
    """Write the directory of these parts; those with one coding stand together."""
    parts = sorted(parts, key=lambda part: id(part.coding))
    directory = np.array([part.row for part in parts], np.int64).reshape(len(parts), at.WIDTH)
    layout = directory[:, at.LAYOUT]
    bits = layout == at.BITMAPS
    together = bits | (layout == at.PAIRS)
    blocks, batched, walked, bitmaps = (directory[chosen] for chosen in (~together, together, ~bits, bits))
    return Snapshot(
        directory, tuple(parts), blocks, batched, walked, bitmaps, n_axes, (walked.ctypes.data, len(walked))
    )


class BoxReader:
    """Buffers for one thread at a time; :meth:`match` and :meth:`match_one` use nothing else.

    Attributes
    ----------
    n_axes
        Width of the events these buffers serve.
    """

    def __init__(self, n_axes: int, outputs: Outputs) -> None:
        self.n_axes = n_axes
        self._outputs = outputs
        self._scratch = make_scratch(n_axes)
        self._offsets = np.zeros(2, np.int64)
        self._out = np.empty(_FIRST_ROOM, np.int32)
        self._pairs = np.empty((2, _FIRST_ROOM), np.int32)
        self._stage = np.empty(_FIRST_ROOM, np.int32)
        self._lanes = np.empty(_FIRST_ROOM, np.int64)
        #: For one event that meets bitmaps, once there was one.
        self._alone: tuple[BucketedEvents, BitmapScratch] | None = None
        #: What `match_point` takes, made when it is first needed, the rows that it writes to, and what writes an event.
        self._frame, self._framed = np.empty(0, np.int64), self._out
        self._write: Callable[..., None] = struct.Struct(f"=2q{n_axes}d").pack_into

    def match_values(self, snapshot: Snapshot, values: Sequence[float]) -> _RowArray:
        """Return the rows whose box meets an event, a point with ``n_axes`` values; valid until the next call.

        No box of the snapshot stands in bitmaps.
        """
        if not self._frame.size:
            self._make_frame()
        self._write(self._frame, 8 * CALL_AT, *snapshot.walked_at, *values)
        while (count := match_point(self._frame)) < 0:
            self._out = np.empty(4 * self._out.size, np.int32)
            self._make_frame()
            self._write(self._frame, 8 * CALL_AT, *snapshot.walked_at, *values)
        return self._framed[:count]

    def _make_frame(self) -> None:
        """Write the addresses of the buffers into a new frame."""
        self._frame, self._framed = np.empty(POINT_AT + self.n_axes, np.int64), self._out
        arrays = (self._frame, *self._scratch, self._framed)
        self._frame[:CALL_AT] = *(array.ctypes.data for array in arrays), self._framed.size

    def match_one(self, snapshot: Snapshot, low: _FloatArray, high: _FloatArray) -> npt.NDArray[np.int32]:
        """Return the rows whose box meets the event, in no particular order."""
        lowest = low[None]
        events = (lowest, lowest if high is low else high[None])
        while match_events(snapshot.walked, events, 0, self._offsets, self._out, self._scratch) == 0:
            self._out = np.empty(4 * self._out.size, np.int32)
        rows = self._out[: self._offsets[1]].copy()
        if not snapshot.bitmaps.size:
            return rows
        return np.concatenate([rows, *(self._match_bitmaps(segment, *events)[1] for segment in snapshot.bitmaps)])

    def match(self, snapshot: Snapshot, low: _FloatArray, high: _FloatArray, guess: float) -> _Csr:
        """Return CSR offsets and rows of many events; ``guess`` is the expected number of rows per event.

        The rows may be a view of an array that is reused when no view of it is left.
        """
        few = low.shape[0] < _FEW
        blocks, batched = (snapshot.walked, snapshot.bitmaps) if few else (snapshot.blocks, snapshot.batched)
        parts = self._match_blocks(blocks, low, high, guess if blocks.size else 0.0)
        if not batched.size or not low.size:
            return parts
        pairs = []
        for begin in range(0, low.shape[0], _CHUNK):
            lows = low[begin : begin + _CHUNK]
            highs = lows if high is low else high[begin : begin + _CHUNK]
            for segment in batched:
                match = self._match_grid if segment[at.LAYOUT] == at.PAIRS else self._match_bitmaps
                events, rows = match(segment, lows, highs)
                pairs.append((events + np.int32(begin), rows))
        joined = np.concatenate([events for events, _ in pairs]), np.concatenate([rows for _, rows in pairs])
        offsets, cursor = np.empty(low.shape[0] + 1, np.int64), np.empty(low.shape[0], np.int64)
        out = np.empty(parts[1].size + joined[0].size, np.int32)
        join_csr(parts, joined, offsets, cursor, out)
        return offsets, out

    def meet(self, snapshot: Snapshot, low: _FloatArray, high: _FloatArray, met: npt.NDArray[np.bool_]) -> None:
        """Set ``met`` of each event that meets a box; events whose ``met`` is set are passed over."""
        if self._out.size < 2 * SURVIVORS:
            self._out = np.empty(2 * SURVIVORS, np.int32)
        meet_events(snapshot.walked, (low, high), met, self._out, self._scratch)
        for segment in snapshot.bitmaps:
            for begin in range(0, low.shape[0], _CHUNK):
                open_ = begin + np.flatnonzero(~met[begin : begin + _CHUNK])
                if open_.size:
                    met[open_[self._match_bitmaps(segment, low[open_], high[open_])[0]]] = True

    def _match_blocks(
        self, directory: npt.NDArray[np.int64], low: _FloatArray, high: _FloatArray, guess: float
    ) -> _Csr:
        """Match trees and delta, and other layouts too if given; large batches in an order that suits the caches."""
        n = low.shape[0]
        offsets = np.zeros(n + 1, np.int64)
        if not directory.size:
            return offsets, np.empty(0, np.int32)
        out = self._outputs.take(int(n * guess * 1.2) + _FIRST_ROOM)
        largest = directory[np.argmax(directory[:, at.N_SLOTS])]
        if n >= _MANY and largest[at.N_SLOTS] >= _LARGE and largest[at.LAYOUT] == at.TREE:
            out = self._match_in_order(directory, (low, high), offsets, out, largest, staged=guess > _SHORT)
        else:
            out = self._match_each(directory, (low, high), offsets, out)
        self._outputs.give(out)
        rows = out[: offsets[n]]
        return offsets, rows if 2 * rows.size + _FIRST_ROOM >= out.size else rows.copy()

    def _match_each(
        self, directory: npt.NDArray[np.int64], events: _Events, offsets: npt.NDArray[np.int64], out: _RowArray
    ) -> _RowArray:
        """Match event by event into ``out``; return it, or a larger one that took its place."""
        n = offsets.size - 1
        done = match_events(directory, events, 0, offsets, out, self._scratch)
        while done < n:
            used = int(offsets[done])
            out = _enlarged(out, used, max(2 * out.size, int(used / max(done, 1) * n * 1.1)))
            done = match_events(directory, events, done, offsets, out, self._scratch)
        return out

    def _match_in_order(
        self,
        directory: npt.NDArray[np.int64],
        events: _Events,
        offsets: npt.NDArray[np.int64],
        out: _RowArray,
        largest: npt.NDArray[np.int64],
        *,
        staged: bool,
    ) -> _RowArray:
        """As :meth:`_match_each`, chunk by chunk in the order of ``event_keys``; ``staged``: rows are written once."""
        low, high = events
        keys = np.empty(low.shape[0], np.uint16)
        event_keys(largest, low, keys)
        for begin in range(0, low.shape[0], _CHUNK):
            order = np.argsort(keys[begin : begin + _CHUNK], kind="stable")
            lows = low[begin : begin + _CHUNK][order]
            highs = lows if high is low else high[begin : begin + _CHUNK][order]
            own = offsets[begin : begin + order.size + 1]
            if staged:
                out = self._emit_in_order(directory, (lows, highs), order, own, out)
                continue
            counted = np.zeros(order.size + 1, np.int64)
            self._stage = self._match_each(directory, (lows, highs), counted, self._stage)
            used = int(own[0])
            if used + counted[-1] > out.size:
                out = _enlarged(out, used, 2 * (used + int(counted[-1])))
            reorder_csr(order, (counted, self._stage), own, out)
        return out

    def _emit_in_order(
        self,
        directory: npt.NDArray[np.int64],
        events: _Events,
        order: npt.NDArray[np.int64],
        offsets: npt.NDArray[np.int64],
        out: _RowArray,
    ) -> _RowArray:
        """Stage the lanes of events that were put in ``order``, then write their rows event by event."""
        starts = np.zeros(order.size + 1, np.int64)
        done = stage_events(directory, events, 0, starts, self._lanes, self._scratch)
        while done < order.size:
            lanes = np.empty(2 * self._lanes.size, np.int64)
            lanes[: starts[done]] = self._lanes[: starts[done]]
            self._lanes = lanes
            done = stage_events(directory, events, done, starts, lanes, self._scratch)
        rank = np.empty_like(order)
        rank[order] = np.arange(order.size)
        needed = emit_staged(rank, (starts, self._lanes), offsets, out)
        if needed > out.size:
            out = _enlarged(out, int(offsets[0]), int(needed * 1.5))
            emit_staged(rank, (starts, self._lanes), offsets, out)
        return out

    def _match_grid(self, grid: npt.NDArray[np.int64], low: _FloatArray, high: _FloatArray) -> _Pairs:
        """Match a chunk of events against the pair grids of one segment; return events and rows of the pairs."""
        columns, tables = _coded(grid, low)
        high_columns, high_tables = (columns, tables) if high is low else _coded(grid, high)
        events = TabledEvents(tables, high_tables, low, high)
        order = np.argsort(columns, axis=1, kind="stable").astype(np.int32)
        return self._paired(lambda output: match_pairs(grid, events, (columns, high_columns), order, output))

    def _match_bitmaps(self, segment: npt.NDArray[np.int64], low: _FloatArray, high: _FloatArray) -> _Pairs:
        """Match a chunk of events against the bitmaps of one segment; return events and rows of the pairs."""
        if len(low) == 1:
            events, scratch = self._alone = self._alone or (make_events(1, self.n_axes), make_bitmap_scratch(1))
        else:
            events, scratch = make_events(len(low), int(segment[at.N_COLUMNS])), make_bitmap_scratch(len(low))
        bucket_events(segment, (low, high), self._scratch.codes, events)
        return self._paired(lambda output: match_bitmaps(segment, events, (low, high), scratch, output))

    def _paired(self, match: Callable[[PairOutput], int]) -> _Pairs:
        """Return the events and rows that a kernel writes, which says -1 as long as there is too little room."""
        while True:
            count = match(PairOutput(self._scratch.survivors, self._pairs[1], self._pairs[0]))
            if count >= 0:
                return self._pairs[0, :count].copy(), self._pairs[1, :count].copy()
            self._pairs = np.empty((2, 4 * self._pairs.shape[1]), np.int32)


class ReaderPool:
    """Readers that no thread uses now. Threads may share the pool.

    Attributes
    ----------
    give
        Takes back a reader: the list's own ``append``, so that a match of one event pays for no further Python call.
    """

    def __init__(self) -> None:
        self._free: list[BoxReader] = []
        self._outputs = Outputs()
        self.give: Callable[[BoxReader], None] = self._free.append

    def take(self, n_axes: int) -> BoxReader:
        """Return a reader for events of ``n_axes`` values; readers of another width are dropped on the way."""
        while self._free:
            try:
                reader = self._free.pop()
            except IndexError:  # another thread was faster
                break
            if reader.n_axes == n_axes:
                return reader
        return BoxReader(n_axes, self._outputs)


def find_order(snapshot: Snapshot, low: _FloatArray) -> npt.NDArray[np.int64] | None:
    """Return an order of many events in which neighbours meet the same boxes of the largest tree; None: any."""
    trees = snapshot.directory[snapshot.directory[:, at.LAYOUT] == at.TREE]
    if low.shape[0] < _MANY or not trees.size:
        return None
    keys = np.empty(low.shape[0], np.uint16)
    event_keys(trees[np.argmax(trees[:, at.N_SLOTS])], low, keys)
    return np.argsort(keys, kind="stable")


def _enlarged(array: _RowArray, used: int, size: int) -> _RowArray:
    """Return a larger array with the same first ``used`` numbers."""
    larger = np.empty(size, np.int32)
    larger[:used] = array[:used]
    return larger


def _coded(grid: npt.NDArray[np.int64], values: _FloatArray) -> tuple[npt.NDArray[np.int16], npt.NDArray[np.uint8]]:
    """Return the codes of many events by axis, and their tables."""
    columns, tables = np.empty(values.shape[::-1], np.int16), make_tables(len(values))
    code_events(grid, values, np.empty(values.shape[1], np.int16), columns, tables)
    return columns, tables
