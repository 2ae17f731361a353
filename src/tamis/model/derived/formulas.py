"""Computes the exact value of an expression for an event.

A computed value has a name, ``=`` and the text of its expression (``=new_price - old_price``), and stands in filters
and indexes like an attribute of that name. No attribute can be called so. It is missing when an attribute of it is
missing, and when the expression has no value: a division by zero, a power that is not real, a result beyond float64.

Numbers are computed as fractions, so there is no rounding: a float64 is the fraction that its bits say. Only a power
whose exponent is not a whole number is rounded, to the nearest float64 of a result of 50 digits. What takes more than
`MOST_BITS` to write down exactly has no value either.
"""

from __future__ import annotations

import decimal
import math
import warnings
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

from tamis.errors import ModelError, shorten
from tamis.model.derived.functions import COMPARE, DECIMAL, Function, find_function
from tamis.model.language.nodes import Arithmetic, Calculated, Call, Expression, Instant, Property
from tamis.model.schema import COMPUTED
from tamis.model.subscription import Filter
from tamis.model.types import ScalarType
from tamis.model.values import INT64_MIN, UINT64_MAX, UnfitError, Value

__all__ = [
    "MOST_BITS",
    "Formula",
    "attributes_of",
    "canonical",
    "event_value",
    "exact",
    "formula_name",
    "formula_of",
    "is_formula",
    "operate",
]

#: Bits of the numerator or denominator of an exact number.
MOST_BITS = 8_192
#: Formulas that are remembered. Beyond the axes of an index every formula is asked about each event; if fewer were
#: remembered, they would be read again each time.
MOST_FORMULAS = 65_536

_LARGEST = int(1.7976931348623157e308)
_MOST_EXPONENT = 1_024
#: Wide enough for every power of a number of `MOST_BITS`: what is beyond float64 is left out afterwards.
_DIGITS = decimal.Context(prec=50, Emax=10**9, Emin=-(10**9), traps=[decimal.Overflow, decimal.InvalidOperation])

_Evaluate = Callable[[Mapping[str, Value]], Any]


class Formula(NamedTuple):
    """An expression that can be evaluated: ``attributes`` are those it needs."""

    expression: Expression
    attributes: tuple[str, ...]
    evaluate: _Evaluate


def is_formula(name: str) -> bool:
    """Whether a name is that of a computed value.

    >>> is_formula("=a - b"), is_formula("a")
    (True, False)
    """
    return name.startswith(COMPUTED)


def formula_name(text: str) -> str:
    """Return the name of the value that an expression computes, given its text."""
    return f"{COMPUTED}{text}"


@lru_cache(maxsize=MOST_FORMULAS)
def formula_of(name: str) -> Formula:
    """Return the formula of a name; `ModelError` when the name is none that `formula_name` makes."""
    from tamis.model.language.parse import parse  # imported late: the parser imports functions of this package

    node = parse(f"{name.removeprefix(COMPUTED)} IS NULL")
    if not isinstance(node, Calculated) or node.op != "NULL" or node.negated:
        raise ModelError(f"{name!r} is not the name of a computed value")
    return Formula(node.operands[0], node.attributes, _compiled(node.operands[0]))


def event_value(event: Mapping[str, Value], name: str) -> Value | None:
    """Return the value of an event under a name: of an attribute, or computed; None when it is missing.

    >>> event_value({"a": 1, "b": 0.5}, "=a / b"), event_value({"a": 1, "b": 0}, "=a / b")
    (2, None)
    """
    value = event.get(name)
    if value is None and name.startswith(COMPUTED):
        return canonical(formula_of(name).evaluate(event))
    return value


def canonical(value: Any) -> Value | None:
    """Return a result in the one form that is compared; None when it is beyond float64."""
    if isinstance(value, Fraction):
        if value.denominator == 1:
            value = value.numerator
        elif abs(value) > _LARGEST:
            return None
        else:
            nearest = float(value)
            return nearest if nearest == value else value
    if type(value) is int and not INT64_MIN <= value <= UINT64_MAX:
        if abs(value) > _LARGEST:
            return None
        nearest = float(value)
        return nearest if nearest == value else Fraction(value)
    canonical_value: Value | None = value
    return canonical_value


def _compiled(expression: Expression) -> _Evaluate:
    """Return a function from an event to the exact value of an expression."""
    if isinstance(expression, Property):
        name = expression.name
        return lambda event: event.get(name)
    if isinstance(expression, Arithmetic):
        return _operation(expression)
    if isinstance(expression, Call):
        return _call(expression)
    constant = expression.microseconds if isinstance(expression, Instant) else expression
    return lambda event: constant


