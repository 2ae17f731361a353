"""A broker without sockets, threads and asyncio: steps, commits, and what may leave on which connection.

A *step* is one call of the node. Its changes are handed to ``commit``, and only when they are on disk does anything of
it leave (promises G1, G11): each step notes where its links stood (`Mark`), and a connection sends nothing beyond the
mark that was last committed. Nothing is pushed at a connection: its writer asks for the next packet when the wire is
free, so a slow reader costs nothing but its queue on disk.

The driver of `tamis serve` (`tamis.runtime.broker.driver`) and the simulator run the same machine; they differ in the
clock, the disk and the wires.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from tamis.errors import RefusedError, RemoteProtocolError
from tamis.node.effects import Link, Persist
from tamis.node.frames import encode_frame
from tamis.node.node import Late, Node, Transaction
from tamis.node.outbox import ReadOutbox
from tamis.node.overflow import overflow_of
from tamis.node.stream import CLIENT_EPOCH, KEPT_BYTES, Mark, StreamEnd, Window, Wire
from tamis.routing import messages as m
from tamis.routing.consumers.requests import Request, Shared
from tamis.routing.edge.core import EdgeCore
from tamis.routing.edge.limits import MAX_FRAMES
from tamis.routing.edge.requests import Connect, Disconnect
from tamis.routing.edge.rights import Rights
from tamis.routing.link_changes import still_leaving
from tamis.routing.rings import Readmit
from tamis.runtime.broker.failing import FailedDeliveries
from tamis.runtime.packets import join_frames, split_frames

__all__ = ["FAILED", "BrokerMachine", "Call", "Commit", "Connection"]

_log = logging.getLogger("tamis")

#: The error that callers get after a step or a commit has failed.
FAILED = "the broker has failed and stops; try again when it has been restarted"

#: Bytes of committed messages that may be in memory for all links together.
MEMORY_BYTES = 64 << 20

#: How much is under way to a client that has failed on a message.
ONE_MESSAGE = Window(messages=1)

#: What a step calls: the node, with the time.
Call = Callable[[Node[EdgeCore], float], Transaction]

#: Makes changes durable after all earlier ones, then calls back.
Commit = Callable[[list[Persist], Callable[[], None]], None]


@dataclass(eq=False)
class Connection:
    """A wire to the other end of a link, as long as it lasts; ``rights`` are a client's, None stands for a broker.

    ``takes_parts`` is whether that broker takes tables in parts.
    """

    link: Link
    rights: Rights | None = None
    #: The number behind which a client wants everything again; None: behind what it has acknowledged.
    replay_after: int | None = None
    takes_parts: bool = False
    wire: Wire = field(default_factory=Wire)
    #: Whether anything may leave: not before the broker has taken note of the connection on disk.
    is_open: bool = False
    #: Why the connection is to be closed; "" as long as it is open.
    closed: str = ""
    #: Whether the other end may try again.
    may_return: bool = False
    #: Whether the broker ends the connection for a reason that is not the client's reading.
    is_ended_here: bool = False
    #: A message that the client failed on before and gets alone, and since when.
    alone: tuple[int, float] = (0, 0.0)
    #: Called when there may be something to send, or when the connection is to be closed.
    wake: Callable[[], None] = field(default=lambda: None, repr=False)

    def open(self) -> None:
        """Let messages leave."""
        self.is_open = True
        self.wake()

    def close(self, reason: str = "closed") -> None:
        """Tell the writer of this wire to end it."""
        self.closed = self.closed or reason
        self.wake()

    def close_for_now(self, reason: str) -> None:
        """Tell the writer of this wire to end it; the other end may connect again."""
        self.may_return = self.may_return or not self.closed
        self.end_here(reason)

    def end_here(self, reason: str) -> None:
        """Tell the writer of this wire to end it, for a reason that says nothing of how the client reads."""
        self.is_ended_here = self.is_ended_here or not self.closed
        self.close(reason)


class _Memory:
    """Which bodies of committed messages stay in memory: some of each link, and some of all links together."""

    def __init__(self) -> None:
        #: ``{link: bytes}`` in memory after the last commit for a link, and their sum.
        self._kept: dict[Link, int] = {}
        self._total = 0

    def spill(self, end: StreamEnd, upto: int) -> None:
        """Leave to the disk what is committed up to a number and beyond the bounds."""
        self.forget(end.link)
        end.spill(upto, keep_bytes=max(0, min(KEPT_BYTES, MEMORY_BYTES - self._total)))
        if size := end.outbox.bytes_in_memory:
            self._kept[end.link] = size
            self._total += size

    def forget(self, link: Link) -> None:
        """Count nothing for a link."""
        self._total -= self._kept.pop(link, 0)


class BrokerMachine:
    """Runs one node; ``read`` gives messages of a link that are on disk."""

    def __init__(
        self,
        node: Node[EdgeCore],
        *,
        clock: Callable[[], float],
        commit: Commit,
        read: ReadOutbox,
        window: Window | None = None,
        cpu_clock: Callable[[], float] | None = None,
    ) -> None:
        self.node = node
        #: Counts what reached readers in vain.
        self.failing = FailedDeliveries(self)
        self.connections: dict[Link, Connection] = {}
        #: What made a step or a commit fail: the memory can no longer be trusted, start again from the disk.
        self.failure: BaseException | None = None
        #: Called when something fails, and when something new is committed for a link.
        self.on_failure: Callable[[BaseException], None] = lambda error: None
        self.on_news: Callable[[Link], None] = lambda link: None
        #: Called when the core has work left: `tick` soon.
        self.on_work: Callable[[], None] = lambda: None
        node.core.publications.ahead.on_ready = lambda: self.on_work()
        self._clock, self._cpu_clock = clock, cpu_clock or clock
        self._commit = commit
        self.read = read
        self._marks: dict[Link, Mark] = {}
        self._window = Window() if window is None else window
        self._memory = _Memory()

    # Steps

    def step(self, call: Call, done: Callable[[Any], None] = lambda answer: None) -> None:
        """Let the node take one step; ``done`` gets the answer when the step is durable."""
        self.demand_sound()
        start = self._cpu_clock()
        try:
            transaction = call(self.node, self._clock())
        except RemoteProtocolError:
            raise
        except Exception as error:
            self.fail(error)
            raise
        streams = map(self.node.find, sorted(transaction.links))
        marks = [(stream, stream.mark) for stream in streams if stream is not None]

        def release() -> None:
            self._release(marks, transaction.words)
            done(transaction.answer)

        self.node.core.publications.learn_pace(self._cpu_clock() - start)
        self._commit(transaction.changes, release)
        for link, reason in transaction.left.items():
            _leave(self, link, reason)
        if transaction.again:
            self.on_work()
        self.node.core.publications.ahead.start()
        if transaction.late is not None:
            _note_late(transaction.late)
        if transaction.fault is not None:
            raise transaction.fault

    def submit(self, message: Any, link: Link = "", done: Callable[[Any], None] = lambda answer: None) -> None:
        """Let the node take a message of this process in one step."""
        self.step(lambda node, now: node.submit(message, sender=link, now=now), done)

    def tick(self) -> None:
        """Let the core look at what is due, and go on with work that was too much for one step."""
        if self.failure is None:
            self.submit(m.Tick())
            for connection in self.connections.values():
                if connection.alone[0]:  # it may have been alone for long enough
                    connection.wake()

    def demand_sound(self) -> None:
        """Raise once a step or a commit has failed: nothing may be built on this memory."""
        if self.failure is not None:
            raise RefusedError(503, FAILED)

    def fail(self, error: BaseException) -> None:
        """Note that nothing in this memory can be trusted from now on."""
        if self.failure is None:
            self.failure = error
            self.on_failure(error)

    def committed(self, link: Link) -> Mark:
        """Return where a link stands on disk."""
        return self._marks.get(link, Mark())

    # Links

    def is_neighbour(self, link: Link) -> bool:
        """Whether a link leads to another broker."""
        return self.node.core.broker.is_neighbour(link)

    def attach(self, links: Iterable[Link], epoch: int | None = None) -> None:
        """Have links that are new; with ``epoch`` their clients speak through this process."""
        new = [link for link in dict.fromkeys(links) if link not in self.node.ends]
        if new:
            self.step(lambda node, now: node.attach(new, now, epoch=epoch))

    def consume(self, request: Request, done: Callable[[Any], None] = lambda answer: None) -> None:
        """Take a request about a shared queue, and acknowledge its stream as far as everything is settled."""

        def call(node: Node[EdgeCore], now: float) -> Transaction:
            whole = node.submit(Shared(request), sender="", now=now)
            for link, number in getattr(whole.answer, "floors", {}).items():
                whole.join(node.acknowledge(link, number, now))
            return whole

        self.step(call, done)

    def forget(self, link: Link, done: Callable[[Any], None] = lambda answer: None, call: Call | None = None) -> None:
        """Forget a link, and what is kept for it; ``call`` is the step that does so, if more follows from it."""
        self.step((lambda node, now: node.detach(link, now)) if call is None else call, done)
        if link not in self.node.ends:
            _forget_stream(self, link)

    def acknowledge(self, link: Link, number: int) -> None:
        """Take note that a client of this process has read everything up to a number."""
        self.step(lambda node, now: node.acknowledge(link, number, now))
        self._look_at_gap(link)

    # Wires

    def demand_name(self, link: Link) -> None:
        """Raise `LimitError` if a client may not connect because its principal has too many by other names."""
        self.node.core.registry.clients.demand_room(link)

    def connect(self, connection: Connection) -> None:
        """Add a wire to a link; an earlier one is closed. Nothing leaves before the broker has taken note of it."""
        self.demand_sound()
        link = connection.link
        if connection.rights is None:
            _admit_neighbour(self, link)
        earlier = self.connections.get(link)
        if earlier is not None:
            earlier.close("another connection took its place")
            self.failing.end_connection(earlier)
        self.attach([link])
        self.connections[link] = connection
        connection.wire = Wire.of(self.node.ends[link], connection.replay_after)
        self.submit(Connect(connection.rights, connection.takes_parts), link, lambda answer: connection.open())

    def disconnect(self, connection: Connection) -> None:
        """Remove a wire."""
        if self.connections.get(connection.link) is connection:
            del self.connections[connection.link]
            if self.failure is None:
                self.submit(Disconnect(connection.closed), connection.link)
                self.failing.end_connection(connection)

    def receive(self, connection: Connection, packet: bytes) -> None:
        """Take a packet from a wire; `RemoteProtocolError` says that the wire must be cut."""
        link = connection.link
        if connection.closed:  # its link may be removed already
            return
        only_epoch, most = (None, None) if self.is_neighbour(link) else (CLIENT_EPOCH, MAX_FRAMES)
        for data in split_frames(packet, link, most):
            if link not in self.node.ends:  # a message of this packet showed that the link closes a ring
                return
            self._receive(data, link, only_epoch)
        connection.wake()  # an acknowledgement may have made room
        self._look_at_gap(link)

    def take_packet(self, connection: Connection) -> bytes | None:
        """Return the next bytes for a wire, None when there is nothing to send now."""
        end = self.node.ends.get(connection.link)
        if end is None or not connection.is_open:
            return None
        if end.former is not None and not self.is_neighbour(connection.link):
            return None  # a client greets first, and says what it has of the life before the restore
        window = ONE_MESSAGE if self.failing.is_alone(connection, self._clock()) else self._window
        frames = connection.wire.take(end, self.committed(connection.link), window, self.read)
        return join_frames(map(encode_frame, frames)) if frames else None

    # Inside

    def _receive(self, data: bytes, link: Link, only_epoch: int | None) -> None:
        self.step(lambda node, now: node.receive(data, link=link, now=now, only_epoch=only_epoch))

    def _release(self, marks: list[tuple[StreamEnd, Mark]], words: list[tuple[Link, m.Message]]) -> None:
        """Let leave what is durable now."""
        for end, mark in marks:
            if self.node.find(end.link) is end:  # not forgotten meanwhile
                self._marks[end.link] = mark
                if (end.epoch, end.peer_epoch) == (mark.epoch, mark.peer_epoch):
                    self._memory.spill(end, mark.sent)
        for link, word in words:
            if link in self.connections:
                wire = self.connections[link].wire
                if isinstance(word, m.Reach):  # the last one says all; an end that does not read collects no others
                    wire.words.clear()
                wire.words.append(m.encode(word))
                self.connections[link].wake()
        for end, _ in marks:
            if end.link in self.connections:
                self.connections[end.link].wire.owes_answer = True
                self.connections[end.link].wake()
            self.on_news(end.link)

    def _look_at_gap(self, link: Link) -> None:
        if self.node.core.backlogs.is_due(link):
            self.tick()


def _admit_neighbour(machine: BrokerMachine, link: Link) -> None:
    """Have a link again that was refused because of a ring, if that is gone; `RefusedError` when it is not."""
    if problem := machine.node.core.broker.flow.rings.why_not(link):
        raise RefusedError(403, problem)
    if link in machine.node.core.broker.table.leaving:
        raise RefusedError(503, still_leaving(link))
    if not machine.is_neighbour(link):
        machine.step(lambda node, now: node.join(link, now).join(node.submit(Readmit(link), sender="", now=now)))


def _forget_stream(machine: BrokerMachine, link: Link) -> None:
    """Forget where the stream of a link that is gone stood, and what of it is in memory."""
    machine._marks.pop(link, None)
    for name in (link, overflow_of(link)):
        machine._memory.forget(name)


def _note_late(late: Late) -> None:
    """Log the first, the tenth, the hundredth ... frame of a former life on a link: there may be one for each event."""
    if str(late.count).rstrip("0") == "1":
        _log.warning(
            "link %s: a message of life %d of the neighbour was ignored, because it began life %d since (%d so far); "
            "if its data directory is an old copy, use `tamis serve restore` instead, which begins a new life",
            *(late.link, late.life, late.current_life, late.count),
        )


def _leave(machine: BrokerMachine, link: Link, reason: str) -> None:
    """Forget a stream that a step has ended, and close its connection."""
    _forget_stream(machine, link)
    _log.warning("%s", reason)
    if link in machine.connections:
        machine.connections[link].close_for_now(reason)
