"""The axes of a dominance index, and corners on them.

An axis is made when the first stored subscription asks for it. Whoever is asked about may name others: there
every stored box is free, so they say nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tamis.index.dominance.outline import ANYWHERE, LOWEST, PRESENT, Outline, Place, Side
from tamis.kernels.boxes.quantise import ANY_VALUE
from tamis.model.subscription import Filter, Values
from tamis.model.tables import SubscriptionTable
from tamis.model.value_set import ValueSet

__all__ = ["SILENT", "Fit", "Space"]

_FloatArray = npt.NDArray[np.float64]
Corners = tuple[_FloatArray, _FloatArray]

#: Parts of an attribute that tell something of covered subscriptions only.
SILENT: Final = frozenset({"w", "*"})


class Fit(NamedTuple):
    """What a stored side must be: ``low_end <= most_low``, ``high_end >= least_high``, both in ``[lo, hi]``."""

    least_high: float
    most_low: float
    lo: float
    hi: float


class Space:
    """Numbers the places of outlines and the strings that are equated.

    >>> from tamis.index.dominance.outline import outline_of
    >>> from tamis.model.language.compiler import compile_text
    >>> space = Space()
    >>> space.stored(outline_of(compile_text("x >= 1 AND s = 'a'").filters))[0].shape
    (3,)
    """

    def __init__(self) -> None:
        self._axis_of: dict[Place, int] = {}
        self._codes: dict[tuple[str, str], float] = {}
        #: Axes that tell something of covered subscriptions only: a coverer may lie anywhere there.
        self._silent: list[int] = []
        #: NaN for both sides of each axis; copying them is quicker than making them.
        self._nowhere = np.full((2, 1), math.nan)

    def __len__(self) -> int:
        return len(self._axis_of) or 1

    def name_places(self, places: Iterable[Place], texts: Mapping[str, str]) -> None:
        """Make the axes and the codes that a subscription needs which is to be added."""
        for place in places:
            if place not in self._axis_of:
                if place[1] in SILENT:
                    self._silent.append(len(self._axis_of))
                self._axis_of[place] = len(self._axis_of)
        for name, text in texts.items():
            self._codes.setdefault((name, text), float(len(self._codes)))

    def has(self, place: Place) -> bool:
        """Whether some stored box names a place."""
        return place in self._axis_of

    def stored(self, outline: Outline) -> Corners:
        """Return the corner of a subscription that is to be added; free axes are infinite. Makes axes."""
        return self.stored_sides(outline.outer, outline.texts)

    def stored_sides(self, sides: Mapping[Place, Side], texts: Mapping[str, str]) -> Corners:
        """Return the corner of a box that is to be added; free axes are infinite. Makes axes."""
        self.name_places(sides, texts)
        lo, hi = self._free(-math.inf), self._free(math.inf)
        self._write(sides, texts, lo, hi)
        return lo, hi

    def asked_sides(self, sides: Mapping[Place, Side], texts: Mapping[str, str]) -> _FloatArray:
        """Return the corner (lo, hi) by which coverers of a box are sought, float64[2, axes]; free axes are NaN."""
        corner = self._bounded(sides, texts)
        for axis in self._silent:
            corner[0, axis], corner[1, axis] = ANYWHERE
        return corner

    def fitting(self, fits: Mapping[Place, Fit], texts: Mapping[str, str]) -> _FloatArray:
        """Return what a box must fit, float64[4, axes]: ends it must reach, ends it must not pass; see `Fit`."""
        corner = np.empty((4, len(self)))
        corner[0], corner[1], corner[2:] = ANY_VALUE, math.inf, math.nan
        for place, fit in fits.items():
            if place[1] == "=":
                code = self._codes.get((place[0], texts[place[0]]), -1.0)
                fit = Fit(code, code, code, code)
            corner[:, self._axis_of[place]] = fit
        return corner

    def asked(self, outline: Outline) -> _FloatArray:
        """Return the corner (lo, hi) by which coverers are sought, float64[2, axes]; free axes are NaN."""
        if outline.inner is None:
            return np.array((self._free(ANYWHERE[0]), self._free(ANYWHERE[1])))
        return self._bounded(outline.inner, outline.texts)

    def around(self, outline: Outline) -> _FloatArray:
        """Return the box (lo, hi) in which everything covered lies, float64[2, axes]; free axes are NaN."""
        return self._bounded(outline.outer, outline.texts)

    def stored_boxes(self, table: SubscriptionTable) -> Corners:
        """Return the corners float64[n, axes] of a table of boxes that are to be added. Makes axes."""
        for name in table.names:
            self._axis_of.setdefault((name, ""), len(self._axis_of))
        return self._spread(table, -math.inf, math.inf)

    def asked_boxes(self, table: SubscriptionTable) -> Corners:
        """Return the corners of a table of boxes that are asked about; free axes are NaN."""
        lo, hi = self._spread(table, math.nan, math.nan)
        free = np.isneginf(lo) & np.isposinf(hi)
        lo[free] = hi[free] = np.nan
        lo[:, self._silent], hi[:, self._silent] = ANYWHERE
        return lo, hi

    def knows(self, outline: Outline) -> bool:
        """Whether some stored box names each place of an outline; otherwise no stored box lies in it."""
        return all(place in self._axis_of for place in outline.outer)

    def unknown_to(self, table: SubscriptionTable) -> npt.NDArray[np.bool_]:
        """Return which boxes of a table name a place that no stored box names."""
        lo, hi = table.corners()
        names = [k for k, name in enumerate(table.names) if (name, "") not in self._axis_of]
        return np.array((np.isfinite(lo[:, names]) | np.isfinite(hi[:, names])).any(axis=1), np.bool_)

    def filter_of(self, box: tuple[Sequence[int], Sequence[float], Sequence[float]] | None) -> Filter:
        """Return the filter of a box that came with a table."""
        if box is None:
            raise KeyError("there is no such box")
        names = {axis: name for (name, part), axis in self._axis_of.items() if part == ""}
        constraints = []
        for axis, lo, hi in zip(*box, strict=True):
            start = None if lo <= ANY_VALUE else (lo, 0)
            stop = None if hi == math.inf else (hi, 1)
            constraints.append(Values(names[axis], ValueSet.between(start, stop)))
        return Filter(tuple(sorted(constraints, key=lambda one: one.attribute)))

    def _bounded(self, sides: Mapping[Place, Side], texts: Mapping[str, str]) -> _FloatArray:
        if self._nowhere.shape[1] != len(self):
            self._nowhere = np.full((2, len(self)), math.nan)
        corner = self._nowhere.copy()
        self._write(sides, texts, corner[0], corner[1])  # quicker than to unpack it
        return corner

    def _free(self, value: float) -> _FloatArray:
        return np.full(len(self), value)

    def _write(self, sides: Mapping[Place, Side], texts: Mapping[str, str], lo: _FloatArray, hi: _FloatArray) -> None:
        for place, side in sides.items():
            axis = self._axis_of.get(place)
            if axis is None:
                continue
            if place[1] == "=" and side != ANYWHERE:
                code = self._codes.get((place[0], texts[place[0]]), -1.0)
                side = (code, code)
            lo[axis], hi[axis] = side

    def _spread(self, table: SubscriptionTable, lowest: float, highest: float) -> Corners:
        """Return the sides of a table on the axes that are known; one-sided ranges demand a value."""
        given_lo, given_hi = table.corners()
        columns = [
            (k, axis) for k, name in enumerate(table.names) if (axis := self._axis_of.get((name, ""))) is not None
        ]
        lo, hi = np.full((len(table), len(self)), lowest), np.full((len(table), len(self)), highest)
        for k, axis in columns:
            low, high = given_lo[:, k], given_hi[:, k]
            open_below = np.isneginf(low) & np.isfinite(high)
            lo[:, axis] = np.where(open_below, PRESENT[0], np.where(low == ANY_VALUE, LOWEST, low))
            hi[:, axis] = high
        return lo, hi
