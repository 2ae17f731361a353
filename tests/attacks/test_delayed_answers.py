"""Answers of a broker do not wait for the acknowledgement of earlier ones (Nagle's algorithm)."""

from __future__ import annotations

import asyncio
import socket

from tamis.runtime.broker.config import BrokerConfig
from tamis.web.serving import _listener


def test_connections_to_the_port_send_at_once() -> None:
    """Without it each request on a connection that is kept alive took 44 ms."""
    delays: list[int] = []

    async def story() -> None:
        async def note(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            delays.append(writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        async with await asyncio.start_server(note, sock=_listener(BrokerConfig(port=0))) as server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            await reader.read()
            writer.close()

    asyncio.run(asyncio.wait_for(story(), 30))
    assert delays == [1]
