"""The outline of a subscription: a box that dominance can compare, and whether the box is exact.

Keys are float64 and grow with the values, though not strictly: a number is rounded, a string is its first six
bytes, a boolean or moment is a number. Each attribute has a value axis; strings that are equated have a
second one, on which each has a code of its own; a ball has one for each of its first coordinates.

An outline is read in two ways:

* as that of a *coverer* its box must contain whatever the subscription matches: the hull of its filters;
* as that of a subscription that *is to be covered* its box must lie in the hull of every coverer: on an axis
  where its extent is not known exactly (patterns, regions, two balls, a tree) it asks for nothing.

Then dominance is necessary for covering. It is sufficient, and no raw value is looked at, if the coverer is
one conjunction of closed intervals and both boxes are *exact*: every end is the float64 that was meant.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from tamis.algebra.proofs.pieces import Budget, Piece, pieces_of
from tamis.index.packed.axes import COORDINATES, string_key
from tamis.kernels.boxes.quantise import ANY_VALUE
from tamis.model.subscription import Ball, Filter, Some, Values
from tamis.model.value_set import Cut, ValueSet

__all__ = ["ANYWHERE", "LOWEST", "PRESENT", "AxisName", "Outline", "Side", "ball_sides", "outline_of", "side_of"]

#: Lower and upper end of a closed interval.
Side = tuple[float, float]
#: (attribute, part): "" is the value, "=" the string that is equated, a number the coordinate of a vector.
AxisName = tuple[str, str]

#: A side without a requirement: it meets every interval and every free axis. Its ends are exchanged on purpose.
ANYWHERE: Final[Side] = (math.inf, float(ANY_VALUE))
#: Any value, but there must be one.
PRESENT: Final[Side] = (float(ANY_VALUE), math.inf)

_LARGEST: Final = -float(ANY_VALUE)
#: The lowest exact end; lower values share its key.
LOWEST: Final = math.nextafter(-_LARGEST, 0.0)
_ONLY_VALUES: Final = frozenset({Values})
#: Pieces that are tried to see whether a filter can hold at all.
_PIECES: Final = 1_000


class Outline(NamedTuple):
    """The box of a subscription; attributes that ``outer`` does not name are free.

    Attributes
    ----------
    outer
        Sides that contain everything the subscription matches.
    inner
        Sides that every coverer's box contains, free where it is not named; None: nothing is known.
    texts
        Strings of the places "=" in both, by attribute: the code that numbers the axes assigns the codes.
    exact
        Whether every end of ``outer`` is the end that was meant, so that a box around it proves covering.
    single
        Whether the subscription is this box and nothing less.
    """

    outer: dict[AxisName, Side]
    inner: dict[AxisName, Side] | None
    texts: dict[str, str]
    exact: bool
    single: bool


def outline_of(filters: Sequence[Filter]) -> Outline | None:
    """Return the outline of a disjunction of filters; None when none of them can hold.

    >>> from tamis.model.language.compiler import compile_text
    >>> outline_of(compile_text("x BETWEEN 1 AND 2").filters).outer
    {('x', ''): (1.0, 2.0)}
    """
    if len(filters) == 1 and filters[0].rest is None and _ONLY_VALUES.issuperset(map(type, filters[0].constraints)):
        return _outline_of_values(filters[0])
    return _hull([outline for filter in filters if (outline := _outline_of_filter(filter)) is not None])


def _outline_of_values(filter: Filter) -> Outline | None:
    """Return the outline of a filter that has value sets only."""
    sides: dict[AxisName, Side] = {}
    texts: dict[str, str] = {}
    exact = single = True
    for constraint in filter.constraints:
        name, allowed = constraint.attribute, constraint.allowed  # type: ignore[union-attr]
        if allowed.missing:
            single = False  # the axis stays free: a missing value has no place on it
            continue
        cuts = allowed.cuts
        if len(cuts) == 2 and not allowed.from_below and type(cuts[0][0]) is type(cuts[1][0]) is float:
            (lo, after), (hi, until) = cuts  # the usual case
            if lo <= LOWEST or after != 0 or until != 1 or hi >= _LARGEST:
                lo, exact = max(lo, LOWEST), False
            side = lo, hi
        else:
            if not allowed:
                return None
            side, sure = side_of(allowed, texts, name)
            exact &= sure
            single &= len(cuts) <= 2 and not (len(cuts) == 2 and allowed.from_below)
        sides[name, ""] = side
        if name in texts:
            sides[name, "="] = (0.0, 0.0)
    return Outline(sides, sides, texts, exact, single and exact)


def side_of(allowed: ValueSet, texts: dict[str, str], name: str) -> tuple[Side, bool]:
    """Return the hull of the values, and whether it is exact; the text of a single string is stored in ``texts``."""
    if not allowed.cuts:
        return PRESENT, True
    intervals = list(allowed.intervals())
    start, stop = intervals[0][0], intervals[-1][1]
    if isinstance(allowed.cuts[0][0], str):
        text = _only_string(start, stop) if len(intervals) == 1 else None
        if text is not None:
            texts[name] = text
            key = string_key(text)
            return (key, key), True
        lo = ANY_VALUE if start is None else string_key(start[0])
        return (lo, math.inf if stop is None else string_key(stop[0])), start is None and stop is None
    lo, sure_lo = (ANY_VALUE, True) if start is None else _key(start, 0)
    hi, sure_hi = (math.inf, True) if stop is None else _key(stop, 1)
    return (lo, hi), sure_lo and sure_hi


def _key(cut: Cut, closed: int) -> tuple[float, bool]:
    """Return the float64 of a cut, and whether the cut is that number with the number on its inside."""
    value, side = cut
    try:
        key = float(value)
    except OverflowError:
        return (_LARGEST if value > 0 else LOWEST), False
    return max(key, LOWEST), side == closed and key == value and LOWEST < key < _LARGEST


def _only_string(start: Cut | None, stop: Cut | None) -> str | None:
    if stop is None:
        return None
    text: str = "" if start is None else start[0]
    return text if stop[0] == f"{text}\0" else None


def _outline_of_filter(filter: Filter) -> Outline | None:
    """Return the outline of any filter; None when it cannot hold."""
    plain = _outline_of_values(
        Filter(tuple(constraint for constraint in filter.constraints if type(constraint) is Values))
    )
    others = [constraint for constraint in filter.constraints if type(constraint) is not Values]
    if plain is None or (not others and filter.rest is None):
        return plain
    budget = Budget(_PIECES)
    piece = next(pieces_of(filter, budget), None)
    if piece is None and not budget.exhausted:
        return None
    outer = dict(plain.outer)
    for constraint in others:
        outer.setdefault((constraint.attribute, ""), PRESENT)
        outer.update(ball_sides(constraint, 1) if isinstance(constraint, Ball) else ())
    if piece is None:
        return Outline(outer, None, plain.texts, False, False)
    inner = dict.fromkeys(outer, ANYWHERE) | dict(_inner_sides(piece, plain))
    return Outline(outer, inner, plain.texts, False, False)


def _inner_sides(piece: Piece, plain: Outline) -> Iterator[tuple[AxisName, Side]]:
    """Yield the sides that a piece surely reaches, on attributes of which only values, or one ball, are known."""
    for name, facts in piece.items():
        if isinstance(name, Some) or facts.allowed.missing:
            continue
        if not facts.conditions:
            yield (name, ""), side_of(facts.allowed, {}, name)[0]
            yield (name, "="), (0.0, 0.0) if name in plain.texts else ANYWHERE
            continue
        yield from (((name, part), ANYWHERE) for part in ("", "=", *map(str, range(COORDINATES))))
        if len(facts.conditions) == 1:
            yield from ball_sides(facts.conditions[0], -1)


def ball_sides(ball: object, outwards: int) -> Iterator[tuple[AxisName, Side]]:
    """Yield the sides of a ball's cube on its first coordinates, rounded outwards (1) or inwards (-1)."""
    if not isinstance(ball, Ball) or ball.negated:
        return
    for i, middle in enumerate(ball.center[:COORDINATES]):
        lo = math.nextafter(middle - ball.radius, -math.inf * outwards)
        hi = math.nextafter(middle + ball.radius, math.inf * outwards)
        yield (ball.attribute, str(i)), (max(lo, ANY_VALUE), min(hi, _LARGEST)) if outwards > 0 else (lo, hi)


def _hull(outlines: Sequence[Outline]) -> Outline | None:
    """Return the outline of a union: free where one is free."""
    if len(outlines) <= 1:
        return outlines[0] if outlines else None
    first = outlines[0].texts
    texts = {name: text for name, text in first.items() if all(outline.texts.get(name) == text for outline in outlines)}
    inner = None
    if all(outline.inner is not None for outline in outlines):
        inner = _around([outline.inner or {} for outline in outlines], texts)
    exact = all(outline.exact for outline in outlines)
    return Outline(_around([outline.outer for outline in outlines], texts), inner, texts, exact, False)


def _around(boxes: Sequence[dict[AxisName, Side]], texts: dict[str, str]) -> dict[AxisName, Side]:
    """Return the sides around all boxes, on the places all of them name; `ANYWHERE` adds nothing to a side."""
    around: dict[AxisName, Side] = {}
    for place in boxes[0]:
        sides = [box[place] for box in boxes if place in box]
        if len(sides) < len(boxes):
            continue
        if place[1] != "=" or place[0] in texts:
            around[place] = min(side[0] for side in sides), max(side[1] for side in sides)
        elif ANYWHERE in sides:
            around[place] = ANYWHERE
    return around
