"""Expiry of subscriptions: a heap of moments, so that a look costs in proportion to what has expired (promise R14)."""

from __future__ import annotations

import heapq

from tamis.node.effects import LinkKey

__all__ = ["Expiry"]


class Expiry:
    """The moments, in microseconds UTC, at which subscriptions end.

    >>> expiry = Expiry()
    >>> expiry.put(("alice", "a"), 10)
    >>> expiry.put(("alice", "b"), 5)
    >>> expiry.put(("alice", "b"), 20)
    >>> expiry.take(15), expiry.take(15), len(expiry)
    ([('alice', 'a')], [], 1)
    """

    def __init__(self) -> None:
        #: Exactly the subscriptions that end, with their moments.
        self._moments: dict[LinkKey, int] = {}
        #: All of them, the next first, and stale entries of subscriptions that were dropped or changed.
        self._heap: list[tuple[int, LinkKey]] = []

    def __len__(self) -> int:
        return len(self._moments)

    @property
    def first(self) -> int | None:
        """The moment at which the next subscription ends; None: there is none."""
        return min(self._moments.values(), default=None)

    def put(self, place: LinkKey, moment: int | None) -> None:
        """Set the moment at which a subscription ends; None: never."""
        self._moments.pop(place, None)
        if moment is not None:
            self._moments[place] = moment
            heapq.heappush(self._heap, (moment, place))
        if len(self._heap) > 2 * len(self._moments) + 64:
            self._heap = [(moment, place) for place, moment in self._moments.items()]
            heapq.heapify(self._heap)

    def take(self, now: float) -> list[LinkKey]:
        """Remove and return the subscriptions that have expired, the earliest first."""
        ended = []
        while self._heap and self._heap[0][0] <= now:
            moment, place = heapq.heappop(self._heap)
            if self._moments.get(place) == moment:
                del self._moments[place]
                ended.append(place)
        return ended
