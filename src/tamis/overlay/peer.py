"""The core of a peer: its user's subscriptions, each with a seat in the tree, and its user's events.

`PeerCore.handle` is pure, like that of a broker: no clock, no socket, no random numbers. Each subscription joins the
tree as a separate seat; messages between two seats of one peer are handled at once and not sent. An event that reaches
any of its seats is matched against all subscriptions on raw values, and its user gets one copy, with the ids of all
subscriptions that match.

A peer without a subscription publishes through another peer's seat. An event is kept until the tree has confirmed that
every matching subscriber has it.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec
import numpy as np

from tamis.algebra.evaluate import matches_subscription
from tamis.errors import DuplicateSubscriptionError, InvariantError, LocalProtocolError, RemoteProtocolError
from tamis.model.schema import Event
from tamis.model.subscription import Filter, NamespacedId, Subscription, SubscriptionId, id_order
from tamis.node.core import Story
from tamis.node.effects import Deliver, Effect, Key, Link, Persist, Send
from tamis.overlay import messages as m
from tamis.overlay.event_book import EventBook
from tamis.overlay.measures import hull
from tamis.overlay.protocol import bounds, handlers, placement, promotion, repair
from tamis.overlay.seat import MAX_HOPS, Seat, Shape
from tamis.overlay.space import Box, Space
from tamis.overlay.state import SeatEvents

__all__ = ["USER", "PeerContent", "PeerCore"]

#: The sender name of messages from the peer's user.
USER: Link = ""


#: The store key of the number of a peer's lives: events of a new life must differ from those of an earlier one.
_LIFE: Key = ("life",)


class PeerContent(Protocol):
    """Reads filters and events from bytes, for a peer."""

    def read_filter(self, data: bytes) -> tuple[Filter, ...]:
        """Return the filters of CQL2-JSON; raise `ModelError` if it is not valid."""

    def read_event(self, payload: bytes) -> Event:
        """Return the canonical event of a payload; raise `EventError` if it is not valid."""


@dataclass
class _Outgoing:
    """An event of this peer's user that is not complete yet; ``waiting`` while an attempt is running."""

    event: m.PeerEvent
    attempt: int = 0
    waiting: bool = False


