"""The driver of a broker: asyncio around the machine that the simulator runs, too.

It gives the machine (`tamis.runtime.broker.machine`) a clock, a disk and wake-ups, gathers what is published at the
same time into one step, and lets callers wait until their step is durable.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from tamis.errors import DiskFullError, RefusedError, StoreError
from tamis.node.effects import Link, Persist
from tamis.node.frames import decode_frame
from tamis.node.node import Node, Transaction
from tamis.node.stream import CLIENT_EPOCH
from tamis.routing import messages as m
from tamis.routing.consumers.requests import Bury, Drop, Replay, Request
from tamis.routing.core.broker import client_key
from tamis.routing.edge.audit import Deed, TokensSeen
from tamis.routing.edge.core import EdgeCore, source_of
from tamis.routing.edge.requests import (
    Accepted,
    ChangeLink,
    Departed,
    Draft,
    EventDraft,
    FindProducer,
    ForgetTypes,
    LearnTypes,
    Post,
    Posts,
    Rejection,
    SubscribeFor,
    UnsubscribeFor,
)
from tamis.routing.edge.rights import Rights
from tamis.routing.webhooks.registration import PutWebhook
from tamis.runtime.broker.beside import finish_beside
from tamis.runtime.broker.committer import Committer
from tamis.runtime.broker.machine import FAILED, BrokerMachine, Call, Connection
from tamis.runtime.broker.view import BrokerView
from tamis.runtime.links.link_set import LinkSet
from tamis.runtime.packets import split_frames
from tamis.runtime.stores.protocol import Store
from tamis.runtime.traces.broker_traces import BrokerTraces
from tamis.runtime.traces.contexts import PublisherSpan

__all__ = ["Driver"]

#: Seconds between two looks for what has expired, and for subscriptions that enter the routing table in slices.
TICK_SECONDS, LOOK_SECONDS = 1.0, 0.005

#: Seconds after which it is looked whether a rest still serves others.
GLANCE_SECONDS = 0.001

#: Seconds that others take in one turn of the loop when they are busy; and how much longer than it computed a tick then
#: rests, up to some seconds: the first tick of all may compile kernels.
BUSY_SECONDS, REST, MOST_REST = 0.001, 3, 1.0


class _Ticker:
    """Calls ``tick`` every second, and soon when there is work left: at most once in a turn of the loop.

    While ``is_behind`` says that the disk is, nothing is added to what it has to write.
    """

    def __init__(self, tick: Callable[[], None], is_behind: Callable[[], bool]) -> None:
        self._tick = tick
        self._is_behind = is_behind
        self._task: asyncio.Task[None] | None = None
        self._is_due = False
        #: When the next tick was asked for, and until when it rests if others are served.
        self._asked_at = self._rests_until = 0.0

    @property
    def is_running(self) -> bool:
        """Whether it goes on by itself."""
        return self._task is not None and not self._task.done()

    def start(self) -> None:
        """Begin."""
        self._task = asyncio.create_task(self._run())

    def stop(self) -> None:
        """End."""
        if self._task is not None:
            self._task.cancel()

    def soon(self) -> None:
        """Call ``tick`` after others had their turn."""
        if not self._is_due:
            self._is_due = True
            self._asked_at = time.perf_counter()
            asyncio.get_running_loop().call_soon(self._take_turn)

    def _take_turn(self) -> None:
        now = time.perf_counter()
        # Others are served: what is left of large batches has a part of the loop only.
        rest = self._rests_until - now if now - self._asked_at > BUSY_SECONDS else 0.0
        if rest > 0 or self._is_behind():
            asyncio.get_running_loop().call_later(
                min(rest, GLANCE_SECONDS) if rest > 0 else LOOK_SECONDS, self._look_again
            )
            return
        self._is_due = False
        self._tick()
        end = time.perf_counter()
        self._rests_until = end + min(REST * (end - now), MOST_REST)

    def _look_again(self) -> None:
        """Take a turn if nothing else has work in this turn of the loop; a rest that helps no other ends."""
        self._asked_at = time.perf_counter()
        asyncio.get_running_loop().call_soon(self._take_turn)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(TICK_SECONDS)
            self._tick()


class _Room:
    """Whether a store has room for something new: it is asked twice a second at most."""

    def __init__(self, store: Store, min_free: int) -> None:
        self._store, self._min_free = store, min_free
        self._last_look = (0.0, True)

    @property
    def is_left(self) -> bool:
        """Whether the disk has more than ``min_free`` bytes."""
        if (moment := time.monotonic()) - self._last_look[0] > 0.5:
            self._last_look = (moment, self._store.has_room(self._min_free))
        return self._last_look[1]


class _Numbers:
    """The numbers of events that are published without one: a life, and a count within it."""

    def __init__(self) -> None:
        self.epoch = round(time.time() * 1e6)
        self._last = 0

    def take(self, count: int) -> int:
        """Return the first of ``count`` new numbers."""
        first = self._last + 1
        self._last += count
        return first


class Driver:
    """Runs one broker: steps, commits, wake-ups. ``traces`` are those of its core, None: nothing is traced."""

    def __init__(
        self,
        node: Node[EdgeCore],
        store: Store,
        links: LinkSet,
        *,
        min_free: int = 64 * 1024 * 1024,
        traces: BrokerTraces | None = None,
    ) -> None:
        self.links = links
        self.traces = traces
        commit = self._commit if traces is None else traces.traced(self._commit)
        self.machine = BrokerMachine(
            node, clock=time.time, commit=commit, read=store.read_outbox, cpu_clock=time.thread_time
        )
        ahead = node.core.publications.ahead
        ahead.on_job = partial(finish_beside, finish=ahead.conclude)
        self.machine.on_failure, self.machine.on_news = self._failed, self._wake_watchers
        self._ticker = _Ticker(self.machine.tick, lambda: self.committer.is_behind)
        self.machine.on_work = self._ticker.soon
        self.view = BrokerView(self.machine, store, lambda: self.committer)
        self.failed: asyncio.Future[None] | None = None
        self._store = store
        self._committer: Committer | None = None
        self._watchers: dict[Link, set[asyncio.Event]] = {}
        #: What was published since the last step, call by call.
        self._pending: list[tuple[Post, asyncio.Future[Any]]] = []
        self._numbers = _Numbers()
        self._room = _Room(store, min_free)

    # Life

    async def start(self) -> None:
        """Restore what is on disk and begin."""
        loop = asyncio.get_running_loop()
        self.failed = loop.create_future()
        self._committer = Committer(self._store, loop, self.machine.fail)
        self._store.on_damage = lambda error: loop.call_soon_threadsafe(self.machine.fail, error)
        self._committer.start()
        await self._step(lambda node, now: node.start(now))
        self._ticker.start()

    async def stop(self) -> None:
        """Commit what is under way, and end."""
        self._ticker.stop()
        for connection in list(self.machine.connections.values()):
            connection.close_for_now("the broker stops")
        if self._committer is not None:
            await asyncio.to_thread(self._committer.stop)
        self._store.close()
        if self.traces is not None:
            await asyncio.to_thread(self.traces.close)

    @property
    def committer(self) -> Committer:
        """The thread that writes; there when the driver was started."""
        if self._committer is None:
            raise RefusedError(503, "the broker has not started")
        return self._committer

    def run_between_commits(self, action: Callable[[Store], None]) -> None:
        """Have something done with the store by the thread that writes, between two commits."""
        self.committer.run_between(lambda: action(self._store))

    # What the server asks

    def demand_room(self) -> None:
        """Raise `DiskFullError` when nothing new can be accepted (promise G15), `RefusedError` after a failure."""
        self.machine.demand_sound()
        if self._store.is_cut_off:
            raise RefusedError(503, "the store does not answer; nothing was taken, try another address of this broker")
        if self.committer.is_full or not self._room.is_left:
            raise DiskFullError(self._store.place)

    def receive(self, connection: Connection, packet: bytes) -> None:
        """Take a packet from a wire; `DiskFullError` when it needs room and there is none."""
        try:
            self.demand_room()
        except DiskFullError:
            if _adds(packet, connection.link):
                raise
        if self.traces is not None and connection.rights is not None:
            for data in split_frames(packet, connection.link):
                self.traces.note_word(connection.link, decode_frame(data, connection.link))
        self.machine.receive(connection, packet)

    async def publish(
        self,
        events: Sequence[Mapping[str, Any]],
        namespace: str,
        by: Rights,
        publisher: str,
        draft: EventDraft | None = None,
        origin: PublisherSpan | None = None,
    ) -> Accepted | Rejection:
        """Publish the events of one request, all that come at once as one batch; returns when they are durable.

        ``origin`` is the span of who publishes them.
        """
        first, name = self._numbers.take(len(events)), self._named(publisher)
        post = Post(tuple(events), namespace, by, name, self._numbers.epoch, first, draft=draft)
        return await self._post(post, origin)

    async def publish_once(
        self,
        events: Sequence[Mapping[str, Any]],
        namespace: str,
        by: Rights,
        producer: str,
        number: int,
        draft: EventDraft | None = None,
        after: int | None = None,
        origin: PublisherSpan | None = None,
    ) -> Accepted | Rejection:
        """Publish a numbered batch of a producer unless it was accepted before; returns when it is durable.

        With ``after`` it is rejected (409) unless that is the producer's last number.
        """
        publisher = self._named(f"once:{by.principal}:{producer}")
        post = Post(tuple(events), namespace, by, publisher, number, producer=producer, after=after, draft=draft)
        return await self._post(post, origin)

    async def subscribe(
        self,
        requests: Sequence[tuple[Link, m.Subscribe]],
        by: Rights,
        *,
        drafts: Mapping[str, Draft] | None = None,
        must_be_new: bool = False,
        must_exist: bool = False,
    ) -> tuple[m.Subscribe, ...] | Rejection:
        """Take subscriptions of clients that speak through this process: all, or none and the reason.

        They are on disk and in the routing table when this returns.
        """
        self.demand_room()
        message = SubscribeFor(tuple(requests), by, must_be_new, drafts or {}, must_exist)
        done = asyncio.get_running_loop().create_future()
        self.machine.submit(message, done=partial(_resolve, done))
        places = [(link, client_key(link, request.namespace, request.id)) for link, request in requests]
        registry = self.machine.node.core.registry
        has_steps_left = registry.has_waiting and registry.is_waiting(places)
        answer: tuple[m.Subscribe, ...] | Rejection = await done
        if has_steps_left:
            await self.wait_while(lambda edge: edge.registry.is_waiting(places), until_on_disk=True)
        return answer

    async def wait_while(self, is_waiting: Callable[[EdgeCore], bool], *, until_on_disk: bool = False) -> bool:
        """Wait until ``is_waiting`` is false of the edge, or the broker stops; return whether it waited.

        ``until_on_disk`` waits for the disk to have those steps, too. A broker that stops takes the steps that are
        left when it is started again.
        """
        has_waited = False
        while is_waiting(self.machine.node.core):
            has_waited = True
            await asyncio.sleep(LOOK_SECONDS)
            self.machine.demand_sound()
            if not self._ticker.is_running:
                return has_waited
        if until_on_disk:
            await self._step(lambda node, now: Transaction())  # transactions reach the disk in their order
        return has_waited

    async def unsubscribe(self, message: m.Unsubscribe, link: Link, by: Rights | None = None) -> None:
        """End a subscription, also when the disk is full: that makes room. Returns when it is durable.

        ``by`` is who wants it, None the broker itself.
        """
        self.machine.attach([link], CLIENT_EPOCH)
        await self._submit(UnsubscribeFor(message, by), link)

    async def ask(self, request: LearnTypes | ForgetTypes | FindProducer | PutWebhook | ChangeLink | Request) -> Any:
        """Return the answer of the edge to a request of this process, once it is durable."""
        if not isinstance(request, Request):
            return await self._submit(request)
        if isinstance(request, Bury | Replay | Drop):
            self.machine.attach([request.dead], CLIENT_EPOCH)
        done = asyncio.get_running_loop().create_future()
        self.machine.consume(request, partial(_resolve, done))
        return await done

    def note(self, entry: Deed | TokensSeen) -> asyncio.Future[Any]:
        """Add an entry to the audit; the future is done when it is durable."""
        return self._submit(entry)

    async def forget(self, link: Link) -> None:
        """Forget a client that has gone for good, and what is kept for it; its subscriptions have ended before."""
        self.machine.submit(Departed(), link)
        done = asyncio.get_running_loop().create_future()
        self.machine.forget(link, partial(_resolve, done))
        await done

    def acknowledge(self, link: Link, number: int) -> None:
        """Take note that a client of this process has read everything up to a number."""
        self.machine.acknowledge(link, number)

    # Wake-ups

    def watch(self, link: Link) -> asyncio.Event:
        """Return an event that is set whenever something new was committed for a link; `unwatch` it."""
        event = asyncio.Event()
        self._watchers.setdefault(link, set()).add(event)
        return event

    def unwatch(self, link: Link, event: asyncio.Event) -> None:
        """Let an event go."""
        watchers = self._watchers.get(link, set())
        watchers.discard(event)
        if not watchers:
            self._watchers.pop(link, None)

    def is_attended(self, link: Link) -> bool:
        """Whether a link is being read now."""
        return link in self.machine.connections or link in self._watchers

    async def next_packet(self, connection: Connection) -> bytes | None:
        """Return the next bytes for a wire as soon as there are some; None when it is to be closed."""
        news = asyncio.Event()
        connection.wake = news.set
        while not connection.closed:
            try:
                packet = self.machine.take_packet(connection)
            except StoreError:  # the store has reported it: the broker stops (promise G14)
                connection.close_for_now(FAILED)
                return None
            if packet is not None:
                return packet
            await news.wait()
            news.clear()
        return None

    # Inside

    def _named(self, publisher: str) -> str:
        return f"{publisher}@{self.view.name}"

    async def _post(self, post: Post, origin: PublisherSpan | None) -> Accepted | Rejection:
        self.demand_room()
        if self.traces is not None:
            self.traces.note_post(post, origin)
        if not self._pending:
            asyncio.get_running_loop().call_soon(self._flush)
        done: asyncio.Future[tuple[Accepted | Rejection, bool]] = asyncio.get_running_loop().create_future()
        self._pending.append((post, done))
        verdict, has_steps_left = await done
        if has_steps_left:
            source = source_of(post.by.principal)
            await self.wait_while(lambda edge: edge.publications.is_waiting(source), until_on_disk=True)
        return verdict

    def _flush(self) -> None:
        """Let the node take what was published since; a call is taken whole, or refused whole (promise G16)."""
        pending, self._pending = self._pending, []
        sources = [source_of(post.by.principal) for post, _ in pending]
        unfinished: set[str] = set()

        def release(verdicts: list[Accepted | Rejection]) -> None:
            for (_, done), verdict, source in zip(pending, verdicts, sources, strict=True):
                _resolve(done, (verdict, isinstance(verdict, Accepted) and source in unfinished))

        try:
            self.machine.submit(Posts(tuple(post for post, _ in pending)), done=release)
            # The step is taken; `release` is called later, when it is on disk and further steps may have been taken.
            unfinished.update(filter(self.machine.node.core.publications.is_waiting, sources))
        except Exception as error:  # the callers are told; `failed` stops the broker
            for _, done in pending:
                if not done.done():
                    done.set_exception(RefusedError(503, f"{FAILED} ({type(error).__name__})"))

    def _submit(self, message: Any, link: Link = "") -> asyncio.Future[Any]:
        return self._step(lambda node, now: node.submit(message, sender=link, now=now))

    def _step(self, call: Call) -> asyncio.Future[Any]:
        done = asyncio.get_running_loop().create_future()
        self.machine.step(call, partial(_resolve, done))
        return done

    def _commit(self, changes: list[Persist], then: Callable[[], None]) -> None:
        self.committer.put(changes, then)

    def _wake_watchers(self, link: Link) -> None:
        for event in self._watchers.get(link, ()):
            event.set()

    def _failed(self, error: BaseException) -> None:
        if self.failed is not None and not self.failed.done():
            self.failed.set_exception(error)


#: Messages that make room, or need next to none: they are taken when the disk is full.
_SMALL = m.Unsubscribe | m.Confirm | m.Pause | m.Resume


def _adds(packet: bytes, link: Link) -> bool:
    """Whether a packet has more than acknowledgements and withdrawals."""
    frames = (decode_frame(data, link) for data in split_frames(packet, link))
    return any(frame.seq and not isinstance(m.decode(frame.body, link), _SMALL) for frame in frames)


def _resolve(future: asyncio.Future[Any], value: Any) -> None:
    if not future.done():
        future.set_result(value)
