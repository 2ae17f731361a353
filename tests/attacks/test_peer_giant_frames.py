"""Attack: frames that are longer than any message, before and after the greeting; and rubbish of a member."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from tamis.overlay import messages as m
from tests.attacks.peers import TOKEN, Attacker, PeerProgram, assert_serves, peer_program

MIB = 1024 * 1024


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PeerProgram]:
    with peer_program(tmp_path_factory.mktemp("peer"), "--subscribe", "mag >= 5", token=TOKEN) as program:
        yield program


def test_a_stranger_cannot_make_a_peer_hold_a_large_greeting(target: PeerProgram) -> None:
    before = target.memory()
    attackers = [Attacker(target.port) for _ in range(60)]
    for attacker in attackers:
        attacker.socket.sendall((16 * MIB).to_bytes(4, "big"))
    assert all(attacker.is_closed() for attacker in attackers)
    target.wait_for("a frame of 16,777,216 bytes is more than the 4,096 accepted")
    assert target.memory() - before < 32 * MIB
    assert_serves(target, TOKEN)


def test_a_member_cannot_send_a_giant_frame(target: PeerProgram) -> None:
    with Attacker(target.port) as attacker:
        attacker.greet(target.name, token=TOKEN)
        attacker.socket.sendall((64 * MIB).to_bytes(4, "big") + bytes(MIB))
        assert attacker.is_closed()
    target.wait_for("a frame of 67,108,864 bytes is more than the 2,097,152 accepted")
    assert_serves(target, TOKEN)


def hostile_messages(to: str) -> list[bytes]:
    rng = random.Random(7)
    seat = f"{to}/0"
    box = bytes(32)
    many = tuple(f"127.0.0.1:{port}/0" for port in range(1, 101))
    node = m.NodeState(many, box * len(many), (0,) * len(many), (0,) * len(many), ())
    good: list[m.SeatMessage] = [
        m.Ping(seat, seat, 0, seat, 2**62, box, 2**62, 2**62),
        m.MbrReport(seat, "127.0.0.1:9/0", 0, 2**62, b"x", 0, 0),
        m.TakeOver(seat, "127.0.0.1:9/0", 0, seat, 1, (node,) * 3, None, False, b"", 0, 0),
        m.Forward(seat, "", 0, m.PeerEvent(m.EventId("x", 1, 1), "default", b"\x91" * 5000, 1), 1, 0, True, "", ""),
        m.TakeOver(seat, "127.0.0.1:9/0", 0, seat, 1, (node,) * 17, None, False, b"", 0, 0),
        m.Grown(seat, seat, 0, 2**62),
    ]
    frames = [m.encode(message) for message in good]
    flipped = [bytes(byte ^ (rng.random() < 0.05) for byte in frame[:400]) for frame in frames for _ in range(12)]
    return [*frames, *flipped, b"", b"\x01", b"\x01" + b"\x91" * 100_000, b"\x02rubbish", bytes(100_000)]


def test_rubbish_of_a_member_stops_nothing(target: PeerProgram) -> None:
    for frame in hostile_messages(target.name):
        with Attacker(target.port) as attacker:
            attacker.greet(target.name, token=TOKEN)
            attacker.frame(frame)
    assert_serves(target, TOKEN)
