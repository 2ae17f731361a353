"""Many subscriptions in one request or message: all or none over HTTP, each by itself over WebSocket, one step both."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import tamis
import tamis.routing.messages
from tamis.errors import RefusedError, SubscriptionSyntaxError
from tamis.routing.edge.rights import Rights
from tamis.runtime.broker.config import BrokerConfig
from tamis.runtime.broker.open_broker import open_broker
from tamis.runtime.broker.tokens import tokens_of
from tamis.web.access import Access
from tamis.web.endpoints.subscriptions import describe
from tamis.web.server import Server
from tamis.web.views import View
from tests.server.processes import HANGS, BrokerProcess, ask


def run(story: Any) -> Any:
    return asyncio.run(asyncio.wait_for(story, HANGS))


def post(broker: BrokerProcess, many: Any, **headers: str) -> Any:
    return ask(f"{broker.url}/v1/subscriptions", "POST", many, **headers)


def ids(broker: BrokerProcess, search: str) -> list[Any]:
    return [
        shown["id"] for shown in ask(f"{broker.url}/v1/subscriptions?search={search}&limit=1000").json["subscriptions"]
    ]


def test_an_array_and_lines_of_subscriptions(broker: BrokerProcess) -> None:
    made = post(broker, [{"id": n, "filter": f"array = {n}"} for n in range(3)])
    assert (made.status, [shown["id"] for shown in made.json["subscriptions"]]) == (201, [0, 1, 2])
    lines = "\n".join(json.dumps({"id": f"line-{n}", "filter": f"array = {n}"}) for n in range(3))
    assert post(broker, lines, Content_Type="application/x-ndjson").status == 201
    ask(f"{broker.url}/v1/events", "POST", {"array": 2})
    for id in ("2", "line-2"):
        body = ask(f"{broker.url}/v1/subscriptions/{id}/events?limit=1").body.decode()
        assert '"array":2' in body


def test_all_of_a_request_are_taken_or_none(broker: BrokerProcess) -> None:
    good = [{"id": f"all-{n}", "filter": "none = 1"} for n in range(5)]
    for bad, why in (
        ({"filter": "none >"}, "subscription 5: "),
        ({"id": "all-0", "filter": "none = 2"}, "subscription 5: "),
        ({"id": "x", "filter": "none = 1", "namespace": ""}, "subscription 5: "),
        ({"id": "x"}, "subscription 5: "),
    ):
        answer = post(broker, [*good, bad])
        assert 400 <= answer.status < 500
        assert why in answer.json["error"]
    assert ids(broker, "all-") == []
    assert post(broker, []).json == {"subscriptions": [], "next": None}


@pytest.mark.parametrize(("n", "status"), [(1_000, 201), (1_001, 413), (100_000, 413)])
def test_a_request_holds_a_thousand(broker: BrokerProcess, n: int, status: int) -> None:
    lines = "\n".join(f'{{"id": "n{n}-{i}", "filter": "n = {i}"}}' for i in range(n))
    assert post(broker, lines, Content_Type="application/x-ndjson").status == status
    assert len(ids(broker, f"n{n}-")) == (n if status == 201 else 0)


def test_a_client_asks_for_many(broker: BrokerProcess) -> None:
    async def story() -> None:
        async with tamis.connect(broker.url, client="many") as client:
            subscriptions = await client.subscribe_many({n: f"many = {n}" for n in range(350)}, durable=True)
            assert [subscription.id for subscription in subscriptions] == list(range(350))
            await client.publish([{"many": 349}, {"many": 0}])
            assert [(await anext(subscriptions[n])).event["many"] for n in (0, 349)] == [0, 349]
            assert await client.subscribe_many({}) == []
            with pytest.raises(SubscriptionSyntaxError, match="column 7"):
                await client.subscribe_many({"a": "many = 1", "b": "many >"})
            with pytest.raises(RefusedError, match="many"):
                await client.subscribe_many({"good": "many = 1", "bad": "many = 'text'"})
            await client.subscribe_many({"good": "many = 1"})  # was taken, and may be asked again

    run(story())
    with tamis.connect(broker.url) as client:
        assert [subscription.id for subscription in client.subscribe_many({"s": "many = 1"})] == ["s"]


def test_many_are_one_transaction_and_one_record_of_the_audit(tmp_path: Path) -> None:
    async def story() -> None:
        driver = open_broker(BrokerConfig(data=str(tmp_path)))
        await driver.start()
        rights, requests = Rights("alice"), []
        for n in range(50):
            message = tamis.routing.messages.Subscribe(n, b'{"op":"=","args":[{"property":"n"},%d]}' % n)
            requests.append((f"s:{n}", message))
        before = driver._store.tables.books.number
        await driver.subscribe(requests, rights)
        assert driver._store.tables.books.number == before + 1  # the links and all subscriptions
        assert [record.deed.detail for record in driver.view.read_audit(None, 100)] == ["and 49 more"]
        await driver.stop()

    run(story())


def test_one_that_ended_before_its_answer_was_written_is_shown_as_ended(tmp_path: Path) -> None:
    async def story() -> None:
        config = BrokerConfig(data=str(tmp_path))
        driver = open_broker(config)
        await driver.start()
        server = Server(config, driver, Access(config, tokens_of(config)))
        ended = tamis.routing.messages.Subscribe("gone", b"", expires=1)
        shown = describe(server, View(driver.view, Rights("local", is_admin=True)), "s:gone", "key", ended)
        assert (shown["id"], shown["state"], shown["waiting"]) == ("gone", "cancelled", 0)
        await driver.stop()

    run(story())
