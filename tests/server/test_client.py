"""`tamis.connect`: publish, subscribe, acknowledge, come back, read again."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shapely

import tamis
from tamis.errors import (
    ConnectionLostError,
    EventError,
    ModelError,
    RefusedError,
    SubscriptionSyntaxError,
    UnknownSubscriptionError,
)
from tamis.runtime.client.deliveries import ClientDelivery, ClientSubscription
from tests.server.processes import HANGS, BrokerProcess, ReservedPort, ask, running, wait_until


def run(story: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(story, HANGS))


async def take(subscription: ClientSubscription, count: int, *, ack: bool = True) -> list[ClientDelivery]:
    deliveries: list[ClientDelivery] = []
    async for delivery in subscription:
        deliveries.append(delivery)
        if ack:
            await delivery.ack()
        if len(deliveries) == count:
            break
    return deliveries


async def acknowledged(broker: BrokerProcess, client: Any, name: str, id: str) -> None:
    """Wait until the broker has what a client acknowledged."""
    url = f"{broker.url}/v1/subscriptions/{id}/log?client={name}&limit=0"
    await asyncio.to_thread(
        wait_until, lambda: ask(url).json["acknowledged"] == client.cursor, f"the acknowledgement of {client.cursor}"
    )


def events_of(deliveries: list[ClientDelivery]) -> list[dict[str, Any]]:
    return [delivery.event for delivery in deliveries]


def test_publish_and_subscribe(broker: BrokerProcess) -> None:
    async def story() -> None:
        async with tamis.connect(broker.url) as client:
            strong = await client.subscribe("mag >= 5", id="strong")
            all_of_them = await client.subscribe("mag >= 0", id="all")
            await client.publish({"mag": 6})
            await client.publish([{"mag": np.float64(4.5)}, {"mag": 7}])
            assert events_of(await take(strong, 2)) == [{"mag": 6}, {"mag": 7}]
            both = [set(delivery.subscriptions) for delivery in await take(all_of_them, 3)]
            assert both == [{"all", "strong"}, {"all"}, {"all", "strong"}]

    run(story())


def test_a_filter_is_changed_and_its_iterator_goes_on(broker: BrokerProcess) -> None:
    async def story() -> None:
        async with tamis.connect(broker.url, client="mover") as client:
            subscription = await client.subscribe(
                "moved BETWEEN 0 AND 10", id="moving", durable=True, metadata={"a": "b"}
            )
            await client.publish({"moved": 3})
            await client.update("moving", "moved BETWEEN 5 AND 15")
            await client.publish([{"moved": 4}, {"moved": 12}])
            assert events_of(await take(subscription, 2)) == [{"moved": 3}, {"moved": 12}]
            with pytest.raises(RefusedError, match="moved"):
                await client.update("moving", "moved > 'text'")
            with pytest.raises(SubscriptionSyntaxError):
                await client.update("moving", "moved >")
            await client.publish([{"moved": 4}, {"moved": 13}])  # what held before the refusal holds on
            assert events_of(await take(subscription, 1)) == [{"moved": 13}]
            await asyncio.gather(*(client.update("moving", f"moved > {n}") for n in range(20, 40)))
            shown = ask(f"{broker.url}/v1/subscriptions/moving?client=mover").json
            assert (shown["filter"], shown["metadata"]) == ("moved > 39", {"a": "b"})
            with pytest.raises(UnknownSubscriptionError):
                await client.update("other", "moved > 1")
            put = ask(f"{broker.url}/v1/subscriptions/moving?client=mover", "PUT", {"filter": "moved > 1"})
            assert (put.status, "client.update()" in put.json["error"]) == (409, True)

    run(story())


def test_each_subscription_shows_its_own_fields(broker: BrokerProcess) -> None:
    async def story() -> None:
        async with tamis.connect(broker.url) as client:
            narrow = await client.subscribe("wide > 0", id="one", fields=["wide"])
            other = await client.subscribe("wide > 1", id="other", fields=["place"])
            await client.publish([{"wide": 1, "place": "a", "rest": 1}, {"wide": 2, "place": "b", "rest": 2}])
            assert events_of(await take(narrow, 2)) == [{"wide": 1}, {"wide": 2}]
            assert events_of(await take(other, 1)) == [{"place": "b"}]
            with pytest.raises(ModelError, match="a list of names"):
                await client.subscribe("wide > 0", fields="wide")

    run(story())


def test_events_of_many_tasks_travel_together_and_in_order(broker: BrokerProcess) -> None:
    async def story() -> None:
        async with tamis.connect(broker.url) as client:
            subscription = await client.subscribe("batched >= 0")
            await asyncio.gather(*(client.publish([{"batched": n, "k": k} for k in range(20)]) for n in range(50)))
            got = events_of(await take(subscription, 1000))
            assert got == [{"batched": n, "k": k} for n in range(50) for k in range(20)]

    run(story())


def test_values_are_read_as_their_types_say(broker: BrokerProcess) -> None:
    async def story() -> None:
        async with tamis.connect(broker.url) as client:
            subscription = await client.subscribe(
                "at >= TIMESTAMP('2026-01-01T00:00:00Z') AND S_INTERSECTS(area, BBOX(1, 1, 3, 3))"
            )
            moment = dt.datetime(2026, 5, 1, 12, tzinfo=dt.UTC)
            await client.publish({"at": moment, "area": shapely.box(0, 0, 2, 2), "new": "name"})
            event = (await anext(subscription)).event
            assert (event["at"], event["new"]) == ("2026-05-01T12:00:00Z", "name")
            assert shapely.from_wkt(event["area"]).equals(shapely.box(0, 0, 2, 2))

    run(story())


def test_many_subscriptions_at_once(broker: BrokerProcess) -> None:
    async def story() -> None:
        async with tamis.connect(broker.url) as client:
            many = await asyncio.gather(*(client.subscribe(f"many = {i}", id=i) for i in range(300)))
            await client.publish([{"many": i} for i in (7, 299)])
            assert events_of([await anext(many[299]), await anext(many[7])]) == [{"many": 299}, {"many": 7}]

    run(story())


def test_what_is_durable_waits_for_its_client(broker: BrokerProcess) -> None:
    async def story() -> None:
        async with tamis.connect(broker.url, client="sleeper") as client:
            subscription = await client.subscribe("sleep >= 0", id="s", durable=True)
            await client.publish([{"sleep": i} for i in range(10)])
            await take(subscription, 4)
            await take(subscription, 2, ack=False)
            await acknowledged(broker, client, "sleeper", "s")
        async with tamis.connect(broker.url) as other:
            await other.publish([{"sleep": i} for i in range(10, 13)])
        async with tamis.connect(broker.url, client="sleeper") as client:
            subscription = await client.subscribe("sleep >= 0", id="s", durable=True)
            assert events_of(await take(subscription, 9)) == [{"sleep": i} for i in range(4, 13)]
            await client.unsubscribe("s")
        assert ask(f"{broker.url}/v1/subscriptions?search=sleep").json["subscriptions"] == []

    run(story())


def test_a_cursor_file_keeps_a_client_from_reading_twice(broker: BrokerProcess, tmp_path: Path) -> None:
    async def story() -> None:
        file = tmp_path / "place"
        async with tamis.connect(broker.url, client="filed", cursor_file=file) as client:
            subscription = await client.subscribe("filed >= 0", id="f", durable=True)
            await client.publish([{"filed": i} for i in range(6)])
            await take(subscription, 3)
            await acknowledged(broker, client, "filed", "f")
        epoch, number = file.read_text().split("-")
        file.write_text(f"{epoch}-{int(number) + 1}")  # one more was dealt with, and its acknowledgement lost
        async with tamis.connect(broker.url, client="filed", cursor_file=file) as client:
            subscription = await client.subscribe("filed >= 0", id="f", durable=True)
            assert events_of(await take(subscription, 2)) == [{"filed": 4}, {"filed": 5}]

    run(story())


def test_what_is_retained_can_be_read_again(broker: BrokerProcess) -> None:
    async def story() -> None:
        async with tamis.connect(broker.url, client="again") as client:
            subscription = await client.subscribe("again >= 0", id="a", durable=True)
            await client.publish([{"again": i} for i in range(6)])
            first = await take(subscription, 2)
            cursor = client.cursor
            later = await take(subscription, 4)
            await acknowledged(broker, client, "again", "a")
        async with tamis.connect(broker.url, client="again", replay_after=cursor) as client:
            subscription = await client.subscribe("again >= 0", id="a", durable=True)
            repeated = await take(subscription, 4)
            assert [(delivery.id, delivery.event) for delivery in repeated] == [
                (delivery.id, delivery.event) for delivery in later
            ]
            assert first[0].id not in {delivery.id for delivery in repeated}

    run(story())


def test_an_event_comes_once_however_many_subscriptions_match(broker: BrokerProcess) -> None:
    async def story() -> None:
        async with tamis.connect(broker.url) as client:
            first_filter = await client.subscribe("twice >= 1", id=1)
            two = await client.subscribe("twice >= 2", id=2)
            await client.publish({"twice": 5})
            (first,), (second,) = await take(first_filter, 1, ack=False), await take(two, 1, ack=False)
            assert first.cursor == second.cursor
            before = client.cursor
            await first.ack()
            assert client.cursor == before  # the cursor moves when all have acknowledged
            await second.ack()
            assert client.cursor != before

    run(story())


def test_refusals_name_the_culprit(broker: BrokerProcess) -> None:
    async def story() -> None:
        async with tamis.connect(broker.url) as client:
            await client.subscribe("typed > 0")
            await client.publish({"typed": 1})
            with pytest.raises(RefusedError, match="typed"):
                await client.publish([{"typed": 2}, {"typed": "text"}, {"typed": 3}])
            with pytest.raises(EventError, match="no form on the wire"):
                await client.publish({"typed": object()})
            with pytest.raises(SubscriptionSyntaxError, match="expected a value at column 8"):
                await client.subscribe("typed >")
            with pytest.raises(RefusedError, match="typed"):
                await client.subscribe("typed = 'text'")
            await client.publish({"typed": 4})

    run(story())


def test_a_client_survives_its_broker(tmp_path: Path) -> None:
    async def story(broker: BrokerProcess) -> None:
        async with tamis.connect(broker.url, client="tough") as client:
            subscription = await client.subscribe("n >= 0", durable=True)
            passing = await client.subscribe("n >= 0")
            await client.publish({"n": 0})
            await asyncio.to_thread(broker.kill)
            waiting = asyncio.create_task(client.publish([{"n": 1}, {"n": 2}]))
            broker.start()
            await asyncio.to_thread(broker.wait_until_ready)
            await waiting
            assert events_of(await take(subscription, 3)) == [{"n": 0}, {"n": 1}, {"n": 2}]
            assert events_of(await take(passing, 3)) == [{"n": 0}, {"n": 1}, {"n": 2}]

    with running(BrokerProcess(tmp_path)) as (broker,):
        run(story(broker))


def test_a_broker_that_lost_its_disk_is_told_everything_again(tmp_path: Path) -> None:
    async def story(broker: BrokerProcess) -> None:
        async with tamis.connect(broker.url, client="patient") as client:
            subscription = await client.subscribe("n >= 0", durable=True)
            await client.publish({"n": 0})
            await take(subscription, 1)
            await asyncio.to_thread(broker.kill)
            (tmp_path / "data").rename(tmp_path / "lost")
            waiting = asyncio.create_task(client.publish({"n": 1}))
            broker.start()
            await asyncio.to_thread(broker.wait_until_ready)
            await waiting
            await client.publish({"n": 2})
            assert events_of(await take(subscription, 1))[0]["n"] in (1, 2)  # 1 may have come before the subscription

    with running(BrokerProcess(tmp_path)) as (broker,):
        run(story(broker))


def test_without_a_broker_there_is_a_clear_error() -> None:
    silent = ReservedPort()
    with (
        pytest.raises(ConnectionLostError, match="no broker answered"),
        tamis.connect(f"http://127.0.0.1:{silent.number}", timeout=0.5),
    ):
        pass


def test_the_blocking_client(broker: BrokerProcess) -> None:
    with tamis.connect(broker.url) as client:
        subscription = client.subscribe("blocking >= 2")
        client.publish([{"blocking": i} for i in range(5)])
        got = []
        for delivery in subscription:
            got.append(delivery.event["blocking"])
            delivery.ack()
            if len(got) == 3:
                break
        assert got == [2, 3, 4]
        with pytest.raises(TimeoutError):
            subscription.next(0.05)
        client.unsubscribe(subscription.id)
        assert subscription.next(5) is None
