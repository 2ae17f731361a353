"""Which subscriptions of a broker cover a new one, and which it would cover.

The index is built at the first question and updated at each later one, so that publishing and subscribing pay nothing
for it. With a hundred thousand subscriptions that takes seconds, so it runs in a thread, one question at a time, while
the broker goes on. An answer is bounded: when too many subscriptions would have to be compared on raw values, it has
those that were found in time and is marked as incomplete.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from tamis.index.dominance.index import DominanceIndex
from tamis.model.subscription import Subscription, SubscriptionId
from tamis.node.effects import LinkKey
from tamis.routing import messages as m
from tamis.web.work.fair_queue import FairQueue

if TYPE_CHECKING:
    from tamis.runtime.broker.view import BrokerView

__all__ = ["CoverFinder", "CoverRelations"]


#: Seconds of computing for the comparison of one filter, the index not counted. Not of the clock: an answer does not
#: become shorter because the machine is busy with something else.
PATIENCE: Final = 0.4

#: Subscriptions that are added to the index in one go.
AT_ONCE: Final = 5_000


class CoverRelations(NamedTuple):
    """A subscription that covers a filter, some that it covers and their number, and whether all were compared."""

    covered_by: SubscriptionId | None = None
    covers: tuple[SubscriptionId, ...] = ()
    covers_count: int = 0
    covering_complete: bool = True


class _Indexed(NamedTuple):
    row: int
    message: m.Subscribe


class CoverFinder:
    """An index of all subscriptions of a broker's clients, by namespace."""

    def __init__(self, broker: BrokerView) -> None:
        self._broker = broker
        self._indexes: dict[str, DominanceIndex] = {}
        #: The indexed subscriptions, and the key of each row. Only the caller whose turn it is (`queue`) uses them.
        self._indexed: dict[LinkKey, _Indexed] = {}
        self._keys: dict[int, LinkKey] = {}
        self._next = 0
        #: The subscriptions of the broker at the last question.
        self._last: Mapping[LinkKey, m.Subscribe] = {}
        #: One question at a time, principals in turn; a caller waits here, and may have left when its turn comes.
        self.queue = FairQueue(1)

    async def around(self, subscription: Subscription, most: int) -> CoverRelations:
        """Compare a subscription with all of its namespace; the caller has a turn of the `queue`."""
        # The thread gets a copy of the subscriptions: to walk through a hundred thousand here would hold the event
        # loop.
        return await asyncio.to_thread(self._answer, dict(self._broker.subscriptions), subscription, most)

    def _answer(
        self, subscriptions: Mapping[LinkKey, m.Subscribe], subscription: Subscription, most: int
    ) -> CoverRelations:
        self._update(subscriptions)
        index = self._indexes.get(subscription.namespace)
        if index is None:
            return CoverRelations()
        cover, covered, is_complete = index.find_around(subscription, _patience(PATIENCE))
        shown = tuple(self._id(row) for row in covered[:most].tolist())
        return CoverRelations(None if cover is None else self._id(cover), shown, len(covered), is_complete)

    def _update(self, subscriptions: Mapping[LinkKey, m.Subscribe]) -> None:
        """Bring the indexes up to date with the subscriptions that were added and removed."""
        if subscriptions == self._last:  # nearly always; the messages are the same objects, so this is fast
            return
        indexed = self._indexed
        for key in [key for key, entry in indexed.items() if subscriptions.get(key) is not entry.message]:
            row, message = indexed.pop(key)
            del self._keys[row]
            self._indexes[message.namespace].remove(row)
        added: dict[str, list[tuple[LinkKey, m.Subscribe]]] = {}
        for key in [key for key in subscriptions if key not in indexed]:
            added.setdefault(subscriptions[key].namespace, []).append((key, subscriptions[key]))
        for namespace, pairs in added.items():
            for start in range(0, len(pairs), AT_ONCE):
                self._add(namespace, pairs[start : start + AT_ONCE])
        self._last = subscriptions

    def _add(self, namespace: str, pairs: list[tuple[LinkKey, m.Subscribe]]) -> None:
        rows = range(self._next, self._next + len(pairs))
        self._next = rows.stop
        self._indexes.setdefault(namespace, DominanceIndex()).add_many(rows, [self._read(*pair) for pair in pairs])
        for row, (key, message) in zip(rows, pairs, strict=True):
            self._indexed[key] = _Indexed(row, message)
            self._keys[row] = key

    def _read(self, key: LinkKey, message: m.Subscribe) -> Subscription:
        return Subscription(message.id, self._broker.filters_of(key, message), None, message.namespace)

    def _id(self, row: int) -> SubscriptionId:
        return self._indexed[self._keys[row]].message.id


def _patience(seconds: float) -> Callable[[], bool]:
    """Return a predicate that stays true until this thread has used ``seconds`` of CPU time."""
    end = time.thread_time() + seconds
    return lambda: time.thread_time() < end
