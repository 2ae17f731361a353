"""Attack: TLS handshakes that strangers begin and leave open, until no other client can connect."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from pathlib import Path

import pytest

from tamis.runtime.broker.config import BrokerConfig
from tamis.web.port import handshakes
from tamis.web.serving import serve
from tests.attacks.test_certificates import write_certificate
from tests.server.processes import HANGS

OF_ADDRESS = 20


def https_status(port: int, address: str, body: bytes = b"") -> int:
    """Return the status of a request over TLS that comes from an address of loopback; 0 when it is cut."""
    context = ssl._create_unverified_context()
    head = f"POST /v1/events HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\nContent-Length: {len(body)}\r\n"
    with contextlib.suppress(OSError):
        plain = socket.create_connection(("127.0.0.1", port), timeout=HANGS, source_address=(address, 0))
        with plain, context.wrap_socket(plain) as wire:
            wire.sendall(head.encode() + b"\r\n" + body)
            return int(wire.recv(65_536).split()[1])
    return 0


def test_handshakes_that_are_left_open_are_counted_and_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshakes, "HANDSHAKE_SECONDS", 1.5)
    write_certificate(tmp_path, 1)
    config = BrokerConfig(
        port=0,
        data=str(tmp_path / "data"),
        tls_certificate=str(tmp_path / "cert.pem"),
        tls_key=str(tmp_path / "key.pem"),
        max_connections_of_address=OF_ADDRESS,
    )

    async def story() -> None:
        ready = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(serve(config, ready.set_result))
        try:
            await asyncio.wait([task, ready], return_when=asyncio.FIRST_COMPLETED)
            port = int(ready.result().rpartition(":")[2])
            await asyncio.to_thread(attack, port)
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    asyncio.run(asyncio.wait_for(story(), HANGS))


def attack(port: int) -> None:
    event = b'{"s":"' + b"x" * 20_000 + b'"}'
    assert https_status(port, "127.0.0.1", event) == 200
    with contextlib.ExitStack() as stack:
        wires = [
            stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=HANGS)) for _ in range(OF_ADDRESS)
        ]
        for wire in wires[::2]:
            wire.sendall(b"\x16\x03\x01\x02")  # the first bytes of a handshake
        assert https_status(port, "127.0.0.2", event) == 200
        more = [stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=HANGS)) for _ in range(40)]
        assert is_cut(more[-1])  # no place: neither a usual one nor one of the reserve
        assert all(map(is_cut, wires))  # the deadline has passed
    assert https_status(port, "127.0.0.1", event) == 200


def is_cut(wire: socket.socket) -> bool:
    """Wait until the broker closes a connection; there are no bytes before."""
    try:
        return wire.recv(1) == b""
    except ConnectionResetError:
        return True
