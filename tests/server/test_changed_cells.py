"""Real brokers that get other cells one after the other, between events: nothing is lost, and nothing comes twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.server.processes import BrokerProcess, a_line, ask, running, wait_until

SCHEMA = '{"attributes": {"n": {"type": "number", "lo": 0, "hi": 64}, "at": {"type": "number"}}}'
FIRST, LATER = "mics:bits=5", "mics:bits=3"


def with_cells(broker: BrokerProcess, policy: str) -> BrokerProcess:
    """Give the links of a broker a policy with other cells, from its next start on."""
    lines = [line for line in broker.config.splitlines() if not line.startswith("policy")]
    broker.config = "\n".join(part for line in lines for part in (line, *_policy_of(line, policy)))
    return broker


def _policy_of(line: str, policy: str) -> list[str]:
    return [f'policy = "{policy}"'] if line == "[[links]]" else []


def publish(broker: BrokerProcess, *numbers: int) -> None:
    for number in numbers:
        assert ask(f"{broker.url}/v1/events", "POST", {"n": number}).status == 200


def got(broker: BrokerProcess) -> list[int]:
    messages = ask(f"{broker.url}/v1/subscriptions/low/log?limit=1000").json["messages"]
    return [message["event"]["n"] for message in messages]


def link_of(broker: BrokerProcess) -> dict[str, Any]:
    [link] = ask(f"{broker.url}/v1/links").json["links"]
    return dict(link)


def wait_for_step(*brokers: BrokerProcess) -> None:
    for broker in brokers:
        wait_until(lambda broker=broker: link_of(broker)["confirmed"], f"the link of {broker.directory.name}", 60)


def n_sent(broker: BrokerProcess) -> int:
    """Return how many events a broker has sent over its link since it started."""
    [link] = ask(f"{broker.url}/v1/statistics").json["links"]
    return int(link["events"])


def test_brokers_of_two_versions_of_the_cells_forward_everything_until_both_agree(tmp_path: Path) -> None:
    a, b = (with_cells(broker, FIRST) for broker in a_line(tmp_path, "ab", SCHEMA))
    with running(a, b):
        made = ask(f"{b.url}/v1/subscriptions", "POST", {"id": "low", "filter": "n < 8"})
        assert made.status == 201
        wait_until(lambda: ask(f"{b.url}/v1/subscriptions/low").json["state"] == "active", "the subscription")
        publish(a, 1, 60)
        wait_until(lambda: got(b) == [1], "the first event")
        wait_until(lambda: n_sent(a) == 1, "one event over the link")  # 60 is in no range that b asked for

        with_cells(a, LATER).kill()
        a.start().wait_until_ready()
        publish(a, 2, 61)  # before the two have spoken to each other again
        wait_for_step(a, b)
        publish(a, 3, 62)
        wait_until(lambda: got(b) == [1, 2, 3], "the events between two versions")
        wait_until(lambda: n_sent(a) == 4, "all events over the link")

        with_cells(b, LATER).kill()
        publish(a, 4, 63)
        b.start().wait_until_ready()
        wait_for_step(a, b)
        before = n_sent(a)
        publish(a, 5, 59)
        wait_until(lambda: got(b) == [1, 2, 3, 4, 5], "the events after both agree")
        wait_until(lambda: n_sent(a) == before + 1, "one more event over the link")
