"""A numbered, acknowledged, resumable stream of messages: the end of a link, and its position on one connection.

Brokers on both sides of a link, clients and the simulator use the same two classes.

`StreamEnd` is the state that survives connections. Every message gets a number and waits in the *outbox* until the
other end has acknowledged it. The other end accepts number ``received + 1`` and nothing else (promise R4). An
acknowledgement is cumulative and is sent only after what it acknowledges is on disk.

Each end has an *epoch*, the number of its life; a life ends when its disk is lost. An end that meets a greater epoch
starts the stream over, and returns the messages that the former life had not acknowledged. A restart with the disk is
not a new life: both ends continue where they were. A disk that was restored from a backup is older than what the other
end received, so it begins a new life, too. Until the other end has answered, this end only greets it, with the epoch of
the life that the other end knows (`tamis.node.records.Former`). A link that was removed and added again begins a new
life at this end only. Each connection then starts with an acknowledgement with the epoch of the life before
(`tamis.node.records.Removed`), so that the other end drops the messages that this end has received before it sends the
rest again.

`Wire` is the position on one connection. A connection delivers in order until it breaks, so nothing is sent twice on
it; a new one begins with the first message that is not acknowledged. Messages may be sent if they are committed
(`Mark`), within a `Window` of unacknowledged messages and bytes, and within the size of one packet.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, takewhile
from typing import Any

from tamis.errors import ModelError, RemoteProtocolError
from tamis.node import records
from tamis.node.core import LinkFree, LinkFull
from tamis.node.effects import Link, Persist
from tamis.node.frames import Frame
from tamis.node.outbox import Backlog, Outbox, ReadOutbox

__all__ = ["CLIENT_EPOCH", "KEPT", "KEPT_BYTES", "Ends", "Mark", "Quota", "StreamEnd", "Window", "Wire", "read_nothing"]

#: The life that every client claims: a client continues the stream of its name, whatever it remembers.
CLIENT_EPOCH = 1

#: Messages and bytes of one packet; a single message may be larger.
PACKET_MESSAGES, PACKET_BYTES = 256, 256 * 1024

#: How many of the last messages of a stream are kept in memory, and how many bytes of them at most.
KEPT, KEPT_BYTES = 1_024, 1 << 20


def read_nothing(link: Link, after: int, limit: int) -> list[tuple[int, bytes]]:
    """Return no messages: the reader for ends that keep all of theirs in memory."""
    return []


@dataclass(frozen=True)
class Quota:
    """The size at which an outbox counts as full."""

    messages: int = 100_000
    bytes: int = 256 << 20

    def __post_init__(self) -> None:
        if min(self.messages, self.bytes) < 1:
            raise ModelError(f"a quota is at least one message and one byte, not {self.messages} and {self.bytes}")


@dataclass(frozen=True)
class Window:
    """The limit of unacknowledged messages on one connection; one message is always allowed."""

    messages: int = 4_096
    bytes: int = 16 << 20


@dataclass(frozen=True)
class Mark:
    """The position of a stream: the lives of the other end and of this one, and the last messages received and sent."""

    peer_epoch: int = 0
    received: int = 0
    sent: int = 0
    epoch: int = 0


class StreamEnd:
    """The state of one end. Methods that change it return what to persist."""

    def __init__(self, link: Link, epoch: int) -> None:
        self.link = link
        self.epoch = epoch
        #: The life of the other end that this stream belongs to; 0 until its first frame.
        self.peer_epoch = 0
        #: The number of the last message received from the other end.
        self.received = 0
        #: Exactly the messages that are not acknowledged yet.
        self.outbox = Outbox()
        #: The life of this end that the other end knows, if this disk was restored and the other end has not answered.
        self.former: records.Former | None = None
        #: The end of the stream before its link was removed and added again, until the other end knows the new life.
        self.before: records.Removed | None = None
        #: Whether the outbox reached its quota and has not emptied to half since, as of the last `take_crossing`.
        self.is_full = False
        #: Frames of former lives of the other end that came since this process was started; they are ignored.
        self.n_late = 0

    @property
    def sent(self) -> int:
        """The number of the last message for the other end."""
        return self.outbox.last

    @property
    def acknowledged(self) -> int:
        """The number of the last message that the other end has acknowledged."""
        return self.outbox.acknowledged

    def append(self, body: bytes) -> list[Persist]:
        """Append a message to the outbox."""
        return [records.OUT.put(self.link, str(self.outbox.append(body)), value=body)]

    def meet(self, peer_epoch: int, read: ReadOutbox = read_nothing) -> tuple[list[bytes], list[Persist]]:
        """Start over with a new life of the other end; return the messages that the former one had not acknowledged.

        ``read`` reads those that are not in memory.
        """
        waiting = list(self.outbox.bodies(self.link, read))
        forgotten = self.acknowledge(self.sent)
        self.peer_epoch, self.received, self.outbox = peer_epoch, 0, Outbox()
        return waiting, forgotten

    def acknowledge(self, ack: int) -> list[Persist]:
        """Drop everything up to a number from the outbox."""
        return [records.OUT.drop(self.link, str(number)) for number in self.outbox.acknowledge(ack)]

    @property
    def mark(self) -> Mark:
        """The current position of the stream."""
        return Mark(self.peer_epoch, self.received, self.sent, self.epoch)

    def resume(self, peer_epoch: int, ack: int) -> dict[int, int]:
        """Continue a stream of which the other end has ``ack`` messages; renumber the waiting ones from there on.

        Returns ``{old number: new number}`` of the waiting messages. The numbers differ if the other end has more
        messages than this end remembers, as for a client that was started again under its name.
        """
        self.acknowledge(ack)
        former_base = self.acknowledged
        self.outbox.renumber(ack)
        self.peer_epoch = peer_epoch
        return {
            old_number: old_number - former_base + ack
            for old_number in range(former_base + 1, former_base + len(self.outbox) + 1)
        }

    def spill(self, upto: int, *, keep_bytes: int | None = None) -> None:
        """Drop bodies of waiting messages up to a number that are on disk, except the last `KEPT` and `KEPT_BYTES`.

        ``keep_bytes`` is another bound for bytes.
        """
        self.outbox.spill(upto, KEPT, KEPT_BYTES if keep_bytes is None else keep_bytes)

    def take_crossing(self, quota: Quota) -> LinkFull | LinkFree | None:
        """Return whether the outbox has become full, or free again, since the last call; None: neither.

        It becomes full at the quota and free at half of it, so that a link at its limit does not alternate.
        """
        n, size = len(self.outbox), self.outbox.bytes
        reached = n >= quota.messages or size >= quota.bytes
        emptied = 2 * n <= quota.messages and 2 * size <= quota.bytes
        was_full, self.is_full = self.is_full, reached or (self.is_full and not emptied)
        if was_full == self.is_full:
            return None
        return LinkFull(n, size) if self.is_full else LinkFree()

    def demand_no_hole(self, frame: Frame) -> None:
        """Raise `RemoteProtocolError` if this end lacks messages that the other end sent, or has received from it.

        A connection begins after the last acknowledged message, so the disk of this end has lost messages.
        """
        if frame.seq > self.received + 1:
            problem = f"message {frame.seq} came, {self.received + 1} is next"
        elif frame.ack > self.sent:
            problem = f"it acknowledges message {frame.ack}, the last one is {self.sent}"
        else:
            return
        raise RemoteProtocolError(
            self.link,
            f"{problem}: the disk of this broker is older than the link; stop the broker and run `tamis serve restore` "
            "with a backup or with the data directory itself",
        )

    def accept(self, frame: Frame) -> bool:
        """Whether a frame carries the next message; it then counts as received."""
        if frame.seq != self.received + 1:
            return False
        self.received = frame.seq
        return True

    def is_next(self, frame: Frame) -> bool:
        """Whether a frame carries the next message of the stream of these two lives."""
        return self.former is None and self.is_for_me(frame) and frame.seq == self.received + 1

    def is_for_me(self, frame: Frame) -> bool:
        """Whether a frame belongs to the stream of these two lives."""
        return frame.to == self.epoch and frame.epoch == self.peer_epoch

    def cursor(self) -> Persist:
        """Return the record with which a restart continues."""
        return records.LINK.put(self.link, value=records.LinkPosition(self.peer_epoch, self.received, self.sent))

    def restore(self, cursor: records.LinkPosition | None, backlog: Backlog | None) -> None:
        """Restore the cursor and the sizes of waiting messages; the messages themselves stay on disk."""
        if cursor is not None:
            self.peer_epoch, self.received = cursor.peer_epoch, cursor.received
        if backlog is None or not backlog.sizes:
            backlog = Backlog(0 if cursor is None else cursor.sent)
        self.outbox = Outbox(backlog)

    def wait_restored(self, former: records.Former) -> None:
        """Use the epoch of a former life until the other end has answered."""
        self.former, self.epoch = former, former.epoch


class Ends(dict[Link, StreamEnd]):
    """The streams of a node by link; a link that *rests* gets its stream at the first ``ends[link]``.

    A broker with a million subscriptions that were sent nothing yet has a million links. Each costs an entry here
    instead of a stream, its queue and a record on disk. ``link in ends`` includes resting links; ``get``, ``len`` and
    iteration skip them, and leave them as they are.

    >>> ends = Ends()
    >>> ends.rest(["s:default:7"], epoch=3)
    >>> len(ends), "s:default:7" in ends, ends["s:default:7"].mark, len(ends)
    (0, True, Mark(peer_epoch=1, received=0, sent=0, epoch=3), 1)
    """

    def __init__(self) -> None:
        super().__init__()
        #: ``{link: life of this node}`` of the links that this process acts for and that were sent nothing yet.
        self._resting: dict[Link, int] = {}

    def rest(self, links: Iterable[Link], *, epoch: int) -> None:
        """Add resting links that this process acts for, unless they exist."""
        resting = self._resting
        for link in links:
            if not dict.__contains__(self, link):
                resting.setdefault(link, epoch)

    def __missing__(self, link: Link) -> StreamEnd:
        end = self[link] = StreamEnd(link, self._resting.pop(link))
        end.peer_epoch = CLIENT_EPOCH
        return end

    def __contains__(self, link: object) -> bool:
        return dict.__contains__(self, link) or link in self._resting

    def pop(self, link: Link, default: Any = None) -> Any:
        """Remove a link; return its stream, or the default if it was resting or does not exist."""
        self._resting.pop(link, None)
        return super().pop(link, default)

    def links(self) -> Collection[Link]:
        """Return all links, the resting ones included; a list of a million of them is made in 10 ms."""
        return _Links(self, self._resting)


class _Links(Collection[Link]):
    """The links of a node. Iterating a ``ChainMap`` of both would copy them into a dict first."""

    def __init__(self, active: Ends, resting: dict[Link, int]) -> None:
        self._active, self._resting = active, resting

    def __len__(self) -> int:
        return len(self._active) + len(self._resting)

    def __contains__(self, link: object) -> bool:
        return link in self._active

    def __iter__(self) -> Iterator[Link]:
        return chain(self._active, self._resting)


@dataclass
class Wire:
    """The sender's position on one connection of a stream."""

    #: The lives of this end and of the other that ``written`` refers to; -1 until something was sent.
    lives: tuple[int, int] = (-1, -1)
    #: The number of the last message written.
    written: int = 0
    #: Unnumbered messages to send at once: each is sent once and not kept.
    words: deque[bytes] = field(default_factory=deque)
    #: Whether the other end waits for an acknowledgement or a greeting.
    owes_answer: bool = True
    #: Whether to begin with messages that are acknowledged already.
    is_replay: bool = False
    #: Whether the other end was told what this end received before its link was removed.
    has_told_before: bool = False
    #: (number, bytes) of the messages written and not acknowledged, and their bytes.
    _under_way: deque[tuple[int, int]] = field(default_factory=deque)
    _bytes: int = 0

    @classmethod
    def of(cls, end: StreamEnd, replay_after: int | None = None) -> Wire:
        """Return the position of a new connection: after the last acknowledged message, or after an earlier one."""
        lives = (end.epoch, end.peer_epoch)
        if replay_after is None:
            return cls(lives, end.acknowledged)
        return cls(lives, min(end.acknowledged, replay_after), is_replay=True)

    def take(self, end: StreamEnd, mark: Mark, window: Window, read: ReadOutbox) -> list[Frame]:
        """Return the frames that may be sent now, and count them as written.

        ``mark`` is the committed position of the stream. ``read`` reads messages that are not in memory.
        """
        if end.epoch != mark.epoch:  # this end began a new life, which is not committed
            return []
        if self.lives != (lives := (mark.epoch, mark.peer_epoch)):  # one of the ends began a new life
            self.lives, self.written = lives, 0
            self._under_way.clear()
            self._bytes = 0
        frames = []
        if end.before is not None and not self.has_told_before:
            self.has_told_before = True
            frames.append(Frame(end.before.epoch, end.before.peer_epoch, 0, end.before.received))
            self.owes_answer = True
        while self.words and mark.peer_epoch:  # before its first frame, the other end would not accept them
            frames.append(Frame(end.epoch, mark.peer_epoch, 0, mark.received, self.words.popleft()))
        for number, body in self._waiting(end, mark, window, read):
            frames.append(Frame(end.epoch, mark.peer_epoch, number, mark.received, body))
            self.written = number
            self._under_way.append((number, len(body)))
            self._bytes += len(body)
        if self.owes_answer and not any(frame.epoch == end.epoch for frame in frames):
            frames.append(Frame(end.epoch, mark.peer_epoch, 0, mark.received))
        self.owes_answer = False
        return frames

    def _waiting(self, end: StreamEnd, mark: Mark, window: Window, read: ReadOutbox) -> Iterator[tuple[int, bytes]]:
        """Yield the messages that are committed, not written yet, and within the window."""
        if not mark.peer_epoch or end.peer_epoch != mark.peer_epoch or end.former is not None:
            return
        size, room = 0, window.bytes - self._bytes_under_way(end.acknowledged)
        for number, body in self._candidates(end, mark, window, read):
            size += len(body)
            is_first = size == len(body)
            if (size > PACKET_BYTES and not is_first) or (size > room and not (is_first and not self._under_way)):
                return
            yield number, body

    def _candidates(self, end: StreamEnd, mark: Mark, window: Window, read: ReadOutbox) -> Iterator[tuple[int, bytes]]:
        if self.is_replay and self.written < end.acknowledged:
            replayed = read(end.link, self.written, PACKET_MESSAGES)
            if replayed and replayed[0][0] <= mark.sent:
                yield from takewhile(lambda pair: pair[0] <= mark.sent, replayed)
                return
        self.written = max(self.written, end.acknowledged)
        last = min(mark.sent, self.written + PACKET_MESSAGES, end.acknowledged + window.messages)
        numbers = range(self.written + 1, last + 1)
        if numbers and end.outbox.find(numbers[0]) is None:
            yield from read(end.link, self.written, len(numbers))
            return
        for number in numbers:
            body = end.outbox.find(number)
            if body is None:
                return
            yield number, body

    def _bytes_under_way(self, acknowledged: int) -> int:
        while self._under_way and self._under_way[0][0] <= acknowledged:
            self._bytes -= self._under_way.popleft()[1]
        return self._bytes
