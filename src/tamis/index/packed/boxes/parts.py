"""The parts of a box index: one delta and several segments, and how they are flushed and merged.

* A few boxes enter the *delta*; many at once become a segment.
* A full delta is flushed: it becomes a segment together with the segments no larger than it, at once,
  up to ``_INLINE`` boxes. Larger merges are the caller's to run (:meth:`BoxParts.plan_merge`).
* A plan lapses when another one is made or everything is compacted. Until then a flush does not touch its segments.

Invariants: every row lives in one of the present parts (`homes`); an index has one delta at most; the coding for new
segments is the one trained on most boxes, unless new boxes do not suit it. All of this is the writer's.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tamis.index.packed.boxes.choosing import MOST_BYTES, RecentEvents, build_segment
from tamis.index.packed.boxes.coding import Coding
from tamis.index.packed.boxes.delta import CAPACITY, ENTRIES, Delta
from tamis.index.packed.boxes.homes import BoxPart, RowHomes
from tamis.index.packed.boxes.merge import SegmentMerge, choose_segments, gather, wants_merge
from tamis.index.packed.boxes.segment import Segment
from tamis.index.saved_arrays import MOST_ROWS, Below, Declared, SavedArrays
from tamis.kernels import directory as at
from tamis.kernels.boxes.sparse import Boxes

__all__ = ["BoxParts"]

_RowArray = npt.NDArray[np.int32]

#: A flush absorbs segments up to this many boxes in all; building them takes a few milliseconds.
_INLINE: Final = 16_384
#: A batch larger than this becomes a separate segment.
_BULK: Final = CAPACITY // 2

#: Numbers of axes, segments and codings; and the coding of a segment.
_INDEX: Final = {"index": Declared(np.int64, (3,), Below(MOST_ROWS))}
_SEGMENT: Final = {"coding": Declared(np.int64, (1,), Below("codings"))}


class BoxParts:
    """The delta and the segments of an index, and the homes of their rows; segments have one of ``layouts``."""

    def __init__(self, layouts: Collection[int]) -> None:
        self._layouts = layouts
        self.recent = RecentEvents()
        self._coding: Coding | None = None
        self._segments: list[Segment] = []
        self._delta: Delta | None = None
        self._plan: SegmentMerge | None = None
        self.homes = RowHomes()

    def present(self) -> list[BoxPart]:
        """Return every part: the segments, then the delta. May be called by any thread."""
        delta = self._delta
        return [*self._segments] if delta is None else [*self._segments, delta]

    def add(self, boxes: Boxes, rows: _RowArray) -> None:
        """Add boxes under rows that `RowHomes.check_new` has accepted."""
        if rows.size > _BULK or boxes.axis.size > ENTRIES // 2:
            segment = self._build(boxes, rows)
            self.homes.add(segment, segment.rows, np.arange(rows.size, dtype=np.int32))
            self._segments.append(segment)
        elif rows.size:
            delta = self._delta_for(boxes)
            self.homes.add(delta, rows, delta.append(boxes, rows))

    def flush(self, absorb: int = 0, *, quick: bool = True) -> None:
        """Turn the delta, and segments no larger than it up to ``absorb`` boxes in all, into one segment.

        ``quick``: not into bitmaps, which take ten times as long to build, if there is another layout.
        """
        sources = self._to_absorb(absorb)
        boxes, rows = gather([(part.boxes, part.rows, part.find_live()) for part in sources])
        self._replace(sources, self._build(boxes, rows, quick=quick) if rows.size else None)

    def compact(self) -> _RowArray:
        """Merge everything into one segment, now; return the rows in its order."""
        self._plan = None
        self.flush(absorb=len(self.homes) + 1, quick=False)
        return np.concatenate([np.zeros(0, np.int32), *(segment.rows for segment in self._segments)])

    def wants_merge(self) -> bool:
        """Return whether there is something to gain."""
        return wants_merge(self._segments)

    def plan_merge(self) -> SegmentMerge | None:
        """Propose a merge, or None if there is nothing to gain. An earlier plan that is not installed lapses."""
        chosen = choose_segments(self._segments)
        self._plan = SegmentMerge(chosen, self._coding, self._layouts, self.recent) if chosen else None
        return self._plan

    def install(self, plan: SegmentMerge) -> bool:
        """Replace the segments of a plan by its result; return False if the plan lapsed."""
        if plan is not self._plan or not plan.done:
            return False
        self._plan = None
        self._replace(plan.sources, plan.result)
        return True

    def statistics(self) -> dict[str, Any]:
        """Describe the parts: rows, dead slots, bytes, layouts."""
        parts = self.present()
        return {
            "rows": len(self.homes),
            "delta": sum(part.n_live for part in parts if isinstance(part, Delta)),
            "bytes": sum(part.n_bytes for part in parts),
            "most_bytes_per_row": MOST_BYTES,
            "segments": [part.statistics() for part in parts if isinstance(part, Segment)],
        }

    def to_arrays(self, n_axes: int) -> dict[str, npt.NDArray[Any]]:
        """Return all parts of an index of ``n_axes`` axes as named arrays; the delta is flushed first."""
        if self._delta is not None:
            self.flush()
        codings = list({id(segment.coding): segment.coding for segment in self._segments}.values())
        arrays: dict[str, npt.NDArray[Any]] = {"index": np.array([n_axes, len(self._segments), len(codings)], np.int64)}
        for i, coding in enumerate(codings):
            arrays |= {f"coding{i}.{name}": array for name, array in coding.to_arrays().items()}
        for i, segment in enumerate(self._segments):
            arrays[f"segment{i}.coding"] = np.array([codings.index(segment.coding)], np.int64)
            arrays |= {f"segment{i}.{name}": array for name, array in segment.to_arrays().items()}
        return arrays

    def open_arrays(self, arrays: SavedArrays, n_rows: int) -> int:
        """Open the arrays of `to_arrays` after checking them; rows must be below ``n_rows``. Return the number of axes.

        They may be read-only and stay in use; there must be no part yet.
        """
        n_axes, n_segments, n_codings = (int(number) for number in arrays.take(_INDEX)[0]["index"])
        codings = [Coding.from_arrays(arrays.under(f"coding{i}.")) for i in range(n_codings)]
        for i in range(n_segments):
            own = arrays.under(f"segment{i}.")
            number = int(own.take(_SEGMENT, codings=n_codings)[0]["coding"][0])
            segment = Segment.from_arrays(own, codings[number], n_axes, n_rows)
            if not self.homes.add_living(segment):
                own.refuse("rows", "names a row twice, or one of another segment")
            self._segments.append(segment)
        if codings:
            self._coding = max(codings, key=lambda coding: coding.trained_on)
        return n_axes

    # ---- inside

    def _build(self, boxes: Boxes, rows: _RowArray, *, quick: bool = False) -> Segment:
        """Make a segment; ``quick`` as in :meth:`flush`."""
        if self._coding is None or not self._coding.suits(boxes):
            self._coding = Coding.train(boxes)
        layouts = tuple(layout for layout in self._layouts if layout != at.BITMAPS) if quick else ()
        return build_segment(boxes, rows, self._coding, layouts or self._layouts, self.recent)

    def _delta_for(self, boxes: Boxes) -> Delta:
        """Return a delta with room and columns for these boxes."""
        if self._delta is not None and not self._delta.has_room(boxes):
            self.flush(absorb=_INLINE)
        if self._delta is None:
            self._delta = Delta.start(boxes, self._coding)
        elif not self._delta.knows(boxes) or self._delta.is_poorly_coded():
            self._delta = self._rewritten(self._delta, boxes)
        return self._delta

    def _rewritten(self, old: Delta, more: Boxes) -> Delta:
        """Return a delta with the boxes of the old one, and columns and knots for them and for ``more``."""
        live, every = old.find_live(), np.arange(more.first.size - 1)
        boxes, _ = gather([(old.boxes, old.rows, live), (more, np.zeros(every.size, np.int32), every)])
        delta = Delta.start(boxes, None if old.is_poorly_coded() else old.coding)
        kept, rows = gather([(old.boxes, old.rows, live)])
        self.homes.forget(old)
        if rows.size:
            self.homes.move(delta, rows, delta.append(kept, rows))
        return delta

    def _to_absorb(self, absorb: int) -> list[BoxPart]:
        """Return the delta and the segments that a flush joins with it."""
        sources: list[BoxPart] = [] if self._delta is None else [self._delta]
        total = sum(part.n_live for part in sources)
        claimed = self._plan.sources if self._plan else ()
        whole = absorb > len(self.homes)
        for segment in sorted(self._segments, key=lambda segment: segment.n_live):
            if any(segment is other for other in claimed):
                continue
            if not whole and (segment.n_live > total or total + segment.n_live > absorb):
                break
            sources.append(segment)
            total += segment.n_live
        return sources

    def _replace(self, sources: Sequence[BoxPart], result: Segment | None) -> None:
        """Replace parts by one with their living rows; rows that were removed meanwhile are not added again."""
        self.homes.replace(sources, result)
        self._segments = [s for s in self._segments if not any(s is part for part in sources)]
        if any(part is self._delta for part in sources):
            self._delta = None
        if result is not None:
            self._segments.append(result)
            if self._coding is None or result.n_slots >= self._coding.trained_on:
                self._coding = result.coding
