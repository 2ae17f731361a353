"""Events that show a difference: one value per attribute, from what is known of it.

A "no" should be shown, not claimed: `event_for` turns a leftover piece into an event, and the caller checks
it against the filters themselves. Values are chosen to be read by people: round numbers away from the ends
of a range, short strings. Numbers are dense, so between two neighbouring float64 there is still a decimal.
A value is preferred to a missing one, which says less.

Events are *raw*: what a user could publish. They are canonical as well, but for long decimals, which are
kept as decimals; `canonical` gives the form that `matches` takes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import shapely

from tamis.algebra.proofs import balls, patterns, regions
from tamis.algebra.proofs.facts import Facts
from tamis.algebra.proofs.pieces import Piece
from tamis.errors import LimitError
from tamis.model.subscription import Ball, Like, Spatial
from tamis.model.types import AttributeType, Boolean, Number, Region, String, Timestamp, Vector
from tamis.model.value_set import Cut, ValueSet
from tamis.model.values import INT64_MAX, INT64_MIN, UnfitError, Value

__all__ = ["canonical", "event_for", "value_for"]

#: Decimal places tried when a range is too narrow for a rounder number.
_PLACES = 20

#: Digits with which the end of a range that came from a long decimal is written.
_EXACT = 390

#: Values tried, where none is as it should be.
_CANDIDATES = 1_000

#: The years 1 to 9999 as microseconds: a moment outside them has no text.
_FIRST, _LAST = -62_135_596_800_000_000, 253_402_300_799_999_999

#: Round numbers tried; one may be refused, since a decimal that prints like a float64 is that float64.
_TRIES = 4


def event_for(piece: Piece, kinds: Mapping[str, AttributeType]) -> dict[str, Any] | None:
    """Return an event in a piece; None when no value was found for some attribute.

    >>> event_for({"price": Facts(ValueSet.between((99, 1), (100.5, 0)))}, {"price": Number()})
    {'price': 100}
    """
    event: dict[str, Any] = {}
    for name, facts in piece.items():
        value = value_for(facts, kinds.get(name))
        if value is not None:
            event[name] = value
        elif not facts.allowed.missing:
            return None
    return event


def value_for(facts: Facts, kind: AttributeType | None) -> Any:
    """Return a value that fits, or None when none was found (or only a missing one fits)."""
    if facts.conditions:
        return _conditioned(facts)
    if not facts.allowed.has_values:
        return None
    long: Decimal | None = None  # a number of few digits is better, if one fits
    for value in itertools.islice(_scalars(facts.allowed, kind), _CANDIDATES):
        try:
            fit = (kind or Number()).canonical(value) if kind or isinstance(value, Decimal) else value
        except (UnfitError, LimitError):
            continue
        if facts.allowed.cuts and fit not in facts.allowed:
            continue
        if not isinstance(fit, Fraction):
            return fit
        long = value if long is None else long
    return long


def canonical(event: Mapping[str, Any]) -> dict[str, Value]:
    """Return an event of `event_for` as `matches` takes it."""
    return {name: Number().canonical(one) if isinstance(one, Decimal) else one for name, one in event.items()}


def _conditioned(facts: Facts) -> Value | None:
    some_balls = [one for one in facts.conditions if isinstance(one, Ball)]
    if some_balls:
        return balls.point_in(some_balls)
    some_regions = [one for one in facts.conditions if isinstance(one, Spatial)]
    if some_regions:
        return regions.shape_in(some_regions)
    likes = tuple(one for one in facts.conditions if isinstance(one, Like))
    return patterns.search_strings(facts.allowed, likes).found


def _scalars(allowed: ValueSet, kind: AttributeType | None) -> Iterator[Any]:
    """Yield values to try, the best first."""
    if isinstance(kind, Region):
        yield shapely.Point(0, 0)
    elif isinstance(kind, Vector):
        yield np.zeros(kind.n)
    elif isinstance(kind, Boolean) or any(isinstance(value, bool) for value, _ in allowed.cuts):
        yield from (True, False)
    else:
        ends = list(allowed.intervals())
        if isinstance(kind, Timestamp):
            some = (moment for start, stop in ends for moment in _moments(start, stop))
            yield from (moment for moment in some if _FIRST <= moment <= _LAST and moment in allowed)
        for start, stop in ends:
            yield from _between(start, stop, kind)


def _between(start: Cut | None, stop: Cut | None, kind: AttributeType | None) -> Iterator[Any]:
    end = start or stop
    if isinstance(kind, String) or (end is not None and isinstance(end[0], str)):
        yield from _strings(start, stop)
    elif isinstance(kind, Timestamp):
        yield from _moments(start, stop)
    elif kind is None:  # a number or a moment: an integer is both
        yield from _moments(start, stop)
        yield from _numbers(start, stop)
    else:
        yield from _numbers(start, stop)


def _strings(start: Cut | None, stop: Cut | None) -> Iterator[str]:
    if start is None:
        yield from ("x", "a", "A", "0") if stop is None or stop[0] > "x" else ("a", "A", "0")
        yield ""
    else:
        yield from (start[0] + "x", start[0]) if stop is None else (start[0], start[0] + "x")


def _moments(start: Cut | None, stop: Cut | None) -> Iterator[int]:
    if start is not None and isinstance(start[0], int):
        yield start[0] + start[1]
    if stop is not None and isinstance(stop[0], int):
        yield stop[0] - 1 + stop[1]
    yield from (0, _FIRST, _LAST, INT64_MIN, INT64_MAX)


def _numbers(start: Cut | None, stop: Cut | None) -> Iterator[int | float | Decimal]:
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
    found = 0
    for power in range(exponent + 1, exponent - _PLACES, -1):
        step = Fraction(10) ** power
        multiple = round(middle / step)
        if not low < multiple * step < high:
            multiple = math.floor(low / step) + 1
        if multiple * step < high:
            yield Decimal(f"{multiple}E{power}")  # scaleb would round to the context's digits
            found += 1
        if found == _TRIES:
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
