"""Who may do what: tokens, namespaces, policies, origins; and what a stranger never sees."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import connect as open_socket
from websockets.exceptions import ConnectionClosed

import tamis
from tamis.errors import ModelError, RefusedError, StoreError
from tamis.routing import messages as m
from tamis.routing.edge.rights import Rights
from tamis.runtime.broker.config import BrokerConfig, read_config
from tamis.runtime.broker.tokens import Tokens
from tamis.web import visitors
from tamis.web.app import ENDPOINTS
from tamis.web.endpoints import streams
from tests.server.processes import HANGS, Answer, BrokerProcess, ask, running

CONFIG = """
name = "guarded"
data = "{data}"
require_tokens = true
[[tenants]]
namespace = "acme"
policy = "region = 'eu'"
"""

Guarded = tuple[BrokerProcess, Tokens, dict[str, str]]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    directory = tmp_path_factory.mktemp("guarded")
    tokens = Tokens(directory / "data" / "tokens.json")
    secrets = {
        "admin": tokens.add("admin", is_admin=True),
        "alice": tokens.add("alice", namespaces=("acme",)),
        "bob": tokens.add("bob", namespaces=("umbrella",)),
        "reader": tokens.add("reader", may_publish=False),
        "writer": tokens.add("writer", may_subscribe=False),
        "cheap": tokens.add("cheap", policy="price < 100"),
        "few": tokens.add("few", max_subscriptions=2),
        "old": tokens.add("old", expires=time.time() - 1),
    }
    with running(BrokerProcess(directory, CONFIG.format(data=directory / "data"))) as (process,):
        yield process, tokens, secrets


def asking(guarded: Guarded, who: str) -> Callable[..., Answer]:
    broker, _, secrets = guarded

    def send(path: str, method: str = "GET", body: Any = None, **headers: str) -> Answer:
        return ask(broker.url + path, method, body, Authorization=f"Bearer {secrets[who]}", **headers)

    return send


PATHS = [(path.replace("{id}", "a"), method) for method, path, _ in ENDPOINTS if path != "/healthz"]


@pytest.mark.parametrize(("path", "method"), PATHS)
@pytest.mark.parametrize("secret", [None, "Bearer nonsense", "Basic YTpi", "Bearer ", "Bearer old"])
def test_without_a_good_token_nothing_is_shown(guarded: Guarded, path: str, method: str, secret: str | None) -> None:
    broker, _, secrets = guarded
    headers = {} if secret is None else {"Authorization": secret.replace("old", secrets["old"])}
    answer = ask(broker.url + path, method, {} if method == "POST" else None, **headers)
    assert answer.status == 401
    assert set(answer.json) == {"error", "status"}


def test_a_log_is_for_its_namespace_and_only_its_owner_acknowledges(guarded: Guarded) -> None:
    alice, bob, admin = (asking(guarded, who) for who in ("alice", "bob", "admin"))
    assert alice("/v1/subscriptions", "POST", {"id": "hers", "filter": "x > 0", "namespace": "acme"}).status == 201
    batch = "/v1/events?namespace=acme&producer=p&number=1"
    assert alice(batch, "POST", {"x": 1, "region": "eu"}).json["duplicate"] is False
    assert admin(batch, "POST", {"x": 2, "region": "eu"}).json["duplicate"] is False  # a producer of another client
    page = alice("/v1/subscriptions/hers/log?namespace=acme").json
    assert [message["event"]["x"] for message in page["messages"]] == [1, 2]
    assert bob("/v1/subscriptions/hers/log?namespace=acme").status == 404
    assert asking(guarded, "writer")("/v1/subscriptions/hers/log?namespace=acme").status == 403
    place, cursor = "/v1/subscriptions/hers/acknowledge?namespace=acme", {"cursor": page["last"]}
    assert bob(place, "POST", cursor).status == 404
    assert asking(guarded, "reader")(place, "POST", cursor).status == 403
    assert alice(place, "POST", cursor).status == 200


def test_a_token_in_the_url_does_not_authenticate(guarded: Guarded) -> None:
    broker, _, secrets = guarded
    assert ask(f"{broker.url}/v1/subscriptions?token={secrets['admin']}").status == 401


def test_tenants_do_not_see_one_another(guarded: Guarded) -> None:
    alice, bob = asking(guarded, "alice"), asking(guarded, "bob")
    made = alice("/v1/subscriptions", "POST", {"filter": "price > 1", "id": "mine", "namespace": "acme"})
    assert made.status == 201
    assert bob("/v1/subscriptions/mine?namespace=acme").status == 404
    assert bob("/v1/subscriptions/mine/events?namespace=acme").status == 404
    assert bob("/v1/subscriptions/mine?namespace=acme", "DELETE").status == 404
    assert bob("/v1/subscriptions").json["subscriptions"] == []
    for id in ("mine", "nothing"):
        assert bob("/v1/explain", "POST", {"id": id, "namespace": "acme", "event": {}}).status == 403
    assert bob("/v1/subscriptions", "POST", {"filter": "a = 1", "namespace": "acme"}).status == 403
    assert bob("/v1/events?namespace=acme", "POST", {"region": "eu"}).status == 403
    assert bob("/v1/events").json["events"] == []
    assert bob("/metrics").status == 403
    assert bob("/v1/statistics").status == 403


def test_reading_and_writing_are_two_rights(guarded: Guarded) -> None:
    assert asking(guarded, "reader")("/v1/events", "POST", {"a": 1}).status == 403
    assert asking(guarded, "writer")("/v1/events", "POST", {"a": 1}).status == 200
    assert asking(guarded, "writer")("/v1/subscriptions", "POST", {"filter": "a = 1"}).status == 403
    made = asking(guarded, "reader")("/v1/subscriptions", "POST", {"filter": "a = 1", "id": "reads"})
    assert made.json["owner"] == "reader"
    assert asking(guarded, "writer")("/v1/subscriptions/reads", "DELETE").status == 403
    assert asking(guarded, "cheap")("/v1/subscriptions/reads", "DELETE").status == 403
    assert asking(guarded, "cheap")("/v1/subscriptions/reads/events").status == 403
    assert asking(guarded, "admin")("/v1/subscriptions/reads", "DELETE").status == 204


def test_a_policy_is_joined_to_subscriptions_and_holds_for_events(guarded: Guarded) -> None:
    cheap, admin = asking(guarded, "cheap"), asking(guarded, "admin")
    cheap("/v1/subscriptions", "POST", {"filter": "price > 10", "id": "bargains"})
    assert cheap("/v1/events", "POST", {"price": 500}).status == 403
    assert cheap("/v1/events", "POST", {"cost": 5}).status == 403  # unknown is not a match
    for price in (5, 500, 50):
        assert admin("/v1/events", "POST", {"price": price}).status == 200
    body = cheap("/v1/subscriptions/bargains/events?limit=1").body.decode()
    assert '"price":50}' in body
    alice = asking(guarded, "alice")
    assert alice("/v1/events?namespace=acme", "POST", {"region": "us"}).status == 403
    assert alice("/v1/events?namespace=acme", "POST", {"region": "eu"}).status == 200


def test_subscriptions_of_one_principal_are_limited(guarded: Guarded) -> None:
    few = asking(guarded, "few")
    statuses = [few("/v1/subscriptions", "POST", {"filter": "a = 1", "id": i}).status for i in range(3)]
    assert statuses == [201, 201, 413]
    assert few("/v1/subscriptions/0", "DELETE").status == 204
    assert few("/v1/subscriptions", "POST", {"filter": "a = 1", "id": 9}).status == 201


def test_a_revoked_token_ends_streams_and_connections(guarded: Guarded) -> None:
    broker, tokens, _ = guarded
    secret = tokens.add("brief")
    ask(f"{broker.url}/v1/subscriptions", "POST", {"filter": "a = 1", "id": "brief"}, Authorization=f"Bearer {secret}")

    stream = http.client.HTTPConnection("127.0.0.1", broker.port, timeout=HANGS)

    async def both() -> None:
        async with tamis.connect(broker.url, token=secret) as client:
            subscription = await client.subscribe("a = 1")
            stream.request("GET", "/v1/subscriptions/brief/events", headers={"Authorization": f"Bearer {secret}"})
            answer = stream.getresponse()  # it has begun, and goes on
            assert answer.status == 200
            assert tokens.revoke("brief")
            with pytest.raises(RefusedError, match="revoked or has expired"):
                await anext(subscription)
            assert b"data:" not in await asyncio.to_thread(answer.read)  # it has ended

    with contextlib.closing(stream):
        asyncio.run(asyncio.wait_for(both(), HANGS))
    assert max(streams.HEARTBEAT, visitors.LOOK_SECONDS) <= 5  # seconds until a broker that is not busy looks again
    assert ask(f"{broker.url}/v1/subscriptions", Authorization=f"Bearer {secret}").status == 401


@pytest.mark.parametrize(
    ("query", "headers", "words"),
    [
        ("?client=x", {}, "token"),
        ("?client=x", {"Authorization": "Bearer nonsense"}, "unknown"),
        ("?client=x", {"Origin": "https://evil.example"}, "origins"),
        ("?broker=north", {}, "no link"),
    ],
)
def test_a_websocket_is_refused_for_strangers(
    guarded: Guarded, query: str, headers: dict[str, str], words: str
) -> None:
    broker, _, _ = guarded

    async def knock() -> str:
        url = f"ws://127.0.0.1:{broker.port}/v1/connect{query}"
        async with open_socket(url, additional_headers=headers, proxy=None) as websocket:
            with pytest.raises(ConnectionClosed) as closed:
                await websocket.recv()
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1008
            return closed.value.rcvd.reason

    assert words in asyncio.run(asyncio.wait_for(knock(), HANGS))


def test_a_client_without_a_token_is_told_so(guarded: Guarded) -> None:
    with pytest.raises(RefusedError, match="token"), tamis.connect(guarded[0].url):
        pass


# Configuration


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"host": "0.0.0.0"}, "tls_certificate"),
        ({"host": "0.0.0.0", "require_tokens": True}, "tls_certificate"),
        ({"host": "example.org", "tls_certificate": "c", "tls_key": "k"}, "require_tokens"),
        ({"tls_certificate": "c"}, "go together"),
    ],
)
def test_a_broker_that_others_can_reach_needs_tls_and_tokens(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ModelError, match=words):
        BrokerConfig(**fields).check()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nonsense = 1", "nonsense"),
        ("port = 'x'", "port"),
        ("= 1", "broker.toml"),
        ("[[links]]\nname = 'a'", "schema"),
        ("schema = 's'\nname = 'a'\n[[links]]\nname = 'a'", "differ"),
    ],
)
def test_a_bad_configuration_is_refused(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "broker.toml"
    path.write_text(text)
    with pytest.raises(ModelError, match=words):
        read_config(path).check()


def test_files_are_beside_their_configuration(tmp_path: Path) -> None:
    path = tmp_path / "broker.toml"
    path.write_text("data = 'd'\nschema = '/s.json'")
    assert read_config(path).data == str(tmp_path / "d")
    assert read_config(path).schema == "/s.json"


# Tokens


def test_a_token_is_kept_as_a_hash(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path / "tokens.json")
    secret = tokens.add("alice", namespaces=("acme",))
    assert secret not in tokens.path.read_text()
    assert len(secret) >= 6 + 43  # 256 bits
    assert tokens.path.stat().st_mode & 0o077 == 0
    token = tokens.find(secret)
    assert token is not None
    assert token.rights() == Rights("alice", frozenset({"acme"}))
    assert tokens.find(secret + "x") is None
    with pytest.raises(RefusedError, match="token 'alice' exists already"):
        tokens.add("alice")
    for name in ("local", "a:b", "", "a\nb"):
        with pytest.raises(RefusedError, match="a token's name"):
            tokens.add(name)


def test_a_damaged_token_file_lets_no_client_in(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path / "tokens.json")
    tokens.path.write_text("[{]")
    with pytest.raises(StoreError, match="not a file of tokens"):
        tokens.find("x")


def test_about_is_read_from_a_subscription() -> None:
    assert m.about(m.Subscribe("a", b"")) == m.About()
