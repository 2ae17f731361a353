"""Which subscriptions of a broker cover a new one, and which it would cover.

The index is built when somebody asks and brought up to date with what came and went since: publishing and subscribing
pay nothing for it. With a hundred thousand subscriptions that takes seconds, so it happens in a thread, one question
at a time, and the broker goes on.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from tamis.index.dominance.index import DominanceIndex
from tamis.model.subscription import Subscription, SubscriptionId
from tamis.node.effects import Link
from tamis.routing import messages as m

if TYPE_CHECKING:
    from tamis.routing.edge import EdgeCore

__all__ = ["Around", "Covering"]

Place = tuple[Link, str]


class Around(NamedTuple):
    """Who covers a filter, some of those that it covers, and how many it covers in all."""

    covered_by: SubscriptionId | None = None
    covers: tuple[SubscriptionId, ...] = ()
    covers_count: int = 0


class _Indexed(NamedTuple):
    row: int
    message: m.Subscribe


class Covering:
    """An index of all subscriptions of an edge, by namespace."""

    def __init__(self, edge: EdgeCore) -> None:
        self._edge = edge
        self._indexes: dict[str, DominanceIndex] = {}
        #: What is indexed, and back. Only whoever has the turn looks at these, or at the indexes.
        self._held: dict[Place, _Indexed] = {}
        self._places: dict[int, Place] = {}
        self._next = 0
        #: One question at a time; a caller waits here, and may have left when its turn comes.
        self.turn = asyncio.Lock()

    async def around(self, subscription: Subscription, most: int) -> Around:
        """Compare a subscription with all of its namespace; the caller has the `turn`."""
        # What the edge holds is read here, where nothing changes meanwhile; the thread sees only copies of it.
        asked = self._edge.asked
        gone = [place for place, one in self._held.items() if asked.get(place) is not one.message]
        come = [
            (place, message, self._read(place, message))
            for place, message in asked.items()
            if place not in self._held or self._held[place].message is not message
        ]
        return await asyncio.to_thread(self._answer, gone, come, subscription, most)

    def _read(self, place: Place, message: m.Subscribe) -> Subscription:
        known = self._edge.broker.table.interests(place[0]).get(place[1])
        filters = self._edge.content.read_filter(message.filter) if known is None else known.filters
        return Subscription(message.id, filters, None, message.namespace)

    def _answer(
        self,
        gone: list[Place],
        come: list[tuple[Place, m.Subscribe, Subscription]],
        subscription: Subscription,
        most: int,
    ) -> Around:
        for place in gone:
            row, message = self._held.pop(place)
            del self._places[row]
            self._indexes[message.namespace].remove(row)
        for place, message, one in come:
            row, self._next = self._next, self._next + 1
            self._indexes.setdefault(message.namespace, DominanceIndex()).add(row, one)
            self._held[place] = _Indexed(row, message)
            self._places[row] = place
        index = self._indexes.get(subscription.namespace)
        if index is None:
            return Around()
        cover = index.find_cover(subscription)
        covered = index.find_covered(subscription).tolist()
        shown = tuple(self._id(row) for row in covered[:most])
        return Around(None if cover is None else self._id(cover), shown, len(covered))

    def _id(self, row: int) -> SubscriptionId:
        return self._held[self._places[row]].message.id
