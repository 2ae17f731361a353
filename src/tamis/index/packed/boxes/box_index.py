"""The box index: a small delta, several packed segments, tombstones, merges; one writer, many readers.

* The parts, and how they are flushed and merged, are `parts`; a box enters the delta (scanned whole, about three
  microseconds) or, in bulk, becomes a segment.
* Removing a row clears one alive bit, found through the row's home (`homes`). Alive bits belong to a part, so a row
  that was removed can be added again at once.

Readers take ``snapshot`` once and work on it; the writer replaces it after each change of the parts. Removals show at
once (the bits are shared), additions with the next snapshot. The parts and homes are the writer's alone. An axis is
there before the boxes that need it, so no axis of a snapshot lies beyond an ``n_axes`` that is read after it.

Answers are exact on float64 closed boxes: every code that ties is settled on the float64 ends.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tamis.index.packed.boxes.coding import boxes_from_dense
from tamis.index.packed.boxes.matching import ReaderPool, Snapshot, make_snapshot
from tamis.index.packed.boxes.merge import SegmentMerge
from tamis.index.packed.boxes.parts import BoxParts
from tamis.index.packed.boxes.segment import LAYOUTS
from tamis.index.saved_arrays import MOST_ROWS, SavedArrays

__all__ = ["BoxIndex", "SegmentMerge", "checked_matrix", "match_values"]

_FloatArray = npt.NDArray[np.float64]
_RowArray = npt.NDArray[np.int32]

_MOST_AXES: Final = 32_767  # an axis is an int16
#: Below this number rows are sorted as a list.
_FEW_ROWS: Final = 64


class BoxIndex:
    """Closed boxes over ``n_axes`` axes, each known by an int32 row; finds the rows an event meets.

    Guarantee: EXACT on float64. Cost of a match: a walk of each segment plus a scan of the delta. Not for
    boxes with thousands of axes each.

    Rows are the caller's numbers, not negative and unique; memory grows with the largest one. An event
    value is an interval ``[low, high]`` (a point if both are equal), NaN in both where it is missing. A box
    side ``-inf, +inf`` is free and accepts a missing value; ``ANY_VALUE, +inf`` demands one. Segments have one of
    ``layouts`` (:data:`tamis.index.packed.boxes.segment.LAYOUTS`), the one that costs least.

    >>> index = BoxIndex(2)
    >>> index.add_boxes(np.array([[0.0, -np.inf]]), np.array([[10.0, np.inf]]), np.array([7], np.int32))
    >>> index.match_point(np.array([10.0, np.nan]))
    array([7], dtype=int32)
    """

    def __init__(self, n_axes: int, layouts: Collection[int] = LAYOUTS) -> None:
        self.n_axes = 0
        self._parts = BoxParts(layouts)
        self._readers = ReaderPool()
        self._rows_per_event = 1.0
        #: What readers see now; never changed, only replaced.
        self.snapshot = make_snapshot([], 0)
        self.grow(n_axes)

    def __len__(self) -> int:
        """Count the living boxes."""
        return len(self._parts.homes)

    # ---- writing

    def add_boxes(self, lo: _FloatArray, hi: _FloatArray, rows: _RowArray) -> None:
        """Add closed boxes float64[n, n_axes]; a bad box or a row in use raises and adds nothing."""
        lo, hi = checked_matrix(lo, self.n_axes), checked_matrix(hi, self.n_axes)
        rows = np.ascontiguousarray(rows, np.int32)
        if lo.shape != hi.shape or rows.shape != lo.shape[:1]:
            raise ValueError(f"lo {lo.shape}, hi {hi.shape} and rows {rows.shape} do not belong together")
        boxes = boxes_from_dense(lo, hi)
        self._parts.homes.check_new(rows)
        if rows.size:
            self._parts.add(boxes, rows)
            self._publish()

    def remove(self, rows: _RowArray) -> None:
        """Remove rows; if one is absent, raise ``KeyError`` and remove nothing."""
        self._parts.homes.remove(np.atleast_1d(np.asarray(rows, np.int32)))

    def remove_one(self, row: int) -> None:
        """Remove one row, ten times as fast as :meth:`remove`; raise ``KeyError`` if it is absent."""
        self._parts.homes.remove_one(row)

    def grow(self, n_axes: int) -> None:
        """Add axes at the end; the boxes that are here leave them free. There are at most 32,767."""
        if not self.n_axes <= n_axes <= _MOST_AXES:
            raise ValueError(f"an index of {self.n_axes} axes cannot have {n_axes}")
        self.n_axes = n_axes
        self.snapshot = self.snapshot._replace(n_axes=n_axes)

    # ---- reading

    def match_point(
        self, low: _FloatArray, high: _FloatArray | None = None, snapshot: Snapshot | None = None
    ) -> _RowArray:
        """Return the rows whose box meets one event, float64[n_axes]; order is free.

        Against a ``snapshot`` that was taken earlier the event may have more values, on axes that came later.
        """
        if snapshot is None:
            snapshot, n_axes = self.snapshot, self.n_axes
        else:
            n_axes = max(low.size, snapshot.n_axes)
        low_argument, low = low, _checked_point(low, n_axes)
        high = low if high is None or high is low_argument else _checked_point(high, n_axes)
        self._parts.recent.note(low)
        reader = self._readers.take(n_axes)
        rows = reader.match_one(snapshot, low, high)
        self._readers.give(reader)
        return rows

    def meet_points(self, low: _FloatArray, high: _FloatArray, met: npt.NDArray[np.bool_], snapshot: Snapshot) -> None:
        """Set ``met`` bool[n] of each of n events float64[n, n_axes] that meets a box; a set one is passed over.

        ``snapshot`` as in :meth:`match_point`.
        """
        n_axes = max(low.shape[-1], snapshot.n_axes)
        low, same = checked_matrix(low, n_axes), high is low
        reader = self._readers.take(n_axes)
        reader.meet(snapshot, low, low if same else checked_matrix(high, n_axes), met)
        self._readers.give(reader)

    def match_points(
        self, low: _FloatArray, high: _FloatArray | None = None, snapshot: Snapshot | None = None
    ) -> tuple[npt.NDArray[np.int64], _RowArray]:
        """Return CSR offsets int64[n + 1] and rows of n events float64[n, n_axes]; order inside an event is free.

        ``snapshot`` as in :meth:`match_point`.
        """
        if snapshot is None:
            snapshot, n_axes = self.snapshot, self.n_axes
        else:
            n_axes = max(low.shape[-1], snapshot.n_axes)
        low_argument, low = low, checked_matrix(low, n_axes)
        high = low if high is None or high is low_argument else checked_matrix(high, n_axes)
        if low.shape != high.shape:
            raise ValueError(f"low {low.shape} and high {high.shape} do not belong together")
        reader = self._readers.take(n_axes)
        offsets, rows = reader.match(snapshot, low, high, self._rows_per_event)
        self._readers.give(reader)
        if low.shape[0]:
            self._parts.recent.note_some(low)
            self._rows_per_event = rows.size / low.shape[0]
        return offsets, rows

    def find_box(self, row: int) -> tuple[list[int], list[float], list[float]] | None:
        """Return the axes, lower and upper ends that a row constrains; None when it is not here."""
        home = self._parts.homes.find(row)
        if home is None:
            return None
        part, slot = home
        boxes = part.boxes
        own = slice(int(boxes.first[slot]), int(boxes.first[slot + 1]))
        return boxes.axis[own].tolist(), boxes.ends[own, 0].tolist(), boxes.ends[own, 1].tolist()

    def rows(self) -> _RowArray:
        """Return the living rows, ascending."""
        return self._parts.homes.rows()

    def statistics(self) -> dict[str, Any]:
        """Describe the parts: rows, dead slots, bytes, layouts."""
        return self._parts.statistics()

    # ---- merging

    def wants_merge(self) -> bool:
        """Return whether there is something to gain."""
        return self._parts.wants_merge()

    def plan_merge(self) -> SegmentMerge | None:
        """Propose a merge, or None if there is nothing to gain. An earlier plan that is not installed lapses."""
        return self._parts.plan_merge()

    def install(self, plan: SegmentMerge) -> bool:
        """Replace the segments of a plan by its result; return False if the plan lapsed."""
        installed = self._parts.install(plan)
        if installed:
            self._publish()
        return installed

    def compact(self) -> _RowArray:
        """Merge everything into one segment, now; return the rows in its order."""
        rows = self._parts.compact()
        self._publish()
        return rows

    # ---- saving

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the whole index as named arrays; the delta is flushed first."""
        arrays = self._parts.to_arrays(self.n_axes)
        self._publish()
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]], n_rows: int = MOST_ROWS) -> BoxIndex:
        """Open an index on arrays as :meth:`to_arrays` gave them; they may be read-only and stay in use.

        All of them are checked: `SnapshotError` if a kernel could not use them safely, or a row is not below
        ``n_rows``.
        """
        index, saved = cls(0), SavedArrays.of(arrays)
        n_axes = index._parts.open_arrays(saved, n_rows)
        if not 0 < n_axes <= _MOST_AXES:
            saved.refuse("index", f"speaks of {n_axes} axes; there are 1 to {_MOST_AXES:,}")
        index.grow(n_axes)
        index._publish()
        return index

    # ---- invariants

    def check_invariants(self) -> None:
        """Raise ``InvariantError`` unless every living slot is the home of its row, and no row has another home."""
        self._parts.homes.check_invariants(self.snapshot.parts)

    # ---- inside

    def _publish(self) -> None:
        self.snapshot = make_snapshot(self._parts.present(), self.n_axes)


