"""One namespace of an engine: its own matcher, so that nothing can cross, and the map between ids and rows."""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from tamis.errors import DuplicateSubscriptionError, UnknownSubscriptionError
from tamis.index.protocols import Matcher
from tamis.model.subscription import Subscription, SubscriptionId

__all__ = ["Namespace"]

#: Dead rows that are always tolerated: 16 bytes each.
_DEAD_ROWS = 1 << 20


class Namespace:
    """The subscriptions of one namespace."""

    def __init__(self, matcher: Matcher) -> None:
        self.matcher = matcher
        #: ``ids[row]``: the user's id of every row ever given out. Rows are never used again, so an answer that
        #: holds this list stays right while a writer goes on; `renewed` starts over when most rows are dead.
        self.ids: list[SubscriptionId] = []
        self._rows: dict[SubscriptionId, int] = {}
        self._subscriptions: dict[int, Subscription] = {}
        #: (moment, row, id): when a subscription is due to end; stale entries are recognised by their id.
        self._ends: list[tuple[int, int, SubscriptionId]] = []

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, id: SubscriptionId) -> bool:
        return id in self._rows

    def __iter__(self) -> Iterator[Subscription]:
        return (self._subscriptions[row] for row in sorted(self._subscriptions))

    def add(self, subscription: Subscription) -> None:
        """Add a subscription; its id must be free."""
        if subscription.id in self._rows:
            raise DuplicateSubscriptionError(subscription.id)
        row = len(self.ids)
        self.ids.append(subscription.id)
        self._subscriptions[row] = subscription
        self.matcher.add(row, subscription)
        self._rows[subscription.id] = row
        if subscription.expires is not None:
            heapq.heappush(self._ends, (subscription.expires, row, subscription.id))

    def remove(self, id: SubscriptionId) -> None:
        """Remove a subscription."""
        row = self._row(id)
        self.matcher.remove(row)
        del self._rows[id], self._subscriptions[row]

    def subscription(self, id: SubscriptionId) -> Subscription:
        """Return a subscription by its id."""
        return self._subscriptions[self._row(id)]

    def expire(self, now: int) -> None:
        """Remove what is due at ``now``."""
        while self._ends and self._ends[0][0] <= now:
            moment, row, id = heapq.heappop(self._ends)
            if self._rows.get(id) == row and self._subscriptions[row].expires == moment:
                self.remove(id)

    @property
    def is_mostly_dead(self) -> bool:
        """Whether so many rows are dead that starting over pays."""
        return len(self.ids) - len(self._rows) > max(_DEAD_ROWS, len(self._rows))

    def renewed(self, matcher: Matcher) -> Namespace:
        """Return the same subscriptions in a new namespace whose rows start at 0."""
        fresh = Namespace(matcher)
        for subscription in self:
            fresh.add(subscription)
        return fresh

    @property
    def next_end(self) -> int | None:
        """When the next subscription ends, if any does."""
        return self._ends[0][0] if self._ends else None

    def _row(self, id: SubscriptionId) -> int:
        row = self._rows.get(id)
        if row is None:
            raise UnknownSubscriptionError(id)
        return row
