"""The box index: a small delta, several packed segments, tombstones, merges; one writer, many readers.

* A box enters the *delta* (scanned whole, about three microseconds) or, in bulk, becomes a segment.
* A full delta is flushed: it becomes a segment together with the segments no larger than it, at once,
  up to ``_INLINE`` boxes. Larger merges are the caller's to run (:meth:`BoxIndex.plan_merge`).
* Removing a row clears one alive bit, found through ``_home`` (serial of the part) and ``_slot_of``. Alive bits
  belong to a part, so a row that was removed can be added again at once.

Readers take ``_snapshot`` once and work on it; the writer replaces it. Removals show at once (the bits are
shared), additions with the next snapshot. ``_home`` and ``_slot_of`` are the writer's alone.

Answers are exact on float64 closed boxes: every code that ties is settled on the float64 ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tamis.errors import InvariantError
from tamis.index.packed.boxes.coding import Coding, boxes_from_dense
from tamis.index.packed.boxes.delta import CAPACITY, ENTRIES, Delta
from tamis.index.packed.boxes.matching import Reader, find_order, make_snapshot
from tamis.index.packed.boxes.merge import MergePlan, choose_segments, gather, wants_merge
from tamis.index.packed.boxes.outputs import Outputs
from tamis.index.packed.boxes.segment import Segment
from tamis.kernels.boxes.bits import adopt_rows, clear_bits
from tamis.kernels.boxes.quantise import Quantiser
from tamis.kernels.boxes.sparse import Boxes

__all__ = ["BoxIndex", "MergePlan"]

_FloatArray = npt.NDArray[np.float64]
_RowArray = npt.NDArray[np.int32]

#: A flush absorbs segments up to this many boxes in all; building them takes a few milliseconds.
_INLINE: Final = 16_384
_MOST_AXES: Final = 32_767  # an axis is an int16
#: A batch larger than this becomes a segment of its own.
_BULK: Final = CAPACITY // 2


class BoxIndex:
    """Closed boxes over ``n_axes`` axes, each known by an int32 row; finds the rows an event meets.

    Guarantee: EXACT on float64. Cost of a match: a walk of each segment plus a scan of the delta. Not for
    boxes with thousands of axes each.

    Rows are the caller's numbers, not negative and unique; memory grows with the largest one. An event
    value is an interval ``[low, high]`` (a point if both are equal), NaN in both where it is missing. A box
    side ``-inf, +inf`` is free and accepts a missing value; ``ANY_VALUE, +inf`` demands one. ``grids``: not only trees.

    >>> index = BoxIndex(2)
    >>> index.add_boxes(np.array([[0.0, -np.inf]]), np.array([[10.0, np.inf]]), np.array([7], np.int32))
    >>> index.match_point(np.array([10.0, np.nan]))
    array([7], dtype=int32)
    """

    def __init__(self, n_axes: int, *, grids: bool = True) -> None:
        self.n_axes, self._grids = 0, grids
        self.grow(n_axes)
        self._coding: Coding | None = None
        self._segments: list[Segment] = []
        self._delta: Delta | None = None
        #: ``{serial: part}``: every part of the present snapshot.
        self._parts: dict[int, Segment | Delta] = {}
        self._serials: dict[int, int] = {}
        self._next_serial = 1
        #: Serial of the part that holds a row (0: none), and its slot there.
        self._home = np.zeros(0, np.int32)
        self._slot_of = np.zeros(0, np.int32)
        self._n_rows = 0
        self._plan: MergePlan | None = None
        self._readers: list[Reader] = []
        self._outputs = Outputs()
        self._rows_per_event = 1.0
        self._snapshot = make_snapshot([])

    def __len__(self) -> int:
        """Count the living boxes."""
        return self._n_rows

    # ---- writing

    def add_boxes(self, lo: _FloatArray, hi: _FloatArray, rows: _RowArray) -> None:
        """Add closed boxes float64[n, n_axes]; a bad box or a row in use raises and adds nothing."""
        lo, hi = self._checked(lo), self._checked(hi)
        rows = np.ascontiguousarray(rows, np.int32)
        if lo.shape != hi.shape or rows.shape != lo.shape[:1]:
            raise ValueError(f"lo {lo.shape}, hi {hi.shape} and rows {rows.shape} do not belong together")
        boxes = boxes_from_dense(lo, hi)
        self._check_new(rows)
        if rows.size > _BULK or boxes.axis.size > ENTRIES // 2:
            self._add_segment(boxes, rows)
        elif rows.size:
            self._append(boxes, rows)
        self._n_rows += rows.size

    def remove(self, rows: _RowArray) -> None:
        """Remove rows; one that is not here raises ``KeyError`` and nothing is removed."""
        rows = np.atleast_1d(np.asarray(rows, np.int32))
        if rows.size == 0:
            return
        if rows.min() < 0 or rows.max() >= self._home.size or not self._home[rows].all():
            raise KeyError(int(next(row for row in rows.tolist() if not self._has(row))))
        home = self._home[rows]
        removed = 0
        for serial in (home[:1] if rows.size == 1 else np.unique(home)).tolist():
            part = self._parts[serial]
            cleared = clear_bits(part.alive, self._slot_of[rows[home == serial]])
            part.n_dead += cleared
            removed += cleared
        self._home[rows] = 0
        self._n_rows -= removed

    def remove_one(self, row: int) -> None:
        """Remove one row, ten times as quick as :meth:`remove`; ``KeyError`` when it is not here."""
        if not self._has(row):
            raise KeyError(row)
        part, slot = self._parts[int(self._home[row])], int(self._slot_of[row])
        part.alive[slot >> 3] &= 255 - (1 << (slot & 7))
        part.n_dead += 1
        self._home[row] = 0
        self._n_rows -= 1

    def grow(self, n_axes: int) -> None:
        """Add axes at the end; the boxes that are here leave them free. There are at most 32,767."""
        if not self.n_axes <= n_axes <= _MOST_AXES:
            raise ValueError(f"an index of {self.n_axes} axes cannot have {n_axes}")
        self.n_axes = n_axes

    # ---- reading

    def match_point(self, low: _FloatArray, high: _FloatArray | None = None) -> _RowArray:
        """Return the rows whose box meets one event, float64[n_axes]; order is free."""
        snapshot = self._snapshot  # first: no axis of it lies beyond n_axes, even if the index grows now
        low = self._checked_point(low)
        high = low if high is None else self._checked_point(high)
        reader = self._take_reader(low.size)
        rows = reader.match_one(snapshot, low, high)
        self._readers.append(reader)
        return rows

    def match_points(
        self, low: _FloatArray, high: _FloatArray | None = None
    ) -> tuple[npt.NDArray[np.int64], _RowArray]:
        """Return CSR offsets int64[n + 1] and rows of n events float64[n, n_axes]; order inside an event is free."""
        snapshot = self._snapshot  # first, as above
        low = self._checked(low)
        high = low if high is None else self._checked(high)
        if low.shape != high.shape:
            raise ValueError(f"low {low.shape} and high {high.shape} do not belong together")
        reader = self._take_reader(low.shape[1])
        offsets, rows = reader.match(snapshot, low, high, self._rows_per_event)
        self._readers.append(reader)
        if low.shape[0]:
            self._rows_per_event = rows.size / low.shape[0]
        return offsets, rows

    def find_order(self, low: _FloatArray) -> npt.NDArray[np.int64] | None:
        """Return an order of many events float64[n, n_axes] in which neighbours meet the same boxes; None: any."""
        return find_order(self._snapshot, low)

    def find_box(self, row: int) -> tuple[list[int], list[float], list[float]] | None:
        """Return the axes, lower and upper ends that a row constrains; None when it is not here."""
        while self._has(row):
            part, slot = self._parts.get(int(self._home[row])), int(self._slot_of[row])
            if part is None or part.rows[slot] != row:  # it is moving to another part: look again
                continue
            boxes = part.boxes
            own = slice(int(boxes.first[slot]), int(boxes.first[slot + 1]))
            return boxes.axis[own].tolist(), boxes.ends[own, 0].tolist(), boxes.ends[own, 1].tolist()
        return None

    def statistics(self) -> dict[str, Any]:
        """Describe the parts: rows, dead slots, bytes, layouts."""
        return {
            "rows": self._n_rows,
            "delta": self._delta.n_live if self._delta else 0,
            "bytes": sum(part.n_bytes for part in self._snapshot.parts),
            "segments": [
                {"layout": s.layout_name, "rows": s.n_live, "dead": s.n_dead, "bytes": s.n_bytes}
                for s in self._segments
            ],
        }

    # ---- merging

    def wants_merge(self) -> bool:
        """Say whether there is something to gain."""
        return wants_merge(self._segments)

    def plan_merge(self) -> MergePlan | None:
        """Propose a merge, or None if there is nothing to gain. An earlier plan that is not installed lapses."""
        chosen = choose_segments(self._segments)
        self._plan = MergePlan(chosen, self._coding, grids=self._grids) if chosen else None
        return self._plan

    def install(self, plan: MergePlan) -> bool:
        """Put the result of a plan that has run in the place of its segments; False if the plan lapsed."""
        if plan is not self._plan or not plan.done:
            return False
        self._plan = None
        self._replace(list(plan.sources), plan.result)
        return True

    def compact(self) -> _RowArray:
        """Merge everything into one segment, now; return the rows in its order."""
        self._plan = None
        self._flush(absorb=len(self) + 1)
        return np.concatenate([np.zeros(0, np.int32), *(segment.rows for segment in self._segments)])

    # ---- saving

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the whole index as named arrays; the delta is flushed first."""
        if self._delta is not None:
            self._flush(absorb=0)
        codings = list({id(segment.coding): segment.coding for segment in self._segments}.values())
        arrays: dict[str, npt.NDArray[Any]] = {
            "index": np.array([self.n_axes, len(self._segments), len(codings)], np.int64)
        }
        for i, coding in enumerate(codings):
            arrays[f"coding{i}.trained_on"] = np.array([coding.trained_on], np.int64)
            arrays |= {f"coding{i}.{name}": array for name, array in coding.quantiser._asdict().items()}
        for i, segment in enumerate(self._segments):
            arrays[f"segment{i}.coding"] = np.array([codings.index(segment.coding)], np.int64)
            arrays |= {f"segment{i}.{name}": array for name, array in segment.to_arrays().items()}
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> BoxIndex:
        """Open an index on arrays as :meth:`to_arrays` gave them; they may be read-only and stay in use."""
        n_axes, n_segments, n_codings = (int(number) for number in arrays["index"])
        index = cls(n_axes)
        codings = []
        for i in range(n_codings):
            maps = [arrays[f"coding{i}.{name}"] for name in Quantiser._fields]
            codings.append(Coding(Quantiser(*maps), int(arrays[f"coding{i}.trained_on"][0])))
        for i in range(n_segments):
            prefix = f"segment{i}."
            own = {name.removeprefix(prefix): a for name, a in arrays.items() if name.startswith(prefix)}
            segment = Segment.from_arrays(own, codings[int(own.pop("coding")[0])])
            live = segment.find_live()
            index._make_room(segment.rows[live])
            index._settle(segment, segment.rows[live], live.astype(np.int32))
            index._segments.append(segment)
            index._n_rows += live.size
        if codings:
            index._coding = max(codings, key=lambda coding: coding.trained_on)
        index._publish()
        return index

    # ---- invariants

    def check_invariants(self) -> None:
        """Raise ``InvariantError`` unless every living slot is the home of its row, and no row has another home."""
        _check_homes(self._parts, self._home, self._slot_of, self._n_rows)
        if {id(part) for part in self._snapshot.parts} != {id(part) for part in self._parts.values()}:
            raise InvariantError("the snapshot does not show the present parts")

    # ---- inside

    def _checked(self, values: _FloatArray) -> _FloatArray:
        """Return a contiguous, writable float64 matrix: a kernel has one compiled form, for those."""
        values = np.ascontiguousarray(values, np.float64)
        if not values.flags.writeable:
            values = values.copy()
        if values.ndim != 2 or values.shape[1] != self.n_axes:
            raise ValueError(f"expected an array of {self.n_axes} columns, not {values.shape}")
        return values

    def _checked_point(self, values: _FloatArray) -> _FloatArray:
        values = np.ascontiguousarray(values, np.float64)
        if values.shape != (self.n_axes,):
            raise ValueError(f"expected {self.n_axes} values, not {values.shape}")
        return values if values.flags.writeable else values.copy()

    def _has(self, row: int) -> bool:
        return 0 <= row < self._home.size and self._home[row] != 0

    def _check_new(self, rows: _RowArray) -> None:
        """Refuse rows that are negative, in use or named twice; make room for the others."""
        if rows.size == 0:
            return
        if rows.min() < 0:
            raise ValueError(f"row {rows.min()} is negative")
        self._make_room(rows)
        if self._home[rows].any():
            raise ValueError(f"row {rows[np.flatnonzero(self._home[rows])[0]]} is in use")
        if rows.size > 1:
            _check_distinct(rows, self._slot_of)

    def _make_room(self, rows: _RowArray) -> None:
        if rows.size and int(rows.max()) >= self._home.size:
            size = max(int(rows.max()) + 1, self._home.size * 3 // 2)
            self._home = np.concatenate((self._home, np.zeros(size - self._home.size, np.int32)))
            self._slot_of = np.concatenate((self._slot_of, np.zeros(size - self._slot_of.size, np.int32)))

    def _settle(self, part: Segment | Delta, rows: _RowArray, slots: npt.NDArray[np.int32]) -> None:
        """Note that these rows live in these slots of a part, which gets a serial if it has none."""
        serial = self._serials.get(id(part))
        if serial is None:
            serial, self._next_serial = self._next_serial, self._next_serial + 1
            self._serials[id(part)] = serial
            self._parts[serial] = part
        self._home[rows] = serial
        self._slot_of[rows] = slots

    def _drop(self, part: Segment | Delta) -> int:
        """Forget a part; return the serial it had (0: none)."""
        serial = self._serials.pop(id(part), 0)
        self._parts.pop(serial, None)
        return serial

    def _publish(self) -> None:
        parts: list[Segment | Delta] = [*self._segments]
        if self._delta is not None:
            parts.append(self._delta)
        self._snapshot = make_snapshot(parts)

    def _take_reader(self, width: int) -> Reader:
        while self._readers:
            try:
                reader = self._readers.pop()
            except IndexError:  # another thread was quicker
                break
            if reader.n_axes == width:
                return reader
        return Reader(width, self._outputs)

    def _add_segment(self, boxes: Boxes, rows: _RowArray) -> None:
        if self._coding is None or not self._coding.suits(boxes):
            self._coding = Coding.train(boxes)
        segment = Segment.build(boxes, rows, self._coding, grids=self._grids)
        self._settle(segment, segment.rows, np.arange(rows.size, dtype=np.int32))
        self._segments.append(segment)
        self._publish()

    def _append(self, boxes: Boxes, rows: _RowArray) -> None:
        if self._delta is not None and not self._delta.has_room(boxes):
            self._flush(absorb=_INLINE)
        if self._delta is None:
            self._delta = Delta.start(boxes, self._coding)
        elif not self._delta.knows(boxes) or self._delta.is_poorly_coded():
            self._rewrite_delta(boxes)
        self._settle(self._delta, rows, self._delta.append(boxes, rows))
        self._publish()

    def _rewrite_delta(self, more: Boxes) -> None:
        """Start the delta again with columns and knots for what it holds and for ``more``."""
        assert self._delta is not None
        old, live = self._delta, self._delta.find_live()
        every = np.arange(more.first.size - 1)
        boxes, rows = gather([(old.boxes, old.rows, live), (more, np.zeros(every.size, np.int32), every)])
        self._delta = Delta.start(boxes, None if old.is_poorly_coded() else old.coding)
        kept, rows = gather([(old.boxes, old.rows, live)])
        self._drop(old)
        if rows.size:
            self._settle(self._delta, rows, self._delta.append(kept, rows))

    def _flush(self, absorb: int) -> None:
        """Turn the delta, and segments no larger than it up to ``absorb`` boxes in all, into one segment."""
        sources: list[Segment | Delta] = [] if self._delta is None else [self._delta]
        total = sum(part.n_live for part in sources)
        claimed = self._plan.sources if self._plan else ()
        whole = absorb > len(self)
        for segment in sorted(self._segments, key=lambda segment: segment.n_live):
            if any(segment is other for other in claimed):
                continue
            if not whole and (segment.n_live > total or total + segment.n_live > absorb):
                break
            sources.append(segment)
            total += segment.n_live
        boxes, rows = gather([(part.boxes, part.rows, part.find_live()) for part in sources])
        result = None
        if rows.size:
            if self._coding is None or not self._coding.suits(boxes):
                self._coding = Coding.train(boxes)
            result = Segment.build(boxes, rows, self._coding, grids=self._grids)
        self._replace(sources, result)

    def _replace(self, sources: list[Segment] | list[Segment | Delta], result: Segment | None) -> None:
        """Swap parts for one that holds their living rows; rows that left meanwhile stay away."""
        serials = np.array([self._drop(part) for part in sources], np.int32)
        self._segments = [s for s in self._segments if not any(s is part for part in sources)]
        if any(part is self._delta for part in sources):
            self._delta = None
        if result is not None:
            self._settle(result, np.zeros(0, np.int32), np.zeros(0, np.int32))
            serial = self._serials[id(result)]
            result.n_dead = adopt_rows(result.rows, serials, serial, self._home, self._slot_of, result.alive)
            self._segments.append(result)
            if self._coding is None or result.n_slots >= self._coding.trained_on:
                self._coding = result.coding
        self._publish()


def _check_distinct(rows: npt.NDArray[np.int32], scratch: npt.NDArray[np.int32]) -> None:
    """Raise ``ValueError`` if a row is named twice; ``scratch`` is written at the places of the rows."""
    scratch[rows] = np.arange(rows.size)
    twice = np.flatnonzero(scratch[rows] != np.arange(rows.size))
    if twice.size:
        raise ValueError(f"row {rows[twice[0]]} is named twice")


def _check_homes(
    parts: Mapping[int, Segment | Delta], home: npt.NDArray[np.int32], slot_of: npt.NDArray[np.int32], n_rows: int
) -> None:
    """Raise ``InvariantError`` unless each of ``n_rows`` rows has one home, a living slot of one part."""
    living = 0
    for serial, part in parts.items():
        slots = part.find_live()
        rows = part.rows[slots]
        if part.n_live != slots.size:
            raise InvariantError(f"part {serial} counts {part.n_live} living slots of {slots.size}")
        if (home[rows] != serial).any() or (slot_of[rows] != slots).any():
            raise InvariantError(f"part {serial} holds a row that lives elsewhere")
        living += slots.size
    if not living == n_rows == np.count_nonzero(home):
        raise InvariantError(f"{n_rows} rows, {living} living slots, {np.count_nonzero(home)} homes")
