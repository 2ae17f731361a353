"""A simulated client that reads what it gets at once and keeps it, for programs that look at it afterwards."""

from __future__ import annotations

from collections.abc import Sequence

from tamis.model.subscription import SubscriptionId
from tamis.node.cursor import Cursor
from tamis.routing import messages as m
from tamis.routing.edge.rights import Rights
from tamis.runtime.client.session import ClientSession, Reader
from tamis.runtime.simulation.brokers import BrokerSimulator
from tamis.runtime.simulation.hosts import ClientHost

__all__ = ["ClientInbox", "take_waiting"]

_Place = tuple[str, SubscriptionId]


class ClientInbox:
    """One client of a simulated network: every event that it got, once, in order."""

    def __init__(self, simulator: BrokerSimulator, name: str, broker: str) -> None:
        self._simulator = simulator
        self.host = simulator.add_client(name, broker, Rights("local"), link=name)
        self.host.on_news = self.read
        self.host.session.on_refusal = self._note_refusal
        self.deliveries: list[m.Delivery] = []
        #: What the broker refused, in order.
        self.refusals: list[m.Refusal] = []
        #: How far each subscription has come; one that has ended stays here.
        self.states: dict[_Place, m.State] = {}

    @property
    def session(self) -> ClientSession:
        """What the client is in production."""
        return self.host.session

    @property
    def refused(self) -> list[m.EventId]:
        """The events that were refused, by the ids that their readers would see."""
        refused = (refusal.event for refusal in self.refusals)
        return [m.EventId(self.host.publisher, id.epoch, id.seq) for id in refused if id is not None]

    def subscribe(self, message: m.Subscribe) -> None:
        """Ask for events."""
        reader = Reader(message)
        self.states[reader.place] = reader.state
        self.session.follow(reader)
        self.session.say(message)
        self._simulator.pump(self.host)

    def unsubscribe(self, message: m.Unsubscribe) -> None:
        """End a subscription."""
        reader = self.session.readers[message.namespace, message.id]
        reader.message = message
        self.session.say(message)
        self._simulator.pump(self.host)

    def publish(self, namespace: str, payloads: Sequence[bytes]) -> list[m.EventId]:
        """Publish events; return the ids that their readers will see."""
        ids = self.session.publish(namespace, payloads, lambda error: None)
        self._simulator.pump(self.host)
        return [m.EventId(self.host.publisher, id.epoch, id.seq) for id in ids]

    def read(self, host: ClientHost) -> None:
        """Take and acknowledge what waits."""
        for cursor, delivery, readers in take_waiting(self.session):
            self.deliveries.append(delivery)
            for reader in readers:
                self.session.acknowledge(reader, cursor)
        for reader in list(self.session.readers.values()):
            self.states[reader.place] = reader.state
            if reader.state is m.State.CANCELLED and isinstance(reader.message, m.Unsubscribe):
                self.session.leave(reader.place)
        host.wake()

    def _note_refusal(self, refusal: m.Refusal) -> None:
        """Keep a refusal; refusals of events are sent again on a new connection, and kept once."""
        if refusal.event is None or all(refusal.event != noted.event for noted in self.refusals):
            self.refusals.append(refusal)


def take_waiting(session: ClientSession) -> list[tuple[Cursor, m.Delivery, list[Reader]]]:
    """Take what waits for all readers of a client, in order, each event once with its readers."""
    waiting: dict[Cursor, tuple[m.Delivery, list[Reader]]] = {}
    for reader in session.readers.values():
        while reader.waiting:
            cursor, delivery = reader.waiting.popleft()
            waiting.setdefault(cursor, (delivery, []))[1].append(reader)
    ordered = sorted(waiting.items(), key=lambda pair: (pair[0].epoch, pair[0].number))
    return [(cursor, delivery, readers) for cursor, (delivery, readers) in ordered]
