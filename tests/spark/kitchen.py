"""A stream from a broker through Spark into the broker, while both are killed with -9 (promise P3)."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path
from typing import Any

from tests.server.processes import BrokerProcess, ask
from tests.spark.processes import Caller, wait_for

__all__ = ["Kitchen"]

#: Events of one call of the publisher; how many a micro-batch takes is in the driver.
_BATCH = 10


class Kitchen:
    """Raw events go in, cooked ones come out, through the stream of a driver that may be killed."""

    def __init__(self, place: Path, broker: BrokerProcess, client: Any) -> None:
        self.received: Counter[int] = Counter()
        self._place, self._broker, self._client = place, broker, client
        self._cooked = client.subscribe("kind = 'cooked'", id="cooked", durable=True)

    def start(self, driver: Caller) -> None:
        """Have a driver start the stream, or take it up again, and wait until it has subscribed."""
        driver.call("cook", url=self._broker.url, checkpoint=str(self._place / "checkpoint"))
        wait_for("the stream's subscription", lambda: ask(f"{self._broker.url}/v1/subscriptions/raw").status == 200)

    def publish(self, n: int) -> threading.Thread:
        """Begin to publish ``n`` events."""

        def run() -> None:
            for first in range(0, n, _BATCH):
                self._client.publish([{"kind": "raw", "n": number} for number in range(first, first + _BATCH)])

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    def hear(self, n: int) -> None:
        """Wait until ``n`` cooked events have come in all."""
        while self.received.total() < n:
            delivery = self._cooked.next(timeout=240)
            assert delivery is not None
            self.received[delivery.event["n"]] += 1
            delivery.ack()

    def restart_broker(self) -> None:
        """Kill the broker with -9, and start it again."""
        self._broker.kill()
        self._broker.start()

    def check(self, driver: Caller, n: int) -> None:
        """Let the stream take what is there; what came out is what went in, once each."""
        self.hear(n)
        driver.call("finish", name="cook")
        assert self.received == Counter(range(n))
        self._client.publish({"kind": "cooked", "n": -1})  # behind everything: nothing more came
        self.hear(n + 1)
        assert self.received == Counter([-1, *range(n)])
