"""Attack: 40,000 empty frames in one packet of a WebSocket hold the loop for a second; text that is none is logged."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import struct
from pathlib import Path

from tests.attacks.stalls import watched_broker
from tests.attacks.wire import HANGS
from tests.server.processes import BrokerProcess

HEAD = (
    "GET /v1/connect?client=tiny HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {base64.b64encode(bytes(16)).decode()}\r\n\r\n"
)

#: Units of CPU time, about 5 ms each, that one step of the loop may take: 50 ms. 256 KiB of tiny frames took 100.
MOST_UNITS = 10.0


def frame(opcode: int, data: bytes = b"", *, is_last: bool = True) -> bytes:
    return bytes([is_last << 7 | opcode, 0x80 | len(data)]) + bytes(4) + data


async def answer(port: int, frames: bytes) -> bytes:
    """Open a WebSocket, send bytes once it is open, and return what comes until it is closed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(HEAD.encode())
    await reader.readuntil(b"\r\n\r\n")
    writer.write(frames)
    received = b""
    with contextlib.suppress(ConnectionError):  # it was closed before all was sent
        while data := await asyncio.wait_for(reader.read(65_536), HANGS):
            received += data
    writer.close()
    return received


def test_tiny_frames_do_not_hold_the_loop(tmp_path: Path) -> None:
    attacks = {
        "fragments": frame(2, b"a", is_last=False) + frame(0, is_last=False) * 150_000,
        "pings": frame(9) * 150_000,
        "messages": frame(2) * 150_000,
    }

    async def story() -> dict[str, float]:
        units: dict[str, float] = {}
        async with watched_broker(tmp_path) as watched:
            port = int(watched.url.rpartition(":")[2])
            await answer(port, frame(8, struct.pack(">H", 1000)))  # imports
            for name, frames in attacks.items():
                watched.reset()
                await answer(port, frames)
                units[name] = watched.units()
        return units

    units = asyncio.run(story())
    assert max(units.values()) < MOST_UNITS, units


def test_slow_fragments_of_one_message_are_counted(broker: BrokerProcess) -> None:
    """Each piece has few frames, but the message does not end."""
    fragments = frame(2, b"a", is_last=False) + frame(0, bytes(100), is_last=False) * 2_000
    assert b"too many small frames" in asyncio.run(answer(broker.port, fragments))


def test_invalid_utf8_leaves_no_traceback(broker: BrokerProcess) -> None:
    assert b"not UTF-8" in asyncio.run(answer(broker.port, frame(1, b"\xff\xfe")))
    assert "Traceback" not in broker.log()


def test_many_small_messages_of_a_client_are_taken(broker: BrokerProcess) -> None:
    """100 messages of 20 bytes are not an attack, even in one packet: the first is refused for its content."""
    assert b"too many small frames" not in asyncio.run(answer(broker.port, frame(2, bytes(14)) * 100))
