"""Attack: 200 KB of headers in one packet were parsed whole; the bound held only for heads that arrive in parts."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from tamis.web.port.connection_limits import Gate, with_limits

HEAD = b"POST / HTTP/1.1\r\nHost: a\r\n"
LINES = b"a:\r\n" * 40_000


async def accept(scope: Any, receive: Any, send: Any) -> None:
    """Answer with the number of bytes of the body."""
    length, more = 0, True
    while more:
        message = await receive()
        length, more = length + len(message.get("body", b"")), message.get("more_body", False)
    body = str(length).encode()
    headers = [(b"content-length", str(len(body)).encode()), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def answer(*packets: bytes) -> bytes:
    """Hand packets, each at once, to the protocol of the broker; return what it answers until it closes."""
    config = uvicorn.Config(accept, lifespan="off", log_level="critical")
    config.load()
    ours, theirs = socket.socketpair()
    protocol = with_limits(H11Protocol, Gate(8, 8))(config, ServerState(), {})  # type: ignore[call-arg]
    await asyncio.get_running_loop().connect_accepted_socket(lambda: protocol, theirs)
    reader, writer = await asyncio.open_connection(sock=ours)
    for packet in packets:
        protocol.data_received(packet)
    received = await reader.read()
    writer.close()
    return received


@pytest.mark.parametrize(
    "packet",
    [HEAD + LINES + b"\r\n", HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\n" + LINES + b"\r\n"],
    ids=["headers", "trailers"],
)
def test_it_is_refused_however_it_arrives(packet: bytes) -> None:
    assert asyncio.run(answer(packet)).startswith(b"HTTP/1.1 400 ")


def test_long_bodies_arrive_whole_however_they_are_cut() -> None:
    length = 700_001
    head = HEAD + b"Content-Length: %d\r\n\r\n" % length
    for packets in ([head + bytes(length)], [head, bytes(length)], [head + bytes(length - 1), bytes(1)]):
        assert asyncio.run(answer(*packets)).endswith(b"\r\n\r\n700001")
