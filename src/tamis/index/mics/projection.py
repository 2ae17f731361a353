"""Chooses the attributes to index: those that distinguish subscriptions best.

The *selectivity* of an axis is how little of it a filter takes on average: 1 for an axis that no filter constrains. The
axes are taken greedily, the most selective first. Their cells follow the bounds of the subscriptions, which are the
places where it matters on which side an event lies, and the values of events, where a sample of them is given. Then the
selectivity of an axis is how many of the events a filter takes on average, and not how much of the axis.

Implements: [mics] section 5, the greedy choice of dimensions by selectivity; section 6.3, variable cells.
Deviation: cells follow the distribution of the subscriptions' bounds as well, where [mics] follows that of the
publications alone: a cell between two bounds separates no subscriptions.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import numpy as np
import numpy.typing as npt

from tamis.curves.cells import DEFAULT_BITS, Cells
from tamis.index.mics.space import ContentSpace, SpaceAxis
from tamis.index.mics.spans import sides_of, spans_of
from tamis.index.packed.axes import AttributePart, Axes, Axis
from tamis.model.schema import Event
from tamis.model.subscription import Ball, Constraint, Filter, Like, Spatial, Subscription, Values

__all__ = ["DEFAULT_AXES", "group_axes", "ranked_axes", "selectivity"]

#: Axes of a learned space, as in [mics] section 7.2.
DEFAULT_AXES = 3

#: Subscriptions that are looked at, evenly spread over all.
SAMPLE = 2_048
#: Coordinates of a vector that may become axes.
_COORDINATES = 2


def group_axes(
    subscriptions: Sequence[Subscription],
    n_groups: int,
    n_axes: int = DEFAULT_AXES,
    bits: int = DEFAULT_BITS,
    *,
    events: Sequence[Event] = (),
    names: Sequence[str] = (),
) -> list[ContentSpace]:
    """Return several spaces that share the most selective axes among them, each with up to ``n_axes``.

    Only attributes among ``names`` are taken if there are any.

    One table per group and a match only where all agree: that brings more attributes in than one space can hold.
    Axes go to the groups in turn, so that each group gets a selective one.

    Implements: [mics] section 8, dimensions partitioned into subsets.
    """
    axes = [axis for axis, _ in ranked_axes(subscriptions, bits, events)]
    ranked = [axis for axis in axes if not names or axis[0].attribute in names][: n_groups * n_axes]
    groups = [ranked[number::n_groups] for number in range(n_groups)]
    return [ContentSpace(group) for group in groups if group] or [ContentSpace([])]


def ranked_axes(
    subscriptions: Sequence[Subscription], bits: int = DEFAULT_BITS, events: Sequence[Event] = ()
) -> list[tuple[SpaceAxis, float]]:
    """Return the axes that constrain something, each with its cells and its selectivity, the most selective first."""
    step = max(1, len(subscriptions) // SAMPLE)
    filters = [filter for subscription in subscriptions[::step] for filter in subscription.filters]
    bounds: dict[Axis, list[float]] = {}
    for constraint in (constraint for filter in filters for constraint in filter.constraints):
        for axis in _axes_of(constraint):
            # A value on a cut is in the cell above it, so a cell that ends with the upper bound ends just after it.
            both = (end for lo, hi in sides_of(constraint, axis) for end in (lo, math.nextafter(hi, math.inf)))
            bounds.setdefault(axis, []).extend(filter(math.isfinite, both))
    measured = []
    for axis, ends in bounds.items():
        if ends:
            values = _values_on(axis, events)
            cells = Cells.from_sample(_alternating(ends, values), bits)
            weights = None if values is None else np.bincount(cells.cells(values), minlength=cells.n_used)
            measured.append(((axis, cells), selectivity(filters, (axis, cells), weights)))
    ranked = [item for item in measured if item[1] < 1]
    return sorted(ranked, key=lambda item: (item[1], item[0][0].attribute, item[0][0].part.value, item[0][0].i))


def selectivity(filters: Iterable[Filter], axis: SpaceAxis, weights: npt.NDArray[np.int64] | None = None) -> float:
    """Return the part of an axis that a filter takes on average, in cells in use; 1 when there are no filters.

    ``weights`` are the events in each cell; the part is then a share of the events.
    """
    n_used = axis[1].n_used
    below = np.concatenate([[0], np.cumsum(np.ones(n_used) if weights is None else weights[:n_used])])
    taken = [
        sum(below[min(last, n_used - 1) + 1] - below[first] for first, last in spans_of(filter, *axis))
        for filter in filters
    ]
    return float(sum(taken) / (len(taken) * below[-1])) if taken and below[-1] else 1.0


def _values_on(axis: Axis, events: Sequence[Event]) -> npt.NDArray[np.float64] | None:
    """Return the values of events on an axis, NaN where they have none; None without events, or for regions."""
    if not events or axis.part in (AttributePart.X, AttributePart.Y):
        return None
    axes = Axes()
    axes.number(axis.attribute, axis.part, axis.i)
    step = max(1, len(events) // SAMPLE)
    return np.array([axes.place(event, 1)[0][0] for event in events[::step]], np.float64)


def _alternating(ends: Sequence[float], values: npt.NDArray[np.float64] | None) -> npt.NDArray[np.float64]:
    """Return ends and values, repeated so that both have the same weight."""
    bounds = np.array(ends, np.float64)
    finite = None if values is None else values[np.isfinite(values)]
    if finite is None or not finite.size:
        return bounds
    most = max(len(bounds), len(finite))
    return np.concatenate([np.resize(bounds, most), np.resize(finite, most)])


def _axes_of(constraint: Constraint) -> Iterator[Axis]:
    """Yield the axes that a constraint can bound."""
    name = constraint.attribute
    if isinstance(constraint, Values) and constraint.allowed.cuts:
        yield Axis(name, AttributePart.KEY if isinstance(constraint.allowed.cuts[0][0], str) else AttributePart.NUMBER)
    elif isinstance(constraint, Like):
        yield Axis(name, AttributePart.KEY)
    elif isinstance(constraint, Spatial):
        yield Axis(name, AttributePart.X)
        yield Axis(name, AttributePart.Y)
    elif isinstance(constraint, Ball):
        yield from islice(
            (Axis(name, AttributePart.COORDINATE, i) for i in range(len(constraint.center))), _COORDINATES
        )
