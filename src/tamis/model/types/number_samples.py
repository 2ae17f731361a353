"""Numbers to show that a range is not empty: round ones first, away from the ends of the range.

Numbers are dense, so between two neighbouring float64 there is still a decimal.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction

from tamis.model.value_set import Cut

__all__ = ["numbers_between"]

#: Decimal places tried when a range is too narrow for a rounder number.
_PLACES = 20

#: Digits with which the end of a range that came from a long decimal is written.
_EXACT = 390

#: Round numbers tried; one may be refused, since a decimal that prints like a float64 is that float64.
_TRIES = 4


def numbers_between(start: Cut | None, stop: Cut | None) -> Iterator[int | float | Decimal]:
    """Yield round numbers strictly inside, then the ends (of which the caller keeps those that belong)."""
    low = None if start is None else _among_decimals(start[0])
    high = None if stop is None else _among_decimals(stop[0])
    if low is None:
        low = Fraction(-1) if high is None else min(high - _room(high), Fraction(-1))
    if high is None:
        high = max(low + _room(low), Fraction(1))
    if low < 0 < high:
        yield 0
    if low < high:
        yield from _rounded(low, high)
    yield from (_raw(end[0]) for end in (start, stop) if end is not None)
    if low < high:
        yield _decimal((low + high) / 2)
        for value in (start, stop):
            if value is not None:
                yield from (math.nextafter(value[0], math.inf), math.nextafter(value[0], -math.inf))


def _room(end: Fraction) -> Fraction:
    return 2 * max(abs(end), Fraction(1))


def _rounded(low: Fraction, high: Fraction) -> Iterator[Decimal]:
    """Yield multiples of large powers of ten that lie strictly between, near the middle if possible."""
    width, middle = high - low, (low + high) / 2
    exponent = len(str(width.numerator)) - len(str(width.denominator))
    rounded = 0
    for power in range(exponent + 1, exponent - _PLACES, -1):
        step = Fraction(10) ** power
        multiple = round(middle / step)
        if not low < multiple * step < high:
            multiple = math.floor(low / step) + 1
        if multiple * step < high:
            yield Decimal(f"{multiple}E{power}")  # scaleb would round to the context's digits
            rounded += 1
        if rounded == _TRIES:
            return


def _among_decimals(value: int | float | Fraction) -> Fraction:
    """Return the decimal that a canonical number stands for: the inverse of `decimal_number`."""
    if isinstance(value, int) or (isinstance(value, float) and 2**53 <= abs(value) <= 2**64):
        return Fraction(value)
    if isinstance(value, float):
        return Fraction(repr(value))
    near = float(value)
    low = near if near < value else math.nextafter(near, -math.inf)
    high = math.nextafter(low, math.inf)
    share = (value - Fraction(low)) / (Fraction(high) - Fraction(low))
    return _among_decimals(low) + share * (_among_decimals(high) - _among_decimals(low))


def _raw(value: int | float | Fraction) -> int | float | Decimal:
    return _decimal(_among_decimals(value), _EXACT) if isinstance(value, Fraction) else value


def _decimal(value: Fraction, digits: int = 40) -> Decimal:
    """Return a decimal with enough digits to stay between two neighbouring float64."""
    scale = digits - (len(str(abs(value.numerator))) - len(str(value.denominator)))
    whole = math.floor(value * Fraction(10) ** scale)
    return Decimal(f"{whole}E{-scale}")
