"""The driver of a broker: asyncio around the node that the simulator drives, too.

A step is one call of the node. Its changes go to the committer, and only when they are on disk does anything of it
leave (promises G1, G11): each step notes where its links stood (`Mark`), and a connection sends nothing beyond the
mark that was last committed. Nothing is pushed at a connection: its writer asks for the next packet when the wire is
free (`next_packet`), so a slow reader costs nothing but its queue on disk.

The wire is reliable while it lasts, so nothing is sent twice on one connection; a new one begins with what the other
end has not acknowledged.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from tamis.errors import DiskFullError, RefusedError, RemoteProtocolError
from tamis.model.schema import Schema
from tamis.node.effects import Link
from tamis.node.frames import Frame, encode_frame
from tamis.node.node import Node, Transaction
from tamis.routing import messages as m
from tamis.routing.edge.admission import Admitted, AdmittedMany, Departed
from tamis.routing.edge.audit import Deed, TokensSeen
from tamis.routing.edge.core import EdgeCore
from tamis.routing.edge.producers import Once
from tamis.routing.edge.rights import Rights
from tamis.runtime.broker.committer import Committer
from tamis.runtime.broker.connections import CLIENT_EPOCH, Connection, Mark, introduce
from tamis.runtime.broker.store import Store
from tamis.runtime.packets import join_frames, split_frames

__all__ = ["Driver"]

#: Messages and bytes of one packet, and messages on their way that a client has not acknowledged.
PACKET_MESSAGES, PACKET_BYTES, WINDOW = 256, 256 * 1024, 4_096

#: What stands in memory for a message of a client that is on disk; and how many of its last ones are kept.
SPILLED, KEPT = b"", 1_024

#: What callers hear after a step or a commit has failed.
_FAILED = "the broker has failed and stops; try again when it has been started anew"

#: Seconds between two looks for what has expired.
TICK_SECONDS = 1.0


class Driver:
    """Runs one broker: steps, commits, connections."""

    def __init__(self, node: Node[EdgeCore], store: Store, *, min_free: int = 64 * 1024 * 1024) -> None:
        self.node = node
        self.edge = node.core
        self.store = store
        self.connections: dict[Link, Connection] = {}
        self.failed: asyncio.Future[None] | None = None
        self._committer: Committer | None = None
        self._marks: dict[Link, Mark] = {}
        #: Up to which number the messages of a client are on disk only.
        self._spilled: dict[Link, int] = {}
        self._watchers: dict[Link, set[asyncio.Event]] = {}
        #: What was published since the last step, call by call.
        self._pending: list[tuple[list[m.Published], asyncio.Future[None]]] = []
        self._born = round(time.time() * 1e6)
        self._published = 0
        self._min_free = min_free
        self._last_look = (0.0, True)
        self.edge.backlog = lambda link: len(self.node.ends[link].outbox)
        self.edge.received = lambda link: self.node.ends[link].received

    # Life

    async def start(self) -> None:
        """Restore what is on disk and begin."""
        loop = asyncio.get_running_loop()
        self.failed = loop.create_future()
        self._committer = Committer(self.store, loop, self._fail)
        self._committer.start()
        await self._step(lambda node, now: node.start(now), every=True)
        self._ticker = asyncio.create_task(self._tick())

    async def stop(self) -> None:
        """Commit what is under way, and end."""
        self._ticker.cancel()
        for connection in list(self.connections.values()):
            connection.close_for_now("the broker stops")
        if self._committer is not None:
            await asyncio.to_thread(self._committer.stop)
        self.store.close()

    @property
    def committer(self) -> Committer:
        """The thread that writes; there when the driver was started."""
        if self._committer is None:
            raise RefusedError(503, "the broker has not started")
        return self._committer

    # What people in this process want

    def demand_room(self) -> None:
        """Raise `DiskFullError` when nothing new can be accepted (promise G15), `RefusedError` after a failure."""
        self._demand_sound()
        if (moment := time.monotonic()) - self._last_look[0] > 0.5:
            self._last_look = (moment, self.store.free() > self._min_free)
        if self.committer.is_full or not self._last_look[1]:
            raise DiskFullError(str(self.store.directory))

    async def publish(self, events: Sequence[tuple[str, bytes]], publisher: str) -> list[m.EventId]:
        """Publish (namespace, payload) pairs, all that come at once as one batch; returns their ids when durable."""
        self.demand_room()
        if not self._pending:
            asyncio.get_running_loop().call_soon(self._flush)
        given = []
        for namespace, payload in events:
            self._published += 1
            id = m.EventId(f"{publisher}@{self.edge.broker.name}", self._born, self._published)
            given.append(m.Published(id, namespace, payload))
        done = asyncio.get_running_loop().create_future()
        self._pending.append((given, done))
        await done
        return [event.id for event in given]

    async def publish_once(self, batch: Once) -> bool:
        """Publish a batch of a producer; returns whether it is new, when it is durable."""
        self.demand_room()
        is_new = not self.edge.producers.has(batch)
        if is_new and (why := self.edge.find_refusal(batch.message.events)) is not None:
            raise RefusedError(503, why)
        # One that was taken before may be on its way to the disk: steps are committed in order, so wait for this one.
        await self._step(lambda node, now: node.submit(batch, sender="", now=now))
        return is_new

    async def submit(self, message: m.Message, link: Link, by: Rights | None = None) -> None:
        """Give the core a message of a client that speaks through this process; returns when it is durable.

        ``by`` is who wants it, None the broker itself.
        """
        self.demand_room()
        self._meet([link])
        await self._step(lambda node, now: node.submit(Admitted(message, by), sender=link, now=now))

    async def subscribe(self, asked: Sequence[tuple[Link, m.Subscribe]], by: Rights) -> None:
        """Take checked subscriptions of clients that speak through this process, all in one transaction."""
        self.demand_room()
        self._meet(link for link, _ in asked)
        many = AdmittedMany(tuple(asked), by)
        await self._step(lambda node, now: node.submit(many, sender="", now=now))

    def note(self, what: Deed | TokensSeen) -> asyncio.Future[None]:
        """Have something noted in the audit; the future is done when it is durable."""
        return self._step(lambda node, now: node.submit(what, sender="", now=now))

    async def forget(self, link: Link) -> None:
        """Forget a client that has gone for good, and what is kept for it; its subscriptions have ended before."""
        self._spilled.pop(link, None)
        self._marks.pop(link, None)
        self._step(lambda node, now: node.submit(Departed(), sender=link, now=now))
        await self._step(lambda node, now: node.detach(link, now))

    def acknowledge(self, link: Link, number: int) -> None:
        """Take note that a client of this process has read everything up to a number."""
        frame = encode_frame(Frame(CLIENT_EPOCH, self.node.epoch, 0, number))
        self._step(lambda node, now: node.receive(frame, link=link, now=now))
        self._look_at_gap(link)

    def committed(self, link: Link) -> Mark:
        """Return where a link stands on disk."""
        return self._marks.get(link, Mark())

    def watch(self, link: Link) -> asyncio.Event:
        """Return an event that is set whenever something new was committed for a link; `unwatch` it."""
        event = asyncio.Event()
        self._watchers.setdefault(link, set()).add(event)
        return event

    def is_attended(self, link: Link) -> bool:
        """Whether somebody reads a link now."""
        return link in self.connections or bool(self._watchers.get(link))

    def unwatch(self, link: Link, event: asyncio.Event) -> None:
        """Let an event go."""
        self._watchers.get(link, set()).discard(event)

    # Wires

    def connect(self, link: Link, rights: Rights | None, *, replay_after: int | None = None) -> Connection:
        """Add a wire to a link; an earlier one is closed. ``rights`` are a client's, None stands for a broker."""
        self._demand_sound()
        earlier = self.connections.get(link)
        if earlier is not None:
            earlier.close("another connection took its place")
        if rights is not None:
            self.edge.rights[link] = rights
        if link not in self.node.ends:
            self._step(lambda node, now: node.attach(link, now))
        outbox = self.node.ends[link].outbox
        start = next(iter(outbox), self.node.ends[link].sent + 1) - 1
        connection = Connection(link, start if replay_after is None else min(replay_after, start))
        connection.peer_epoch = self.node.ends[link].peer_epoch
        connection.told_schema = None if rights is None else Schema()
        connection.words.extend(self.edge.refusals.upto(link, self.committed(link).received))
        self.connections[link] = connection
        if rights is None:
            self._note_link(link, "link up")
        connection.news.set()
        return connection

    def disconnect(self, connection: Connection) -> None:
        """Remove a wire."""
        if self.connections.get(connection.link) is connection:
            del self.connections[connection.link]
            if self.edge.broker.is_neighbour(connection.link):
                self._note_link(connection.link, "link down", connection.closed)

    def receive(self, connection: Connection, packet: bytes) -> None:
        """Take a packet from a wire; `RemoteProtocolError` says that it must be cut."""
        link = connection.link
        end = self.node.ends[link]
        only_epoch = None if self.edge.broker.is_neighbour(link) else CLIENT_EPOCH
        for data in split_frames(packet, link):
            received = end.received
            try:
                self._step(partial(_receive, data, link, only_epoch))
            except RemoteProtocolError:  # the core applied nothing of it: it must not count as received
                end.received = received
                raise
        connection.news.set()  # an acknowledgement may have made room
        self._look_at_gap(link)

    async def next_packet(self, connection: Connection) -> bytes | None:
        """Return the next bytes for a wire as soon as there are some; None when it is to be closed."""
        while not connection.closed:
            frames = self._frames(connection)
            if frames:
                return join_frames(frames)
            connection.news.clear()
            await connection.news.wait()
        return None

    # Inside

    def _frames(self, connection: Connection) -> list[bytes]:
        mark, epoch = self.committed(connection.link), self.node.epoch
        if connection.peer_epoch != mark.peer_epoch:  # the other end began a new life
            connection.peer_epoch, connection.written = mark.peer_epoch, 0
        frames = []
        if connection.told_schema not in (None, self.edge.content.schema) and mark.peer_epoch:
            connection.told_schema = self.edge.content.schema
            connection.words.appendleft(m.Types(connection.told_schema.to_json().encode()))
        while connection.words:
            word = m.encode(connection.words.popleft())
            frames.append(Frame(epoch, mark.peer_epoch, 0, mark.received, word))
        for number, body in self._waiting(connection, mark):
            frames.append(Frame(epoch, mark.peer_epoch, number, mark.received, body))
            connection.written = number
        if not frames and connection.owes_answer:
            frames.append(Frame(epoch, mark.peer_epoch, 0, mark.received))
        connection.owes_answer = False
        return [encode_frame(frame) for frame in frames]

    def _waiting(self, connection: Connection, mark: Mark) -> list[tuple[int, bytes]]:
        """Return the messages that may go now: committed, not written yet, within the window."""
        end = self.node.ends[connection.link]
        if not mark.peer_epoch or end.peer_epoch != mark.peer_epoch:
            return []
        first = next(iter(end.outbox), end.sent + 1)
        if connection.written + 1 < first:  # a replay: from the disk
            found = self.store.read_outbox(connection.link, connection.written, PACKET_MESSAGES)
            found = [one for one in found if one[0] <= mark.sent]
            if found:
                return found
            connection.written = first - 1
        last = min(mark.sent, connection.written + PACKET_MESSAGES, first - 1 + WINDOW)
        numbers = range(connection.written + 1, last + 1)
        if numbers and end.outbox[numbers[0]] == SPILLED:
            return self.store.read_outbox(connection.link, connection.written, len(numbers))
        found, size = [], 0
        for number in numbers:
            body = end.outbox[number]
            if body == SPILLED:
                break
            size += len(body)
            if found and size > PACKET_BYTES:
                break
            found.append((number, body))
        return found

    def _step(
        self, call: Callable[[Node[EdgeCore], float], Transaction], *, every: bool = False
    ) -> asyncio.Future[None]:
        """Let the node take one step, have it committed, then let what follows leave."""
        self._demand_sound()
        try:
            transaction = call(self.node, time.time())
        except RemoteProtocolError:
            raise
        except Exception as error:  # the node's memory is not to be trusted any more: start again from the disk
            self._fail(error)
            raise
        told = self.edge.take_told()
        links = self.node.ends if every else {link for link, _ in transaction.frames}
        marks = {link: self._mark(link) for link in links}
        done = asyncio.get_running_loop().create_future()
        self.committer.put(transaction.changes, lambda: self._release(marks, told, done))
        if transaction.again:  # after others had their turn
            asyncio.get_running_loop().call_soon(_go_on, self)
        return done

    def _mark(self, link: Link) -> Mark:
        end = self.node.ends[link]
        return Mark(end.peer_epoch, end.received, end.sent)

    def _release(self, marks: dict[Link, Mark], told: list[tuple[Link, m.Message]], done: asyncio.Future[None]) -> None:
        self._marks.update(marks)
        for link, mark in marks.items():
            if link in self.node.ends and not self.edge.broker.is_neighbour(link):
                self._spill(link, mark)
        for link, word in told:
            if link in self.connections:
                self.connections[link].words.append(word)
                self.connections[link].news.set()
        for link in marks:
            if link in self.connections:
                self.connections[link].owes_answer = True
                self.connections[link].news.set()
            for event in self._watchers.get(link, ()):
                event.set()
        if not done.done():
            done.set_result(None)

    def _spill(self, link: Link, mark: Mark) -> None:
        """Leave the bodies of old messages of a client to the disk (promise G17)."""
        outbox = self.node.ends[link].outbox
        start = max(self._spilled.get(link, 0) + 1, next(iter(outbox), mark.sent + 1))
        end = mark.sent - KEPT
        for number in range(start, end + 1):
            outbox[number] = SPILLED
        self._spilled[link] = max(end, start - 1)

    def _flush(self) -> None:
        """Let the node take what was published since; a call is taken whole, or refused whole (promise G16)."""
        pending, self._pending = self._pending, []
        events: list[m.Published] = []
        futures: list[asyncio.Future[None]] = []
        for given, done in pending:
            why = self.edge.find_refusal(given)
            if why is None:
                events += given
                futures.append(done)
            elif not done.done():
                done.set_exception(RefusedError(503, why))
        message = Admitted(m.PublishBatch(tuple(events)))
        try:
            step = self._step(lambda node, now: node.submit(message, sender="", now=now))
        except Exception as error:  # the callers are told; `failed` stops the broker
            _resolve(futures, RefusedError(503, f"{_FAILED} ({type(error).__name__})"))
        else:
            step.add_done_callback(lambda _: _resolve(futures))

    def _meet(self, links: Iterable[Link]) -> None:
        """Have links to clients that speak through this process, all in one transaction."""
        new = [link for link in links if link not in self.node.ends]
        if new:
            self._step(partial(introduce, new))

    def _note_link(self, link: Link, what: str, detail: str = "") -> None:
        if not self._has_failed:
            self.note(Deed(round(time.time() * 1e6), link, what, link, address="broker", detail=detail))

    def _look_at_gap(self, link: Link) -> None:
        if self.edge.is_suspended(link) and self.edge.backlog(link) <= self.edge.max_backlog // 2:
            _go_on(self)

    async def _tick(self) -> None:
        await asyncio.sleep(TICK_SECONDS)
        while not self._has_failed:
            _go_on(self)
            await asyncio.sleep(TICK_SECONDS)

    @property
    def _has_failed(self) -> bool:
        return self.failed is not None and self.failed.done()

    def _demand_sound(self) -> None:
        """Raise once a step or a commit has failed: nothing may be built on this memory."""
        if self._has_failed:
            raise RefusedError(503, _FAILED)

    def _fail(self, error: BaseException) -> None:
        if self.failed is not None and not self.failed.done():
            self.failed.set_exception(error)


def _go_on(driver: Driver) -> None:
    """Let the core look at what is due."""
    if not driver._has_failed:
        driver._step(lambda node, now: node.submit(m.Tick(), sender="", now=now))


def _receive(data: bytes, link: Link, only_epoch: int | None, node: Node[EdgeCore], now: float) -> Transaction:
    return node.receive(data, link=link, now=now, only_epoch=only_epoch)


def _resolve(futures: list[asyncio.Future[None]], error: Exception | None = None) -> None:
    for one in (future for future in futures if not future.done()):
        one.set_exception(error) if error else one.set_result(None)
