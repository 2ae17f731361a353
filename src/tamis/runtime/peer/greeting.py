"""What two peers say before the first message, as bytes, and how they compare it; no sockets here.

Each sends a `Hello`: the versions of the protocol that it speaks, its name, the name of the peer it means, digests of
what peers must agree on, and 32 random bytes. Then each sends a `Proof`: an HMAC with the shared token over both
greetings, which names its sender's part, so that it can be neither repeated nor sent back. The token itself is never
sent. The greeting names the peer that was dialled: a proof that one peer gets is useless at another.

A disagreement is found by both ends from the same two greetings, and each reports it in words of its own.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import msgspec

from tamis import __version__
from tamis.errors import RemoteProtocolError
from tamis.model.schema import Schema
from tamis.overlay.messages import VERSION
from tamis.overlay.seat import Shape
from tamis.runtime.peer.address import MAX_NAME

__all__ = [
    "MAX_GREETING",
    "MAX_SCHEMA",
    "Attributes",
    "Hello",
    "Identity",
    "PeerRefusal",
    "Proof",
    "Role",
    "read",
    "write",
]

#: Bytes of a greeting or a proof, and of a schema, which is sent only when two peers have different ones.
MAX_GREETING, MAX_SCHEMA = 4096, 1024 * 1024

Role = Literal["dialler", "listener"]

_Name = Annotated[str, msgspec.Meta(max_length=MAX_NAME)]
_Digest = Annotated[bytes, msgspec.Meta(min_length=32, max_length=32)]
_Version = Annotated[int, msgspec.Meta(ge=0, le=255)]


class Hello(msgspec.Struct, frozen=True, array_like=True, tag="tamis-peer"):
    """The first frame of either side. Later versions may add fields, and must keep these."""

    #: The oldest and the newest protocol that the sender speaks.
    oldest: _Version
    newest: _Version
    product: Annotated[str, msgspec.Meta(max_length=40)]
    #: The sender, and the peer that it wants to reach.
    name: _Name
    to: _Name
    has_token: bool
    schema: _Digest
    shape: Annotated[str, msgspec.Meta(max_length=80)]
    nonce: _Digest


class Proof(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="proof"):
    """That the sender has the token; empty where there is none."""

    mac: Annotated[bytes, msgspec.Meta(max_length=32)]


class Attributes(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="schema"):
    """The sender's schema as JSON, so that the other end can name the difference."""

    schema: Annotated[bytes, msgspec.Meta(max_length=MAX_SCHEMA)]


class PeerRefusal(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="refusal"):
    """Why the sender closes the connection."""

    reason: Annotated[str, msgspec.Meta(max_length=1000)]


Word = Hello | Proof | Attributes | PeerRefusal
_decoder = msgspec.msgpack.Decoder(Word)
write = msgspec.msgpack.Encoder().encode


def read(data: bytes, link: str) -> Word:
    """Return the word that bytes mean; `RemoteProtocolError` when they mean none."""
    try:
        word: Word = _decoder.decode(data)
    except Exception as error:  # whatever the parser raises is the sender's doing
        raise RemoteProtocolError(link, f"expected the greeting of a tamis peer: {error}") from None
    return word


