"""Decides whether an event matches, on raw canonical values: the definition that every index must agree with.

Every index is a pre-filter whose answer is confirmed here. A constraint on a missing attribute does not
hold, nor does its negation; only a set that contains the missing value (``IS NULL``) accepts it.
"""

from __future__ import annotations

from typing import cast

import numpy as np
import numpy.typing as npt

from tamis.geometry.balls import in_ball
from tamis.geometry.predicates import passes
from tamis.geometry.relations import relation_of
from tamis.geometry.spaces import cosine_ball, unit_vector
from tamis.model.derived.clocks import clock_time
from tamis.model.derived.formulas import event_value
from tamis.model.schema import Event
from tamis.model.shapes import RegionValue
from tamis.model.subscription import (
    AllOf,
    AnyOf,
    Clock,
    Constraint,
    Cosine,
    Filter,
    Geometric,
    Like,
    Predicate,
    Some,
    Spatial,
    Subscription,
    Values,
)
from tamis.model.text.patterns import meets
from tamis.model.values import Value

__all__ = ["constraint_holds", "holds", "matches", "matches_subscription"]


def matches(event: Event, filter: Filter) -> bool:
    """Whether a canonical event satisfies every constraint of a filter."""
    for constraint in filter.constraints:
        if not constraint_holds(event, constraint):
            return False
    return filter.rest is None or holds(event, filter.rest)


def matches_subscription(event: Event, subscription: Subscription) -> bool:
    """Whether a canonical event satisfies one of a subscription's filters."""
    return any(matches(event, filter) for filter in subscription.filters)


def holds(event: Event, predicate: Predicate) -> bool:
    """Whether a canonical event satisfies a predicate tree."""
    if isinstance(predicate, AllOf):
        return all(holds(event, part) for part in predicate.parts)
    if isinstance(predicate, AnyOf):
        return any(holds(event, part) for part in predicate.parts)
    if isinstance(predicate, Some):
        return _some_holds(event, predicate)
    return constraint_holds(event, predicate)


def _some_holds(event: Event, predicate: Some) -> bool:
    """Whether some element satisfies a condition; negated: whether the attribute has a value and no such element."""
    elements = event.get(predicate.attribute)
    if elements is None:
        return False
    is_met = any(
        holds({predicate.attribute: element}, predicate.condition) for element in cast("tuple[Value]", elements)
    )
    return is_met != predicate.negated


def constraint_holds(event: Event, constraint: Constraint) -> bool:
    """Whether a canonical event satisfies one constraint."""
    if isinstance(constraint, Values):
        return _belongs(event_value(event, constraint.attribute), constraint)
    value = event.get(constraint.attribute)
    if value is None:
        return False
    if isinstance(constraint, Like):
        return meets(constraint, cast("str", value))
    if isinstance(constraint, Spatial):
        return relation_of(cast("RegionValue", value), constraint.region) in constraint.relations
    if isinstance(constraint, Clock):
        return clock_time(cast("int", value), constraint.zone) in constraint.allowed
    if isinstance(constraint, Geometric):
        return passes(cast("RegionValue", value), constraint) != constraint.negated
    point = cast("npt.NDArray[np.float64]", value)
    if isinstance(constraint, Cosine):
        unit = unit_vector(point)
        return unit is not None and in_ball(unit, *cosine_ball(constraint)) != constraint.negated
    return in_ball(point, constraint.center, constraint.radius) != constraint.negated


def _belongs(value: object, constraint: Values) -> bool:
    allowed = constraint.allowed
    if value is None or not allowed.cuts:
        return allowed.missing if value is None else allowed.from_below  # regions and vectors have no order
    return value in allowed
