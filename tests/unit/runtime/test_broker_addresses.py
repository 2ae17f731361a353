"""Calls over HTTP to a broker with standbys: one address after the other, and nothing is done twice by mistake."""

from __future__ import annotations

import json
import pickle
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tamis.errors import ConnectionLostError, ModelError, RefusedError
from tamis.files.rule_sets import FileRule, Plan
from tamis.runtime.broker_addresses import BrokerAddresses
from tamis.runtime.client import http_calls
from tamis.runtime.client.consuming import Consumer
from tamis.runtime.client.http_calls import HttpCalls
from tamis.runtime.client.rule_calls import RuleCalls
from tamis.runtime.client.webhook_calls import WebhookCalls
from tests.server.processes import HANGS, ReservedPort

#: A status and a document; None: the connection ends without an answer.
Reply = tuple[int, object] | None

STANDBY: Reply = (503, {"error": "this is a standby"})


class Address:
    """A port that answers as it is told, and keeps what it was asked."""

    def __init__(self, reply: Callable[[str, bytes], Reply]) -> None:
        self.requests: list[tuple[str, bytes]] = []
        address = self

        class Handler(BaseHTTPRequestHandler):
            def handle_any(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                line = f"{self.command} {self.path}"
                address.requests.append((line, body))
                answer = address.reply(line, body)
                if answer is None:
                    self.close_connection = True
                    return
                self.send_response(answer[0])
                self.end_headers()
                self.wfile.write(json.dumps(answer[1]).encode())

            do_GET = do_POST = do_PUT = do_DELETE = handle_any

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.reply = reply
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def address() -> Iterator[Callable[[Callable[[str, bytes], Reply]], Address]]:
    opened: list[Address] = []

    def make(reply: Callable[[str, bytes], Reply]) -> Address:
        opened.append(Address(reply))
        return opened[-1]

    yield make
    for connection in opened:
        connection.close()


Make = Callable[[Callable[[str, bytes], Reply]], Address]


def number(line: str, body: bytes) -> Reply:
    return 200, {"number": 7}


def test_a_call_goes_to_the_address_that_serves_and_stays_there(address: Make) -> None:
    dead, standby, holder = ReservedPort(), address(lambda *_: STANDBY), address(number)
    calls = HttpCalls([f"http://127.0.0.1:{dead.number}", standby.url, holder.url], patience=0.0)
    assert [calls.find_number("p"), calls.find_number("p")] == [7, 7]
    assert (len(standby.requests), len(holder.requests)) == (1, 2)
    holder.reply, standby.reply = (lambda *_: STANDBY), number  # a take-over
    assert calls.find_number("p") == 7
    assert (len(standby.requests), len(holder.requests)) == (2, 3)


def test_commas_separate_addresses_and_each_is_checked() -> None:
    assert BrokerAddresses("http://a.example, http://b.example").urls == ("http://a.example", "http://b.example")
    assert BrokerAddresses(["http://a.example,http://b.example", "http://a.example"]).urls[1:] == ("http://b.example",)
    with pytest.raises(ModelError, match="expected the address of a broker, .* got 'ftp://b.example'"):
        HttpCalls("http://a.example,ftp://b.example")
    with pytest.raises(ModelError, match=r"sent to b.example unencrypted"):
        HttpCalls(["https://a.example", "http://b.example"], "secret")
    with pytest.raises(ModelError, match="name the address of a broker"):
        HttpCalls([])


def test_when_no_address_serves_each_problem_is_named(address: Make) -> None:
    dead, standby = ReservedPort(), address(lambda *_: STANDBY)
    lines = list[str]()
    calls = HttpCalls([f"http://127.0.0.1:{dead.number}", standby.url], patience=0.2, on_trouble=lines.append)
    with pytest.raises(ConnectionLostError) as error:
        calls.find_number("p")
    problem = f"http://127.0.0.1:{dead.number}: connection refused; {standby.url}: this is a standby"
    assert error.value.problem == f"no answer within 0.2 s: {problem}"
    assert lines == [problem]


def test_a_refusal_does_not_lead_to_another_address(address: Make) -> None:
    holder, other = address(lambda *_: (409, {"error": "no"})), address(number)
    with pytest.raises(RefusedError, match="no"):
        HttpCalls([holder.url, other.url]).find_number("p")
    assert other.requests == []


def test_a_broker_that_hangs_is_left(address: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_calls, "DEADLINE_OF_SEVERAL", 0.2)
    is_over = threading.Event()

    def hang(line: str, body: bytes) -> Reply:
        is_over.wait(HANGS)
        return None

    hung, holder = address(hang), address(number)
    try:
        assert HttpCalls([hung.url, holder.url]).find_number("p") == 7
    finally:
        is_over.set()


def test_a_consumer_that_waits_for_a_message_is_not_taken_for_one_that_hangs(
    address: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_calls, "DEADLINE_OF_SEVERAL", 0.2)

    def answer_late(line: str, body: bytes) -> Reply:
        time.sleep(0.5)
        return 200, {"messages": []}

    holder, standby = address(answer_late), address(lambda *_: STANDBY)
    assert Consumer(HttpCalls([holder.url, standby.url]), "jobs", "a").take(wait=HANGS) == []
    assert standby.requests == []


def test_what_must_not_be_done_twice_is_not_repeated_once_it_may_be_done(address: Make) -> None:
    holder, standby = address(lambda *_: None), address(lambda *_: (200, {}))
    with pytest.raises(ConnectionLostError, match="it may have done what it was asked"):
        WebhookCalls(HttpCalls([holder.url, standby.url])).rotate("a")
    assert standby.requests == []
    holder.reply = lambda *_: STANDBY  # an address that certainly did nothing
    assert WebhookCalls(HttpCalls([holder.url, standby.url])).rotate("a") == {}
    proxy = address(lambda *_: (504, {"error": "the broker behind it does not answer"}))
    with pytest.raises(ConnectionLostError, match="it may have done what it was asked"):
        WebhookCalls(HttpCalls([proxy.url, standby.url])).rotate("a")


@pytest.mark.parametrize("is_done", [True, False])
def test_rules_are_added_once_when_an_answer_is_lost(address: Make, is_done: bool) -> None:
    """The first address dies while it adds rules; the other one has them from the store, or does not."""
    rule = FileRule("strong", "default", "mag >= 5", None, {"rules": "default"})
    shown = {"id": "strong", "namespace": "default", "filter": "mag >= 5", "expires": None, "durable": True}
    shown["metadata"] = {"rules": "default"}

    def other(line: str, body: bytes) -> Reply:
        if line.startswith("GET"):
            return (200, shown) if is_done else (404, {"error": "there is none"})
        return 201, {}

    holder, standby = address(lambda *_: None), address(other)
    RuleCalls(HttpCalls([holder.url, standby.url]), "default").apply(Plan([rule], [], [], 0))
    lines = [line.split("?")[0] for line, _ in standby.requests]
    assert lines == ["GET /v1/subscriptions/strong"] + ([] if is_done else ["POST /v1/subscriptions"])


def test_threads_that_fail_together_leave_an_address_once() -> None:
    addresses = BrokerAddresses("http://a.example,http://b.example,http://c.example")
    for _ in range(5):
        addresses.leave("http://a.example")
    assert addresses.current == "http://b.example"


def test_calls_of_spark_travel_to_workers(address: Make) -> None:
    dead, holder = ReservedPort(), address(number)
    calls = HttpCalls(f"http://127.0.0.1:{dead.number},{holder.url}")
    assert pickle.loads(pickle.dumps(calls)).find_number("p") == 7
