"""Time in the language: the fifteen relations T_* of moments and intervals, the clock and the days of the week.

A relation of CQL2 is a few comparisons of the ends of two intervals, and becomes just these: a moment is an interval
that ends when it begins, a DATE lasts from midnight to the last microsecond of the day (UTC), ``'..'`` is an end
without bound. So ranges, indexes and the algebra of filters need not know that the relations exist.

T_TIME and T_WEEKDAY speak of the clocks of a time zone. Both are sets of moments of a week, in microseconds since
Monday 00:00 by those clocks: an hour that a summer time skips never comes, an hour that it repeats comes twice.
"""

from __future__ import annotations

import difflib
import re
import zoneinfo
from typing import NamedTuple

from tamis.errors import shorten
from tamis.model import values
from tamis.model.derived.clocks import find_zone
from tamis.model.language.literals import MeaningError
from tamis.model.language.nodes import (
    And,
    Calculated,
    ClockTest,
    Compare,
    Constant,
    Instant,
    Node,
    Or,
    Property,
    Span,
)
from tamis.model.value_set import ValueSet
from tamis.model.values import UnfitError

__all__ = [
    "CLOCK_FUNCTIONS",
    "DAYS",
    "TEMPORAL_FUNCTIONS",
    "WEEK",
    "End",
    "Time",
    "clock_set",
    "clock_test",
    "end_of",
    "instant_time",
    "interval",
    "relate",
]

_DAY = 86_400_000_000
#: Microseconds of a week.
WEEK = 7 * _DAY

#: The days of the week as T_WEEKDAY names them.
DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
CLOCK_FUNCTIONS = ("T_TIME", "T_WEEKDAY")

#: (end of the first, operator, end of the second) for each relation; all must hold. 0 is the start, 1 the end.
_Rule = tuple[int, str, int]
TEMPORAL_FUNCTIONS: dict[str, tuple[_Rule, ...]] = {
    "T_AFTER": ((0, ">", 1),),
    "T_BEFORE": ((1, "<", 0),),
    "T_MEETS": ((1, "=", 0),),
    "T_METBY": ((0, "=", 1),),
    "T_DURING": ((0, ">", 0), (1, "<", 1)),
    "T_CONTAINS": ((0, "<", 0), (1, ">", 1)),
    "T_STARTS": ((0, "=", 0), (1, "<", 1)),
    "T_STARTEDBY": ((0, "=", 0), (1, ">", 1)),
    "T_FINISHES": ((0, ">", 0), (1, "=", 1)),
    "T_FINISHEDBY": ((0, "<", 0), (1, "=", 1)),
    "T_OVERLAPS": ((0, "<", 0), (1, ">", 0), (1, "<", 1)),
    "T_OVERLAPPEDBY": ((0, ">", 0), (0, "<", 1), (1, ">", 1)),
    "T_EQUALS": ((0, "=", 0), (1, "=", 1)),
    "T_INTERSECTS": ((0, "<=", 1), (1, ">=", 0)),
    "T_DISJOINT": ((1, "<", 0), (0, ">", 1)),  # one of the two is enough
}

_MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "="}
_TIME = re.compile(r"([01][0-9]|2[0-4]):([0-5][0-9])(?::([0-5][0-9]))?")


class End(NamedTuple):
    """An end of an interval: an attribute, or microseconds; neither: without bound. ``is_day``: a whole day."""

    attribute: str | None = None
    microseconds: int | None = None
    is_day: bool = False


class Time(NamedTuple):
    """An interval by its first and last moment."""

    start: End
    end: End


def end_of(kind: str, value: object) -> End:
    """Return the end that a piece of text or JSON means: NAME, INSTANT, DAY, or a STRING that holds one of them."""
    if kind == "NAME":
        return End(attribute=str(value))
    if isinstance(value, Instant):
        return End(microseconds=value.microseconds, is_day=kind == "DAY")
    text = str(value)
    if text == "..":
        return End()
    is_day = len(text) == len("2026-01-31")
    try:
        return End(microseconds=values.moment(f"{text}T00:00:00Z" if is_day else text), is_day=is_day)
    except UnfitError as error:
        raise MeaningError(f"{shorten(text)} is not an end of an interval: {error}", 0, text) from None


def interval(start: End, end: End) -> Time:
    """Return an interval; one that ends before it begins is refused."""
    first, last = start, _last(end)
    if first.microseconds is not None and last.microseconds is not None and first.microseconds > last.microseconds:
        raise MeaningError("an interval ends before it begins", 0)
    return Time(first, last)


def instant_time(end: End) -> Time:
    """Return a moment or a day as an interval."""
    return Time(end, _last(end))


def _last(end: End) -> End:
    """Return the last moment of an end: that of a day is just before midnight."""
    if end.is_day and end.microseconds is not None:
        return End(microseconds=end.microseconds + _DAY - 1)
    return end


