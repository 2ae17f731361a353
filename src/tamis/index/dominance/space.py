"""The axes of a dominance index, and corners on them.

An axis is made when the first stored subscription constrains it. A subscription in a query may have other axes:
every stored box is unconstrained there, so these axes decide nothing.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tamis.index.dominance.outline import ANYWHERE, LOWEST, PRESENT, AxisName, Outline, Side
from tamis.index.dominance.patterns.known_texts import KnownTexts
from tamis.index.packed.axes import string_key
from tamis.kernels.boxes.quantise import ANY_VALUE
from tamis.model.language.templates.columns import TextColumns
from tamis.model.subscription import Filter, Values
from tamis.model.tables import SubscriptionTable
from tamis.model.value_set import ValueSet

__all__ = ["SILENT", "Corners", "DominanceSpace", "Fit", "asked_columns", "fitting_columns", "stored_columns"]

_FloatArray = npt.NDArray[np.float64]
Corners = tuple[_FloatArray, _FloatArray]
#: An axis, and the lower and upper ends of n boxes on it.
_ColumnSide = tuple[int, _FloatArray, _FloatArray]

#: Parts of an attribute that describe covered subscriptions only; "l" also describes coverers, if the question has it.
SILENT: Final = frozenset({"w", "*", "l"})


class Fit(NamedTuple):
    """A requirement on a stored side: ``low_end <= most_low``, ``high_end >= least_high``, both in ``[lo, hi]``."""

    least_high: float
    most_low: float
    lo: float
    hi: float


class DominanceSpace:
    """Numbers the places of outlines and the strings that are equated.

    >>> from tamis.index.dominance.outline import outline_of
    >>> from tamis.model.language.compiler import compile_text
    >>> space = DominanceSpace()
    >>> space.stored(outline_of(compile_text("x >= 1 AND s = 'a'").filters))[0].shape
    (3,)
    """

    def __init__(self) -> None:
        #: The axis of each place, and the code of each string that is equated, by attribute and string.
        self.axis_of: dict[AxisName, int] = {}
        self.codes: dict[tuple[str, str], float] = {}
        #: The strings by their codes.
        self.strings = KnownTexts()
        #: Axes that tell something of covered subscriptions only: a coverer may lie anywhere there.
        self.silent: list[int] = []
        #: NaN for both sides of each axis; copying them is faster than creating them.
        self._nowhere = np.full((2, 1), math.nan)

    def __len__(self) -> int:
        return len(self.axis_of) or 1

    def name_places(self, places: Iterable[AxisName], texts: Mapping[str, str]) -> None:
        """Make the axes and the codes that a subscription needs which is to be added."""
        for place in places:
            if place not in self.axis_of:
                if place[1] in SILENT:
                    self.silent.append(len(self.axis_of))
                self.axis_of[place] = len(self.axis_of)
        self.name_strings(texts.items())

    def name_strings(self, strings: Iterable[tuple[str, str]]) -> None:
        """Make the codes of strings that are equated, given with their attributes."""
        for name, text in strings:
            if (name, text) not in self.codes:
                self.codes[name, text] = float(len(self.codes))
                self.strings.append([{name: text}])

    def has(self, place: AxisName) -> bool:
        """Whether some stored box names a place."""
        return place in self.axis_of

    def stored(self, outline: Outline) -> Corners:
        """Return the corner of a subscription that is to be added; free axes are infinite. Makes axes."""
        lo, hi = self.stored_many([(outline.outer, outline.texts)])
        return lo[0], hi[0]

    def stored_many(self, boxes: Sequence[tuple[Mapping[AxisName, Side], Mapping[str, str]]]) -> Corners:
        """Return the corners float64[n, axes] of boxes (sides, texts) that are to be added. Makes axes."""
        for sides, texts in boxes:
            self.name_places(sides, texts)
        lo, hi = np.full((len(boxes), len(self)), -math.inf), np.full((len(boxes), len(self)), math.inf)
        for number, (sides, texts) in enumerate(boxes):
            self._write(sides, texts, lo[number], hi[number])
        return lo, hi

    def asked_sides(self, sides: Mapping[AxisName, Side], texts: Mapping[str, str]) -> _FloatArray:
        """Return the corner (lo, hi) by which coverers of a box are sought, float64[2, axes]; free axes are NaN."""
        corner = self._bounded(sides, texts)
        for axis in self.silent:
            if not corner[0, axis] < math.inf:  # unless the question names it
                corner[0, axis], corner[1, axis] = ANYWHERE
        return corner

    def fitting(self, fits: Mapping[AxisName, Fit], texts: Mapping[str, str]) -> _FloatArray:
        """Return what a box must fit, float64[4, axes]: ends it must reach, ends it must not pass; see `Fit`."""
        corner = np.empty((4, len(self)))
        corner[0], corner[1], corner[2:] = ANY_VALUE, math.inf, math.nan
        for place, fit in fits.items():
            if place[1] == "=" and place[0] in texts:
                code = self.codes.get((place[0], texts[place[0]]), -1.0)
                fit = Fit(code, code, code, code)
            corner[:, self.axis_of[place]] = fit
        return corner

    def asked_outline(self, outline: Outline) -> _FloatArray:
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
            self.axis_of.setdefault((name, ""), len(self.axis_of))
        return self._spread(table, -math.inf, math.inf)

    def asked_boxes(self, table: SubscriptionTable) -> Corners:
        """Return the corners of the boxes of a table, for a question; free axes are NaN."""
        lo, hi = self._spread(table, math.nan, math.nan)
        free = np.isneginf(lo) & np.isposinf(hi)
        lo[free] = hi[free] = np.nan
        lo[:, self.silent], hi[:, self.silent] = ANYWHERE
        return lo, hi

    def knows(self, outline: Outline) -> bool:
        """Whether some stored box names each place of an outline; otherwise no stored box lies in it."""
        return all(place in self.axis_of for place in outline.outer)

    def fitting_boxes(self, table: SubscriptionTable) -> _FloatArray:
        """Return what all boxes fit that the boxes of a table cover, float64[4, n, axes]; see `fitting`."""
        lo, hi = self.asked_boxes(table)
        given_lo, given_hi = table.corners()
        names = [k for k, name in enumerate(table.names) if (name, "") not in self.axis_of]
        nowhere = np.any(np.isfinite(given_lo[:, names]) | np.isfinite(given_hi[:, names]), axis=1, keepdims=True)
        lo, hi = np.where(nowhere, np.inf, lo), np.where(nowhere, -np.inf, hi)
        lo[:, self.silent] = hi[:, self.silent] = math.nan
        return np.array((np.where(np.isnan(lo), ANY_VALUE, lo), np.where(np.isnan(hi), np.inf, hi), lo, hi))

    def filter_of(self, box: tuple[Sequence[int], Sequence[float], Sequence[float]] | None) -> Filter:
        """Return the filter of a box that came with a table."""
        if box is None:
            raise KeyError("there is no such box")
        names = {axis: name for (name, part), axis in self.axis_of.items() if part == ""}
        constraints = []
        for axis, lo, hi in zip(*box, strict=True):
            start = None if lo <= ANY_VALUE else (lo, 0)
            stop = None if hi == math.inf else (hi, 1)
            constraints.append(Values(names[axis], ValueSet.between(start, stop)))
        return Filter(tuple(sorted(constraints, key=lambda constraint: constraint.attribute)))

    def _bounded(self, sides: Mapping[AxisName, Side], texts: Mapping[str, str]) -> _FloatArray:
        if self._nowhere.shape[1] != len(self):
            self._nowhere = np.full((2, len(self)), math.nan)
        corner = self._nowhere.copy()
        self._write(sides, texts, corner[0], corner[1])  # faster than unpacking it
        return corner

    def _free(self, value: float) -> _FloatArray:
        return np.full(len(self), value)

    def _write(
        self, sides: Mapping[AxisName, Side], texts: Mapping[str, str], lo: _FloatArray, hi: _FloatArray
    ) -> None:
        for place, side in sides.items():
            axis = self.axis_of.get(place)
            if axis is None:
                continue
            if place[1] == "=" and side != ANYWHERE:
                code = self.codes.get((place[0], texts[place[0]]), -1.0)
                side = (code, code)
            lo[axis], hi[axis] = side

    def _spread(self, table: SubscriptionTable, lowest: float, highest: float) -> Corners:
        """Return the sides of a table on the axes that are known; one-sided ranges demand a value."""
        given_lo, given_hi = table.corners()
        columns = [
            (k, axis) for k, name in enumerate(table.names) if (axis := self.axis_of.get((name, ""))) is not None
        ]
        lo, hi = np.full((len(table), len(self)), lowest), np.full((len(table), len(self)), highest)
        for k, axis in columns:
            low, high = given_lo[:, k], given_hi[:, k]
            open_below = np.isneginf(low) & np.isfinite(high)
            lo[:, axis] = np.where(open_below, PRESENT[0], np.where(low == ANY_VALUE, LOWEST, low))
            hi[:, axis] = high
        return lo, hi


def stored_columns(space: DominanceSpace, columns: TextColumns) -> Corners:
    """Return the corners float64[n, axes] of closed ranges that are to be added. Makes axes and codes."""
    space.name_strings((name, text) for name, texts in columns.strings.items() for text in texts)
    space.name_places(_places(columns), {})
    return _spread_columns(space, columns, -math.inf, math.inf)


def asked_columns(space: DominanceSpace, columns: TextColumns) -> Corners:
    """Return the corners of closed ranges, for a question; free axes are NaN."""
    lo, hi = _spread_columns(space, columns, math.nan, math.nan)
    for name in (*columns.ranges, *columns.strings):
        pattern = space.axis_of.get((name, "~"))
        if pattern is not None and (name, "") in space.axis_of:
            axis = space.axis_of[name, ""]
            lo[:, pattern], hi[:, pattern] = lo[:, axis], hi[:, axis]
    lo[:, space.silent], hi[:, space.silent] = ANYWHERE
    return lo, hi


def fitting_columns(space: DominanceSpace, columns: TextColumns) -> list[_FloatArray]:
    """Return what all boxes fit that closed ranges cover: one of these, float64[4, n, axes].

    See `DominanceSpace.fitting`.
    """
    by_attribute = [*_range_options(space, columns), *_string_options(space, columns)]
    return [
        _fitting_sides(space, itertools.chain(*sides), len(columns.rows)) for sides in itertools.product(*by_attribute)
    ]


def _fitting_sides(space: DominanceSpace, sides: Iterable[_ColumnSide], n: int) -> _FloatArray:
    """Return what boxes fit that lie in the sides of ``n`` others, float64[4, n, axes]."""
    corner = np.empty((4, n, len(space)))
    corner[0], corner[1], corner[2:] = ANY_VALUE, math.inf, math.nan
    for axis, low, high in sides:
        corner[0, :, axis] = corner[2, :, axis] = low
        corner[1, :, axis] = corner[3, :, axis] = high
    return corner


def _range_options(space: DominanceSpace, columns: TextColumns) -> Iterator[list[list[_ColumnSide]]]:
    for name, (low, high) in columns.ranges.items():
        axis = space.axis_of.get((name, ""))
        yield [] if axis is None else [[(axis, np.maximum(low, PRESENT[0]), high)]]


def _string_options(space: DominanceSpace, columns: TextColumns) -> Iterator[list[list[_ColumnSide]]]:
    """Yield for each attribute what an equated string covers: the same string, or a pattern that it may satisfy."""
    for name, texts in columns.strings.items():
        keys, options = np.array([string_key(text) for text in texts]), list[list[_ColumnSide]]()
        if space.has((name, "")) and space.has((name, "=")):
            codes = np.array([space.codes.get((name, text), -1.0) for text in texts])
            options.append([(space.axis_of[name, ""], keys, keys), (space.axis_of[name, "="], codes, codes)])
        if space.has((name, "w")):
            options.append([(space.axis_of[name, "w"], keys, keys)])
        yield options


def _spread_columns(space: DominanceSpace, columns: TextColumns, lowest: float, highest: float) -> Corners:
    """Return closed ranges on the axes that are known; one-sided ranges demand a value."""
    n = len(columns.rows)
    lo, hi = np.full((n, len(space)), lowest), np.full((n, len(space)), highest)
    for name, (low, high) in columns.ranges.items():
        if (axis := space.axis_of.get((name, ""))) is not None:
            lo[:, axis], hi[:, axis] = np.maximum(low, PRESENT[0]), high
    for name, texts in columns.strings.items():
        if (axis := space.axis_of.get((name, ""))) is not None:
            lo[:, axis] = hi[:, axis] = [string_key(text) for text in texts]
        if (axis := space.axis_of.get((name, "="))) is not None:
            lo[:, axis] = hi[:, axis] = [space.codes.get((name, text), -1.0) for text in texts]
    return lo, hi


def _places(columns: TextColumns) -> list[AxisName]:
    return [*((name, "") for name in (*columns.ranges, *columns.strings)), *((name, "=") for name in columns.strings)]
