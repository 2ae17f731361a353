"""Which subscriptions of a broker cover a new one, and which it would cover.

The index is built when somebody asks and brought up to date with what came and went since: publishing and subscribing
pay nothing for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tamis.index.dominance.index import DominanceIndex
from tamis.model.subscription import Subscription, SubscriptionId
from tamis.node.effects import Link

if TYPE_CHECKING:
    from tamis.routing.edge import EdgeCore

__all__ = ["Covering"]

Place = tuple[Link, str]


class Covering:
    """An index of all subscriptions of an edge, by namespace."""

    def __init__(self, edge: EdgeCore) -> None:
        self._edge = edge
        self._indexes: dict[str, DominanceIndex] = {}
        #: ``{place: (namespace, row)}`` of what is indexed, and back.
        self._rows: dict[Place, tuple[str, int]] = {}
        self._places: dict[int, Place] = {}
        self._next = 0

    def around(self, subscription: Subscription, most: int) -> tuple[SubscriptionId | None, list[SubscriptionId], int]:
        """Return who covers a subscription, some of those that it covers, and how many it covers in all."""
        self._catch_up()
        index = self._indexes.get(subscription.namespace)
        if index is None:
            return None, [], 0
        cover = index.find_cover(subscription)
        covered = index.find_covered(subscription).tolist()
        return (None if cover is None else self._id(cover)), [self._id(row) for row in covered[:most]], len(covered)

    def _id(self, row: int) -> SubscriptionId:
        return self._edge.asked[self._places[row]].id

    def _catch_up(self) -> None:
        asked = self._edge.asked
        for place in [place for place in self._rows if place not in asked]:
            namespace, row = self._rows.pop(place)
            del self._places[row]
            self._indexes[namespace].remove(row)
        for place, message in asked.items():
            if place not in self._rows:
                row, self._next = self._next, self._next + 1
                filters = self._edge.content.read_filter(message.filter)
                index = self._indexes.setdefault(message.namespace, DominanceIndex())
                index.add(row, Subscription(row, filters, None, message.namespace))
                self._rows[place] = (message.namespace, row)
                self._places[row] = place
