"""A client that stops reading is cut off after the deadline, and no other client notices (promise S20)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import connect as open_socket
from websockets.exceptions import ConnectionClosed

import tamis
from tamis.node.frames import Frame, encode_frame
from tamis.runtime.broker.config import BrokerConfig
from tamis.runtime.broker.driver import Driver
from tamis.runtime.packets import SUBPROTOCOL, join_frames
from tamis.web.port import write_deadline
from tamis.web.serving import serve
from tests.server.processes import ask

#: More than a system buffers of a connection within one machine.
EVENTS, SIZE = 300, 100_000


@contextlib.asynccontextmanager
async def serving(directory: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[str, Driver]]:
    """Run a broker in this process, whose readers have half a second."""
    monkeypatch.setattr(write_deadline, "WRITE_DEADLINE", 0.5)
    drivers: list[Driver] = []
    start = Driver.start

    async def started(self: Driver) -> None:
        drivers.append(self)
        await start(self)

    monkeypatch.setattr(Driver, "start", started)
    url: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    running = asyncio.create_task(serve(BrokerConfig(data=str(directory), port=0), url.set_result))
    try:
        await asyncio.wait([running, url], return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            running.result()  # why it did not start
        yield url.result(), drivers[0]
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def until(look: Any) -> None:
    async with asyncio.timeout(300):  # a guard against a hang, no verdict
        while not look():
            await asyncio.sleep(0.01)


async def ask_much(url: str) -> None:
    """Let a client named stuck subscribe to large events, and leave; then publish many of them."""
    async with tamis.connect(url, client="stuck") as client:
        await client.subscribe("large IS NOT NULL", id="s", durable=True)
    await publish_much(url)


async def publish_much(url: str) -> None:
    async with tamis.connect(url, client="publisher") as client:
        for n in range(EVENTS):
            await client.publish({"large": "x" * SIZE, "n": n})


async def is_served(url: str) -> None:
    """Others are served as if nothing were."""
    async with tamis.connect(url, client="other") as other:
        small = await other.subscribe("small >= 0")
        for n in range(20):
            await other.publish({"small": n})
            assert (await anext(small)).event == {"small": n}


def test_a_client_that_does_not_read_is_cut_off_and_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with serving(tmp_path, monkeypatch) as (url, driver):
            await ask_much(url)
            address = f"{url.replace('http', 'ws')}/v1/connect?client=stuck"
            async with open_socket(address, subprotocols=[SUBPROTOCOL], max_queue=1, proxy=None) as socket:
                await socket.send(join_frames([encode_frame(Frame(1, driver.view.epoch, 0, 0))]))
                await until(lambda: driver.machine.connections["c:local:stuck"].wire.written > 0)
                await is_served(url)
                await until(lambda: "c:local:stuck" not in driver.view.connected)
                got = 0
                with contextlib.suppress(ConnectionClosed):
                    while True:
                        got += len(await socket.recv())
            assert 0 < got < EVENTS * SIZE
            await is_served(url)
            assert driver.view.waiting_for("c:local:stuck") == EVENTS  # nothing counts as read

    asyncio.run(story())


def test_a_stream_without_a_reader_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with serving(tmp_path, monkeypatch) as (url, driver):
            subscription = {"filter": "large IS NOT NULL", "id": "s"}
            await asyncio.to_thread(ask, f"{url}/v1/subscriptions", "POST", subscription)
            await publish_much(url)
            reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rsplit(":", 1)[1]), limit=1_024)
            writer.write(b"GET /v1/subscriptions/s/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            link = 's:default:"s"'
            await until(lambda: driver.is_attended(link))
            await is_served(url)
            await until(lambda: not driver.is_attended(link))
            got = 0
            with contextlib.suppress(ConnectionError):
                while data := await reader.read(1 << 20):
                    got += len(data)
            writer.close()
            assert 0 < got < EVENTS * SIZE
            await is_served(url)

    asyncio.run(story())
