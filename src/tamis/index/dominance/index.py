"""The exact covering index: subscriptions as corners in a packed tree, raw values last.

Each subscription becomes components (`components`), each of them a box. The trees propose (`rows`); what boxes, regions
and balls leave no doubt about needs no proof, and `algebra.covers` decides about the rest on the raw filters: patterns,
ends that tie, filters that cover something only together. That can be many, so `find_around` stops when it is told to.

A subscription that can never match is covered by every other.

Implements: [zcurve] Problem 1, exhaustive point dominance, section 1.1.
Deviation: a packed tree, not a space filling curve; open ends, missing values, strings, regions and unions too; every
candidate that the keys cannot decide is verified, and the search goes on after a failure (erratum Z.3.10).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from tamis.algebra.covers import Prover
from tamis.index.dominance.components import Decomposition, decompose
from tamis.index.dominance.corners import NOBODY
from tamis.index.dominance.rows import RowStore
from tamis.index.protocols import NO_ROWS, Guarantee, IndexStatistics, MatchRows, Rows
from tamis.model.subscription import Filter, Subscription
from tamis.model.tables import SubscriptionTable

__all__ = ["Around", "DominanceIndex"]


class Around(NamedTuple):
    """The least row that covers a subscription, the rows that it covers, and whether that is the whole answer."""

    cover: int | None
    covered: Rows
    is_complete: bool


class DominanceIndex:
    """Finds who covers a subscription and whom it covers, among any number.

    Guarantee: EXACT, the least row of all coverers. Cost: a microsecond per box of a table at a million boxes, some ten
    microseconds per component of a subscription; for regions and balls as many exact comparisons as boxes propose.
    When not to use it: when most subscriptions are patterns or large trees, for these are verified one by one; for
    balls of many dimensions see "projection".
    """

    kind = "exact"

    def __init__(self, pieces: int | None = None) -> None:
        self._rows = RowStore()
        #: What all proofs of one question may cost together; None: each as much as it needs.
        self._pieces = pieces
        #: With a budget some covers are not seen.
        self.guarantee = Guarantee.EXACT if pieces is None else Guarantee.SOUND
        self._n_verified = 0

    def __len__(self) -> int:
        return len(self._rows)

    # ---- writing

    def add(self, row: int, subscription: Subscription) -> None:
        """Add a subscription under a row that is free."""
        self.add_many((row,), (subscription,))

    def add_many(self, rows: Sequence[int], subscriptions: Sequence[Subscription]) -> None:
        """Add subscriptions under rows that are free: many at once cost less than as many calls of `add`."""
        taken = next((row for row in rows if row in self._rows), None)
        if taken is not None:
            raise KeyError(f"row {taken} is taken")
        self._rows.add(rows, subscriptions)

    def add_boxes(self, rows: Rows, table: SubscriptionTable) -> None:
        """Add the boxes of a table under rows that are free, without an object per box."""
        taken = np.intersect1d(rows, np.array(self._rows.rows(), np.int32)) if len(self) else NO_ROWS
        if taken.size:
            raise KeyError(f"row {taken[0]} is taken")
        self._rows.add_boxes(rows, table)

    def remove(self, row: int) -> None:
        """Remove a row; KeyError when it is not there."""
        self._rows.remove(row)

    # ---- reading

    def find_cover(self, subscription: Subscription) -> int | None:
        """Return the least row whose subscription covers the given one."""
        return self._find_cover(subscription.filters, _Patience(_always, self._pieces))

    def find_cover_many(self, subscriptions: Sequence[Subscription]) -> Rows:
        """Return `find_cover` of each subscription, -1 where there is none: many at once cost less."""
        filters = [one.filters for one in subscriptions]
        patience = [_Patience(_always, self._pieces) for _ in filters]
        best = self._find_each(filters, [decompose(one) for one in filters], patience)
        return np.array([-1 if row == NOBODY else row for row in best], np.int32)

    def find_covers(self, table: SubscriptionTable) -> Rows:
        """Return for each box of a table the least row that covers it, -1 where nobody does."""
        self._rows.boxes.grow()
        best = self._rows.boxes.tree.find_least_covers(*self._rows.space.asked_boxes(table))
        question, rows, sure = self._rows.find_coverers_of_boxes(table)
        np.minimum.at(best, question[sure], rows[sure])
        for k in np.flatnonzero(~sure).tolist():
            i, row = int(question[k]), int(rows[k])
            if row < best[i]:
                filters = table.box_subscription(i, i).filters
                best[i] = self._first([row], filters, int(best[i]), _Patience(_always))
        best[best == NOBODY] = -1
        return best

    def find_covered(self, subscription: Subscription) -> Rows:
        """Return the rows the given subscription covers, ascending."""
        return self._find_covered(subscription, _Patience(_always, self._pieces))

    def find_around(self, subscription: Subscription, go_on: Callable[[], bool]) -> Around:
        """Return `find_cover` and `find_covered`, or what is known of them when ``go_on`` says that it takes too long.

        ``go_on`` is asked before each candidate that is verified. Then others may cover the subscription, or be
        covered by it; whoever is named is.
        """
        patience = _Patience(go_on)
        cover, covered = self._find_cover(subscription.filters, patience), self._find_covered(subscription, patience)
        return Around(cover, covered, patience.lasted)

    def find_covered_each(self, table: SubscriptionTable) -> MatchRows:
        """Return the rows that each box of a table covers, ascending inside each box."""
        if not self._rows.has_boxes_only:
            return MatchRows.joined([self.find_covered(table.box_subscription(i, i)) for i in range(len(table))])
        space, boxes = self._rows.space, self._rows.boxes
        lo, hi = space.asked_boxes(table)
        nowhere = space.unknown_to(table)[:, None]
        offsets, rows = boxes.tree.find_inside(np.where(nowhere, np.inf, lo), np.where(nowhere, -np.inf, hi))
        owner = np.repeat(np.arange(len(table)), np.diff(offsets))
        return MatchRows(offsets, rows[np.lexsort((rows, owner))])

    def propose_covers(self, subscription: Subscription) -> Rows:
        """Return every row that covers the given subscription, and perhaps others."""
        split = decompose(subscription.filters)
        if split.whole and not split.components:
            return np.array(self._rows.rows(), np.int32)
        return self._rows.find_coverers([subscription.filters], [split]).rows

    def propose_meeting(self, subscription: Subscription) -> Rows:
        """Return every row that can match an event which the given subscription matches, and perhaps others."""
        return self._rows.find_meeting(subscription.filters)

    def statistics(self) -> IndexStatistics:
        """Return how many took which road, and what questions cost so far."""
        blocks, ties = self._rows.boxes.tree.counters
        details = {**self._rows.statistics(), "nodes": blocks, "ties": ties, "verified": self._n_verified}
        return IndexStatistics(self.kind, len(self), details)

    def check_invariants(self) -> None:
        """Raise `InvariantError` unless all trees are consistent."""
        self._rows.check_invariants()

    # ---- inside

    def _find_cover(self, filters: tuple[Filter, ...], patience: _Patience) -> int | None:
        split = decompose(filters)
        [best] = self._find_each([filters], [split], [patience])
        return None if best == NOBODY else best

    def _find_each(
        self, questions: Sequence[tuple[Filter, ...]], split: Sequence[Decomposition], patience: Sequence[_Patience]
    ) -> list[int]:
        """Return the least row that covers each question, or `NOBODY`."""
        question, rows, sure = self._rows.find_coverers(questions, split)
        offsets = np.searchsorted(question, np.arange(len(questions) + 1))
        best: list[int] = []
        for i, filters in enumerate(questions):
            if split[i].whole and not split[i].components:  # it can never match
                best.append(min(self._rows.rows(), default=NOBODY))
                continue
            own = slice(offsets[i], offsets[i + 1])
            certain = np.flatnonzero(sure[own])
            stop, row = (certain[0], int(rows[own][certain[0]])) if certain.size else (None, NOBODY)
            best.append(self._first(rows[own][:stop].tolist(), filters, row, patience[i]))
        return best

    def _first(
        self, candidates: Iterable[int], filters: tuple[Filter, ...], otherwise: int, patience: _Patience
    ) -> int:
        """Return the first candidate that covers on raw values: one that fails does not end the search."""
        for row in patience.each(candidates):
            self._n_verified += 1
            if patience.prover.is_covered(filters, self._rows.filters(row)):
                return row
        return otherwise

    def _find_covered(self, subscription: Subscription, patience: _Patience) -> Rows:
        sure, candidates = self._rows.find_covered(subscription.filters)
        found = [*self._rows.never, *sure.tolist()]
        for row in patience.each(candidates.tolist()):
            self._n_verified += 1
            if patience.prover.is_covered(self._rows.filters(row), subscription.filters):
                found.append(row)
        return np.array(sorted(found), np.int32)


class _Patience:
    """Gives out candidates for as long as it is told to go on, and knows whether that was long enough."""

    def __init__(self, go_on: Callable[[], bool], pieces: int | None = None) -> None:
        self._go_on = go_on
        self.prover = Prover(pieces)
        self.lasted = True

    def each(self, candidates: Iterable[int]) -> Iterator[int]:
        for row in candidates:
            if self.prover.is_exhausted or not self._go_on():
                self.lasted = False
                return
            yield row


def _always() -> bool:
    return True
