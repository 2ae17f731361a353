"""Attack: a member names thousands of peers that do not exist. Each name is a connection to make, and a queue."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tamis.overlay import messages as m
from tamis.overlay.seat import Shape
from tamis.runtime.peer.greeting import Identity
from tamis.runtime.peer.receivers import MAX_ALL_BYTES, MAX_BYTES, MAX_RECEIVERS, Dialler, Receivers
from tamis.runtime.peer.reports import PER_PERIOD, Reports
from tests.attacks.peers import SCHEMA, Attacker, assert_serves, peer_program
from tests.server.processes import wait_until

BOX = bytes(16) + b"\x00\x00\x00\x00\x00\x00\xf0?" * 2
MIB = 1024 * 1024


def flood(port: int, to: str, count: int) -> None:
    with Attacker(port) as attacker:
        attacker.greet(to)
        for number in range(count):
            seat = f"127.{number % 251}.{number // 251 % 251}.7:9/{number}"
            attacker.frame(m.encode(m.Ping(f"{to}/0", seat, 0, seat, 0, BOX, 0, 0)))


def test_names_that_do_not_exist(tmp_path: Path) -> None:
    with peer_program(tmp_path, "--subscribe", "mag >= 5") as target:
        flood(target.port, target.name, 300)
        before = target.memory()
        flood(target.port, target.name, 20_000)
        target.wait_for(f"there are {MAX_RECEIVERS} receivers already")
        assert target.descriptors() < 2 * MAX_RECEIVERS
        assert target.memory() - before < 64 * MIB
        wait_until(lambda: target.descriptors() < 32, "connections to names that do not exist to go")
        assert_serves(target)
        assert target.log().count("\n") < 3 * PER_PERIOD


def test_children_that_do_not_exist(tmp_path: Path) -> None:
    with peer_program(tmp_path, "--subscribe", "mag >= 5") as target:
        with Attacker(target.port) as attacker:
            attacker.greet(target.name)
            before = target.memory()
            for number in range(3_000):
                seat = f"127.0.{number // 250}.{number % 250}:9/{number}"
                attacker.frame(m.encode(m.Insert(f"{target.name}/0", seat, 0, seat, 0, BOX)))
        assert_serves(target)
        assert target.memory() - before < 64 * MIB


async def many_receivers() -> tuple[int, int, int, int]:
    notices: list[str] = []
    identity = Identity("127.0.0.1:9", SCHEMA, Shape())
    receivers = Receivers(Dialler(identity, None), Reports(notices.append), 1.0)
    for number in range(2 * MAX_RECEIVERS):
        receivers.put(f"127.0.0.1:{number + 1}", b"x")
    names = len(receivers)
    before = receivers.dropped
    for _ in range(MAX_BYTES // MIB + 5):
        receivers.put("127.0.0.1:1", bytes(MIB))
    for number in range(MAX_ALL_BYTES // MIB + 5):
        receivers.put(f"127.0.0.1:{number % 200 + 2}", bytes(MIB))
    dropped = receivers.dropped - before
    await receivers.stop()
    return names, before, dropped, len(receivers)


def test_queues_are_bounded_in_number_and_bytes() -> None:
    names, too_many, over_bytes, left = asyncio.run(many_receivers())
    assert (names, too_many, left) == (MAX_RECEIVERS, MAX_RECEIVERS, 0)
    kept = MAX_ALL_BYTES // MIB - 1  # one byte waits for each of the others
    assert over_bytes == (MAX_BYTES // MIB + 5) + (MAX_ALL_BYTES // MIB + 5) - kept
