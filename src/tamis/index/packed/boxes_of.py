"""From a filter to boxes: what of it float64 sides can say, and whether that is all.

An interval of numbers becomes the closed float64 interval with the same float64 values in it, so that a
point decides without a second look: ``price < 100`` ends at the float64 before 100. A set of several
intervals becomes several boxes, as long as they stay few; past that it becomes its hull. Strings compare
by code where they are equated and by key where they are ordered. Whatever a box cannot say makes it
*inexact*: the raw values decide then, and the box only has to contain every event that could match.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import shapely

from tamis.index.packed.axes import COORDINATES, Axes, Part, float_above, float_below, string_key
from tamis.kernels.quantise import ANY_VALUE
from tamis.model.pattern import like_pattern
from tamis.model.subscription import Ball, Constraint, Filter, Like, Relation, Spatial, Values
from tamis.model.value_set import Cut, ValueSet

__all__ = ["Box", "boxes_of"]

#: Boxes one filter may become; a set with more intervals becomes its hull.
MAX_BOXES = 16

Side = tuple[float, float]
#: Sides by axis; an axis that is not named is free.
Sides = dict[int, Side]

_LARGEST = float(np.finfo(np.float64).max)


class Box(NamedTuple):
    """Sides by axis. ``exact``: an event that is a point matches if and only if it lies in the box.

    ``ball``: if and only if it lies in the box and satisfies this condition.
    """

    sides: Sides
    exact: bool
    ball: Ball | None = None


class _Choice(NamedTuple):
    """What one constraint says: one of these sides must hold; ``exact`` as in `Box`."""

    alternatives: list[Sides]
    exact: bool


def boxes_of(filter: Filter, axes: Axes) -> list[Box]:
    """Return boxes that together contain every event the filter matches; new axes are made as needed."""
    boxes, exact = [Sides()], filter.rest is None
    balls = [one for one in filter.constraints if isinstance(one, Ball)]
    for constraint in filter.constraints:
        alternatives, decides = _choice(constraint, axes, MAX_BOXES // len(boxes))
        exact &= decides or (len(balls) == 1 and constraint is balls[0])
        spread = isinstance(constraint, Spatial)
        found = (_merged(box, more, spread=spread) for box in boxes for more in alternatives)
        boxes = [box for box in found if box is not None]
        if not boxes:
            return []
    return [Box(sides, exact and not balls, balls[0] if exact and balls else None) for sides in boxes]


def _choice(constraint: Constraint, axes: Axes, room: int) -> _Choice:
    name = constraint.attribute
    if isinstance(constraint, Values):
        return _values(name, constraint.allowed, axes, room)
    if isinstance(constraint, Like):
        return _like(constraint, axes)
    if isinstance(constraint, Spatial):
        return _spatial(constraint, axes)
    return _ball(constraint, axes)


def _values(name: str, allowed: ValueSet, axes: Axes, room: int) -> _Choice:
    if allowed.missing:  # NULL or some values: no box has a place for a missing value
        return _Choice([Sides()], exact=False)
    if not allowed.cuts:
        return _Choice([_present(name, axes)], exact=True)
    if isinstance(allowed.cuts[0][0], str):
        return _strings(name, allowed, axes, room)
    axis = axes.number(name, Part.NUMBER)
    intervals = list(allowed.intervals())
    if len(intervals) > max(room, 1):
        return _Choice([{axis: _outer(intervals[0][0], intervals[-1][1])}], exact=False)
    inner = [_inner(start, stop) for start, stop in intervals]
    if all(side is not None for side in inner):
        return _Choice([{axis: side} for side in inner if side is not None], exact=True)
    return _Choice([{axis: _outer(start, stop)} for start, stop in intervals], exact=False)


def _inner(start: Cut | None, stop: Cut | None) -> Side | None:
    """Return the closed float64 interval with the float64 values of an interval; None when it has none."""
    lo, hi = float(ANY_VALUE), math.inf
    if start is not None:
        value, after = start
        lo = math.nextafter(float_below(value), math.inf) if after else float_above(value)
    if stop is not None:
        value, after = stop
        hi = float_below(value) if after else math.nextafter(float_above(value), -math.inf)
    return (lo, hi) if lo <= hi and lo < math.inf and hi >= ANY_VALUE else None


def _outer(start: Cut | None, stop: Cut | None) -> Side:
    """Return a closed float64 interval around an interval."""
    lo = ANY_VALUE if start is None else float_below(start[0])
    hi = math.inf if stop is None else float_above(stop[0])
    return max(lo, ANY_VALUE), min(hi, _LARGEST) if stop is not None else math.inf


def _strings(name: str, allowed: ValueSet, axes: Axes, room: int) -> _Choice:
    intervals = list(allowed.intervals())
    texts = [_only_string(start, stop) for start, stop in intervals]
    if len(texts) <= max(room, 1) and all(text is not None for text in texts):
        axis = axes.number(name, Part.CODE)
        codes = [float(axes.code(name, text)) for text in texts if text is not None]
        return _Choice([{axis: (code, code)} for code in codes], exact=True)
    axis = axes.number(name, Part.KEY)
    return _Choice([{axis: _key_side(intervals[0][0], intervals[-1][1])}], exact=False)


def _only_string(start: Cut | None, stop: Cut | None) -> str | None:
    """Return the only string of an interval: its stop is the successor of its start."""
    if stop is None:
        return None
    text = "" if start is None else start[0]
    return text if stop[0] == f"{text}\0" else None


def _key_side(start: Cut | None, stop: Cut | None) -> Side:
    lo = 0.0 if start is None else string_key(start[0])
    return lo, math.inf if stop is None else string_key(stop[0])


def _like(constraint: Like, axes: Axes) -> _Choice:
    beginning = "".join(_literal_start(constraint.pattern)) if not constraint.negated else ""
    if not beginning:
        return _Choice([_present(constraint.attribute, axes)], exact=False)
    axis = axes.number(constraint.attribute, Part.KEY)
    longest = beginning.encode()[:6].ljust(6, b"\xff")
    return _Choice([{axis: (string_key(beginning), float(int.from_bytes(longest, "big")))}], exact=False)


def _literal_start(pattern: str) -> Iterator[str]:
    for character in like_pattern(pattern).pieces[0]:
        if character is None:
            return
        yield character


def _spatial(constraint: Spatial, axes: Axes) -> _Choice:
    if Relation.DISJOINT in constraint.relations:
        return _Choice([_present(constraint.attribute, axes)], exact=False)
    x, y = (axes.number(constraint.attribute, part) for part in (Part.X, Part.Y))
    min_x, min_y, max_x, max_y = (float(side) for side in shapely.bounds(constraint.region))
    return _Choice([{x: (min_x, max_x), y: (min_y, max_y)}], exact=False)


def _ball(constraint: Ball, axes: Axes) -> _Choice:
    if constraint.negated:
        return _Choice([_present(constraint.attribute, axes)], exact=False)
    sides = Sides()
    for i, middle in enumerate(constraint.center[:COORDINATES]):
        lo = math.nextafter(middle - constraint.radius, -math.inf)
        hi = math.nextafter(middle + constraint.radius, math.inf)
        sides[axes.number(constraint.attribute, Part.COORDINATE, i)] = max(lo, ANY_VALUE), min(hi, _LARGEST)
    return _Choice([sides], exact=False)


def _present(name: str, axes: Axes) -> Sides:
    return {axes.number(name, Part.PRESENT): (ANY_VALUE, math.inf)}


def _merged(a: Sides, b: Sides, *, spread: bool) -> Sides | None:
    """Return the sides of both boxes; None when no event can lie in both.

    Where an event is a point on the axis, it lies in both sides or nowhere. On the axes of a region it is
    ``spread`` over an interval: it may meet two sides that are apart, and one of them is all a box can demand.
    (Sides that overlap may be cut: intervals that meet pairwise have a point in common.)
    """
    merged = dict(a)
    for axis, (lo, hi) in b.items():
        low, high = merged.get(axis, (-math.inf, math.inf))
        if max(lo, low) <= min(hi, high):
            merged[axis] = max(lo, low), min(hi, high)
        elif not spread:
            return None
    return merged
