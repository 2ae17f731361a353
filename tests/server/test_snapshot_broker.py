"""A broker that has the subscriptions of a snapshot, and follows its newer versions."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import tamis
from tamis.runtime.client.http_calls import HttpCalls
from tests.server.processes import SERVE, BrokerProcess, ask, running, wait_until

SCHEMA = tamis.Schema({"price": tamis.Number(), "symbol": tamis.String(), "at": tamis.Timestamp()})


def save(directory: Path, filters: dict[Any, str]) -> None:
    engine = tamis.Engine(SCHEMA)
    for id, text in filters.items():
        engine.subscribe(text, id=id, namespace="desk" if id == "elsewhere" else "default", metadata={"who": str(id)})
    engine.subscribe_boxes(["price"], [[10.0]], [[20.0]], ids=[77])  # a box without a text
    engine.save(directory)


def prices_at(broker: BrokerProcess, id: object) -> list[Any]:
    return [message["event"]["price"] for message in HttpCalls(broker.url).read_log(str(id)).messages]


def test_a_broker_has_the_subscriptions_of_the_newest_version(tmp_path: Path) -> None:
    snapshots = tmp_path / "snapshots"
    save(snapshots, {"low": "price < 15", 5: "symbol = 'IBM'", "elsewhere": "price < 1000"})
    config = f'data = "{tmp_path / "data"}"\nsnapshot = "{snapshots}"\n'
    with running(BrokerProcess(tmp_path / "broker", config)) as (broker,):
        ask(f"{broker.url}/v1/subscriptions", "POST", {"id": "posted", "filter": "price > 0"})
        listed = ask(f"{broker.url}/v1/subscriptions").json["subscriptions"]
        shown = sorted((str(row["id"]), row["namespace"], row["owner"]) for row in listed)
        assert shown == [
            ("5", "default", "snapshot"),
            ("77", "default", "snapshot"),
            ("elsewhere", "desk", "snapshot"),
            ("low", "default", "snapshot"),
            ("posted", "default", "local"),
        ]
        assert {shown["metadata"].get("who") for shown in listed} == {"low", "5", "elsewhere", None}
        events = [{"price": 12, "symbol": "IBM", "at": "2026-01-01T00:00:00Z"}, {"price": 18, "symbol": "ICE"}]
        assert ask(f"{broker.url}/v1/events", "POST", events).status == 200
        assert [prices_at(broker, id) for id in ("low", 5, 77, "posted")] == [[12], [12], [12, 18], [12, 18]]

        save(snapshots, {"low": "price < 11", "new": "price > 15"})  # 5 and elsewhere are gone
        for id, status in (("new", 200), ("5", 404)):  # the broker takes the new ones first
            _until(lambda id=id, status=status: ask(f"{broker.url}/v1/subscriptions/{id}").status == status)
        ask(f"{broker.url}/v1/events", "POST", [{"price": 10.5}, {"price": 14}, {"price": 16}])
        assert [prices_at(broker, id) for id in ("low", "new", 77)] == [[12, 10.5], [16], [12, 18, 10.5, 14, 16]]

        broker.kill()
        broker.start().wait_until_ready()
        assert prices_at(broker, "low") == [12, 10.5]
        assert len(ask(f"{broker.url}/v1/subscriptions").json["subscriptions"]) == 4


def test_a_snapshot_that_cannot_be_opened_says_why(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SERVE, "serve", "--port", "0", "--data", str(tmp_path / "data")]
    done = subprocess.run([*command, "--snapshot", str(tmp_path / "none")], capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert "there is no such directory" in done.stderr


def _until(look: Any) -> None:
    wait_until(look, "what the snapshot brings")
