"""Readers that are too slow, disks that are full, frames that are none: others do not suffer."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import connect as open_socket
from websockets.exceptions import ConnectionClosed

import tamis
from tamis.errors import RefusedError
from tamis.node import stream
from tamis.node.effects import Persist
from tamis.node.frames import Frame, decode_frame, encode_frame
from tamis.routing import messages as m
from tamis.routing.edge.requests import Accepted
from tamis.routing.edge.rights import Rights
from tamis.runtime.broker.committer import Committer
from tamis.runtime.broker.config import BrokerConfig
from tamis.runtime.broker.driver import Driver
from tamis.runtime.broker.machine import Connection
from tamis.runtime.broker.open_broker import open_broker
from tamis.runtime.broker.sessions import end_sessions
from tamis.runtime.packets import join_frames, split_frames
from tamis.runtime.stores.sqlite_store import SqliteStore
from tests.server.processes import HANGS, BrokerProcess, ask, running


def run(story: Any) -> Any:
    return asyncio.run(asyncio.wait_for(story, HANGS))


def test_a_slow_reader_is_suspended_and_told_what_it_missed(tmp_path: Path) -> None:
    config = f'data = "{tmp_path / "data"}"\nmax_backlog = 50'

    async def story(broker: BrokerProcess) -> None:
        async with tamis.connect(broker.url, client="slow") as slow, tamis.connect(broker.url) as quick:
            lazy, keen = await slow.subscribe("n >= 0"), await quick.subscribe("n >= 0")
            got: list[int] = []
            for start in range(0, 200, 40):  # the keen one keeps up
                await quick.publish([{"n": n} for n in range(start, start + 40)])
                for _ in range(40):
                    delivery = await anext(keen)
                    got.append(delivery.event["n"])
                    await delivery.ack()
            assert got == list(range(200))
            assert ask(f"{broker.url}/v1/statistics").json["now"]["suspended"] == 1
            late = []
            for _ in range(50):
                delivery = await anext(lazy)
                late.append(delivery.event["n"])
                await delivery.ack()
            assert late == list(range(50))
            while not lazy.missed:
                await asyncio.sleep(0.02)
            assert lazy.missed == 150
            await quick.publish({"n": 1_000})
            assert (await anext(lazy)).event["n"] == 1_000
            assert ask(f"{broker.url}/v1/statistics").json["totals"]["missed"] == 150

    with running(BrokerProcess(tmp_path, config)) as (broker,):
        run(story(broker))


def test_a_stream_shows_the_gap(tmp_path: Path) -> None:
    config = f'data = "{tmp_path / "data"}"\nmax_backlog = 5'
    with running(BrokerProcess(tmp_path, config)) as (broker,):
        ask(f"{broker.url}/v1/subscriptions", "POST", {"filter": "n >= 0", "id": "s"})
        ask(f"{broker.url}/v1/events", "POST", [{"n": n} for n in range(8)])
        body = ask(f"{broker.url}/v1/subscriptions/s/events?limit=6&ack=auto").body.decode()
        assert body.count("data: ") == 6
        assert 'event: gap\ndata: {"gap":{"first":"http:local@broker:' in body
        assert '"count":3}' in body


RIGHTS = Rights("local")


async def publish(driver: Driver, *numbers: int) -> tuple[m.EventId, ...]:
    verdict = await driver.publish([{"n": n} for n in numbers], "default", RIGHTS, "test")
    assert isinstance(verdict, Accepted)
    return verdict.ids


async def opened(directory: Path, **fields: Any) -> Driver:
    driver = open_broker(BrokerConfig(data=str(directory), **fields))
    await driver.start()
    return driver


def test_what_waits_for_long_is_on_disk_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "KEPT", 10)

    async def story() -> None:
        driver = await opened(tmp_path)
        subscription = m.Subscribe("s", b'{"op":">=","args":[{"property":"n"},0]}')
        await driver.subscribe([("c:local:x", subscription)], RIGHTS)
        await publish(driver, *range(100))
        outbox = driver.machine.node.ends["c:local:x"].outbox
        assert [number for number in range(1, 101) if outbox.find(number) is not None] == list(range(91, 101))
        connection = Connection("c:local:x", RIGHTS)
        driver.machine.connect(connection)
        seen: list[int] = []
        while len(seen) < 100:
            packet = await driver.next_packet(connection)
            messages = [m.decode(body, "x") for body in bodies_of(packet or b"")]
            seen += [message.event.id.seq for message in messages if isinstance(message, m.Delivery)]
        assert seen == list(range(1, 101))
        await driver.stop()
        again = await opened(tmp_path)
        restored = again.machine.node.ends["c:local:x"].outbox
        assert (len(restored), restored.bytes_in_memory) == (100, 0)
        await again.stop()

    run(story())


def test_copies_of_a_large_request_are_on_disk_when_it_is_confirmed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request of many steps is answered when its last step is on disk, however slow the disk is."""
    put = Committer.put

    def put_slowly(committer: Committer, changes: list[Persist], then: Callable[[], None]) -> None:
        put(committer, changes, lambda: asyncio.get_running_loop().call_later(0.02, then))

    async def story() -> None:
        driver = await opened(tmp_path)
        subscription = m.Subscribe("s", b'{"op":">=","args":[{"property":"n"},0]}')
        await driver.subscribe([("c:local:x", subscription)], RIGHTS)
        monkeypatch.setattr(Committer, "put", put_slowly)
        await publish(driver, *range(1_000))
        assert driver.machine.committed("c:local:x").sent == driver.machine.node.ends["c:local:x"].outbox.last == 1_000
        await driver.stop()

    run(story())


