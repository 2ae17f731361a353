"""Attack, or a slip: peers with another schema, another shape or another version join. Both sides say what differs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import msgspec
import pytest

from tamis import Number, Schema, String
from tamis.errors import ModelError
from tamis.overlay.seat import Shape
from tamis.runtime.peer.greeting import Attributes, Hello, Identity, Proof, write
from tests.attacks.peers import SCHEMA, TOKEN, Attacker, PeerProgram, assert_serves, joining, peer_program, started
from tests.server.processes import HANGS

MAG, DEPTH = Number(0, 10), Number(0, 700)


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PeerProgram]:
    with peer_program(tmp_path_factory.mktemp("peer"), "--subscribe", "mag >= 5", token=TOKEN) as program:
        yield program


#: The schema of a peer that joins, what it is told, and what the peer that it joins prints.
DIFFERENT = {
    "an attribute is missing": (
        Schema({"mag": MAG}),
        "attribute 'depth' is missing here",
        "attribute 'depth' is missing there",
    ),
    "an attribute more": (
        Schema({"mag": MAG, "depth": DEPTH, "place": String()}),
        "attribute 'place' is missing there",
        "attribute 'place' is missing here",
    ),
    "another type": (
        Schema({"mag": String(), "depth": DEPTH}),
        "attribute 'mag' is number lo 0 hi 10 there and string here",
        "attribute 'mag' is string there and number lo 0 hi 10 here",
    ),
    "another domain": (
        Schema({"mag": Number(0, 9.5), "depth": DEPTH}),
        "attribute 'mag' is number lo 0 hi 10 there and number lo 0 hi 9.5 here",
        "attribute 'mag' is number lo 0 hi 9.5 there and number lo 0 hi 10 here",
    ),
    "another order": (
        Schema({"depth": DEPTH, "mag": MAG}),
        "another order, mag, depth there and depth, mag here",
        "another order, depth, mag there and mag, depth here",
    ),
}


def refusal(target: PeerProgram, **options: object) -> str:
    async def story() -> str:
        async with started(joining(target.name, TOKEN, **options)) as peer:
            with pytest.raises(ModelError) as error:
                await peer.finds_contact()
            return str(error.value)

    return asyncio.run(asyncio.wait_for(story(), HANGS))


@pytest.mark.parametrize("name", DIFFERENT)
def test_both_name_the_difference(target: PeerProgram, name: str) -> None:
    schema, here, of_target = DIFFERENT[name]
    assert here in refusal(target, schema=schema)
    target.wait_for(of_target)


def test_equal_numbers_are_the_same_schema(target: PeerProgram) -> None:
    async def story() -> None:
        schema = Schema({"mag": Number(0.0, 10.0), "depth": Number(0.0, 700)})
        async with started(joining(target.name, TOKEN, schema=schema)) as peer:
            assert await peer.finds_contact()

    asyncio.run(asyncio.wait_for(story(), HANGS))


def test_another_shape_is_named(target: PeerProgram) -> None:
    assert "its nodes have 5 to 10 children, split quadratic" in refusal(target, shape=Shape(2, 4))
    apart = refusal(target, shape=Shape(choice="r*"))
    assert "those of this peer 5 to 10 children, split quadratic, choice r*" in apart
    target.wait_for("its nodes have 2 to 4 children, split quadratic")


def test_another_version_is_named(target: PeerProgram) -> None:
    identity = Identity("127.0.0.1:9", SCHEMA, Shape(), TOKEN)
    with Attacker(target.port) as attacker:
        hello = msgspec.structs.replace(identity.hello(target.name), oldest=7, newest=9, product="9.9")
        attacker.frame(write(hello))
        theirs = attacker.word()
        assert isinstance(theirs, Hello)
        assert attacker.is_closed()
    target.wait_for("it speaks versions 7 to 9 of the protocol (tamis 9.9), this peer 1")
    with pytest.raises(Exception, match="it speaks versions 7 to 9"):
        identity.check_greeting(msgspec.structs.replace(hello, to=identity.name))


def test_a_later_version_may_greet_with_more_fields(target: PeerProgram) -> None:
    identity = Identity("127.0.0.1:9", SCHEMA, Shape(), TOKEN)
    fields = msgspec.msgpack.decode(write(identity.hello(target.name)))
    hello = msgspec.msgpack.encode([*fields, "a field of a later version"])
    with Attacker(target.port) as attacker:
        attacker.frame(hello)
        attacker.frame(write(identity.proof("dialler", hello, attacker.read())))
        assert isinstance(attacker.word(), Proof)


HOSTILE = {
    "nothing": b"",
    "rubbish": b"\xff" * 100,
    "nested": b"[" * 100_000,
    "no attributes": b"{}",
    "a list": b'{"attributes": []}',
    "deep": b'{"attributes": {"x": {"type": ' + b"[" * 5000 + b"]" * 5000 + b"}}}",
    "long names": b'{"attributes": {"' + b"x" * 500_000 + b'": {"type": "number"}}}',
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_schema_is_a_difference_like_any_other(target: PeerProgram, name: str) -> None:
    identity = Identity("127.0.0.1:9", Schema({"other": MAG}), Shape(), TOKEN)
    hello = write(identity.hello(target.name))
    with Attacker(target.port) as attacker:
        attacker.frame(hello)
        attacker.frame(write(identity.proof("dialler", hello, attacker.read())))
        assert isinstance(attacker.word(), Proof)
        assert isinstance(attacker.word(), Attributes)
        attacker.frame(write(Attributes(HOSTILE[name])))
        assert attacker.is_closed()
    assert max(map(len, target.log().splitlines())) < 1000
    assert_serves(target, TOKEN)
