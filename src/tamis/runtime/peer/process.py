"""A peer in a process of its own: the same core, on a TCP port.

A peer is called by its address, ``host:port``, so every peer that knows its name can write to it. Connections are
opened when something is to be sent; a message to a peer that does not answer is dropped, as the overlay expects of a
network. A clock lets the peer live through a round every few seconds. What comes from outside is bounded: `listener`
and `receivers` have the limits of connections, frames and queues, and this module those of deliveries that nothing
reads and of events that wait for the tree.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Final

from tamis.errors import LimitError, LocalProtocolError, ModelError, RemoteProtocolError
from tamis.model.schema import Event, Schema
from tamis.model.subscription import DEFAULT_NAMESPACE, SubscriptionId
from tamis.node.content import Content
from tamis.node.datagrams import DatagramNode, Datagrams
from tamis.node.node import Codec
from tamis.overlay import messages as m
from tamis.overlay.peer import USER, PeerCore
from tamis.overlay.seat import Shape
from tamis.overlay.space import Space
from tamis.runtime.metrics import Count
from tamis.runtime.peer.address import Address, address_of
from tamis.runtime.peer.greeting import Identity
from tamis.runtime.peer.listener import Listener
from tamis.runtime.peer.receivers import Dialler, Receivers
from tamis.runtime.peer.reports import Reports
from tamis.runtime.peer.security import PeerSecurity

__all__ = ["PeerProcess", "counts_of"]

#: Bytes of an event as it travels; a frame has room for it and what the tree notes about it.
MAX_EVENT: Final = 1024 * 1024
#: Deliveries that wait to be read; the next ones are dropped and counted.
MAX_UNREAD: Final = 100_000
#: Own events that not every peer has that must; `PeerProcess.room` waits below it.
MAX_HELD: Final = 10_000


class PeerProcess:
    """One peer, listening on ``host:port`` (0: any free port); ``join`` is the address of a peer in the tree.

    ``report`` gets notices for people, such as a peer with another schema; by default they go to the standard error.
    """

    def __init__(
        self,
        schema: Schema,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        join: str | None = None,
        shape: Shape | None = None,
        round_seconds: float = 1.0,
        security: PeerSecurity | None = None,
        report: Callable[[str], None] | None = None,
    ) -> None:
        self.content = Content(schema)
        #: The address of the peer to join; None when this one is the first.
        self.contact = None if join is None else address_of(join)
        #: Deliveries that were dropped because the ones before them were not read.
        self.missed = 0
        self._shape = Shape() if shape is None else shape
        self._address = Address(host, port)
        self._round_seconds = round_seconds
        self._security = PeerSecurity() if security is None else security
        self._reports = Reports(report or _print_error)
        self._listener = Listener(self._security.listening, self._reports, self._receive)
        self._arrived: asyncio.Queue[m.PeerDelivery] = asyncio.Queue(MAX_UNREAD)
        self._wires: _Wires | None = None

    @property
    def name(self) -> str:
        """The address: what others join."""
        return str(self._address)

    @property
    def core(self) -> PeerCore:
        """The peer's mind."""
        core = self._running.node.core
        assert isinstance(core, PeerCore)
        return core

    @property
    def _running(self) -> _Wires:
        if self._wires is None:
            raise LocalProtocolError("the peer has not been started: call start first")
        return self._wires

    def check(self) -> None:
        """Raise `ModelError` when the peer must not start: no TLS and token on a network, its own address to join."""
        self._security.check(self._address.host)
        if self._address.host in ("0.0.0.0", "::"):
            raise ModelError(
                f"other peers cannot dial {self._address.host}: give an address by which they reach this one"
            )
        if self.contact == self.name:
            raise ModelError(f"a peer cannot join itself: {self.name} is its own address; give that of another one")

    async def start(self) -> None:
        """Listen, and begin to live in rounds; ModelError when it cannot listen there."""
        self.check()
        self._address = await self._listener.listen(self._address)
        schema = self.content.schema
        identity = Identity(self.name, schema, self._shape, self._security.token)
        contact = None if self.contact is None else f"{self.contact}/0"
        core = PeerCore(self.name, self.content, Space(schema), self._shape, contact)
        dialler = Dialler(identity, self._security.dialling)
        receivers = Receivers(dialler, self._reports, self._round_seconds)
        node = DatagramNode(core, Codec(m.encode, m.decode))
        self._wires = _Wires(node, dialler, receivers)
        await self._listener.open(identity)
        self._carry_out(node.start(time.time()))
        self._wires.rounds = asyncio.create_task(self._live())

    async def stop(self) -> None:
        """Fall silent at once; the others will notice. To leave well, unsubscribe first."""
        wires, self._wires = self._wires, None
        await self._listener.stop()
        if wires is not None:
            wires.rounds.cancel()
            await asyncio.gather(wires.rounds, return_exceptions=True)
            await wires.receivers.stop()

    def subscribe(
        self, source: str | Mapping[str, Any], *, id: SubscriptionId, namespace: str = DEFAULT_NAMESPACE
    ) -> None:
        """Ask for events; a seat in the tree is found in a moment (`is_active`)."""
        filter = self.content.write_filter(self.content.compile(source))
        self._submit(m.SubscribeRequest(id, filter, namespace))

    def unsubscribe(self, id: SubscriptionId, *, namespace: str = DEFAULT_NAMESPACE) -> None:
        """Ask no longer."""
        self._submit(m.UnsubscribeRequest(id, namespace))

    def publish(self, event: Mapping[str, Any], *, namespace: str = DEFAULT_NAMESPACE) -> None:
        """Publish an event; it is held until every peer that must have it has it.

        LimitError: the event is too large, or too many are held already; `room` waits until there are fewer.
        """
        payload = self.content.write_event(event)
        if len(payload) > MAX_EVENT:
            raise LimitError("bytes of an event", len(payload), MAX_EVENT)
        if self.core.held >= MAX_HELD:
            raise LimitError("events that not every peer has yet", self.core.held + 1, MAX_HELD)
        self._submit(m.PublishRequest(payload, namespace))

    async def room(self) -> None:
        """Wait until another event may be published."""
        while self.core.held >= MAX_HELD:
            await asyncio.sleep(self._round_seconds)

    def is_active(self, id: SubscriptionId, *, namespace: str = DEFAULT_NAMESPACE) -> bool:
        """Whether a subscription has its place in the tree."""
        return self.core.is_active(namespace, id)

    async def finds_contact(self) -> bool:
        """Whether a peer answers at the address to join; also True when there is none to join.

        ModelError: a peer answers that this one cannot talk to, and why.
        """
        if self.contact is None:
            return True
        try:
            wire = await self._running.dialler.dial(self.contact)
        except (OSError, TimeoutError):
            return False
        except RemoteProtocolError as error:
            raise ModelError(f"cannot join {error.link}: {error.problem}") from None
        await wire.close()
        return True

    async def ended(self) -> None:
        """Wait until the peer stops living in rounds; an error that ended its life is raised here."""
        await asyncio.shield(self._running.rounds)

    async def deliveries(self) -> AsyncIterator[tuple[Event, tuple[SubscriptionId, ...]]]:
        """Yield events as they come, with the ids of the subscriptions that match."""
        while True:
            delivery = await self._arrived.get()
            yield self.content.read_event(delivery.event.payload), delivery.subscriptions

    def _receive(self, sender: str, frame: bytes) -> None:
        """Take a frame of another peer; one that is not a message is dropped and counted."""
        if self._wires is None:
            return
        try:
            transaction = self._wires.node.receive(frame, link=sender, now=time.time())
        except Exception as error:  # a message that breaks the tree's rules; rounds repair what it has left behind
            raise RemoteProtocolError(
                sender, f"a message cannot be applied: {type(error).__name__}: {error}"
            ) from error
        self._carry_out(transaction)

    def _submit(self, message: Any) -> None:
        self._carry_out(self._running.node.submit(message, sender=USER, now=time.time()))

    def _carry_out(self, transaction: Datagrams) -> None:
        wires = self._running
        for link, frame in transaction.frames:
            wires.receivers.put(link, frame)
        for delivery in wires.node.take_deliveries():
            if self._arrived.full():
                self.missed += 1
                self._reports.say(f"deliveries are dropped: {MAX_UNREAD:,} have not been read")
            else:
                self._arrived.put_nowait(delivery)

    async def _live(self) -> None:
        while True:
            await asyncio.sleep(self._round_seconds)
            self._submit(m.Check())


class _Wires:
    """What exists while a peer runs."""

    def __init__(self, node: DatagramNode, dialler: Dialler, receivers: Receivers) -> None:
        self.node = node
        self.dialler = dialler
        self.receivers = receivers
        self.rounds: asyncio.Task[None]


def counts_of(peer: PeerProcess) -> list[Count]:
    """Return what a peer counts, for Prometheus."""
    core, receivers = peer.core, peer._running.receivers
    return [
        Count("tamis_peer_published", "Own events", core.published),
        Count("tamis_peer_deliveries", "Events that matched here", sum(core.distances.values())),
        Count("tamis_peer_needless", "Events that came and matched nothing here", core.false_positives),
        Count("tamis_peer_missed", "Deliveries that were dropped because nothing read them", peer.missed),
        Count("tamis_peer_frames_dropped", "Frames that were dropped over a limit", receivers.dropped),
        Count("tamis_peer_held", "Own events that not every peer has yet", core.held, only_grows=False),
        Count("tamis_peer_seats", "Nodes of the tree at this peer", len(core.seats), only_grows=False),
        Count("tamis_peer_receivers", "Peers that are sent something", len(receivers), only_grows=False),
    ]


def _print_error(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
