"""Converts a filter to boxes of cells: on each axis, the spans of cells in which a matching event must lie.

What a constraint cannot say in cells gets the whole axis, or all of it but the cell of the missing value. So the boxes
contain every event that matches, and often more: what they propose, raw values confirm.

Bounds are rounded outward to float64 and open ones are taken as closed; the cells do the rest.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import shapely

from tamis.curves.cells import Cells, Span
from tamis.index.packed.axes import AttributePart, Axis, float_above, float_below, string_key
from tamis.model.pattern import like_pattern
from tamis.model.subscription import Ball, Constraint, Filter, Like, Relation, Spatial, Values
from tamis.model.value_set import Cut, ValueSet

__all__ = ["MAX_BOXES", "Box", "boxes_of_cells", "sides_of", "spans_of"]

#: Boxes one filter may become; past that the axis with most spans gets one around them all.
MAX_BOXES = 16

#: The low and the high corner, both inside.
Box = tuple[tuple[int, ...], tuple[int, ...]]
#: Two closed ends on an axis.
Side = tuple[float, float]

_WHOLE: Side = (-math.inf, math.inf)
#: A string of this length or more has no longer key.
_KEY_LENGTH = 6


def boxes_of_cells(filter: Filter, axes: Sequence[tuple[Axis, Cells]]) -> list[Box]:
    """Return boxes of cells that together contain every event the filter matches; none when it matches nothing."""
    spans = [spans_of(filter, axis, cells) for axis, cells in axes]
    while math.prod(map(len, spans)) > MAX_BOXES:
        widest = max(range(len(spans)), key=lambda i: len(spans[i]))
        spans[widest] = [(spans[widest][0][0], spans[widest][-1][1])]
    return [(tuple(lo for lo, _ in box), tuple(hi for _, hi in box)) for box in itertools.product(*spans)]


def spans_of(filter: Filter, axis: Axis, cells: Cells) -> list[Span]:
    """Return the spans of cells on one axis, ascending and apart; none when no event can match."""
    spans = [cells.everything]
    for constraint in filter.constraints:
        if constraint.attribute == axis.attribute:
            spans = _met(spans, _spans(constraint, axis, cells), spread=axis.part in (AttributePart.X, AttributePart.Y))
    return spans


def _met(spans: list[Span], other: list[Span], *, spread: bool) -> list[Span]:
    """Return the cells in both lists of spans.

    A region is spread over cells: it may meet two spans that are apart, and then one of them is all that can be asked.
    """
    both = [(max(a, c), min(b, d)) for a, b in spans for c, d in other if max(a, c) <= min(b, d)]
    return both if both or not spread else spans


def _spans(constraint: Constraint, axis: Axis, cells: Cells) -> list[Span]:
    if not isinstance(constraint, Values):
        side = sides_of(constraint, axis)[0]
        return [cells.present if side == _WHOLE else cells.span(*side)]
    spans = [cells.span(*side) for side in sides_of(constraint, axis)]
    if constraint.allowed.missing:
        spans.append(cells.missing)
    return _joined(spans)


def _joined(spans: list[Span]) -> list[Span]:
    """Return spans in order, those that overlap or touch as one."""
    joined: list[Span] = []
    for first, last in sorted(spans):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = joined[-1][0], max(last, joined[-1][1])
        else:
            joined.append((first, last))
    return joined


def sides_of(constraint: Constraint, axis: Axis) -> list[Side]:
    """Return the closed ends within which the values lie that a constraint accepts, ascending.

    A constraint that does not bound this axis gives one side without ends.
    """
    if isinstance(constraint, Values):
        return _value_sides(constraint.allowed, axis)
    if isinstance(constraint, Like):
        return [_like_side(constraint, axis)]
    if isinstance(constraint, Spatial):
        return [_spatial_side(constraint, axis)]
    return [_ball_side(constraint, axis) if isinstance(constraint, Ball) else _WHOLE]


def _value_sides(allowed: ValueSet, axis: Axis) -> list[Side]:
    is_text = bool(allowed.cuts) and isinstance(allowed.cuts[0][0], str)
    if allowed.cuts and is_text != (axis.part is AttributePart.KEY):
        return [_WHOLE]
    return [(_lower(start), _upper(stop)) for start, stop in allowed.intervals()]


def _lower(start: Cut | None) -> float:
    if start is None:
        return -math.inf
    return string_key(start[0]) if isinstance(start[0], str) else float_below(start[0])


def _upper(stop: Cut | None) -> float:
    if stop is None:
        return math.inf
    value, after = stop
    if isinstance(value, str):
        return string_key(value)
    if value is True and not after:  # below true there is only false
        return 0.0
    return float_above(value)


def _like_side(constraint: Like, axis: Axis) -> Side:
    if constraint.fold or constraint.is_regex:
        return _WHOLE
    pieces = like_pattern(constraint.pattern).pieces
    start = "".join(itertools.takewhile(lambda character: character is not None, pieces[0]))  # type: ignore[arg-type]
    if constraint.negated or not start or axis.part is not AttributePart.KEY:
        return _WHOLE
    longest = start.encode()[:_KEY_LENGTH].ljust(_KEY_LENGTH, b"\xff")
    return string_key(start), float(int.from_bytes(longest, "big"))


def _spatial_side(constraint: Spatial, axis: Axis) -> Side:
    if Relation.DISJOINT in constraint.relations or axis.part not in (AttributePart.X, AttributePart.Y):
        return _WHOLE
    bounds = shapely.bounds(constraint.region)
    side = 0 if axis.part is AttributePart.X else 1
    return float(bounds[side]), float(bounds[side + 2])


def _ball_side(constraint: Ball, axis: Axis) -> Side:
    if constraint.negated or axis.part is not AttributePart.COORDINATE or axis.i >= len(constraint.center):
        return _WHOLE
    middle = constraint.center[axis.i]
    lo = math.nextafter(middle - constraint.radius, -math.inf)
    hi = math.nextafter(middle + constraint.radius, math.inf)
    return lo, hi
