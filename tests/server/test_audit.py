"""Who did what: noted with the deed itself, sealed, bounded, and shown to admins only."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest
from typer.testing import CliRunner

import tamis
from tamis.cli.main import app
from tamis.errors import RefusedError, StoreError
from tamis.node.effects import Persist
from tamis.routing.edge.audit import AUDITED, REFUSAL_SECONDS, Deed, Trail
from tamis.routing.edge.rights import Rights
from tamis.runtime.broker.tokens import Tokens
from tamis.runtime.stores.sqlite_store import SqliteStore
from tests.server.processes import HANGS, Answer, BrokerProcess, a_line, ask, running, wait_until

Deeds = list[dict[str, Any]]
Asking = Callable[..., Answer]

CONFIG = 'name = "watched"\ndata = "{data}"\nrequire_tokens = true\n'


Watched = tuple[BrokerProcess, Tokens, dict[str, str]]


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """A broker for all tests that do not mind what others did to it."""
    with watched_broker(tmp_path_factory.mktemp("watched")) as parts:
        yield parts


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Watched]:
    """A broker at which nothing was refused yet: the first refusal of each principal is noted at once."""
    with watched_broker(tmp_path) as parts:
        yield parts


@contextlib.contextmanager
def watched_broker(directory: Path) -> Iterator[Watched]:
    tokens = Tokens(directory / "data" / "tokens.json")
    secrets = {
        "admin": tokens.add("admin", is_admin=True),
        "local-admin": tokens.add("local-admin", is_admin=True, namespaces=("acme",)),
        "alice": tokens.add("alice", namespaces=("acme",)),
        "bob": tokens.add("bob", namespaces=("umbrella",)),
        "carol": tokens.add("carol", namespaces=("acme",)),
    }
    with running(BrokerProcess(directory, CONFIG.format(data=directory / "data"))) as (process,):
        yield process, tokens, secrets


def asking(watched: Watched, who: str) -> Asking:
    broker, _, secrets = watched

    def send(path: str, method: str = "GET", body: Any = None) -> Answer:
        return ask(broker.url + path, method, body, Authorization=f"Bearer {secrets[who]}")

    return send


def deeds_of(send: Asking, *names: str) -> list[tuple[Any, ...]]:
    """The audit, the oldest first, as tuples of some fields."""
    return [tuple(deed[name] for name in names) for deed in reversed(send("/v1/audit?limit=1000").json["deeds"])]


def test_what_clients_do_is_noted(fresh: Watched) -> None:
    admin, alice, bob = (asking(fresh, who) for who in ("admin", "alice", "bob"))
    wait_until(lambda: ("token add", "carol") in deeds_of(admin, "what", "subject"), "the tokens in the audit")
    started = deeds_of(admin, "who", "what", "address")
    assert started[0] == ("watched", "start", "process")
    assert ("operator", "token add", "file") in started
    subscription = {"filter": "x > 0", "id": "hers", "namespace": "acme"}
    assert alice("/v1/subscriptions", "POST", subscription).status == 201
    assert bob("/v1/subscriptions", "POST", subscription).status == 403
    assert admin("/v1/subscriptions/hers?namespace=acme", "DELETE").status == 204
    assert ask(f"{fresh[0].url}/v1/events", "POST", {"x": 1}).status == 401
    wait_for_refusal(admin, "stranger")
    deeds = deeds_of(admin, "who", "what", "subject", "namespace", "address")
    assert deeds[len(started) :] == [
        ("alice", "subscribe", "hers", "acme", "loopback"),
        ("bob", "refuse", "POST /v1/subscriptions", "", "loopback"),
        ("admin", "unsubscribe", "hers", "acme", "loopback"),
        ("stranger", "refuse", "POST /v1/events", "", "loopback"),
    ]
    details = dict(deeds_of(admin, "what", "detail"))
    assert "tokens=True" in details["start"]
    assert details["subscribe"] == "x > 0"
    assert details["unsubscribe"] == "owner alice"


def wait_for_refusal(admin: Asking, who: str) -> None:
    """Wait until a refusal is noted: it is answered before."""
    wait_until(lambda: (who, "refuse") in deeds_of(admin, "who", "what"), f"the refusal of {who} in the audit")


def test_no_secret_is_in_the_audit(fresh: Watched) -> None:
    """A token in the address, in the header and in the body, of requests that are refused and therefore noted."""
    broker, _, secrets = fresh
    admin, bob = asking(fresh, "admin"), asking(fresh, "bob")
    assert ask(f"{broker.url}/v1/events?token={secrets['admin']}", "POST", {}).status == 401
    question = {"filter": "x > 0", "id": "s", "namespace": "acme", "metadata": {"token": secrets["alice"]}}
    assert bob(f"/v1/subscriptions?token={secrets['carol']}", "POST", question).status == 403
    for who in ("stranger", "bob"):
        wait_for_refusal(admin, who)
    text = admin("/v1/audit?limit=1000").body.decode()
    assert "POST /v1/events" in text
    assert not any(secret in text for secret in secrets.values())


def test_tenants_see_nothing_of_others(watched: Watched) -> None:
    assert asking(watched, "alice")("/v1/audit").status == 403
    assert ask(f"{watched[0].url}/v1/audit").status == 401
    for who, namespace in (("alice", "acme"), ("bob", "umbrella")):
        question = {"filter": "x > 0", "id": "tenant", "namespace": namespace}
        assert asking(watched, who)("/v1/subscriptions", "POST", question).status == 201
    mine, everything = (
        {namespace for (namespace,) in deeds_of(asking(watched, who), "namespace")} for who in ("local-admin", "admin")
    )
    assert mine == {"acme"}
    assert everything >= {"acme", "umbrella"}


def test_pages_of_the_audit(watched: Watched) -> None:
    admin = asking(watched, "admin")
    whole = [deed["number"] for deed in admin("/v1/audit?limit=1000").json["deeds"]]
    assert whole == list(range(whole[0], 0, -1))
    first = admin(f"/v1/audit?limit=2&before={whole[0] + 1}").json  # not the newest: more may be noted meanwhile
    second = admin(f"/v1/audit?limit=2&before={first['next']}").json
    assert [deed["number"] for deed in first["deeds"] + second["deeds"]] == whole[:4]
    assert admin("/v1/audit?limit=1001").status == 400
    assert admin("/v1/audit?before=x").status == 400


def test_a_token_that_comes_and_goes_is_noted(watched: Watched) -> None:
    admin, tokens = asking(watched, "admin"), watched[1]

    def seen(what: str) -> None:
        wait_until(lambda: (what, "eve") in deeds_of(admin, "what", "subject"), f"{what} in the audit")

    tokens.add("eve")
    seen("token add")
    tokens.revoke("eve")
    seen("token revoke")


def test_what_a_websocket_client_does_is_noted(watched: Watched) -> None:
    broker, _, secrets = watched

    async def story() -> None:
        async with tamis.connect(broker.url, client="w", token=secrets["carol"]) as client:
            await client.subscribe("y > 0", id="socket", namespace="acme")
            with pytest.raises(RefusedError, match="no access to namespace 'umbrella'"):
                await client.publish([{"y": 1}, {"y": 2}], namespace="umbrella")
            await client.unsubscribe("socket", namespace="acme")
        with pytest.raises(RefusedError, match="unknown, expired or revoked"):
            await tamis.connect(broker.url, token="nonsense").__aenter__()

    asyncio.run(asyncio.wait_for(story(), HANGS))
    deeds = deeds_of(asking(watched, "admin"), "who", "what", "subject", "namespace")
    assert ("carol", "subscribe", "socket", "acme") in deeds
    assert ("carol", "unsubscribe", "socket", "acme") in deeds
    refused = [deed for deed in deeds if deed[:2] == ("carol", "refuse")]
    assert len(refused) == 1  # the second event of the message is counted, and noted later
    assert refused[0][3] == "umbrella"


def test_links_and_restarts_are_noted(tmp_path: Path) -> None:
    with running(*a_line(tmp_path, "ab")) as (a, b):
        url = f"{a.url}/v1/audit"

        def until(*wanted: str) -> None:
            def noted() -> bool:
                return [deed["what"] for deed in reversed(ask(url).json["deeds"]) if deed["who"] == "b"] == [*wanted]

            wait_until(noted, f"{wanted} in the audit")

        until("link up")
        b.stop()
        until("link up", "link down")
        b.start().wait_until_ready()

        def own() -> bool:
            deeds = ask(f"{b.url}/v1/audit").json["deeds"]
            return [deed["what"] for deed in reversed(deeds) if deed["who"] == "b"] == ["start", "stop", "start"]

        wait_until(own, "the second start in the broker's own audit")


def test_the_audit_in_the_shell(tmp_path: Path) -> None:
    with running(BrokerProcess(tmp_path)) as (broker,):
        ask(f"{broker.url}/v1/subscriptions", "POST", {"filter": "x > 0", "id": "s"})
        shown = CliRunner().invoke(app, ["serve", "audit", "--url", broker.url, "--json"])
        newest = json.loads(shown.stdout.splitlines()[0])
        assert (newest["who"], newest["what"], newest["subject"]) == ("local", "subscribe", "s")
    stored = CliRunner().invoke(app, ["serve", "audit", "--data", str(tmp_path / "data"), "--json"])
    assert [json.loads(line)["what"] for line in stored.stdout.splitlines()] == ["stop", "subscribe", "start"]
    table = CliRunner().invoke(app, ["serve", "audit", "--data", str(tmp_path / "data"), "--limit", "1"])
    assert "stop" in table.stdout
    assert "subscribe" not in table.stdout
    missing = CliRunner().invoke(app, ["serve", "audit", "--data", str(tmp_path / "nowhere")])
    assert missing.exit_code == 2
    assert "no broker here" in missing.stderr
    assert not (tmp_path / "nowhere").exists()


# The trail


def test_a_flood_of_refusals_is_two_records() -> None:
    trail, by = Trail(), Rights("eve")
    for number in range(1_000):
        trail.note_error(number / 1_000, by, "event", "acme", RefusedError(403, "no"))
    trail.note(Deed(0, "alice", "subscribe"))
    assert [change.key for change in trail.take()] == [("audit", "1"), ("activity", "2")]
    trail.tick(REFUSAL_SECONDS + 1)
    (more,) = trail.take()
    assert msgspec.msgpack.decode(more.value or b"", type=Deed).detail == "999 more, the last: no"
    trail.tick(REFUSAL_SECONDS + 2)
    assert trail.take() == []


def test_plain_mistakes_are_not_noted() -> None:
    trail = Trail()
    trail.note_error(0.0, Rights("eve"), "event", "acme", tamis.errors.EventError("a", "x", "expected a number"))
    assert trail.take() == []


# The disk


def deed(number: int, what: str = "subscribe") -> Persist:
    assert what in AUDITED
    return Persist(("audit", str(number)), msgspec.msgpack.encode(Deed(number, "alice", what)))


def filled(directory: Path, n: int) -> SqliteStore:
    store = SqliteStore(directory)
    store.load()
    for number in range(1, n + 1):
        store.commit([deed(number), Persist(("schema",), b"%d" % number)], now=number)
    return store


def numbers(store: SqliteStore, **bounds: int) -> list[int]:
    return [record.number for record in store.read_audit(**bounds)]


def test_the_audit_is_read_by_pages_and_after_a_restart(tmp_path: Path) -> None:
    store = filled(tmp_path, 5)
    assert numbers(store) == [5, 4, 3, 2, 1]
    assert numbers(store, before=4, limit=2) == [3, 2]
    store.close()
    again = SqliteStore(tmp_path)
    assert ("audit", "1") not in again.load()
    assert (again.audited, numbers(again)) == (5, [5, 4, 3, 2, 1])
    again.close()


def test_the_audit_is_bounded_by_number_and_by_age(tmp_path: Path) -> None:
    store = filled(tmp_path, 10)
    assert store.trim_audit(keep=6, before=0) == 4
    assert numbers(store) == [10, 9, 8, 7, 6, 5]
    assert store.trim_audit(keep=100, before=8) == 3
    assert numbers(store) == [10, 9, 8]
    assert store.trim_audit(keep=100, before=8) == 0
    assert store.trim_audit(keep=0, before=0) == 3
    store.commit([deed(11)], now=11)
    store.close()
    again = SqliteStore(tmp_path)
    again.load()
    assert numbers(again) == [11]
    again.close()


def test_a_deed_and_what_it_does_are_one_transaction(tmp_path: Path) -> None:
    store = filled(tmp_path, 2)
    with pytest.raises(StoreError, match="deed 9 came, 3 is next"):
        store.commit([Persist(("schema",), b"9"), deed(9)], now=3)
    store.close()
    again = SqliteStore(tmp_path)
    assert again.load() == {("schema",): b"2"}
    again.close()


@pytest.mark.parametrize(
    "crime",
    [
        "UPDATE audit SET body = x'00' WHERE number = 3",
        "UPDATE audit SET at = at + 1 WHERE number = 3",
        "DELETE FROM audit WHERE number = 3",
        "DELETE FROM audit WHERE number = 1",
        "DELETE FROM audit WHERE number = 5",
        "DELETE FROM audit",
        "UPDATE audit SET body = (SELECT body FROM audit WHERE number = 2) WHERE number = 3",
        "UPDATE audit_books SET last = 4",
        "DELETE FROM audit_books",
        "INSERT INTO audit SELECT 6, at, body, seal FROM audit WHERE number = 5",
    ],
)
def test_an_altered_audit_is_not_served(tmp_path: Path, crime: str) -> None:
    filled(tmp_path, 5).close()
    with contextlib.closing(apsw.Connection(str(tmp_path / "broker.sqlite"))) as connection:
        connection.execute(crime)
    store = SqliteStore(tmp_path)
    with pytest.raises(StoreError, match="audit"):
        store.load()
    store.close()


def test_an_audit_that_changes_while_the_broker_runs_is_not_served(tmp_path: Path) -> None:
    store = filled(tmp_path, 5)
    with contextlib.closing(apsw.Connection(str(tmp_path / "broker.sqlite"))) as connection:
        connection.execute("UPDATE audit SET at = 0 WHERE number = 3")
    with pytest.raises(StoreError, match="record 3"):
        store.read_audit()
    store.close()
