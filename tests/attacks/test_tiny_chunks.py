"""Attack: a body in chunks of one byte: 15,000 of them, 90 KB, held the loop for 0.2 s."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tamis.routing.edge.limits import MAX_SMALL_CHUNKS
from tests.attacks.stalls import watched_broker
from tests.attacks.wire import HANGS
from tests.server.processes import BrokerProcess

HEAD = (
    b"POST /v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n"
    b"Content-Type: application/x-ndjson\r\n"
)

#: Units of CPU time, about 5 ms each, that one step of the loop may take: 50 ms. These chunks took 40.
MOST_UNITS = 10.0


#: Ways to write the size of a chunk, all of them valid.
SIZES = {
    "plain": b"%x",
    "padded with zeros": b"%016x",
    "before spaces": b"%x  ",
    "before a tab": b"%x\t",
    "with an extension": b"%x;a=b",
}


def chunked(*parts: bytes, size: bytes = SIZES["plain"]) -> bytes:
    chunks = (size % len(part) + b"\r\n" + part + b"\r\n" for part in (*parts, b""))
    return HEAD + b"\r\n" + b"".join(chunks)


async def answer(port: int, request: bytes) -> bytes:
    """Send bytes and return what comes, up to the end of one answer or of the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(request)
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), HANGS)
        return head + await asyncio.wait_for(reader.read(65_536), HANGS)
    finally:
        writer.close()


def test_chunks_of_one_byte_do_not_hold_the_loop(tmp_path: Path) -> None:
    lines = [b'{"n": 1}\n'] * 100

    async def story() -> tuple[dict[str, float], list[bytes]]:
        units, answers = {}, []
        async with watched_broker(tmp_path) as watched:
            port = int(watched.url.rpartition(":")[2])
            await answer(port, chunked(*lines))  # imports
            for name, size in SIZES.items():
                watched.reset()
                answers.append(await answer(port, chunked(*[b" "] * 15_000, *lines, size=size)))
                units[name] = watched.units()
        return units, answers

    units, answers = asyncio.run(story())
    assert all(b'"accepted":100' in taken for taken in answers)
    assert max(units.values()) < MOST_UNITS, units


@pytest.mark.parametrize("form", SIZES)
def test_chunks_without_number_are_refused(broker: BrokerProcess, form: str) -> None:
    endless = chunked(*[b" "] * (MAX_SMALL_CHUNKS + 10_000), size=SIZES[form])
    try:
        refusal = asyncio.run(answer(broker.port, endless))
    except (ConnectionError, asyncio.IncompleteReadError):  # it was closed while bytes were under way
        refusal = b"HTTP/1.1 400"
    assert refusal.startswith(b"HTTP/1.1 400")
    assert b'"accepted":1,' in asyncio.run(answer(broker.port, chunked(b'{"n": 2}')))


def test_an_event_in_each_chunk_is_taken_whatever_the_chunks_are(broker: BrokerProcess) -> None:
    """As clients send the lines of a generator: ten thousand events, and another request right behind them."""
    lines = [b'{"n": %d}\r\n' % number for number in range(9_999)]
    body = chunked(*lines, b'{"text": "a"}\n') + chunked(b'{"n": 1}')

    async def story() -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", broker.port)
        writer.write(body)
        answers = b""
        while answers.count(b'"accepted"') < 2:
            piece = await asyncio.wait_for(reader.read(1 << 20), HANGS)
            assert piece
            answers += piece
        writer.close()
        return answers

    answers = asyncio.run(story())
    assert b'"accepted":10000' in answers
    assert b'"accepted":1,' in answers
