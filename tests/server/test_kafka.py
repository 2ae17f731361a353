"""The bridge to Kafka, with the mock cluster of librdkafka: real sockets and the real protocol, no real Kafka.

The mock has brokers, partitions, groups and idempotent producers, and keeps everything in the memory of the test.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tamis.cli.main import app
from tamis.errors import ModelError
from tamis.runtime.bridges.systems import kafka as kafka_system
from tamis.runtime.bridges.systems.kafka import KafkaPlace
from tamis.runtime.client.http_calls import HttpCalls
from tests.server.bridges import BridgeProcess, numbers_at
from tests.server.processes import HANGS, BrokerProcess, ReservedPort, running, wait_until


class MockKafka:
    """A cluster of three brokers; it lives as long as the producer that made it."""

    def __init__(self) -> None:
        from confluent_kafka import Producer

        self.producer = Producer({"test.mock.num.brokers": 3, "log_level": 0})
        brokers = self.producer.list_topics(timeout=HANGS).brokers.values()
        self.servers = ",".join(f"{broker.host}:{broker.port}" for broker in brokers)

    def send(self, topic: str, values: list[bytes], first: int = 0) -> None:
        """Send messages to four partitions in turn; ``first`` is the number of the first of them."""
        for number, value in enumerate(values, first):
            self.producer.produce(topic, value, partition=number % 4)
        assert self.producer.flush(HANGS) == 0

    def read(self, topic: str, count: int) -> list[Any]:
        """Return at least ``count`` messages of a topic from its beginning, and what comes a moment later."""
        from confluent_kafka import Consumer

        settings = {"group.id": f"test-{id(object())}", "auto.offset.reset": "earliest", "log_level": 0}
        consumer = Consumer({"bootstrap.servers": self.servers, **settings})
        consumer.subscribe([topic])
        try:
            records: list[Any] = []
            wait_until(lambda: records.extend(_good(consumer)) or len(records) >= count, f"{count} of {topic}")
            return records + _good(consumer)
        finally:
            consumer.close()


def _good(consumer: Any) -> list[Any]:
    return [record for record in consumer.consume(1_000, 1.0) if record.error() is None]


@pytest.fixture(scope="module")
def kafka() -> MockKafka:
    return MockKafka()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with running(BrokerProcess(tmp_path / "broker")) as (process,):
        HttpCalls(process.url).subscribe("all", "n >= 0")
        yield process


def events(numbers: range) -> list[bytes]:
    return [json.dumps({"n": n} | ({"half": n // 2} if n % 2 == 0 else {})).encode() for n in numbers]


def test_each_message_is_one_event_when_bridge_and_broker_are_killed(kafka: MockKafka, broker: BrokerProcess) -> None:
    out = ("--subscribe", "even=half IS NOT NULL", "--out", "alerts-{id}")
    kafka.send("sensors", events(range(40)))
    words = ("kafka", "--kafka", kafka.servers, "--url", broker.url, "--in", "sensors", *out)
    bridge = BridgeProcess(*words).start()
    try:
        wait_until(lambda: len(numbers_at(broker)) >= 40, "40 events")
        bridge.kill()
        kafka.send("sensors", events(range(40, 80)))
        broker.kill()
        broker.start().wait_until_ready()
        bridge.start()
        wait_until(lambda: len(numbers_at(broker)) >= 80, "80 events")
        assert Counter(numbers_at(broker)) == dict.fromkeys(range(80), 1)
        for partition in range(4):  # in order within each
            mine = [n for n in numbers_at(broker) if n % 4 == partition]
            assert mine == sorted(mine)
        alerts = kafka.read("alerts-even", 40)
        assert {json.loads(record.value())["n"] for record in alerts} == set(range(0, 80, 2))
        assert all(dict(record.headers())["tamis-id"].startswith(b"bridge:even:") for record in alerts)
    finally:
        bridge.close()


def test_what_is_not_an_event_is_a_dead_letter(kafka: MockKafka, broker: BrokerProcess, tmp_path: Path) -> None:
    kafka.send("mixed", [b"{no json", *events(range(1, 9)), b'{"n": "text"}'])
    letters = tmp_path / "refused.jsonl"
    words = ("kafka", "--kafka", kafka.servers, "--url", broker.url, "--in", "mixed", "--dead-letters", str(letters))
    bridge = BridgeProcess(*words, "--name", "mixed").start()
    try:
        wait_until(lambda: sorted(numbers_at(broker)) == list(range(1, 9)), "the good ones")
        wait_until(lambda: letters.exists() and len(letters.read_text().splitlines()) == 2, "two dead letters")
        lines = list(map(json.loads, letters.read_text().splitlines()))
        assert {line["payload"] for line in lines} == {"{no json", '{"n": "text"}'}
    finally:
        bridge.close()


def test_a_dry_run_shows_events_and_publishes_nothing(kafka: MockKafka, broker: BrokerProcess) -> None:
    kafka.send("shown", events(range(3)))
    words = ["bridge", "kafka", "--kafka", kafka.servers, "--url", broker.url, "--in", "shown", "--dry-run", "--json"]
    answer = CliRunner().invoke(app, words)
    assert answer.exit_code == 0, answer.output
    shown = {event["n"] for event in json.loads(answer.stdout)["events"]}
    assert shown
    assert shown <= {0, 1, 2}
    assert numbers_at(broker) == []


@pytest.mark.parametrize(
    ("servers", "options", "problem"),
    [
        ("h", (), "--kafka: expected host:port"),
        ("kafka://h:9092", (), "--kafka: expected host:port"),
        ("h:9092", ("acks=0",), "--option: acks is set by the bridge"),
        ("h:9092", ("sasl.password=x",), "no password on a command line: set TAMIS_KAFKA_PASSWORD"),
        ("h:9092", ("linger.ms",), "--option: expected NAME=VALUE"),
    ],
)
def test_a_place_that_is_none_says_why(servers: str, options: tuple[str, ...], problem: str) -> None:
    with pytest.raises(ModelError, match=problem):
        KafkaPlace.parse(servers, options)


def test_what_a_user_can_get_wrong_is_said(broker: BrokerProcess, kafka: MockKafka) -> None:
    words = ["bridge", "kafka", "--url", broker.url, "--in", "a", "--kafka"]
    answer = CliRunner().invoke(app, [*words, kafka.servers, "--option", "no.such=1"])
    assert answer.exit_code == 2
    assert "no.such" in answer.stderr


def test_a_cluster_that_does_not_answer_is_named_with_the_time(
    broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_system, "CONNECT_SECONDS", 0.5)
    address = f"127.0.0.1:{ReservedPort().number}"
    answer = CliRunner().invoke(app, ["bridge", "kafka", "--url", broker.url, "--in", "a", "--kafka", address])
    assert (answer.exit_code, answer.stderr) == (2, f"error: {address}: no Kafka broker answered within 0.5 s\n")
