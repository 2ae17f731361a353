"""One end of a link: an unreliable wire in, messages in order and once out.

Every message gets a number and waits in the *outbox* until the other end has acknowledged it. The other end takes
number ``received + 1`` and nothing else (promise R4): what is older is a duplicate, what is newer comes again.
An acknowledgement is cumulative and leaves only after what it acknowledges is on disk.

Each end has an *epoch*, the number of its life; a life ends when its disk is lost. An end that meets a greater
epoch starts the stream over, and hands back what the former life had not acknowledged. A restart with the disk is
no new life: both ends go on where they were.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import takewhile

from tamis.errors import ModelError
from tamis.node import records
from tamis.node.core import LinkFree, LinkFull
from tamis.node.effects import Key, Link, Persist
from tamis.node.frames import Frame

__all__ = ["LinkEnd", "Quota"]

#: Messages that are sent again at once, the oldest first.
WINDOW = 32


@dataclass(frozen=True)
class Quota:
    """How much may wait in one outbox before it is called full."""

    messages: int = 100_000
    bytes: int = 256 << 20

    def __post_init__(self) -> None:
        if min(self.messages, self.bytes) < 1:
            raise ModelError(f"a quota is at least one message and one byte, not {self.messages} and {self.bytes}")


class LinkEnd:
    """The state of one end. Whatever changes it says what to persist."""

    def __init__(self, link: Link, epoch: int) -> None:
        self.link = link
        self.epoch = epoch
        #: The life of the other end that this stream belongs to; 0 until it has spoken.
        self.peer_epoch = 0
        #: The number of the last message taken from the other end.
        self.received = 0
        #: The number of the last message given to the other end.
        self.sent = 0
        #: ``{number: message}``: exactly those not acknowledged yet, ascending; it ends with ``sent``.
        self.outbox: dict[int, bytes] = {}
        #: The bytes of all messages in the outbox.
        self.waiting_bytes = 0
        #: Whether the outbox reached its quota and has not emptied to half since, as last told by `take_crossing`.
        self.is_full = False
        #: When the outbox was last put on the wire.
        self.tried = float("-inf")

    @property
    def is_waiting(self) -> bool:
        """Whether the other end owes something: its first word or an acknowledgement."""
        return bool(self.outbox) or not self.peer_epoch

    def append(self, body: bytes) -> list[Persist]:
        """Put a message behind all others."""
        self.sent += 1
        self.outbox[self.sent] = body
        self.waiting_bytes += len(body)
        return [records.OUT.put(self.link, str(self.sent), value=body)]

    def meet(self, peer_epoch: int) -> tuple[list[bytes], list[Persist]]:
        """Start over with a new life of the other end; return what the former one had not acknowledged."""
        waiting = list(self.outbox.values())
        forgotten = [records.OUT.drop(self.link, str(number)) for number in self.outbox]
        self.peer_epoch, self.received, self.sent = peer_epoch, 0, 0
        self.outbox, self.waiting_bytes = {}, 0
        return waiting, forgotten

    def acknowledge(self, ack: int) -> list[Persist]:
        """Drop everything up to a number from the outbox."""
        done = list(takewhile(lambda number: number <= ack, self.outbox))
        for number in done:
            self.waiting_bytes -= len(self.outbox.pop(number))
        return [records.OUT.drop(self.link, str(number)) for number in done]

    def take_crossing(self, quota: Quota) -> LinkFull | LinkFree | None:
        """Return whether the outbox has become full, or free again, since the last call; None: neither.

        It is full from the quota on and free from half of it on, so that a link at its limit does not flicker.
        """
        n, size = len(self.outbox), self.waiting_bytes
        reached = n >= quota.messages or size >= quota.bytes
        emptied = 2 * n <= quota.messages and 2 * size <= quota.bytes
        was_full, self.is_full = self.is_full, reached or (self.is_full and not emptied)
        if was_full == self.is_full:
            return None
        return LinkFull(n, size) if self.is_full else LinkFree()

    def accept(self, frame: Frame) -> bool:
        """Whether a frame carries the next message; it then counts as received."""
        if frame.seq != self.received + 1:
            return False
        self.received = frame.seq
        return True

    def is_for_me(self, frame: Frame) -> bool:
        """Whether a frame belongs to the stream of these two lives."""
        return frame.to == self.epoch and frame.epoch == self.peer_epoch

    def frames(self, after: int = 0) -> Iterator[Frame]:
        """Yield the waiting messages with numbers above ``after``; nothing before the other end has spoken."""
        if self.peer_epoch:
            # Numbers have no holes and end with `sent`: a long outbox need not be looked through.
            first = max(after + 1, next(iter(self.outbox), self.sent + 1))
            for number in range(first, min(first + WINDOW, self.sent + 1)):
                yield Frame(self.epoch, self.peer_epoch, number, self.received, self.outbox[number])

    def greeting(self) -> Frame:
        """Return a frame without a message: who we are, whom we know, what we have received."""
        return Frame(self.epoch, self.peer_epoch, 0, self.received)

    def cursor(self) -> Persist:
        """Return the numbers that a restart goes on with."""
        return records.LINK.put(self.link, value=records.Cursor(self.peer_epoch, self.received, self.sent))

    def restore(self, stored: Mapping[Key, bytes]) -> None:
        """Take back cursor and outbox."""
        cursor = records.LINK.find(stored, self.link)
        if cursor is not None:
            self.peer_epoch, self.received, self.sent = cursor.peer_epoch, cursor.received, cursor.sent
        waiting = ((int(number), body) for (link, number), body in records.OUT.items(stored) if link == self.link)
        self.outbox = dict(sorted(waiting))
        self.waiting_bytes = sum(map(len, self.outbox.values()))
