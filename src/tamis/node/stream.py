"""A numbered, acknowledged, resumable stream of messages: one end of a link, and what one wire of it may carry.

Brokers on both sides of a link, clients and the simulator use the same two classes.

`StreamEnd` is what lasts. Every message gets a number and waits in the *outbox* until the other end has acknowledged
it. The other end takes number ``received + 1`` and nothing else (promise R4). An acknowledgement is cumulative and
leaves only after what it acknowledges is on disk.

Each end has an *epoch*, the number of its life; a life ends when its disk is lost. An end that meets a greater epoch
starts the stream over, and hands back what the former life had not acknowledged. A restart with the disk is not a new
life: both ends continue where they were. A disk that was restored from a backup is behind what the other end received:
that begins a new life, too, and until the other end has answered this one only greets it, in the name of the life that
the other end knows (`tamis.node.records.Former`). A link that was removed and added again begins a new life at this end
alone. Each wire then starts with an acknowledgement in the name of the life before (`tamis.node.records.Removed`), so
that the other end drops what this one has taken before it sends the rest again.

`Wire` is the position on one connection. A wire delivers in order until it breaks, so nothing is sent twice on it; a
new wire begins with the first message that is not acknowledged. What may leave is bounded by what is committed
(`Mark`), by a `Window` of messages and bytes that are not acknowledged, and by the size of one packet.
"""

from __future__ import annotations

from collections import ChainMap, deque
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from tamis.errors import ModelError, RemoteProtocolError
from tamis.node import records
from tamis.node.core import LinkFree, LinkFull
from tamis.node.effects import Link, Persist
from tamis.node.frames import Frame
from tamis.node.outbox import Backlog, Outbox, ReadOutbox

__all__ = ["CLIENT_EPOCH", "KEPT", "KEPT_BYTES", "Ends", "Mark", "Quota", "StreamEnd", "Window", "Wire", "read_nothing"]

#: The life that every client claims: a client goes on with the stream of its name, whatever it remembers.
CLIENT_EPOCH = 1

#: Messages and bytes of one packet; a single message may be larger.
PACKET_MESSAGES, PACKET_BYTES = 256, 256 * 1024

#: How many of the last messages of a stream are kept in memory, and how many bytes of them at most.
KEPT, KEPT_BYTES = 1_024, 1 << 20


def read_nothing(link: Link, after: int, limit: int) -> list[tuple[int, bytes]]:
    """Read a disk that holds no message, for ends that keep all of theirs in memory."""
    return []


@dataclass(frozen=True)
class Quota:
    """How much may wait in one outbox before it is called full."""

    messages: int = 100_000
    bytes: int = 256 << 20

    def __post_init__(self) -> None:
        if min(self.messages, self.bytes) < 1:
            raise ModelError(f"a quota is at least one message and one byte, not {self.messages} and {self.bytes}")


@dataclass(frozen=True)
class Window:
    """How much may be under way on one wire without an acknowledgement; one message always may."""

    messages: int = 4_096
    bytes: int = 16 << 20


@dataclass(frozen=True)
class Mark:
    """Where a stream stands: the lives of the other end and of this one, and the last messages received and sent."""

    peer_epoch: int = 0
    received: int = 0
    sent: int = 0
    epoch: int = 0


