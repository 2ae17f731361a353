"""Attack: one tenant uses up, or poisons, the types that a broker without a schema learns.

Each namespace learns by itself: 256 names of one tenant leave another its own 256, a type that one tenant gives to a
name binds no other, and none sees the names of another. An admin has a namespace forget what no subscription uses.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import tamis
from tamis.errors import LimitError
from tamis.model.schema import Schema
from tamis.model.types import Number, String
from tamis.node import content as content_module
from tamis.node import records
from tamis.node.content import Content
from tamis.node.effects import Answer, Persist
from tamis.routing import messages as m
from tamis.routing.core.broker import BrokerCore
from tamis.routing.edge.core import EdgeCore
from tamis.routing.edge.requests import ForgetTypes, LearnTypes, Post, Posts, SubscribeFor
from tamis.routing.edge.rights import Rights
from tests.attacks.callers import Guarded, guarded_broker

FULL = {f"a{i}": 1 for i in range(256)}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    with guarded_broker(tmp_path_factory.mktemp("types")) as broker:
        broker.add("admin", is_admin=True)
        broker.add("eve", namespaces=("eve",))
        broker.add("bob", namespaces=("bob",))
        yield broker


def types_of(guarded: Guarded, who: str, namespace: str) -> dict[str, str]:
    types: dict[str, str] = guarded.ask(who, f"/v1/schema?namespace={namespace}").json["attributes"]
    return types


def test_256_names_of_one_tenant_leave_another_its_own(guarded: Guarded) -> None:
    assert guarded.ask("eve", "/v1/events?namespace=eve", "POST", FULL).status == 200
    refused = guarded.ask("eve", "/v1/subscriptions", "POST", {"filter": "mag >= 5", "namespace": "eve"})
    assert refused.status == 413  # her own namespace is full
    made = guarded.ask("bob", "/v1/subscriptions", "POST", {"filter": "mag >= 5", "namespace": "bob", "id": "s"})
    assert made.status == 201, made.body
    assert guarded.ask("bob", "/v1/events?namespace=bob", "POST", {"mag": 6}).status == 200
    log = guarded.ask("bob", "/v1/subscriptions/s/log?namespace=bob").json["messages"]
    assert [delivery["event"] for delivery in log] == [{"mag": 6}]


def test_a_type_binds_its_own_namespace_alone_and_names_are_not_shown_to_others(guarded: Guarded) -> None:
    assert guarded.ask("eve", "/v1/events?namespace=eve", "POST", {"a1": 5}).status == 200
    assert guarded.ask("bob", "/v1/events?namespace=bob", "POST", {"a1": "text", "price": "x"}).status == 200
    assert guarded.ask("bob", "/v1/events?namespace=bob", "POST", {"a1": 5}).status == 200  # no filter asks for it
    subscription = {"filter": "a1 = 'text'", "namespace": "bob", "id": "asked"}
    assert guarded.ask("bob", "/v1/subscriptions", "POST", subscription).status == 201
    assert guarded.ask("bob", "/v1/events?namespace=bob", "POST", {"a1": 5}).status == 400
    assert types_of(guarded, "bob", "bob")["a1"] == "string"
    assert types_of(guarded, "admin", "eve")["a1"] == "number"
    assert guarded.ask("bob", "/v1/schema?namespace=eve").status == 403
    with tamis.connect(guarded.broker.url, token=guarded.secrets["bob"], client="b") as client:
        matches = client.subscribe("price = 'x'", namespace="bob")
        client.publish({"price": "x"}, namespace="bob")
        assert next(iter(matches)).event == {"price": "x"}


def test_an_admin_resets_a_namespace_and_a_restart_keeps_that(guarded: Guarded) -> None:
    kept = {"filter": "a7 > 0", "namespace": "eve", "id": "kept"}
    assert guarded.ask("eve", "/v1/events?namespace=eve", "POST", FULL).status == 200
    assert guarded.ask("eve", "/v1/subscriptions", "POST", kept).status == 201
    assert guarded.ask("bob", "/v1/schema?namespace=bob", "DELETE").status == 403
    answer = guarded.ask("admin", "/v1/schema?namespace=eve", "DELETE")
    assert answer.status == 200, answer.body
    assert len(answer.json["forgotten"]) == 255
    assert types_of(guarded, "eve", "eve") == {"a7": "number"}  # a subscription depends on it
    assert guarded.ask("eve", "/v1/events?namespace=eve", "POST", {"a1": "text", "a7": 1}).status == 200
    log = guarded.ask("eve", "/v1/subscriptions/kept/log?namespace=eve").json["messages"]
    assert log[-1]["event"] == {"a1": "text", "a7": 1}
    assert guarded.ask("eve", "/v1/events").status == 200
    deeds = guarded.ask("admin", "/v1/audit").json["deeds"]
    assert [(deed["what"], deed["namespace"]) for deed in deeds if deed["what"] == "forget types"] == [
        ("forget types", "eve")
    ]
    guarded.broker.stop()
    guarded.broker.start().wait_until_ready()
    assert types_of(guarded, "eve", "eve") == {"a7": "number", "a1": "string"}


def learning_edge() -> EdgeCore:
    content = Content()
    return EdgeCore(BrokerCore("here", {}, content), content, {})


def handled(edge: EdgeCore, message: Any) -> tuple[Any, list[Persist]]:
    effects = edge.handle(message, sender="", now=0.0)
    [answer] = [effect.value for effect in effects if isinstance(effect, Answer)]
    return answer, [effect for effect in effects if isinstance(effect, Persist)]


def test_only_namespaces_that_changed_are_persisted() -> None:
    edge, by = learning_edge(), Rights("alice")
    _, changes = handled(edge, Posts((Post(({"n": 1},), "east", by, "p", 1),)))
    assert changes == [records.TYPES.put("east", value=b'{"attributes":{"n":{"type":"number"}},"unasked":["n"]}')]
    _, changes = handled(edge, Posts((Post(({"n": 2},), "east", by, "p", 2),)))
    assert changes == []


def test_types_that_an_earlier_version_learned_for_all_are_taken_over() -> None:
    edge = learning_edge()
    shared = Schema({"n": Number(), "s": String()})
    message = m.Subscribe("x", b'{"op":">","args":[{"property":"n"},1]}', "acme")
    stored = {
        records.SCHEMA.key(): shared.to_json().encode(),
        records.INTEREST.key("s:acme:x", "key"): m.encode(message),
    }
    effects = edge.restore(stored, now=0.0)
    assert records.SCHEMA.drop() in effects
    assert {name: space.schema for name, space in edge.checks.content.spaces.items()} == {
        "acme": shared,
        "default": shared,
    }
    assert records.TYPES.put("acme", value=shared.to_json().encode()) in effects


def test_namespaces_that_learn_are_bounded_and_empty_ones_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content_module, "MAX_NAMESPACES", 3)
    content = Content()
    for name in "abc":
        content.of(name)
    content.of("d").compile("n > 1")  # a, b and c have learned nothing
    for name in "ef":
        content.of(name).compile("n > 1")
    with pytest.raises(LimitError, match="namespaces that learn types"):
        content.of("g")
    assert list(content.of("e").schema) == ["n"]


def test_a_snapshot_teaches_its_namespaces_and_no_other() -> None:
    edge = learning_edge()
    edge.handle(LearnTypes(Schema({"n": Number()}), ("east",)), sender="", now=0.0)
    assert {name: list(space.schema) for name, space in edge.checks.content.spaces.items()} == {"east": ["n"]}


def test_forgetting_keeps_what_subscriptions_name() -> None:
    edge, by = learning_edge(), Rights("alice")
    request = m.Subscribe("x", b'{"op":">","args":[{"property":"n"},1]}', "east")
    handled(edge, SubscribeFor((("s:east:x", request),), by))
    handled(edge, Posts((Post(({"n": 1, "other": 2},), "east", by, "p", 1),)))
    assert len(edge.traffic.recent_events) == 1
    forgotten, changes = handled(edge, ForgetTypes("east", by))
    assert forgotten == ["other"]
    assert records.TYPES.put("east", value=b'{"attributes":{"n":{"type":"number"}}}') in changes
    assert len(edge.traffic.recent_events) == 0  # they were read under types that are gone
