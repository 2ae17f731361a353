"""Webhooks with real receivers: signed, in order, retried, suspended, after a kill; and what they must not call."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h11
import pytest
from typer.testing import CliRunner

from tamis.cli.main import app
from tamis.errors import ModelError
from tamis.routing.webhooks.rules import WebhookRules
from tamis.runtime.broker.config import read_config
from tamis.runtime.webhooks.calling import MAX_ANSWER, CallError, Endpoint, _pause
from tamis.runtime.webhooks.documents import Request
from tests.attacks.callers import guarded_broker
from tests.server.processes import BrokerProcess, ask, running, wait_until
from tests.server.receiver import Received, Receiver, write_authority

SECRET = "whsec_" + "c2VjcmV0" * 4

RULES = """
[webhooks]
hosts = ["localhost"]
networks = ["127.0.0.0/8", "::1/128"]
http = true
ca_file = "ca.pem"
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("webhooks")
    write_authority(directory)
    return directory


@pytest.fixture(scope="module")
def broker(place: Path) -> Iterator[BrokerProcess]:
    with running(BrokerProcess(place, f'data = "data"\n{RULES}')) as (process,):
        yield process


def subscribe(broker: BrokerProcess, id: str, url: str = "", **settings: Any) -> dict[str, Any]:
    """Make a subscription to events that have an attribute of its name; with a URL, a webhook too."""
    assert ask(f"{broker.url}/v1/subscriptions", "POST", {"id": id, "filter": f"{id} >= 0"}).status == 201
    return put(broker, id, url, **settings) if url else {}


def put(broker: BrokerProcess, id: str, url: str, **settings: Any) -> dict[str, Any]:
    answer = ask(f"{broker.url}/v1/subscriptions/{id}/webhook", "PUT", {"url": url, **settings})
    assert answer.status == 200, answer.body
    shown: dict[str, Any] = answer.json
    return shown


def publish(broker: BrokerProcess, id: str, numbers: range) -> None:
    assert ask(f"{broker.url}/v1/events", "POST", [{id: n} for n in numbers]).status == 200


def state(broker: BrokerProcess, id: str) -> dict[str, Any]:
    shown: dict[str, Any] = ask(f"{broker.url}/v1/subscriptions/{id}/webhook").json
    return shown


def suspensions(broker: BrokerProcess, id: str) -> list[dict[str, Any]]:
    deeds = ask(f"{broker.url}/v1/audit").json["deeds"]
    return [deed for deed in deeds if deed["subject"] == id and deed["what"] == "webhook suspend"]


def numbers(receiver: Receiver, id: str) -> list[int]:
    return [event["data"][id] for event in receiver.events]


def test_batches_arrive_in_order_over_tls_signed_as_cloud_events(broker: BrokerProcess, place: Path) -> None:
    with Receiver(place) as receiver:
        subscribe(broker, "tls")
        publish(broker, "tls", range(25))  # what waits is sent first
        shown = put(broker, "tls", receiver.url, batch=10)
        publish(broker, "tls", range(25, 40))
        wait_until(lambda: len(receiver.events) >= 40, "all events")
        assert numbers(receiver, "tls") == list(range(40))
        first = receiver.requests[0]
        assert first.is_signed_with(shown["secret"])
        assert not first.is_signed_with(SECRET)
        verify = verify_of_page()
        verify(first.headers, first.body, shown["secret"])
        with pytest.raises(ValueError, match="signature is wrong"):
            verify(first.headers, first.body + b" ", shown["secret"])
        with pytest.raises(ValueError, match="too old"):
            verify(first.headers | {"webhook-timestamp": "1"}, first.body, shown["secret"])
        assert first.headers["content-type"] == "application/cloudevents-batch+json"
        assert abs(int(first.headers["webhook-timestamp"]) - time.time()) < 600
        assert len(first.json) == 10
        event = first.json[0]
        assert {name: event[name] for name in ("specversion", "type", "subject", "source", "datacontenttype")} == {
            "specversion": "1.0",
            "type": "tamis.event",
            "subject": "tls",
            "source": "/broker/default",
            "datacontenttype": "application/json",
        }
        log = ask(f"{broker.url}/v1/subscriptions/tls/log").json
        assert [message["id"] for message in log["messages"]] == [event["id"] for event in receiver.events]
        assert [message["cursor"] for message in log["messages"]] == [event["cursor"] for event in receiver.events]
        wait_until(lambda: state(broker, "tls")["waiting"] == 0, "the acknowledgement")
        assert "secret" not in state(broker, "tls")


