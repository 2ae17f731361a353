"""The exact covering index: subscriptions as corners in a packed tree; raw values decide what boxes leave open.

Each subscription becomes components (`components`), each of them a box. The trees propose (`rows`); what boxes, regions
and balls leave no doubt about needs no proof, and `algebra.covers` decides about the rest on the raw filters: patterns,
ends that tie, filters that cover something only together. That can be many, so a caller of `find_around` can stop it.

A subscription that can never match is covered by every other.

Implements: [zcurve] Problem 1, exhaustive point dominance, section 1.1.
Deviation: a packed tree, not a space filling curve; open ends, missing values, strings, regions and unions too; every
candidate that the keys cannot decide is verified, and the search goes on after a failure (erratum Z.3.10).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from tamis.index.dominance.batches import Batches, Questions
from tamis.index.dominance.corners import NOBODY
from tamis.index.dominance.rows import RowStore
from tamis.index.dominance.splitting.components import Decomposition, decompose
from tamis.index.dominance.verifying import Patience, Verifier
from tamis.index.protocols import NO_ROWS, Guarantee, IndexStatistics, MatchRows, Rows
from tamis.model.subscription import Filter, Subscription
from tamis.model.tables import SubscriptionTable

__all__ = ["Around", "DominanceIndex"]


class Around(NamedTuple):
    """The least row that covers a subscription, the rows that it covers, and whether the answer is complete."""

    cover: int | None
    covered: Rows
    is_complete: bool


class DominanceIndex:
    """Finds the subscriptions that cover a given one, and those that it covers, among any number.

    Guarantee: EXACT, the least row of all coverers. Cost: a microsecond per box of a table at a million boxes, some ten
    microseconds per component of a subscription; for regions and balls as many exact comparisons as boxes propose.
    When not to use it: when most subscriptions are patterns or large trees, for these are verified one by one; for
    balls of many dimensions see "projection".
    """

    kind = "exact"

    def __init__(self, pieces: int | None = None) -> None:
        self._rows = RowStore()
        #: The budget of all proofs of one question together; None: each proof has the default budget.
        self._verifier = Verifier(self._rows, pieces)
        #: Questions in a batch.
        self.batches = Batches(self._rows, self._verifier)
        #: With a budget some covers are missed.
        self.guarantee = Guarantee.EXACT if pieces is None else Guarantee.SOUND

    def __len__(self) -> int:
        return len(self._rows)

    # ---- writing

    def add(self, row: int, subscription: Subscription) -> None:
        """Add a subscription under a row that is free."""
        self.add_many((row,), (subscription,))

    def add_many(
        self,
        rows: Sequence[int],
        subscriptions: Sequence[Subscription],
        split: Sequence[Decomposition] | None = None,
    ) -> None:
        """Add subscriptions under rows that are free: many at once cost less than as many calls of `add`.

        ``split`` are their components, if these are known.
        """
        taken = next((row for row in rows if row in self._rows), None)
        if taken is not None:
            raise KeyError(f"row {taken} is taken")
        self._rows.add(rows, subscriptions, split)

    def add_boxes(self, rows: Rows, table: SubscriptionTable) -> None:
        """Add the boxes of a table under rows that are free, without an object per box."""
        taken = np.intersect1d(rows, np.array(self._rows.rows(), np.int32)) if len(self) else NO_ROWS
        if taken.size:
            raise KeyError(f"row {taken[0]} is taken")
        self._rows.add_corners(rows, self._rows.space.stored_boxes(table))

    def remove(self, row: int) -> None:
        """Remove a row; raise `KeyError` if it is absent."""
        self._rows.remove(row)

    # ---- reading

    def find_cover(self, subscription: Subscription) -> int | None:
        """Return the least row whose subscription covers the given one."""
        return self._find_cover(subscription.filters, self._verifier.patience())

    def find_cover_many(self, subscriptions: Sequence[Subscription]) -> Rows:
        """Return `find_cover` of each subscription, -1 where there is none: many at once cost less."""
        return self.batches.find_covers(Questions(subscriptions))

    def find_covered_many(self, subscriptions: Sequence[Subscription]) -> list[Rows]:
        """Return `find_covered` of each subscription: many at once cost less."""
        return self.batches.find_covered(Questions(subscriptions))

    def find_covers(self, table: SubscriptionTable) -> Rows:
        """Return for each box of a table the least row that covers it, -1 where there is none."""
        corners = self._rows.space.asked_boxes(table)
        best = self.batches.covers_of_corners(corners, lambda i: table.box_subscription(i, i).filters)
        best[best == NOBODY] = -1
        return best

    def find_covered(self, subscription: Subscription) -> Rows:
        """Return the rows the given subscription covers, ascending."""
        return self._find_covered(subscription, self._verifier.patience())

    def find_around(self, subscription: Subscription, go_on: Callable[[], bool]) -> Around:
        """Return `find_cover` and `find_covered`, or partial results if ``go_on`` ends the search.

        ``go_on`` is called before each candidate is verified; False stops the search. Then the answer is right but
        may be incomplete: other subscriptions may cover this one, or be covered by it.
        """
        patience = Patience(go_on)
        cover, covered = self._find_cover(subscription.filters, patience), self._find_covered(subscription, patience)
        return Around(cover, covered, patience.lasted)

    def find_covered_each(self, table: SubscriptionTable) -> MatchRows:
        """Return the rows that each box of a table covers, ascending inside each box."""

        def filters_of(i: int) -> tuple[Filter, ...]:
            return table.box_subscription(i, i).filters

        if self._rows.loose:
            return MatchRows.joined([self.find_covered(table.box_subscription(i, i)) for i in range(len(table))])
        options = [self._rows.space.fitting_boxes(table)]
        if self._rows.has_boxes_only:
            return self.batches.boxes_in_boxes(options, len(table))
        return MatchRows.joined(self.batches.covered_by_boxes(options, len(table), filters_of))

    def propose_covers(self, subscription: Subscription) -> Rows:
        """Return every row that covers the given subscription, and perhaps others."""
        return self.batches.propose_covers([subscription.filters], [decompose(subscription.filters)])[0][0]

    def propose_meeting(self, subscription: Subscription) -> Rows:
        """Return every row that can match an event that the given subscription matches, and perhaps other rows."""
        return self._rows.find_meeting(subscription.filters)

    def statistics(self) -> IndexStatistics:
        """Return how many rows are handled by which method, and the cost of questions so far."""
        blocks, ties = self._rows.boxes.tree.counters
        details = {**self._rows.statistics(), "nodes": blocks, "ties": ties, "verified": self._verifier.n_verified}
        return IndexStatistics(self.kind, len(self), details)

    def check_invariants(self) -> None:
        """Raise `InvariantError` unless all trees are consistent."""
        self._rows.check_invariants()

    # ---- inside

    def _find_cover(self, filters: tuple[Filter, ...], patience: Patience) -> int | None:
        [best] = self.batches.find_each([filters], [decompose(filters)], [patience])
        return None if best == NOBODY else best

    def _find_covered(self, subscription: Subscription, patience: Patience) -> Rows:
        filters = subscription.filters
        [(sure, candidates)] = self._rows.find_covered([filters], [decompose(filters)])
        return self.batches.verified(sure, candidates, filters, patience)
