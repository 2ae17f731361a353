"""Converts a table of events to points on the axes, column by column, without a loop over events."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import shapely

from tamis.index.packed.axes import SIDES, AttributePart, Axes, Axis, float_above, float_below, string_key
from tamis.index.packed.single_values import SingleValues, taken
from tamis.model.columns import Column
from tamis.model.derived.clocks import clock_column, is_clock
from tamis.model.derived.formula_columns import FormulaPoints, formula_column, formula_points
from tamis.model.derived.formulas import is_formula
from tamis.model.tables import EventTable
from tamis.model.types.column import PointColumn

__all__ = ["Points", "points_of"]

_FloatArray = npt.NDArray[np.float64]
Interval = tuple[_FloatArray, _FloatArray]

#: Integers up to this size are float64.
_EXACT = 2**53


class Points(NamedTuple):
    """Positions of events, float64[n, axes]; ``high`` is ``low`` if all are points. NaN where a value is missing.

    ``between`` are the rows with a number that falls between two float64: boxes only propose for them.
    """

    low: _FloatArray
    high: _FloatArray
    between: npt.NDArray[np.int64]


def points_of(events: EventTable, axes: Axes, n_axes: int) -> Points:
    """Return the points of all events on the first ``n_axes`` axes."""
    low = np.full((len(events), n_axes), np.nan)
    high = low
    between = np.zeros(len(events), bool)
    columns = _Columns(events, axes)
    for number, axis in axes:
        placed = columns.place(axis) if number < n_axes else None
        if placed is None:
            continue
        (lower, upper), present = placed
        if upper is not lower:
            high = low.copy() if high is low else high
            if axis.part is AttributePart.NUMBER:
                between |= (lower != upper) & present
        whole = bool(present.all())
        low[:, number] = lower if whole else np.where(present, lower, np.nan)
        if high is not low:
            high[:, number] = upper if whole else np.where(present, upper, np.nan)
    return Points(low, high, np.flatnonzero(between))


class _Columns:
    """The columns of a table, and those computed from them, each once."""

    def __init__(self, events: EventTable, axes: Axes) -> None:
        self._events = events
        self._axes = axes
        self._texts: dict[str, pa.DictionaryArray] = {}
        self._bounds: dict[str, _FloatArray] = {}
        self._derived: dict[str, Column | None] = {}

    def place(self, axis: Axis) -> tuple[Interval, npt.NDArray[np.bool_]] | None:
        """Return the positions of events on an axis, and which events have one; None if no event has one."""
        if axis.part is AttributePart.NUMBER and is_formula(axis.attribute):
            low, high, present = _computed_points(self._events, axis.attribute)
            return (low, low if np.array_equal(low, high) else high), present
        column = self._column(axis.attribute)
        if column is None:
            return None
        if axis.part in SIDES:
            if axis.attribute not in self._bounds:
                self._bounds[axis.attribute] = _bounds(column)
            sides = _sides(axis.part, self._bounds[axis.attribute], isinstance(column, PointColumn))
            return sides, column.present
        return _interval(axis, column, self._axes, self._texts), column.present

    def _column(self, name: str) -> Column | None:
        columns = self._events.columns
        if name in columns or not (is_clock(name) or is_formula(name)):
            return columns.get(name)
        if name not in self._derived:
            self._derived[name] = clock_column(columns, name) if is_clock(name) else _computed(self._events, name)
        return self._derived[name]


def _computed_points(events: EventTable, name: str) -> FormulaPoints:
    """Return where events lie on the axis of a computed value; some functions ask for all elements of a set."""
    if not isinstance(events, SingleValues):
        return formula_points(events.columns, name, len(events))
    low, high, present = formula_points(events.events.columns, name, len(events.events))
    return FormulaPoints(low[events.origin], high[events.origin], present[events.origin])


def _computed(events: EventTable, name: str) -> Column:
    """Return the computed values of events, as `_computed_points` does of numbers."""
    if not isinstance(events, SingleValues):
        return formula_column(events.columns, name, len(events))
    return taken(formula_column(events.events.columns, name, len(events.events)), events.origin)


def _interval(axis: Axis, column: Column, axes: Axes, texts: dict[str, pa.DictionaryArray]) -> Interval:
    part, values = axis.part, column.values
    if part is AttributePart.NUMBER:
        return _numbers(values, column.present)
    if part in (AttributePart.CODE, AttributePart.KEY):
        return _strings(axis, column, axes, texts)
    flat = values[:, axis.i] if part is AttributePart.COORDINATE else np.zeros(len(column.present))
    return flat, flat


def _bounds(column: Column) -> _FloatArray:
    """Return min x, min y, max x, max y of every region of a column."""
    if column.rings is not None:
        return column.rings.bounds
    if isinstance(column, PointColumn):
        return np.hstack((column.xy, column.xy))
    values = column.values if column.present.all() else np.where(column.present, column.values, None)
    bounds: _FloatArray = shapely.bounds(values)
    return bounds


def _sides(part: AttributePart, bounds: _FloatArray, are_points: bool) -> Interval:
    low, high = (bounds[:, side] for side in SIDES[part])
    return (low, low) if are_points or part not in (AttributePart.X, AttributePart.Y) else (low, high)


def _numbers(values: npt.NDArray[np.generic], present: npt.NDArray[np.bool_]) -> Interval:
    if values.dtype == object:
        lower = _each(float_below, values, present)
        upper = _each(float_above, values, present)
        return (lower, lower) if np.array_equal(lower, upper) else (lower, upper)
    nearest = values.astype(np.float64)
    if values.dtype.kind not in "iu" or len(values) == 0 or (values.max() <= _EXACT and values.min() >= -_EXACT):
        return nearest, nearest
    lower, upper = nearest.copy(), nearest.copy()
    for row in np.flatnonzero(np.abs(nearest) >= _EXACT):
        lower[row], upper[row] = float_below(int(values[row])), float_above(int(values[row]))
    return lower, upper


def _each(
    convert: Callable[[float], float], values: npt.NDArray[np.generic], present: npt.NDArray[np.bool_]
) -> _FloatArray:
    result = np.zeros(len(values))
    for row in np.flatnonzero(present):
        result[row] = convert(values[row])
    return result


def _strings(axis: Axis, column: Column, axes: Axes, texts: dict[str, pa.DictionaryArray]) -> Interval:
    """Return the codes of strings; each distinct string is looked up once."""
    if axis.attribute not in texts:
        texts[axis.attribute] = column.values.dictionary_encode()
    encoded = texts[axis.attribute]
    distinct = encoded.dictionary.to_pylist()
    if axis.part is AttributePart.CODE:
        codes = axes.codes.get(axis.attribute, {})
        mapped = np.array([codes.get(text, -1) for text in distinct], np.float64)
    else:
        mapped = np.array([string_key(text) for text in distinct], np.float64)
    if not len(mapped):
        return np.zeros(len(column.present)), np.zeros(len(column.present))
    flat = mapped[np.asarray(encoded.indices.fill_null(0))]
    return flat, flat
