"""Three brokers in a line are killed again and again while events flow: nothing is lost, nothing comes twice."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

import tamis
from tamis.runtime.client.client import Client
from tamis.runtime.client.deliveries import ClientSubscription
from tests.server.processes import HANGS, BrokerProcess, a_line, running

#: What each subscriber asks for, and what an event must have for it.
QUESTIONS = {"all": ("n >= 0", lambda event: True), "strong": ("mag >= 7", lambda event: event["mag"] >= 7)}

Got = dict[tuple[str, str], list[tuple[str, int]]]


@pytest.mark.slow
def test_brokers_that_are_killed_lose_nothing(tmp_path: Path) -> None:
    with running(*a_line(tmp_path)) as brokers:
        asyncio.run(chaos(brokers, kills=5, seed=1))


@pytest.mark.soak
@pytest.mark.parametrize("part", range(10))
def test_soak_server_brokers_that_are_killed_a_hundred_times_lose_nothing(tmp_path: Path, part: int) -> None:
    """Ten times ten kills of each broker, so that a part can be run by itself."""
    with running(*a_line(tmp_path)) as brokers:
        asyncio.run(chaos(brokers, kills=10, seed=2 + part))


async def chaos(brokers: tuple[BrokerProcess, ...], *, kills: int, seed: int) -> None:
    rng = random.Random(seed)
    clients = {f"{broker.directory.name}": tamis.connect(broker.url, client="c", timeout=HANGS) for broker in brokers}
    opened: dict[str, Client] = {name: await client.__aenter__() for name, client in clients.items()}
    got: Got = {}
    readers = []
    for name, client in opened.items():
        for id, (text, _) in QUESTIONS.items():
            subscription = await client.subscribe(text, id=id, durable=True)
            readers.append(asyncio.create_task(read(subscription, got.setdefault((name, id), []))))
    done = asyncio.Event()
    published: dict[str, list[dict[str, int]]] = {name: [] for name in opened}
    writers = [asyncio.create_task(write(opened[name], published[name], done)) for name in opened]
    for _ in range(kills):
        before = {name: len(events) for name, events in published.items()}
        await asyncio.gather(*(strike(broker, rng.uniform(0, 1.5)) for broker in brokers))
        async with asyncio.timeout(HANGS):  # every client publishes on before the next blow
            while any(len(published[name]) <= before[name] for name in before):
                await asyncio.sleep(0.02)
    done.set()
    await asyncio.gather(*writers)
    wanted = {
        place: {
            (name, event["n"])
            for name, events in published.items()
            for event in events
            if QUESTIONS[place[1]][1](event)
        }
        for place in got
    }
    async with asyncio.timeout(HANGS):
        while any(len(got[place]) < len(wanted[place]) for place in got):
            await asyncio.sleep(0.02)
    for place, received in got.items():
        assert len(received) == len(set(received)), f"{place} got something twice"
        assert set(received) == wanted[place]
        for name in published:
            numbers = [n for source, n in received if source == name]
            assert numbers == sorted(numbers), f"{place} got events of {name} out of order"
    print(
        f"{kills} kills of each: {sum(map(len, published.values())):,} events, {sum(map(len, got.values())):,} copies"
    )
    for reader in readers:
        reader.cancel()
    for client in clients.values():
        await client.__aexit__(None, None, None)


async def strike(broker: BrokerProcess, delay: float) -> None:
    """Kill a broker at some moment while the others run, or are being killed, too; and start it again."""
    await asyncio.sleep(delay)
    await asyncio.to_thread(broker.kill)
    broker.start()
    await asyncio.to_thread(broker.wait_until_ready)


async def write(client: Client, published: list[dict[str, int]], done: asyncio.Event) -> None:
    n = 0
    while not done.is_set():
        batch = [{"mag": (n + i) % 10, "n": n + i} for i in range(5)]
        await client.publish(batch)
        published.extend(batch)
        n += 5
        await asyncio.sleep(0.005)


async def read(subscription: ClientSubscription, events: list[tuple[str, int]]) -> None:
    async for delivery in subscription:
        publisher = delivery.id.rsplit(":", 2)[0]  # c:local:c@a
        events.append((publisher.rsplit("@", 1)[1], delivery.event["n"]))
        await delivery.ack()