def _operation(expression: Arithmetic) -> _Evaluate:
    op, left, right = expression.op, _compiled(expression.left), _compiled(expression.right)

    def evaluate(event: Mapping[str, Value]) -> Any:
        first, second = left(event), right(event)
        return None if first is None or second is None else operate(op, exact(first), exact(second))

    return evaluate


def exact(value: Any) -> int | Fraction:
    """Return a canonical number as an exact one."""
    return Fraction(value) if type(value) is float else value


def operate(op: str, left: int | Fraction, right: int | Fraction) -> int | Fraction | None:
    """Return the exact result of an operator; None if there is none.

    >>> operate("div", -7, 2), operate("%", -7, 2), operate("^", 2, -1), operate("/", 1, 0)
    (-3, -1, Fraction(1, 2), None)
    """
    if op == "^":
        return _bounded(_power(left, right))
    if op in ("/", "%", "div") and right == 0:
        return None
    if op == "+":
        value: int | Fraction = left + right
    elif op == "-":
        value = left - right
    elif op == "*":
        value = left * right
    else:
        value = Fraction(left) / right
        if op != "/":
            value = int(value) if op == "div" else left - right * int(value)
    return _bounded(value)


def _bounded(value: int | Fraction | None) -> int | Fraction | None:
    """Return a number, None when it takes too many bits."""
    if value is None or value.numerator.bit_length() > MOST_BITS or value.denominator.bit_length() > MOST_BITS:
        return None
    return value


def _power(base: int | Fraction, exponent: int | Fraction) -> int | Fraction | None:
    if not -_MOST_EXPONENT <= exponent <= _MOST_EXPONENT or (base == 0 and exponent < 0):
        return None
    if exponent.denominator != 1:
        return _rounded_power(base, exponent)
    whole = int(exponent)
    bits = max(base.numerator.bit_length(), base.denominator.bit_length())
    if bits * abs(whole) > 2 * MOST_BITS:  # before any work: at most twice what `_bounded` accepts
        return None
    return Fraction(base) ** whole


def _rounded_power(base: int | Fraction, exponent: int | Fraction) -> Fraction | None:
    """Return a power that is irrational in general, as the float64 next to 50 of its digits."""
    if base < 0:
        return None
    if base == 0:
        return Fraction(0)
    try:
        power = _DIGITS.power(
            *(_DIGITS.divide(fraction.numerator, fraction.denominator) for fraction in (base, exponent))
        )
    except decimal.Overflow:
        return None
    nearest = float(power)
    return Fraction(nearest) if math.isfinite(nearest) else None


def _call(call: Call) -> _Evaluate:
    args = [_compiled(arg) for arg in call.args]
    if find_function(call.name) is None:
        raise ModelError(f"the function {call.name} is not registered in this process")
    if call.name == DECIMAL:
        attribute, scale = args[0], 10 ** int(args[1]({}))
        return lambda event: None if (units := attribute(event)) is None else Fraction(units) / scale

    def evaluate(event: Mapping[str, Value]) -> Any:
        values = [arg(event) for arg in args]
        if None in values:
            return None
        values = [canonical(value) for value in values]
        function = find_function(call.name)  # each time: it may be unregistered, or another one by now
        if None in values or function is None:
            return None
        return function.compute(*values) if call.name == COMPARE else _result(function, values)

    return evaluate


def _result(function: Function, values: list[Any]) -> Value | None:
    """Return the result of a user's function; None if it fails: an event must not be able to end the process."""
    try:
        result = function.compute(*values)
    except Exception as error:
        _warn(f"the function {function.name} raised {type(error).__name__}: {shorten(str(error))}")
        return None
    kind: ScalarType = function.returns
    try:
        return None if result is None else kind.canonical(result)
    except UnfitError as error:
        _warn(f"the function {function.name} does not return {kind.words}: {error}")
        return None


def _warn(problem: str) -> None:
    """Warn about a problem with a function, once for each problem by Python's default warning filters."""
    warnings.warn(f"{problem}; the condition counts as unknown", RuntimeWarning, stacklevel=2)


def attributes_of(filter: Filter) -> set[str]:
    """Return the attributes of events that the constraints of a filter need, those of computed values included.

    >>> from tamis.model.language.compiler import compile_text
    >>> sorted(attributes_of(compile_text("a > b AND c < 1").filters[0]))
    ['a', 'b', 'c']
    """
    return {
        attribute
        for name in filter.attributes
        for attribute in (formula_of(name).attributes if is_formula(name) else (name,))
    }
