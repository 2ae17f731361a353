"""The bridge to NATS JetStream: each message one event, each match one message, whatever is killed in between."""

from __future__ import annotations

import functools
import json
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tamis.cli.main import app
from tamis.errors import ModelError
from tamis.runtime.bridges.systems.nats_place import NatsPlace, check_subject
from tamis.runtime.client.http_calls import HttpCalls
from tests.server.bridges import BridgeProcess, numbers_at
from tests.server.nats_servers import NatsServer, nats_running, needs_nats, patiently, with_jetstream
from tests.server.processes import BrokerProcess, running, wait_until


def nats_bridge(servers: list[NatsServer], broker: BrokerProcess, *more: str) -> BridgeProcess:
    places = [word for server in servers for word in ("--nats", server.url)]
    out = ["--subscribe", "even=half IS NOT NULL", "--out", "alerts.{id}.{name}"]
    return BridgeProcess("nats", *places, "--url", broker.url, "--in", "sensors.>", *out, *more)


@pytest.fixture
def both(tmp_path: Path) -> Iterator[tuple[list[NatsServer], BrokerProcess]]:
    with nats_running(tmp_path / "nats") as servers, running(BrokerProcess(tmp_path / "broker")) as (broker,):
        yield servers, broker


def make_streams(servers: list[NatsServer], retention: str = "limits") -> None:
    async def story(client: Any, js: Any) -> None:
        copies = len(servers)
        for name, subject, kept in (("SENSORS", "sensors.>", retention), ("ALERTS", "alerts.>", "limits")):
            await patiently(
                lambda name=name, subject=subject, kept=kept: js.add_stream(
                    name=name, subjects=[subject], num_replicas=copies, retention=kept
                )
            )

    with_jetstream(servers, story)


