"""The one truth: whether an event matches, evaluated on raw canonical values.

Every index is a pre-filter whose answer is confirmed here. A constraint on a missing attribute does not
hold, nor does its negation; only a set that contains the missing value (``IS NULL``) accepts it.
"""

from __future__ import annotations

from typing import cast

import numpy as np
import numpy.typing as npt

from tamis.geometry.balls import in_ball
from tamis.geometry.relations import relation_of
from tamis.model.schema import Event
from tamis.model.shapes import RegionValue
from tamis.model.subscription import AllOf, AnyOf, Constraint, Filter, Like, Predicate, Spatial, Subscription, Values
from tamis.model.text.patterns import meets

__all__ = ["constraint_holds", "holds", "matches", "matches_subscription"]


def matches(event: Event, filter: Filter) -> bool:
    """Whether a canonical event satisfies every constraint of a filter."""
    for constraint in filter.constraints:
        if not constraint_holds(event, constraint):
            return False
    return filter.rest is None or holds(event, filter.rest)


def matches_subscription(event: Event, subscription: Subscription) -> bool:
    """Whether a canonical event satisfies one of a subscription's filters."""
    return any(matches(event, one) for one in subscription.filters)


def holds(event: Event, predicate: Predicate) -> bool:
    """Whether a canonical event satisfies a predicate tree."""
    if isinstance(predicate, AllOf):
        return all(holds(event, part) for part in predicate.parts)
    if isinstance(predicate, AnyOf):
        return any(holds(event, part) for part in predicate.parts)
    return constraint_holds(event, predicate)


def constraint_holds(event: Event, constraint: Constraint) -> bool:
    """Whether a canonical event satisfies one constraint."""
    value = event.get(constraint.attribute)
    if isinstance(constraint, Values):
        return _belongs(value, constraint)
    if value is None:
        return False
    if isinstance(constraint, Like):
        return meets(constraint, cast("str", value))
    if isinstance(constraint, Spatial):
        return relation_of(cast("RegionValue", value), constraint.region) in constraint.relations
    point = cast("npt.NDArray[np.float64]", value)
    return in_ball(point, constraint.center, constraint.radius) != constraint.negated


def _belongs(value: object, constraint: Values) -> bool:
    allowed = constraint.allowed
    if value is None or not allowed.cuts:
        return allowed.missing if value is None else allowed.from_below  # regions and vectors have no order
    return value in allowed
