"""A link that is cut: its broker accepts up to the quota, then refuses and says why; nothing accepted is lost (G16)."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import tamis
from tamis.cli.main import app
from tamis.errors import RefusedError
from tamis.runtime.disk.checking import check_files
from tests.server.processes import a_line, ask, wait_until


def test_events_are_refused_when_too_many_wait_and_taken_again_when_they_went(tmp_path: Path) -> None:
    near, far = a_line(tmp_path, "ab", extra="max_link_messages = 20")
    try:
        near.start().wait_until_ready()
        far.start().wait_until_ready()
        subscribe_at(far.url)
        assert near_publishes(near.url, -1) == 200  # no subscription matches it, whatever waits
        far.kill()
        accepted = publish_until_refused(near.url)
        assert 15 <= len(accepted) < 60, "the quota counts every message that waits"
        assert near_publishes(near.url, -1) == 200, "an event that needs no full link is taken"
        refused_client(near.url)
        far.start().wait_until_ready()
        got = asyncio.run(read(far.url, len(accepted)))
        assert got == accepted
        publish_again(near.url)
    finally:
        near.stop()
        far.stop()


def test_a_link_that_drops_refuses_nothing_and_delivers_the_newest_behind_the_gap(tmp_path: Path) -> None:
    near, far = a_line(tmp_path, "ab", extra="max_link_messages = 20")
    near.config = near.config.replace('name = "b"', 'name = "b"\nwhen_full = "drop"')
    try:
        near.start().wait_until_ready()
        far.start().wait_until_ready()
        subscribe_at(far.url)
        far.kill()
        assert {near_publishes(near.url, n) for n in range(60)} == {200}
        near.kill()  # what waits and what was counted is on disk
        checked = check_files(tmp_path / "a" / "data")
        assert checked.messages >= 18
        near.start().wait_until_ready()
        assert {near_publishes(near.url, n) for n in range(60, 80)} == {200}
        far.start().wait_until_ready()
        messages = wait_until(lambda: with_gap(far.url), "the gap")
        [place] = [i for i, message in enumerate(messages) if "gap" in message]
        numbered = [message["event"]["n"] for message in messages[:place]]
        assert numbered == list(range(len(numbered)))
        assert len(numbered) < 5
        wait_until(lambda: with_gap(far.url)[-1].get("event") == {"n": 79}, "the newest event")
        newest = [message["event"]["n"] for message in with_gap(far.url)[place + 1 :]]
        assert newest == list(range(80 - len(newest), 80))
        assert 15 <= len(newest) <= 20
        assert messages[place]["gap"]["count"] == 80 - len(numbered) - len(newest)
        assert near_publishes(near.url, 500) == 200
        wait_until(lambda: with_gap(far.url)[-1].get("event") == {"n": 500}, "an event behind the gap")
    finally:
        near.stop()
        far.stop()


def test_a_dead_link_is_skipped_while_the_broker_runs_and_taken_back(tmp_path: Path) -> None:
    near, far = a_line(tmp_path, "ab", extra="max_link_messages = 5")
    try:
        near.start().wait_until_ready()
        far.start().wait_until_ready()
        subscribe_at(far.url)
        far.kill()
        wait_until(lambda: near_publishes(near.url, 0) == 503, "a full link")
        url_of_mine = f"{near.url}/v1/subscriptions/mine"
        assert ask(f"{near.url}/v1/subscriptions", "POST", {"id": "mine", "filter": "n > 100"}).status == 201
        assert ask(url_of_mine).json["waiting_for"] == ["b"]
        assert ask(f"{near.url}/v1/links/c/skip", "POST").status == 404
        shown = CliRunner().invoke(app, ["serve", "links", "skip", "b", "--url", near.url, "--json"])
        assert json.loads(shown.output)["links"][0]["skipped"] is True
        assert ask(url_of_mine).json["state"] == "active"
        assert {near_publishes(near.url, n) for n in range(10)} == {200}
        near.kill()
        near.start().wait_until_ready()
        assert {near_publishes(near.url, n) for n in range(10)} == {200}  # it is still skipped
        far.start().wait_until_ready()
        heading, _, row = CliRunner().invoke(app, ["serve", "links", "--url", near.url]).output.splitlines()[:3]
        assert heading.split() == ["link", "state", "when_full", "waiting", "dropped", "ring"]  # whole, in 80 columns
        assert (row.split()[0], "skipped" in row) == ("b", True)
        CliRunner().invoke(app, ["serve", "links", "resume", "b", "--url", near.url])
        messages = wait_until(lambda: with_gap(far.url), "the gap")
        assert [message["gap"]["count"] for message in messages if "gap" in message] == [20]
        wait_until(lambda: near_publishes(near.url, 500) == 200, "a link that is free again")
        wait_until(lambda: with_gap(far.url)[-1].get("event") == {"n": 500}, "an event behind the gap")
        deeds = [deed["what"] for deed in ask(f"{near.url}/v1/audit").json["deeds"]]
        assert [what for what in deeds if what in ("link skip", "link resume")] == ["link resume", "link skip"]
    finally:
        near.stop()
        far.stop()


def subscribe_at(url: str) -> None:
    """Subscribe, and wait until the neighbours have the table: one that lacks it forwards every event."""
    subscriptions = f"{url}/v1/subscriptions"
    assert ask(subscriptions, "POST", {"id": "all", "filter": "n >= 0"}).status == 201
    wait_until(lambda: ask(f"{subscriptions}/all").json["state"] == "active", "the subscription")


def with_gap(url: str) -> list[dict[str, Any]]:
    """Return what the subscription got; nothing as long as it was not told of a gap."""
    messages: list[dict[str, Any]] = ask(f"{url}/v1/subscriptions/all/log?limit=1000").json["messages"]
    return messages if any("gap" in message for message in messages) else []


def near_publishes(url: str, n: int) -> int:
    return ask(f"{url}/v1/events", "POST", {"n": n}).status


def publish_until_refused(url: str) -> list[int]:
    accepted: list[int] = []
    for n in range(500):
        answer = ask(f"{url}/v1/events", "POST", {"n": n})
        if answer.status == 503:
            assert "wait for the way to 'b'" in answer.json["error"]
            return accepted
        assert answer.status == 200
        accepted.append(n)
    raise AssertionError("nothing was refused")


def refused_client(url: str) -> None:
    with tamis.connect(url) as client, pytest.raises(RefusedError, match="publish it again later"):
        client.publish({"n": 1_000})


async def read(url: str, count: int) -> list[int]:
    """Read what the subscription got, in order, from its log."""
    for _ in range(600):
        log = ask(f"{url}/v1/subscriptions/all/log?limit=1000").json
        numbers = [message["event"]["n"] for message in log["messages"]]
        if len(numbers) >= count:
            return numbers
        await asyncio.sleep(0.1)
    raise AssertionError(f"{len(numbers)} of {count} came")


def publish_again(url: str) -> None:
    """The link is free again by itself."""
    wait_until(lambda: near_publishes(url, 2_000) != 503, "a link that is free again")