def verify_of_page() -> Any:
    """Return the receiver's function of docs/server.md."""
    page = (Path(__file__).parents[2] / "docs" / "server.md").read_text(encoding="utf-8")
    [code] = [block for block in page.split("```") if block.startswith("python\n") and "def verify" in block]
    names: dict[str, Any] = {}
    exec(code.removeprefix("python\n"), names)
    return names["verify"]


def test_a_certificate_of_another_authority_or_name_is_refused(broker: BrokerProcess, tmp_path: Path) -> None:
    write_authority(tmp_path)
    with Receiver(tmp_path) as receiver:
        subscribe(broker, "other", receiver.url)
        publish(broker, "other", range(1))
        wait_until(lambda: state(broker, "other")["state"] == "failing", "the failure")
        assert "TLS: CERTIFICATE_VERIFY_FAILED" in state(broker, "other")["problem"]
        assert receiver.requests == []


def test_binary_cloud_events_and_a_rotated_secret(broker: BrokerProcess) -> None:
    with Receiver() as receiver:
        subscribe(broker, "binary", receiver.url, format="binary", secret=SECRET)
        publish(broker, "binary", range(2))
        wait_until(lambda: len(receiver.requests) == 2, "two requests")
        first = receiver.requests[0]
        assert first.json == {"binary": 0}
        assert {name: first.headers[name] for name in ("content-type", "ce-specversion", "ce-type", "ce-subject")} == {
            "content-type": "application/json",
            "ce-specversion": "1.0",
            "ce-type": "tamis.event",
            "ce-subject": "binary",
        }
        assert len({request.headers["webhook-id"] for request in receiver.requests}) == 2
        made = ask(f"{broker.url}/v1/subscriptions/binary/webhook/rotate", "POST", {"overlap": 600}).json
        assert made["secrets"] == 2
        publish(broker, "binary", range(2, 3))
        wait_until(lambda: len(receiver.requests) == 3, "a request after the rotation")
        assert receiver.requests[2].is_signed_with(SECRET)
        assert receiver.requests[2].is_signed_with(made["secret"])
        ask(f"{broker.url}/v1/subscriptions/binary/webhook/rotate", "POST", {"overlap": 0, "secret": SECRET})
        publish(broker, "binary", range(3, 4))
        wait_until(lambda: len(receiver.requests) == 4, "a request with one key")
        assert receiver.requests[3].is_signed_with(SECRET)
        assert not receiver.requests[3].is_signed_with(made["secret"])


def test_failures_are_retried_then_suspend_with_a_record_and_resume(broker: BrokerProcess, place: Path) -> None:
    attempts: list[Received] = []

    def answer(request: Received) -> int | tuple[int, dict[str, str], bytes]:
        attempts.append(request)
        redirect = (302, {"location": receiver.url}, b"")
        return redirect if len(attempts) == 1 else 200 if len(attempts) == 2 else 503

    with Receiver(answer=answer) as receiver:
        url = receiver.url + "/T0/path-is-secret?key=query-is-secret"
        subscribe(broker, "retry", url, max_failures=2, secret=SECRET)
        publish(broker, "retry", range(1))
        wait_until(lambda: len(receiver.requests) == 1, "the second attempt")
        assert attempts[0].headers["webhook-id"] == attempts[1].headers["webhook-id"]
        publish(broker, "retry", range(1, 3))
        wait_until(lambda: state(broker, "retry")["state"] == "suspended", "the suspension")
        assert state(broker, "retry")["problem"] == "2 requests in a row failed, the last: localhost answered 503"
        assert state(broker, "retry")["waiting"] == 2
        noted = wait_until(lambda: suspensions(broker, "retry"), "the record on disk")
        assert [(deed["who"], deed["detail"].partition(":")[0]) for deed in noted] == [("broker", "localhost")]
        shown = [
            ask(f"{broker.url}{path}").body
            for path in ("/v1/audit", "/v1/webhooks", "/metrics", "/v1/statistics", "/v1/subscriptions")
        ]
        text = b"".join(shown).decode() + broker.log()
        assert "tamis_webhooks_suspended 1.0" in text
        assert not [word for word in (SECRET, "path-is-secret", "query-is-secret", "c2VjcmV0") if word in text]
        receiver.answer = lambda request: 200
        assert ask(f"{broker.url}/v1/subscriptions/retry/webhook/resume", "POST").json["state"] == "active"
        wait_until(lambda: numbers(receiver, "retry") == [0, 1, 2], "what waited")


