"""What is known of one attribute: the values it may have and the conditions its value satisfies.

A filter says something about each of its attributes and nothing across attributes, so a conjunction can be
satisfied iff what it says about *each single attribute* can. That is the whole burden of the algebra:
`Facts` are what a conjunction says about one attribute, and `Facts.impossible` proves that no value fits.
Scalars and LIKE are exact both ways, two balls and two conditions on regions too;
beyond that ``impossible`` errs towards "no" and never towards "yes".
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TypeVar

from tamis.algebra.proofs import balls, geometries, patterns, regions
from tamis.algebra.proofs.budget import Budget
from tamis.model.subscription import Ball, Clock, Constraint, Cosine, Geometric, Like, Spatial, Values
from tamis.model.value_set import ANYTHING, MISSING, PRESENT, ValueSet

__all__ = ["UNCONSTRAINED", "Condition", "Facts", "failures", "negation"]

#: A constraint that is not a set of values.
Condition = Like | Spatial | Ball | Geometric | Cosine | Clock

_Kind = TypeVar("_Kind", Like, Spatial, Ball)


@dataclass(frozen=True, slots=True)
class Facts:
    """A set of values, and conditions that hold; where there are conditions the value is not missing."""

    allowed: ValueSet = ANYTHING
    conditions: tuple[Condition, ...] = ()
    #: The conditions on regions by `region_key`, made when it is asked for.
    _by_region: dict[bytes, Spatial] | None = field(default=None, init=False, repr=False, compare=False)

    def and_also(self, constraint: Constraint) -> Facts:
        """Return what is known when the constraint holds as well."""
        if isinstance(constraint, Values):
            return Facts(self.allowed & constraint.allowed, self.conditions)
        if constraint in self.conditions:
            return self
        allowed = self.allowed & PRESENT if self.allowed.missing else self.allowed
        if isinstance(constraint, Spatial):  # one condition per region: then pairs see every conflict on it
            return self._with_region(allowed, constraint)
        return Facts(allowed, (*self.conditions, constraint))

    def impossible(self, budget: Budget | None = None) -> bool:
        """Whether it is proved that no value fits, nor a missing one; walks are charged to the budget."""
        if not self.allowed:
            return True
        if not self.conditions:
            return False
        if isinstance(self.conditions[0], Like):
            return patterns.no_string_fits(self.allowed, self._of(Like), budget)
        if balls.balls_impossible(self._of(Ball)) or regions.regions_impossible(self._of(Spatial)):
            return True
        others = [one for one in self.conditions if isinstance(one, Geometric | Cosine | Clock)]
        return any(geometries.conditions_conflict(one, other) for one in others for other in self.conditions)

    def excludes(self, constraint: Constraint, budget: Budget | None = None) -> bool:
        """Whether it is proved that the constraint does not hold; the facts themselves are possible.

        Balls and regions are judged by pairs, so only pairs with the new condition have to be looked at.
        """
        if isinstance(constraint, Values):
            both = self.allowed & constraint.allowed
            if not both or not self.conditions:
                return not both
            return isinstance(self.conditions[0], Like) and Facts(both, self.conditions).impossible(budget)
        if not self.allowed.has_values:
            return True
        if isinstance(constraint, Like):
            return self.and_also(constraint).impossible(budget)
        others = self.conditions
        if not isinstance(constraint, Geometric | Cosine | Clock):
            others = tuple(one for one in others if isinstance(one, Geometric | Cosine | Clock))
        if any(geometries.conditions_conflict(one, constraint) for one in others):
            return True
        if isinstance(constraint, Geometric | Cosine | Clock):
            return False
        if isinstance(constraint, Ball):
            return any(balls.balls_conflict(one, constraint) for one in self._of(Ball))
        if not constraint.relations:
            return True
        return any(regions.regions_conflict(one, constraint) for one in self.regions.values())

    def implies(self, constraint: Constraint, budget: Budget | None = None) -> bool:
        """Whether it is proved that the constraint holds."""
        if isinstance(constraint, Values):
            if self.allowed <= constraint.allowed:
                return True
            rest = Values(constraint.attribute, constraint.allowed.complement())
            return bool(self.conditions) and self.excludes(rest, budget)
        return not self.allowed.missing and all(self.excludes(one, budget) for one in failures(constraint))

    def without(self, constraint: Constraint, budget: Budget | None = None) -> list[Facts]:
        """Return the ways in which the constraint can fail: by another value, or by a missing one."""
        if isinstance(constraint, Values):
            opposites: list[Constraint] = [Values(constraint.attribute, constraint.allowed.complement())]
        else:
            opposites = [*failures(constraint)]
        ways = [self.and_also(one) for one in opposites if not self.excludes(one, budget)]
        if self.allowed.missing and not isinstance(constraint, Values):
            ways.append(Facts(MISSING))
        return ways

    @property
    def regions(self) -> dict[bytes, Spatial]:
        """The conditions on regions, one for each region, by `region_key`."""
        if self._by_region is None:
            found = {regions.region_key(one.region): one for one in regions.joined_by_region(self._of(Spatial))}
            object.__setattr__(self, "_by_region", found)
            return found
        return self._by_region

    def _with_region(self, allowed: ValueSet, constraint: Spatial) -> Facts:
        key = regions.region_key(constraint.region)
        known = self.regions.get(key)
        if known is not None:
            constraint = Spatial(known.attribute, known.relations & constraint.relations, known.region)
        joined = {**self.regions, key: constraint}
        others = tuple(one for one in self.conditions if not isinstance(one, Spatial))
        found = Facts(allowed, (*joined.values(), *others))
        object.__setattr__(found, "_by_region", joined)
        return found

    def _of(self, kind: type[_Kind]) -> tuple[_Kind, ...]:
        return tuple(one for one in self.conditions if isinstance(one, kind))


UNCONSTRAINED = Facts()


def failures(condition: Condition) -> list[Condition]:
    """Return the ways in which a value, not a missing one, can fail a condition; their union is exact.

    A vector of zeros has no direction, so it fails a cosine and its negation alike.
    """
    ways = [negation(condition)]
    if isinstance(condition, Cosine):
        ways.append(Ball(condition.attribute, (0.0,) * len(condition.direction), 0.0))
    return ways


def negation(condition: Condition) -> Condition:
    """Return the condition that holds for the values, never a missing one, that do not satisfy this one."""
    if isinstance(condition, Spatial):
        return regions.complement(condition)
    if isinstance(condition, Clock):
        return replace(condition, allowed=condition.allowed.negated())
    if isinstance(condition, Like | Geometric | Cosine):
        return replace(condition, negated=not condition.negated)
    return Ball(condition.attribute, condition.center, condition.radius, not condition.negated)
