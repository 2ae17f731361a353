"""One namespace of an engine: its own matcher, so that nothing can cross, its ids, and its raw subscriptions."""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from tamis.engine.ids import Ids
from tamis.index.protocols import BoxMatcher, Lookup, Matcher
from tamis.model.subscription import Subscription, SubscriptionId
from tamis.model.tables import SubscriptionTable

__all__ = ["Namespace"]

#: Dead rows that are always tolerated; starting over costs more than their few bytes each.
_DEAD_ROWS = 1 << 24


class Namespace:
    """The subscriptions of one namespace. ``make_matcher`` gets the way to look a raw subscription up by row."""

    def __init__(self, make_matcher: Callable[[Lookup], Matcher]) -> None:
        self._make_matcher = make_matcher
        self.ids = Ids()
        self.matcher = make_matcher(self.find)
        #: Subscriptions that came one by one, by row.
        self._single: dict[int, Subscription] = {}
        #: Tables of boxes; row ``_first[i] + k`` is box k of table i. Made into objects when asked for.
        self._tables: list[SubscriptionTable] = []
        self._first: list[int] = []
        #: (moment, row): when a subscription is due to end; rows that are gone are passed over.
        self._ends: list[tuple[int, int]] = []

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[Subscription]:
        return (self._at(row) for row in self.ids.live_rows())

    def add(self, subscription: Subscription) -> None:
        """Add a subscription; its id must be free."""
        row = self.ids.append(subscription.id)
        self._single[row] = subscription
        self.matcher.add(row, subscription)
        if subscription.expires is not None:
            heapq.heappush(self._ends, (subscription.expires, row))

    def add_boxes(self, table: SubscriptionTable, ids: Sequence[SubscriptionId] | range) -> None:
        """Add a table of boxes, all at once where the matcher can; the ids must be free."""
        first = self.ids.append_range(ids) if isinstance(ids, range) else self.ids.append_many(ids)
        self._tables.append(table)
        self._first.append(first)
        if isinstance(self.matcher, BoxMatcher):
            self.matcher.add_boxes(np.arange(first, first + len(table), dtype=np.int32), table)
        else:
            for row in range(first, first + len(table)):
                self.matcher.add(row, self._at(row))

    def remove(self, id: SubscriptionId) -> None:
        """Remove a subscription."""
        row = self.ids.remove(id)
        self.matcher.remove(row)
        self._single.pop(row, None)

    def subscription(self, id: SubscriptionId) -> Subscription:
        """Return a subscription by its id."""
        return self._at(self.ids.row(id))

    def find(self, row: int) -> Subscription | None:
        """Return the subscription of a row, None when it was removed meanwhile."""
        try:
            return self._at(row)
        except KeyError:
            return None

    def expire(self, now: int) -> None:
        """Remove what is due at ``now``."""
        while self._ends and self._ends[0][0] <= now:
            _, row = heapq.heappop(self._ends)
            if row in self._single:
                self.remove(self._single[row].id)

    @property
    def next_end(self) -> int | None:
        """When the next subscription ends, if any does."""
        return self._ends[0][0] if self._ends else None

    @property
    def is_mostly_dead(self) -> bool:
        """Whether so many rows are dead that starting over pays."""
        return self.ids.n_rows - len(self.ids) > max(_DEAD_ROWS, 8 * len(self.ids))

    def renewed(self) -> Namespace:
        """Return the same subscriptions in a new namespace whose rows start at 0."""
        fresh = Namespace(self._make_matcher)
        for subscription in self:
            fresh.add(subscription)
        return fresh

    def _at(self, row: int) -> Subscription:
        found = self._single.get(row)
        if found is not None:
            return found
        table = bisect_right(self._first, row) - 1
        if table < 0 or row - self._first[table] >= len(self._tables[table]):
            raise KeyError(row)
        return self._tables[table].box_subscription(row - self._first[table], self.ids[row])
