"""Subtracts filters from a filter, piece by piece, to see whether something remains.

A *piece* is a conjunction: the facts about some attributes (`Facts`); the others are unconstrained. To subtract a
filter f from a piece, go through the constraints of f: the part that fails the first remains; the part that
satisfies the first and fails the second remains; and so on; the part that satisfies all lies inside f and is
removed. The missing value is treated like any other value of an attribute, so nothing is lost at the edges:
subtracting ``price < 100`` and ``price >= 100`` leaves the events without a price.

A filter b lies in the union of others iff nothing remains after all of them are subtracted. Pieces are
processed depth first, so a "no" is found early; a "yes" may need many pieces, and a budget limits them. A tree
(``rest``) is expanded during the subtraction, and the negation of a tree is a tree, so trees are subtracted like
any other filter.

Implements: [mics] section 3.7, subsumption by several subscriptions; [zcurve] section 1.1, covering.
Deviation: exact on raw values with open and closed ends and a missing value, not on cells.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import shapely

from tamis.algebra.proofs import regions
from tamis.algebra.proofs.budget import MAX_PIECES, Budget
from tamis.algebra.proofs.facts import UNCONSTRAINED, Facts, failures, negation
from tamis.model.subscription import (
    AllOf,
    AnyOf,
    Constraint,
    Filter,
    Geometric,
    Predicate,
    Relation,
    Some,
    Spatial,
    Values,
)
from tamis.model.value_set import MISSING, PRESENT, ValueSet

__all__ = [
    "MAX_PIECES",
    "Budget",
    "Piece",
    "Subtraction",
    "expand",
    "lies_in",
    "opposite",
    "pieces_of",
    "with_constraint",
]

#: The facts about each attribute and about conditions on repeated attributes; attributes without facts are free.
Piece = Mapping[str | Some, Facts]

#: Comparing a piece with this many filters counts as one more piece, and so does comparing this many balls, regions or
#: patterns.
COMPARED_PER_PIECE = 16

#: A filter with a tree is subtracted last: its negation may fall into many pieces.
_TREE_COST = 1_000


def with_constraint(piece: Piece, constraint: Constraint, budget: Budget | None = None) -> Piece | None:
    """Return the part of a piece that satisfies a constraint; None when that is proved empty."""
    facts = piece.get(constraint.attribute, UNCONSTRAINED)
    if facts.excludes(constraint, budget):
        return None
    return {**piece, constraint.attribute: facts.and_also(constraint)}


def _with_some(piece: Piece, condition: Some) -> Piece | None:
    """Return the part of a piece in which a condition on a repeated attribute holds; None when that is proved empty.

    Each condition is a separate fact, true or false: different conditions are treated as independent, unless all values
    of one satisfy the other. So a piece may be too large, and proofs err towards "unknown".
    """
    grown = with_constraint(piece, Values(condition.attribute, PRESENT))
    if grown is None:
        return None
    for key, facts in piece.items():
        if (
            isinstance(key, Some)
            and key.attribute == condition.attribute
            and facts.allowed == _fact(not condition.negated)
        ):
            wide, narrow = (condition, key) if condition.negated else (key, condition)
            if _implies(narrow.condition, wide.condition):
                return None
    return {**grown, Some(condition.attribute, condition.condition): Facts(_fact(condition.negated))}


def _fact(negated: bool) -> ValueSet:
    """Return the value set of a condition that is known to be true, or false."""
    return ValueSet(((True, 0),), from_below=negated)


def _implies(narrow: Predicate, wide: Predicate) -> bool:
    """Whether each value that satisfies one condition on an element obviously satisfies another."""
    if isinstance(narrow, Values) and isinstance(wide, Values):
        return narrow.allowed <= wide.allowed
    return narrow == wide


def pieces_of(filter: Filter, budget: Budget, within: Piece | None = None) -> Iterator[Piece]:
    """Yield pieces whose union is the filter, or its part inside ``within``; impossible pieces are left out."""
    parts: tuple[Predicate, ...] = filter.constraints if filter.rest is None else (*filter.constraints, filter.rest)
    yield from expand(within or {}, parts, budget)


def expand(piece: Piece, predicates: Sequence[Predicate], budget: Budget) -> Iterator[Piece]:
    """Yield pieces whose union is the part of a piece in which all predicates hold."""
    waiting: list[tuple[Piece, tuple[Predicate, ...]]] = [(piece, tuple(predicates))]
    while waiting:
        current, todo = waiting.pop()
        if not budget.spend():
            return
        grown, choices = _settle(current, todo, budget)
        if grown is None:
            continue
        if not choices:
            yield grown
            continue
        first, *later = choices
        waiting.extend((grown, (part, *later)) for part in reversed(first.parts))


def _settle(piece: Piece, todo: Sequence[Predicate], budget: Budget) -> tuple[Piece | None, list[AnyOf]]:
    """Apply the predicates without alternatives; return the piece (None if it is empty) and the alternatives left."""
    choices: list[AnyOf] = []
    waiting = list(reversed(todo))
    while waiting:
        predicate = waiting.pop()
        if isinstance(predicate, AllOf):
            waiting.extend(reversed(predicate.parts))
        elif isinstance(predicate, AnyOf):
            choices.append(predicate)
        else:
            grown = (
                _with_some(piece, predicate)
                if isinstance(predicate, Some)
                else with_constraint(piece, predicate, budget)
            )
            if grown is None:
                return None, []
            piece = grown
    return piece, choices


def opposite(predicate: Predicate) -> Predicate:
    """Return the predicate that holds for exactly the events for which this one does not."""
    if isinstance(predicate, AllOf):
        return AnyOf(tuple(opposite(part) for part in predicate.parts))
    if isinstance(predicate, AnyOf):
        return AllOf(tuple(opposite(part) for part in predicate.parts))
    if isinstance(predicate, Values):
        return Values(predicate.attribute, predicate.allowed.complement())
    if isinstance(predicate, Some):
        negation = Some(predicate.attribute, predicate.condition, not predicate.negated)
        return AnyOf((negation, Values(predicate.attribute, MISSING)))
    return AnyOf((*failures(predicate), Values(predicate.attribute, MISSING)))


class Subtraction:
    """Filters to be subtracted from pieces; records which of them were needed.

    For a ``proof`` it does not matter what is left, only whether something is, and filters are left out
    that cannot help to prove that nothing is (see `_hopeless`).

    Examples
    --------
    >>> from tamis.model.value_set import ValueSet
    >>> low, high = (Filter((Values("price", ValueSet.between(*ends)),)) for ends in ((None, (5, 0)), ((5, 0), None)))
    >>> list(Subtraction([low, high]).leftovers({}))
    [{'price': Facts(allowed=ValueSet(cuts=(), from_below=False, missing=True), conditions=())}]
    """

    def __init__(self, filters: Sequence[Filter], budget: Budget | None = None, *, proof: bool = False) -> None:
        self.filters = filters
        self.budget = budget or Budget()
        self.proof = proof
        self._slow = [sum(not isinstance(c, Values) for c in filter.constraints) for filter in filters]
        self._spatial: dict[int, list[Spatial]] = {}
        if all(filter.rest is None for filter in filters):  # a tree may speak of any region
            conditions = ([c for c in filter.constraints if isinstance(c, Spatial)] for filter in filters)
            self._spatial = {index: spatial for index, spatial in enumerate(conditions) if spatial}
        #: Positions of the filters that took something away.
        self.used: set[int] = set()

    def leftovers(self, piece: Piece) -> Iterator[Piece]:
        """Yield pieces whose union is what remains of a piece; stops when the budget is spent."""
        waiting: list[tuple[Piece, Sequence[int]]] = [self._begun(piece)]
        while waiting:
            current, candidates = waiting.pop()
            if not self.budget.spend(self._price(current, candidates)):
                return
            touching = self._touching(current, candidates)
            if touching is None:
                continue
            if not touching:
                yield current
                continue
            first, *later = touching
            if not later and self.filters[first].rest is None:  # no other filter can remove what remains
                yield from self._minus(current, self.filters[first])
                continue
            self.used.add(first)
            waiting.extend((part, later) for part in self._minus(current, self.filters[first]))

    def _begun(self, piece: Piece) -> tuple[Piece, Sequence[int]]:
        """Return the first piece and the filters to subtract, without those that are decided for all pieces."""
        hopeless = self._hopeless(piece)
        if not hopeless:
            return piece, range(len(self.filters))
        settled = hopeless
        if not self.proof:  # a filter with one condition on a region can fail in one way only
            settled = {i for i in hopeless if _only_region(piece, self.filters[i])}
            grown = dict(piece)
            for condition in (self._spatial[index][0] for index in sorted(settled)):
                grown[condition.attribute] = grown.get(condition.attribute, UNCONSTRAINED).and_also(negation(condition))
            piece = grown
        return piece, [index for index in range(len(self.filters)) if index not in settled]

    def _hopeless(self, piece: Piece) -> set[int]:
        """Return the filters on regions to which some relation stays possible even if all filters are subtracted.

        If a relation to a region is possible for the piece and no filter removes the part of the piece with that
        relation, then the filters on that region hardly help: other filters would have to remove that part. Such a
        proof is rare and needs many pieces, so these filters are skipped.
        """
        hopeless: set[int] = set()
        while True:
            relations_by_region: dict[tuple[str, bytes], frozenset[Relation]] = {}
            mentioned: dict[tuple[str, bytes], list[int]] = {}
            region_of: dict[tuple[str, bytes], shapely.Polygon] = {}
            for index, conditions in self._spatial.items():
                for condition in conditions if index not in hopeless else ():
                    operand = (condition.attribute, regions.region_key(condition.region))
                    relations_by_region[operand] = relations_by_region.get(operand, frozenset()) | condition.relations
                    mentioned.setdefault(operand, []).append(index)
                    region_of[operand] = condition.region
            before = len(hopeless)
            for (name, key), relations in relations_by_region.items():
                facts = piece.get(name, UNCONSTRAINED)
                if any(isinstance(condition, Geometric) for condition in facts.conditions):
                    continue  # it may exclude more relations to a region than conditions on other regions do
                other_conditions = facts.regions.values()
                if not regions.possible_relations(other_conditions, region_of[name, key]) <= relations:
                    hopeless.update(mentioned[name, key])
            if len(hopeless) == before:
                return hopeless

    def _price(self, piece: Piece, candidates: Sequence[int]) -> int:
        """Return the cost of comparing a piece with filters, in pieces."""
        compared = len(candidates)
        slow = sum(len(facts.conditions) for facts in piece.values())
        if slow:
            compared += slow * sum(self._slow[index] for index in candidates)
        return 1 + compared // COMPARED_PER_PIECE

    def _touching(self, piece: Piece, candidates: Sequence[int]) -> list[int] | None:
        """Return the filters that remove something, those with the fewest cuts first; None if one removes all of it."""
        costs: list[tuple[int, int]] = []
        for index in candidates:
            cost = _cost(piece, self.filters[index], self.budget)
            if cost == 0:
                self.used.add(index)
                return None
            if cost is not None:
                costs.append((cost, index))
        return [index for _, index in sorted(costs)]

    def _minus(self, piece: Piece, filter: Filter) -> Iterator[Piece]:
        """Yield what remains of a piece without a filter; the pieces are disjoint unless the filter has a tree."""
        for constraint in filter.constraints:
            facts = piece.get(constraint.attribute, UNCONSTRAINED)
            ways = facts.without(constraint, self.budget)
            yield from ({**piece, constraint.attribute: way} for way in ways)
            if ways:
                piece = {**piece, constraint.attribute: facts.and_also(constraint)}
        if filter.rest is not None:
            yield from expand(piece, (opposite(filter.rest),), self.budget)


def _only_region(piece: Piece, filter: Filter) -> bool:
    """Whether a filter is a single condition on a region, on an attribute that is not missing in the piece."""
    if len(filter.constraints) != 1 or filter.rest is not None:
        return False
    return not piece.get(filter.constraints[0].attribute, UNCONSTRAINED).allowed.missing


def _cost(piece: Piece, filter: Filter, budget: Budget) -> int | None:
    """Return how many constraints of a filter cut a piece: 0 if the piece lies inside, None if outside."""
    cost = 0 if filter.rest is None else _TREE_COST
    for constraint in filter.constraints:
        facts = piece.get(constraint.attribute, UNCONSTRAINED)
        if isinstance(constraint, Values) and not facts.conditions:
            both = facts.allowed & constraint.allowed
            if not both:
                return None
            cost += both != facts.allowed
        elif facts.excludes(constraint, budget):
            return None
        elif not facts.implies(constraint, budget):
            cost += 1
    return cost


def lies_in(piece: Piece, filter: Filter, budget: Budget | None = None) -> bool:
    """Whether it is proved that a piece lies in a filter; a tree proves nothing here."""
    if filter.rest is not None:
        return False
    return all(
        piece.get(constraint.attribute, UNCONSTRAINED).implies(constraint, budget) for constraint in filter.constraints
    )
