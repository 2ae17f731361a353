"""A broker's port as curl sees it: every endpoint, strict JSON, and limits at N, N + 1 and 100 N."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import re
import select
import shlex
import socket
import subprocess
import threading
import urllib.error
from pathlib import Path
from typing import Any

import pytest

from tamis.runtime.client.connecting import connect
from tests.server.processes import HANGS, Answer, BrokerProcess, ask

NDJSON = "application/x-ndjson"
STRUCTURED = "application/cloudevents+json"
BATCH = "application/cloudevents-batch+json"


def publish(broker: BrokerProcess, body: Any, namespace: str = "default", **headers: str) -> Answer:
    return ask(f"{broker.url}/v1/events?namespace={namespace}", "POST", body, **headers)


def subscribe(broker: BrokerProcess, filter: Any, id: int | str, **fields: Any) -> Answer:
    return ask(f"{broker.url}/v1/subscriptions", "POST", {"filter": filter, "id": id, **fields})


def stream(broker: BrokerProcess, id: int | str, limit: int, query: str = "", **headers: str) -> list[dict[str, Any]]:
    """Read ``limit`` messages of a stream; each has its cursor as ``cursor``."""
    response = ask(f"{broker.url}/v1/subscriptions/{id}/events?limit={limit}{query}", **headers)
    assert response.status == 200, response.body
    blocks = [block for block in response.body.decode().split("\n\n") if "data: " in block]
    cursors = [re.search(r"^id: (.*)$", block, re.MULTILINE) for block in blocks]
    payloads = [re.search(r"^data: (.*)$", block, re.MULTILINE) for block in blocks]
    return [
        json.loads(data[1]) | {"cursor": cursor[1]}
        for cursor, data in zip(cursors, payloads, strict=True)
        if cursor and data
    ]


def test_what_is_published_reaches_who_asked(broker: BrokerProcess) -> None:
    made = subscribe(broker, "mag >= 5", "strong", metadata={"team": "pager"})
    assert (made.status, made.json["state"], made.json["metadata"]) == (201, "active", {"team": "pager"})
    assert publish(broker, {"mag": 6.1, "place": "Alaska"}).json["accepted"] == 1
    assert publish(broker, {"mag": 4.9}).json["accepted"] == 1
    assert publish(broker, [{"mag": 5}, {"mag": 1}]).json["accepted"] == 2
    first, second = stream(broker, "strong", 2)
    assert (first["event"], first["subscriptions"]) == ({"mag": 6.1, "place": "Alaska"}, ["strong"])
    assert second["event"] == {"mag": 5}


def test_a_stream_goes_on_behind_the_last_event_id(broker: BrokerProcess) -> None:
    subscribe(broker, "replayed IS NOT NULL", "replay")
    publish(broker, [{"replayed": i} for i in range(5)])
    all_of_them = stream(broker, "replay", 5)
    again = stream(broker, "replay", 3, Last_Event_ID=all_of_them[1]["cursor"])
    assert again == all_of_them[2:]
    assert stream(broker, "replay", 5, "&after=0-0") == all_of_them
    assert stream(broker, "replay", 3) == all_of_them[2:]  # what Last-Event-ID named is acknowledged, and no more
    assert stream(broker, "replay", 3, "&ack=auto") == all_of_them[2:]
    publish(broker, {"replayed": 9})
    assert [message["event"] for message in stream(broker, "replay", 1)] == [{"replayed": 9}]
    assert ask(f"{broker.url}/v1/subscriptions/replay/events", Last_Event_ID="nonsense").status == 400


@pytest.mark.parametrize(
    ("body", "headers", "expected"),
    [
        ('{"form": 1}\n\n{"form": 2}\n', {"Content_Type": NDJSON}, [{"form": 1}, {"form": 2}]),
        ('{"form": 1}\n{"form": 2}', {"Content_Type": NDJSON}, [{"form": 1}, {"form": 2}]),  # no newline ends it
        ('[{"form": 1}, {"form": 2}]', {}, [{"form": 1}, {"form": 2}]),
        (
            '{"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "data": {"form": 3}}',
            {"Content_Type": STRUCTURED},
            [{"form": 3, "ce_id": "1", "ce_source": "/s", "ce_type": "t"}],
        ),
        (
            '[{"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "data": {"form": 3}}]',
            {"Content_Type": BATCH},
            [{"form": 3, "ce_id": "1", "ce_source": "/s", "ce_type": "t"}],
        ),
        (
            '{"form": 4}',
            {"ce_specversion": "1.0", "ce_id": "7", "ce_source": "/s", "ce_type": "t"},
            [{"form": 4, "ce_id": "7", "ce_source": "/s", "ce_type": "t"}],
        ),
    ],
)
def test_events_come_in_several_forms(
    broker: BrokerProcess, body: str, headers: dict[str, str], expected: list[dict[str, Any]]
) -> None:
    subscribe(broker, "form IS NOT NULL", "forms")
    answer = publish(broker, body, **headers)
    assert answer.json["accepted"] == len(expected)
    assert [message["event"] for message in stream(broker, "forms", len(expected), "&ack=auto")] == expected


BAD_BODIES = [
    ('{"x": NaN}', "NaN"),
    ('{"x": 1e999}', "1e999"),
    ('{"x": 1, "x": 2}', "duplicate"),
    ("{", "not JSON"),
    ("3", "expected an object"),
    ("[3]", "array of objects"),
    ('{"x": "\ud800"}'.encode("utf-8", "surrogatepass"), "not UTF-8"),
]


@pytest.mark.parametrize(("body", "words"), BAD_BODIES)
def test_json_is_read_strictly(broker: BrokerProcess, body: str | bytes, words: str) -> None:
    answer = publish(broker, body)
    assert answer.status == 400
    assert words in answer.json["error"]


def test_one_bad_event_and_none_is_taken(broker: BrokerProcess) -> None:
    subscribe(broker, "whole > 0", "whole")
    answer = publish(broker, [{"whole": 1}, {"whole": "text"}])
    assert answer.status == 400
    assert "row 1" in answer.json["error"]
    publish(broker, {"whole": 2})
    assert [message["event"] for message in stream(broker, "whole", 1)] == [{"whole": 2}]


def nested(depth: int) -> str:
    return '{"deep": ' + "[" * (depth - 1) + "]" * (depth - 1) + "}"


#: What is limited, how to make a request of a size, the limit.
LIMITS = [
    ("attributes", lambda n: {f"a{i}": None for i in range(n)}, 256),
    ("depth", nested, 32),
    ("bytes of an event", lambda n: {"text": "x" * (n - 11)}, 256 * 1024),
    ("events", lambda n: "[" + ",".join(["{}"] * n) + "]", 10_000),
]


@pytest.mark.parametrize(("name", "make", "limit"), LIMITS, ids=[case[0] for case in LIMITS])
def test_limits_of_events(broker: BrokerProcess, name: str, make: Any, limit: int) -> None:
    assert publish(broker, make(limit), f"limit-{name[:5]}").status == 200
    answer = publish(broker, make(limit + 1), f"limit-{name[:5]}")
    assert answer.status in (400, 413), answer.body[:200]
    try:
        assert publish(broker, make(100 * limit), f"limit-{name[:5]}").status in (400, 413)
    except urllib.error.URLError as error:  # it may answer and hang up before all was sent
        if not isinstance(error.reason, ConnectionError):
            raise
    assert ask(f"{broker.url}/healthz").status == 200


@pytest.mark.parametrize(
    ("make", "limit"),
    [
        (lambda n: {"filter": "a = 1", "id": "i" * n}, 128),
        (lambda n: {"filter": "a = 1", "namespace": "n" * n}, 128),
        (lambda n: {"filter": "x = '" + "y" * (n - 6) + "'"}, 16 * 1024),
    ],
)
def test_limits_of_subscriptions(broker: BrokerProcess, make: Any, limit: int) -> None:
    url = f"{broker.url}/v1/subscriptions"
    assert ask(url, "POST", make(limit)).status == 201
    for n in (limit + 1, 100 * limit):
        assert ask(url, "POST", make(n)).status in (400, 413)


def test_a_body_is_not_unpacked(broker: BrokerProcess) -> None:
    assert publish(broker, b"\x1f\x8b", Content_Encoding="gzip").status == 415


def test_subscriptions_are_listed_shown_and_withdrawn(broker: BrokerProcess) -> None:
    for i in range(5):
        assert (
            subscribe(broker, f"listed > {i}", f"page-{i}", metadata={"colour": "red" if i % 2 else "blue"}).status
            == 201
        )
    url = f"{broker.url}/v1/subscriptions"
    page = ask(f"{url}?search=page-&limit=3").json
    rest = ask(f"{url}?search=page-&limit=3&after={page['next']}").json
    assert [shown["id"] for shown in page["subscriptions"] + rest["subscriptions"]] == [f"page-{i}" for i in range(5)]
    assert rest["next"] is None
    assert {shown["id"] for shown in ask(f"{url}?search=red").json["subscriptions"]} == {"page-1", "page-3"}
    assert ask(f"{url}/page-1").json["filter"] == "listed > 1"
    assert subscribe(broker, "a = 1", "page-1").status == 409
    assert ask(f"{url}/page-1", "DELETE").status == 204
    assert ask(f"{url}/page-1").status == 404
    assert ask(f"{url}/page-1/events").status == 404
    assert ask(f"{url}/page-1", "DELETE").status == 404
    assert ask(f"{url}?limit=x").status == 400


def test_a_filter_is_changed_in_one_step(broker: BrokerProcess) -> None:
    url = f"{broker.url}/v1/subscriptions/moving"
    assert ask(url, "PUT", {"filter": "position > 1"}).status == 404  # it does not make one
    made = subscribe(broker, "position BETWEEN 0 AND 10", "moving", metadata={"colour": "red"}, expires=1000).json
    assert publish(broker, {"position": 3}).status == 200
    changed = ask(url, "PUT", {"filter": "position BETWEEN 5 AND 15"})
    assert (changed.status, changed.json["filter"]) == (200, "position BETWEEN 5 AND 15")
    for name in ("metadata", "expires", "durable", "created", "owner"):
        assert changed.json[name] == made[name], name
    assert publish(broker, [{"position": 4}, {"position": 12}]).status == 200
    log = ask(f"{url}/log").json["messages"]
    assert [message["event"]["position"] for message in log] == [3, 12]  # what waited stays
    assert ask(url, "PUT", {"filter": "position > 7", "expires": None, "metadata": {}}).json["expires"] is None
    assert ask(url).json["metadata"] == {}


def test_a_change_that_is_refused_changes_nothing(broker: BrokerProcess) -> None:
    subscribe(broker, "still > 1", "still")
    url = f"{broker.url}/v1/subscriptions/still"
    for body, status in (
        ({"filter": "still >"}, 400),
        ({"filter": "still > 'text'"}, 400),
        ({"filter": "still > 2", "id": "other"}, 400),
        ({"durable": False}, 400),
        ({"filter": "still > 2", "expires": -1}, 400),
        ([], 400),
    ):
        answer = ask(url, "PUT", body)
        assert (answer.status, bool(answer.json["error"])) == (status, True), (body, answer.body)
    assert ask(url).json["filter"] == "still > 1"
    publish(broker, {"still": 5})
    assert len(ask(f"{url}/log").json["messages"]) == 1


def test_deliveries_carry_the_fields_that_were_asked_for(broker: BrokerProcess) -> None:
    url = f"{broker.url}/v1/subscriptions/narrow"
    made = subscribe(broker, "narrow > 0", "narrow", fields=["narrow", "spot"])
    assert (made.status, made.json["fields"]) == (201, ["narrow", "spot"])
    subscribe(broker, "narrow > 0", "all-fields")
    assert publish(broker, [{"narrow": 1, "spot": "here", "hidden": 5}, {"narrow": 2, "beside": "x"}]).status == 200
    changed = ask(url, "PUT", {"filter": "narrow > 0", "fields": ["spot"]})
    assert changed.json["fields"] == ["spot"]
    publish(broker, {"narrow": 3, "spot": "there"})
    ask(url, "PUT", {"filter": "narrow > 0", "fields": []})
    publish(broker, {"narrow": 4, "spot": "there"})
    events = [message["event"] for message in ask(f"{url}/log").json["messages"]]
    assert events == [{"narrow": 1, "spot": "here"}, {"narrow": 2}, {"spot": "there"}, {"narrow": 4, "spot": "there"}]
    whole = ask(f"{broker.url}/v1/subscriptions/all-fields/log").json["messages"]
    assert whole[0]["event"] == {"narrow": 1, "spot": "here", "hidden": 5}
    for fields in ("narrow", ["a", "a"], [""], [1], ["n"] * 300):
        assert subscribe(broker, "narrow > 0", "bad", fields=fields).status in (400, 413), fields


def test_an_integer_is_an_id_too(broker: BrokerProcess) -> None:
    assert subscribe(broker, "a = 1", 7).json["id"] == 7
    assert ask(f"{broker.url}/v1/subscriptions/7").json["id"] == 7


ODD_IDS = ["地震", "é", "team/alerts", "team%2Falerts", "/", "..", "s/events", "a b/c?d#e", "a\0b", "a\r\nX-Evil: 1"]


@pytest.mark.parametrize("id", ODD_IDS)
def test_an_id_may_be_any_text_and_its_place_is_an_address(broker: BrokerProcess, id: str) -> None:
    made = subscribe(broker, "placed = 1", id)
    assert (made.status, made.json["id"]) == (201, id)
    assert "x-evil" not in {name.lower() for name in made.headers}
    place = broker.url + made.headers["location"]
    assert ask(place).json["id"] == id
    publish(broker, {"placed": 1})
    assert b'"placed":1' in ask(f"{place}/events?limit=1").body
    assert ask(place, "DELETE").status == 204
    assert ask(place).status == 404


UNWRITABLE = [
    ('{"filter": "a = 1", "id": 9223372036854775808}', "64 bits"),
    ('{"filter": "a = 1", "id": -9223372036854775809}', "64 bits"),
    ('{"filter": "a = 1", "id": 1' + "0" * 300 + "}", "64 bits"),
    (r'{"filter": "a = 1", "id": "\ud800"}', r"\ud800 is half"),
    (r'{"filter": "a = 1", "namespace": "x\uDFFF"}', r"\udfff is half"),
    (r'{"filter": "a = 1", "metadata": {"\ud800": "x"}}', r"\ud800 is half"),
    (r'{"filter": {"op": "=", "args": [{"property": "\ud800"}, 1]}}', r"\ud800 is half"),
    (r'[{"filter": "a = 1", "id": "\ud800"}]', r"\ud800 is half"),
]


@pytest.mark.parametrize(("body", "words"), UNWRITABLE)
def test_what_cannot_be_written_to_the_disk_is_refused_and_harms_no_other_client(
    broker: BrokerProcess, body: str, words: str
) -> None:
    answer = ask(f"{broker.url}/v1/subscriptions", "POST", body)
    assert answer.status == 400
    assert words in answer.json["error"]
    for place in ("events", "trial", "matches", "explain"):
        assert ask(f"{broker.url}/v1/{place}", "POST", body).status < 500
    assert ask(f"{broker.url}/healthz").status == 200


def test_a_whole_pair_is_text(broker: BrokerProcess) -> None:
    made = ask(f"{broker.url}/v1/subscriptions", "POST", r'{"filter": "a = 1", "id": "\ud83d\ude00"}')
    assert (made.status, made.json["id"]) == (201, "\N{GRINNING FACE}")


def test_a_subscription_that_expires_ends(broker: BrokerProcess) -> None:
    assert subscribe(broker, "a = 1", "short", expires=3.0).status == 201  # long enough to ask for its stream
    ended = ask(f"{broker.url}/v1/subscriptions/short/events")  # the stream ends with its subscription
    assert ended.status == 200
    assert ask(f"{broker.url}/v1/subscriptions/short").status == 404
    assert subscribe(broker, "a = 1", "x", expires="soon").status == 400


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"filter": "mag >"}, "column 6"),
        ({"filter": {"op": "nonsense", "args": []}}, "nonsense"),
        ({}, "filter"),
        ({"filter": "a = 1", "nonsense": 1}, "nonsense"),
        ({"filter": "a = 1", "namespace": "*"}, "namespace"),
        ({"filter": "a = 1", "id": True}, "id"),
    ],
)
def test_a_bad_subscription_is_refused(broker: BrokerProcess, document: dict[str, Any], words: str) -> None:
    answer = ask(f"{broker.url}/v1/subscriptions", "POST", document)
    assert answer.status == 400
    assert words in answer.json["error"]


WORDED = {
    "a limit of take": ("POST", "/take", {"consumer": "a", "limit": 300}, "limit: expected a whole number from 1 to"),
    "no consumer": ("POST", "/take", {"limit": 3}, "the field 'consumer' is missing"),
    "an empty consumer": ("POST", "/take", {"consumer": ""}, "consumer: expected text of 1 to 128 characters, got ''"),
    "a cursor": ("POST", "/settle", {"consumer": "a", "release": [5]}, "release[0]: expected text, got 5"),
    "a format": (
        "PUT",
        "/webhook",
        {"url": "https://h/", "format": "xml"},
        "format: expected 'binary' or 'structured', got 'xml'",
    ),
    "durable": ("PUT", "", {"filter": "a > 1", "durable": "no"}, "durable: expected true or false, got 'no'"),
    "metadata": ("PUT", "", {"filter": "a > 1", "metadata": {"a": 1}}, "metadata: expected text as every value"),
    "an unknown field": (
        "PUT",
        "",
        {"filter": "a > 1", "max_delivery": 1},
        "unknown field 'max_delivery', did you mean 'max_deliveries'? (known fields: filter, durable, expires,",
    ),
    "an offset": (
        "PUT",
        "",
        {"filter": "a > 1", "expires": "2026-01-01T00:00:00+99:00"},
        "expires: not a valid time: an offset is less than 24 hours",
    ),
    "a ring": (
        "PUT",
        "",
        {"filter": "S_INTERSECTS(area, POLYGON((0 0)))"},
        "not WKT: a line has at least two points, a ring at least four",
    ),
    "dead letters of none": (
        "PUT",
        "",
        {"filter": "a > 1", "durable": False, "max_deliveries": 3},
        "max_deliveries: only the messages of a durable subscription",
    ),
}


def test_what_is_wrong_with_a_field_is_said_in_plain_words(broker: BrokerProcess) -> None:
    subscribe(broker, "worded > 1", "worded")
    for name, (method, place, body, words) in WORDED.items():
        answer = ask(f"{broker.url}/v1/subscriptions/worded{place}", method, body)
        assert (answer.status, answer.json["error"][: len(words)]) == (400, words), name
        assert not re.search(r"[`$]|Exception|timedelta", answer.json["error"]), name
    answer = subscribe(broker, "worded > 1", "fleeting", durable=False, max_deliveries=3)
    assert (answer.status, "durable" in answer.json["error"]) == (400, True)


def test_too_much_is_refused_with_the_status_that_the_page_says(broker: BrokerProcess) -> None:
    statuses = {
        413: [{"x" * 257: 1}],
        400: [{f"a{n}": n for n in range(257)}, json.loads('{"a":' * 32 + "1" + "}" * 32), {"a": [[]] * 40_001}],
    }
    for status, bodies in statuses.items():
        for body in bodies:
            assert publish(broker, body).status == status, str(body)[:60]
    assert ask(f"{broker.url}/v1/subscriptions?limit=1001").status == 400
    assert publish(broker, {"a": 1}, "n" * 129).status == 400
    assert subscribe(broker, "a > 1", "i" * 129).status == 400


def test_namespaces_do_not_meet(broker: BrokerProcess) -> None:
    subscribe(broker, "meets = 1", "here", namespace="blue")
    publish(broker, {"meets": 1, "from": "red"}, "red")
    publish(broker, {"meets": 1, "from": "blue"}, "blue")
    assert [message["event"]["from"] for message in stream(broker, "here", 1, "&namespace=blue")] == ["blue"]


def test_explain_says_why_and_why_not(broker: BrokerProcess) -> None:
    subscribe(broker, "size >= 5 AND colour = 'red'", "explained")
    url = f"{broker.url}/v1/explain"
    no = ask(url, "POST", {"id": "explained", "event": {"size": 7, "colour": "blue"}}).json
    assert (no["matched"], [condition["outcome"] for condition in no["conditions"]]) == (False, [True, False])
    assert ask(url, "POST", {"filter": "size >= 5", "event": {"size": 5}}).json["matched"] is True
    assert ask(url, "POST", {"id": "absent", "event": {}}).status == 404
    for nothing in ({}, {"event": {"size": 1}}):
        assert 'expected {"event": {...}, "filter"' in ask(url, "POST", nothing).json["error"]


def test_a_question_about_nothing_is_told_what_is_missing(broker: BrokerProcess) -> None:
    subscribe(broker, "asked > 1", "asked")
    for body, words in (
        ({}, 'expected {"event": {...}, "filter": "..."} or'),
        ({"namespace": 5, "id": "asked"}, "namespace: expected text"),
        ({"id": "asked", "client": 5}, "client: expected text"),
    ):
        answer = ask(f"{broker.url}/v1/explain", "POST", body)
        assert (answer.status, answer.json["error"][: len(words)]) == (400, words)


def test_a_subscription_of_a_client_is_explained_by_its_id(broker: BrokerProcess) -> None:
    async def ask_as(clients: tuple[str, ...]) -> None:
        for name in clients:
            async with connect(broker.url, client=name) as client:
                await client.subscribe("size >= 5", id="of-a-client")

    question = {"id": "of-a-client", "event": {"size": 7}}
    asyncio.run(ask_as(("laptop",)))
    assert ask(f"{broker.url}/v1/explain", "POST", question).json["matched"] is True
    asyncio.run(ask_as(("phone",)))
    refused = ask(f"{broker.url}/v1/explain", "POST", question)
    assert (refused.status, "2 clients have a subscription" in refused.json["error"]) == (400, True)
    assert ask(f"{broker.url}/v1/explain", "POST", question | {"client": "phone"}).json["matched"] is True


def test_others_pages_are_refused(broker: BrokerProcess) -> None:
    assert publish(broker, {"a": 1}, Origin="https://evil.example").status == 403
    assert publish(broker, {"a": 1}, Origin="null").status == 403
    assert publish(broker, {"a": 1}, Origin=broker.url).status == 200
    assert ask(f"{broker.url}/v1/subscriptions", Host="evil.example").status == 421


def test_health_metrics_statistics_and_the_document(broker: BrokerProcess) -> None:
    assert ask(f"{broker.url}/healthz").json["status"] == "ok"
    subscribe(broker, "watched >= 0", "watched")
    publish(broker, {"watched": 1})
    text = ask(f"{broker.url}/metrics").body.decode()
    assert "tamis_events_total" in text
    assert "tamis_request_seconds_bucket" in text
    assert ask(f"{broker.url}/v1/statistics").json["now"]["subscriptions"] > 0
    openapi = ask(f"{broker.url}/openapi.json")
    assert set(openapi.json["paths"]) >= {"/v1/events", "/v1/subscriptions/{id}/events", "/v1/explain"}
    assert "script-src" not in openapi.headers["content-security-policy"]
    nowhere = ask(f"{broker.url}/nowhere")
    assert (nowhere.status, nowhere.headers["x-content-type-options"]) == (404, "nosniff")
    assert "no such endpoint: '/nowhere'; /openapi.json" in nowhere.json["error"]
    wrong = ask(f"{broker.url}/v1/events", "PATCH")
    assert (wrong.status, wrong.json["error"].partition("; ")[0]) == (405, "'/v1/events' does not accept PATCH")
    assert ask(f"{broker.url}/v1/events").json["events"]


#: Chunks of 1 MiB that are sent to a server before it counts as one without a limit; a broker's is 16 MiB.
ENDLESS = 64


def send_without_end(port: int) -> tuple[int, int | None]:
    """Send a body without an end until the server answers or hangs up.

    Return how many MiB were sent and the status, None when the connection was cut before it could be read. Raise
    AssertionError when the server takes `ENDLESS` MiB. A server that neither reads nor answers is a TimeoutError.
    """
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=HANGS)) as connection:
        connection.putrequest("POST", "/v1/events")
        connection.putheader("Transfer-Encoding", "chunked")
        connection.endheaders()
        sent = 0
        try:
            while not select.select([connection.sock], [], [], 0)[0]:
                assert sent < ENDLESS, f"the server took {sent} MiB"
                connection.send(b"100000\r\n" + b" " * 0x100000 + b"\r\n")
                sent += 1
            return sent, connection.getresponse().status
        except (ConnectionError, http.client.BadStatusLine):
            return sent, None


def test_a_request_without_an_end_is_bounded(broker: BrokerProcess) -> None:
    sent, status = send_without_end(broker.port)
    assert 16 <= sent < ENDLESS
    assert status in (413, None)
    assert ask(f"{broker.url}/healthz").status == 200


def test_a_server_without_a_limit_would_be_noticed() -> None:
    """A stand-in that reads everything and answers nothing."""

    def swallow(listener: socket.socket) -> None:
        peer, _ = listener.accept()
        with peer:
            while peer.recv(1 << 20):
                pass

    with socket.create_server(("127.0.0.1", 0)) as listener:
        reading = threading.Thread(target=swallow, args=(listener,))
        reading.start()
        with pytest.raises(AssertionError, match="the server took 64 MiB"):
            send_without_end(listener.getsockname()[1])
        reading.join(HANGS)
        assert not reading.is_alive()


def test_the_examples_of_the_page_run(broker: BrokerProcess) -> None:
    page = (Path(__file__).parents[2] / "docs" / "server.md").read_text()
    blocks = re.findall(r"^```sh\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    commands = [line for block in blocks for line in block.splitlines() if "curl" in line]
    assert len(commands) >= 9
    for id in ("strong", "felt", "short", "jobs"):
        ask(f"{broker.url}/v1/subscriptions/{id}", "DELETE")
    cursor = ""
    for command in commands:
        line = command.replace("http://127.0.0.1:8080", broker.url).replace("curl ", "curl -sS --fail --max-time 20 ")
        line = re.sub(r"[0-9]{16}-1", cursor, line)  # that of the page is of another broker
        done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False)
        assert done.returncode == 0, (shlex.quote(line), done.stdout, done.stderr)
        if "/take" in line:
            [message] = json.loads(done.stdout)["messages"]
            cursor = message["cursor"]


@pytest.mark.parametrize(
    ("path", "more"), [("/v1/subscriptions", {}), ("/v1/trial", {}), ("/v1/explain", {"event": {"price": 1}})]
)
def test_a_filter_in_another_dialect_is_answered_with_the_corrected_one(
    broker: BrokerProcess, path: str, more: dict[str, object]
) -> None:
    refused = ask(f"{broker.url}{path}", "POST", {"filter": "price == 5 && size != 3", **more})
    assert (refused.status, refused.json["position"]) == (400, 6)
    assert refused.json["corrected"] == "price = 5 AND size <> 3"
    assert refused.json["error"].endswith("write:\n  price = 5 AND size <> 3")
