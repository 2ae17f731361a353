"""A subscription during a reduction, with the values that the stages use many times.

A set asks millions of covering questions, nearly all of which are answered by "no". So each item carries
its filters as pieces, ready to be cut, and a few events that match it: every cover of the item matches
them too. Only those parts of a match that are quick to evaluate are tried (values and patterns); regions
and balls are compared with each other more cheaply than with an event.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from tamis.algebra.covers import find_cover_of_pieces, find_cover_within
from tamis.algebra.evaluate import constraint_holds, matches_subscription
from tamis.algebra.proofs.facts import UNCONSTRAINED
from tamis.algebra.proofs.pieces import Budget, Piece, pieces_of
from tamis.algebra.proofs.witness import canonical, event_for
from tamis.index.dominance.splitting.components import Decomposition, decompose
from tamis.model.schema import Event
from tamis.model.subscription import Filter, Like, Some, Subscription, SubscriptionId, Values
from tamis.model.types import AttributeType
from tamis.reduction.merge import outlives
from tamis.reduction.subsume import find_union

__all__ = ["COVER_PIECES", "MAX_OTHERS", "Item", "may_match"]

#: Pieces that one question may cost here; a set asks thousands of them.
COVER_PIECES, UNION_PIECES = 1_000, 80

#: Pieces of an item that give it a sample, beside the last; the budget in which one of a tree is looked for.
MAX_SAMPLES, SAMPLE_PIECES = 6, 200

#: Others that are tried together for a cover of an item; trying fewer can only keep more items.
MAX_OTHERS = 64


class Item:
    """One simplified subscription that can match something."""

    def __init__(self, subscription: Subscription, kinds: Mapping[str, AttributeType]) -> None:
        self.subscription = subscription
        self.id: SubscriptionId = subscription.id
        self.filters: tuple[Filter, ...] = subscription.filters
        self._kinds = kinds
        #: Whether a question about a cover of this item had no answer within its budget.
        self.is_undecided = False

    @cached_property
    def pieces(self) -> list[Piece] | None:
        """The filters as pieces; None when one of them is a tree, which is expanded only when it must be."""
        if any(filter.rest is not None for filter in self.filters):
            return None
        return [piece for filter in self.filters for piece in pieces_of(filter, Budget())]

    @cached_property
    def split(self) -> Decomposition:
        """The filters in components."""
        return decompose(self.filters)

    @cached_property
    def samples(self) -> list[Event]:
        """Events that satisfy the conditions that are fast to evaluate."""
        return [*self.witnesses, *self.guesses]

    @cached_property
    def witnesses(self) -> list[Event]:
        """Events that are known to match."""
        return self._drawn[0]

    @cached_property
    def guesses(self) -> list[Event]:
        """Samples that do not match, or that were not checked."""
        return self._drawn[1]

    @cached_property
    def _drawn(self) -> tuple[list[Event], list[Event]]:
        drawn: tuple[list[Event], list[Event]] = [], []
        for piece in self._first_pieces() if self.pieces is None else _spread(self.pieces):
            event = event_for(piece, self._kinds)
            events: list[Event] = [] if event is None else [canonical(event)]
            events += (corner for corner in _corners(piece) if matches_subscription(corner, self.subscription))
            for candidate in events:
                drawn[not matches_subscription(candidate, self.subscription)].append(candidate)
        return drawn

    def _first_pieces(self) -> Iterator[Piece]:
        """Yield some pieces of trees, which are not expanded for it."""
        for filter in self.filters[:MAX_SAMPLES]:
            yield from itertools.islice(pieces_of(filter, Budget(SAMPLE_PIECES)), 2)

    def is_covered_by(self, other: Item) -> bool:
        """Whether another item is proved to cover this one and expires no earlier."""
        if not outlives(other.subscription, self.subscription):
            return False
        if not all(may_match(event, other.filters) for event in self.samples):
            return False
        if other.pieces is None and not all(matches_subscription(e, other.subscription) for e in self.witnesses):
            return False
        budget = Budget(COVER_PIECES)
        if self.pieces is None:
            proof = find_cover_within(self.filters, other.filters, budget)
        else:
            proof = find_cover_of_pieces(self.pieces, other.filters, budget)
        self._note(proof, budget)
        return proof is not None

    def _note(self, proof: object, budget: Budget) -> None:
        self.is_undecided |= proof is None and budget.exhausted

    @property
    def is_conditions_only(self) -> bool:
        """Whether the item is one conjunction of patterns, regions and balls: what helps to cover it covers it."""
        return len(self.filters) == 1 and self.filters[0].rest is None and not _has_values(self.filters[0])

    @cached_property
    def is_of_values_and_patterns(self) -> bool:
        """Whether events that match the item are quick to find: it has no region, no ball and no calculation."""
        return all(isinstance(constraint, Values | Like) for f in self.filters for constraint in f.constraints)

    def find_union(self, others: Iterable[Item]) -> tuple[SubscriptionId, ...] | None:
        """Return ids of others that are proved to cover this item together and expire no earlier."""
        lasting = (other for other in others if outlives(other.subscription, self.subscription))
        helping = (other for other in lasting if self._may_use(other))
        named = [(other.id, other.subscription) for other in itertools.islice(helping, MAX_OTHERS)]
        if len(named) < 2:
            return None
        budget = Budget(UNION_PIECES)
        union = find_union(self.filters, named, UNION_PIECES, budget)
        self._note(union, budget)
        return union

    def _may_use(self, other: Item) -> bool:
        """Whether another item may cover a part of this one that a proof can use.

        Parts cut off by a ball, a region or a pattern can hardly be proved empty by further ones of those
        kinds, so a filter helps only if this item implies all of its conditions of those kinds.
        """
        conditions = [
            [constraint for constraint in f.constraints if not isinstance(constraint, Values)] for f in other.filters
        ]
        return any(
            all(piece.get(constraint.attribute, UNCONSTRAINED).implies(constraint) for constraint in constraints)
            for piece in self.pieces or ()
            for constraints in conditions
        )


def _has_values(filter: Filter) -> bool:
    return any(isinstance(constraint, Values) for constraint in filter.constraints)


def _spread(pieces: list[Piece]) -> list[Piece]:
    """Return the first, the last and some of the pieces between them."""
    step = max(1, len(pieces) // MAX_SAMPLES)
    return [*pieces[:-1:step][:MAX_SAMPLES], *pieces[-1:]]


def _corners(piece: Piece) -> list[Event]:
    """Return the events at the lower and at the upper ends of a piece, if all its ends are closed.

    A union that leaves something of a piece out tends to leave out a corner: the question is then a short one.
    """
    corners: list[Event] = []
    if any(isinstance(key, Some) for key in piece):  # conditions on some element have no corner
        return corners
    for last in (False, True):
        ends = {str(name): facts.allowed.cuts[-last] for name, facts in piece.items() if facts.allowed.cuts}
        if ends and all(side == last and not isinstance(value, str) for value, side in ends.values()):
            corners.append({name: value for name, (value, _) in ends.items()})
    return corners


def may_match(event: Event, filters: Sequence[Filter]) -> bool:
    """Whether the values and patterns of some filter accept an event; balls and regions are not asked."""
    return any(
        all(
            constraint_holds(event, constraint)
            for constraint in filter.constraints
            if isinstance(constraint, Values | Like)
        )
        for filter in filters
    )
