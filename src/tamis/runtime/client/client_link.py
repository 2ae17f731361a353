"""A client's end of its link: what to say, what was heard, how far its reader is. No socket, no clock.

Every client claims the same life, so that it goes on with the stream of its name even when it remembers nothing: the
broker's greeting says which message it received last, and the first message that comes says where the other direction
stands. Only a broker that lost its disk begins anew; then everything that was not acknowledged is said again.

A message counts as read when every subscription that it was handed to has acknowledged it, and all before it. That
number is the *cursor*: what the broker is told, and what a client may keep in a file to know after a crash.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tamis.errors import RemoteProtocolError
from tamis.node.frames import Frame, decode_frame, encode_frame
from tamis.routing import messages as m
from tamis.routing.edge.refusals import MESSAGES
from tamis.runtime.broker.connections import CLIENT_EPOCH
from tamis.runtime.packets import join_frames, split_frames

__all__ = ["ClientLink", "Cursor", "Outgoing"]

#: Messages on their way that the broker has not acknowledged.
WINDOW = MESSAGES


@dataclass(frozen=True)
class Cursor:
    """How far a client has read: the broker's life, and the number of its last message.

    >>> Cursor.parse("17-4"), str(Cursor(17, 4))
    (Cursor(epoch=17, number=4), '17-4')
    """

    epoch: int = 0
    number: int = 0

    def __str__(self) -> str:
        return f"{self.epoch}-{self.number}"

    @classmethod
    def parse(cls, text: str) -> Cursor:
        """Read what ``str`` wrote; anything else is the beginning."""
        epoch, _, number = text.strip().partition("-")
        return cls(int(epoch), int(number)) if epoch.isdecimal() and number.isdecimal() else cls()


@dataclass
class Outgoing:
    """A message for the broker, and who waits for it to be durable there."""

    body: bytes
    confirmed: Callable[[], None]


@dataclass
class ClientLink:
    """The state of a client's end."""

    name: str
    cursor: Cursor = field(default_factory=Cursor)
    #: The broker's life; 0 until it has greeted.
    broker: int = 0
    #: The last message taken from the broker; None: the next one says.
    received: int | None = None
    sent: int = 0
    is_up: bool = False
    #: Not sent yet; and sent, by number, not acknowledged.
    unsent: list[Outgoing] = field(default_factory=list)
    outbox: dict[int, Outgoing] = field(default_factory=dict)
    #: ``{number: handles}``: the messages that somebody still has to acknowledge, in order.
    unread: dict[int, int] = field(default_factory=dict)
    _told: int = 0
    _heard: int = 0
    #: Acknowledged by the first frame of a wire; confirmed when the words beside it were dealt with.
    _acknowledged: list[Outgoing] = field(default_factory=list)

    def lost(self) -> None:
        """Take note that the wire is gone."""
        self.is_up = False

    def greeting(self) -> bytes:
        """Return the first packet on a new wire."""
        return join_frames([encode_frame(Frame(CLIENT_EPOCH, self.broker or self.cursor.epoch, 0, self.cursor.number))])

    def take(self, packet: bytes) -> list[tuple[int, m.Message]]:
        """Take a packet; return what is new in it, words under number 0. Deal with it, then call `settle`."""
        found: list[tuple[int, m.Message]] = []
        for data in split_frames(packet, self.name):
            frame = decode_frame(data, self.name)
            if frame.to != CLIENT_EPOCH or (frame.epoch < self.broker):
                continue
            if frame.epoch != self.broker:
                self._meet(frame)
            elif not self.is_up:
                self._go_on(frame)
            if frame.body:
                found += self._message(frame)
            self._heard = max(self._heard, frame.ack)
        return found

    def settle(self) -> None:
        """Confirm what the broker has acknowledged; after its words, for a refusal comes with the acknowledgement."""
        acknowledged, self._acknowledged = self._acknowledged, []
        for one in acknowledged:
            one.confirmed()
        for number in [number for number in self.outbox if number <= self._heard]:
            self.outbox.pop(number).confirmed()

    def packet(self) -> bytes | None:
        """Return what is to be sent now, None when there is nothing."""
        if not self.is_up:
            return None
        frames = []
        while self.unsent and len(self.outbox) < WINDOW:
            self.sent += 1
            self.outbox[self.sent] = self.unsent.pop(0)
            frames.append(Frame(CLIENT_EPOCH, self.broker, self.sent, self.cursor.number, self.outbox[self.sent].body))
        if not frames and self._told != self.cursor.number:
            frames.append(Frame(CLIENT_EPOCH, self.broker, 0, self.cursor.number))
        self._told = self.cursor.number
        return join_frames(map(encode_frame, frames)) if frames else None

    def hand_out(self, number: int, handles: int) -> None:
        """Take note that a message was handed to so many readers."""
        self.unread[number] = handles
        if not handles:
            self._move()

    def acknowledge(self, number: int) -> bool:
        """Take note that one reader is done with a message; returns whether the cursor moved."""
        if number not in self.unread:
            return False
        self.unread[number] -= 1
        return self._move()

    # Inside

    def _meet(self, frame: Frame) -> None:
        """Begin with a life of the broker: the first one that is met, or one that lost its disk."""
        is_first = not self.broker
        self.unsent = [*self.outbox.values(), *self.unsent]
        self.outbox, self.broker, self.sent, self.received = {}, frame.epoch, frame.ack, None
        if not is_first or self.cursor.epoch != frame.epoch:
            self.unread.clear()
            self.cursor = Cursor(frame.epoch, 0)
        self._told, self._heard, self.is_up = 0, frame.ack, True

    def _go_on(self, frame: Frame) -> None:
        """Go on on a new wire: what the broker has is confirmed, the rest is sent again under the same numbers."""
        self._heard = frame.ack
        self._acknowledged += [self.outbox.pop(number) for number in list(self.outbox) if number <= frame.ack]
        self.unsent = [*self.outbox.values(), *self.unsent]
        self.outbox, self.sent, self.is_up = {}, frame.ack, True

    def _message(self, frame: Frame) -> list[tuple[int, m.Message]]:
        message = m.decode(frame.body, self.name)
        if not frame.seq:
            return [(0, message)]
        if self.received is None:
            self.received = frame.seq - 1
            if self.cursor.number < self.received and not self.unread:
                self.cursor = Cursor(self.broker, self.received)
        if frame.seq <= self.received:
            return []
        if frame.seq != self.received + 1:
            raise RemoteProtocolError(self.name, f"message {frame.seq} came after {self.received}")
        self.received = frame.seq
        return [] if frame.seq <= self.cursor.number else [(frame.seq, message)]

    def _move(self) -> bool:
        moved = False
        while self.unread and not next(iter(self.unread.values())):
            number = next(iter(self.unread))
            del self.unread[number]
            self.cursor, moved = Cursor(self.broker, number), True
        return moved
