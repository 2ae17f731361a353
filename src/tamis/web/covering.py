"""Which subscriptions of a broker cover a new one, and which it would cover.

The index is built at the first question and updated with what came and went since: publishing and subscribing
pay nothing for it. With a hundred thousand subscriptions that takes seconds, so it happens in a thread, one question
at a time, and the broker goes on. An answer is bounded: where too many would have to be compared on raw values it holds
what was found until then, and says that it is not the whole.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from tamis.index.dominance.index import DominanceIndex
from tamis.model.subscription import Subscription, SubscriptionId
from tamis.node.effects import Link
from tamis.routing import messages as m
from tamis.web.work.fair_queue import FairQueue

if TYPE_CHECKING:
    from tamis.runtime.broker.view import BrokerView

__all__ = ["Around", "Covering"]

Place = tuple[Link, str]

#: Seconds of computing for the comparison of one filter, the index not counted. Not of the clock: an answer does not
#: become shorter because the machine is busy with something else.
PATIENCE: Final = 0.4

#: Subscriptions that are added to the index in one go.
AT_ONCE: Final = 5_000


class Around(NamedTuple):
    """Who covers a filter, some of those that it covers, how many, and whether all were compared."""

    covered_by: SubscriptionId | None = None
    covers: tuple[SubscriptionId, ...] = ()
    covers_count: int = 0
    covering_complete: bool = True


class _Indexed(NamedTuple):
    row: int
    message: m.Subscribe


class Covering:
    """An index of all subscriptions of a broker's clients, by namespace."""

    def __init__(self, broker: BrokerView) -> None:
        self._broker = broker
        self._indexes: dict[str, DominanceIndex] = {}
        #: What is indexed, and back. Only the caller whose turn it is (`queue`) uses these and the indexes.
        self._held: dict[Place, _Indexed] = {}
        self._places: dict[int, Place] = {}
        self._next = 0
        #: What the broker held when the last question was asked.
        self._seen: Mapping[Place, m.Subscribe] = {}
        #: One question at a time, principals in turn; a caller waits here, and may have left when its turn comes.
        self.queue = FairQueue(1)

    async def around(self, subscription: Subscription, most: int) -> Around:
        """Compare a subscription with all of its namespace; the caller has a turn of the `queue`."""
        # The thread sees a copy of what the broker holds: to look through a hundred thousand here takes too long.
        return await asyncio.to_thread(self._answer, dict(self._broker.asked), subscription, most)

    def _answer(self, asked: Mapping[Place, m.Subscribe], subscription: Subscription, most: int) -> Around:
        self._update(asked)
        index = self._indexes.get(subscription.namespace)
        if index is None:
            return Around()
        cover, covered, is_complete = index.find_around(subscription, _patience(PATIENCE))
        shown = tuple(self._id(row) for row in covered[:most].tolist())
        return Around(None if cover is None else self._id(cover), shown, len(covered), is_complete)

    def _update(self, asked: Mapping[Place, m.Subscribe]) -> None:
        """Bring the indexes up to date with what came and went."""
        if asked == self._seen:  # nearly always; and equal messages are the same ones, so that it is soon seen
            return
        held = self._held
        for place in [place for place, one in held.items() if asked.get(place) is not one.message]:
            row, message = held.pop(place)
            del self._places[row]
            self._indexes[message.namespace].remove(row)
        come: dict[str, list[tuple[Place, m.Subscribe]]] = {}
        for place in [place for place in asked if place not in held]:
            come.setdefault(asked[place].namespace, []).append((place, asked[place]))
        for namespace, pairs in come.items():
            for start in range(0, len(pairs), AT_ONCE):
                self._add(namespace, pairs[start : start + AT_ONCE])
        self._seen = asked

    def _add(self, namespace: str, pairs: list[tuple[Place, m.Subscribe]]) -> None:
        rows = range(self._next, self._next + len(pairs))
        self._next = rows.stop
        self._indexes.setdefault(namespace, DominanceIndex()).add_many(rows, [self._read(*pair) for pair in pairs])
        for row, (place, message) in zip(rows, pairs, strict=True):
            self._held[place] = _Indexed(row, message)
            self._places[row] = place

    def _read(self, place: Place, message: m.Subscribe) -> Subscription:
        return Subscription(message.id, self._broker.filters_of(place, message), None, message.namespace)

    def _id(self, row: int) -> SubscriptionId:
        return self._held[self._places[row]].message.id


def _patience(seconds: float) -> Callable[[], bool]:
    """Return what says yes until this thread has computed for so long."""
    end = time.thread_time() + seconds
    return lambda: time.thread_time() < end
