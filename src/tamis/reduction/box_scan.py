"""A scan over the boxes of subscriptions: who may cover this one, match this event or help.

Each subscription has a box: per axis a lowest and a highest key and whether a missing value fits. Keys are
float64, made from values by a map that never reverses their order (rounded numbers, the first bytes of a
string), so that covering of subscriptions implies covering of boxes; scalar attributes are one axis each,
a ball is its bounding box on a few coordinates, a region condition says where the sides of the event's
bounding box can be. The boxes are rows of one array as corners (-low, high, missing), and "may cover" is
dominance of corners: one comparison of arrays for a whole set.

What the scan returns are candidates: the exact question is asked of each. `Candidates` is the protocol, so
that an index with the same promise (no candidate that covers is left out) can take the scan's place.

Implements: [zcurve] section 1.1, covering of boxes as dominance of points (-low, high).
Deviation: keys are only monotone, so dominance is necessary, not sufficient; a third coordinate holds the
missing value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from fractions import Fraction
from typing import Protocol

import numpy as np
import numpy.typing as npt

from tamis.model.schema import Event
from tamis.model.subscription import Ball, Constraint, Filter, Relation, Spatial, Subscription, Values
from tamis.model.value_set import ANYTHING, PRESENT, Cut, ValueSet

__all__ = ["BoxScan", "Candidates"]

#: Coordinates of a ball that get an axis.
BALL_AXES = 4

#: Bytes of a string that its key holds: 48 bits are exact in a float64.
STRING_BYTES = 6

#: (low, high, whether a missing value fits) of one axis.
Span = tuple[float, float, bool]
#: An attribute (-1), or one coordinate of a vector or side of a region in it.
Axis = tuple[str, int]

FREE: Span = (-np.inf, np.inf, True)


class Candidates(Protocol):
    """Finds rows (positions in the sequence it was built from) worth an exact question."""

    def may_cover(self, row: int) -> list[int]:
        """Return every row that covers this one, and perhaps others; ascending, never itself."""

    def may_help(self, row: int) -> list[int]:
        """Return the rows that may be of use in proving that several cover this one; ascending."""

    def may_match(self, event: Event) -> AbstractSet[int]:
        """Return every row that matches an event, and perhaps others."""

    def remove(self, row: int) -> None:
        """Leave a row out of later answers."""


class BoxScan:
    """The boxes of subscriptions, compared with all others at once. Satisfies `Candidates`.

    Examples
    --------
    >>> from tamis.model.value_set import ValueSet
    >>> sets = [ValueSet.between((low, 0), (high, 1)) for low, high in ((0, 9), (2, 3), (20, 30))]
    >>> scan = BoxScan([Subscription(i, (Filter((Values("x", one),)),)) for i, one in enumerate(sets)])
    >>> scan.may_cover(1), scan.may_help(0), scan.may_match({"x": 25})
    ([0], [1], {2})
    """

    def __init__(self, subscriptions: Sequence[Subscription]) -> None:
        boxes = [_box(one.filters) for one in subscriptions]
        self._axes = axes = sorted({axis for box in boxes for axis in box})
        self._is_shape = np.array([part >= 0 for _, part in axes], dtype=bool)
        shape = (len(boxes), len(axes))
        self._low, self._high = np.full(shape, -np.inf), np.full(shape, np.inf)
        self._missing = np.ones(shape, dtype=bool)
        places = {axis: place for place, axis in enumerate(axes)}
        for row, box in enumerate(boxes):
            for axis, (low, high, missing) in box.items():
                place = places[axis]
                self._low[row, place], self._high[row, place], self._missing[row, place] = low, high, missing
        self._corners = np.hstack([-self._low, self._high, self._missing])
        self._alive = np.ones(len(boxes), dtype=bool)

    def may_cover(self, row: int) -> list[int]:
        """Return the rows whose box covers this row's box; ascending, never the row itself."""
        return self._others((self._corners >= self._corners[row]).all(axis=1), row)

    def may_help(self, row: int) -> list[int]:
        """Return the rows whose box has a point in common with this row's box; ascending.

        A ball or region of theirs must moreover be around this row's: only values are ever cut for a proof.
        """
        meets = (self._low <= self._high[row]) & (self._high >= self._low[row])
        meets |= self._missing & self._missing[row]
        around = (self._low <= self._low[row]) & (self._high >= self._high[row])
        return self._others(np.where(self._is_shape, around, meets).all(axis=1), row)

    def may_match(self, event: Event) -> AbstractSet[int]:
        """Return the rows whose box contains the event, as far as its scalar values say."""
        found = self._alive.copy()
        for place, (name, part) in enumerate(self._axes):
            value = event.get(name)
            if part >= 0:
                continue
            if value is None:
                found &= self._missing[:, place]
            elif isinstance(value, bool | int | float | Fraction | str):
                key = _key((value, 0))
                found &= (self._low[:, place] <= key) & (key <= self._high[:, place])
        return set(np.flatnonzero(found).tolist())

    def remove(self, row: int) -> None:
        """Leave a row out of later answers."""
        self._alive[row] = False

    def _others(self, found: npt.NDArray[np.bool_], row: int) -> list[int]:
        found &= self._alive
        found[row] = False
        rows: list[int] = np.flatnonzero(found).tolist()
        return rows


