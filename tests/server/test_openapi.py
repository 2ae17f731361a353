"""The broker against its own document: each answer has a status, a type and a form that the document names."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.core.failures import FailureGroup
from schemathesis.core.transport import Response
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tamis.web.openapi import document
from tests.server.processes import HANGS, BrokerProcess, a_line, ask, running

OPERATIONS = {
    operation.ok().label: operation.ok()
    for operation in schemathesis.openapi.from_dict(document()).get_all_operations()
}
CHECKS: list[Any] = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]

#: Chance writes no filter that means something, and all that is behind a good one would never be reached.
FILTERS = [None, "a = 1", "TRUE", "name LIKE 'x%' OR a IS NULL"]

NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker that may have webhooks and calls none: localhost is a private address."""
    config = 'data = "data"\n[webhooks]\nhosts = ["localhost"]\nmost = 100000'
    with running(BrokerProcess(tmp_path_factory.mktemp("broker"), config)) as (process,):
        yield process


@pytest.fixture(scope="module")
def linked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker with a link to another that does not run."""
    with running(a_line(tmp_path_factory.mktemp("linked"), "ab")[0]) as (process,):
        yield process


@pytest.mark.parametrize("count", [20, pytest.param(2_000, marks=pytest.mark.soak, id="soak-server")])
@pytest.mark.parametrize("label", OPERATIONS)
def test_whatever_is_sent_is_answered_as_the_document_says(
    request: pytest.FixtureRequest, label: str, count: int
) -> None:
    statuses: set[int] = set()
    broker: BrokerProcess = request.getfixturevalue("linked" if "/v1/links/" in label else "broker")

    @given(case=OPERATIONS[label].as_strategy(), filter=st.sampled_from(FILTERS), is_known=st.booleans())
    @settings(max_examples=count, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    def send(case: Any, filter: str | None, is_known: bool) -> None:
        for body in case.body if isinstance(case.body, list) else [case.body]:
            if isinstance(body, dict) and "filter" in body and filter is not None:
                body["filter"] = filter
        if isinstance(case.body, dict) and "wait" in case.body:
            case.body["wait"] = 0  # nothing comes, however long it waits
        if is_known:
            make_good(broker, label, case)
        answer = case.call(base_url=broker.url, timeout=HANGS)
        case.validate_response(answer, checks=CHECKS)
        statuses.add(answer.status_code)

    send()
    assert any(200 <= status < 300 for status in statuses), f"nothing but {statuses}: the good answer was never judged"


def make_good(broker: BrokerProcess, label: str, case: Any) -> None:
    """Put in what chance does not find: a subscription that exists, its cursor, an event for a filter."""
    if "id" in (case.path_parameters or {}):
        case.path_parameters["id"] = a_subscription(broker, is_short=label.endswith("/events"))
        case.query.clear()
    if label == "POST /v1/subscriptions/{id}/acknowledge":
        place = f"{broker.url}/v1/subscriptions/{case.path_parameters['id']}/log"
        case.body, case.media_type = {"cursor": ask(place).json["last"]}, "application/json"
    if "{id}/webhook" in label:
        place = f"{broker.url}/v1/subscriptions/{case.path_parameters['id']}/webhook"
        assert ask(place, "PUT", {"url": "https://localhost/"}).status == 200
        if isinstance(case.body, dict) and "url" in case.body:
            case.body["url"] = "https://localhost/other"
    if label.startswith("POST /v1/links/"):
        case.path_parameters["name"] = "b"
    if label.endswith(" /v1/links/{name}"):
        name = case.path_parameters["name"] = f"n{next(NUMBERS)}"
        if label.startswith("DELETE"):
            assert ask(f"{broker.url}/v1/links/{name}", "PUT", {}).status == 201
        else:
            case.body, case.media_type = {"when_full": "drop"}, "application/json"
    if label == "POST /v1/explain":
        # An attribute of its own: events of other tests may have taught the broker another type of ``a``.
        question = {"filter": "explained = 1", "id": f"known-{next(NUMBERS)}"}
        assert ask(f"{broker.url}/v1/subscriptions", "POST", question).status == 201
        case.body, case.media_type = {"filter": "explained = 1", "event": {"explained": 1}}, "application/json"


def a_subscription(broker: BrokerProcess, *, is_short: bool) -> str:
    """Return the id of a new subscription; a short one ends soon, and with it the stream of its events."""
    question = {"filter": "TRUE", "id": f"known-{next(NUMBERS)}"} | ({"expires": 1.5} if is_short else {})
    made = ask(f"{broker.url}/v1/subscriptions", "POST", question)
    assert made.status == 201
    return str(made.json["id"])


@pytest.mark.parametrize(
    ("label", "status", "answer", "words"),
    [
        ("GET /healthz", 200, "[]", "is not of type"),
        ("GET /healthz", 302, "{}", "Undocumented status code"),
        ("GET /v1/subscriptions", 200, '{"subscriptions": []}', '"next" is a required property'),
        ("GET /v1/subscriptions", 400, '{"status": 400}', '"error" is a required property'),
        ("GET /v1/audit", 500, '{"error": "x", "status": 500}', "Server error"),
        ("GET /metrics", 200, "{}", "Undocumented Content-Type"),
    ],
)
def test_an_answer_that_the_document_does_not_name_is_noticed(label: str, status: int, answer: str, words: str) -> None:
    method, path = label.split()
    request = requests.Request(method, f"http://broker{path}").prepare()
    headers = {"content-type": ["application/json"]}
    response = Response(status, headers, answer.encode(), request, elapsed=0.0, verify=False)
    with pytest.raises(FailureGroup, match=words):
        OPERATIONS[label].Case().validate_response(response, checks=CHECKS)