def test_work_whose_caller_has_left_ends(tmp_path: Path) -> None:
    async def story() -> None:
        driver = await opened(tmp_path)
        for name, durable in (("passing", b'{"durable":false}'), ("lasting", b"{}")):
            subscription = m.Subscribe("s", b'{"op":">=","args":[{"property":"n"},0]}', about=durable)
            link = f"c:local:{name}"
            await driver.subscribe([(link, subscription)], RIGHTS)
        await publish(driver, 1)
        watched = driver.watch("c:local:passing")
        ending = asyncio.create_task(end_sessions(driver, retention=0.0, grace=0.0, look=0.01))
        await asyncio.sleep(0.1)
        assert len(driver.view.subscriptions) == 2  # a reader is connected
        driver.unwatch("c:local:passing", watched)
        while "c:local:passing" in driver.view.links:
            await asyncio.sleep(0.01)
        ending.cancel()
        await driver.stop()
        again = SqliteStore(tmp_path)
        stored = again.load()
        of_links = {key[1] for key in stored if len(key) > 1 and key[0] != "types"}  # types belong to a namespace
        assert of_links == {"c:local:lasting"}
        assert again.read_outbox("c:local:passing", 0) == []
        again.close()

    run(story())


def bodies_of(packet: bytes) -> list[bytes]:
    frames = [decode_frame(data, "x") for data in split_frames(packet, "x")]
    return [frame.body for frame in frames if frame.seq]


def test_a_full_disk_refuses_events_and_goes_on_when_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        driver = await opened(tmp_path)
        await publish(driver, 1)
        monkeypatch.setattr(driver._store, "free", lambda: 0)
        driver._room._last_look = (0.0, True)
        with pytest.raises(tamis.TamisError, match="full"):
            await publish(driver, 1)
        monkeypatch.undo()
        driver._room._last_look = (0.0, True)
        assert len(await publish(driver, 1)) == 1
        await driver.stop()

    run(story())


