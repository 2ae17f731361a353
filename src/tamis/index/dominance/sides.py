"""The sides of components on the axes: as stored, for finding their covers, and for finding what they cover.

* `stored_sides`: the box around a component, with the boxes of its regions.
* `asked_sides`: what the box of every coverer must contain.
* `fits_of`: what the box of a covered component must be. What is covered may be an interval of values or a pattern, of
  which a witness is known; a region with one set of relations or another: each of these is a box of its own.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Final

from tamis.geometry.relations import relation_set
from tamis.index.dominance.outline import ANYWHERE, AxisName, Side, ball_sides
from tamis.index.dominance.patterns.literal_axes import required_keys
from tamis.index.dominance.region_sides import ALL, Demand, bounds_of, demand_of, places_of, stored_sides
from tamis.index.dominance.space import DominanceSpace, Fit
from tamis.index.dominance.splitting.components import Component
from tamis.index.packed.axes import string_key
from tamis.kernels.boxes.quantise import ANY_VALUE
from tamis.model.subscription import Ball, Like, Spatial
from tamis.model.text.patterns import meets

__all__ = ["asked_sides", "component_sides", "fits_of", "stretched", "texts_of"]

#: Boxes in which one component looks for what it covers; beyond them attributes are left to the proof.
_MOST_FITS: Final = 64
#: Equated strings that a pattern may accept, for each of which the tree is walked.
_MOST_STRINGS: Final = 16
_FREE: Final = Fit(ANY_VALUE, math.inf, -math.inf, math.inf)
#: On the axis of equated strings, whose codes are at least 0: only what equates none and is free there.
_NOT_EQUATED: Final = Fit(ANY_VALUE, -2.0, math.nan, math.nan)


def component_sides(component: Component) -> dict[AxisName, Side]:
    """Return the box of a component that is to be stored.

    If two conditions are on one attribute, the place "*" marks it: either of them may imply a condition of a coverer.
    """
    if not component.regions and not component.balls:
        return component.sides
    sides = component.sides | dict(stored_sides(component.regions))
    names = [*(region.attribute for region in component.regions), *(ball.attribute for ball in component.balls)]
    return sides | {(name, "*"): (0.0, 0.0) for name in names if names.count(name) > 1}


def texts_of(component: Component) -> dict[str, str]:
    """Return the strings whose codes are sought: those that are equated, and witnesses of patterns."""
    return component.texts | component.witnesses if component.witnesses else component.texts


def asked_sides(component: Component, space: DominanceSpace, classes: dict[str, set[int]]) -> dict[AxisName, Side]:
    """Return what the box of every coverer contains; ``classes`` are the stored sets of relations by attribute."""
    if not (component.witnesses or component.regions or component.balls):
        sides = dict(component.sides)
    else:
        sides = {place: side for place, side in component.sides.items() if place[1] in ("", "=", "?")}
    for name, text in component.witnesses.items():
        sides[name, ""] = (string_key(text),) * 2
        sides[name, "="] = (0.0, 0.0)
    for (name, part), side in list(sides.items()):
        if part == "" and space.has((name, "~")):
            sides[name, "~"] = side
    if component.regions:
        sides |= _asked_regions(component.regions, classes)
    for ball in component.balls:
        for place, side in ball_sides(ball, -1):
            sides[place] = _loosened(sides.get(place), side)
    return sides


def _loosened(first: Side | None, second: Side) -> Side:
    """Return the side with the requirements of both sides."""
    return second if first is None else (max(first[0], second[0]), min(first[1], second[1]))


def _asked_regions(conditions: Sequence[Spatial], classes: dict[str, set[int]]) -> dict[AxisName, Side]:
    sides: dict[AxisName, Side] = {}
    for condition in conditions:
        inner, bounds = relation_set(condition.relations), bounds_of(condition)
        for outer in classes.get(condition.attribute, ()):
            demand = demand_of(outer, inner)
            if demand is Demand.IMPOSSIBLE:
                continue
            for place, (lo, hi) in zip(places_of(condition.attribute, outer), bounds, strict=True):
                if demand is Demand.AROUND:
                    side = lo, hi
                elif demand is Demand.ANY:
                    side = ANYWHERE
                else:  # a box within another meets it
                    side = hi, lo
                sides[place] = _loosened(sides.get(place), side)
    return sides


def stretched(sides: dict[AxisName, Side], component: Component, steps: float) -> dict[AxisName, Side]:
    """Return the sides with each end of a number moved by a step: out (1) or in (-1)."""
    strings = component.texts.keys() | component.witnesses.keys()
    moved = dict(sides)
    for (name, part), (lo, hi) in sides.items():
        if part == "" and name not in strings:
            lo = math.nextafter(lo, -math.inf * steps) if lo > ANY_VALUE else lo
            hi = math.nextafter(hi, math.inf * steps) if hi < math.inf else hi
            moved[name, part] = lo, hi
    return moved


def fits_of(
    component: Component, space: DominanceSpace, classes: dict[str, set[int]], strict: bool
) -> list[dict[AxisName, Fit]]:
    """Return boxes one of which everything that is covered fits; ``strict``: ends that tie do not count."""
    sides = stretched(component.sides, component, -1.0) if strict else component.sides
    options: list[list[dict[AxisName, Fit]]] = [
        *(_value_fits(place, side, component, space) for place, side in sides.items() if place[1] in ("", "~", "?")),
        *_region_fits(component.regions, space, classes),
        *_ball_fits(component.balls, space),
    ]
    options.sort(key=len)
    while math.prod(map(len, options)) > _MOST_FITS:
        options.pop()
    combined: list[dict[AxisName, Fit]] = []
    for chosen in itertools.product(*options):
        joined: dict[AxisName, Fit] = {}
        for fits in chosen:
            joined |= fits
        combined.append(joined)
    return combined


def _inside(side: Side) -> Fit:
    return Fit(side[0], side[1], side[0], side[1])


def _value_fits(place: AxisName, side: Side, component: Component, space: DominanceSpace) -> list[dict[AxisName, Fit]]:
    name, part = place
    if part == "?":
        return [{place: _inside(side)}] if space.has(place) else []
    options: list[dict[AxisName, Fit]] = []
    if space.has((name, "")):
        options.append({(name, ""): _inside(side)})
        if name in component.texts:
            options = [options[0] | {(name, "="): _inside(side)}] if space.has((name, "=")) else []
        elif name in component.witnesses and space.has((name, "=")):
            options = _equated_fits(name, options[0], component, space)
    if space.has((name, "w")):
        options.append({(name, "w"): _inside(side)})
    return options


def _equated_fits(
    name: str, fits: dict[AxisName, Fit], component: Component, space: DominanceSpace
) -> list[dict[AxisName, Fit]]:
    """Return what strings fit that satisfy a pattern: equated ones, if these are few, and ranges of others."""
    codes = space.strings.find(key for key in required_keys(component) if key.attribute == name)
    if codes is None or len(codes) > _MOST_STRINGS:
        return [fits]
    likes = [
        constraint
        for constraint in component.filter.constraints
        if isinstance(constraint, Like) and constraint.attribute == name
    ]
    options = [fits | {(name, "="): _NOT_EQUATED}]
    for code in codes.tolist():
        text = space.strings.at(code)[name]
        if all(meets(like, text) for like in likes):
            options.append({(name, ""): _inside((string_key(text),) * 2), (name, "="): _inside((code, code))})
    return options


def _region_fits(
    conditions: Sequence[Spatial], space: DominanceSpace, classes: dict[str, set[int]]
) -> Iterator[list[dict[AxisName, Fit]]]:
    """Yield for one condition on each attribute the boxes of all conditions that may imply it."""
    drivers: dict[str, Spatial] = {}
    for condition in conditions:
        if relation_set(condition.relations) != ALL:
            drivers.setdefault(condition.attribute, condition)
    for condition in drivers.values():
        options = [
            fits
            for inner in sorted(classes.get(condition.attribute, ()))
            if (fits := _bounds_fit(condition, inner)) is not None
        ]
        if space.has((condition.attribute, "*")):
            options.append({(condition.attribute, "*"): _FREE})
        yield options


def _bounds_fit(condition: Spatial, inner: int) -> dict[AxisName, Fit] | None:
    demand = demand_of(relation_set(condition.relations), inner)
    if demand is Demand.IMPOSSIBLE:
        return None
    fits: dict[AxisName, Fit] = {}
    for place, (lo, hi) in zip(places_of(condition.attribute, inner), bounds_of(condition), strict=True):
        if demand is Demand.AROUND:
            fits[place] = Fit(lo, hi, lo, hi)
        elif demand is Demand.WITHIN:
            fits[place] = Fit(hi, lo, -math.inf, math.inf)
        else:
            fits[place] = _FREE if demand is Demand.ANY else Fit(lo, hi, -math.inf, math.inf)
    return fits


def _ball_fits(balls: Sequence[Ball], space: DominanceSpace) -> Iterator[list[dict[AxisName, Fit]]]:
    drivers: dict[str, Ball] = {}
    for ball in balls:
        if not ball.negated:
            drivers.setdefault(ball.attribute, ball)
    for ball in drivers.values():
        cube = {place: _inside(side) for place, side in ball_sides(ball, 1)}
        options = [cube] if all(space.has(place) for place in cube) else []
        if space.has((ball.attribute, "*")):
            options.append({(ball.attribute, "*"): _FREE})
        yield options
