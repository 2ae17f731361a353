"""Numbered messages become events once and in order: batches that are halved, refused, rewound."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tamis.errors import ConnectionLostError, RefusedError
from tamis.runtime.bridges import intake as intakes
from tamis.runtime.bridges.intake import NumberedIntake, Repeated, Stale
from tamis.runtime.bridges.lanes import producer_of
from tamis.runtime.bridges.plan import BridgeCounts, BridgePlan
from tamis.runtime.bridges.running import Bridge
from tamis.runtime.bridges.system import IncomingMessage


class _Broker:
    """Takes batches as a broker does, and refuses those with an event that it does not like."""

    def __init__(self, *args: Any) -> None:
        self.last: int | None = None
        self.events: list[int] = []
        self.calls = 0
        self.problems: list[Exception] = []

    def find_number(self, producer: str) -> int | None:
        return self.last

    def publish_once(self, body: bytes, *, producer: str, number: int, after: int | None) -> bool:
        self.calls += 1
        if self.problems:
            raise self.problems.pop(0)
        numbers = [json.loads(line)["n"] for line in body.splitlines()]
        if self.last is not None and self.last >= number:
            return False
        if after is not None and self.last not in (None, after):
            raise RefusedError(409, "after")
        if -1 in numbers:
            raise RefusedError(400, "event: unfit")
        self.last = number
        self.events += numbers
        return True


class _System:
    kind, attribute, reserved = "fake", "topic", ""

    def __init__(self) -> None:
        self.settled: list[int] = []
        self.rewound: list[int] = []

    async def settle(self, messages: Sequence[IncomingMessage]) -> None:
        self.settled += [message.number for message in messages]

    async def rewind(self, lane: str, number: int) -> None:
        self.rewound.append(number)


def chain(*numbers: int, after: int, bad: Sequence[int] = ()) -> list[IncomingMessage]:
    messages = []
    for number in numbers:
        payload = json.dumps({"n": -1 if number in bad else number}).encode()
        messages.append(IncomingMessage("t", payload, "lane", number, after))
        after = number
    return messages


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> tuple[_Broker, _System, NumberedIntake]:
    broker, system = _Broker(), _System()
    monkeypatch.setattr(intakes, "HttpCalls", lambda *_: broker)
    return broker, system, NumberedIntake(BridgePlan("http://b", sources=("t",)), system)  # type: ignore[arg-type]


def run(call: Callable[[], Any]) -> Any:
    return asyncio.run(asyncio.wait_for(call(), 60))


def test_bad_ones_are_isolated_and_the_rest_is_published_in_order(
    made: tuple[_Broker, _System, NumberedIntake],
) -> None:
    broker, system, intake = made
    counts = BridgeCounts()
    assert intake.find("lane", lambda: 4) == 4
    messages = chain(*range(5, 205, 2), after=4, bad=[5, 51, 203])
    run(lambda: Bridge(BridgePlan("http://b"), system, counts, intake).publish(messages))  # type: ignore[arg-type]
    assert broker.events == [n for n in range(5, 205, 2) if n not in (5, 51, 203)]
    assert sorted(system.settled) == list(range(5, 205, 2))
    assert (counts.published, counts.refused) == (97, 3)
    assert broker.calls < 50  # halves, not one by one


def test_what_the_broker_has_is_settled_and_not_published(made: tuple[_Broker, _System, NumberedIntake]) -> None:
    broker, _, intake = made
    broker.last = 7
    intake.find("lane", lambda: 0)
    outcomes = run(lambda: intake.publish(chain(8, 9, after=7)))
    assert outcomes == [None, None]
    intake.find("lane", lambda: 0)
    intake._lanes["lane"].seen = 6
    outcomes = run(lambda: intake.publish(chain(7, 9, 11, after=6)))
    assert [type(outcome) for outcome in outcomes] == [Repeated, Repeated, type(None)]
    assert broker.events == [8, 9, 11]


def test_a_lost_message_stops_the_lane(made: tuple[_Broker, _System, NumberedIntake]) -> None:
    """What does not follow the last message is not published, however new it is."""
    broker, _, intake = made
    intake.find("lane", lambda: 0)
    outcomes = run(lambda: intake.publish(chain(5, 6, after=4)))
    assert [type(outcome) for outcome in outcomes] == [Stale, Stale]
    assert broker.events == []


def test_a_bridge_that_was_overtaken_reads_again_from_where_the_broker_is(
    made: tuple[_Broker, _System, NumberedIntake],
) -> None:
    broker, system, intake = made
    intake.find("lane", lambda: 0)
    run(lambda: intake.publish(chain(1, 2, after=0)))
    broker.last = 10  # another bridge of the same name
    outcomes = run(lambda: intake.publish(chain(3, 20, after=2)))
    assert {type(outcome) for outcome in outcomes} == {Stale}
    assert system.rewound == [10]
    assert run(lambda: intake.publish(chain(20, after=10))) == [None]
    assert broker.events == [1, 2, 20]


def test_nothing_overtakes_what_was_refused_for_now(made: tuple[_Broker, _System, NumberedIntake]) -> None:
    broker, system, intake = made
    intake.find("lane", lambda: 0)
    broker.problems = [RefusedError(503, "the link is full"), ConnectionLostError("u", "gone")]
    counts = BridgeCounts()
    bridge = Bridge(BridgePlan("http://b"), system, counts, intake)  # type: ignore[arg-type]
    run(lambda: bridge.publish(chain(*range(1, 9), after=0, bad=[3])))
    assert broker.events == [1, 2, 4, 5, 6, 7, 8]
    assert (counts.retried, counts.refused) == (16, 1)


def test_the_second_half_of_a_batch_waits_for_the_first(made: tuple[_Broker, _System, NumberedIntake]) -> None:
    broker, _, intake = made
    intake.find("lane", lambda: 0)
    broker.problems = [RefusedError(400, "event: unfit"), RefusedError(503, "the link is full")]
    outcomes = run(lambda: intake.publish(chain(*range(1, 9), after=0)))
    assert {str(outcome) for outcome in outcomes} == {"the link is full"}
    assert (broker.events, broker.calls) == ([], 2)


def test_a_message_is_settled_when_the_broker_has_it_and_not_before(
    made: tuple[_Broker, _System, NumberedIntake], monkeypatch: pytest.MonkeyPatch
) -> None:
    broker, system, intake = made
    intake.find("lane", lambda: 0)
    broker.problems = [RefusedError(503, "the link is full")]
    settled, publish = list[list[int]](), broker.publish_once

    def watch(*arguments: Any, **more: Any) -> bool:
        settled.append(list(system.settled))
        return publish(*arguments, **more)

    monkeypatch.setattr(broker, "publish_once", watch)
    bridge = Bridge(BridgePlan("http://b"), system, BridgeCounts(), intake)  # type: ignore[arg-type]
    run(lambda: bridge.publish(chain(1, 2, after=0)))
    assert (settled, system.settled) == ([[], []], [1, 2])


def test_a_bridge_without_rights_stops(made: tuple[_Broker, _System, NumberedIntake]) -> None:
    broker, system, intake = made
    intake.find("lane", lambda: 0)
    broker.problems = [RefusedError(403, "revoked")]
    bridge = Bridge(BridgePlan("http://b"), system, BridgeCounts(), intake)  # type: ignore[arg-type]
    with pytest.raises(RefusedError, match="revoked"):
        run(lambda: bridge.publish(chain(1, after=0)))
    assert system.settled == []


def test_a_long_lane_has_a_short_name() -> None:
    first, second = producer_of("nats", "b", "x" * 200), producer_of("nats", "b", "x" * 201)
    assert len(first) <= 128
    assert first != second
