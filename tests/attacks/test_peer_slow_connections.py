"""Attack: connections that say nothing, or never finish what they say, so that no other peer finds room."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from tamis.runtime.peer import listener, receivers, wire
from tamis.runtime.peer.process import PeerProcess
from tests.attacks.peers import SCHEMA, TOKEN, Attacker, assert_serves, joining, peer_program, started, until
from tests.server.processes import HANGS, wait_until


def test_silent_strangers_do_not_keep_peers_out_and_are_cut(tmp_path: Path) -> None:
    with peer_program(tmp_path, "--subscribe", "mag >= 5", token=TOKEN) as target:
        strangers = [Attacker(target.port) for _ in range(2 * listener.MAX_GREETING)]
        for attacker in strangers[::2]:
            attacker.socket.sendall(b"\x00\x00")
        assert_serves(target, TOKEN)
        assert target.descriptors() < listener.MAX_GREETING + 32
        assert all(attacker.is_closed() for attacker in strangers)  # by the deadline of the greeting
        wait_until(lambda: target.descriptors() < 32, "the connections of strangers to go")


#: Which deadline ends a member that sends this and then nothing.
UNFINISHED = {"IDLE_SECONDS": b"\x00\x00", "FRAME_SECONDS": b"\x00\x00\x10\x00half"}


@pytest.mark.parametrize("deadline", UNFINISHED)
def test_a_member_that_never_finishes_is_cut(deadline: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with started(PeerProcess(SCHEMA)) as peer:
            attacker = await asyncio.to_thread(Attacker, int(peer.name.rpartition(":")[2]))
            await asyncio.to_thread(attacker.greet, peer.name)
            monkeypatch.setattr(wire, deadline, 0.2)
            attacker.socket.sendall(b"\x00\x00\x00\x01x" + UNFINISHED[deadline])
            assert await asyncio.to_thread(attacker.is_closed)
            async with started(joining(peer.name)) as other:
                assert await other.finds_contact()

    asyncio.run(asyncio.wait_for(story(), HANGS))


def test_idle_members_give_way_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "MAX_CONNECTIONS", 3)

    async def story() -> None:
        async with started(PeerProcess(SCHEMA)) as peer:
            port = int(peer.name.rpartition(":")[2])
            attackers = [await asyncio.to_thread(Attacker, port) for _ in range(4)]
            for attacker in attackers:
                await asyncio.to_thread(attacker.greet, peer.name)
            assert await asyncio.to_thread(attackers[0].is_closed)
            for attacker in attackers[1:]:
                attacker.socket.settimeout(0.1)
                with attacker, pytest.raises(TimeoutError):
                    attacker.socket.recv(1)

    asyncio.run(asyncio.wait_for(story(), HANGS))


def test_a_receiver_that_does_not_read_or_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receivers, "HANDSHAKE_SECONDS", 0.2)

    async def story() -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            name = f"127.0.0.1:{silent.getsockname()[1]}"
            async with started(joining(name)) as peer:
                assert not await peer.finds_contact()
                peer.publish({"mag": 1.0})
                await until(lambda: len(peer._running.receivers) == 1)
                await until(lambda: not peer._running.receivers._bytes)

    asyncio.run(asyncio.wait_for(story(), HANGS))
