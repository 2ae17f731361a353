"""The contents of one WebSocket message: frames one after the other, each with its length in front.

A frame whose ``seq`` is 0 carries no numbered message. With a body it is a *word*: a `Status` or a `Refusal`, sent
once and not queued.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence

from tamis.errors import ModelError, RemoteProtocolError
from tamis.routing.edge.limits import MAX_PACKET, MAX_PACKET_OF_BROKER

__all__ = [
    "MAX_PACKET",
    "MAX_PACKET_OF_BROKER",
    "SUBPROTOCOL",
    "SUBPROTOCOLS_OF_BROKERS",
    "TABLE_PARTS",
    "check_version",
    "join_frames",
    "split_frames",
]

#: The name of this protocol in the WebSocket handshake.
SUBPROTOCOL = "tamis.v1"

#: The same protocol between brokers that take tables in parts; and what brokers offer each other, the preferred first.
TABLE_PARTS = "tamis.v1.parts"
SUBPROTOCOLS_OF_BROKERS = (TABLE_PARTS, SUBPROTOCOL)

_LENGTH = struct.Struct(">I")


def check_version(offered: Sequence[str]) -> None:
    """Raise `ModelError` when an end offers versions of the protocol and this one is not among them.

    >>> check_version(["tamis.v1", "tamis.v2"]), check_version([])
    (None, None)
    """
    if offered and SUBPROTOCOL not in offered:
        names = ", ".join(offered)[:60]
        raise ModelError(f"this broker speaks {SUBPROTOCOL}, the other end {names}: upgrade the older of the two")


def join_frames(frames: Iterable[bytes]) -> bytes:
    """Return frames as one packet."""
    return b"".join(part for frame in frames for part in (_LENGTH.pack(len(frame)), frame))


def split_frames(packet: bytes, link: str, most: int | None = None) -> Iterator[bytes]:
    """Yield the frames of a packet; raise `RemoteProtocolError` for other bytes, and for more than ``most`` frames.

    >>> list(split_frames(join_frames([b"one", b"two"]), "east"))
    [b'one', b'two']
    """
    offset = count = 0
    while offset < len(packet):
        count += 1
        if most is not None and count > most:
            raise RemoteProtocolError(link, f"a packet has more than {most:,} frames")
        start = offset + _LENGTH.size
        if start > len(packet):
            raise RemoteProtocolError(link, "a packet ends within a length")
        offset = start + _LENGTH.unpack_from(packet, offset)[0]
        if offset > len(packet):
            raise RemoteProtocolError(link, "a packet ends within a frame")
        yield packet[start:offset]