def send(servers: list[NatsServer], numbers: range) -> None:
    """Publish an event per number, half of them with an attribute that a subscription wants; each once."""

    async def story(client: Any, js: Any) -> None:
        for n in numbers:
            event = {"n": n} | ({"half": n // 2, "name": f"a.{n % 3}"} if n % 2 == 0 else {})
            headers = {"Nats-Msg-Id": f"test-{n}"}
            body = json.dumps(event).encode()
            await patiently(lambda body=body, headers=headers: js.publish("sensors.x", body, headers=headers))

    with_jetstream(servers, story)


def alerts_at(servers: list[NatsServer]) -> Counter[int]:
    """Return how often each match is in the stream of alerts."""

    async def story(client: Any, js: Any) -> Counter[int]:
        state = (await patiently(lambda: js.stream_info("ALERTS"))).state
        seen: Counter[int] = Counter()
        for place in range(max(1, state.first_seq), state.last_seq + 1):
            message = await patiently(lambda place=place: js.get_msg("ALERTS", seq=place))
            event = json.loads(message.data)
            assert message.subject == f"alerts.even.a%2E{event['n'] % 3}"
            assert event["subject"] == "sensors.x"
            seen[event["n"]] += 1
        return seen

    return with_jetstream(servers, story)  # type: ignore[no-any-return]


def check(servers: list[NatsServer], broker: BrokerProcess, count: int) -> None:
    """Wait until everything has passed, and demand that nothing is missing, repeated or out of order."""
    wait_until(lambda: len(numbers_at(broker)) >= count, f"{count} events")
    assert numbers_at(broker) == list(range(count))
    wanted = dict.fromkeys(range(0, count, 2), 1)
    wait_until(lambda: alerts_at(servers).keys() >= wanted.keys(), "all alerts")
    assert alerts_at(servers) == wanted


@needs_nats
@pytest.mark.parametrize("retention", ["limits", "workqueue"])
def test_each_message_is_one_event_when_bridge_broker_and_server_are_killed(
    both: tuple[list[NatsServer], BrokerProcess], retention: str
) -> None:
    servers, broker = both
    make_streams(servers, retention)
    HttpCalls(broker.url).subscribe("all", "n >= 0")
    bridge = nats_bridge(servers, broker).start()
    try:
        send(servers, range(40))
        check(servers, broker, 40)
        bridge.kill()
        send(servers, range(40, 80))
        broker.kill()
        broker.start().wait_until_ready()
        bridge.start()
        send(servers, range(80, 100))
        servers[0].kill()
        servers[0].start()
        send(servers, range(100, 120))
        check(servers, broker, 120)
    finally:
        bridge.close()


@needs_nats
@pytest.mark.slow
def test_a_cluster_of_three_loses_one_and_each_message_is_one_event(tmp_path: Path) -> None:
    with (
        nats_running(tmp_path / "nats", 3) as servers,
        running(BrokerProcess(tmp_path / "broker")) as (broker,),
    ):
        make_streams(servers)
        HttpCalls(broker.url).subscribe("all", "n >= 0")
        bridge = nats_bridge(servers, broker).start()
        try:
            send(servers, range(30))
            check(servers, broker, 30)
            leader = with_jetstream(servers, _leader)
            next(server for server in servers if server.name == leader).kill()
            alive = [server for server in servers if server.name != leader]
            send(alive, range(30, 60))
            check(alive, broker, 60)
        finally:
            bridge.close()


async def _leader(client: Any, js: Any) -> str:
    info = await patiently(lambda: js.stream_info("SENSORS"))
    return str(info.cluster.leader)


@needs_nats
def test_two_bridges_of_one_name_repeat_nothing_and_lose_nothing(both: tuple[list[NatsServer], BrokerProcess]) -> None:
    servers, broker = both
    make_streams(servers)
    HttpCalls(broker.url).subscribe("all", "n >= 0")
    words = ("nats", "--nats", servers[0].url, "--url", broker.url, "--in", "sensors.>")
    pair = [BridgeProcess(*words).start(), BridgeProcess(*words).start()]
    try:
        send(servers, range(60))
        wait_until(lambda: len(numbers_at(broker)) >= 60, "60 events")
        assert numbers_at(broker) == list(range(60))
    finally:
        for bridge in pair:
            bridge.close()


@needs_nats
def test_what_is_not_an_event_is_a_dead_letter_and_metrics_count_it(
    both: tuple[list[NatsServer], BrokerProcess], tmp_path: Path
) -> None:
    servers, broker = both
    make_streams(servers)
    HttpCalls(broker.url).subscribe("all", "n >= 0")
    bad = {1: b"{no json", 4: b'{"n": "text"}', 5: b"\xff\xfe"}

    async def story(client: Any, js: Any) -> None:
        for n in range(8):
            await js.publish("sensors.x", bad.get(n, json.dumps({"n": n}).encode()))

    with_jetstream(servers, story)
    letters = tmp_path / "refused.jsonl"
    bridge = nats_bridge(servers, broker, "--dead-letters", str(letters), "--metrics", "0").start()
    try:
        wait_until(lambda: numbers_at(broker) == [0, 2, 3, 6, 7], "the good ones")
        lines = wait_until(lambda: letters.exists() and letters.read_text().splitlines(), "dead letters")
        wait_until(lambda: len(letters.read_text().splitlines()) == 3, "three dead letters")
        lines = list(map(json.loads, letters.read_text().splitlines()))
        assert [(line["number"], line["source"]) for line in lines] == [(n + 1, "sensors.x") for n in bad]
        assert [line.get("payload") or line["payload_base64"] for line in lines] == [
            "{no json",
            '{"n": "text"}',
            "//4=",
        ]
        assert letters.stat().st_mode & 0o777 == 0o600

        def counted(line: str) -> bool:
            """A letter is on disk a moment before it is counted."""
            with urllib.request.urlopen(f"http://127.0.0.1:{bridge.ready['metrics']}/metrics") as answer:
                return line in answer.read().decode()

        for name, count in (("refused", 3), ("published", 5)):
            line = f'tamis_bridge_{name}_total{{bridge="bridge",system="nats"}} {count}.0'
            wait_until(functools.partial(counted, line), line)
    finally:
        bridge.close()


@needs_nats
def test_a_dry_run_shows_events_and_changes_nothing(both: tuple[list[NatsServer], BrokerProcess]) -> None:
    servers, broker = both
    make_streams(servers)
    send(servers, range(2))
    words = ["bridge", "nats", "--nats", servers[0].url, "--url", broker.url, "--in", "sensors.>", "--dry-run"]
    answer = CliRunner().invoke(app, [*words, "--json"])
    assert answer.exit_code == 0, answer.output
    assert [event["n"] for event in json.loads(answer.stdout)["events"]] == [0, 1]

    async def consumers(client: Any, js: Any) -> list[Any]:
        return list(await js.consumers_info("SENSORS"))

    assert with_jetstream(servers, consumers) == []
    assert HttpCalls(broker.url).find_number("nats:bridge:SENSORS") is None


@needs_nats
def test_a_stream_that_is_not_there_or_keeps_by_interest_is_an_error_that_says_so(
    both: tuple[list[NatsServer], BrokerProcess],
) -> None:
    servers, broker = both
    words = ["bridge", "nats", "--nats", servers[0].url, "--url", broker.url, "--in", "sensors.>"]
    answer = CliRunner().invoke(app, words)
    assert answer.exit_code == 2
    assert "--in: no stream has subject 'sensors.>'; make one" in answer.stderr
    assert "None" not in answer.stderr  # the client's own text: code=None err_code=None description='None'
    answer = CliRunner().invoke(app, [*words, "--stream", "NOPE", "--dry-run"])
    assert answer.exit_code == 2
    assert answer.stderr.strip().endswith("--stream: there is no stream 'NOPE'")
    make_streams(servers, "interest")
    answer = CliRunner().invoke(app, [*words, "--subscribe", "a=n > 0", "--out", "elsewhere.{n}"])
    assert answer.exit_code == 2
    assert "--out: no stream keeps subject 'elsewhere.null'" in answer.stderr
    answer = CliRunner().invoke(app, words)
    assert answer.exit_code == 2
    assert "keeps messages by interest" in answer.stderr


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("http://h", "expected nats://"),
        ("nats://u:secret@h", "no password in a URL: set TAMIS_NATS_PASSWORD"),
        ("nats://h:99999", "99999"),
    ],
)
def test_an_address_that_is_none_says_why(url: str, problem: str) -> None:
    with pytest.raises(ModelError, match=problem):
        NatsPlace.parse([url])


@pytest.mark.parametrize(
    ("subject", "problem"),
    [
        ("", "expected words with a dot between them"),
        ("a b", "without spaces"),
        ("a..b", "expected words with a dot between them"),
        ("a.\n", "without spaces"),
        ("a.>.b", "> is allowed at the end only"),
    ],
)
def test_subjects_are_checked_before_a_server_is_asked(subject: str, problem: str) -> None:
    for more in ((), ("--dry-run",)):
        words = ["bridge", "nats", "--nats", "nats://127.0.0.1:1", "--url", "http://127.0.0.1:1", "--in", subject]
        answer = CliRunner().invoke(app, [*words, *more])
        assert (answer.exit_code, "--in" in answer.stderr, problem in answer.stderr) == (2, True, True), answer.stderr


@pytest.mark.parametrize("subject", [">", "*", "a.*.b", "a.>", "a-b.c_d"])
def test_subjects_of_nats_are_accepted(subject: str) -> None:
    check_subject(subject)