def test_an_endpoint_that_was_removed_is_suspended_at_once(broker: BrokerProcess) -> None:
    with Receiver(answer=lambda request: 410) as receiver:
        subscribe(broker, "removed", receiver.url)
        publish(broker, "removed", range(3))
        wait_until(lambda: state(broker, "removed")["state"] == "suspended", "the suspension")
        assert state(broker, "removed")["problem"] == "localhost answered 410"
        wait_until(lambda: suspensions(broker, "removed"), "the record on disk")
        receiver.answer = lambda request: 200
        assert ask(f"{broker.url}/v1/subscriptions/removed/webhook/resume", "POST").json["state"] == "active"
        wait_until(lambda: numbers(receiver, "removed") == [0, 1, 2], "what waited")


@pytest.mark.parametrize(
    ("headers", "pause"),
    [
        ({}, 0.0),
        ({"Retry-After": "120"}, 120.0),
        ({"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT", "Date": "Wed, 21 Oct 2015 07:26:30 GMT"}, 90.0),
        ({"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}, 30.0),
        ({"Retry-After": "Wed, 21 Oct 2015 07:00:00 GMT"}, 0.0),
        ({"Retry-After": "-5"}, 0.0),
        ({"Retry-After": "Wed, 99 Oct 2015 07:28:00 GMT"}, 0.0),
        ({"Retry-After": "soon", "Date": "today"}, 0.0),
    ],
)
def test_an_endpoint_names_a_pause_in_seconds_or_by_its_end(headers: dict[str, str], pause: float) -> None:
    now = 1_445_412_450.0  # 07:27:30
    assert _pause(h11.Response(status_code=503, headers=list(headers.items())), now) == pause


def test_parallel_requests_overlap_and_each_event_arrives(broker: BrokerProcess) -> None:
    meeting = threading.Barrier(3, timeout=60)
    with Receiver(answer=lambda request: 200 + 0 * meeting.wait()) as receiver:
        subscribe(broker, "many", receiver.url, parallel=3, timeout=60)
        publish(broker, "many", range(9))
        wait_until(lambda: len(receiver.events) == 9, "all events")
        assert sorted(numbers(receiver, "many")) == list(range(9))


def test_a_killed_broker_goes_on_from_its_cursor_and_loses_nothing(tmp_path: Path) -> None:
    write_authority(tmp_path)
    total = 600
    with Receiver(tmp_path) as receiver, running(BrokerProcess(tmp_path, f'data = "data"\n{RULES}')) as (broker,):
        subscribe(broker, "n", receiver.url, batch=7, secret=SECRET)
        for part in range(3):
            publish(broker, "n", range(part * total // 3, (part + 1) * total // 3))
            wait_until(lambda part=part: len(receiver.requests) > 8 * (part + 1), "some requests")
            broker.kill()
            broker.start().wait_until_ready()
        wait_until(lambda: len({*numbers(receiver, "n")}) == total, "all events")
        arrived = numbers(receiver, "n")
        assert list(dict.fromkeys(arrived)) == list(range(total))
        # What was acknowledged is on disk before the second part is accepted: a later life begins behind it.
        assert arrived.count(0) <= 2
        assert all(request.is_signed_with(SECRET) for request in receiver.requests)


def test_addresses_that_are_not_public_are_not_called(tmp_path: Path) -> None:
    with (
        Receiver() as receiver,
        running(BrokerProcess(tmp_path, 'data = "data"\n[webhooks]\nhosts = ["localhost", "127.0.0.1"]')) as (broker,),
    ):
        subscribe(broker, "inside", receiver.url.replace("http:", "https:"))
        publish(broker, "inside", range(1))
        wait_until(lambda: state(broker, "inside")["state"] == "failing", "the refusal")
        assert state(broker, "inside")["problem"].startswith("localhost has an address that is not public")
        assert receiver.requests == []
        refused = {
            "http://localhost/": 403,
            "https://169.254.169.254/latest": 403,
            "https://127.0.0.1/": 403,  # a host that is named, at an address that is not
            "https://user:pass@localhost/": 400,
            "nonsense": 400,
        }
        for url, status in refused.items():
            answer = ask(f"{broker.url}/v1/subscriptions/inside/webhook", "PUT", {"url": url})
            assert (answer.status, url in answer.body.decode()) == (status, False), answer.body


def call(url: str, answer: Any, addresses: list[str], seconds: float = 5.0, count: int = 1) -> tuple[list[Any], int]:
    """Post to a receiver through an endpoint whose names are made up; return the replies and how often it resolved.

    ``addresses`` are the answers of the name server in turn, each with spaces between its addresses.
    """
    hosts: list[str] = []

    async def resolve(host: str, port: int) -> list[str]:
        hosts.append(host)
        return addresses[min(len(hosts), len(addresses)) - 1].split()

    async def run() -> list[Any]:
        with Receiver(answer=answer) as receiver:
            port = receiver.url.split(":")[2].partition("/")[0]
            rules = WebhookRules(hosts=("*",), networks=("127.0.0.1/32",), http=True)
            endpoint = Endpoint(rules.read_url(url.format(port=port)), rules, None, resolve)
            replies = []
            for _ in range(count):
                try:
                    replies.append((await endpoint.post(Request([("webhook-id", "1")], b"{}"), seconds)).status)
                except CallError as error:
                    replies.append(str(error))
            endpoint.close()
            return replies

    return asyncio.run(run()), len(hosts)


def test_a_name_is_resolved_once_for_a_connection_which_goes_to_that_address() -> None:
    """The name exists nowhere, and its second answer is not allowed: only the address that was checked is called."""
    url = "http://rebind.invalid:{port}/"
    assert call(url, lambda request: 200, ["127.0.0.1", "127.0.0.2"], count=3) == ([200, 200, 200], 1)
    closing = lambda request: (200, {"connection": "close"}, b"")  # noqa: E731
    replies, resolved = call(url, closing, ["127.0.0.1", "127.0.0.2"], count=2)
    assert (replies[0], resolved) == (200, 2)
    assert "rebind.invalid is outside `networks`" in replies[1]


def test_a_name_with_one_address_that_is_not_allowed_is_not_called() -> None:
    """Whichever address stands first: the broker would go on to the next one when the first does not answer."""
    url = "http://mixed.invalid:{port}/"
    for addresses in ("127.0.0.1 127.0.0.2", "127.0.0.2 127.0.0.1"):
        [reply], _ = call(url, lambda request: 200, [addresses])
        assert "mixed.invalid is outside `networks`" in str(reply)


def test_redirects_are_not_followed_answers_are_bounded_and_have_a_deadline() -> None:
    redirect = lambda request: (302, {"location": "http://127.0.0.1:1/"}, b"")  # noqa: E731
    url = "http://a.invalid:{port}/"
    assert call(url, redirect, ["127.0.0.1"])[0] == [302]
    large = lambda request: (200, {}, b"x" * (40 * MAX_ANSWER))  # noqa: E731
    assert call(url, large, ["127.0.0.1"], count=2) == ([200, 200], 2)  # the connection is not used again
    wide = lambda request: (200, {"x": "y" * MAX_ANSWER}, b"")  # noqa: E731
    assert "does not speak HTTP/1.1" in call(url, wide, ["127.0.0.1"])[0][0]
    released = threading.Event()
    slow = lambda request: released.wait(60) and 200  # noqa: E731
    assert call(url, slow, ["127.0.0.1"], seconds=0.2)[0] == ["a.invalid did not answer within 0.2 s"]
    released.set()


def test_a_webhook_ends_with_its_subscription_and_stops_with_the_token_that_made_it(tmp_path: Path) -> None:
    rules = RULES.replace('ca_file = "ca.pem"', "")
    with Receiver() as receiver, guarded_broker(tmp_path, rules) as guarded:
        for name in ("alice", "bob"):
            guarded.add(name)
        guarded.add("root", is_admin=True)
        place, hook = "/v1/subscriptions", {"url": receiver.url}
        wait_until(lambda: guarded.ask("root", place).status == 200, "the tokens")
        for life in range(2):
            assert guarded.ask("alice", place, "POST", {"id": "a", "filter": "a >= 0"}).status == 201
            assert (
                guarded.ask("alice", f"{place}/a/webhook").status == 404
            )  # the former one ended with its subscription
            assert guarded.ask("alice", f"{place}/a/webhook", "PUT", hook).status == 200
            assert guarded.ask("alice", f"{place}/a/take", "POST", {"consumer": "c"}).status == 409
            assert [webhook["host"] for webhook in guarded.ask("root", "/v1/webhooks").json["webhooks"]] == [
                "localhost"
            ]
            if life == 0:
                assert guarded.ask("alice", f"{place}/a", "DELETE").status == 204
        for method, path in (("GET", ""), ("PUT", ""), ("DELETE", ""), ("POST", "/rotate"), ("POST", "/resume")):
            assert guarded.ask("bob", f"{place}/a/webhook{path}", method, hook).status == 403
        assert guarded.ask("bob", "/v1/webhooks").json == {"webhooks": [], "next": None}
        assert ask(f"{guarded.broker.url}{place}/a/webhook").status == 401
        guarded.tokens.revoke("alice")
        wait_until(lambda: guarded.ask("root", f"{place}/a/webhook").json["state"] == "suspended", "the suspension")
        assert "was revoked" in guarded.ask("root", f"{place}/a/webhook").json["problem"]
        assert guarded.ask("root", f"{place}/a/webhook/resume", "POST").json["state"] == "active"


def test_the_shell_sets_shows_rotates_and_removes(broker: BrokerProcess, tmp_path: Path) -> None:
    def run(*words: str) -> Any:
        done = CliRunner().invoke(app, ["webhooks", *words, "--url", broker.url])
        return done.exit_code, done.output

    with Receiver() as receiver:
        subscribe(broker, "shell")
        (tmp_path / "secret").write_text(SECRET + "\n")
        code, text = run("set", "shell", receiver.url, "--secret-file", str(tmp_path / "secret"), "--json")
        assert (code, json.loads(text)["state"], SECRET in text) == (0, "active", False)
        publish(broker, "shell", range(1))
        wait_until(lambda: receiver.requests, "a request")
        assert receiver.requests[0].is_signed_with(SECRET)
        code, text = run("rotate", "shell", "--overlap", "0", "--json")
        assert json.loads(text)["secret"].startswith("whsec_")
        assert json.loads(run("suspend", "shell", "--json")[1])["problem"] == "by local"
        assert "suspended" in run("list")[1]
        assert json.loads(run("resume", "shell", "--json")[1])["state"] == "active"
        assert run("show", "shell", "--json")[0] == 0
        assert run("remove", "shell")[0] == 0
        code, text = run("show", "shell")
        assert (code, "has no webhook; set it with PUT" in text) == (2, True)
        assert "whsec_ and the base64" in run("set", "shell", receiver.url, "--secret-file", __file__)[1]


def test_a_configuration_that_cannot_be_meant_is_refused(tmp_path: Path) -> None:
    for text, words in (
        ("networks = ['10.0.0.1/8']", "host bits"),
        (
            "host = ['a']",
            r"webhooks: unknown field 'host', did you mean 'hosts'\? \(known fields: hosts, networks, http",
        ),
        ("most = -1", "most: expected a whole number of at least 0, got -1"),
        ("most = 'many'", "webhooks.most: expected a whole number, got 'many'"),
    ):
        (tmp_path / "broker.toml").write_text(f"[webhooks]\n{text}")
        with pytest.raises(ModelError, match=words):
            read_config(tmp_path / "broker.toml").check()


def test_what_an_endpoint_refuses_too_often_is_a_dead_letter_and_the_others_of_its_batch_arrive(
    broker: BrokerProcess,
) -> None:
    def answer(request: Received) -> int:
        return 422 if any(event["data"]["sour"] == 2 for event in request.json) else 204

    with Receiver(answer=answer) as receiver:
        settings = {"id": "sour", "filter": "sour >= 0", "max_deliveries": 2}
        assert ask(f"{broker.url}/v1/subscriptions", "POST", settings).status == 201
        assert ask(f"{broker.url}/v1/events", "POST", [{"sour": n} for n in range(5)]).status == 200
        put(broker, "sour", receiver.url, batch=5)
        wait_until(lambda: ask(f"{broker.url}/v1/subscriptions/sour").json["waiting"] == 0, "an empty queue", 60)
        assert [event["data"]["sour"] for request in receiver.requests for event in request.json] == [0, 1, 3, 4]
        [letter] = ask(f"{broker.url}/v1/subscriptions/sour/dead").json["letters"]
        assert letter["event"] == {"sour": 2}


def test_a_dead_letter_behind_an_open_message_is_not_sent_again_and_its_queue_is_emptied(broker: BrokerProcess) -> None:
    is_up, tried = False, list[int]()

    def answer(request: Received) -> int:
        number = request.json["data"]["bitter"]
        tried.append(number)
        return 422 if number == 1 else 204 if is_up or number > 1 else 503

    with Receiver(answer=answer) as receiver:
        settings = {"id": "bitter", "filter": "bitter >= 0", "max_deliveries": 1}
        assert ask(f"{broker.url}/v1/subscriptions", "POST", settings).status == 201
        assert ask(f"{broker.url}/v1/events", "POST", [{"bitter": n} for n in range(3)]).status == 200
        put(broker, "bitter", receiver.url, parallel=4)
        place = f"{broker.url}/v1/subscriptions/bitter"
        wait_until(lambda: ask(f"{place}/dead").json["count"] == 1, "a dead letter", 60)
        assert ask(place).json["waiting"] == 3
        with Receiver(answer=answer) as other:
            is_up, tried = True, []
            put(broker, "bitter", other.url, parallel=4)
            wait_until(lambda: ask(place).json["waiting"] == 0, "an empty queue", 60)
            assert (tried.count(1), 0 in tried) == (0, True)
