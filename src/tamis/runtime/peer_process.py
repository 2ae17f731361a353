"""A peer in a process of its own: the same core, on a TCP port.

A peer is called by its address, ``host:port``, so whoever has its name can write to it. A message is a frame: four
bytes of length, then the name of the sender and the message. Connections are opened when something is to be sent; a
message to somebody who does not answer is dropped, as the overlay expects of a network. A clock lets the peer live
through a round every few seconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

import msgspec

from tamis.errors import LocalProtocolError, ModelError
from tamis.model.schema import Event, Schema
from tamis.model.subscription import DEFAULT_NAMESPACE, SubscriptionId
from tamis.node.content import Content
from tamis.node.datagrams import DatagramNode, Datagrams
from tamis.node.node import Codec
from tamis.overlay import messages as m
from tamis.overlay.peer import USER, PeerCore
from tamis.overlay.seat import Shape
from tamis.overlay.space import Space

__all__ = ["PeerProcess", "address_of"]

#: The longest frame that is read; a longer one closes the connection.
MAX_FRAME: Final = 16 * 1024 * 1024
#: Messages that wait for one receiver; more are dropped, the oldest last.
MAX_WAITING: Final = 10_000
#: How long a connection may take to come about.
DIAL_SECONDS: Final = 3.0

_Frame = tuple[str, bytes]


class PeerProcess:
    """One peer, listening on ``host:port`` (0: any free port); ``join`` is the address of somebody in the tree."""

    def __init__(
        self,
        schema: Schema,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        join: str | None = None,
        shape: Shape | None = None,
        round_seconds: float = 1.0,
    ) -> None:
        self.content = Content(schema)
        self._schema, self._shape = schema, shape
        self._host, self._port = host, port
        #: The address of the peer to join; None when this one is the first.
        self.contact = None if join is None else address_of(join)
        self._round_seconds = round_seconds
        self._outboxes: dict[str, asyncio.Queue[bytes]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._callers: set[asyncio.StreamWriter] = set()
        self._arrived: asyncio.Queue[m.Delivery] = asyncio.Queue()
        self._taken = 0
        self._server: asyncio.Server | None = None
        self._node: DatagramNode | None = None

    @property
    def name(self) -> str:
        """The address: what others join."""
        return f"{self._host}:{self._port}"

    @property
    def core(self) -> PeerCore:
        """The peer's mind."""
        if self._node is None:
            raise LocalProtocolError("the peer has not been started")
        core = self._node.core
        assert isinstance(core, PeerCore)
        return core

    async def start(self) -> None:
        """Listen, and begin to live in rounds; ModelError when it cannot listen there."""
        if self.contact == self.name:
            raise ModelError(f"a peer cannot join itself: {self.name} is its own address; give that of another one")
        try:
            self._server = await asyncio.start_server(self._serve, self._host, self._port)
        except OSError as error:
            raise ModelError(
                f"{self.name}: {_reason(error)}; give an address of this machine and a free port"
            ) from None
        self._port = self._server.sockets[0].getsockname()[1]
        contact = None if self.contact is None else f"{self.contact}/0"
        core = PeerCore(self.name, self.content, Space(self._schema), self._shape, contact)
        self._node = DatagramNode(core, Codec(m.encode, m.decode))
        self._carry_out(self._node.start(time.time()))
        self._spawn(self._live())

    async def stop(self) -> None:
        """Fall silent at once; the others will notice. To leave well, unsubscribe first."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._server is not None:
            self._server.close()
        self._node = None
        open_ones = list(self._callers)
        for writer in open_ones:
            writer.close()
        await asyncio.gather(*(writer.wait_closed() for writer in open_ones), return_exceptions=True)

    def subscribe(
        self, source: str | Mapping[str, Any], *, id: SubscriptionId, namespace: str = DEFAULT_NAMESPACE
    ) -> None:
        """Ask for events; a seat in the tree is found in a moment (`is_active`)."""
        filter = self.content.write_filter(self.content.compile(source))
        self._submit(m.Subscribe(id, filter, namespace))

    def unsubscribe(self, id: SubscriptionId, *, namespace: str = DEFAULT_NAMESPACE) -> None:
        """Ask no longer."""
        self._submit(m.Unsubscribe(id, namespace))

    def publish(self, event: Mapping[str, Any], *, namespace: str = DEFAULT_NAMESPACE) -> None:
        """Publish an event; it is held until everybody who must have it has it."""
        self._submit(m.Publish(self.content.write_event(event), namespace))

    def is_active(self, id: SubscriptionId, *, namespace: str = DEFAULT_NAMESPACE) -> bool:
        """Whether a subscription has its place in the tree."""
        return self.core.is_active(namespace, id)

    async def finds_contact(self) -> bool:
        """Whether somebody listens at the address to join; also True when there is none to join."""
        try:
            await _close(None if self.contact is None else await _dial(self.contact))
        except (OSError, TimeoutError):
            return False
        return True

    async def deliveries(self) -> AsyncIterator[tuple[Event, tuple[SubscriptionId, ...]]]:
        """Yield events as they come, with the ids of the subscriptions that match."""
        while True:
            one = await self._arrived.get()
            yield self.content.read_event(one.event.payload), one.subscriptions

    # Wires

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._callers.add(writer)
        try:
            while True:
                size = int.from_bytes(await reader.readexactly(4), "big")
                if size > MAX_FRAME:
                    return
                self._receive(await reader.readexactly(size))
        except (asyncio.IncompleteReadError, ConnectionError, msgspec.DecodeError):
            return  # the other end is gone, or speaks another language
        finally:
            self._callers.discard(writer)
            await _close(writer)

    def _receive(self, data: bytes) -> None:
        sender, body = msgspec.msgpack.decode(data, type=_Frame)
        if self._node is not None:
            self._carry_out(self._node.receive(body, link=sender, now=time.time()))

    def _submit(self, message: Any) -> None:
        if self._node is None:
            raise LocalProtocolError("the peer has not been started")
        self._carry_out(self._node.submit(message, sender=USER, now=time.time()))

    def _carry_out(self, transaction: Datagrams) -> None:
        for link, data in transaction.frames:
            if link not in self._outboxes:
                self._outboxes[link] = asyncio.Queue(MAX_WAITING)
                self._spawn(self._write_to(link))
            with contextlib.suppress(asyncio.QueueFull):  # rounds say again what matters
                self._outboxes[link].put_nowait(data)
        assert self._node is not None
        for one in self._node.deliveries[self._taken :]:
            self._arrived.put_nowait(one)
        self._taken = len(self._node.deliveries)

    async def _write_to(self, link: str) -> None:
        """Send what waits for one receiver, over one connection; without one, what waits is dropped."""
        queue = self._outboxes[link]
        writer: asyncio.StreamWriter | None = None
        try:
            while True:
                frame = msgspec.msgpack.encode((self.name, await queue.get()))
                try:
                    writer = writer or await _dial(link)
                    writer.write(len(frame).to_bytes(4, "big") + frame)
                    await writer.drain()
                except (OSError, ValueError, TimeoutError):
                    await _close(writer)
                    writer = None
        finally:
            await _close(writer)

    async def _live(self) -> None:
        while True:
            await asyncio.sleep(self._round_seconds)
            self._submit(m.Check())

    def _spawn(self, work: Any) -> None:
        task: asyncio.Task[None] = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _dial(link: str) -> asyncio.StreamWriter:
    host, _, port = link.rpartition(":")
    _, writer = await asyncio.wait_for(asyncio.open_connection(host, int(port)), DIAL_SECONDS)
    return writer


async def _close(writer: asyncio.StreamWriter | None) -> None:
    """Close a connection; that the other end was quicker is no error."""
    if writer is not None:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


def _reason(error: OSError) -> str:
    """Return what went wrong without the sentence that asyncio puts around it; a name that is not found has none."""
    number = error.errno or 0
    return (os.strerror(number) if number > 0 else error.strerror or str(error)).lower()


def address_of(url: str) -> str:
    """Return ``host:port`` of an address or URL; ModelError when it is none.

    >>> address_of("tcp://127.0.0.1:4000/")
    '127.0.0.1:4000'
    """
    address = url.removeprefix("tcp://").rstrip("/")
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536 or "/" in address:
        raise ModelError(f"expected the address of a peer, such as tcp://127.0.0.1:4000, not {url!r}")
    return address
