"""A client without a socket: what it asks for, what it publishes, and what is handed to which of its readers.

`Client` puts a session on a WebSocket, the simulator on simulated wires. Nothing that was published or asked for is
forgotten while there is no wire, and nothing is handed out twice: `ClientLink` is numbered in both directions.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from tamis.errors import RefusedError, TamisError
from tamis.model.schema import Schema
from tamis.model.subscription import SubscriptionId
from tamis.node.cursor import Cursor
from tamis.routing import messages as m
from tamis.runtime.client.client_link import ClientLink, Outgoing
from tamis.runtime.client.publishing import Publishing
from tamis.runtime.client.seen_events import SeenEvents

__all__ = ["ClientSession", "FilterChange", "Reader"]


@dataclass
class FilterChange:
    """A change of a subscription's filter that is under way: what held before, and how it fares."""

    message: m.Subscribe | m.Unsubscribe
    state: m.State
    #: Whether the broker has taken the change.
    is_taken: bool = False
    #: Why the broker refused it; what held before holds on.
    error: TamisError | None = None
    #: The packet of the broker that had the last ACCEPTED.
    accepted_in: int = 0


class Reader:
    """One subscription of a client: how far it has come, and what waits to be read."""

    def __init__(self, message: m.Subscribe) -> None:
        #: What to tell a broker that may not know of it.
        self.message: m.Subscribe | m.Unsubscribe = message
        self.id = message.id
        self.namespace = message.namespace
        self.is_durable = m.about(message).durable
        self.state = m.State.PENDING
        #: The neighbours of the broker that have not confirmed it for long; empty once it is active.
        self.waiting_for: tuple[str, ...] = ()
        #: How many events were missed because they were read too slowly.
        self.missed = 0
        #: How often the broker was restored from a backup: an unknown number of events was missed each time.
        self.restored = 0
        #: Deliveries that were handed out and not taken yet, with their cursors.
        self.waiting: deque[tuple[Cursor, m.Delivery]] = deque()
        #: The cursors of all deliveries that were handed out and not acknowledged.
        self.unread: set[Cursor] = set()
        self.error: BaseException | None = None
        #: The last change of its filter.
        self.change: FilterChange | None = None

    @property
    def place(self) -> tuple[str, SubscriptionId]:
        """The namespace and the id."""
        return self.namespace, self.id

    @property
    def is_open(self) -> bool:
        """Whether a new connection must say it again: what was answered may be lost with the old one.

        So may the word that a subscription has expired; said again it is answered again.
        """
        if isinstance(self.message, m.Unsubscribe) or self.state is not m.State.ACTIVE:
            return True
        return not self.is_durable or self.message.expires is not None

    def wake(self) -> None:
        """Take note that something changed; `ClientSubscription` lets its reader go on."""

    def deliver(self, cursor: Cursor, delivery: m.Delivery) -> None:
        """Queue a delivery."""
        self.waiting.append((cursor, delivery))
        self.unread.add(cursor)
        self.wake()

    def miss(self, gap: m.Gap) -> None:
        """Take note of a gap."""
        self.missed += gap.count
        self.restored += gap.count == 0
        self.wake()

    def came_to(self, state: m.State, packet: int = 0) -> None:
        """Take note of a new state; ACTIVE without ACCEPTED before it is about a filter that was replaced."""
        if state is m.State.ACTIVE and self.state is m.State.PENDING:
            return
        if state is m.State.ACCEPTED and self.change is not None:
            self.change.accepted_in = packet
        self.state = state
        self.waiting_for = ()
        self.wake()

    def begin_change(self, message: m.Subscribe) -> FilterChange:
        """Ask for something else from now on."""
        self.change = FilterChange(self.message, self.state)
        self.message, self.state, self.waiting_for = message, m.State.PENDING, ()
        return self.change

    def take_change(self, change: FilterChange, packet: int) -> None:
        """Take note that the broker has taken a change, in a packet whose words were dealt with."""
        if change.error is not None:
            return
        change.is_taken = True
        if self.change is change and change.accepted_in != packet:  # what was said before is about the former filter
            self.came_to(m.State.PENDING)
        self.wake()

    def refuse(self, error: TamisError) -> None:
        """Take note that the broker refused a change, or the subscription."""
        change = self.change
        if change is None or change.is_taken or change.error is not None:
            self.fail(error)
            return
        change.error = error
        self.message, self.state = change.message, change.state
        self.wake()

    def delay(self, missing: tuple[str, ...]) -> None:
        """Take note of the neighbours that keep it from being active."""
        self.waiting_for = missing
        self.wake()

    def fail(self, error: BaseException) -> None:
        """End with an error."""
        self.error = error
        self.wake()