def test_a_commit_that_finds_the_disk_full_is_tried_until_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        driver = await opened(tmp_path)
        real, failures = driver._store.commit, iter(range(3))

        def commit(*arguments: Any, **named: Any) -> None:
            if next(failures, None) is not None:
                raise tamis.errors.DiskFullError("here")
            real(*arguments, **named)

        monkeypatch.setattr(driver._store, "commit", commit)
        assert len(await publish(driver, 1)) == 1
        assert not driver.committer.is_full
        await driver.stop()

    run(story())


def test_a_disk_that_fails_ends_the_broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        driver = await opened(tmp_path)

        def commit(*arguments: Any, **named: Any) -> None:
            raise tamis.errors.StoreError("here", "the disk does not answer")

        monkeypatch.setattr(driver._store, "commit", commit)
        waiting = asyncio.create_task(publish(driver, 1))
        assert driver.failed is not None
        with pytest.raises(tamis.errors.StoreError, match="the disk does not answer"):
            await driver.failed
        waiting.cancel()
        await driver.stop()

    run(story())


def packets(rng: random.Random) -> bytes:
    """Something that may look like a packet."""
    good = m.encode(m.Subscribe("f", b'{"op":"=","args":[{"property":"a"},1]}'))
    body = rng.choice([good, m.encode(m.Confirm(3)), m.encode(m.Update(1, replace=True)), rng.randbytes(20), b""])
    frame = encode_frame(
        Frame(rng.choice([1, 0, 2**40]), rng.choice([0, 1, 2**50]), rng.randrange(3), rng.randrange(5), body)
    )
    packet = bytearray(join_frames([frame] * rng.randrange(1, 3)))
    for _ in range(rng.randrange(4)):
        packet[rng.randrange(len(packet))] = rng.randrange(256)
    return bytes(packet[: rng.randrange(len(packet) + 1)] if rng.random() < 0.3 else packet)


async def fuzz(broker: BrokerProcess, count: int, seed: int) -> None:
    rng = random.Random(seed)
    left = count
    while left:
        url = f"ws://127.0.0.1:{broker.port}/v1/connect?client=fuzz"
        async with open_socket(url, proxy=None) as socket:
            try:
                while left:
                    left -= 1
                    await socket.send(packets(rng) if rng.random() < 0.97 else "text")
            except ConnectionClosed:
                continue


@pytest.mark.parametrize("count", [400, pytest.param(200_000, marks=pytest.mark.soak, id="soak-server")])
def test_invalid_frames_harm_no_other_client(broker: BrokerProcess, count: int) -> None:
    async def story() -> None:
        async with tamis.connect(broker.url) as client:
            subscription = await client.subscribe("fuzzed >= 0")
            await fuzz(broker, count, seed=3)
            await client.publish({"fuzzed": 1})
            assert (await anext(subscription)).event == {"fuzzed": 1}

    asyncio.run(asyncio.wait_for(story(), HANGS if count < 1_000 else 2_000))
    assert "Traceback" not in broker.log()


async def send_and_read(socket: Any, packet: bytes) -> None:
    await socket.send(packet)
    while True:
        await socket.recv()


def test_a_packet_that_is_too_large_ends_its_connection(broker: BrokerProcess) -> None:
    async def story() -> None:
        url = f"ws://127.0.0.1:{broker.port}/v1/connect?client=large"
        async with open_socket(url, proxy=None) as socket:
            with pytest.raises(ConnectionClosed, match="message too big"):
                await send_and_read(socket, bytes(5 * 1024 * 1024))

    run(story())
    assert ask(f"{broker.url}/healthz").status == 200


def test_the_newer_connection_of_a_client_takes_the_place_of_the_older(broker: BrokerProcess) -> None:
    async def story() -> None:
        async with tamis.connect(broker.url, client="one") as first:
            waiting = await first.subscribe("a = 1")
            async with tamis.connect(broker.url, client="one") as second:
                with pytest.raises(RefusedError, match="took its place"):
                    await anext(waiting)
                await second.publish({"a": 2})

    run(story())
