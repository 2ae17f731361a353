"""The wire breaks between what a client said and the answer: a publish is never taken for accepted that was refused."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import tamis
from tamis.errors import RefusedError
from tamis.node.effects import Persist
from tamis.routing import messages as m
from tamis.routing.edge.refusals import MESSAGES, Refusals
from tamis.runtime.client.client import Client
from tamis.runtime.stores.sqlite_store import SqliteStore
from tests.server.cutting import Cutter
from tests.server.processes import HANGS, BrokerProcess, running


def run(story: Any) -> Any:
    return asyncio.run(asyncio.wait_for(story, HANGS))


async def learn(client: Client) -> None:
    """Let the broker know that ``typed`` is a number that a filter names, so that text is refused."""
    await client.subscribe("typed > 1000", id="asks")
    await client.publish({"typed": 1})


def test_a_refusal_that_is_lost_with_its_connection_arrives_on_the_next(broker: BrokerProcess) -> None:
    async def story() -> None:
        async with Cutter(broker.port) as wire, tamis.connect(wire.url, client="cut") as client:
            await learn(client)
            subscription = await client.subscribe("typed >= 100", id="s")
            wire.cut_next()
            with pytest.raises(RefusedError, match="typed"):
                await client.publish([{"typed": 100}, {"typed": "text"}, {"typed": 101}])
            assert wire.cuts == 1
            assert b"typed" in wire.lost  # it was this very answer
            wire.cut_next()
            await client.publish([{"typed": 102}, {"typed": 103}])  # accepted, and the answer lost
            assert wire.cuts == 2
            got = [(await anext(subscription)).event["typed"] for _ in range(4)]
            assert got == [100, 101, 102, 103]  # the others of a message are taken, once

    run(story())


def test_a_refusal_survives_the_broker(tmp_path: Path) -> None:
    """Killed after the commit and before the answer: the acknowledgement comes back from disk, the refusal with it."""

    async def story(broker: BrokerProcess) -> None:
        async def restart() -> None:
            await asyncio.to_thread(broker.kill)
            broker.start()
            await asyncio.to_thread(broker.wait_until_ready)

        async with Cutter(broker.port) as wire, tamis.connect(wire.url, client="cut") as client:
            await learn(client)
            wire.cut_next(restart)
            with pytest.raises(RefusedError, match="typed"):
                await client.publish({"typed": "text"})
            assert wire.cuts == 1
            await client.publish({"typed": 2})

    with running(BrokerProcess(tmp_path)) as (broker,):
        run(story(broker))


def test_refusals_of_a_former_life_of_a_client_are_not_of_this_one(broker: BrokerProcess) -> None:
    async def story() -> None:
        for _ in range(2):
            async with tamis.connect(broker.url, client="reborn") as client:
                await learn(client)  # event 1 of each life; event 2 is refused in each
                with pytest.raises(RefusedError, match="attribute 'typed': expected a number"):
                    await client.publish({"typed": "text"})
        async with tamis.connect(broker.url, client="reborn") as client:
            await client.publish([{"typed": 1}, {"typed": 2}, {"typed": 3}])

    run(story())


def test_an_unsubscribe_whose_answer_is_lost_ends(broker: BrokerProcess) -> None:
    async def story() -> None:
        async with Cutter(broker.port) as wire, tamis.connect(wire.url, client="leaver") as client:
            for durable in (False, True):
                await client.subscribe("left >= 0", id="s", durable=durable)
                wire.cut_next()
                await client.unsubscribe("s")
            assert wire.cuts == 2

    run(story())


def test_refusals_are_kept_as_long_as_they_can_be_missed() -> None:
    refusals, disk = Refusals(), dict[Any, bytes]()

    def keep(number: int, *seqs: int) -> None:
        words = [m.Refusal(f"event 1 {seq}", "r" * 10_000, m.EventId("", 1, seq)) for seq in seqs]
        for effect in refusals.keep("c", number, words):
            assert isinstance(effect, Persist)
            disk[effect.key] = effect.value or b""
            if effect.value is None:
                del disk[effect.key]

    keep(5, 1, 2)
    keep(6)
    keep(7, 9)
    assert [refusal.event.seq for refusal in refusals.upto("c", 6) if refusal.event] == [1, 2]
    assert [refusal.event.seq for refusal in refusals.upto("c", 7) if refusal.event] == [1, 2, 9]
    assert all(len(refusal.reason) <= 100 for refusal in refusals.upto("c", 7))
    again = Refusals()
    again.restore(disk)
    assert again.upto("c", 7) == refusals.upto("c", 7)
    keep(5 + MESSAGES - 1)
    assert len(disk) == 2
    keep(5 + MESSAGES)
    assert len(disk) == 1  # the sender of this had received message 5
    assert again.upto("c", 5)
    assert not refusals.upto("c", 5)
    for effect in refusals.forget("c"):
        del disk[effect.key]
    assert not disk
    assert not refusals.upto("c", 99)


def test_what_a_client_that_left_was_refused_is_forgotten(tmp_path: Path) -> None:
    from tamis.routing.edge.rights import Rights
    from tamis.runtime.broker.config import BrokerConfig
    from tamis.runtime.broker.machine import Connection
    from tamis.runtime.broker.open_broker import open_broker
    from tamis.runtime.client.client_link import ClientLink, Outgoing

    async def story() -> None:
        driver = open_broker(BrokerConfig(data=str(tmp_path)))
        await driver.start()
        link, connection = ClientLink("x"), Connection("c:local:x", Rights("local"))
        driver.machine.connect(connection)
        driver.machine.receive(connection, link.greeting())
        while not link.is_up:
            link.take(await driver.next_packet(connection) or b"")
        bad = m.Published(m.EventId("", 1, 1), "default", b"none")
        link.unsent.append(Outgoing(m.encode(m.PublishBatch((bad,))), lambda: None))
        driver.machine.receive(connection, link.packet() or b"")
        while not driver.machine.node.core.refusals.upto("c:local:x", driver.machine.committed("c:local:x").received):
            await asyncio.sleep(0.01)
        driver.machine.disconnect(connection)
        await driver.forget("c:local:x")
        await driver.stop()

    run(story())
    store = SqliteStore(tmp_path)
    assert not [key for key in store.load() if key[0] == "refused"]
    store.close()