def match_values(index: BoxIndex, values: Sequence[float], snapshot: Snapshot) -> list[int]:
    """Return the rows whose box meets one event, as many numbers as the snapshot has axes, ascending.

    The short road for single events: a third of :meth:`BoxIndex.match_point`.
    """
    if snapshot.bitmaps.size:
        point = np.array(values)
        return _ascending(index.match_point(point, point, snapshot))
    index._parts.recent.note(values)
    reader = index._readers.take(len(values))
    rows = _ascending(reader.match_values(snapshot, values))
    index._readers.give(reader)
    return rows


def _ascending(rows: _RowArray) -> list[int]:
    """Return rows in order; few of them are sorted more quickly as a list."""
    ordered: list[int] = sorted(rows.tolist()) if len(rows) < _FEW_ROWS else np.sort(rows).tolist()
    return ordered


def checked_matrix(values: _FloatArray, n_axes: int) -> _FloatArray:
    """Return a contiguous, writable float64 matrix: a kernel has one compiled form, for those."""
    values = np.ascontiguousarray(values, np.float64)
    if not values.flags.writeable:
        values = values.copy()
    if values.ndim != 2 or values.shape[1] != n_axes:
        raise ValueError(f"expected an array of {n_axes} columns, not {values.shape}")
    return values


def _checked_point(values: _FloatArray, n_axes: int) -> _FloatArray:
    values = np.ascontiguousarray(values, np.float64)
    if values.shape != (n_axes,):
        raise ValueError(f"expected {n_axes} values, not {values.shape}")
    return values if values.flags.writeable else values.copy()
