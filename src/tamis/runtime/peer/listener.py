"""The door of a peer: connections are counted, greeted within a deadline, and closed when they are idle.

A connection that has not proved its token may have a few slots only. When they are taken the oldest is closed: an
honest peer needs milliseconds there, a slow stranger loses its place to the next one. When all other slots are taken,
the connection that has been silent for longest goes; its peer dials again when it has something to say.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Callable

from tamis.errors import ModelError, RemoteProtocolError
from tamis.runtime.peer.address import Address
from tamis.runtime.peer.greeting import Identity
from tamis.runtime.peer.handshake import HANDSHAKE_SECONDS, welcome
from tamis.runtime.peer.reports import Reports
from tamis.runtime.peer.wire import MAX_FRAME, FramedConnection

__all__ = ["Listener"]

#: Connections that have been greeted, and that have not.
MAX_CONNECTIONS, MAX_GREETING = 256, 128


class Listener:
    """Accepts connections and hands each frame to ``receive`` with the name of the peer that sent it.

    `RemoteProtocolError` of ``receive`` closes the connection that the frame came over.
    """

    def __init__(self, tls: ssl.SSLContext | None, reports: Reports, receive: Callable[[str, bytes], None]) -> None:
        self._tls = tls
        self._reports = reports
        self._receive = receive
        self._identity: Identity | None = None
        self._server: asyncio.Server | None = None
        self._greeting: dict[asyncio.StreamWriter, None] = {}
        #: Connections that have been greeted, the one that was silent for longest first.
        self._peers: dict[FramedConnection, None] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def listen(self, address: Address) -> Address:
        """Listen, and return the address with the port that was chosen; ModelError when that cannot be.

        Connections wait until `open`: a peer greets by its name, which has the port in it.
        """
        try:
            self._server = await asyncio.start_server(self._accept, address.host, address.port, start_serving=False)
        except OSError as error:
            raise ModelError(f"{address}: {_reason(error)}; give an address of this machine and a free port") from None
        return Address(address.host, self._server.sockets[0].getsockname()[1])

    async def open(self, identity: Identity) -> None:
        """Begin to accept connections as this peer."""
        assert self._server is not None
        self._identity = identity
        await self._server.start_serving()

    async def stop(self) -> None:
        """Close the door and all connections."""
        if self._server is not None:
            self._server.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            wire, name = await self._greet(reader, writer)
            await self._serve(wire, name)
        except RemoteProtocolError as error:
            self._reports.say(f"refused {error.link}: {error.problem}")
        except ssl.SSLError as error:
            self._reports.say(f"refused {FramedConnection(reader, writer).origin}: TLS: {error.reason or error}")
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            pass  # the other end is gone, or too slow
        finally:
            self._tasks.discard(task)
            await FramedConnection(reader, writer).close()

    async def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> tuple[FramedConnection, str]:
        assert self._identity is not None
        if len(self._greeting) >= MAX_GREETING:
            oldest = next(iter(self._greeting))
            del self._greeting[oldest]
            oldest.transport.abort()
        self._greeting[writer] = None
        try:
            async with asyncio.timeout(HANDSHAKE_SECONDS):
                if self._tls is not None:
                    await writer.start_tls(self._tls)
                wire = FramedConnection(reader, writer)
                return wire, await welcome(wire, self._identity)
        finally:
            self._greeting.pop(writer, None)

    async def _serve(self, wire: FramedConnection, name: str) -> None:
        if len(self._peers) >= MAX_CONNECTIONS:
            oldest = next(iter(self._peers))
            del self._peers[oldest]
            oldest.cut()
        self._peers[wire] = None
        try:
            while True:
                frame = await wire.read(MAX_FRAME)
                self._peers.pop(wire, None)
                self._peers[wire] = None
                self._receive(name, frame)
        finally:
            self._peers.pop(wire, None)


def _reason(error: OSError) -> str:
    """Return what went wrong without the sentence that asyncio puts around it; a name that is not found has none."""
    number = error.errno or 0
    return (os.strerror(number) if number > 0 else error.strerror or str(error)).lower()