class StreamEnd:
    """The state of one end. Whatever changes it says what to persist."""

    def __init__(self, link: Link, epoch: int) -> None:
        self.link = link
        self.epoch = epoch
        #: The life of the other end that this stream belongs to; 0 until it has spoken.
        self.peer_epoch = 0
        #: The number of the last message taken from the other end.
        self.received = 0
        #: Exactly the messages that are not acknowledged yet.
        self.outbox = Outbox()
        #: What the other end knows of this one, if this disk was restored and the other end has not spoken since.
        self.former: records.Former | None = None
        #: Where the stream ended before its link was removed and added again, until the other end knows the new life.
        self.before: records.Removed | None = None
        #: Whether the outbox reached its quota and has not emptied to half since, as last told by `take_crossing`.
        self.is_full = False

    @property
    def sent(self) -> int:
        """The number of the last message given to the other end."""
        return self.outbox.last

    @property
    def acknowledged(self) -> int:
        """The number of the last message that the other end has acknowledged."""
        return self.outbox.acknowledged

    def append(self, body: bytes) -> list[Persist]:
        """Put a message behind all others."""
        return [records.OUT.put(self.link, str(self.outbox.append(body)), value=body)]

    def meet(self, peer_epoch: int, read: ReadOutbox = read_nothing) -> tuple[list[bytes], list[Persist]]:
        """Start over with a new life of the other end; return what the former one had not acknowledged.

        ``read`` gives what of that is not in memory.
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
        """Where the stream stands now."""
        return Mark(self.peer_epoch, self.received, self.sent, self.epoch)

    def resume(self, peer_epoch: int, ack: int) -> dict[int, int]:
        """Go on with a stream of which the other end has ``ack`` messages; number what waits from there on.

        Returns the new number of each message that waits, by its old one. They differ when the other end has more than
        this one remembers, as it does of a client that was started again under its name.
        """
        self.acknowledge(ack)
        before = self.acknowledged
        self.outbox.renumber(ack)
        self.peer_epoch = peer_epoch
        return {old: old - before + ack for old in range(before + 1, before + len(self.outbox) + 1)}

    def spill(self, upto: int, *, keep_bytes: int | None = None) -> None:
        """Leave bodies of waiting messages up to a number to the disk, except for the last `KEPT` and `KEPT_BYTES`.

        ``keep_bytes`` is another bound for bytes.
        """
        self.outbox.spill(upto, KEPT, KEPT_BYTES if keep_bytes is None else keep_bytes)

    def take_crossing(self, quota: Quota) -> LinkFull | LinkFree | None:
        """Return whether the outbox has become full, or free again, since the last call; None: neither.

        It is full from the quota on and free from half of it on, so that a link at its limit does not flicker.
        """
        n, size = len(self.outbox), self.outbox.bytes
        reached = n >= quota.messages or size >= quota.bytes
        emptied = 2 * n <= quota.messages and 2 * size <= quota.bytes
        was_full, self.is_full = self.is_full, reached or (self.is_full and not emptied)
        if was_full == self.is_full:
            return None
        return LinkFull(n, size) if self.is_full else LinkFree()

    def demand_no_hole(self, frame: Frame) -> None:
        """Raise `RemoteProtocolError` when messages are missing before this one: the other end has dropped them.

        A wire begins behind what this end has acknowledged, so its disk has forgotten what it acknowledged.
        """
        if frame.seq > self.received + 1:
            raise RemoteProtocolError(
                self.link,
                f"message {frame.seq} came, {self.received + 1} is next: the disk of this broker is older than the "
                "link; stop the broker and run `tamis serve restore` with a backup or with the data directory itself",
            )

    def accept(self, frame: Frame) -> bool:
        """Whether a frame carries the next message; it then counts as received."""
        if frame.seq != self.received + 1:
            return False
        self.received = frame.seq
        return True

    def is_for_me(self, frame: Frame) -> bool:
        """Whether a frame belongs to the stream of these two lives."""
        return frame.to == self.epoch and frame.epoch == self.peer_epoch

    def cursor(self) -> Persist:
        """Return the numbers that a restart goes on with."""
        return records.LINK.put(self.link, value=records.Cursor(self.peer_epoch, self.received, self.sent))

    def restore(self, cursor: records.Cursor | None, backlog: Backlog | None) -> None:
        """Take back the cursor and what waits; the messages themselves stay on disk."""
        if cursor is not None:
            self.peer_epoch, self.received = cursor.peer_epoch, cursor.received
        if backlog is None or not backlog.sizes:
            backlog = Backlog(0 if cursor is None else cursor.sent)
        self.outbox = Outbox(backlog)

    def wait_restored(self, former: records.Former) -> None:
        """Speak in the name of a former life until the other end has spoken."""
        self.former, self.epoch = former, former.epoch


class Ends(dict[Link, StreamEnd]):
    """The streams of a node by link; a link that *rests* gets its stream at the first ``ends[link]``.

    A broker with a million subscriptions that were sent nothing yet has a million links. Each costs an entry here
    instead of a stream, its queue and a record on disk. ``link in ends`` knows links that rest; ``get``, ``len`` and
    iterating pass over them, and leave them as they are.

    >>> ends = Ends()
    >>> ends.rest(["s:default:7"], epoch=3)
    >>> len(ends), "s:default:7" in ends, ends["s:default:7"].mark, len(ends)
    (0, True, Mark(peer_epoch=1, received=0, sent=0, epoch=3), 1)
    """

    def __init__(self) -> None:
        super().__init__()
        #: ``{link: life of this node}`` of the links whose other ends speak through this process and were sent nothing.
        self._resting: dict[Link, int] = {}

    def rest(self, links: Iterable[Link], *, epoch: int) -> None:
        """Have links whose other ends speak through this process, where there are none yet."""
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
        """Remove a link; returns its stream, or the default when it was resting or is not there."""
        self._resting.pop(link, None)
        return super().pop(link, default)

    def links(self) -> Collection[Link]:
        """Return all links, the resting ones included."""
        return ChainMap[Link, object](self, self._resting).keys()  # type: ignore[arg-type]


@dataclass
class Wire:
    """The sender's position on one connection of a stream."""

    #: The lives of this end and of the other that ``written`` counts for; -1 until something was sent.
    lives: tuple[int, int] = (-1, -1)
    #: The number of the last message written.
    written: int = 0
    #: What to say at once, beside the numbered messages: each is said once and not kept.
    words: deque[bytes] = field(default_factory=deque)
    #: Whether the other end waits for an acknowledgement or a greeting.
    owes_answer: bool = True
    #: Whether to begin with messages that are acknowledged already.
    is_replay: bool = False
    #: Whether the other end was told what this one took before its link was removed.
    has_told_before: bool = False
    #: (number, bytes) of the messages written and not acknowledged, and their bytes.
    _under_way: deque[tuple[int, int]] = field(default_factory=deque)
    _bytes: int = 0

    @classmethod
    def of(cls, end: StreamEnd, replay_after: int | None = None) -> Wire:
        """Return the position of a new connection: behind what is acknowledged, or behind an earlier message."""
        lives = (end.epoch, end.peer_epoch)
        if replay_after is None:
            return cls(lives, end.acknowledged)
        return cls(lives, min(end.acknowledged, replay_after), is_replay=True)

    def take(self, end: StreamEnd, mark: Mark, window: Window, read: ReadOutbox) -> list[Frame]:
        """Return the frames that may leave now, and count them as written.

        ``mark`` is what of the stream is committed. ``read`` gives messages that are not in memory.
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
        while self.words and mark.peer_epoch:  # an end that has not spoken yet would not take them
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
