"""Real peers on loopback: several in one loop, and several processes of the command line."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tamis import Number, Schema
from tamis.cli.main import app
from tamis.errors import LimitError, ModelError
from tamis.overlay.seat import Shape
from tamis.runtime.peer import process
from tamis.runtime.peer.address import address_of
from tamis.runtime.peer.process import PeerProcess
from tests.server.forks import ForkedProgram, pipe_program
from tests.server.processes import HANGS, ask, read_line

SCHEMA = Schema({"mag": Number(0, 10), "depth": Number(0, 700)})
PATIENT = HANGS


async def until(condition: object) -> None:
    """Wait for a condition; what never comes fails the test by its time limit."""
    assert callable(condition)
    while not condition():
        await asyncio.sleep(0.01)


async def peers_on_loopback() -> dict[str, list[tuple[float, tuple[object, ...]]]]:
    first = PeerProcess(SCHEMA, shape=Shape(2, 4), round_seconds=0.05)
    await first.start()
    peers = [first]
    for _ in range(8):
        peers.append(PeerProcess(SCHEMA, shape=Shape(2, 4), join=f"tcp://{first.name}", round_seconds=0.05))
        await peers[-1].start()
    got: dict[str, list[tuple[float, tuple[object, ...]]]] = {peer.name: [] for peer in peers}

    async def collect(peer: PeerProcess) -> None:
        async for event, ids in peer.deliveries():
            got[peer.name].append((event["mag"], ids))

    readers = [asyncio.create_task(collect(peer)) for peer in peers]
    for number, peer in enumerate(peers[1:], 1):  # the first has no subscription, and shows the way
        peer.subscribe(f"mag >= {number}", id="strong")
        peer.subscribe("depth > 600", id="deep")
    await until(lambda: all(peer.is_active("strong") and peer.is_active("deep") for peer in peers[1:]))
    for publisher, mag in ((0, 4.5), (3, 8.5), (8, 0.5)):
        peers[publisher].publish({"mag": mag, "depth": 10})
    await until(lambda: not any(peer.core.is_waiting for peer in peers))
    await until(lambda: sum(map(len, got.values())) >= 4 + 8)
    await peers[2].stop()  # a crash
    peers[5].publish({"mag": 9.5, "depth": 650})
    await until(lambda: not peers[5].core.is_waiting)
    await until(lambda: sum(map(len, got.values())) >= 4 + 8 + 7)
    for task in readers:
        task.cancel()
    for peer in peers:
        await peer.stop()
    return {str(number): got[peer.name] for number, peer in enumerate(peers)}


def test_peers_on_loopback_deliver_what_matches_also_after_a_crash() -> None:
    got = asyncio.run(asyncio.wait_for(peers_on_loopback(), PATIENT))
    for number in range(1, 9):
        want = [(mag, ("strong",)) for mag in (4.5, 8.5) if mag >= number]
        last = [] if number == 2 else [(9.5, ("deep", "strong"))]
        assert sorted(got[str(number)]) == want + last
    assert got["0"] == []


def start(schema: Path, *arguments: str) -> tuple[subprocess.Popen[bytes] | ForkedProgram, dict[str, Any]]:
    process = pipe_program(["peer", "--schema", str(schema), "--round-seconds", "0.1", *arguments])
    return process, json.loads(read_line(process))


def test_processes_find_one_another_and_show_what_they_count(tmp_path: Path) -> None:
    schema = tmp_path / "schema.json"
    schema.write_text(SCHEMA.to_json())
    first, greeting = start(schema, "--subscribe", "mag >= 5", "--metrics", "0")
    url, port = greeting["peer"], greeting["metrics"]
    others = [start(schema, "--join", url, "--subscribe", text)[0] for text in ("mag >= 2", "depth < 50")]
    try:
        publisher, _ = start(schema, "--join", url)
        others.append(publisher)
        assert publisher.stdin is not None
        # A join may still be under way, so events are published until all have one: none may come twice.
        seen: dict[int, set[float]] = {}
        for number, mag in enumerate((6.0, 7.0, 8.0)):
            publisher.stdin.write(json.dumps({"mag": mag, "depth": 10}).encode() + b"\n")
            row = json.loads(read_line(first))
            seen.setdefault(number, set()).add(row["event"]["mag"])
            assert row["subscriptions"] == [0]
        assert seen == {0: {6.0}, 1: {7.0}, 2: {8.0}}
        for other in others[:2]:
            assert json.loads(read_line(other))["event"]["mag"] in (6.0, 7.0, 8.0)
        text = ask(f"http://127.0.0.1:{port}/metrics").body.decode()
        name = url.removeprefix("tcp://")
        assert f'tamis_peer_deliveries_total{{peer="{name}"}} 3.0' in text
        assert f'tamis_peer_seats{{peer="{name}"}}' in text
        assert f'tamis_peer_published_total{{peer="{name}"}} 0.0' in text
    finally:
        for process in (first, *others):
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                assert pipe is not None
                pipe.close()


def test_an_address_is_checked() -> None:
    assert address_of("127.0.0.1:4000") == "127.0.0.1:4000"
    for wrong in ("4000", "localhost", "http://host/path", "host:99999", "tcp://:1"):
        with pytest.raises(ModelError):
            address_of(wrong)


WRONG = {
    "--join nonsense": "expected the address of a peer, such as tcp://127.0.0.1:4000, not 'nonsense'",
    "--schema absent.json": "absent.json: there is no such file",
    "--schema rubbish.json": "rubbish.json",
    "--schema good.json --subscribe mag>": "expected a value",
    "--schema good.json --subscribe size>1": "attribute 'size': unknown (known are mag, depth)",
    "--schema good.json --host 192.0.2.1": "other machines can reach 192.0.2.1: set --tls-certificate, --tls-key",
    "--schema good.json --host 127.0.0.1 --port 1 --token-file absent": "absent: no token can be read: No such file",
    "--schema good.json --port 4567 --join 127.0.0.1:4567": "a peer cannot join itself",
}


@pytest.mark.parametrize("arguments", WRONG)
def test_a_peer_says_what_is_wrong_before_it_listens(
    arguments: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("good.json").write_text(SCHEMA.to_json())
    Path("rubbish.json").write_text("{}")
    result = CliRunner().invoke(app, ["peer", "--seconds", "0", *arguments.split()])
    assert (result.exit_code, result.stdout) == (2, "")
    assert WRONG[arguments] in result.stderr


def test_a_port_that_is_taken_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ModelError, match=f"127.0.0.1:{port}: address already in use; give an address"):
            asyncio.run(PeerProcess(SCHEMA, port=port).start())


def test_deliveries_that_nothing_reads_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    notices: list[str] = []
    monkeypatch.setattr(process, "MAX_UNREAD", 10)

    async def story() -> tuple[int, int, int]:
        peer = PeerProcess(SCHEMA, report=notices.append)
        await peer.start()
        peer.subscribe("mag >= 5", id="mine")
        for _ in range(25):
            peer.publish({"mag": 6.0})
        kept = [await anext(peer.deliveries()) for _ in range(10)]
        peer.publish({"mag": 7.0})
        later, _ = await anext(peer.deliveries())
        await peer.stop()
        return len(kept), peer.missed, later["mag"]

    assert asyncio.run(asyncio.wait_for(story(), PATIENT)) == (10, 15, 7.0)
    assert notices == ["deliveries are dropped: 10 have not been read"]


def test_events_that_the_tree_does_not_take_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "MAX_HELD", 5)

    async def story() -> None:
        peer = PeerProcess(SCHEMA, join="127.0.0.1:1")
        await peer.start()
        for _ in range(5):
            peer.publish({"mag": 6.0})
        with pytest.raises(LimitError, match="6 is more than the 5 accepted"):
            peer.publish({"mag": 6.0})
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(peer.room(), 0.05)
        await peer.stop()

    asyncio.run(asyncio.wait_for(story(), PATIENT))


def test_a_line_that_is_not_an_event_is_named(tmp_path: Path) -> None:
    schema = tmp_path / "schema.json"
    schema.write_text(SCHEMA.to_json())
    lines = '{"mag": 1}\n{"mag": "strong"}\n'
    result = CliRunner().invoke(app, ["peer", "--schema", str(schema), "--seconds", "30"], input=lines)
    assert result.exit_code == 2
    assert "line 2 of the standard input: attribute 'mag': expected a number" in result.stderr


async def a_contact_comes_and_goes() -> list[bool]:
    first = PeerProcess(SCHEMA)
    await first.start()
    second = PeerProcess(SCHEMA, join=first.name)
    await second.start()
    contacts = [await first.finds_contact(), await second.finds_contact()]
    await first.stop()
    contacts.append(await second.finds_contact())
    await second.stop()
    return contacts


def test_a_peer_knows_whether_another_peer_is_there() -> None:
    assert asyncio.run(asyncio.wait_for(a_contact_comes_and_goes(), PATIENT)) == [True, True, False]