@dataclass(frozen=True)
class Identity:
    """One peer as others meet it: its name, its token ("" for none) and what it must share with them."""

    name: str
    schema: Schema
    shape: Shape
    token: str = field(default="", repr=False)

    def hello(self, to: str) -> Hello:
        """Return a greeting for the peer ``to``, with new random bytes."""
        shape = f"{self.shape.least} to {self.shape.most} children, split {self.shape.split}"
        if self.shape.choice != self.shape.usual_choice:  # a peer of an older release has no other
            shape += f", choice {self.shape.choice}"
        digest = hashlib.sha256(write(_description(self.schema.to_json()))).digest()
        version = __version__[:40]
        nonce = secrets.token_bytes(32)
        return Hello(VERSION, VERSION, version, self.name, to, bool(self.token), digest, shape, nonce)

    def proof(self, role: Role, dialler: bytes, listener: bytes) -> Proof:
        """Return what only a holder of the token can say about the bytes of two greetings in this role."""
        if not self.token:
            return Proof(b"")
        digests = (hashlib.sha256(hello).digest() for hello in (dialler, listener))
        return Proof(hmac.digest(self.token.encode(), b"tamis peer " + role.encode() + b"".join(digests), "sha256"))

    def check_greeting(self, theirs: Hello) -> None:
        """Raise `RemoteProtocolError` when a peer speaks another protocol, means another peer, or has no token."""
        if theirs.newest < VERSION or theirs.oldest > VERSION:
            versions = f"{theirs.oldest} to {theirs.newest}"
            problem = f"it speaks versions {versions} of the protocol (tamis {theirs.product}), this peer {VERSION}"
            raise RemoteProtocolError(theirs.name, f"{problem}: install the same tamis on both")
        if theirs.to != self.name:
            raise RemoteProtocolError(
                theirs.name, f"it wants to reach {theirs.to}, but this peer is called {self.name}: use that address"
            )
        if theirs.has_token != bool(self.token):
            who, other = ("it", "this peer") if theirs.has_token else ("this peer", "it")
            raise RemoteProtocolError(theirs.name, f"{who} demands a token and {other} has none: give both the same")

    def check_proof(self, theirs: Hello, proof: Proof, expected: Proof) -> None:
        """Raise `RemoteProtocolError` unless a proof is the expected one."""
        if not hmac.compare_digest(proof.mac, expected.mac):
            raise RemoteProtocolError(theirs.name, "the two peers have different tokens: give both the same")

    def check_shape(self, theirs: Hello, mine: Hello) -> None:
        """Raise `RemoteProtocolError` when a peer builds its part of the tree by other rules."""
        if theirs.shape != mine.shape:
            raise RemoteProtocolError(theirs.name, f"its nodes have {theirs.shape}, those of this peer {mine.shape}")

    def explain_schema(self, theirs: Hello, attributes: Attributes) -> RemoteProtocolError:
        """Return the error that says how the schema of another peer differs from the own one."""
        try:
            other = _description(attributes.schema)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, KeyError):
            return RemoteProtocolError(theirs.name, "its schema is another one, and cannot be read")
        difference = _difference(_description(self.schema.to_json()), other)
        return RemoteProtocolError(
            theirs.name, f"its schema is another one: {difference}. All peers need the same schema"
        )


def _description(schema: str | bytes) -> dict[str, dict[str, Any]]:
    """Return the attributes of a schema in JSON, in their order; equal numbers are written equally.

    >>> _description('{"attributes": {"mag": {"type": "number", "lo": 0}}}')
    {'mag': {'type': 'number', 'lo': 0.0}}
    """
    attributes = msgspec.json.decode(schema, type=dict[str, dict[str, dict[str, Any]]])["attributes"]
    return {
        name: {key: float(value) if type(value) is int else value for key, value in description.items()}
        for name, description in attributes.items()
    }


def _difference(mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> str:
    """Return the first difference of two schemas, as ``{attribute: description}`` each.

    >>> _difference({"mag": {"type": "number"}}, {"mag": {"type": "string"}})
    "attribute 'mag' is string there and number here"
    """
    for name in mine:
        if name not in theirs:
            return f"attribute {name!r} is missing there"
        if mine[name] != theirs[name]:
            return f"attribute {name!r} is {_words(theirs[name])} there and {_words(mine[name])} here"
    for name in theirs:
        if name not in mine:
            return f"attribute {name[:80]!r} is missing here"
    return f"the attributes stand in another order, {', '.join(theirs)[:200]} there and {', '.join(mine)[:200]} here"


def _words(description: Mapping[str, Any]) -> str:
    details = [
        f"{key} {value!r}".removesuffix(".0") if isinstance(value, float) else f"{key} {value}"
        for key, value in description.items()
        if key != "type"
    ]
    return " ".join([str(description.get("type", "of no type")), *details])[:80]