class ClientSession:
    """The state of one client; ``born`` numbers its life as a publisher."""

    def __init__(self, name: str, cursor: Cursor | None, born: int) -> None:
        self.link = ClientLink(name, cursor)
        self.publishing = Publishing(born)
        #: The types of attributes by namespace, as the broker sent them; "" means all namespaces.
        self._schemas: dict[str, Schema] = {}
        self.readers: dict[tuple[str, SubscriptionId], Reader] = {}
        #: Deliveries that no reader follows yet, with their cursors.
        self._unclaimed: list[tuple[Cursor, m.Delivery]] = []
        self._seen = SeenEvents()
        #: How many events came again, as they may after a broker lost its disk.
        self.repeated = 0
        #: Called with everything that the broker refuses.
        self.on_refusal: Callable[[m.Refusal], None] = lambda refusal: None
        #: Packets of the broker so far.
        self._packets = 0
        #: Subscriptions that have ended: their deliveries wait for no reader.
        self._ended: set[tuple[str, SubscriptionId]] = set()

    def schema_of(self, namespace: str) -> Schema:
        """Return the types of attributes in a namespace."""
        return self._schemas.get(namespace) or self._schemas.get("", Schema())

    # What the user does

    def publish(
        self,
        namespace: str,
        payloads: Sequence[bytes],
        done: Callable[[TamisError | None], None],
        traceparent: str = "",
    ) -> list[m.EventId]:
        """Queue events, which get these ids; ``done`` gets None when all are confirmed, or the first refusal.

        ``traceparent`` names the span that publishes them.
        """
        return self.publishing.add(namespace, payloads, done, traceparent)

    def say(self, message: m.Message) -> None:
        """Send a message as soon as there is a wire and room in the window."""
        self.link.unsent.append(Outgoing(m.encode(message)))

    def change(self, reader: Reader, message: m.Subscribe) -> FilterChange:
        """Let a subscription ask for something else, in one step; the change says how it fares."""
        change = reader.begin_change(message)
        self.link.unsent.append(Outgoing(m.encode(message), partial(self._take_change, reader, change)))
        return change

    def follow(self, reader: Reader) -> None:
        """Have what comes for a subscription handed to a reader."""
        self.readers[reader.place] = reader
        self._ended.discard(reader.place)
        self._claim()

    def leave(self, place: tuple[str, SubscriptionId]) -> None:
        """Hand nothing more to a reader; what it has not acknowledged counts as read."""
        reader = self.readers.pop(place, None)
        self._ended.add(place)
        if reader is not None:
            for cursor in list(reader.unread):
                self.acknowledge(reader, cursor)
        self._claim()

    def acknowledge(self, reader: Reader, cursor: Cursor) -> bool:
        """Take note that a reader is done with a message; returns whether the client's cursor moved."""
        if cursor not in reader.unread:
            return False
        reader.unread.discard(cursor)
        return cursor.epoch == self.link.broker and self.link.acknowledge(cursor.number)

    def give_up(self, error: TamisError) -> None:
        """End every open call with an error."""
        self.publishing.give_up(error)
        for reader in self.readers.values():
            reader.fail(error)

    # What the wire does

    def next_packet(self) -> bytes | None:
        """Return what is to be sent now, None when there is nothing."""
        while len(self.link.unsent) < 2 and (message := self.publishing.pack()) is not None:
            self.link.unsent.append(message)
        return self.link.packet()

    def take(self, packet: bytes) -> None:
        """Take a packet of the broker."""
        self._packets += 1
        was_up, broker = self.link.is_up, self.link.broker
        for number, message in self.link.take(packet):
            self._take(number, message)
        self.link.settle()
        self._claim()
        if self.link.is_up and not was_up:
            self._came_up(is_new=bool(broker) and broker != self.link.broker)

    # Inside

    def _take(self, number: int, message: m.Message) -> None:
        if isinstance(message, m.Delivery):
            is_new = self._seen.add(message.event.id)
            self.repeated += not is_new
            self.link.hand_out(number, int(is_new))  # before anything behind it: numbers are read in order
            if is_new:
                self._unclaimed.append((Cursor(self.link.broker, number), message))
        elif isinstance(message, m.Gap):
            self.link.hand_out(number, 0)
            for reader in self.readers.values():
                reader.miss(message)
        elif isinstance(message, m.Status):
            subject = self.readers.get((message.namespace, message.id))
            if subject is not None:
                subject.came_to(message.state, self._packets)
        elif isinstance(message, m.Delayed):
            late = self.readers.get((message.namespace, message.id))
            if late is not None:
                late.delay(message.missing)
        elif isinstance(message, m.Refusal):
            self._refused(message)
        elif isinstance(message, m.Types):
            self._schemas[message.namespace] = Schema.from_json(message.schema)

    def _take_change(self, reader: Reader, change: FilterChange) -> None:
        reader.take_change(change, self._packets)

    def _came_up(self, *, is_new: bool) -> None:
        """Say again what the broker may not know: everything if it lost its disk, else what is open."""
        waiting = self.link.waiting
        for reader in self.readers.values():
            if is_new and isinstance(reader.message, m.Subscribe):  # that life knows nothing of it
                reader.came_to(m.State.PENDING)
            body = m.encode(reader.message)
            if (is_new or reader.is_open) and body not in waiting:
                self.link.unsent.insert(0, Outgoing(body))
        if is_new:  # a broker that was restored from a backup may have subscriptions again that ended since
            for namespace, id in sorted(self._ended, key=repr):
                self.say(m.Unsubscribe(id, namespace))

    def _claim(self) -> None:
        """Hand deliveries to the subscriptions they are for; what no reader follows yet waits."""
        waiting, self._unclaimed = self._unclaimed, []
        for cursor, delivery in waiting:
            places = [(delivery.event.namespace, id) for id in delivery.subscriptions]
            readers = [self.readers[place] for place in places if place in self.readers]
            if readers or self._ended.issuperset(places):
                if cursor.epoch == self.link.broker:  # a number of a former life has no meaning
                    self.link.hand_out(cursor.number, len(readers))
                for reader in readers:
                    reader.deliver(cursor, delivery)
            else:
                self._unclaimed.append((cursor, delivery))

    def _refused(self, message: m.Refusal) -> None:
        self.on_refusal(message)
        kind, _, rest = message.subject.partition(" ")
        error = RefusedError(503 if message.is_temporary else message.status, message.reason)
        if message.event is not None:
            self.publishing.refuse(message.event, error)
        for reader in self.readers.values():
            if kind == "subscription" and repr(reader.id) == rest:
                reader.refuse(error)
