"""The insets of a subscription: boxes whose whole inside it surely accepts.

An `Outline` says what a subscription accepts at most; an inset is the other side of it. Whoever's box lies in one is
covered, and no raw value need be looked at. A filter that only says which values it allows has an inset for each choice
of one interval per attribute; patterns, regions, balls and trees have none, and are verified as before.

Keys grow with the values, though not strictly. So an end that is not the float64 that was meant (``x < 5``, a long
decimal, a string) is drawn in by one step: a key that is strictly below the key of an end belongs to a value below it.
A box whose own ends are rounded needs that on every end that is a number.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Final

from tamis.index.dominance.outline import Outline, Place, Side, side_of
from tamis.kernels.boxes.quantise import ANY_VALUE
from tamis.model.subscription import Filter, Values
from tamis.model.value_set import ValueSet

__all__ = ["insets_of"]

#: Boxes of one filter; one that falls into more is verified.
_MOST: Final = 64


def insets_of(filters: Sequence[Filter], *, rounded: bool) -> list[Outline]:
    """Return boxes that lie in a disjunction of filters; ``rounded``: for boxes whose own ends may be rounded.

    >>> from tamis.model.language.compiler import compile_text
    >>> filters = compile_text("x BETWEEN 0 AND 9 AND x <> 5").filters
    >>> [inset.outer for inset in insets_of(filters, rounded=True)]
    [{('x', ''): (5e-324, 4.999999999999999)}, {('x', ''): (5.000000000000001, 8.999999999999998)}]
    """
    return [inset for one in filters for inset in _insets_of_filter(one, rounded)]


def _insets_of_filter(filter: Filter, rounded: bool) -> Iterator[Outline]:
    allowed = {one.attribute: one.allowed for one in filter.constraints if isinstance(one, Values)}
    if filter.rest is not None or len(allowed) < len(filter.constraints):
        return
    choices = [[(name, part) for part in _intervals(values)] for name, values in allowed.items()]
    if math.prod(map(len, choices)) > _MOST:
        return
    for chosen in itertools.product(*choices):
        texts: dict[str, str] = {}
        sides: dict[Place, Side] = {}
        for name, part in chosen:
            sides |= _sides(name, part, texts, rounded)
        yield Outline(sides, sides, texts, exact=False, single=False)


def _intervals(values: ValueSet) -> list[ValueSet]:
    """Return the intervals of a set; that a value may be missing is no place on an axis."""
    if not values.cuts:
        return [values] if values.from_below else []
    return [ValueSet.between(start, stop) for start, stop in values.intervals()]


def _sides(name: str, part: ValueSet, texts: dict[str, str], rounded: bool) -> dict[Place, Side]:
    (lo, hi), sure = side_of(part, texts, name)
    if name in texts:  # the code of a string says which it is, whatever its key
        return {(name, ""): (lo, hi), (name, "="): (0.0, 0.0)}
    if rounded or not sure:
        lo = math.nextafter(lo, math.inf) if lo > ANY_VALUE else lo
        hi = math.nextafter(hi, -math.inf) if hi < math.inf else hi
    return {(name, ""): (lo, hi)}
