"""The exact covering index: subscriptions as corners in a packed tree, raw values last.

Each subscription becomes one box (`outline`). Two corner indexes hold them:

* *plain*: subscriptions that are one exact box. If the one that is asked about has exact ends as well, the
  tree's answer is the answer.
* *special*: everything else (several filters, open ends, patterns, regions, balls). The tree proposes, in the
  order of the rows, and `algebra.covers.is_covered` decides on the raw filters; after a "no" the next is asked.

A subscription that can never match stands in neither: everyone covers it.

Whom a subscription covers is answered likewise: who lies in one of its `insets` is covered, whoever is not in its hull
is not, and only who is left is verified on raw values. That can be many, so `find_around` stops when it is told to.

Implements: [zcurve] Problem 1, exhaustive point dominance, section 1.1.
Deviation: a packed tree, not a space filling curve; open ends, missing values, strings and unions too; every
candidate that the keys cannot decide is verified, and the search goes on after a failure (erratum Z.3.10).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tamis.algebra.covers import Prover
from tamis.index.dominance.corners import NOBODY, CornerIndex
from tamis.index.dominance.insets import insets_of
from tamis.index.dominance.outline import Outline, outline_of
from tamis.index.dominance.space import Space
from tamis.index.protocols import NO_ROWS, Guarantee, IndexStatistics, MatchRows, Rows
from tamis.model.subscription import Filter, Subscription
from tamis.model.tables import SubscriptionTable

__all__ = ["Around", "DominanceIndex"]

_Corner = npt.NDArray[np.float64]


class Around(NamedTuple):
    """The least row that covers a subscription, the rows that it covers, and whether that is the whole answer."""

    cover: int | None
    covered: Rows
    is_complete: bool


class DominanceIndex:
    """Finds who covers a subscription and whom it covers, among any number.

    Guarantee: EXACT, the least row of all coverers. Cost: a microsecond per box in batches at a million boxes,
    some microseconds one by one; `find_covered` looks at every box that meets the given one. When not to use
    it: when most subscriptions are patterns or regions, for these are verified one by one; for balls of many
    dimensions see "projection".
    """

    kind = "exact"

    def __init__(self, pieces: int | None = None) -> None:
        self._space = Space()
        #: What all proofs of one question may cost together; None: each as much as it needs.
        self._pieces = pieces
        #: With a budget some covers are not seen.
        self.guarantee = Guarantee.EXACT if pieces is None else Guarantee.SOUND
        self._plain = CornerIndex(1)
        self._special = CornerIndex(1)
        #: ``{row: subscription}``: those that were added one by one; boxes of a table are read from the index.
        self._subscriptions: dict[int, Subscription] = {}
        #: Rows that can never match.
        self._never: set[int] = set()
        #: Special rows that may lie in a subscription though their box does not: patterns, regions, unions.
        self._loose: set[int] = set()
        self._n_verified = 0

    def __len__(self) -> int:
        return len(self._plain) + len(self._special) + len(self._never)

    # ---- writing

    def add(self, row: int, subscription: Subscription) -> None:
        """Add a subscription under a row that is free."""
        if self._has(row):
            raise KeyError(f"row {row} is taken")
        outline = self._noted(row, subscription)
        if outline is not None:
            lo, hi = self._space.stored(outline)
            self._grow()
            part = self._plain if outline.single else self._special
            part.add_boxes(lo.reshape(1, -1), hi.reshape(1, -1), np.array([row], np.int32))
            _tidy(part)

    def add_many(self, rows: Sequence[int], subscriptions: Sequence[Subscription]) -> None:
        """Add subscriptions under rows that are free: many at once cost less than as many calls of `add`."""
        taken = next((row for row in rows if self._has(row)), None)
        if taken is not None:
            raise KeyError(f"row {taken} is taken")
        found = [(row, self._noted(row, one)) for row, one in zip(rows, subscriptions, strict=True)]
        outlines = [(row, outline) for row, outline in found if outline is not None]
        for _, outline in outlines:
            self._space.name_places(outline)
        self._grow()
        for part, is_plain in ((self._plain, True), (self._special, False)):
            chosen = [row for row, outline in outlines if outline.single is is_plain]
            corners = [self._space.stored(outline) for _, outline in outlines if outline.single is is_plain]
            if chosen:
                lo, hi = (np.array([corner[side] for corner in corners]) for side in (0, 1))
                part.add_boxes(lo, hi, np.array(chosen, np.int32))
                _tidy(part)

    def add_boxes(self, rows: Rows, table: SubscriptionTable) -> None:
        """Add the boxes of a table under rows that are free, without an object per box."""
        taken = np.intersect1d(rows, np.array(self._rows(), np.int32)) if len(self) else NO_ROWS
        if taken.size:
            raise KeyError(f"row {taken[0]} is taken")
        lo, hi = self._space.stored_boxes(table)
        self._grow()
        self._plain.add_boxes(lo, hi, rows)
        _tidy(self._plain)

    def remove(self, row: int) -> None:
        """Remove a row; KeyError when it is not there."""
        if row in self._never:
            self._never.remove(row)
        elif self._plain.find_box(row) is not None:
            self._plain.remove_one(row)
        else:
            self._special.remove_one(row)
            self._loose.discard(row)
        self._subscriptions.pop(row, None)

    # ---- reading

    def find_cover(self, subscription: Subscription) -> int | None:
        """Return the least row whose subscription covers the given one."""
        return self._find_cover(subscription, _Patience(_always, self._pieces))

    def find_covers(self, table: SubscriptionTable) -> Rows:
        """Return for each box of a table the least row that covers it, -1 where nobody does."""
        lo, hi = self._space.asked_boxes(table)
        best = self._plain.find_least_covers(lo, hi)
        if len(self._special):
            offsets, rows = self._special.match_points(hi, lo)
            for i in np.flatnonzero(np.diff(offsets)).tolist():
                candidates = np.sort(rows[offsets[i] : offsets[i + 1]])
                one = table.box_subscription(i, i)
                below = candidates[candidates < best[i]]
                best[i] = self._first(below, one.filters, int(best[i]), _Patience(_always))
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
        cover, covered = self._find_cover(subscription, patience), self._find_covered(subscription, patience)
        return Around(cover, covered, patience.lasted)

    def find_covered_each(self, table: SubscriptionTable) -> MatchRows:
        """Return the rows that each box of a table covers, ascending inside each box."""
        lo, hi = self._space.asked_boxes(table)
        nowhere = self._space.unknown_to(table)[:, None]
        plain = MatchRows(*self._plain.find_inside(np.where(nowhere, np.inf, lo), np.where(nowhere, -np.inf, hi)))
        if len(self._special) or self._never:
            each = (self._covered_by_box(plain, table, i, lo[i], hi[i]) for i in range(len(table)))
            return MatchRows.joined([np.sort(rows) for rows in each])
        owner = np.repeat(np.arange(len(table)), np.diff(plain.offsets))
        return MatchRows(plain.offsets, plain.rows[np.lexsort((plain.rows, owner))])

    def propose_covers(self, subscription: Subscription) -> Rows:
        """Return every row that covers the given subscription, and perhaps others: none is verified."""
        outline = outline_of(subscription.filters)
        if outline is None:
            return np.array(self._rows(), np.int32)
        lo, hi = self._space.asked(outline)
        return np.concatenate((self._plain.find_coverers(lo, hi), self._special.find_coverers(lo, hi)))

    def propose_meeting(self, subscription: Subscription) -> Rows:
        """Return every row that can match an event which the given subscription matches, and perhaps others."""
        outline = outline_of(subscription.filters)
        if outline is None:
            return NO_ROWS
        lo, hi = self._space.around(outline)
        return np.concatenate((self._plain.find_meeting(lo, hi), self._special.find_meeting(lo, hi)))

    def statistics(self) -> IndexStatistics:
        """Return how many took which road, and what questions cost so far."""
        blocks, ties = self._plain.counters
        details = {
            "plain": len(self._plain),
            "special": len(self._special),
            "never": len(self._never),
            "axes": len(self._space),
            "nodes": blocks,
            "ties": ties,
            "verified": self._n_verified,
            "bytes": self._plain.statistics()["bytes"] + self._special.statistics()["bytes"],
        }
        return IndexStatistics(self.kind, len(self), details)

    def check_invariants(self) -> None:
        """Raise `InvariantError` unless both corner indexes are consistent."""
        self._plain.check_invariants()
        self._special.check_invariants()

    # ---- inside

    def _has(self, row: int) -> bool:
        return (
            row in self._subscriptions
            or self._plain.find_box(row) is not None
            or self._special.find_box(row) is not None
        )

    def _rows(self) -> list[int]:
        return [*self._never, *self._plain.rows().tolist(), *self._special.rows().tolist()]

    def _noted(self, row: int, subscription: Subscription) -> Outline | None:
        """Note what is known of a new row besides its box; return its outline."""
        outline = outline_of(subscription.filters)
        if outline is None:
            self._never.add(row)
        elif not outline.single and outline.inner is not outline.outer:
            self._loose.add(row)
        self._subscriptions[row] = subscription
        return outline

    def _grow(self) -> None:
        for index in (self._plain, self._special):
            if len(self._space) > index.n_axes:
                index.grow(len(self._space))

    def _find_cover(self, subscription: Subscription, patience: _Patience) -> int | None:
        outline = outline_of(subscription.filters)
        if outline is None:
            return min(self._rows(), default=None)
        best = NOBODY
        for part, sure in ((self._plain, outline.exact), (self._special, False)):
            if len(part) and sure:
                best = part.find_least_cover(self._space.asked(outline), best)
            elif len(part):
                candidates = np.sort(part.find_coverers(*self._space.asked(outline)))
                best = self._first(candidates[candidates < best], subscription.filters, best, patience)
        return None if best == NOBODY else best

    def _first(self, candidates: Rows, filters: tuple[Filter, ...], otherwise: int, patience: _Patience) -> int:
        """Return the first candidate that covers on raw values: one that fails does not end the search."""
        for row in patience.each(candidates):
            self._n_verified += 1
            if patience.prover.is_covered(filters, self._filters(row)):
                return row
        return otherwise

    def _find_covered(self, subscription: Subscription, patience: _Patience) -> Rows:
        outline = outline_of(subscription.filters)
        found = list(self._never)
        if outline is None:
            return np.array(sorted(found), np.int32)
        for part, is_plain in ((self._plain, True), (self._special, False)):
            box = self._space.around(outline)
            inside = self._lying_in(part, [outline])
            if is_plain and outline.single:
                found += inside.tolist()
                continue
            sure = self._lying_in(part, insets_of(subscription.filters, rounded=not is_plain))
            found += sure.tolist()
            if self._loose and not is_plain:
                meeting = part.find_meeting(*box)
                inside = np.union1d(inside, meeting[np.isin(meeting, np.fromiter(self._loose, np.int32))])
            found += self._inside(np.setdiff1d(inside, sure), subscription.filters, patience)
        return np.array(sorted(found), np.int32)

    def _lying_in(self, part: CornerIndex, boxes: Sequence[Outline]) -> Rows:
        """Return the rows of a part whose box lies in one of some boxes, ascending."""
        known = [self._space.around(one) for one in boxes if self._space.knows(one)]
        if not known or not len(part):
            return NO_ROWS
        return np.unique(part.find_inside(*(np.array([box[side] for box in known]) for side in (0, 1)))[1])

    def _inside(self, candidates: Rows, filters: tuple[Filter, ...], patience: _Patience) -> list[int]:
        found = []
        for row in patience.each(candidates):
            self._n_verified += 1
            if patience.prover.is_covered(self._filters(row), filters):
                found.append(row)
        return found

    def _covered_by_box(self, plain: MatchRows, table: SubscriptionTable, i: int, lo: _Corner, hi: _Corner) -> Rows:
        one = table.box_subscription(i, i)
        found: Iterable[int] = self._inside(self._special.find_meeting(lo, hi), one.filters, _Patience(_always))
        return np.concatenate(
            (NO_ROWS, plain.rows[plain.offsets[i] : plain.offsets[i + 1]], [*self._never, *found])
        ).astype(np.int32)

    def _filters(self, row: int) -> tuple[Filter, ...]:
        known = self._subscriptions.get(row)
        return known.filters if known is not None else (self._space.filter_of(self._plain.find_box(row)),)


class _Patience:
    """Gives out candidates for as long as it is told to go on, and knows whether that was long enough."""

    def __init__(self, go_on: Callable[[], bool], pieces: int | None = None) -> None:
        self._go_on = go_on
        self.prover = Prover(pieces)
        self.lasted = True

    def each(self, candidates: Rows) -> Iterator[int]:
        for row in candidates.tolist():
            if self.prover.is_exhausted or not self._go_on():
                self.lasted = False
                return
            yield row


def _always() -> bool:
    return True


def _tidy(part: CornerIndex) -> None:
    """Merge segments when there are many: each box is rewritten a few times in all."""
    plan = part.plan_merge() if part.wants_merge() else None
    if plan is not None:
        plan.run()
        part.install(plan)
