"""A stream from a broker through Spark into the broker, while both are killed with -9."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path

import tamis
from tests.server.processes import BrokerProcess, ask, running
from tests.spark.processes import Driver, Family, wait_for

#: Events, and how many a micro-batch takes is in the driver.
_EVENTS, _BATCH = 400, 10


def test_every_event_is_processed_once_whoever_is_killed(tmp_path: Path) -> None:
    """RELIABILITY P3: what comes out is exactly what went in, as a multiset."""
    with running(BrokerProcess(tmp_path / "broker")) as (broker,), tamis.connect(broker.url, client="eve") as client:
        cooked = client.subscribe("kind = 'cooked'", id="cooked", durable=True)
        out = {"url": broker.url, "checkpoint": str(tmp_path / "checkpoint")}

        def publish(numbers: range) -> None:
            for first in numbers[::_BATCH]:
                client.publish([{"kind": "raw", "n": n} for n in range(first, first + _BATCH)])

        found: Counter[int] = Counter()

        def hear(n: int) -> None:
            while found.total() < n:
                delivery = cooked.next(timeout=200)
                assert delivery is not None
                found[delivery.event["n"]] += 1
                delivery.ack()

        with Driver(Family(tmp_path / "first"), master="local[2]") as driver:
            driver.call("cook", **out)
            wait_for("the stream's subscription", lambda: _has_raw(broker))
            publishing = threading.Thread(target=publish, args=(range(_EVENTS),))
            publishing.start()
            hear(60)
            broker.kill()
            broker.start()
            hear(160)
            driver.kill()
        publishing.join()
        with Driver(Family(tmp_path / "second"), master="local[2]") as driver:
            driver.call("cook", **out)
            hear(_EVENTS)
            driver.call("finish", name="cook")
        assert found == Counter(range(_EVENTS))
        client.publish({"kind": "cooked", "n": -1})  # behind everything: nothing more came
        hear(_EVENTS + 1)
        assert found == Counter([-1, *range(_EVENTS)])


def _has_raw(broker: BrokerProcess) -> bool:
    return ask(f"{broker.url}/v1/subscriptions/raw").status == 200
