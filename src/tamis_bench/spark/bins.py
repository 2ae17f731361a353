"""Bins for the joins that `match` is compared with, chosen as a careful user would.

Boxes are copied into every cell they meet, and events look into one. Few attributes leave many candidates for each
event, many attributes and narrow bins make many copies of each box; how many of both is estimated on samples, and what
promises most is left for the joins to try.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["Bins", "BoxesAndEvents", "Cut", "plan_bins"]

#: Bins of one attribute are fewer than this, so that those of four make one number.
_MOST_BINS = 1 << 15
#: Attributes that are cut at most.
_MOST_CUTS = 4
#: Copies of boxes that a join may keep in memory.
_MOST_COPIES = 12_000_000
#: How wide bins are, in mean sides.
_WIDTHS = (0.25, 0.5, 1.0, 2.0)
#: Boxes and events that an estimate is made from.
_SAMPLED_BOXES, _SAMPLED_EVENTS = 4_000, 500
#: How many ways to cut are left to be tried.
_TRIED = 3

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class BoxesAndEvents:
    """Closed boxes, an infinite side is open, and the events that will meet them: float64[n, d] each."""

    names: tuple[str, ...]
    lo: FloatArray
    hi: FloatArray
    points: FloatArray


@dataclass(frozen=True)
class Cut:
    """Bins of one size on one attribute, from the lowest to the highest value that an event has there."""

    name: str
    size: float
    low: float
    high: float


@dataclass(frozen=True)
class Bins:
    """Cells over some attributes, and what they cost by estimate: copies of boxes in all, candidates of an event."""

    cuts: tuple[Cut, ...]
    copies: float
    candidates: float

    def __str__(self) -> str:
        return f"bins on {', '.join(f'{cut.name} ({cut.size:.3g} wide)' for cut in self.cuts)}"

    @property
    def weighted(self) -> list[tuple[Cut, int]]:
        """Each cut, and by how much to multiply its bin so that the bins of all add up to one number."""
        return [(cut, _MOST_BINS**place) for place, cut in enumerate(self.cuts)]


def plan_bins(boxes: BoxesAndEvents, *, attributes: Sequence[int] = range(1, _MOST_CUTS + 1)) -> list[Bins]:
    """Return the most promising ways to cut one to ``_MOST_CUTS`` attributes, the best estimate first.

    The most selective attributes are cut first. A way that makes more copies than fit is left out, unless all do.
    """
    sample = _Sample(boxes)
    numbers = [number for number in attributes if number <= len(boxes.names)]
    ways = [sample.estimate(number, width) for number, width in itertools.product(numbers, _WIDTHS)]
    ways = list(dict.fromkeys(ways))  # bins of single values have one width
    fitting = [bins for bins in ways if bins.copies <= _MOST_COPIES] or [min(ways, key=lambda bins: bins.copies)]
    # A candidate costs a comparison, and a look-up costs more in a larger table of copies.
    return sorted(fitting, key=lambda bins: (1 + bins.candidates) * bins.copies**0.5)[:_TRIED]


def _mean_sides(lo: FloatArray, hi: FloatArray, whole: FloatArray) -> FloatArray:
    """Return the mean side on each attribute of the boxes that have two ends there; the whole where none has."""
    closed = np.isfinite(lo) & np.isfinite(hi)
    sums = (np.where(closed, hi, 0.0) - np.where(closed, lo, 0.0)).sum(axis=0)
    sides: FloatArray = np.where(closed.any(axis=0), sums / np.maximum(closed.sum(axis=0), 1), whole)
    return sides


class _Sample:
    """Some boxes and events, to estimate by."""

    def __init__(self, boxes: BoxesAndEvents) -> None:
        self._names, self._n = boxes.names, len(boxes.lo)
        self._low, self._high = boxes.points.min(axis=0), boxes.points.max(axis=0)
        some = np.linspace(0, self._n - 1, min(self._n, _SAMPLED_BOXES)).astype(np.intp)
        lo, hi = np.maximum(boxes.lo[some], self._low), np.minimum(boxes.hi[some], self._high)
        reachable = (lo <= hi).all(axis=1)  # the others lie outside the range of all events
        self._share = float(reachable.mean())
        self._lo, self._hi = lo[reachable], hi[reachable]
        step = max(1, len(boxes.points) // _SAMPLED_EVENTS)
        self._points = boxes.points[::step][:_SAMPLED_EVENTS]
        self._sides = _mean_sides(boxes.lo[some], boxes.hi[some], self._high - self._low)
        self._axes = np.argsort([self._hits(axis, None).mean() for axis in range(len(self._names))], kind="stable")

    def estimate(self, number: int, width: float) -> Bins:
        """Return bins of this many mean sides on the most selective attributes."""
        cuts = {int(axis): self._cut(int(axis), width) for axis in self._axes[:number]}
        copies, candidates = np.ones(len(self._lo)), np.ones((len(self._points), len(self._lo)), np.bool_)
        for axis, cut in cuts.items():
            first, last = (np.floor((side[:, axis] - cut.low) / cut.size) for side in (self._lo, self._hi))
            copies *= last - first + 1
            candidates &= self._hits(axis, cut)
        n = self._n * self._share
        return Bins(tuple(cuts.values()), n * float(copies.mean()), n * float(candidates.mean()))

    def _cut(self, axis: int, width: float) -> Cut:
        low, high = float(self._low[axis]), float(self._high[axis])
        narrowest = max((high - low) / (_MOST_BINS - 1), np.finfo(float).tiny)
        return Cut(self._names[axis], max(width * float(self._sides[axis]), narrowest), low, high)

    def _hits(self, axis: int, cut: Cut | None) -> npt.NDArray[np.bool_]:
        """Return which events lie in a bin of which boxes; without a cut, in which boxes."""
        lo, hi, points = self._lo[:, axis], self._hi[:, axis], self._points[:, axis, None]
        if cut is not None:
            lo, hi, points = (np.floor((values - cut.low) / cut.size) for values in (lo, hi, points))
        hits: npt.NDArray[np.bool_] = (lo <= points) & (points <= hi)
        return hits