def _box(filters: Sequence[Filter]) -> dict[Axis, Span]:
    """Return the axes on which every filter says something, with the hull of what they say."""
    spans = [dict(_spans(filter)) for filter in filters]
    shared = set(spans[0]).intersection(*spans[1:]) if spans else set()
    return {axis: _hull([one[axis] for one in spans]) for axis in shared}


def _hull(spans: Sequence[Span]) -> Span:
    return min(one[0] for one in spans), max(one[1] for one in spans), any(one[2] for one in spans)


def _spans(filter: Filter) -> Iterator[tuple[Axis, Span]]:
    allowed: dict[str, ValueSet] = {}
    around: dict[Axis, Span] = {}
    for one in filter.constraints:
        narrowed = one.allowed if isinstance(one, Values) else PRESENT
        allowed[one.attribute] = allowed.get(one.attribute, ANYTHING) & narrowed
        for i, (low, high) in enumerate(_shape_spans(one)):
            known_low, known_high, _ = around.get((one.attribute, i), FREE)
            around[one.attribute, i] = max(low, known_low), min(high, known_high), False
    yield from (((name, -1), _span(one)) for name, one in allowed.items() if one != ANYTHING)
    yield from around.items()


def _shape_spans(one: Constraint) -> Iterator[tuple[float, float]]:
    """Yield the ranges of a vector's first coordinates, or of the sides of a region's bounding box."""
    if isinstance(one, Ball) and not one.negated:
        yield from ((center - one.radius, center + one.radius) for center in one.center[:BALL_AXES])
    elif isinstance(one, Spatial) and Relation.DISJOINT not in one.relations:
        min_x, min_y, max_x, max_y = one.region.bounds
        for low, high in ((min_x, max_x), (min_y, max_y)):
            sides = [_SIDES[relation](low, high) for relation in one.relations]
            for spans in zip(*sides, strict=True):  # the lower side, then the upper one
                yield min(span[0] for span in spans), max(span[1] for span in spans)


#: Where the two sides of a region's box can be, for each relation to a region whose sides are low and high.
_SIDES: dict[Relation, Callable[[float, float], tuple[tuple[float, float], tuple[float, float]]]] = {
    Relation.MEETS: lambda low, high: ((-np.inf, high), (low, np.inf)),
    Relation.OVERLAPS: lambda low, high: ((-np.inf, high), (low, np.inf)),
    Relation.EQUALS: lambda low, high: ((low, low), (high, high)),
    Relation.INSIDE: lambda low, high: ((low, high), (low, high)),
    Relation.COVERED_BY: lambda low, high: ((low, high), (low, high)),
    Relation.CONTAINS: lambda low, high: ((-np.inf, low), (high, np.inf)),
    Relation.COVERS: lambda low, high: ((-np.inf, low), (high, np.inf)),
}


def _span(allowed: ValueSet) -> Span:
    parts = list(allowed.intervals())
    if not parts:
        return np.inf, -np.inf, allowed.missing
    start, stop = parts[0][0], parts[-1][1]
    return (
        -np.inf if start is None else _key(start),
        np.inf if stop is None else _key(stop),
        allowed.missing,
    )


def _key(cut: Cut) -> float:
    """Return a float64 that grows with the value, though not strictly."""
    value = cut[0]
    if isinstance(value, str):
        return float(int.from_bytes(value.encode()[:STRING_BYTES].ljust(STRING_BYTES, b"\0"), "big"))
    return float(value)
