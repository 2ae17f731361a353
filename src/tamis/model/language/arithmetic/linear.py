"""Converts expressions to sums ``c1 * t1 + ... + cn * tn + c``, so that equal sums are written the same way.

A *term* is an attribute, a call, or an operation on other sums that is not itself a sum: a product, quotient or power.
Two conditions whose sums differ by a factor, an order or a constant have the same terms and coefficients once the
constant is on the other side, and so they speak of the same computed value.

The coefficients of a written sum are integers without a common divisor, the first one positive. Where these would be
beyond 2**53, they are divided by the largest instead, so that no sum of ordinary numbers is beyond float64.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import NamedTuple

from tamis.errors import shorten
from tamis.model.language import limits
from tamis.model.language.arithmetic.writing import expression_text
from tamis.model.language.nodes import Arithmetic, Expression
from tamis.model.values import INT64_MIN, UINT64_MAX, Number, UnfitError

__all__ = ["Scaled", "Sum", "as_literal", "calculated"]

_LARGEST = 2**53


class Scaled(NamedTuple):
    """``factor * expression``, the expression written in the one form that all multiples of it share."""

    factor: Fraction
    expression: Expression


class Sum(NamedTuple):
    """Terms with their coefficients, and a constant. A term with the coefficient 0 must have a value all the same."""

    terms: Mapping[Expression, Fraction]
    constant: Fraction = Fraction(0)

    @property
    def is_constant(self) -> bool:
        """Whether the sum has one value, whatever the terms are."""
        return not any(self.terms.values())

    @property
    def cancelled(self) -> list[Expression]:
        """The terms whose coefficient is 0."""
        return [term for term, coefficient in self.terms.items() if not coefficient]

    def plus(self, other: Sum, factor: Fraction) -> Sum:
        """Return this sum and a multiple of another one."""
        terms = dict(self.terms)
        for term, coefficient in other.terms.items():
            terms[term] = terms.get(term, Fraction(0)) + factor * coefficient
        return Sum(terms, self.constant + factor * other.constant)

    def scaled(self) -> Scaled:
        """Return the sum as a multiple of its written form; a constant is its own form."""
        ordered = sorted((expression_text(term), term, c) for term, c in self.terms.items() if c)
        if not ordered:
            return Scaled(Fraction(1), as_literal(self.constant))
        factor = _common_factor([c for _, _, c in ordered] + ([self.constant] if self.constant else []))
        written: Expression | None = None
        for _, term, coefficient in ordered:
            written = _added(written, coefficient / factor, term)
        assert written is not None
        if self.constant:
            rest = self.constant / factor
            written = Arithmetic("+" if rest > 0 else "-", written, as_literal(abs(rest)))
        return Scaled(factor, written)


def _common_factor(coefficients: list[Fraction]) -> Fraction:
    """Return what the coefficients are divided by."""
    sign = 1 if coefficients[0] > 0 else -1
    above = math.gcd(*(coefficient.numerator for coefficient in coefficients))
    below = math.lcm(*(coefficient.denominator for coefficient in coefficients))
    factor = Fraction(above, below)
    largest = max(map(abs, coefficients))
    return sign * (factor if largest / factor <= _LARGEST else largest)


def _added(written: Expression | None, coefficient: Fraction, term: Expression) -> Expression:
    size = as_literal(abs(coefficient))
    part = term if size == 1 else Arithmetic("*", size, term)
    if written is None:
        return part if coefficient > 0 else Arithmetic("*", as_literal(coefficient), term)
    return Arithmetic("+" if coefficient > 0 else "-", written, part)


def as_literal(value: Fraction) -> Number:
    """Return a number as a literal: an integer or a float64 if it is one, else the fraction.

    >>> as_literal(Fraction(6, 3)), as_literal(Fraction(1, 2)), as_literal(Fraction(1, 3))
    (2, 0.5, Fraction(1, 3))
    """
    if value.denominator == 1 and INT64_MIN <= value.numerator <= UINT64_MAX:
        return value.numerator
    if value.denominator & (value.denominator - 1) == 0 and abs(value) < 2**1024:
        nearest = value.numerator / value.denominator if abs(value.numerator) < 2**1024 else math.inf
        if math.isfinite(nearest) and nearest == value:
            return nearest
    return value


def calculated(op: str, left: Sum, right: Sum) -> Sum:
    """Return ``left op right``, folded if it is a sum; raise `UnfitError` if it has no value for any event."""
    if op in "+-":
        return left.plus(right, Fraction(1 if op == "+" else -1))
    if right.is_constant and op in ("/", "%", "div") and right.constant == 0:
        raise UnfitError("division by zero")
    if right.is_constant and op in "*/":
        factor = right.constant if op == "*" else 1 / right.constant
        return Sum(dict.fromkeys(right.terms, Fraction(0))).plus(left, factor)
    if left.is_constant and op == "*":
        return calculated(op, right, left)
    if left.is_constant and right.is_constant:
        return _folded(op, left, right)
    if op == "^" and right.is_constant:
        limits.EXPONENT.check(math.ceil(abs(right.constant)))
    return _opaque(op, left, right)


def _folded(op: str, left: Sum, right: Sum) -> Sum:
    """Return an operation on two constants that is neither a sum nor a product."""
    from tamis.model.derived.formulas import operate  # late: it reads expressions, and this module writes them

    if op == "^":
        limits.EXPONENT.check(math.ceil(abs(right.constant)))
    value = operate(op, left.constant, right.constant)
    if value is None:
        written = expression_text(Arithmetic(op, as_literal(left.constant), as_literal(right.constant)))
        raise UnfitError(f"{shorten(written)} has no value, or one beyond all numbers")
    return Sum(dict.fromkeys([*left.terms, *right.terms], Fraction(0)), Fraction(value))


def _opaque(op: str, left: Sum, right: Sum) -> Sum:
    """Return an operation as a term of its own; factors come out of products and quotients."""
    terms = dict.fromkeys([*left.cancelled, *right.cancelled], Fraction(0))
    if op in "*/":
        first, second = left.scaled(), right.scaled()
        factor = first.factor * second.factor if op == "*" else first.factor / second.factor
        operands = [first.expression, second.expression]
        if op == "*":
            operands.sort(key=expression_text)
    else:
        factor, operands = Fraction(1), [_unscaled(left), _unscaled(right)]
    terms[Arithmetic(op, operands[0], operands[1])] = factor
    return Sum(terms)


def _unscaled(terms: Sum) -> Expression:
    """Return a sum as one expression, its factor included."""
    factor, expression = terms.scaled()
    return expression if factor == 1 or terms.is_constant else Arithmetic("*", as_literal(factor), expression)
