"""The bounds of many texts of one shape as columns of float64, as an index of boxes takes them.

A range of numbers or moments becomes the closed float64 interval that holds the same float64 values, and an equated
string stays a string. A row whose literals are unusual (another type, an integer beyond 2^53, an empty range) is left
out; the ordinary road decides about it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tamis.model.derived.spatial_functions import METRES
from tamis.model.language import literals
from tamis.model.language.nodes import Instant, Literal
from tamis.model.language.templates.texts import CircleLiterals, RangeCondition, Ranges, Template
from tamis.model.types import Number, ScalarType, String, Timestamp
from tamis.model.values import UnfitError

__all__ = [
    "Circles",
    "TextColumns",
    "can_be_columns",
    "columns_of",
    "columns_of_values",
    "number_ends",
    "read_numbers",
    "read_strings",
]

_Floats = npt.NDArray[np.float64]

#: A point in the plain digits in which nearly all are written.
_POINT = re.compile(r"(?ai:POINT) ?\((-?[0-9]+(?:\.[0-9]+)?) +(-?[0-9]+(?:\.[0-9]+)?)\)")

#: Integers below are float64 values; the next one above reads as this one.
_EXACT = 2.0**53


class Circles(NamedTuple):
    """n circles, float64[n] each: centres, and radii in metres on the sphere, or in the unit of the coordinates."""

    attribute: str
    on_sphere: bool
    x: _Floats
    y: _Floats
    radii: _Floats

    def take(self, chosen: npt.NDArray[np.intp]) -> Circles:
        """Return some of the circles."""
        return self._replace(x=self.x[chosen], y=self.y[chosen], radii=self.radii[chosen])


class TextColumns(NamedTuple):
    """n subscriptions that are one conjunction of ranges each, with or without a circle.

    Attributes
    ----------
    rows
        int32[n], ascending.
    ranges
        The closed interval of each row by attribute, float64[n] twice; an infinite end is open.
    strings
        The only string of each row by attribute.
    is_closed
        Whether each finite end is a number that was written as an end that belongs to the range, and nothing else
        is asked.
    circles
        The circle of each row, for subscriptions that have one.
    free
        Which rows say nothing about an attribute, bool[n], for each attribute that not all rows are about; the ranges
        and strings of these rows have no meaning.
    """

    rows: npt.NDArray[np.int32]
    ranges: dict[str, tuple[_Floats, _Floats]]
    strings: dict[str, list[str]]
    is_closed: bool = False
    circles: Circles | None = None
    free: Mapping[str, npt.NDArray[np.bool_]] = MappingProxyType({})

    def about(self, attribute: str) -> npt.NDArray[np.intp]:
        """Return the positions of the subscriptions that have a range or a string of an attribute."""
        free = self.free.get(attribute)
        return np.arange(len(self.rows)) if free is None else np.flatnonzero(~free)

    def take(self, chosen: npt.NDArray[np.intp], rows: npt.NDArray[np.int32]) -> TextColumns:
        """Return some of the subscriptions, under other rows."""
        ranges = {name: (lo[chosen], hi[chosen]) for name, (lo, hi) in self.ranges.items()}
        positions = chosen.tolist()
        strings = {name: [all[i] for i in positions] for name, all in self.strings.items()}
        circles = None if self.circles is None else self.circles.take(chosen)
        free = {name: mask[chosen] for name, mask in self.free.items()}
        return TextColumns(rows, ranges, strings, self.is_closed, circles, free)


def can_be_columns(template: Template) -> bool:
    """Whether the texts of a template are ranges of numbers or moments, equated strings and one circle at most."""
    if template.ranges is None:
        return False
    return all(
        type(kind) in (Number, Timestamp) or (type(kind) is String and [op for op, _ in conditions] == ["="])
        for kind, conditions in template.ranges.values()
    )


def columns_of(
    template: Template, rows: Sequence[int], written: Sequence[Sequence[str]]
) -> tuple[TextColumns, list[int]]:
    """Return the columns of rows with these literals, and the positions among them of those left out."""

    def read_moments(number: int, column: Sequence[str]) -> list[Literal | None]:
        return [template.read_one(number, literal) for literal in column]

    return _columns(template, rows, list(zip(*written, strict=True)), read_strings, read_moments)


def columns_of_values(
    template: Template, rows: Sequence[int], by_literal: Sequence[Sequence[Any]]
) -> tuple[TextColumns, list[int]]:
    """Return `columns_of` rows whose literals are decoded: numbers, strings, and moments as strings, by literal."""

    def read_moments(number: int, column: Sequence[str]) -> list[Literal | None]:
        return [_find_instant(text) for text in column]

    def all_usual(column: Sequence[str]) -> tuple[list[str], npt.NDArray[np.bool_]]:
        return list(column), np.ones(len(column), np.bool_)

    return _columns(template, rows, by_literal, all_usual, read_moments)


def _columns(
    template: Template,
    rows: Sequence[int],
    by_literal: Sequence[Sequence[Any]],
    decode_strings: Callable[[Sequence[Any]], tuple[list[str], npt.NDArray[np.bool_]]],
    read_moments: Callable[[int, Sequence[Any]], Sequence[Literal | None]],
) -> tuple[TextColumns, list[int]]:
    assert template.ranges is not None  # `can_be_columns`
    usual = np.ones(len(rows), np.bool_)
    ranges: dict[str, tuple[_Floats, _Floats]] = {}
    strings: dict[str, list[str]] = {}
    circles = None
    if template.circle is not None:
        circles, usual = _circles(template.circle, by_literal)
    for name, (kind, conditions) in template.ranges.items():
        if isinstance(kind, String):
            strings[name], is_usual = decode_strings(by_literal[conditions[0].literal])
        else:
            lo, hi = _bounds(kind, conditions, by_literal, read_moments)
            is_usual = lo <= hi  # false for NaN, which stands for an unusual literal
            ranges[name] = lo, hi
        usual &= is_usual
    is_closed = circles is None and _is_closed(template.ranges)
    columns = TextColumns(np.array(rows, np.int32), ranges, strings, is_closed, circles)
    if usual.all():
        return columns, []
    chosen = np.flatnonzero(usual)
    return columns.take(chosen, columns.rows[chosen]), np.flatnonzero(~usual).tolist()


def _is_closed(ranges: Ranges) -> bool:
    return all(
        type(kind) in (Number, String) and all(op in ("=", "<=", ">=") for op, _ in conditions)
        for kind, conditions in ranges.values()
    )


def _circles(literal: CircleLiterals, by_literal: Sequence[Sequence[str]]) -> tuple[Circles, npt.NDArray[np.bool_]]:
    """Return the circles of texts, and which of them are usual: points of the attribute with a known distance."""
    points = [_POINT.fullmatch(text) for text in by_literal[literal.point]]
    x, y = (np.array([math.nan if point is None else float(point[i]) for point in points]) for i in (1, 2))
    radii = read_numbers(by_literal[literal.distance])
    if literal.unit is not None:
        units = [literals.unquote(unit) for unit in by_literal[literal.unit]]
        radii = radii * np.array([METRES.get(unit, math.nan) for unit in units])
    with np.errstate(invalid="ignore"):
        usual = (radii >= 0) & np.isfinite(x + y + radii)
        if literal.is_geodetic:
            usual &= (np.abs(x) <= 180) & (np.abs(y) <= 90)
    return Circles(literal.attribute, literal.is_geodetic, x, y, radii), usual


def _find_instant(text: str) -> Instant | None:
    try:
        return literals.instant("TIMESTAMP", text, 0)
    except (literals.MeaningError, UnfitError):
        return None


def read_strings(written: Sequence[str]) -> tuple[list[str], npt.NDArray[np.bool_]]:
    """Return the strings of literals, and which of the literals are strings."""
    is_usual = np.array([literal[0] == "'" for literal in written], np.bool_)
    return [literals.unquote(literal) for literal in written], is_usual


def _bounds(
    kind: ScalarType,
    conditions: Sequence[RangeCondition],
    by_literal: Sequence[Sequence[Any]],
    read_moments: Callable[[int, Sequence[Any]], Sequence[Literal | None]],
) -> tuple[_Floats, _Floats]:
    """Return the closed intervals that meet all conditions; NaN where a literal is unusual."""
    n = len(by_literal[0])
    lo, hi = np.full(n, -math.inf), np.full(n, math.inf)
    for op, number in conditions:
        if isinstance(kind, Number):
            low, high = number_ends(op, read_numbers(by_literal[number]))
        else:
            low, high = _moment_ends(op, read_moments(number, by_literal[number]))
        lo, hi = np.maximum(lo, low), np.minimum(hi, high)
    return lo, hi


def read_numbers(written: Sequence[str]) -> _Floats:
    """Return the numbers of literals; NaN for any other literal, and for an integer that float64 cannot represent."""
    try:
        numbers = np.array(list(map(float, written)))
    except ValueError:  # a string in quotes, or a geometry
        numbers = np.array(
            [math.nan if literal[0] == "'" or literal[0].isalpha() else float(literal) for literal in written]
        )
    numbers[np.abs(numbers) >= _EXACT] = math.nan
    return numbers + 0.0


def number_ends(op: str, value: _Floats) -> tuple[_Floats, _Floats]:
    """Return the closed intervals of the numbers that compare so with values; NaN where a value is NaN."""
    free = np.where(np.isnan(value), math.nan, math.inf)
    if op == "=":
        return value, value
    if op in (">", ">="):
        return (np.nextafter(value, math.inf) if op == ">" else value), free
    return -free, (np.nextafter(value, -math.inf) if op == "<" else value)


def _moment_ends(op: str, values: Sequence[Literal | None]) -> tuple[_Floats, _Floats]:
    """Return the ends for moments, each an integer that may lie between two float64."""
    unusual = np.array([not isinstance(value, Instant) for value in values])
    moments = np.array([value.microseconds if isinstance(value, Instant) else 0 for value in values], np.int64)
    lower = _float_above(moments + (op == ">"))
    upper = np.nextafter(_float_above(moments + (op != "<")), -math.inf)
    lo = lower if op in ("=", ">", ">=") else np.full(len(lower), -math.inf)
    hi = upper if op in ("=", "<", "<=") else np.full(len(upper), math.inf)
    return np.where(unusual, math.nan, lo), np.where(unusual, math.nan, hi)


def _float_above(moments: npt.NDArray[np.int64]) -> _Floats:
    """Return the smallest float64 that is not below each moment of the years 1 to 9999."""
    nearest = moments.astype(np.float64)
    return np.where(nearest.astype(np.int64) >= moments, nearest, np.nextafter(nearest, math.inf))
