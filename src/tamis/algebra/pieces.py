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

from tamis.algebra.facts import UNCONSTRAINED, Facts, negation
from tamis.model.subscription import AllOf, AnyOf, Constraint, Filter, Predicate, Values
from tamis.model.value_set import MISSING

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

#: What a conjunction says of each attribute; attributes that are not named are free.
Piece = Mapping[str, Facts]

#: Pieces that one question may look at; comparing a piece with `FILTERS_PER_PIECE` filters counts as one more.
MAX_PIECES = 10_000
FILTERS_PER_PIECE = 16

#: A filter with a tree is taken away last: its opposite may fall into many pieces.
_TREE_COST = 1_000


class Budget:
    """A number of pieces to spend; once it is gone, every answer that still needs one is unknown."""

    def __init__(self, pieces: int = MAX_PIECES) -> None:
        self.left = pieces

    @property
    def exhausted(self) -> bool:
        """Whether more was asked than there is."""
        return self.left < 0

    def spend(self, pieces: int = 1) -> bool:
        """Take pieces away; say whether there were as many."""
        self.left -= pieces
        return self.left >= 0


def with_constraint(piece: Piece, constraint: Constraint) -> Piece | None:
    """Return the part of a piece that satisfies a constraint; None when that is proved empty."""
    known = piece.get(constraint.attribute, UNCONSTRAINED)
    if known.excludes(constraint):
        return None
    return {**piece, constraint.attribute: known.and_also(constraint)}


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
        grown, choices = _settle(one, todo)
        if grown is None:
            continue
        if not choices:
            yield grown
            continue
        first, *later = choices
        waiting.extend((grown, (part, *later)) for part in reversed(first.parts))


def _settle(piece: Piece, todo: Sequence[Predicate]) -> tuple[Piece | None, list[AnyOf]]:
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
            grown = with_constraint(piece, predicate)
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
    return AnyOf((negation(predicate), Values(predicate.attribute, MISSING)))


class Subtraction:
    """Some filters, to be taken away from pieces; notes which of them were needed.

    Examples
    --------
    >>> from tamis.model.value_set import ValueSet
    >>> low, high = (Filter((Values("price", ValueSet.between(*ends)),)) for ends in ((None, (5, 0)), ((5, 0), None)))
    >>> list(Subtraction([low, high]).leftovers({}))
    [{'price': Facts(allowed=ValueSet(cuts=(), from_below=False, missing=True), conditions=())}]
    """

    def __init__(self, filters: Sequence[Filter], budget: Budget | None = None) -> None:
        self.filters = filters
        self.budget = budget or Budget()
        #: Positions of the filters that took something away.
        self.used: set[int] = set()

    def leftovers(self, piece: Piece) -> Iterator[Piece]:
        """Yield pieces whose union is what the filters leave of a piece; stops when the budget is gone."""
        waiting: list[tuple[Piece, Sequence[int]]] = [(piece, range(len(self.filters)))]
        while waiting:
            one, candidates = waiting.pop()
            if not self.budget.spend(1 + len(candidates) // FILTERS_PER_PIECE):
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

    def _touching(self, piece: Piece, candidates: Sequence[int]) -> list[int] | None:
        """Return the filters that take something away, those that cut least first; None: one takes all."""
        costs: list[tuple[int, int]] = []
        for index in candidates:
            cost = _cost(piece, self.filters[index])
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
            ways = facts.without(constraint)
            yield from ({**piece, constraint.attribute: way} for way in ways)
            if ways:
                piece = {**piece, constraint.attribute: facts.and_also(constraint)}
        if filter.rest is not None:
            yield from expand(piece, (opposite(filter.rest),), self.budget)


def _cost(piece: Piece, filter: Filter) -> int | None:
    """Return how many constraints of a filter cut a piece: 0 when it lies inside, None when outside."""
    cost = 0 if filter.rest is None else _TREE_COST
    for constraint in filter.constraints:
        facts = piece.get(constraint.attribute, UNCONSTRAINED)
        if isinstance(constraint, Values) and not facts.conditions:
            both = facts.allowed & constraint.allowed
            if not both:
                return None
            cost += both != facts.allowed
        elif facts.excludes(constraint):
            return None
        elif not facts.implies(constraint):
            cost += 1
    return cost


def lies_in(piece: Piece, filter: Filter) -> bool:
    """Whether it is proved that a piece lies in a filter; a tree proves nothing here."""
    if filter.rest is not None:
        return False
    return all(piece.get(one.attribute, UNCONSTRAINED).implies(one) for one in filter.constraints)
