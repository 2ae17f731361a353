"""Proves covers of trees by their structure, without expanding them to disjunctive form.

An OR is covered if each part is, and an AND covers if each part does; an OR covers if one part does, and an AND is
covered if one part is. That suffices for typical rules: a rule with a longer list of values covers one with a shorter
list, and a rule with fewer filters one with more. Covers by several parts together are left to `pieces`.
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
    """Return a filter as a tree with all constraints, which may be stricter than the hull of the tree."""
    return AllOf(filter.constraints if filter.rest is None else (*filter.constraints, filter.rest))


class _Proof:
    """Compares parts within one budget; when it is spent, nothing more is proved."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._implied: dict[tuple[Predicate, Predicate], bool] = {}

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
        if pair not in self._implied:
            self._implied[pair] = not self._budget.exhausted and self._leaf(outer, inner)
        return self._implied[pair]

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
