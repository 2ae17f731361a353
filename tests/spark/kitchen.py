"""A stream from a broker through Spark into the broker, while both are killed with -9 (promise P3)."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import tamis
from tests.server.processes import BrokerProcess, ask, running
from tests.spark.processes import Driver, Family, wait_for

#: Events of one call of the publisher; how many a micro-batch takes is in the driver.
_BATCH = 10


class Kitchen:
    """Raw events go in, cooked ones come out; whoever cooks may be killed."""

    def __init__(self, place: Path, broker: BrokerProcess, client: Any) -> None:
        self.heard: Counter[int] = Counter()
        self._place, self._broker, self._client = place, broker, client
        self._cooked = client.subscribe("kind = 'cooked'", id="cooked", durable=True)
        self._drivers = 0
        self._start_driver()
        wait_for("the stream's subscription", lambda: ask(f"{broker.url}/v1/subscriptions/raw").status == 200)

    def publish(self, n: int) -> threading.Thread:
        """Begin to publish so many events."""

        def run() -> None:
            for first in range(0, n, _BATCH):
                self._client.publish([{"kind": "raw", "n": one} for one in range(first, first + _BATCH)])

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    def hear(self, n: int) -> None:
        """Wait until so many cooked events came in all."""
        while self.heard.total() < n:
            delivery = self._cooked.next(timeout=240)
            assert delivery is not None
            self.heard[delivery.event["n"]] += 1
            delivery.ack()

    def kill(self, who: str) -> None:
        """Kill the broker or the driver with -9, and start it again."""
        if who == "broker":
            self._broker.kill()
            self._broker.start()
        else:
            self._driver.__exit__()
            self._start_driver()

    def close(self) -> None:
        self._driver.__exit__()

    def finish(self) -> None:
        """Let the stream take what is there, and raise what it ended with."""
        self._driver.call("finish", name="cook")

    def _start_driver(self) -> None:
        self._drivers += 1
        self._driver = Driver(Family(self._place / f"driver-{self._drivers}"), master="local[2]")
        self._driver.call("cook", url=self._broker.url, checkpoint=str(self._place / "checkpoint"))


def cook(place: Path, n: int, kills: list[tuple[int, str]]) -> None:
    """Cook ``n`` events; after so many of them, kill somebody. What comes out is what went in."""
    with running(BrokerProcess(place / "broker")) as (broker,), tamis.connect(broker.url, client="eve") as client:
        kitchen = Kitchen(place, broker, client)
        try:
            publishing = kitchen.publish(n)
            for after, who in kills:
                kitchen.hear(after)
                kitchen.kill(who)
            publishing.join()
            kitchen.hear(n)
            kitchen.finish()
            assert kitchen.heard == Counter(range(n))
            client.publish({"kind": "cooked", "n": -1})  # behind everything: nothing more came
            kitchen.hear(n + 1)
            assert kitchen.heard == Counter([-1, *range(n)])
        finally:
            kitchen.close()


def test_every_event_is_processed_once_whoever_is_killed(tmp_path: Path) -> None:
    cook(tmp_path, 280, [(60, "broker"), (160, "driver")])


@pytest.mark.soak
def test_soak_of_the_broker_under_spark(tmp_path: Path) -> None:
    cook(tmp_path, 6_000, [(200 * k, ("broker", "driver")[k % 2]) for k in range(1, 29)])
