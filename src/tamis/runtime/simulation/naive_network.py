"""The naive network, which runs beside every simulated one and matches each event with each subscription.

It has the subscriptions of all clients, and so computes what each must get. An event that it delivers and the network
does not is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from tamis.algebra.evaluate import matches_subscription
from tamis.errors import DuplicateSubscriptionError, ModelError, UnknownSubscriptionError
from tamis.model.schema import Event
from tamis.model.subscription import Filter, NamespacedId, Subscription, SubscriptionId
from tamis.model.tables import checked_id
from tamis.node.published import EventId

__all__ = ["NaiveNetwork", "NetworkDelivery"]


@dataclass(frozen=True)
class NetworkDelivery:
    """One copy of an event: who published it, its values, and the client's subscriptions that match."""

    publisher: str
    event: Event
    subscriptions: tuple[SubscriptionId, ...]


@dataclass
class _Client:
    """A client at a node: its subscriptions, and ``{event: subscriptions}`` that it must get."""

    node: str
    subscriptions: dict[NamespacedId, Subscription] = field(default_factory=dict)
    due: dict[EventId, list[NamespacedId]] = field(default_factory=dict)


class NaiveNetwork:
    """Clients, their subscriptions, and the events that they must get.

    >>> from tamis.model.language.compiler import compile_text
    >>> network = NaiveNetwork()
    >>> network.attach("alice", "b1")
    >>> network.subscribe("alice", compile_text("mag >= 5").filters, "strong", "default")
    'strong'
    >>> network.publish(EventId("bob", 1, 1), "default", {"mag": 6.1}, lambda client, place: True)
    >>> network.count_lost("alice", set())
    1
    """

    def __init__(self) -> None:
        self._clients: dict[str, _Client] = {}

    @property
    def clients(self) -> list[str]:
        """The names of all clients, in the order in which they came."""
        return list(self._clients)

    def attach(self, client: str, node: str) -> None:
        """Add a client at a node."""
        self._clients[client] = _Client(node)

    def detach_all(self, node: str) -> None:
        """Remove all clients at a node that was removed."""
        self._clients = {name: client for name, client in self._clients.items() if client.node != node}

    def node_of(self, client: str) -> str:
        """Return where a client is; ModelError when there is no such client."""
        return self._client(client).node

    def subscribe(
        self, client: str, filters: tuple[Filter, ...], id: SubscriptionId | None, namespace: str
    ) -> SubscriptionId:
        """Add a subscription of a client; return its id, the next number when ``id`` is None."""
        subscriptions = self._client(client).subscriptions
        chosen_id = checked_id(len(subscriptions) if id is None else id)
        if (namespace, chosen_id) in subscriptions:
            raise DuplicateSubscriptionError(chosen_id)
        subscriptions[namespace, chosen_id] = Subscription(chosen_id, filters, None, namespace)
        return chosen_id

    def unsubscribe(self, client: str, id: SubscriptionId, namespace: str) -> None:
        """Remove a subscription of a client."""
        if self._client(client).subscriptions.pop((namespace, id), None) is None:
            raise UnknownSubscriptionError(id)

    def publish(
        self, id: EventId, namespace: str, values: Event, is_active: Callable[[str, NamespacedId], bool]
    ) -> None:
        """Note which clients must get an event: all with an active subscription that matches."""
        for name, client in self._clients.items():
            due = [
                place
                for place, subscription in client.subscriptions.items()
                if place[0] == namespace and is_active(name, place) and matches_subscription(values, subscription)
            ]
            if due:
                client.due[id] = due

    def count_lost(self, client: str, received: AbstractSet[EventId]) -> int:
        """Return how many events a client must have got for its present subscriptions, and did not get."""
        expected = self._client(client)
        live: Iterable[EventId] = (
            id for id, due in expected.due.items() if any(place in expected.subscriptions for place in due)
        )
        return sum(id not in received for id in live)

    def _client(self, name: str) -> _Client:
        if name not in self._clients:
            raise ModelError(f"there is no client {name!r}; attach it first")
        return self._clients[name]
