"""M1: pages of the file are overwritten while the broker runs: the first reader makes it stop and say why (G14)."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import apsw
import pytest

import tamis
from tamis.errors import TamisError
from tests.server.processes import HANGS, BrokerProcess, a_line, ask, running, wait_until

#: More than stays in memory for a link.
EVENTS = [{"n": n, "text": "x" * 200_000} for n in range(12)]


def overwrite(data: Path) -> None:
    """Write nonsense over the second half of the file, in which the events are."""
    file = data / "broker.sqlite"
    with contextlib.closing(apsw.Connection(str(file))) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    size = file.stat().st_size
    assert size > 2_000_000
    with file.open("r+b") as opened:
        opened.seek(size // 2 // 4096 * 4096)
        opened.write(b"\xa5" * (size // 2))


def read_by_http(broker: BrokerProcess) -> None:
    after = ""
    with contextlib.suppress(OSError):  # it stops, before or after it has answered
        while (page := ask(f"{broker.url}/v1/subscriptions/s/log{after}")).status == 200:
            assert page.json["messages"]
            after = f"?after={page.json['next']}"


def read_by_socket(broker: BrokerProcess) -> None:
    """Read until the broker has stopped; its client would wait for it to come back."""

    async def read() -> None:
        async with tamis.connect(broker.url, client="reader") as client:
            subscription = await client.subscribe("n >= 0", id="w")
            async for delivery in subscription:
                await delivery.ack()

    async def story() -> None:
        reading = asyncio.create_task(read())
        while broker.process is not None and broker.process.poll() is None:
            await asyncio.sleep(0.05)
        reading.cancel()
        with contextlib.suppress(asyncio.CancelledError, TamisError):
            await reading

    asyncio.run(asyncio.wait_for(story(), HANGS))


def prepare_socket(broker: BrokerProcess) -> None:
    async def story() -> None:
        async with tamis.connect(broker.url, client="reader") as client:
            await client.subscribe("n >= 0", id="w")

    asyncio.run(story())


def assert_stops(broker: BrokerProcess) -> None:
    assert broker.process is not None
    wait_until(lambda: broker.process is not None and broker.process.poll() is not None, "the end of the broker")
    log = broker.log()
    assert broker.process.returncode == 2, log
    assert "broker.sqlite: " in log
    assert "is damaged" in log or "malformed" in log or "CorruptError" in log
    assert "Traceback" not in log


@pytest.mark.parametrize("door", ["http", "websocket"])
def test_the_broker_stops_at_the_first_reader_of_a_damaged_page(tmp_path: Path, door: str) -> None:
    broker = BrokerProcess(tmp_path)
    with running(broker):
        assert ask(f"{broker.url}/v1/subscriptions", "POST", {"filter": "n >= 0", "id": "s"}).status == 201
        prepare_socket(broker)
        for event in EVENTS:
            assert ask(f"{broker.url}/v1/events", "POST", event).status in (200, 201, 202)
        overwrite(tmp_path / "data")
        (read_by_http if door == "http" else read_by_socket)(broker)
        assert_stops(broker)


def test_the_broker_stops_when_a_link_reads(tmp_path: Path) -> None:
    schema = '{"attributes": {"n": {"type": "number"}, "text": {"type": "string"}}}'
    with running(*a_line(tmp_path, "ab", schema)) as (a, b):
        assert ask(f"{a.url}/v1/subscriptions", "POST", {"filter": "n >= 0", "id": "s"}).status == 201
        wait_until(lambda: ask(f"{a.url}/v1/subscriptions/s").json["state"] == "active", "the subscription")
        a.stop()
        for event in EVENTS:
            assert ask(f"{b.url}/v1/events", "POST", event).status in (200, 201, 202)
        overwrite(b.directory / "data")
        a.start()
        assert_stops(b)
