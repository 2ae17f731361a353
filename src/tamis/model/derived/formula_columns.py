"""Computes expressions for many events at once: a float64 interval around each exact value.

Sums, products, quotients and whole powers are computed in float64 with a bound on the error, which is 0 wherever the
result is exact: the error of a sum or product of two float64 is a float64 itself, and is found by the operations of
Dekker and Knuth. Rows for which that reasoning does not hold (very large and very small numbers) are computed as
fractions, one by one, and so is every expression with another operation in it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tamis.model.columns import Column
from tamis.model.derived.formulas import Formula, canonical, formula_of
from tamis.model.language.nodes import Arithmetic, Expression, Property
from tamis.model.types import Number, String

__all__ = ["FormulaPoints", "formula_column", "formula_points"]

_Floats = npt.NDArray[np.float64]
_Mask = npt.NDArray[np.bool_]

#: Integers up to this size are float64.
_EXACT = 2.0**53
#: Results between these sizes, of operands up to the larger, have an error that is a float64.
_SMALL, _LARGE = 2.0**-900, 2.0**900
_SPLITTER = 2.0**27 + 1
#: The relative error of one operation, rounded up.
_EPSILON = 2.0**-52
#: Whole exponents that are multiplied out.
_MOST_FACTORS = 8


class FormulaPoints(NamedTuple):
    """The interval in which the value of each event lies, float64[n] each, and which events have a value."""

    low: _Floats
    high: _Floats
    present: _Mask


class _Rounded(NamedTuple):
    """Values with bounds on their errors, and the rows that are not covered."""

    values: _Floats
    error: _Floats
    unsure: _Mask


def formula_points(columns: Mapping[str, Column], name: str, n: int) -> FormulaPoints:
    """Return where the events of a table lie on the axis of a computed number."""
    formula = formula_of(name)
    present = _present(columns, formula, n)
    rounded = _rounded(formula.expression, columns, n)
    if rounded is None:
        low, high = np.zeros(n), np.zeros(n)
        unsure = present.copy()
    else:
        with np.errstate(all="ignore"):
            low = np.where(rounded.error > 0, np.nextafter(rounded.values - rounded.error, -np.inf), rounded.values)
            high = np.where(rounded.error > 0, np.nextafter(rounded.values + rounded.error, np.inf), rounded.values)
        unsure = present & (rounded.unsure | ~np.isfinite(low) | ~np.isfinite(high))
    for row in np.flatnonzero(unsure).tolist():
        value: Any = _of_row(columns, formula, row)
        if value is None:
            present[row] = False
        else:
            low[row], high[row] = _around(value)
    return FormulaPoints(low, high, present)


def formula_column(columns: Mapping[str, Column], name: str, n: int) -> Column:
    """Return the computed values of all events, which may be strings."""
    formula = formula_of(name)
    present = _present(columns, formula, n)
    values: list[Any] = [_of_row(columns, formula, row) if present[row] else None for row in range(n)]
    is_there = np.array([value is not None for value in values], np.bool_)
    if any(isinstance(value, str) for value in values):
        return Column(String(), pa.array(values, pa.large_string()), is_there)
    objects = np.empty(n, object)
    objects[:] = [0 if value is None else value for value in values]
    return Column(Number(), objects, is_there)


def _present(columns: Mapping[str, Column], formula: Formula, n: int) -> _Mask:
    """Return which events have all attributes of a formula."""
    present = np.ones(n, np.bool_)
    for attribute in formula.attributes:
        column = columns.get(attribute)
        present &= False if column is None else column.present
    return present


def _of_row(columns: Mapping[str, Column], formula: Formula, row: int) -> Any:
    event = {name: columns[name].value(row) for name in formula.attributes}
    return canonical(formula.evaluate(event))


def _around(value: int | float | Fraction) -> tuple[float, float]:
    nearest = float(value)
    if nearest == value:
        return nearest, nearest
    return (
        (nearest, math.nextafter(nearest, math.inf))
        if nearest < value
        else (math.nextafter(nearest, -math.inf), nearest)
    )


def _rounded(expression: Expression, columns: Mapping[str, Column], n: int) -> _Rounded | None:
    """Return the values of an expression with their errors; None when it has an operation that is not computed so."""
    if isinstance(expression, Property):
        return _of_column(columns.get(expression.name), n)
    if isinstance(expression, Arithmetic):
        return _of_operation(expression, columns, n)
    if isinstance(expression, bool) or not isinstance(expression, int | float):
        return None
    nearest = float(expression)
    return None if nearest != expression else _Rounded(np.full(n, nearest), np.zeros(n), np.zeros(n, np.bool_))


def _of_column(column: Column | None, n: int) -> _Rounded | None:
    if column is None:
        return _Rounded(np.zeros(n), np.zeros(n), np.zeros(n, np.bool_))
    if not isinstance(column.values, np.ndarray) or column.values.dtype.kind not in "fiu":
        return None
    values = column.values.astype(np.float64)
    unsure = np.zeros(n, np.bool_) if column.values.dtype.kind == "f" else np.abs(values) >= _EXACT
    return _Rounded(values, np.zeros(n), unsure)


def _of_operation(expression: Arithmetic, columns: Mapping[str, Column], n: int) -> _Rounded | None:
    left = _rounded(expression.left, columns, n)
    if expression.op == "^":
        exponent = expression.right
        if left is None or not isinstance(exponent, int) or not 1 <= exponent <= _MOST_FACTORS:
            return None
        power = left
        for _ in range(exponent - 1):
            power = _product(power, left)
        return power
    right = _rounded(expression.right, columns, n)
    if left is None or right is None or expression.op not in "+-*/":
        return None
    if expression.op in "+-":
        return _sum(left, right if expression.op == "+" else right._replace(values=-right.values))
    return _product(left, right) if expression.op == "*" else _quotient(left, right)


def _sum(a: _Rounded, b: _Rounded) -> _Rounded:
    with np.errstate(all="ignore"):
        total = a.values + b.values
        other = total - a.values
        lost = (a.values - (total - other)) + (b.values - other)
    return _checked(total, np.abs(lost) + (a.error + b.error), a, b, is_sum=True)


def _product(a: _Rounded, b: _Rounded) -> _Rounded:
    with np.errstate(all="ignore"):
        product = a.values * b.values
        lost = np.abs(_lost_by_product(a.values, b.values, product))
        carried = np.abs(a.values) * b.error + np.abs(b.values) * a.error + a.error * b.error
    return _checked(product, lost + carried, a, b)


def _quotient(a: _Rounded, b: _Rounded) -> _Rounded:
    """Return a quotient; rows whose divisor may be 0 or is not exact are unsure."""
    with np.errstate(all="ignore"):
        quotient = a.values / b.values
        product = quotient * b.values
        is_exact = (product == a.values) & (_lost_by_product(quotient, b.values, product) == 0) & (a.error == 0)
        error = np.where(is_exact, 0.0, np.abs(quotient) * _EPSILON + a.error / np.abs(b.values) * (1 + _EPSILON))
    result = _checked(quotient, error, a, b)
    return result._replace(unsure=result.unsure | (b.values == 0) | (b.error > 0))


def _lost_by_product(a: _Floats, b: _Floats, product: _Floats) -> _Floats:
    """Return a * b - product, which is a float64 (Dekker)."""
    a_high, b_high = _high(a), _high(b)
    a_low, b_low = a - a_high, b - b_high
    lost: _Floats = a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)
    return lost


def _high(values: _Floats) -> _Floats:
    """Return the upper half of the digits of each value (Veltkamp)."""
    scaled = _SPLITTER * values
    high: _Floats = scaled - (scaled - values)
    return high


def _checked(values: _Floats, error: _Floats, a: _Rounded, b: _Rounded, *, is_sum: bool = False) -> _Rounded:
    """Return a result; rows with numbers of a size for which the error is not a float64 are unsure."""
    with np.errstate(all="ignore"):
        grown = np.where(error > 0, error * (1 + 8 * _EPSILON), 0.0)
        sizes = np.maximum(np.maximum(np.abs(a.values), np.abs(b.values)), np.abs(values))
        unsure = a.unsure | b.unsure | ~(sizes < _LARGE)
        if not is_sum:
            least = np.minimum(np.minimum(np.abs(a.values), np.abs(b.values)), np.abs(values))
            unsure |= (least < _SMALL) & (a.values != 0) & (b.values != 0)
        unsure |= (error > 0) & (error < _SMALL * _EPSILON * _EPSILON)
    return _Rounded(values, grown, unsure)
