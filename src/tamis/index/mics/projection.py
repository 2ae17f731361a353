"""Which attributes to index: those that tell subscriptions apart best.

The *selectivity* of an axis is how little of it a filter takes on average: 1 for an axis that no filter constrains. The
axes are taken greedily, the most selective first. Their cells follow the bounds of the subscriptions, which are the
places where it matters on which side an event lies.

Implements: [mics] section 5, the greedy choice of dimensions by selectivity; section 6.3, variable cells.
Deviation: cells follow the distribution of the subscriptions' bounds where [mics] follows that of the publications,
which a node does not know before they come.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from tamis.curves.cells import DEFAULT_BITS, Cells
from tamis.index.mics.space import ContentSpace, SpaceAxis
from tamis.index.mics.spans import sides_of, spans_of
from tamis.index.packed.axes import Axis, Part
from tamis.model.subscription import Ball, Constraint, Filter, Like, Spatial, Subscription, Values

__all__ = ["DEFAULT_AXES", "group_axes", "learn_space", "ranked_axes", "selectivity"]

#: Axes of a learned space, as in [mics] section 7.2.
DEFAULT_AXES = 3

#: Subscriptions that are looked at, evenly spread over all.
SAMPLE = 2_048
#: Coordinates of a vector that may become axes.
_COORDINATES = 2


def learn_space(
    subscriptions: Sequence[Subscription], n_axes: int = DEFAULT_AXES, bits: int = DEFAULT_BITS
) -> ContentSpace:
    """Return the space of the most selective axes of these subscriptions."""
    return ContentSpace([axis for axis, _ in ranked_axes(subscriptions, bits)[:n_axes]])


def group_axes(
    subscriptions: Sequence[Subscription], n_groups: int, n_axes: int = DEFAULT_AXES, bits: int = DEFAULT_BITS
) -> list[ContentSpace]:
    """Return several spaces that share the most selective axes among them, each with up to ``n_axes``.

    One table per group and a match only where all agree: that brings more attributes in than one space can hold.
    Axes go to the groups in turn, so that each group gets a selective one.

    Implements: [mics] section 8, dimensions partitioned into subsets.
    """
    ranked = [axis for axis, _ in ranked_axes(subscriptions, bits)[: n_groups * n_axes]]
    groups = [ranked[number::n_groups] for number in range(n_groups)]
    return [ContentSpace(group) for group in groups if group] or [ContentSpace([])]


def ranked_axes(subscriptions: Sequence[Subscription], bits: int = DEFAULT_BITS) -> list[tuple[SpaceAxis, float]]:
    """Return the axes that constrain something, each with its cells and its selectivity, the most selective first."""
    step = max(1, len(subscriptions) // SAMPLE)
    filters = [one for subscription in subscriptions[::step] for one in subscription.filters]
    bounds: dict[Axis, list[float]] = {}
    for constraint in (constraint for one in filters for constraint in one.constraints):
        for axis in _axes_of(constraint):
            # A value on a cut is in the cell above it, so a cell that ends with the upper bound ends just after it.
            both = (end for lo, hi in sides_of(constraint, axis) for end in (lo, math.nextafter(hi, math.inf)))
            bounds.setdefault(axis, []).extend(filter(math.isfinite, both))
    found = []
    for axis, ends in bounds.items():
        if ends:
            cells = Cells.from_sample(ends, bits)
            found.append(((axis, cells), selectivity(filters, (axis, cells))))
    ranked = [one for one in found if one[1] < 1]
    return sorted(ranked, key=lambda one: (one[1], one[0][0].attribute, one[0][0].part.value, one[0][0].i))


def selectivity(filters: Iterable[Filter], axis: SpaceAxis) -> float:
    """Return the part of an axis that a filter takes on average, in cells in use; 1 when there are no filters."""
    n_used = axis[1].n_used
    taken = [sum(min(last, n_used - 1) - first + 1 for first, last in spans_of(one, *axis)) for one in filters]
    return sum(taken) / (len(taken) * n_used) if taken else 1.0


def _axes_of(constraint: Constraint) -> Iterator[Axis]:
    """Yield the axes on which a constraint can say something."""
    name = constraint.attribute
    if isinstance(constraint, Values) and constraint.allowed.cuts:
        yield Axis(name, Part.KEY if isinstance(constraint.allowed.cuts[0][0], str) else Part.NUMBER)
    elif isinstance(constraint, Like):
        yield Axis(name, Part.KEY)
    elif isinstance(constraint, Spatial):
        yield Axis(name, Part.X)
        yield Axis(name, Part.Y)
    elif isinstance(constraint, Ball):
        yield from islice((Axis(name, Part.COORDINATE, i) for i in range(len(constraint.center))), _COORDINATES)
