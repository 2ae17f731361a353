"""A client that gives up leaves no TCP connection behind, even when the broker does not answer its closing."""

from __future__ import annotations

import asyncio
import gc

import pytest
from websockets.asyncio.server import ServerConnection, serve

import tamis
from tamis.errors import ConnectionLostError
from tamis.runtime.client.client import Client
from tamis.runtime.packets import SUBPROTOCOL

#: Seconds after which a test hangs.
HANGS = 30.0


async def talk_nonsense(connection: ServerConnection) -> None:
    """Send bytes that do not form a packet, and read nothing from then on."""
    connection.transport.pause_reading()  # type: ignore[attr-defined]
    await connection.send(b"\x00\x00\x00\xff")
    await connection.wait_closed()


def sockets_to(port: int) -> list[asyncio.Transport]:
    """Return the open connections of this process to a port of its own."""
    # The type, not isinstance: that would ask a weak proxy whose object is gone, and raise ReferenceError.
    transports = [thing for thing in gc.get_objects() if issubclass(type(thing), asyncio.Transport)]
    open_transports = [transport for transport in transports if not transport.is_closing()]
    return [transport for transport in open_transports if (transport.get_extra_info("peername") or ("", 0))[1] == port]


def test_a_cancelled_closing_handshake_closes_the_socket() -> None:
    async def story() -> None:
        async with serve(
            talk_nonsense, "127.0.0.1", 0, subprotocols=[SUBPROTOCOL], close_timeout=0.1, ping_interval=None
        ) as server:
            port = server.sockets[0].getsockname()[1]
            with pytest.raises(ConnectionLostError, match="no broker answered"):
                async with tamis.connect(f"http://127.0.0.1:{port}", timeout=1):
                    pass
            assert sockets_to(port) == []

    asyncio.run(story())


def test_a_client_ends_although_its_connection_breaks_at_the_same_time() -> None:
    """Closed while it waits for its writer to end, a client must not take its own cancellation for the writer's."""

    async def leave_at_once(connection: ServerConnection) -> None:
        await connection.close()

    async def story() -> None:
        waits = asyncio.Event()

        async def slow_writer(socket: object) -> None:
            try:
                await asyncio.sleep(HANGS)
            except asyncio.CancelledError:
                waits.set()
                await asyncio.sleep(HANGS)

        async with serve(leave_at_once, "127.0.0.1", 0, subprotocols=[SUBPROTOCOL], ping_interval=None) as server:
            client = Client(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
            client._first = asyncio.get_running_loop().create_future()
            client._write = slow_writer  # type: ignore[method-assign]
            client._task = asyncio.create_task(client._keep_connected())
            await waits.wait()
            await client.close()
            with pytest.raises(ConnectionLostError, match="the client was closed"):
                await client._first

    asyncio.run(asyncio.wait_for(story(), HANGS))
