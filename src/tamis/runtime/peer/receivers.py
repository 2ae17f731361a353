"""Frames on their way out: one connection per receiver, dialled when there is something to send.

The tree expects a network that loses messages, and repeats what matters in every round. So whatever is over a limit
is dropped and counted: too many receivers, too many bytes for one of them, an address that may not be dialled, a
receiver that does not answer. A receiver that failed is left alone for a round, and one with nothing to get is
forgotten.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque

from tamis.errors import ModelError, RemoteProtocolError
from tamis.runtime.peer.address import Address, resolve
from tamis.runtime.peer.greeting import Identity
from tamis.runtime.peer.handshake import HANDSHAKE_SECONDS, greet
from tamis.runtime.peer.reports import Reports
from tamis.runtime.peer.wire import IDLE_SECONDS, FramedConnection

__all__ = ["Dialler", "Receivers"]

#: Receivers at one time. A peer has about ten neighbours per level that it owns.
MAX_RECEIVERS = 256
#: Messages and bytes that wait for one receiver, and bytes for all of them.
MAX_MESSAGES, MAX_BYTES, MAX_ALL_BYTES = 10_000, 16 * 1024 * 1024, 64 * 1024 * 1024
#: Seconds in which a TCP connection must come about, and connections that are being made at one time.
CONNECT_SECONDS, MAX_DIALS = 3.0, 32


class Dialler:
    """Opens connections to other peers as ``identity``, over TLS when there is a context."""

    def __init__(self, identity: Identity, tls: ssl.SSLContext | None) -> None:
        self._identity = identity
        self._tls = tls
        self._turns = asyncio.Semaphore(MAX_DIALS)

    async def dial(self, name: str) -> FramedConnection:
        """Return a connection to a peer that has been greeted.

        ModelError: the address may not be dialled. OSError and TimeoutError: there is no answer. RemoteProtocolError:
        there is one, and the two cannot talk.
        """
        address = Address.parse(name)
        here = Address.parse(self._identity.name)
        async with self._turns:
            async with asyncio.timeout(CONNECT_SECONDS):
                endpoint = await resolve(address, from_loopback=here.is_loopback)
                reader, writer = await asyncio.open_connection(endpoint.ip, endpoint.port)
            try:
                async with asyncio.timeout(HANDSHAKE_SECONDS):
                    if self._tls is not None:
                        await writer.start_tls(self._tls, server_hostname=address.host)
                    wire = FramedConnection(reader, writer)
                    await greet(wire, self._identity, name)
            except ssl.SSLError as error:
                writer.transport.abort()
                raise RemoteProtocolError(name, f"TLS: {error.reason or error}") from None
            except BaseException:
                writer.transport.abort()
                raise
        return wire


class Receivers:
    """Queues of frames by receiver; ``rest_seconds`` pass before a receiver that failed is dialled again."""

    def __init__(self, dialler: Dialler, reports: Reports, rest_seconds: float) -> None:
        #: Frames that were not sent because of a limit or an address.
        self.dropped = 0
        self._dialler = dialler
        self._reports = reports
        self._rest_seconds = rest_seconds
        self._outboxes: dict[str, _Outbox] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._outboxes)

    def put(self, name: str, frame: bytes) -> None:
        """Let a frame wait for a receiver; over a limit it is dropped."""
        outbox = self._outboxes.get(name) or self._admit(name)
        if outbox is None or self._bytes + len(frame) > MAX_ALL_BYTES or not outbox.put(frame):
            self.dropped += 1
            return
        self._bytes += len(frame)

    async def stop(self) -> None:
        """Close all connections; what waits is dropped."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._outboxes.clear()  # a task that was cancelled before it began has cleared nothing
        self._tasks.clear()
        self._bytes = 0

    def _admit(self, name: str) -> _Outbox | None:
        if len(self._outboxes) >= MAX_RECEIVERS:
            self._reports.say(f"frames are dropped: there are {MAX_RECEIVERS} receivers already")
            return None
        try:
            Address.parse(name)
        except ModelError as error:
            self._reports.say(f"a message named an address that is none: {error}")
            return None
        outbox = self._outboxes[name] = _Outbox()
        self._tasks[name] = asyncio.create_task(self._deliver(name, outbox))
        return outbox

    async def _deliver(self, name: str, outbox: _Outbox) -> None:
        """Send what waits for one receiver, until nothing has for a while."""
        wire: FramedConnection | None = None
        try:
            while await outbox.has_some():
                try:
                    if wire is None or wire.is_closing:
                        wire = await self._dialler.dial(name)
                    await wire.write(self._next(outbox))
                    continue
                except (OSError, TimeoutError):
                    pass  # it does not answer, or is gone
                except (ModelError, RemoteProtocolError) as error:
                    self._reports.say(f"cannot talk to {name}: {getattr(error, 'problem', error)}")
                await self._give_up(outbox, wire)
                wire = None
        finally:
            self._bytes -= outbox.clear()
            del self._outboxes[name], self._tasks[name]
            if wire is not None:
                await wire.close()

    def _next(self, outbox: _Outbox) -> bytes:
        frame = outbox.take()
        self._bytes -= len(frame)
        return frame

    async def _give_up(self, outbox: _Outbox, wire: FramedConnection | None) -> None:
        """Drop what waits, and wait a round: rounds say again what matters."""
        self._bytes -= outbox.clear()
        if wire is not None:
            wire.cut()
        await asyncio.sleep(self._rest_seconds)


class _Outbox:
    """What waits for one receiver."""

    def __init__(self) -> None:
        self._frames: deque[bytes] = deque()
        self._bytes = 0
        self._filled = asyncio.Event()

    def put(self, frame: bytes) -> bool:
        """Add a frame; False when there is no room."""
        if len(self._frames) >= MAX_MESSAGES or self._bytes + len(frame) > MAX_BYTES:
            return False
        self._frames.append(frame)
        self._bytes += len(frame)
        self._filled.set()
        return True

    def take(self) -> bytes:
        """Return the first frame and forget it."""
        frame = self._frames.popleft()
        self._bytes -= len(frame)
        if not self._frames:
            self._filled.clear()
        return frame

    def clear(self) -> int:
        """Forget all frames; return how many bytes that were."""
        freed, self._bytes = self._bytes, 0
        self._frames.clear()
        self._filled.clear()
        return freed

    async def has_some(self) -> bool:
        """Wait for a frame; False when none has come for half the time after which a listener closes."""
        try:
            async with asyncio.timeout(IDLE_SECONDS / 2):
                await self._filled.wait()
        except TimeoutError:
            return False
        return True
