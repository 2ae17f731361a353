"""Covering of trees by their structure: a proof that needs no multiplying out.

An OR is covered part by part, an AND covers part by part; one part of an OR is enough to cover, one part of an AND
enough to be covered. That proves what people write: a rule with a longer list of values covers one with a shorter list,
a rule with fewer filters one with more. It proves no cover by several parts together; pieces do that (`pieces`).
"""

from __future__ import annotations

from tamis.algebra.proofs.budget import Budget
from tamis.algebra.proofs.patterns import no_string_fits
from tamis.model.subscription import AllOf, AnyOf, Filter, Like, Predicate, Values
from tamis.model.value_set import PRESENT

__all__ = ["filter_covers"]


def filter_covers(outer: Filter, inner: Filter, budget: Budget) -> bool:
    """Whether the structure of two filters proves that the outer one covers the inner one."""
    return _Proof(budget).covers(_predicate(outer), _predicate(inner))


def _predicate(filter: Filter) -> Predicate:
    """Return a filter as a tree. The constraints beside a tree may say more than its hull, so all of them join it."""
    return AllOf(filter.constraints if filter.rest is None else (*filter.constraints, filter.rest))


class _Proof:
    """Comparisons of parts under one budget; what is beyond it is not proved."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._known: dict[tuple[Predicate, Predicate], bool] = {}

    def covers(self, outer: Predicate, inner: Predicate) -> bool:
        if outer == inner:
            return True
        if isinstance(inner, AnyOf):
            return all(self.covers(outer, part) for part in inner.parts)
        if isinstance(outer, AllOf):
            return all(self.covers(part, inner) for part in outer.parts)
        if isinstance(outer, AnyOf) and any(self.covers(part, inner) for part in outer.parts):
            return True
        if isinstance(inner, AllOf):
            return any(self.covers(outer, part) for part in inner.parts)
        if isinstance(outer, AnyOf) or outer.attribute != inner.attribute:
            return False
        pair = outer, inner
        if pair not in self._known:
            self._known[pair] = not self._budget.exhausted and self._leaf(outer, inner)
        return self._known[pair]

    def _leaf(self, outer: Predicate, inner: Predicate) -> bool:
        self._budget.spend(1)
        if isinstance(outer, Values) and isinstance(inner, Values):
            return not inner.allowed & outer.allowed.complement()
        if isinstance(outer, Values) and isinstance(inner, Like):  # which demands a value
            return outer.allowed & PRESENT == PRESENT
        if isinstance(outer, Like) and isinstance(inner, Like):
            missed = Like(outer.attribute, outer.pattern, not outer.negated, outer.fold, outer.is_regex)
            return no_string_fits(PRESENT, (inner, missed), self._budget)
        return False
