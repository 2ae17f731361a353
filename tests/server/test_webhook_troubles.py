"""Endpoints that are busy, silent, elsewhere or down for a while: a real broker keeps the order and the pauses.

A pause is measured by the moments at which the receiver gets requests, and only that it is not too short: a busy
machine makes it longer.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from email.utils import formatdate
from pathlib import Path

import pytest

from tests.server.processes import BrokerProcess, ReservedPort, ask, running, wait_until
from tests.server.receiver import Received, Receiver
from tests.server.test_webhooks import RULES, numbers, publish, put, state, subscribe, suspensions

CONFIG = f'data = "data"\n{RULES.replace("ca_file", "# ca_file")}'

ANSWERED, TOTAL, TROUBLED = 204, 6, 2


@dataclass
class Endpoint:
    """What one webhook calls: the first request with the message `TROUBLED` gets ``trouble``, all others 204.

    With ``is_held`` the other requests are answered after `release`.
    """

    trouble: Callable[[], int | tuple[int, dict[str, str], bytes]]
    is_held: bool = False
    #: The moment and the number of each request.
    visits: list[tuple[float, int]] = field(default_factory=list)
    release: threading.Event = field(default_factory=threading.Event)

    def answer(self, request: Received) -> int | tuple[int, dict[str, str], bytes]:
        [number] = request.json["data"].values()
        is_first = number not in self.numbers
        self.visits.append((time.monotonic(), number))
        if number == TROUBLED and is_first:
            return self.trouble()
        if self.is_held:
            self.release.wait(120)
        return ANSWERED

    @property
    def numbers(self) -> list[int]:
        return [number for _, number in self.visits]


def counters(broker: BrokerProcess) -> dict[str, float]:
    """Return what `/metrics` counts for all webhooks."""
    text = ask(f"{broker.url}/metrics").body.decode()
    counts = re.findall(r"^tamis_webhook_(requests|failures|deliveries)_total (\S+)$", text, re.MULTILINE)
    return {name: float(count) for name, count in counts}


def busy(status: int, retry_after: str | None = None) -> Callable[[], tuple[int, dict[str, str], bytes]]:
    """Answer with a status and ``Retry-After``; "date": the moment in four seconds."""

    def answer() -> tuple[int, dict[str, str], bytes]:
        text = formatdate(time.time() + 4, usegmt=True) if retry_after == "date" else retry_after
        return status, {} if text is None else {"retry-after": text}, b""

    return answer


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with running(BrokerProcess(tmp_path_factory.mktemp("troubles"), CONFIG)) as (process,):
        yield process


def test_troubles_of_an_endpoint_change_neither_the_order_nor_what_arrives(broker: BrokerProcess) -> None:
    silence = threading.Event()
    with Receiver() as elsewhere, Receiver() as receiver:
        elsewhere.answer = lambda request: 200
        redirect = {"location": elsewhere.url}
        #: ``{name: (trouble, least pause in seconds)}``; a date in a header has no fractions of a second.
        troubles = {
            "seconds": (busy(429, "3"), 3.0),
            "date": (busy(429, "date"), 2.9),
            "unavailable": (busy(503, "3"), 3.0),
            "plain": (busy(503), 0.5),
            "unreadable": (busy(429, "soon"), 0.5),
            "silent": (lambda: ANSWERED + 0 * silence.wait(120), 0.5),
            "redirect": (lambda: (307, redirect, b""), 0.5),
        }
        endpoints = {f"{name}1": Endpoint(trouble) for name, (trouble, _) in troubles.items()}
        endpoints |= {f"{name}3": Endpoint(trouble, least > 1) for name, (trouble, least) in troubles.items()}
        receiver.answer = lambda request: endpoints[request.path.rpartition("/")[2]].answer(request)
        before = counters(broker)
        for id in endpoints:
            subscribe(broker, id)
            publish(broker, id, range(TOTAL))
        for id in endpoints:
            put(broker, id, f"{receiver.url}/{id}", parallel=int(id[-1]), timeout=1 if "silent" in id else 60)
        for id, endpoint in endpoints.items():
            if endpoint.is_held:  # two requests are under way, and succeed after a third one was refused
                wait_until(lambda endpoint=endpoint: len(endpoint.visits) == 3, "three requests at a time")
                wait_until(lambda id=id: state(broker, id)["failures"] == 1, "the refusal")
                endpoint.release.set()
        for id in endpoints:
            wait_until(lambda id=id: state(broker, id)["waiting"] == 0, f"the messages of {id}")
        silence.set()
        for id, endpoint in endpoints.items():
            least = troubles[id[:-1]][1]
            assert sorted(endpoint.numbers) == sorted([*range(TOTAL), TROUBLED]), id
            if id.endswith("1"):
                assert endpoint.numbers == [*range(TROUBLED + 1), *range(TROUBLED, TOTAL)], id
            if id.endswith("1") or endpoint.is_held:
                moments = [moment for moment, _ in endpoint.visits]
                assert moments[3] - moments[endpoint.numbers.index(TROUBLED)] >= least, id
        assert elsewhere.requests == []
        after, count = counters(broker), len(endpoints)
        assert {name: after[name] - before[name] for name in after} == {
            "requests": count * (TOTAL + 1),
            "failures": count,
            "deliveries": count * TOTAL,
        }


def test_an_endpoint_that_is_down_gets_everything_when_it_is_back(tmp_path: Path) -> None:
    healing, down = ReservedPort(), ReservedPort()
    with running(BrokerProcess(tmp_path, CONFIG)) as (broker,):
        subscribe(broker, "healing", f"http://localhost:{healing.number}/")
        subscribe(broker, "down", f"http://localhost:{down.number}/", max_failures=2, batch=2)
        for id in ("healing", "down"):
            publish(broker, id, range(3))
        wait_until(lambda: state(broker, "healing")["state"] == "failing", "the failure")
        assert state(broker, "healing")["problem"] == "localhost: connection refused"
        with Receiver(port=healing.number) as receiver:
            wait_until(lambda: numbers(receiver, "healing") == [0, 1, 2], "what waited")

        wait_until(lambda: state(broker, "down")["state"] == "suspended", "the suspension")
        broker.kill()
        broker.start().wait_until_ready()  # a suspension and its record outlive the broker
        with Receiver(port=down.number) as receiver, Receiver() as other:
            assert state(broker, "down")["state"] == "suspended"
            [record] = suspensions(broker, "down")
            assert record["detail"].startswith("localhost: 2 requests in a row failed, the last: localhost: connection")
            publish(broker, "down", range(3, 5))
            subscribe(broker, "other", other.url)
            publish(broker, "other", range(1))
            wait_until(lambda: numbers(other, "other") == [0], "a webhook that is not suspended")
            assert (receiver.requests, state(broker, "down")["waiting"]) == ([], 5)
            assert ask(f"{broker.url}/v1/subscriptions/down/webhook/resume", "POST").json["state"] == "active"
            wait_until(lambda: numbers(receiver, "down") == [0, 1, 2, 3, 4], "what waited")
            assert [len(request.json) for request in receiver.requests] == [2, 2, 1]


def test_a_message_behind_a_dead_letter_is_sent_without_another_event(broker: BrokerProcess) -> None:
    with Receiver(answer=lambda request: 422 if request.json["data"]["sour"] == 0 else ANSWERED) as receiver:
        body = {"id": "sour", "filter": "sour >= 0", "max_deliveries": 1}
        assert ask(f"{broker.url}/v1/subscriptions", "POST", body).status == 201
        publish(broker, "sour", range(2))
        put(broker, "sour", receiver.url)
        wait_until(lambda: numbers(receiver, "sour") == [1], "the second message")
        assert ask(f"{broker.url}/v1/subscriptions/sour/dead").json["count"] == 1
