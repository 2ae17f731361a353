"""Merges segments without blocking readers or the writer.

A :class:`SegmentMerge` is made by the writer (it notes the segments and copies their alive bits), *run* anywhere
(pure computation on immutable arrays, the GIL is released in the kernels), and *installed* by the writer.
Between making and installing, rows may be removed or removed and added again: the index notices at
installation, because such a row no longer lives in one of the plan's segments.

Policy, after an LSM tree: with more than ``KEEP`` segments the smallest are merged, together with every
larger one that is not more than ``RATIO`` times what is merged so far, so a box is rewritten about
``log(n) / log(RATIO)`` times. A segment with many dead slots is rewritten alone.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from tamis.index.packed.boxes.choosing import RecentEvents, build_segment
from tamis.index.packed.boxes.coding import Coding
from tamis.index.packed.boxes.segment import Segment
from tamis.kernels.boxes.sparse import Boxes, take_boxes

__all__ = ["SegmentMerge", "choose_segments", "gather", "wants_merge"]

KEEP: Final = 4
RATIO: Final = 8
#: A segment with this share of dead slots is rewritten.
_MOST_DEAD: Final = 0.3


def wants_merge(segments: Sequence[Segment]) -> bool:
    """Return, by a fast check, whether `choose_segments` would choose any."""
    return len(segments) > KEEP or any(_is_mostly_dead(segment) for segment in segments)


def _is_mostly_dead(segment: Segment) -> bool:
    return segment.n_dead > _MOST_DEAD * segment.n_slots


def choose_segments(segments: Sequence[Segment]) -> list[Segment]:
    """Return the segments that should become one, or none."""
    by_size = sorted(segments, key=lambda segment: segment.n_live)
    if len(by_size) > KEEP:
        chosen, total = by_size[:2], by_size[0].n_live + by_size[1].n_live
        for segment in by_size[2:]:
            if segment.n_live > RATIO * total:
                break
            chosen.append(segment)
            total += segment.n_live
        return chosen
    return [segment for segment in by_size if _is_mostly_dead(segment)][:1]


def gather(
    parts: Sequence[tuple[Boxes, npt.NDArray[np.int32], npt.NDArray[np.int64]]],
) -> tuple[Boxes, npt.NDArray[np.int32]]:
    """Join the chosen slots of several parts, each given as boxes, rows and slots."""
    n = sum(slots.size for _, _, slots in parts)
    entries = sum(
        int((boxes.first[slots + 1].astype(np.int64) - boxes.first[slots]).sum()) for boxes, _, slots in parts
    )
    joined = Boxes(np.zeros(n + 1, np.uint32), np.empty(entries, np.int16), np.empty((entries, 2)))
    count = 0
    for boxes, _, slots in parts:
        count = take_boxes(boxes, slots, joined, count)
    rows = [rows[slots] for _, rows, slots in parts]
    return joined, np.concatenate(rows) if rows else np.zeros(0, np.int32)


class SegmentMerge:
    """Segments to be replaced by one.

    Attributes
    ----------
    sources
        The segments, as they were when the plan was made.
    result
        The new segment after :meth:`run`; None before, and also if nothing was left alive.
    n_dead
        How many removed rows the new segment leaves out.
    done
        Whether :meth:`run` has finished.
    """

    def __init__(
        self, sources: Sequence[Segment], coding: Coding | None, layouts: Collection[int], recent: RecentEvents
    ) -> None:
        self.sources = tuple(sources)
        self.result: Segment | None = None
        self.n_dead = sum(segment.n_dead for segment in sources)
        self.done = False
        self._alive = [segment.alive.copy() for segment in sources]
        self._coding, self._layouts, self._recent = coding, layouts, recent

    def run(self) -> None:
        """Build the new segment. Changes nothing in the index; may run in any thread."""
        parts = [
            (segment.boxes, segment.rows, segment.find_live(alive))
            for segment, alive in zip(self.sources, self._alive, strict=True)
        ]
        boxes, rows = gather(parts)
        if rows.size:
            coding = self._coding if self._coding and self._coding.suits(boxes) else Coding.train(boxes)
            self.result = build_segment(boxes, rows, coding, self._layouts, self._recent)
        self.done = True
