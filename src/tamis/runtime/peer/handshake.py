"""Two peers greet each other over a connection; until both have agreed no message is read and none is sent."""

from __future__ import annotations

import asyncio
from typing import TypeVar

from tamis.errors import ModelError, RemoteProtocolError
from tamis.runtime.peer.address import Address
from tamis.runtime.peer.greeting import (
    MAX_GREETING,
    MAX_SCHEMA,
    Attributes,
    Hello,
    Identity,
    PeerRefusal,
    Proof,
    read,
    write,
)
from tamis.runtime.peer.wire import FramedConnection

__all__ = ["HANDSHAKE_SECONDS", "greet", "welcome"]

#: Seconds in which TLS and the greetings must be done.
HANDSHAKE_SECONDS = 10.0

W = TypeVar("W", Hello, Proof, Attributes)


async def greet(wire: FramedConnection, identity: Identity, to: str) -> None:
    """Greet the peer ``to``, which was dialled; `RemoteProtocolError` says why the two cannot talk."""
    mine = identity.hello(to)
    sent = write(mine)
    await wire.write(sent)
    received, theirs = await _next(wire, Hello, to)
    if theirs.name != to:
        raise RemoteProtocolError(to, f"the peer there is called {theirs.name}: use that address")
    identity.check_greeting(theirs)
    await wire.write(write(identity.proof("dialler", sent, received)))
    _, proof = await _next(wire, Proof, to)
    identity.check_proof(theirs, proof, identity.proof("listener", sent, received))
    await _compare(wire, identity, mine, theirs)


async def welcome(wire: FramedConnection, identity: Identity) -> str:
    """Greet a peer that has dialled, and return its name; `RemoteProtocolError` says why the two cannot talk."""
    try:
        received, theirs = await _next(wire, Hello, wire.origin)
        Address.parse(theirs.name)
    except (RemoteProtocolError, ModelError) as error:
        await wire.write(write(PeerRefusal("expected the greeting of a tamis peer")))
        raise RemoteProtocolError(wire.origin, str(getattr(error, "problem", error))) from None
    mine = identity.hello(theirs.name)
    sent = write(mine)
    await wire.write(sent)
    identity.check_greeting(theirs)
    _, proof = await _next(wire, Proof, theirs.name)
    try:
        identity.check_proof(theirs, proof, identity.proof("dialler", received, sent))
    except RemoteProtocolError as error:
        await wire.write(write(PeerRefusal(error.problem)))
        raise
    await wire.write(write(identity.proof("listener", received, sent)))
    await _compare(wire, identity, mine, theirs)
    return theirs.name


async def _compare(wire: FramedConnection, identity: Identity, mine: Hello, theirs: Hello) -> None:
    """Compare what peers must agree on, once each knows that the other has the token."""
    identity.check_shape(theirs, mine)
    if theirs.schema != mine.schema:
        await wire.write(write(Attributes(identity.schema.to_json().encode())))
        _, attributes = await _next(wire, Attributes, theirs.name, MAX_SCHEMA + 16)
        raise identity.explain_schema(theirs, attributes)


async def _next(wire: FramedConnection, kind: type[W], link: str, limit: int = MAX_GREETING) -> tuple[bytes, W]:
    """Return the next word, and its bytes; `RemoteProtocolError` when it is another one, or a refusal."""
    try:
        data = await wire.read(limit)
    except (asyncio.IncompleteReadError, ConnectionError):
        raise RemoteProtocolError(
            link, "it closed the connection during the greeting: do both peers use TLS, or none, and the same tamis?"
        ) from None
    word = read(data, link)
    if isinstance(word, PeerRefusal):
        raise RemoteProtocolError(link, f"it refuses: {word.reason}")
    if not isinstance(word, kind):
        raise RemoteProtocolError(link, f"expected {kind.__name__} in the greeting, got {type(word).__name__}")
    return data, word
