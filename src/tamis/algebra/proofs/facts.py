"""Facts about one attribute: the values it may have and the conditions its value satisfies.

A filter constrains each of its attributes separately, so a conjunction can be satisfied iff its constraints on
*each single attribute* can. The rest of the algebra builds on this: `Facts` hold the constraints of a conjunction
on one attribute, and `Facts.impossible` proves that no value satisfies them.
Scalars and LIKE are exact both ways, two balls and two conditions on regions too;
beyond that ``impossible`` errs towards "no" and never towards "yes".
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TypeVar

from tamis.algebra.proofs import balls, geometries, patterns, regions
from tamis.algebra.proofs.budget import Budget
from tamis.model.subscription import Ball, Clock, Condition, Constraint, Cosine, Geometric, Like, Spatial, Values
from tamis.model.text.patterns import meets
from tamis.model.value_set import ANYTHING, MISSING, PRESENT, ValueSet

__all__ = ["UNCONSTRAINED", "Facts", "failures", "negation"]

_Kind = TypeVar("_Kind", Like, Spatial, Ball)


@dataclass(frozen=True, slots=True)
class Facts:
    """A set of values, and conditions that hold; where there are conditions the value is not missing."""

    allowed: ValueSet = ANYTHING
    conditions: tuple[Condition, ...] = ()
    #: The conditions on regions by `region_key`; computed on first use.
    _by_region: dict[bytes, Spatial] | None = field(default=None, init=False, repr=False, compare=False)
    #: A string that fits, where conditions are about text and one is known: most questions end with it.
    _witness: str | None = field(default=None, repr=False, compare=False)
    #: The last pattern that was added, and what is known with it: the caller asks whether it may hold, and goes on.
    _joined: tuple[Condition, Facts] | None = field(default=None, init=False, repr=False, compare=False)

    def and_also(self, constraint: Constraint) -> Facts:
        """Return the facts if the constraint holds as well."""
        if isinstance(constraint, Values):
            both = self.allowed & constraint.allowed
            return Facts(both, self.conditions, self._witness if self._witness in both else None)
        if constraint in self.conditions:
            return self
        allowed = self.allowed & PRESENT if self.allowed.missing else self.allowed
        if isinstance(constraint, Spatial):  # one condition per region: then comparing pairs finds every conflict on it
            return self._with_region(allowed, constraint)
        if not isinstance(constraint, Like):
            return Facts(allowed, (*self.conditions, constraint))
        joined, witness = self._joined, self._witness  # read once: threads share facts
        if joined is None or joined[0] != constraint:
            fits = witness is not None and meets(constraint, witness)
            joined = constraint, Facts(allowed, (*self.conditions, constraint), witness if fits else None)
            object.__setattr__(self, "_joined", joined)
        return joined[1]

    def impossible(self, budget: Budget | None = None) -> bool:
        """Whether it is proved that neither a value nor the missing value fits; pattern walks use the budget."""
        if not self.allowed:
            return True
        if not self.conditions:
            return False
        if isinstance(self.conditions[0], Like):
            return self._witness is None and self._no_string_fits(budget)
        if balls.balls_impossible(self._of(Ball)) or regions.regions_impossible(self._of(Spatial)):
            return True
        others = [condition for condition in self.conditions if isinstance(condition, Geometric | Cosine | Clock)]
        return any(
            geometries.conditions_conflict(condition, other) for condition in others for other in self.conditions
        )

    def _no_string_fits(self, budget: Budget | None) -> bool:
        answer = patterns.find_string(self.allowed, self._of(Like), budget)
        object.__setattr__(self, "_witness", answer.text)
        return answer.proved and answer.text is None

    def excludes(self, constraint: Constraint, budget: Budget | None = None) -> bool:
        """Whether it is proved that the constraint does not hold; the facts themselves are possible.

        Balls and regions are compared in pairs, so only pairs with the new condition need to be compared.
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
            others = tuple(other for other in others if isinstance(other, Geometric | Cosine | Clock))
        if any(geometries.conditions_conflict(other, constraint) for other in others):
            return True
        if isinstance(constraint, Geometric | Cosine | Clock):
            return False
        if isinstance(constraint, Ball):
            return any(balls.balls_conflict(ball, constraint) for ball in self._of(Ball))
        if not constraint.relations:
            return True
        return any(regions.regions_conflict(region, constraint) for region in self.regions.values())

    def implies(self, constraint: Constraint, budget: Budget | None = None) -> bool:
        """Whether it is proved that the constraint holds."""
        if isinstance(constraint, Values):
            if self.allowed <= constraint.allowed:
                return True
            rest = Values(constraint.attribute, constraint.allowed.complement())
            return bool(self.conditions) and self.excludes(rest, budget)
        if isinstance(constraint, Like) and len(self.conditions) == 1 and isinstance(self.conditions[0], Like):
            quick_answer = patterns.is_inside(self.conditions[0], constraint, self.allowed)
            if quick_answer is not None:
                return quick_answer
        return not self.allowed.missing and all(self.excludes(failure, budget) for failure in failures(constraint))

    def without(self, constraint: Constraint, budget: Budget | None = None) -> list[Facts]:
        """Return the ways in which the constraint can fail: by another value, or by a missing one."""
        if isinstance(constraint, Values):
            opposites: list[Constraint] = [Values(constraint.attribute, constraint.allowed.complement())]
        else:
            opposites = [*failures(constraint)]
        ways = [self.and_also(opposite) for opposite in opposites if not self.excludes(opposite, budget)]
        if self.allowed.missing and not isinstance(constraint, Values):
            ways.append(Facts(MISSING))
        return ways

    @property
    def regions(self) -> dict[bytes, Spatial]:
        """The conditions on regions, one for each region, by `region_key`."""
        if self._by_region is None:
            by_key = {
                regions.region_key(condition.region): condition
                for condition in regions.joined_by_region(self._of(Spatial))
            }
            object.__setattr__(self, "_by_region", by_key)
            return by_key
        return self._by_region

    def _with_region(self, allowed: ValueSet, constraint: Spatial) -> Facts:
        key = regions.region_key(constraint.region)
        previous = self.regions.get(key)
        if previous is not None:
            constraint = Spatial(previous.attribute, previous.relations & constraint.relations, previous.region)
        joined = {**self.regions, key: constraint}
        others = tuple(condition for condition in self.conditions if not isinstance(condition, Spatial))
        facts = Facts(allowed, (*joined.values(), *others))
        object.__setattr__(facts, "_by_region", joined)
        return facts

    def _of(self, kind: type[_Kind]) -> tuple[_Kind, ...]:
        return tuple(condition for condition in self.conditions if isinstance(condition, kind))


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
