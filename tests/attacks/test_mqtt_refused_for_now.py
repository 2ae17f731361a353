"""Attack: a link fills up, or a token is revoked, and the MQTT bridge acknowledges messages that no broker has.

What is refused for now is published again until it is accepted, a bridge without the right to publish stops with an
error, and only what was accepted, or can never be an event, is acknowledged to the MQTT broker.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import tamis
from tamis.errors import ConnectionLostError, DiskFullError, EventError, LimitError, RefusedError, TamisError
from tamis.runtime.bridges.intake import PlainIntake
from tamis.runtime.bridges.plan import BridgeCounts, BridgePlan
from tamis.runtime.bridges.running import Bridge, run_bridge
from tamis.runtime.bridges.system import IncomingMessage
from tamis.runtime.bridges.systems.mqtt import MqttSystem
from tests.attacks.callers import guarded_broker
from tests.server.mosquitto import MqttUser, mqtt_running, needs_mosquitto

PLAN = BridgePlan("http://127.0.0.1:1", sources=("a",))


class _Broker:
    """Answers each event with the next of its errors, None: accepted."""

    def __init__(self, *answers: TamisError | None) -> None:
        self._answers = list(answers)
        self.accepted: list[int] = []

    async def publish(self, event: dict[str, Any], *, namespace: str) -> None:
        problem = self._answers.pop(0) if self._answers else None
        if problem is not None:
            raise problem
        self.accepted.append(event["n"])


class _Mqtt:
    def __init__(self) -> None:
        self.acknowledged: list[int] = []

    async def settle(self, messages: Sequence[IncomingMessage]) -> None:
        self.acknowledged += [message.handle for message in messages]


def bridged(broker: _Broker, count: int) -> tuple[_Mqtt, BridgeCounts, Callable[[], None]]:
    """Return an MQTT side, counts, and a function that passes ``count`` messages through a bridge."""
    mqtt, counts = _Mqtt(), BridgeCounts()
    messages = [IncomingMessage("a", json.dumps({"n": n}).encode(), handle=n) for n in range(count)]

    async def run() -> None:
        await Bridge(PLAN, mqtt, counts, PlainIntake(PLAN, "topic", broker)).publish(messages)  # type: ignore[arg-type]

    return mqtt, counts, lambda: asyncio.run(asyncio.wait_for(run(), 60))


def test_what_is_refused_for_now_is_published_again() -> None:
    broker = _Broker(None, RefusedError(503, "the link is full"), RefusedError(507, "full"), DiskFullError("d"), None)
    mqtt, counts, run = bridged(broker, 5)
    run()
    assert sorted(broker.accepted) == sorted(mqtt.acknowledged) == [0, 1, 2, 3, 4]
    assert (counts.published, counts.refused, counts.retried) == (5, 0, 3)


@pytest.mark.parametrize("error", [RefusedError(401, "no token"), RefusedError(403, "revoked")])
def test_a_bridge_without_rights_stops_and_acknowledges_only_what_was_accepted(error: RefusedError) -> None:
    mqtt, counts, run = bridged(_Broker(None, error, None, error), 4)
    with pytest.raises(RefusedError, match=error.reason):
        run()
    assert mqtt.acknowledged == [0, 2]
    assert counts.refused == 0


def test_so_does_one_whose_connection_is_lost() -> None:
    mqtt, _, run = bridged(_Broker(ConnectionLostError("u", "gone")), 1)
    with pytest.raises(ConnectionLostError):
        run()
    assert mqtt.acknowledged == []


def test_what_can_never_be_an_event_is_acknowledged_and_counted() -> None:
    never = (RefusedError(400, "unfit"), RefusedError(413, "large"), EventError("n", 1, "x"), LimitError("b", 2, 1))
    mqtt, counts, run = bridged(_Broker(*never), 5)
    run()
    assert (mqtt.acknowledged, counts.refused, counts.published) == ([0, 1, 2, 3, 4], 4, 1)


@needs_mosquitto
@pytest.mark.parametrize("way", ["revoked", "read-only"])
def test_no_message_is_lost_when_the_token_of_a_bridge_ends(tmp_path: Path, way: str) -> None:
    """The bridge stops with the reason; one with a good token then gets every message."""
    with mqtt_running(tmp_path / "mosquitto") as mosquitto, guarded_broker(tmp_path / "broker") as guarded:
        user = MqttUser(mosquitto)
        first = guarded.add("first", may_publish=way != "read-only")
        guarded.add("reader")
        assert guarded.ask("reader", "/v1/subscriptions", "POST", {"id": "s", "filter": "n >= 0"}).status == 201

        async def run(secret: str, ready: Callable[[], None]) -> None:
            plan, counts = BridgePlan(guarded.broker.url, sources=("sensors/#",), token=secret), BridgeCounts()
            await run_bridge(plan, MqttSystem(mosquitto.url, plan, counts), counts, ready, has_numbers=False)

        async def until_refused() -> None:
            ready = asyncio.Event()
            bridge = asyncio.create_task(run(first, ready.set))
            await ready.wait()
            if way == "revoked":
                assert guarded.tokens.revoke("first")
            for n in range(100):
                await asyncio.to_thread(user.publish, "sensors/1", json.dumps({"n": n}))
            await bridge

        def seen() -> set[int]:
            page = guarded.ask("reader", "/v1/subscriptions/s/log?limit=1000").json["messages"]
            return {delivery["event"]["n"] for delivery in page}

        async def until_all() -> None:
            bridge = asyncio.create_task(run(guarded.add("second"), lambda: None))
            while await asyncio.to_thread(seen) != set(range(100)):
                assert not bridge.done(), bridge.result()
                await asyncio.sleep(0.1)
            bridge.cancel()

        with pytest.raises(RefusedError, match="revoked" if way == "revoked" else "may not publish"):
            asyncio.run(asyncio.wait_for(until_refused(), 60))
        asyncio.run(asyncio.wait_for(until_all(), 60))
        user.close()


def test_a_client_whose_token_ended_raises_instead_of_waiting_for_ever(tmp_path: Path) -> None:
    with guarded_broker(tmp_path) as guarded:
        secret = guarded.add("brief")

        async def story() -> None:
            async with tamis.connect(guarded.broker.url, token=secret) as client:
                subscription = await client.subscribe("n > 0")
                assert guarded.tokens.revoke("brief")
                with pytest.raises(RefusedError, match="revoked"):
                    await anext(subscription)
                for call in (client.publish({"n": 1}), client.subscribe("n > 1"), client.unsubscribe("x")):
                    with pytest.raises(RefusedError, match="revoked"):
                        await call

        asyncio.run(asyncio.wait_for(story(), 60))
