"""Attack: a token that may only publish, or that has a policy, reads the events, filters and names of others.

Every endpoint is in the table below with what it needs. A token that may only publish is shown nothing by any of them,
a policy hides events as it would for a subscription, and names of clients are for their own principal and for admins.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import tamis
from tamis.web.app import ENDPOINTS
from tests.attacks.callers import Guarded, guarded_broker

TENANT = '[[tenants]]\nnamespace = "acme"\npolicy = "region = \'eu\'"\n'

#: ``{(method, path): body}`` of every endpoint that shows something of others; see `OPEN` for the rest.
SHOWING: dict[tuple[str, str], Any] = {
    ("GET", "/v1/events"): None,
    ("GET", "/v1/deliveries"): None,
    ("POST", "/v1/subscriptions"): {"filter": "price > 0"},
    ("GET", "/v1/subscriptions"): None,
    ("GET", "/v1/subscriptions/{id}"): None,
    ("PUT", "/v1/subscriptions/{id}"): {"filter": "price > 1"},
    ("DELETE", "/v1/subscriptions/{id}"): None,
    ("GET", "/v1/subscriptions/{id}/events"): None,
    ("GET", "/v1/subscriptions/{id}/log"): None,
    ("POST", "/v1/subscriptions/{id}/acknowledge"): {"cursor": "1-1"},
    ("POST", "/v1/subscriptions/{id}/take"): {"consumer": "w"},
    ("POST", "/v1/subscriptions/{id}/settle"): {"consumer": "w"},
    ("GET", "/v1/subscriptions/{id}/dead"): None,
    ("POST", "/v1/subscriptions/{id}/dead/replay"): {"upto": "1-1"},
    ("POST", "/v1/subscriptions/{id}/dead/drop"): {"upto": "1-1"},
    ("PUT", "/v1/subscriptions/{id}/webhook"): {"url": "https://hooks.example/"},
    ("GET", "/v1/subscriptions/{id}/webhook"): None,
    ("DELETE", "/v1/subscriptions/{id}/webhook"): None,
    ("POST", "/v1/subscriptions/{id}/webhook/rotate"): {},
    ("POST", "/v1/subscriptions/{id}/webhook/suspend"): {},
    ("POST", "/v1/subscriptions/{id}/webhook/resume"): {},
    ("GET", "/v1/webhooks"): None,
    ("GET", "/v1/links"): None,
    ("PUT", "/v1/links/{name}"): {},
    ("DELETE", "/v1/links/{name}"): None,
    ("POST", "/v1/links/{name}/skip"): {},
    ("POST", "/v1/links/{name}/resume"): {},
    ("POST", "/v1/explain"): {"id": "all", "event": {"price": 1}},
    ("POST", "/v1/trial"): {"filter": "price IS NOT NULL"},
    ("POST", "/v1/matches"): {"event": {"price": 1}},
    ("POST", "/v1/comparison"): {"brokers": 2},
    ("GET", "/v1/statistics"): None,
    ("GET", "/v1/audit"): None,
    ("GET", "/v1/schema"): None,
    ("DELETE", "/v1/schema"): None,
    ("GET", "/metrics"): None,
}

#: What shows nothing of others: publishing answers with the ids of its own events, producers are those of the caller.
OPEN = {("POST", "/v1/events"), ("GET", "/v1/producers/{id}"), ("GET", "/healthz")}

#: What shows the whole broker, and what is for admins.
OVERVIEW = {("GET", "/v1/statistics"), ("GET", "/metrics"), ("POST", "/v1/comparison")}
FOR_ADMINS = {
    *{("GET", "/v1/audit"), ("DELETE", "/v1/schema"), ("GET", "/v1/links")},
    *{("POST", "/v1/links/{name}/skip"), ("POST", "/v1/links/{name}/resume")},
    *{("PUT", "/v1/links/{name}"), ("DELETE", "/v1/links/{name}")},
}

#: Who is refused, besides a token that may only publish.
REFUSED = {
    "tenant": OVERVIEW | FOR_ADMINS,
    "cheap": OVERVIEW | FOR_ADMINS,
    "reader": FOR_ADMINS,
}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    with guarded_broker(tmp_path_factory.mktemp("reading"), TENANT) as broker:
        broker.add("admin", is_admin=True)
        broker.add("reader", may_publish=False)
        broker.add("writer", may_subscribe=False)
        broker.add("writing-admin", may_subscribe=False, is_admin=True)
        broker.add("cheap", policy="price < 100")
        broker.add("cheap-admin", policy="price < 100", is_admin=True)
        broker.add("tenant", namespaces=("acme",))
        with tamis.connect(broker.broker.url, token=broker.secrets["admin"], client="laptop-of-the-boss") as client:
            client.subscribe("price > 0", id="all", durable=True)
            client.publish([{"price": 5}, {"price": 500}])
        broker.ask("admin", "/v1/subscriptions", "POST", {"id": "everything", "filter": "price > 0"})
        assert broker.ask("admin", "/v1/events", "POST", [{"price": 7}, {"price": 700}]).status == 200
        yield broker


def test_the_table_has_every_endpoint() -> None:
    assert set(SHOWING) | OPEN == {(method, path) for method, path, _ in ENDPOINTS}


@pytest.mark.parametrize("who", ["writer", "writing-admin"])
@pytest.mark.parametrize(("method", "path"), SHOWING, ids=lambda value: value)
def test_a_token_that_may_only_publish_is_shown_nothing(guarded: Guarded, method: str, path: str, who: str) -> None:
    for id in ("everything", "nothing"):
        answer = guarded.ask(who, path.replace("{id}", id), method, SHOWING[method, path])
        assert answer.status == 403, answer.body
        assert set(answer.json) == {"error", "status"}


@pytest.mark.parametrize(
    ("who", "method", "path"), [(who, *request) for who, many in REFUSED.items() for request in sorted(many)]
)
def test_what_shows_the_whole_broker_is_not_for_a_part_of_it(
    guarded: Guarded, who: str, method: str, path: str
) -> None:
    assert guarded.ask(who, path, method, SHOWING[method, path]).status == 403


@pytest.mark.parametrize("who", ["cheap", "cheap-admin"])
def test_a_policy_hides_recent_events_and_deliveries(guarded: Guarded, who: str) -> None:
    events = guarded.ask(who, "/v1/events").json["events"]
    assert [message["event"]["price"] for message in events] == [7, 5]
    deliveries = guarded.ask(who, "/v1/deliveries").json["deliveries"]
    assert {message["event"]["price"] for message in deliveries} == {5, 7}
    assert {message["event"]["price"] for message in guarded.ask("reader", "/v1/deliveries").json["deliveries"]} == {
        5,
        7,
        500,
        700,
    }


def test_a_policy_is_joined_to_a_trial(guarded: Guarded) -> None:
    question = {"filter": "price IS NOT NULL OR price IS NULL"}
    tried = guarded.ask("cheap", "/v1/trial", "POST", question).json
    assert (tried["examined"], tried["matched"]) == (2, 2)
    assert {event["event"]["price"] for event in tried["events"]} == {5, 7}
    assert guarded.ask("admin", "/v1/trial", "POST", question).json["examined"] == 4


def test_an_admin_with_a_policy_does_not_read_the_queues_of_others(guarded: Guarded) -> None:
    assert guarded.ask("cheap-admin", "/v1/subscriptions/everything/log").status == 403
    assert guarded.ask("cheap-admin", "/v1/subscriptions/everything/events?limit=1").status == 403
    assert guarded.ask("admin", "/v1/subscriptions/everything/log").status == 200


def test_another_tenant_sees_none_of_it(guarded: Guarded) -> None:
    assert guarded.ask("tenant", "/v1/events").json["events"] == []
    assert guarded.ask("tenant", "/v1/deliveries").json["deliveries"] == []
    assert guarded.ask("tenant", "/v1/trial", "POST", {"filter": "price > 0"}).status == 403
    assert guarded.ask("tenant", "/v1/matches", "POST", {"event": {"price": 1}}).status == 403
    assert guarded.ask("tenant", "/v1/schema").status == 403
    assert guarded.ask("tenant", "/v1/schema?namespace=acme").json["attributes"] == {}
    assert guarded.ask("tenant", "/v1/events?namespace=acme", "POST", {"price": 3, "region": "eu"}).status == 200
    assert guarded.ask("tenant", "/v1/trial", "POST", {"filter": "price > 0", "namespace": "acme"}).status == 200


@pytest.mark.parametrize(
    ("method", "path"),
    [request for request in SHOWING if request[0] == "GET" and "{id}" not in request[1]] + [("POST", "/v1/explain")],
)
def test_names_of_clients_are_for_admins(guarded: Guarded, method: str, path: str) -> None:
    body = SHOWING[method, path]
    shown = guarded.ask("reader", path, method, body)
    if path not in ("/v1/events", "/v1/deliveries"):  # the id of an event names its publisher, for all who may read it
        assert b"laptop-of-the-boss" not in shown.body
    if path == "/v1/deliveries":
        assert {delivery["client"] for delivery in shown.json["deliveries"]} == {None, 's:default:"everything"'}
    if path in ("/v1/deliveries", "/v1/subscriptions", "/v1/statistics", "/metrics"):
        assert b"laptop-of-the-boss" in guarded.ask("admin", path, method, body).body