def relate(function: str, a: Time, b: Time, span: Span | None) -> Node:
    """Return the comparisons that a relation of two intervals is."""
    rules = TEMPORAL_FUNCTIONS[function]
    parts = [
        _compare((a[first_end], -1 if first_end == 0 else 1), op, (b[second_end], -1 if second_end == 0 else 1), span)
        for first_end, op, second_end in rules
    ]
    is_or = function == "T_DISJOINT"
    if any(isinstance(part, Constant) and part.value == is_or for part in parts):
        return Constant(is_or, span)
    deciding = list(dict.fromkeys(part for part in parts if not isinstance(part, Constant)))
    compared = {part.attribute for part in deciding if isinstance(part, Compare)}
    # In AND, any other condition on an attribute implies that it has a value; in OR, one that never holds adds nothing.
    neutral = And if is_or else Or
    unique = tuple(part for part in deciding if not (isinstance(part, neutral) and _attribute(part) in compared))
    if not unique:
        return Constant(not is_or, span)
    if len(unique) == 1:
        return unique[0]
    return Or(unique, span) if is_or else And(unique, span)


def _if_present(attribute: str, holds: bool, span: Span | None) -> Node:
    """Return a condition that is true, or false, for every timestamp, and unknown if the attribute is missing."""
    sides = tuple(Compare(attribute, op, Instant(0), span) for op in ("<", ">="))
    return Or(sides, span) if holds else And(sides, span)


def _attribute(node: And | Or) -> str:
    """Return the attribute of what `_if_present` made."""
    part = node.parts[0]
    assert isinstance(part, Compare)
    return part.attribute


def _compare(a: tuple[End, int], op: str, b: tuple[End, int], span: Span | None) -> Node:
    """Compare two ends; an end without bound is beyond everything on its side, which the second number names."""
    (left, left_side), (right, right_side) = a, b
    if left.attribute is not None and right.attribute is not None:
        return Calculated(op, (Property(left.attribute), Property(right.attribute)), False, span, is_time=True)
    if left.attribute is None and right.attribute is None:
        return Constant(_holds(_number(left, left_side), op, _number(right, right_side)), span)
    if left.attribute is None:
        return _compare(b, _MIRRORED[op], a, span)
    if right.microseconds is None:
        return _if_present(left.attribute, _holds(0.0, op, right_side * float("inf")), span)
    return Compare(left.attribute, op, Instant(right.microseconds), span)


def _number(end: End, side: int) -> float:
    return side * float("inf") if end.microseconds is None else end.microseconds


def _holds(a: float, op: str, b: float) -> bool:
    return {"<": a < b, ">": a > b, "<=": a <= b, ">=": a >= b, "=": a == b}[op]


def clock_test(function: str, attribute: str, texts: tuple[str, ...], span: Span | None) -> ClockTest:
    """Return the node of T_TIME or T_WEEKDAY; what it cannot mean is refused."""
    wanted = 3 if function == "T_TIME" else 2
    if len(texts) != wanted:
        form = "T_TIME(at, '22:00', '06:00', 'Europe/Berlin')"
        form = form if wanted == 3 else "T_WEEKDAY(at, 'Sat-Sun', 'Europe/Berlin')"
        raise MeaningError(f"{function} is written {form}", 0, texts)
    try:
        find_zone(texts[-1])
    except (ValueError, OSError, KeyError):
        raise MeaningError(
            f"there is no time zone {shorten(texts[-1])}{_similar_zone(texts[-1])}", 0, texts[-1]
        ) from None
    node = ClockTest(function, attribute, texts[:-1], texts[-1], span)
    clock_set(node)
    return node


def _similar_zone(name: str) -> str:
    close = difflib.get_close_matches(name[:64], sorted(zoneinfo.available_timezones()), 1, cutoff=0.7)
    return f" (did you mean {close[0]!r}?)" if close else "; zones are named as in 'Europe/Berlin' or 'UTC'"


def clock_set(node: ClockTest) -> ValueSet:
    """Return the moments of a week that a condition means.

    >>> clock_set(ClockTest("T_WEEKDAY", "at", ("Mon",), "UTC")).cuts
    ((86400000000, 0),)
    """
    if node.function == "T_WEEKDAY":
        days = _weekdays(node.operands[0])
        pieces = [(day * _DAY, (day + 1) * _DAY) for day in days]
    else:
        start, stop = (_time(text) for text in node.operands)
        hours = [(start, stop)] if start < stop else [(0, stop), (start, _DAY)]
        pieces = [(day * _DAY + low, day * _DAY + high) for day in range(7) for low, high in hours if low < high]
    return ValueSet.from_intervals(
        [(None if low == 0 else (low, 0), None if high == WEEK else (high, 0)) for low, high in pieces]
    )


def _time(text: str) -> int:
    read = _TIME.fullmatch(text)
    if read is None or (read[1] == "24" and text[2:].strip(":0")):
        raise MeaningError(f"expected a time of day such as '22:00', not {shorten(text)}", 0, text)
    return (int(read[1]) * 3600 + int(read[2]) * 60 + int(read[3] or 0)) * 1_000_000


def _weekdays(text: str) -> list[int]:
    """Return the days of a text such as ``Mon-Fri`` or ``Sat, Sun``, Monday first.

    >>> _weekdays("Fri-Mon, Wed")
    [0, 2, 4, 5, 6]
    """
    days: set[int] = set()
    for part in text.split(","):
        names = [name.strip().capitalize()[:3] for name in part.split("-")]
        if not 1 <= len(names) <= 2 or any(name not in DAYS for name in names):
            raise MeaningError(f"expected days such as 'Sat' or 'Mon-Fri', not {shorten(text)}", 0, text)
        first, last = DAYS.index(names[0]), DAYS.index(names[-1])
        days |= {(first + step) % 7 for step in range((last - first) % 7 + 1)}
    return sorted(days)
