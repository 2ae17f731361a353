"""A subscription's log over HTTP, and batches that are taken once: across kills, too."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tamis.errors import ConnectionLostError, RefusedError
from tamis.routing.edge.producers import Producers
from tamis.runtime.client.http_calls import HttpCalls
from tamis.runtime.stores.sqlite_store import SqliteStore
from tests.server.processes import BrokerProcess, ReservedPort, ask, wait_until


def _events(*numbers: int) -> bytes:
    return b"\n".join(b'{"n": %d}' % number for number in numbers)


def _numbers(page: Any) -> list[int]:
    return [message["event"]["n"] for message in page.messages]


def test_a_batch_is_taken_once_and_a_log_reads_the_same_across_a_kill(broker: BrokerProcess) -> None:
    calls = HttpCalls(broker.url)
    calls.subscribe("big", "n >= 10")
    calls.subscribe("big", "n >= 10")  # again: it is there and asks the same
    with pytest.raises(RefusedError, match="exists already, with the filter n >= 10"):
        calls.subscribe("big", "n >= 11")
    assert calls.publish_once(_events(9, 10, 11), producer="p", number=4)
    assert not calls.publish_once(_events(9, 10, 11), producer="p", number=4)
    assert not calls.publish_once(_events(99), producer="p", number=3)  # an earlier one, late
    assert calls.publish_once(_events(12), producer="q", number=0)
    before = calls.read_log("big")
    calls.acknowledge("big", before.messages[0]["cursor"])
    calls.publish_once(_events(0), producer="q", number=1)  # behind the acknowledgement, so that is on disk

    broker.kill()
    broker.start()  # the calls wait for it by themselves
    assert not calls.publish_once(_events(9, 10, 11), producer="p", number=4)
    assert calls.publish_once(_events(13), producer="p", number=5)
    after = calls.read_log("big")
    assert _numbers(after) == [10, 11, 12, 13]
    assert after.messages[:3] == before.messages  # byte for byte, what was acknowledged included
    assert after.acknowledged == before.messages[0]["cursor"]
    two, three = (message["cursor"] for message in after.messages[1:3])
    assert _numbers(calls.read_log("big", after=two, upto=three)) == [12]
    assert _numbers(calls.read_log("big", after=two, limit=1)) == [12]
    assert _numbers(calls.read_log("big", after=after.last)) == []


def test_a_batch_that_does_not_follow_the_last_one_is_refused_across_a_kill(broker: BrokerProcess) -> None:
    calls = HttpCalls(broker.url)
    calls.subscribe("chain", "n >= 0")
    assert calls.find_number("chain/1") is None
    assert calls.publish_once(_events(1), producer="chain/1", number=10, after=3)  # an unknown producer begins anywhere
    with pytest.raises(RefusedError, match="the last number of producer 'chain/1' is 10, not 9"):
        calls.publish_once(_events(2), producer="chain/1", number=20, after=9)
    assert not calls.publish_once(_events(1), producer="chain/1", number=10, after=3)
    broker.kill()
    broker.start()
    assert calls.find_number("chain/1") == 10
    with pytest.raises(RefusedError, match="is 10, not 11"):
        calls.publish_once(_events(2), producer="chain/1", number=20, after=11)
    assert calls.publish_once(_events(2), producer="chain/1", number=20, after=10)
    assert _numbers(calls.read_log("chain")) == [1, 2]
    assert ask(f"{broker.url}/v1/events?producer=x&number=1&after=-1", "POST", b"{}").status == 400


def test_what_a_reader_of_a_log_can_get_wrong(broker: BrokerProcess) -> None:
    calls = HttpCalls(broker.url)
    calls.subscribe("all", "n >= 0")
    calls.publish_once(_events(1, 2), producer="s", number=0)
    log = f"{broker.url}/v1/subscriptions/all"
    epoch = calls.read_log("all", limit=0).last.partition("-")[0]
    assert ask(f"{log}/log?after=x").status == 400
    assert ask(f"{log}/log?limit=1001").status == 400
    assert ask(f"{log}/log?after=1-1").status == 410  # of a life that this broker does not know
    assert ask(f"{log}/acknowledge", "POST", {"cursor": f"{epoch}-3"}).status == 400
    assert ask(f"{log}/acknowledge", "POST", {"at": 1}).status == 400
    assert ask(f"{broker.url}/v1/subscriptions/absent/log").status == 404
    assert ask(f"{broker.url}/v1/events?producer=p&number=x", "POST", {"n": 1}).status == 400
    assert ask(f"{broker.url}/v1/events?producer={'p' * 129}&number=1", "POST", {"n": 1}).status == 400


def test_what_is_beyond_retention_is_said_to_be_gone(broker: BrokerProcess) -> None:
    calls = HttpCalls(broker.url)
    calls.subscribe("old", "n >= 0")
    calls.publish_once(_events(1, 2, 3), producer="r", number=0)
    first, second, _ = (message["cursor"] for message in calls.read_log("old").messages)
    calls.acknowledge("old", second)
    calls.publish_once(_events(4), producer="r", number=1)  # behind the acknowledgement, so that is on disk
    broker.stop()
    store = SqliteStore(broker.directory / "data")
    store.load()
    assert store.trim(time.time() + 60) >= 2
    store.close()
    broker.start()
    page = calls.read_log("old")
    assert (page.first, _numbers(page)) == (second, [3, 4])
    with pytest.raises(RefusedError, match="beyond retention"):
        calls.read_log("old", after=first)


def test_what_was_read_does_not_wait_again_after_a_restart(broker: BrokerProcess) -> None:
    """More than the driver keeps in memory, all of it acknowledged."""
    calls = HttpCalls(broker.url)
    calls.subscribe("read", "m >= 0")
    calls.publish_once(b"\n".join(b'{"m": %d}' % m for m in range(1_500)), producer="m", number=0)
    # Many events are delivered in steps behind the confirmation.
    url = f"{broker.url}/v1/subscriptions/read"
    wait_until(lambda: calls.read_log("read", limit=0).last.endswith("-1500"), "1,500 events in the log")
    calls.acknowledge("read", calls.read_log("read", limit=0).last)
    calls.publish_once(b'{"other": 1}', producer="m", number=1)  # behind the acknowledgement, so that is on disk
    broker.kill()
    broker.start().wait_until_ready()
    assert ask(url).json["waiting"] == 0
    page = calls.read_log("read", limit=0)
    assert page.acknowledged == page.last


def test_the_producer_that_was_silent_longest_is_forgotten() -> None:
    producers = Producers(most=2)
    stored: dict[Any, bytes] = {}

    def take(name: str, number: int, now: float) -> None:
        for change in producers.take("alice", name, number, now=now):
            if change.value is None:
                del stored[change.key]
            else:
                stored[change.key] = change.value

    def has(name: str, number: int) -> bool:
        return producers.has("alice", name, number)

    take("z", 5, now=1.0)
    take("b", 7, now=2.0)
    take("z", 6, now=3.0)
    producers = Producers(most=2)
    producers.restore(stored)
    take("c", 0, now=4.0)
    assert (has("z", 6), has("z", 7), has("b", 7), has("c", 0)) == (True, False, False, True)
    assert len(stored) == 2


def test_a_broker_that_does_not_come_back_is_told() -> None:
    silent = ReservedPort()
    with pytest.raises(ConnectionLostError, match=r"no answer within 0\.1 s"):
        HttpCalls(f"http://127.0.0.1:{silent.number}", patience=0.1).read_log("x")
