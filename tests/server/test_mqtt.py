"""The bridge to MQTT: topics in as events, matches out to topics, whichever process is killed in between."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tamis.cli.main import app
from tamis.errors import ModelError
from tamis.runtime.bridges.content import destination_of, event_of_message
from tamis.runtime.bridges.plan import BridgePlan
from tamis.runtime.bridges.systems.mqtt_connection import MqttPlace, check_topic_filter
from tamis.runtime.client.http_calls import HttpCalls
from tests.server.forks import pipe_program
from tests.server.mosquitto import Mosquitto, MqttUser, mqtt_running, needs_mosquitto
from tests.server.processes import HANGS, STOPS, BrokerProcess, read_line, running


class Bridge:
    """One `tamis bridge mqtt`."""

    def __init__(self, mosquitto: Mosquitto, broker: BrokerProcess) -> None:
        places = ["--mqtt", mosquitto.url, "--url", broker.url, "--in", "sensors/#"]
        out = ["--subscribe", "hot=value > 40", "--subscribe", "named=name IS NOT NULL", "--out", "alerts/{id}/{name}"]
        self._command = ["bridge", "mqtt", "--json", *places, *out]

    def start(self) -> Bridge:
        self._process = pipe_program(self._command)
        assert json.loads(read_line(self._process)) == {"ready": True}
        return self

    def kill(self) -> None:
        self._process.kill()
        self.close()

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.terminate()
        self._process.wait(STOPS)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()


@pytest.fixture
def both(tmp_path: Path) -> Iterator[tuple[Mosquitto, BrokerProcess]]:
    with mqtt_running(tmp_path / "mosquitto") as mosquitto, running(BrokerProcess(tmp_path / "broker")) as (broker,):
        yield mosquitto, broker


@needs_mosquitto
def test_nothing_is_lost_when_bridge_and_brokers_are_killed(both: tuple[Mosquitto, BrokerProcess]) -> None:
    mosquitto, broker = both
    bridge, user = Bridge(mosquitto, broker).start(), MqttUser(mosquitto, "alerts/#")
    try:
        _send(user, range(30))
        _expect(user, range(30))
        bridge.kill()
        _send(user, range(30, 60))  # waits at the MQTT broker, in the session of the bridge
        broker.kill()
        broker.start().wait_until_ready()
        bridge.start()
        _send(user, range(60, 90))
        _expect(user, range(30, 90))
        mosquitto.stop()
        mosquitto.start()  # both clients connect again by themselves
        _send(user, range(90, 120))
        _expect(user, range(90, 120))
    finally:
        user.close()
        bridge.close()


@needs_mosquitto
def test_a_dry_run_shows_events_and_publishes_nothing(both: tuple[Mosquitto, BrokerProcess]) -> None:
    mosquitto, broker = both
    HttpCalls(broker.url).subscribe("all", "TRUE")
    user, is_over = MqttUser(mosquitto), threading.Event()

    def send_until_it_is_over() -> None:
        while not is_over.wait(0.05):
            _send(user, range(1))

    sending = threading.Thread(target=send_until_it_is_over)
    sending.start()
    try:
        places = ["--mqtt", mosquitto.url, "--url", broker.url, "--in", "sensors/#"]
        answer = CliRunner().invoke(app, ["bridge", "mqtt", *places, "--dry-run", "--json"])
    finally:
        is_over.set()
        sending.join()
        user.close()
    assert answer.exit_code == 0, answer.output
    trial = json.loads(answer.stdout)
    assert {"name": "n0/x", "n": 0, "topic": "sensors/0"} in trial["events"]
    assert {"value": 0, "topic": "sensors/bare"} in trial["events"]
    assert any("sensors/bad" in reason for reason in trial["refusals"])
    assert HttpCalls(broker.url).read_log("all").messages == []


def _send(user: MqttUser, numbers: range) -> None:
    """Send an object, a bare number and something that is not JSON for each number."""
    for number in numbers:
        user.publish(f"sensors/{number}", json.dumps({"name": f"n{number}/x", "n": number}))
        user.publish("sensors/bare", str(number))
        user.publish("sensors/bad", "{no json")


def _expect(user: MqttUser, numbers: range) -> None:
    """Wait for exactly what matches; at least once, so some may come twice."""
    wanted = {(f"alerts/named/n{number}%2Fx", number, f"sensors/{number}") for number in numbers}
    wanted |= {("alerts/hot/null", number, "sensors/bare") for number in numbers if number > 40}
    possible = {number - 30 for number in numbers} | {*numbers}
    alerts = set()
    while alerts < wanted:
        topic, payload = user.messages.get(timeout=HANGS)
        event = json.loads(payload)
        number = event.get("n", event.get("value"))
        assert number in possible
        if number in numbers:
            alerts.add((topic, number, event["topic"]))
    assert alerts == wanted


def test_messages_become_events_and_matches_topics() -> None:
    assert event_of_message("a", b'{"x": 1, "topic": "forged"}') == {"x": 1, "topic": "a"}
    assert event_of_message("a", b'"on"') == {"value": "on", "topic": "a"}
    for payload in (b"", b"\xff", b"[1", b"NaN", b"{" * 100_000, b'"' + b"x" * 300_000 + b'"'):
        with pytest.raises(ModelError, match="topic 'a'"):
            event_of_message("a", payload)
    assert destination_of("a/{x}/{id}", "s+#", {"x": "b/c\0", "id": "no"}) == "a/b%2Fc%00/s%2B%23"


@pytest.mark.parametrize(
    ("plan", "problem"),
    [
        (BridgePlan("http://b"), "nothing to do"),
        (BridgePlan("http://b", subscriptions={"a": "TRUE"}), "belong together"),
        (BridgePlan("http://b", subscriptions={"a": "TRUE"}, out="x/#"), "no wildcards"),
        (BridgePlan("http://b", subscriptions={"a": "TRUE"}, out="x.>"), "no wildcards"),
        (BridgePlan("http://b", subscriptions={"a": "TRUE"}, out="x/{a.b}"), "no wildcards"),
        (BridgePlan("http://b", "n" * 65, ("a",)), "--name: expected 1 to 64"),
        (BridgePlan("http://b", subscriptions={"hot": "x >"}, out="a"), "--subscribe, filter of 'hot': expected"),
        (BridgePlan("http://b", sources=("a",), dead_letters=Path("/nodir/x")), "/nodir/x: there is no folder /nodir"),
        (BridgePlan("http://b", sources=("a",), dead_letters=Path("/tmp")), "/tmp is a directory, not a file"),
    ],
)
def test_a_plan_that_cannot_work_says_why(plan: BridgePlan, problem: str) -> None:
    with pytest.raises(ModelError, match=problem):
        plan.check()


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("http://h", "expected mqtt://"),
        ("mqtt://u:secret@h", "no password in a URL"),
        ("mqtt://h:99999", "99999"),
    ],
)
def test_an_address_that_is_none_says_why(url: str, problem: str) -> None:
    with pytest.raises(ModelError, match=problem):
        MqttPlace.parse(url)


@pytest.mark.parametrize(
    ("topics", "problem"),
    [
        ("sensors/#/x", "# is allowed at the end only"),
        ("sensors#", "# is allowed at the end only"),
        ("sensors/a+/x", "+ stands for a whole level"),
        ("", "expected a topic"),
        ("$share/group/", "expected a topic"),
        ("x" * 65_536, "at most 65,535 bytes"),
        ("a\0b", "without NUL"),
        ("a\udcffb", "expected UTF-8 text"),
    ],
)
def test_topics_are_checked_before_a_broker_is_asked(topics: str, problem: str) -> None:
    for more in ((), ("--dry-run",)):
        words = ["bridge", "mqtt", "--mqtt", "mqtt://127.0.0.1:1", "--url", "http://127.0.0.1:1", "--in", topics]
        answer = CliRunner().invoke(app, [*words, *more])
        assert (answer.exit_code, "--in" in answer.stderr, problem in answer.stderr) == (2, True, True), answer.stderr


@pytest.mark.parametrize("topics", ["#", "+", "a/#", "a/+/b", "/", "/a", "$SYS/#", "$share/group/a/#"])
def test_topics_of_mqtt_are_accepted(topics: str) -> None:
    check_topic_filter(topics)


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_a_bridge_that_never_ran_reports_no_counts(more: tuple[str, ...]) -> None:
    answer = CliRunner().invoke(app, ["bridge", "mqtt", "--mqtt", "x", "--in", "a", *more])
    assert answer.exit_code == 2
    assert "expected mqtt://" in answer.stderr
    assert "events" not in answer.output
    assert not answer.stdout


def test_a_place_has_its_port_and_its_user() -> None:
    assert MqttPlace.parse("mqtt://127.0.0.1:1999") == MqttPlace("127.0.0.1", 1999)
    assert MqttPlace.parse("mqtts://alice@h/") == MqttPlace("h", 8883, "alice", tls=True)
