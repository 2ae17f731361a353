"""The subscriptions of a broker's own clients: what their owners said about them, and how far each has come."""

from __future__ import annotations

from collections import Counter

from tamis.errors import LimitError
from tamis.node.effects import Link
from tamis.routing import messages as m
from tamis.routing.core.broker import client_key
from tamis.routing.edge.rights import Rights

__all__ = ["Place", "Registry"]

#: The link of a client, and the key of its subscription.
Place = tuple[Link, str]


class Registry:
    """Every subscription of a client, by place."""

    def __init__(self) -> None:
        self.asked: dict[Place, m.Subscribe] = {}
        self.states: dict[Place, m.State] = {}
        #: How many subscriptions each principal has.
        self._counts: Counter[str] = Counter()

    def count_of(self, principal: str) -> int:
        """Return how many subscriptions a principal has."""
        return self._counts[principal]

    def demand_room(self, rights: Rights, link: Link, message: m.Subscribe) -> None:
        """Raise `LimitError` when a subscription is one more than its principal may have."""
        place = (link, client_key(link, message.namespace, message.id))
        if place not in self.asked and self._counts[rights.principal] >= rights.max_subscriptions:
            raise LimitError("subscriptions", self._counts[rights.principal] + 1, rights.max_subscriptions)

    def add(self, link: Link, message: m.Subscribe) -> None:
        """Note a subscription, or what replaces one."""
        place = (link, client_key(link, message.namespace, message.id))
        if place not in self.asked:
            self._counts[m.about(message).owner] += 1
        self.asked[place] = message

    def note(self, link: Link, status: m.Status) -> m.Subscribe | None:
        """Note how far a subscription has come; return one that has ended by it."""
        place = (link, client_key(link, status.namespace, status.id))
        if status.state is not m.State.CANCELLED:
            self.states[place] = status.state
            return None
        self.states.pop(place, None)
        ended = self.asked.pop(place, None)
        if ended is not None:
            self._counts[m.about(ended).owner] -= 1
        return ended
