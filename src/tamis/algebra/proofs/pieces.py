"""Taking filters away from a filter, piece by piece, until nothing or something is left.

A *piece* is a conjunction: what is known of each attribute (`Facts`), nothing of the others. To take a
filter f away from a piece, go through the constraints of f: what fails the first is left; what satisfies
the first and fails the second is left; and so on; what satisfies all lies inside f and is gone. Values and
the missing value form one lattice per attribute, so nothing is lost at the edges: ``price < 100`` and
``price >= 100`` together leave the events without a price.

A filter b lies in the union of others iff nothing is left of it when all of them are taken away. The
pieces are walked depth first, so a "no" is found early; a "yes" may need many pieces, and a budget ends
the walk. A tree (``rest``) is expanded along the way, and the opposite of a tree is a tree, so trees are
taken away like anything else.

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

#: What a conjunction says of each attribute, and of conditions on repeated attributes; what is not named is free.
Piece = Mapping[str | Some, Facts]

#: Comparing a piece with this many filters counts as one more piece, and so does comparing this many balls, regions or
#: patterns.
COMPARED_PER_PIECE = 16

#: A filter with a tree is taken away last: its opposite may fall into many pieces.
_TREE_COST = 1_000


def with_constraint(piece: Piece, constraint: Constraint, budget: Budget | None = None) -> Piece | None:
    """Return the part of a piece that satisfies a constraint; None when that is proved empty."""
    known = piece.get(constraint.attribute, UNCONSTRAINED)
    if known.excludes(constraint, budget):
        return None
    return {**piece, constraint.attribute: known.and_also(constraint)}


def _with_some(piece: Piece, some: Some) -> Piece | None:
    """Return the part of a piece in which a condition on a repeated attribute holds; None when that is proved empty.

    Each condition is a fact of its own, true or false: conditions that differ are taken for independent, but for one
    whose values all satisfy the other. So a piece may be too large, and proofs err towards "unknown".
    """
    grown = with_constraint(piece, Values(some.attribute, PRESENT))
    if grown is None:
        return None
    for key, facts in piece.items():
        if isinstance(key, Some) and key.attribute == some.attribute and facts.allowed == _fact(not some.negated):
            wide, narrow = (some, key) if some.negated else (key, some)
            if _implies(narrow.condition, wide.condition):
                return None
    return {**grown, Some(some.attribute, some.condition): Facts(_fact(some.negated))}


def _fact(negated: bool) -> ValueSet:
    """Return what is known of a condition: that it is true, or false."""
    return ValueSet(((True, 0),), from_below=negated)


def _implies(narrow: Predicate, wide: Predicate) -> bool:
    """Whether each value that satisfies one condition on an element plainly satisfies another."""
    if isinstance(narrow, Values) and isinstance(wide, Values):
        return narrow.allowed <= wide.allowed
    return narrow == wide


def pieces_of(filter: Filter, budget: Budget, within: Piece | None = None) -> Iterator[Piece]:
    """Yield pieces whose union is the filter (in a piece, if one is given); impossible ones are left out."""
    parts: tuple[Predicate, ...] = filter.constraints if filter.rest is None else (*filter.constraints, filter.rest)
    yield from expand(within or {}, parts, budget)


def expand(piece: Piece, predicates: Sequence[Predicate], budget: Budget) -> Iterator[Piece]:
    """Yield pieces whose union is the part of a piece in which all predicates hold."""
    waiting: list[tuple[Piece, tuple[Predicate, ...]]] = [(piece, tuple(predicates))]
    while waiting:
        one, todo = waiting.pop()
        if not budget.spend():
            return
        grown, choices = _settle(one, todo, budget)
        if grown is None:
            continue
        if not choices:
            yield grown
            continue
        first, *later = choices
        waiting.extend((grown, (part, *later)) for part in reversed(first.parts))


def _settle(piece: Piece, todo: Sequence[Predicate], budget: Budget) -> tuple[Piece | None, list[AnyOf]]:
    """Apply everything that leaves no choice; return the piece, or None, and the choices that remain."""
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
        none = Some(predicate.attribute, predicate.condition, not predicate.negated)
        return AnyOf((none, Values(predicate.attribute, MISSING)))
    return AnyOf((*failures(predicate), Values(predicate.attribute, MISSING)))


class Subtraction:
    """Some filters, to be taken away from pieces; notes which of them were needed.

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
        self._slow = [sum(not isinstance(c, Values) for c in one.constraints) for one in filters]
        self._spatial: dict[int, list[Spatial]] = {}
        if all(one.rest is None for one in filters):  # a tree may speak of any region
            found = ([c for c in one.constraints if isinstance(c, Spatial)] for one in filters)
            self._spatial = {index: some for index, some in enumerate(found) if some}
        #: Positions of the filters that took something away.
        self.used: set[int] = set()

    def leftovers(self, piece: Piece) -> Iterator[Piece]:
        """Yield pieces whose union is what the filters leave of a piece; stops when the budget is gone."""
        waiting: list[tuple[Piece, Sequence[int]]] = [self._begun(piece)]
        while waiting:
            one, candidates = waiting.pop()
            if not self.budget.spend(self._price(one, candidates)):
                return
            touching = self._touching(one, candidates)
            if touching is None:
                continue
            if not touching:
                yield one
                continue
            first, *later = touching
            if not later and self.filters[first].rest is None:  # nothing can take the rest away
                yield from self._minus(one, self.filters[first])
                continue
            self.used.add(first)
            waiting.extend((part, later) for part in self._minus(one, self.filters[first]))

    def _begun(self, piece: Piece) -> tuple[Piece, Sequence[int]]:
        """Return the piece and the filters to take away, without those that need no looking at each piece."""
        hopeless = self._hopeless(piece)
        if not hopeless:
            return piece, range(len(self.filters))
        settled = hopeless
        if not self.proof:  # a filter that is a region and nothing else can fail in one way only
            settled = {i for i in hopeless if _only_region(piece, self.filters[i])}
            grown = dict(piece)
            for one in (self._spatial[index][0] for index in sorted(settled)):
                grown[one.attribute] = grown.get(one.attribute, UNCONSTRAINED).and_also(negation(one))
            piece = grown
        return piece, [index for index in range(len(self.filters)) if index not in settled]

    def _hopeless(self, piece: Piece) -> set[int]:
        """Return the filters on a region to which some relation stays possible, whatever they take away.

        If no filter takes away the part of a piece that has a certain relation to a region, a relation that what
        the piece says of other regions leaves possible, then filters on that region are of little use in taking
        away the rest of it: others would have to. That is rare and needs many pieces, so they are left out.
        """
        hopeless: set[int] = set()
        while True:
            taken: dict[tuple[str, bytes], frozenset[Relation]] = {}
            mentioned: dict[tuple[str, bytes], list[int]] = {}
            region_of: dict[tuple[str, bytes], shapely.Polygon] = {}
            for index, some in self._spatial.items():
                for one in some if index not in hopeless else ():
                    place = (one.attribute, regions.region_key(one.region))
                    taken[place] = taken.get(place, frozenset()) | one.relations
                    mentioned.setdefault(place, []).append(index)
                    region_of[place] = one.region
            before = len(hopeless)
            for (name, key), relations in taken.items():
                facts = piece.get(name, UNCONSTRAINED)
                if any(isinstance(one, Geometric) for one in facts.conditions):
                    continue  # it may say more about a region than other regions do
                known = facts.regions.values()
                if not regions.possible_relations(known, region_of[name, key]) <= relations:
                    hopeless.update(mentioned[name, key])
            if len(hopeless) == before:
                return hopeless

    def _price(self, piece: Piece, candidates: Sequence[int]) -> int:
        """Return what it costs to compare a piece with filters."""
        compared = len(candidates)
        slow = sum(len(facts.conditions) for facts in piece.values())
        if slow:
            compared += slow * sum(self._slow[index] for index in candidates)
        return 1 + compared // COMPARED_PER_PIECE

    def _touching(self, piece: Piece, candidates: Sequence[int]) -> list[int] | None:
        """Return the filters that take something away, those that cut least first; None: one takes all."""
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
        """Yield what is left of a piece without a filter, as disjoint pieces unless the filter has a tree."""
        for constraint in filter.constraints:
            facts = piece.get(constraint.attribute, UNCONSTRAINED)
            ways = facts.without(constraint, self.budget)
            yield from ({**piece, constraint.attribute: way} for way in ways)
            if ways:
                piece = {**piece, constraint.attribute: facts.and_also(constraint)}
        if filter.rest is not None:
            yield from expand(piece, (opposite(filter.rest),), self.budget)


def _only_region(piece: Piece, filter: Filter) -> bool:
    """Whether a filter is a condition on a region, on an attribute that a piece does not leave missing."""
    if len(filter.constraints) != 1 or filter.rest is not None:
        return False
    return not piece.get(filter.constraints[0].attribute, UNCONSTRAINED).allowed.missing


def _cost(piece: Piece, filter: Filter, budget: Budget) -> int | None:
    """Return how many constraints of a filter cut a piece: 0 when it lies inside, None when outside."""
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
    return all(piece.get(one.attribute, UNCONSTRAINED).implies(one, budget) for one in filter.constraints)
