"""Attack: a stranger joins a network of peers, or speaks to one, without the token or before it has proved it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from tamis.errors import ModelError
from tamis.overlay import messages as m
from tamis.overlay.seat import Shape
from tamis.runtime.peer.greeting import Hello, Identity, PeerRefusal, Proof, read, write
from tests.attacks.peers import SCHEMA, TOKEN, Attacker, PeerProgram, assert_serves, joining, peer_program, started
from tests.server.processes import HANGS

OTHER = "f" * 64


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PeerProgram]:
    with peer_program(tmp_path_factory.mktemp("peer"), "--subscribe", "mag >= 5", token=TOKEN) as program:
        yield program


def test_a_message_before_the_greeting_is_not_read(target: PeerProgram) -> None:
    attacker = Attacker(target.port)
    insert = m.Insert(f"{target.name}/0", "127.0.0.1:9/0", 0, "127.0.0.1:9/0", 0, b"")
    attacker.frame(msgspec.msgpack.encode(("127.0.0.1:9", m.encode(insert))))
    assert isinstance(attacker.word(), PeerRefusal)
    assert attacker.is_closed()
    target.wait_for("expected the greeting of a tamis peer")
    assert_serves(target, TOKEN)


def test_a_wrong_token_is_refused_and_both_say_so(target: PeerProgram) -> None:
    async def story() -> None:
        async with started(joining(target.name, OTHER)) as peer:
            with pytest.raises(ModelError, match="different tokens"):
                await peer.finds_contact()

    asyncio.run(asyncio.wait_for(story(), HANGS))
    target.wait_for("different tokens")
    assert_serves(target, TOKEN)


def test_no_token_is_refused_and_both_say_so(target: PeerProgram) -> None:
    async def story() -> None:
        async with started(joining(target.name)) as peer:
            with pytest.raises(ModelError, match="it demands a token and this peer has none"):
                await peer.finds_contact()

    asyncio.run(asyncio.wait_for(story(), HANGS))
    target.wait_for("this peer demands a token and it has none")


def greeting(target: PeerProgram, name: str = "127.0.0.1:9") -> Hello:
    return Identity(name, SCHEMA, Shape(), OTHER).hello(target.name)


def test_a_proof_cannot_be_reflected_or_repeated(target: PeerProgram) -> None:
    honest = Identity("127.0.0.1:9", SCHEMA, Shape(), TOKEN)
    hello = write(honest.hello(target.name))
    with Attacker(target.port) as first:
        first.frame(hello)
        proof = write(honest.proof("dialler", hello, first.read()))
        first.frame(proof)
        reply = first.read()
    assert isinstance(read(reply, "peer"), Proof)
    for recorded in (proof, reply, write(Proof(b"")), write(Proof(bytes(32)))):
        again = Attacker(target.port)
        again.frame(hello)
        assert isinstance(again.word(), Hello)
        again.frame(recorded)
        assert isinstance(again.word(), PeerRefusal)
        assert again.is_closed()


def test_a_proof_for_another_peer_is_none_here(target: PeerProgram) -> None:
    attacker = Attacker(target.port)
    attacker.frame(write(msgspec.structs.replace(greeting(target), to="127.0.0.1:1")))
    assert isinstance(attacker.word(), Hello)
    assert attacker.is_closed()
    target.wait_for("it wants to reach 127.0.0.1:1")


BAD_GREETINGS = {
    "nothing": b"",
    "rubbish": b"\xc1" * 50,
    "nested arrays": b"\x91" * 4000,
    "HTTP": b"GET / HTTP/1.1\r\n\r\n",
    "a name that is not an address": write(Identity("../../x", SCHEMA, Shape(), OTHER).hello("x")),
    "a name with a new line": write(Identity("a\nb:1", SCHEMA, Shape(), OTHER).hello("x")),
    "a proof first": write(Proof(bytes(32))),
}


@pytest.mark.parametrize("name", BAD_GREETINGS)
def test_what_is_not_a_greeting_ends_the_connection(target: PeerProgram, name: str) -> None:
    attacker = Attacker(target.port)
    attacker.frame(BAD_GREETINGS[name])
    word = attacker.word()
    assert word is None or isinstance(word, PeerRefusal)
    assert attacker.is_closed()
    assert_serves(target, TOKEN)


def test_the_token_is_in_no_output_and_no_repr(target: PeerProgram) -> None:
    assert TOKEN not in target.log()
    assert TOKEN not in repr(Identity("a:1", SCHEMA, Shape(), TOKEN))


def test_a_short_token_is_refused(tmp_path: Path) -> None:
    program = PeerProgram(tmp_path, token="secret")
    assert program.process.wait(HANGS) == 2
    assert "at least 32 characters" in program.log()
