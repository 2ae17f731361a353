"""Programs that speak HTTP to a broker and its standby: the one that serves is killed, and they go on by themselves."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tamis.runtime.client.http_calls import HttpCalls
from tests.server.bridges import BridgeProcess, numbers_at
from tests.server.forks import pipe_program, run_program
from tests.server.mosquitto import MqttUser, mqtt_running, needs_mosquitto
from tests.server.nats_servers import nats_running, needs_nats
from tests.server.postgres import PostgresServer, needs_postgres, postgres
from tests.server.processes import HANGS, STOPS, read_line, wait_until
from tests.server.test_failover import Pair, role_of
from tests.server.test_kafka import MockKafka, events
from tests.server.test_nats import alerts_at, make_streams, send

__all__ = ["postgres"]

pytestmark = needs_postgres


@pytest.fixture
def pair(postgres: PostgresServer, tmp_path: Path) -> Iterator[Pair]:
    both = Pair(tmp_path, postgres.url).start()
    yield both
    both.stop()


def kill_the_holder(pair: Pair) -> None:
    """Kill the process that serves while the other one is ready to take over."""
    holder = pair.serving()
    wait_until(lambda: "standby" in map(role_of, pair.processes), "the standby")
    holder.kill()


class Producer(threading.Thread):
    """Calls ``send`` with one number after another until it is stopped."""

    def __init__(self, send: Callable[[int], object]) -> None:
        super().__init__(daemon=True)
        self._send = send
        self._is_over = threading.Event()
        self.count = 0

    def run(self) -> None:
        while not self._is_over.wait(0.01):
            self._send(self.count)
            self.count += 1

    def wait_for_more(self) -> None:
        count = self.count
        wait_until(lambda: self.count > count + 5 or not self.is_alive(), "events that are confirmed")
        assert self.is_alive()

    def stop(self) -> int:
        self._is_over.set()
        self.join(HANGS)
        return self.count


def test_a_consumer_and_a_producer_lose_and_double_nothing(pair: Pair) -> None:
    calls = HttpCalls(pair.urls, patience=HANGS)
    calls.subscribe("all", "n >= 0")
    addresses = [word for url in pair.urls for word in ("--url", url)]
    consumer = pipe_program(["consume", "all", "--consumer", "a", *addresses, "--seconds", "3600", "--json"])
    printed: list[dict[str, Any]] = []
    producer = Producer(lambda n: calls.publish_once(b'{"n": %d}' % n, producer="p", number=n))
    producer.start()
    try:
        for _ in range(2):
            producer.wait_for_more()
            printed += [json.loads(read_line(consumer)) for _ in range(3)]  # it reads meanwhile
            kill_the_holder(pair)
            producer.wait_for_more()
            for process in pair.processes:
                if process.process is not None and process.process.poll() is not None:
                    process.start()
        count = producer.stop()
        while len(printed) < count:
            printed.append(json.loads(read_line(consumer)))
        # What the dead broker gave away in an answer that was lost comes again with the repeated request.
        assert sorted(delivery["event"]["n"] for delivery in printed) == list(range(count))
        page = wait_until(
            lambda: (page := calls.read_log("all", limit=0)).acknowledged == page.last and page, "the acknowledgements"
        )
        assert page.last.endswith(f"-{count}")
    finally:
        consumer.terminate()
        consumer.wait(STOPS)
        for pipe in (consumer.stdin, consumer.stdout):
            assert pipe is not None
            pipe.close()


@needs_nats
def test_a_bridge_goes_on_with_the_standby(pair: Pair, tmp_path: Path) -> None:
    broker: Any = SimpleNamespace(url=",".join(pair.urls))
    with nats_running(tmp_path / "nats") as servers:
        make_streams(servers)
        HttpCalls(pair.urls, patience=HANGS).subscribe("all", "n >= 0")
        out = ["--subscribe", "even=half IS NOT NULL", "--out", "alerts.{id}.{name}"]
        bridge = BridgeProcess("nats", "--nats", servers[0].url, "--url", broker.url, "--in", "sensors.>", *out)
        bridge.start()
        try:
            send(servers, range(20))
            wait_until(lambda: len(numbers_at(broker)) >= 5, "the first events")
            kill_the_holder(pair)
            send(servers, range(20, 60))
            wait_until(lambda: len(numbers_at(broker)) >= 60, "all events")
            assert numbers_at(broker) == list(range(60))
            wanted = Counter(range(0, 60, 2))
            wait_until(lambda: alerts_at(servers).keys() >= wanted.keys(), "all alerts")
            assert alerts_at(servers) == wanted
        finally:
            bridge.close()


def take_over_while_messages_pass(pair: Pair, producer: Producer) -> int:
    """Kill the holder while a bridge has messages to pass on; return how many were sent in the end."""
    broker: Any = SimpleNamespace(url=",".join(pair.urls))
    producer.start()
    wait_until(lambda: len(numbers_at(broker)) >= 5, "the first events")
    kill_the_holder(pair)
    producer.wait_for_more()  # nothing serves: they wait in the other system
    first = max(numbers_at(broker))  # of the standby, which has taken over
    wait_until(lambda: max(numbers_at(broker)) > first, "events that passed after the take-over")
    count = producer.stop()
    wait_until(lambda: {*numbers_at(broker)} >= {*range(count)}, "all events")
    return count


def test_a_bridge_to_kafka_goes_on_with_the_standby(pair: Pair) -> None:
    kafka, broker = MockKafka(), SimpleNamespace(url=",".join(pair.urls))
    HttpCalls(pair.urls, patience=HANGS).subscribe("all", "n >= 0")
    out = ["--subscribe", "even=half IS NOT NULL", "--out", "alerts-{id}"]
    bridge = BridgeProcess("kafka", "--kafka", kafka.servers, "--url", broker.url, "--in", "sensors", *out)
    kafka.send("sensors", events(range(1)))
    producer = Producer(lambda n: kafka.send("sensors", events(range(n, n + 1)), n) if n else None)
    bridge.start()
    try:
        count = take_over_while_messages_pass(pair, producer)
        arrived = numbers_at(broker)  # type: ignore[arg-type]
        assert Counter(arrived) == dict.fromkeys(range(count), 1)
        for partition in range(4):
            mine = [n for n in arrived if n % 4 == partition]
            assert mine == sorted(mine)
        alerts = [json.loads(record.value())["n"] for record in kafka.read("alerts-even", (count + 1) // 2)]
        assert sorted(alerts) == list(range(0, count, 2))  # once, since the bridge and its producer went on
    finally:
        bridge.close()


@needs_mosquitto
def test_a_bridge_to_mqtt_goes_on_with_the_standby(pair: Pair, tmp_path: Path) -> None:
    HttpCalls(pair.urls, patience=HANGS).subscribe("all", "n >= 0")
    with mqtt_running(tmp_path / "mosquitto") as mosquitto:
        out = ["--subscribe", "even=half IS NOT NULL", "--out", "alerts/{id}"]
        places = ["--mqtt", mosquitto.url, "--url", ",".join(pair.urls), "--in", "sensors/#"]
        bridge, user = BridgeProcess("mqtt", *places, *out).start(), MqttUser(mosquitto, "alerts/#")
        try:
            producer = Producer(lambda n: user.publish(f"sensors/{n}", events(range(n, n + 1))[0].decode()))
            wanted = {*range(0, take_over_while_messages_pass(pair, producer), 2)}
            alerts = set[int]()
            while not alerts >= wanted:  # at least once
                topic, payload = user.messages.get(timeout=HANGS)
                assert topic == "alerts/even"
                alerts.add(json.loads(payload)["n"])
            assert alerts == wanted
        finally:
            user.close()
            bridge.close()


def test_commands_find_the_standby_that_has_taken_over(pair: Pair, tmp_path: Path) -> None:
    rules, url = tmp_path / "rules.jsonl", ("--url", ",".join(pair.urls))
    rules.write_text('{"id": "all", "filter": "n >= 0"}\n')
    kill_the_holder(pair)

    def run(*words: str) -> Any:
        done = run_program([*words, *url, "--json"])
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    assert run("apply", str(rules))["added"] == 1  # waits for the take-over
    assert run("publish", '{"n": 1}') == {"published": 1}
    assert numbers_at(SimpleNamespace(url=url[1])) == [1]  # type: ignore[arg-type]
    assert run("serve", "links") == {"links": []}