class PeerCore:
    """One peer. ``contact`` is any seat in the tree; the first peer of all has none.

    With ``one_seat`` all its subscriptions share one seat, whose box is the MBR of their boxes: so a broker with
    many clients is one peer (docs/overlay.md).
    """

    def __init__(
        self,
        name: str,
        content: PeerContent,
        space: Space,
        shape: Shape | None = None,
        contact: str | None = None,
        *,
        one_seat: bool = False,
    ) -> None:
        self.name = name
        self.contact = contact
        self.shape = Shape() if shape is None else shape
        self.space = space
        #: ``{name: seat}`` of all subscriptions that can match something, and of those that left until the next round.
        self.seats: dict[str, Seat] = {}
        self._content = content
        self._one_seat = one_seat
        self._epoch = 1
        self._subscriptions: dict[NamespacedId, Subscription] = {}
        self._seat_of: dict[NamespacedId, str] = {}
        self._boxes: dict[NamespacedId, Box] = {}
        self._n_seats = 0
        #: How many events the user has published.
        self.published = 0
        self._outgoing: dict[int, _Outgoing] = {}
        #: Which events were matched here.
        self._matched: EventBook[bool] = EventBook()
        #: Events that arrived here without matching a subscription here.
        self.false_positives = 0
        #: ``{hops: events that were delivered after this many hops}``.
        self.distances: Counter[int] = Counter()
        self.story = Story()

    def handle(self, message: Any, *, sender: Link, now: float) -> list[Effect]:
        """Handle a message of the user, of the clock, or of another peer."""
        self.story.note(now, sender, message)
        effects: list[Effect] = []
        if isinstance(message, m.SeatMessage):
            if m.peer_of(message.to) != self.name:
                raise RemoteProtocolError(sender, f"there is no seat {message.to!r} at this peer")
            self._work([message], effects)
        elif isinstance(message, m.Check):
            self._check(message, effects)
        elif isinstance(message, m.SubscribeRequest):
            self._subscribe(message, effects)
        elif isinstance(message, m.UnsubscribeRequest):
            self._unsubscribe(message, effects)
        elif isinstance(message, m.PublishRequest):
            self._hold(message.payload, message.namespace, effects)
        else:
            raise LocalProtocolError(f"a peer does not accept {type(message).__name__}")
        return effects

    def restore(self, stored: Mapping[Key, bytes], *, now: float) -> list[Effect]:
        """Restore the subscriptions and events that an earlier life persisted; they join and are sent again."""
        self._epoch = int(stored.get(_LIFE, b"0")) + 1
        effects: list[Effect] = [Persist(_LIFE, b"%d" % self._epoch)]
        for key in sorted(stored):
            if key[0] == "asked":
                self._subscribe(msgspec.msgpack.decode(stored[key], type=m.SubscribeRequest), effects)
            elif key[0] == "published":
                event = msgspec.msgpack.decode(stored[key], type=m.PeerEvent)
                effects.append(Persist(key, None))
                self._hold(event.payload, event.namespace, effects)
        return effects

    def is_active(self, namespace: str, id: SubscriptionId) -> bool:
        """Whether a subscription has its place in the tree, so that every event published from now on reaches it."""
        seat = self.seats.get(self._seat_of.get((namespace, id), ""))
        return (namespace, id) in self._subscriptions and (seat is None or (seat.placed and seat.growth.is_known))

    @property
    def contact_seat(self) -> str | None:
        """A seat through which others can join."""
        active = [name for name, seat in self.seats.items() if not seat.left]
        return next((name for name in active if self.seats[name].placed), active[0] if active else None)

    @property
    def held(self) -> int:
        """Events of the user that have not reached every matching peer yet."""
        return len(self._outgoing)

    @property
    def is_waiting(self) -> bool:
        """Whether something is unfinished: a join, an event, a change of the tree."""
        return bool(self._outgoing) or any(seat.is_waiting for seat in self.seats.values())

    def check_invariants(self) -> None:
        """Raise `InvariantError` with the story unless this peer's tables are consistent."""
        for seat in self.seats.values():
            for at, level in enumerate(seat.levels, 1):
                if seat.name not in level or len(set(level.names)) < len(level.names):
                    raise InvariantError(f"{seat.name}: the table of level {at} is broken", self.story.lines())

    # The user

    def _subscribe(self, message: m.SubscribeRequest, effects: list[Effect]) -> None:
        key = (message.namespace, message.id)
        if key in self._subscriptions:
            raise DuplicateSubscriptionError(message.id)
        filters = self._content.read_filter(message.filter)
        self._subscriptions[key] = Subscription(message.id, filters, None, message.namespace)
        effects.append(Persist(_asked_key(key), msgspec.msgpack.encode(message)))
        box = self.space.box_of(filters)
        if box is not None:
            self._boxes[key] = box
            self._seat_of[key] = self._take_seat(box).name
        self._work([], effects)

    def sit(self, box: Box) -> list[Effect]:
        """Join with a box alone, without a subscription to match: for experiments with the tree."""
        effects: list[Effect] = []
        self._sit_down(box)
        self._work([], effects)
        return effects

    def _take_seat(self, box: Box) -> Seat:
        """Return the seat of a new subscription: a new one, or the common one, which grows."""
        shared = self.contact_seat if self._one_seat else None
        if shared is None:
            return self._sit_down(box)
        bounds.change_box(self.seats[shared], hull(np.array(list(self._boxes.values()))))
        return self.seats[shared]

    def _sit_down(self, box: Box) -> Seat:
        name = f"{self.name}/{self._n_seats}"
        self._n_seats += 1
        ours = self.contact_seat
        contact = ours if ours is not None and (self.seats[ours].placed or self.contact is None) else self.contact
        seat = self.seats[name] = Seat(name, box, self.space, self.shape, SeatEvents(self._locate))
        if contact is None:
            seat.membership.enter()  # the first peer of the network
        else:
            placement.join(seat, contact)
        return seat

    def _unsubscribe(self, message: m.UnsubscribeRequest, effects: list[Effect]) -> None:
        key = (message.namespace, message.id)
        self._subscriptions.pop(key, None)
        effects.append(Persist(_asked_key(key), None))
        self._boxes.pop(key, None)
        seat = self.seats.get(self._seat_of.pop(key, ""))
        if seat is not None:
            if seat.name in self._seat_of.values():
                bounds.change_box(seat, hull(np.array(list(self._boxes.values()))))
            else:
                promotion.leave(seat)
            self._work([], effects)

    def _hold(self, payload: bytes, namespace: str, effects: list[Effect]) -> None:
        self.published += 1
        id = m.EventId(self.name, self._epoch, self.published)
        event = m.PeerEvent(id, namespace, payload, min(self._outgoing, default=id.seq))
        self._outgoing[id.seq] = _Outgoing(event)
        effects.append(Persist(_event_key(id), msgspec.msgpack.encode(event)))
        self._match(event, 0, effects)
        self._send_out(effects)

    def _send_out(self, effects: list[Effect]) -> None:
        """Start an attempt for every event that waits for one."""
        placed = next((name for name, seat in self.seats.items() if seat.placed and not seat.left), None)
        through = placed or self.contact
        mail: list[m.SeatMessage] = []
        for outgoing in self._outgoing.values():
            if not outgoing.waiting and through is not None:
                outgoing.attempt, outgoing.waiting = outgoing.attempt + 1, True
                sender = placed or f"{self.name}/"
                mail.append(m.Forward(through, sender, 0, outgoing.event, outgoing.attempt, 0, False, "", ""))
        self._work(mail, effects)

    # The clock

    def _check(self, message: m.Check, effects: list[Effect]) -> None:
        contact = self.contact = message.contact if message.contact is not None else self.contact
        for name in [name for name, seat in self.seats.items() if seat.left]:
            del self.seats[name]
        first = self.contact_seat
        for name, seat in self.seats.items():
            repair.check(seat, contact if contact != name else first)
            handlers.settle(seat)
        self._work([], effects)
        for outgoing in self._outgoing.values():
            outgoing.waiting = outgoing.waiting and self._is_under_way(outgoing)
        self._send_out(effects)

    def _is_under_way(self, outgoing: _Outgoing) -> bool:
        """Whether one of this peer's seats still works on an attempt; if not, no answer will come."""
        copies = (seat.events.copies.read(outgoing.event.id) for seat in self.seats.values())
        return any(copy is not None and copy.attempt == outgoing.attempt and bool(copy.pending) for copy in copies)

    # The mail

    def _work(self, mail: list[m.SeatMessage], effects: list[Effect]) -> None:
        """Deliver mail to this peer's own seats until none is left, and return the messages to other peers."""
        waiting = deque(mail)
        self._collect(waiting, effects)
        while waiting:
            message = waiting.popleft()
            if m.peer_of(message.to) != self.name:
                effects.append(Send(m.peer_of(message.to), message))
                continue
            seat = self._addressee(message, effects)
            if seat is not None:
                handlers.handle(seat, message)
                self._collect(waiting, effects)

    def _addressee(self, message: m.SeatMessage, effects: list[Effect]) -> Seat | None:
        seat = self.seats.get(message.to)
        if seat is None and isinstance(message, m.Receipt) and message.to == f"{self.name}/":
            self._finished(message.id, message.attempt, message.complete, effects)
        if seat is None and _is_for_anybody(message):
            if self.contact_seat is not None:
                return self.seats[self.contact_seat]  # the seat is gone, but this peer exists
            self._show_the_way(message, effects)
        return seat

    def _show_the_way(self, message: m.SeatMessage, effects: list[Effect]) -> None:
        """Forward messages that look for the tree, if this peer has no seat; the first peer that asks is the tree."""
        if isinstance(message, m.Insert) and self.contact in (None, message.seat):
            self.contact = message.seat
            alone = m.Seek(message.seat, f"{self.name}/", 0, message.seat, message.level)
            effects.append(Send(m.peer_of(message.seat), alone))
        elif self.contact is not None and message.hops < MAX_HOPS:
            onward = msgspec.structs.replace(message, to=self.contact, hops=message.hops + 1)
            effects.append(Send(m.peer_of(self.contact), onward))

    def _collect(self, waiting: deque[m.SeatMessage], effects: list[Effect]) -> None:
        for seat in self.seats.values():
            handlers.settle(seat)
            waiting.extend(seat.take_mail())
            for forward in seat.events.take_arrived():
                self._match(forward.event, forward.distance, effects)
            for finished in seat.events.take_finished():
                self._finished(*finished, effects)

    # Events

    def _locate(self, payload: bytes) -> Box:
        return self.space.box_of_event(self._content.read_event(payload))

    def _match(self, event: m.PeerEvent, distance: int, effects: list[Effect]) -> None:
        """Deliver an event that is new here, if it matches a subscription here."""
        if self._matched.is_done(event) or self._matched.read(event.id):
            return
        self._matched.write(event.id, True)
        values = self._content.read_event(event.payload)
        ids = [
            id
            for (namespace, id), subscription in self._subscriptions.items()
            if namespace == event.namespace and matches_subscription(values, subscription)
        ]
        if ids:
            effects.append(Deliver(USER, m.PeerDelivery(event, tuple(sorted(ids, key=id_order)))))
            self.distances[distance] += 1
        elif event.id.publisher != self.name:
            self.false_positives += 1

    def _finished(self, id: m.EventId, attempt: int, complete: bool, effects: list[Effect]) -> None:
        outgoing = self._outgoing.get(id.seq)
        if outgoing is None or outgoing.attempt != attempt:
            return
        if complete:
            del self._outgoing[id.seq]
            effects.append(Persist(_event_key(id), None))
        else:
            outgoing.waiting = False  # the next round tries again


def _is_for_anybody(message: m.SeatMessage) -> bool:
    """Whether a message only looks for the tree: a join, a root that seeks others, an event from outside."""
    if isinstance(message, m.Insert):
        return message.at == 0
    return isinstance(message, m.Seek) or (isinstance(message, m.Forward) and not message.token)


def _asked_key(place: NamespacedId) -> Key:
    return ("asked", place[0], msgspec.json.encode(place[1]).decode())


def _event_key(id: m.EventId) -> Key:
    return ("published", str(id.epoch), f"{id.seq:020}")
