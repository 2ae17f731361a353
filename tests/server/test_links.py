"""Brokers that are linked: tokens, namespaces that may not cross, and why a subscription was not forwarded."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import tamis
from tamis.errors import ModelError, RefusedError
from tamis.node.content import Content
from tamis.node.effects import Send
from tamis.routing import messages as m
from tamis.routing.core.broker import BrokerCore
from tamis.routing.edge.core import EdgeCore
from tamis.routing.policies import find_policy
from tamis.runtime.broker.config import BrokerConfig, LinkConfig
from tamis.runtime.broker.tokens import Tokens
from tamis.runtime.dialling import websocket_url
from tests.server.processes import HANGS, BrokerProcess, ReservedPort, ask, running, wait_until

SCHEMA = '{"attributes": {"mag": {"type": "number"}}}'


def two_brokers(directory: Path) -> tuple[BrokerProcess, BrokerProcess]:
    """South dials north with a token; the namespace "secret" stays where it is."""
    (directory / "schema.json").write_text(SCHEMA)
    token = Tokens(directory / "north-data" / "tokens.json").add("link", broker="south")
    Tokens(directory / "north-data" / "tokens.json").add("impostor", broker="west")
    (directory / "token").write_text(token)
    start = 'name = "{0}"\ndata = "{1}/{0}-data"\nschema = "{1}/schema.json"\nrequire_tokens = {2}\n[[links]]\n'
    to_south = 'name = "south"\npolicy = "zcurve"'
    north = BrokerProcess(directory / "north", start.format("north", directory, "true") + to_south)
    south = start.format("south", directory, "false")
    south += f'name = "north"\nurl = "{north.url}"\ntoken_file = "{directory}/token"\nnamespaces = ["default"]'
    return north, BrokerProcess(directory / "south", south)


def test_linked_brokers(tmp_path: Path) -> None:
    north, south = two_brokers(tmp_path)
    secret = Tokens(tmp_path / "north-data" / "tokens.json").add("admin", is_admin=True)

    async def story() -> None:
        async with tamis.connect(south.url) as here, tamis.connect(north.url, token=secret) as far:
            wide = await here.subscribe("mag >= 1", id="wide")
            await here.subscribe("mag >= 5", id="narrow")
            hidden = await here.subscribe("mag >= 0", id="hidden", namespace="secret")
            made = ask(f"{south.url}/v1/subscriptions", "POST", {"filter": "mag >= 6", "id": "covered"})
            assert made.status == 201
            links_of_covered = ask(f"{south.url}/v1/explain", "POST", {"id": "covered"}).json["links"]
            assert [(link["link"], link["forwarded"]) for link in links_of_covered] == [("north", False)]
            assert "not forwarded because covered by" in links_of_covered[0]["reason"]
            assert "wide" in links_of_covered[0]["reason"]
            await far.publish({"mag": 7}, namespace="secret")
            await far.publish({"mag": 3})
            assert (await anext(wide)).event == {"mag": 3}
            await here.publish({"mag": 1}, namespace="secret")
            assert (await anext(hidden)).event == {"mag": 1}
            links = ask(f"{south.url}/v1/statistics").json["links"]
            assert [(link["link"], link["connected"], link["suppressed"]) for link in links] == [("north", True, 2)]
            assert [link["policy"] for link in links] == ["covering"]
            shown = ask(f"{north.url}/v1/statistics", Authorization=f"Bearer {secret}").json["links"]
            assert [(link["table_entries"], link["events"]) for link in shown] == [(1, 1)]
            assert links[0]["searches"] is None  # only the Z curve counts its searches
            for id in ("first", "equal"):
                await far.subscribe("mag >= 9", id=id)
            as_admin = {"Authorization": f"Bearer {secret}"}
            [link] = ask(f"{north.url}/v1/links", **as_admin).json["links"]
            assert (link["searches"]["questions"], link["searches"]["hits"]) == (2, 1)
            for metric in ('questions{link="south"} 2.0', 'hits{link="south"} 1.0', 'cubes{link="south"}'):
                line = f"tamis_link_search_{metric}".encode()
                wait_until(lambda line=line: line in ask(f"{north.url}/metrics", **as_admin).body, str(line))

    with running(north, south):
        asyncio.run(asyncio.wait_for(story(), HANGS))


def entry(key: str, namespace: str) -> m.Entry:
    return m.Entry(key, namespace, b'{"op":"=","args":[{"property":"mag"},1]}')


def published(namespace: str) -> m.Publish:
    content = Content(tamis.Schema.from_json(SCHEMA))
    return m.Publish(m.Published(m.EventId("p", 1, 1), namespace, content.write_event({"mag": 1})))


def test_other_namespaces_cross_a_link_in_neither_direction() -> None:
    content = Content(tamis.Schema.from_json(SCHEMA))
    broker = BrokerCore("here", {"there": find_policy("covering")}, content)
    edge = EdgeCore(broker, content, {}, borders={"there": frozenset({"open"})})
    edge.handle(m.Update(1, (entry("a", "open"), entry("b", "secret")), replace=True), sender="there", now=0)
    assert list(broker.table.interests("there")) == ["a"]
    assert edge.handle(published("secret"), sender="there", now=0) == []
    batch = m.PublishBatch((published("open").event, published("secret").event))
    sent = edge._outgoing([Send("there", batch), Send("there", published("secret"))], now=0.0)
    assert sent == [Send("there", m.PublishBatch((published("open").event,)))]


def test_a_link_for_some_namespaces_cannot_flood() -> None:
    link = LinkConfig("north", policy="flood", namespaces=("open",))
    with pytest.raises(ModelError, match="floods"):
        BrokerConfig(schema="s", links=(link,)).check()


def test_where_a_websocket_is() -> None:
    assert websocket_url("http://127.0.0.1:8080") == "ws://127.0.0.1:8080/v1/connect"
    assert websocket_url("wss://north/") == "wss://north/v1/connect"


def test_a_subscription_that_waits_for_a_neighbour_says_for_which(tmp_path: Path) -> None:
    (tmp_path / "schema.json").write_text(SCHEMA)
    config = f'name = "south"\nschema = "{tmp_path}/schema.json"\nactive_seconds = 0.5\n[[links]]\nname = "north"\n'

    async def story(url: str) -> None:
        async with tamis.connect(url) as client:
            with pytest.raises(RefusedError, match="waits for 'north'") as refusal:
                await client.subscribe("mag >= 1", id="late")
            assert refusal.value.code == 504
            accepted = await client.subscribe("mag >= 2", id="at once", wait=m.State.ACCEPTED)
            assert accepted.state is m.State.ACCEPTED
            await client.publish({"mag": 3})
            assert (await anext(accepted)).event == {"mag": 3}
        made = ask(f"{url}/v1/subscriptions", "POST", {"filter": "mag >= 6", "id": "shown"})
        assert made.json["waiting_for"] == ["north"]
        shown = ask(f"{url}/v1/subscriptions/shown").json
        assert (shown["state"], shown["waiting_for"]) == ("accepted", ["north"])

    with running(BrokerProcess(tmp_path / "south", config)) as (south,):
        asyncio.run(asyncio.wait_for(story(south.url), HANGS))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"standby": True}, "standby needs a store"),
        ({"store": "mysql://db/tamis"}, "expected postgresql://"),
        ({"links": (LinkConfig("north", "ftp://a"),), "schema": "s"}, "link 'north': expected the address of a broker"),
        ({"links": (LinkConfig("north", "http://[a"),), "schema": "s"}, "link 'north': 'http://\\[a': Invalid IPv6"),
        ({"links": (LinkConfig("north", standbys=("http://127.0.0.1:1",)),), "schema": "s"}, "for a link with a url"),
        (
            {
                "links": (LinkConfig("n", "http://127.0.0.1:1", standbys=("http://n.example",), token_env="T"),),
                "schema": "s",
            },
            "n.example",
        ),
    ],
)
def test_standbys_need_a_store_and_the_same_care(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ModelError, match=words):
        BrokerConfig(**fields).check()


def test_the_next_address_is_tried(tmp_path: Path) -> None:
    """North is at the second of two addresses, for south and for a client; nothing listens at the first."""
    dead = ReservedPort()
    north, south = two_brokers(tmp_path)
    here = f"http://127.0.0.1:{dead.number}"
    south.config = south.config.replace(f'url = "{north.url}"', f'url = "{here}"\nstandbys = ["{north.url}"]')
    secret = Tokens(tmp_path / "north-data" / "tokens.json").add("admin", is_admin=True)
    with running(north, south), tamis.connect([here, north.url], token=secret, timeout=HANGS) as client:
        subscription = client.subscribe("mag >= 1", id="far", namespace="default")
        assert ask(f"{south.url}/v1/events", "POST", {"mag": 2}).status in (200, 201, 202)
        delivery = subscription.next(timeout=HANGS)
        assert delivery is not None
        assert delivery.event == {"mag": 2}
