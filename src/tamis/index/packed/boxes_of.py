"""Converts a filter to boxes with float64 sides, and states whether the boxes decide the filter.

An interval of numbers becomes the closed float64 interval with the same float64 values in it, so that a
point decides without a second look: ``price < 100`` ends at the float64 before 100. A set of several
intervals becomes several boxes, as long as they stay few; past that it becomes its hull. Strings compare
by code where they are equated and by key where they are ordered. Whatever a box cannot say makes it
*inexact*: the raw values decide then, and the box only has to contain every event that could match.

A geometry other than a simple polygon becomes its bounding box, too; raw values decide. A circle becomes the box around
it, on the sphere the box of longitudes and latitudes around it, and a ball decides about points.

A region becomes its bounding box, and what the box leaves open is the relation to the polygon; where the event must
hold all of the region, so must its box hold the region's, one number per side. A condition that a
far away region satisfies (it allows *disjoint*) becomes five boxes that do not overlap: left of the polygon's bounding
box, right of it, below, above, and around it. The first four decide alone; so of all such conditions only those near
an event are looked at, and the others are reported without a look.

Implements: [crtree] section 4.1, the trick of the CR-tree's lists of disjoint constraints, in boxes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import shapely

from tamis.geometry.spaces import as_ball
from tamis.geometry.sphere import bounds_of_circle
from tamis.index.packed.axes import COORDINATES, AttributePart, Axes, float_above, float_below, string_key
from tamis.index.packed.texts.literals import groups_of
from tamis.index.packed.texts.text_index import TextPart
from tamis.index.packed.texts.trees import SideStep, steps_of
from tamis.kernels.boxes.quantise import ANY_VALUE
from tamis.model.derived.clocks import clock_name
from tamis.model.derived.formulas import formula_of, is_formula
from tamis.model.derived.spatial_functions import ALL_RELATIONS
from tamis.model.pattern import like_pattern
from tamis.model.shapes import is_polygonal, parts_of
from tamis.model.subscription import (
    AllOf,
    Ball,
    Clock,
    Constraint,
    Filter,
    Geometric,
    Like,
    Relation,
    Some,
    Spatial,
    Values,
)
from tamis.model.value_set import Cut, ValueSet

__all__ = ["MAX_BOXES", "Box", "Sides", "boxes_of", "choices_of", "open_constraints", "sides_of_circle"]

#: Boxes one filter may become; a set with more intervals becomes its hull.
MAX_BOXES = 16

#: The relations of an event that contains a region.
_AROUND = frozenset({Relation.CONTAINS, Relation.COVERS, Relation.EQUALS})

#: Boxes of a condition that allows *disjoint*.
_FIVE = 5

#: Parts of a multipolygon that have a box each, if nothing else needs several boxes.
_PARTS = 256

Side = tuple[float, float]
#: Sides by axis; an axis that is not named is free.
Sides = dict[int, Side]

_LARGEST = float(np.finfo(np.float64).max)


class Box(NamedTuple):
    """Sides by axis. ``exact``: an event that is a point matches if and only if it lies in the box.

    Where something is left to ask of an event in the box, and it is nothing but regions or nothing but one ball, they
    stand here: ``regions`` with the axis of their attribute, ``ball``.
    """

    sides: Sides
    exact: bool
    regions: tuple[tuple[int, Spatial], ...] = ()
    ball: Ball | None = None
    #: The conditions of the filter on text, if it has any.
    text: TextPart | None = None


class _Choice(NamedTuple):
    """The alternatives of one constraint: one of these sides must hold; ``exact`` as in `Box`."""

    alternatives: list[Sides]
    exact: bool


#: Sides, and the conditions on regions that they leave open.
_Open = tuple[Sides, tuple[tuple[int, Spatial], ...]]


def boxes_of(filter: Filter, axes: Axes) -> list[Box]:
    """Return boxes that together contain every event the filter matches; new axes are made as needed."""
    ranges = _only_ranges(filter, axes)
    if ranges is not None:
        return [Box(ranges, exact=True)]
    boxes, undecided = _boxes_and_rest(filter, axes)
    elements, is_all = _elements(filter)
    for condition, allowed in elements:
        room = MAX_BOXES // max(len(boxes), 1)
        alternatives, decides = _values(condition.attribute, allowed, axes, room)
        merged = ((_merged(sides, more), tests) for sides, tests in boxes for more in alternatives)
        boxes = [(sides, tests) for sides, tests in merged if sides is not None]
        is_all = is_all and decides
    decided = (filter.rest is None or is_all) and not undecided
    ball = as_ball(undecided[0]) if filter.rest is None and len(undecided) == 1 else None
    text = _text_part(filter, undecided, axes)
    return [
        Box(
            sides,
            decided and not tests,
            tests if decided else (),
            None if tests else ball,
            None if text is None else text._replace(is_all=text.is_all and not tests),
        )
        for sides, tests in boxes
    ]


def _elements(filter: Filter) -> tuple[list[tuple[Some, ValueSet]], bool]:
    """Return a condition on some element for each repeated attribute, and whether the rest of a filter says no more.

    An event becomes a point for each combination of its elements, so one element of each attribute can be bounded.
    """
    rest = filter.rest
    parts = rest.parts if isinstance(rest, AllOf) else () if rest is None else (rest,)
    chosen: dict[str, tuple[Some, ValueSet]] = {}
    for part in parts:
        if isinstance(part, Some) and not part.negated and isinstance(part.condition, Values):
            allowed = part.condition.allowed
            if allowed.cuts:
                chosen.setdefault(part.attribute, (part, allowed))
    return list(chosen.values()), len(chosen) == len(parts)


def _only_ranges(filter: Filter, axes: Axes) -> Sides | None:
    """Return the sides of a filter that is one range of numbers per attribute: most are, and need no more work."""
    sides = Sides()
    for constraint in filter.constraints if filter.rest is None else (None,):
        if not isinstance(constraint, Values):
            return None
        allowed, name = constraint.allowed, constraint.attribute
        cuts = allowed.cuts
        if allowed.missing or not 1 <= len(cuts) <= 2 - allowed.from_below or isinstance(cuts[0][0], str):
            return None
        if is_formula(name) and not axes.has_room(name):
            return None
        start, stop = (None, cuts[0]) if allowed.from_below else (cuts[0], cuts[1] if len(cuts) > 1 else None)
        side = _inner(start, stop)
        if side is None:
            return None
        sides[axes.number(name, AttributePart.NUMBER)] = side
    return sides


def _text_part(filter: Filter, undecided: list[Constraint], axes: Axes) -> TextPart | None:
    """Return the conditions of a filter on text; None if boxes represent all of them."""
    likes = [constraint for constraint in undecided if isinstance(constraint, Like)]
    if not likes and filter.rest is None:
        return None
    groups = groups_of(filter)
    if not likes and not groups:
        return None
    if filter.rest is None:
        return TextPart(groups, likes, len(likes) == len(undecided))
    tree = steps_of(filter.rest, lambda values: choices_of(values, axes))
    is_all = tree.is_all and len(likes) == len(undecided)
    return TextPart(groups, likes, is_all, tree.steps)


def choices_of(values: Values, axes: Axes, room: int = MAX_BOXES) -> tuple[list[list[SideStep]], bool]:
    """Return sides of which one must hold for a set of values, and whether they say all of it.

    The set is without the missing value, or nothing else. One of more than ``room`` intervals becomes its hull.
    """
    if values.allowed.missing:
        return [[SideStep(axis, *side, True) for axis, side in _present(values.attribute, axes).items()]], True
    alternatives, exact = _values(values.attribute, values.allowed, axes, room)
    return [[SideStep(axis, *side) for axis, side in sides.items()] for sides in alternatives], exact


def open_constraints(filter: Filter, axes: Axes) -> list[Constraint] | None:
    """Return the constraints that the filter's boxes may not decide; None when there is more to it than constraints.

    An event that is a point and lies in one of the boxes matches if and only if it meets these.
    """
    if filter.rest is not None:
        return None
    undecided = _boxes_and_rest(filter, axes)[1]
    regions = [
        constraint
        for constraint in filter.constraints
        if isinstance(constraint, Spatial | Geometric) and constraint not in undecided
    ]
    return [*undecided, *regions]


def _boxes_and_rest(filter: Filter, axes: Axes) -> tuple[list[_Open], list[Constraint]]:
    """Return the boxes, and the constraints other than regions that they do not decide."""
    boxes: list[_Open] = [(Sides(), ())]
    undecided: list[Constraint] = []
    for constraint in filter.constraints:
        room = MAX_BOXES // len(boxes)
        if isinstance(constraint, Spatial):
            boxes = [part for box in boxes for part in _near_and_far(box, constraint, axes, room)]
            if not boxes:
                return [], []
            continue
        tests = _tests_of(constraint, axes) if isinstance(constraint, Geometric) else []
        if tests and len(tests) <= max(room, _PARTS if len(boxes) == 1 else 1):
            boxes = [_tested(box, test) for box in boxes for test in tests]
            continue
        alternatives, decides = _choice(constraint, axes, room)
        if not decides:
            undecided.append(constraint)
        join = _joined_on_regions if isinstance(constraint, Geometric) else _merged
        merged = ((join(sides, more), open_tests) for sides, open_tests in boxes for more in alternatives)
        boxes = [(sides, open_tests) for sides, open_tests in merged if sides is not None]
        if not boxes:
            return [], []
    return boxes, undecided


def _choice(constraint: Constraint, axes: Axes, room: int) -> _Choice:
    name = constraint.attribute
    if isinstance(constraint, Values):
        return _values(name, constraint.allowed, axes, room)
    if isinstance(constraint, Like):
        return _like(constraint, axes)
    if isinstance(constraint, Clock):
        return _values(clock_name(constraint.zone, name), constraint.allowed, axes, room)
    if isinstance(constraint, Geometric):
        return _geometric(constraint, axes)
    return _ball(constraint, axes) if isinstance(constraint, Ball) else _Choice([_present(name, axes)], exact=False)


def _geometric(constraint: Geometric, axes: Axes) -> _Choice:
    """Return the boxes around a geometry; an event that does not meet them cannot match."""
    if constraint.negated:
        return _Choice([_present(constraint.attribute, axes)], exact=False)
    x, y = (axes.number(constraint.attribute, part) for part in (AttributePart.X, AttributePart.Y))
    sides = sides_of_circle(constraint.geometry.bounds, constraint.distance, (x, y), on_sphere=constraint.on_sphere)
    return _Choice(sides, exact=False)


def sides_of_circle(
    bounds: tuple[float, float, float, float], distance: float, axes: tuple[int, int], *, on_sphere: bool
) -> list[Sides]:
    """Return boxes on two axes that hold all points at most so far from a box: one, or two at the antimeridian."""
    x, y = axes
    if on_sphere:
        return [{x: a, y: b} for a, b in bounds_of_circle(bounds, distance)]
    low_x, low_y = (math.nextafter(bounds[i] - distance, -math.inf) for i in (0, 1))
    high_x, high_y = (math.nextafter(bounds[i] + distance, math.inf) for i in (2, 3))
    return [{x: (max(low_x, ANY_VALUE), high_x), y: (max(low_y, ANY_VALUE), high_y)}]


#: A box around a part of a geometry, and the questions about simple polygons that decide it for plain values.
_Test = tuple[Sides, tuple[tuple[int, Spatial], ...]]


def _tests_of(constraint: Geometric, axes: Axes) -> list[_Test]:
    """Return tests of which a plain value passes one iff it passes the constraint; none: they cannot be written.

    A plain value is connected: it meets a polygon with holes iff it meets the outer ring and is not inside a hole.
    """
    name, function = constraint.attribute, constraint.function
    if function not in ("S_INTERSECTS", "S_OVERLAPS") or not is_polygonal(constraint.geometry):
        return []
    x, y = (axes.number(name, part) for part in (AttributePart.X, AttributePart.Y))
    parts = parts_of(constraint.geometry)
    if function == "S_OVERLAPS" or constraint.negated:
        if len(parts) > 1 or parts[0].holes or function == "S_INTERSECTS":
            return []
        only = frozenset({Relation.OVERLAPS})
        condition = Spatial(name, ALL_RELATIONS - only if constraint.negated else only, parts[0].outer)
        return [(_present(name, axes) if constraint.negated else _around_part(parts[0].outer, x, y), ((x, condition),))]
    meets, outside = ALL_RELATIONS - {Relation.DISJOINT}, ALL_RELATIONS - {Relation.INSIDE}
    return [
        (
            _around_part(outer, x, y),
            ((x, Spatial(name, meets, outer)), *((x, Spatial(name, outside, hole)) for hole in holes)),
        )
        for outer, holes in parts
    ]


def _around_part(polygon: shapely.Polygon, x: int, y: int) -> Sides:
    min_x, min_y, max_x, max_y = polygon.bounds
    return {x: (min_x, max_x), y: (min_y, max_y)}


def _tested(box: _Open, test: _Test) -> _Open:
    (sides, tests), (more, questions) = box, test
    return _meeting(sides, more)[0], (*tests, *questions)


def _values(name: str, allowed: ValueSet, axes: Axes, room: int) -> _Choice:
    if allowed.missing:  # NULL or some values: no box has a place for a missing value
        return _Choice([Sides()], exact=False)
    if is_formula(name) and not axes.has_room(name):
        present = (_present(attribute, axes) for attribute in formula_of(name).attributes)
        return _Choice([{axis: side for sides in present for axis, side in sides.items()}], exact=False)
    if not allowed.cuts:
        return _Choice([_present(name, axes)], exact=True)
    if isinstance(allowed.cuts[0][0], str):
        return _strings(name, allowed, axes, room)
    axis = axes.number(name, AttributePart.NUMBER)
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
        axis = axes.number(name, AttributePart.CODE)
        codes = [float(axes.code(name, text)) for text in texts if text is not None]
        return _Choice([{axis: (code, code)} for code in codes], exact=True)
    axis = axes.number(name, AttributePart.KEY)
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
    is_plain = not (constraint.negated or constraint.fold or constraint.is_regex)
    beginning = "".join(_literal_start(constraint.pattern)) if is_plain else ""
    if not beginning:
        return _Choice([_present(constraint.attribute, axes)], exact=False)
    axis = axes.number(constraint.attribute, AttributePart.KEY)
    longest = beginning.encode()[:6].ljust(6, b"\xff")
    return _Choice([{axis: (string_key(beginning), float(int.from_bytes(longest, "big")))}], exact=False)


def _literal_start(pattern: str) -> Iterator[str]:
    for character in like_pattern(pattern).pieces[0]:
        if character is None:
            return
        yield character


def _near_and_far(box: _Open, constraint: Spatial, axes: Axes, room: int) -> Iterator[_Open]:
    """Yield what a condition on a region makes of a box: the events near the region, and those far from it."""
    name, (sides, tests) = constraint.attribute, box
    if constraint.relations <= _AROUND:
        around = _merged(sides, _around(constraint, axes))
        if around is not None:
            yield around, (*tests, (axes.number(name, AttributePart.X_MIN), constraint))
        return
    x, y = (axes.number(name, part) for part in (AttributePart.X, AttributePart.Y))
    open_question = (*tests, (x, constraint))
    allows_far = Relation.DISJOINT in constraint.relations
    if allows_far and room < _FIVE:
        yield {**sides, **_present(name, axes)}, open_question
        return
    min_x, min_y, max_x, max_y = (float(side) for side in shapely.bounds(constraint.region))
    near, _ = _meeting(sides, {x: (min_x, max_x), y: (min_y, max_y)})
    yield near, open_question
    if allows_far:
        beside, kept = _meeting(sides, {x: (min_x, max_x)})
        tests = tests if kept else open_question  # the box cannot express above or below: test the relation
        for part, side in ((AttributePart.X_MAX, _below(min_x)), (AttributePart.X_MIN, _above(max_x))):
            far = _merged(sides, {axes.number(name, part): side})
            if far is not None:
                yield far, box[1]
        for part, side in ((AttributePart.Y_MAX, _below(min_y)), (AttributePart.Y_MIN, _above(max_y))):
            far = _merged(beside, {axes.number(name, part): side})
            if far is not None:
                yield far, tests


def _around(constraint: Spatial, axes: Axes) -> Sides:
    """Return the sides that an event around a region has: its own bounding box holds that of the region."""
    name = constraint.attribute
    min_x, min_y, max_x, max_y = (float(side) for side in shapely.bounds(constraint.region))
    return {
        axes.number(name, AttributePart.X_MIN): (ANY_VALUE, min_x),
        axes.number(name, AttributePart.Y_MIN): (ANY_VALUE, min_y),
        axes.number(name, AttributePart.X_MAX): (max_x, math.inf),
        axes.number(name, AttributePart.Y_MAX): (max_y, math.inf),
    }


def _below(value: float) -> Side:
    return ANY_VALUE, math.nextafter(value, -math.inf)


def _above(value: float) -> Side:
    return math.nextafter(value, math.inf), math.inf


def _ball(constraint: Ball, axes: Axes) -> _Choice:
    if constraint.negated:
        return _Choice([_present(constraint.attribute, axes)], exact=False)
    sides = Sides()
    for i, middle in enumerate(constraint.center[:COORDINATES]):
        lo = math.nextafter(middle - constraint.radius, -math.inf)
        hi = math.nextafter(middle + constraint.radius, math.inf)
        sides[axes.number(constraint.attribute, AttributePart.COORDINATE, i)] = max(lo, ANY_VALUE), min(hi, _LARGEST)
    return _Choice([sides], exact=False)


def _present(name: str, axes: Axes) -> Sides:
    return {axes.number(name, AttributePart.PRESENT): (ANY_VALUE, math.inf)}


def _merged(a: Sides, b: Sides) -> Sides | None:
    """Return the intersection of two boxes; None if no event can lie in both."""
    merged = dict(a)
    for axis, (lo, hi) in b.items():
        low, high = merged.get(axis, (-math.inf, math.inf))
        if max(lo, low) > min(hi, high) or lo == math.inf:
            return None
        merged[axis] = max(lo, low), min(hi, high)
    return merged


def _joined_on_regions(a: Sides, b: Sides) -> Sides:
    return _meeting(a, b)[0]


def _meeting(a: Sides, b: Sides) -> tuple[Sides, bool]:
    """Return the sides of both on axes where an event is an interval that must meet them, and whether that says all.

    Sides that overlap may be cut: intervals that meet pairwise have a point in common. An event may meet two sides
    that are apart, too; one of them is all a box can demand then.
    """
    merged, kept = dict(a), True
    for axis, (lo, hi) in b.items():
        low, high = merged.get(axis, (-math.inf, math.inf))
        if max(lo, low) <= min(hi, high):
            merged[axis] = max(lo, low), min(hi, high)
        else:
            kept = False
    return merged, kept
