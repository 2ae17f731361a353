"""Random frames that know the format: depth, lengths, types and text are wrong where a parser looks at them.

The values are well-formed MessagePack most of the time, so that they get past the first byte: nested lists and maps,
maps as keys, text that is not UTF-8, fields too many and too few, lengths beyond the end. Frames, messages, events and
filters are made of them. A frame is decoded, and its message is given to the edge of a broker as a client's: only
`RemoteProtocolError` may come out, which ends the connection of that client.
"""

from __future__ import annotations

import contextlib
import random
import struct
import sys

from tamis.errors import RemoteProtocolError, TamisError
from tamis.node.content import Content
from tamis.node.effects import Tell
from tamis.node.frames import Frame, decode_frame, encode_frame
from tamis.node.stream import StreamEnd
from tamis.routing import messages as m
from tamis.routing.core.broker import BrokerCore
from tamis.routing.edge.admission import read_raw
from tamis.routing.edge.core import EdgeCore
from tamis.routing.edge.requests import Connect
from tamis.routing.edge.rights import Rights
from tests.fuzz.harness import Area, main

SCALARS = [b"\xc0", b"\xc2", b"\x00", b"\x01", b"\xff", b"\xcb" + struct.pack(">d", float("nan")), b"\xa1x", b"\xa0"]
BAD_TEXT = [b"\xa1\xff", b"\xa3\xed\xa0\x80", b"\xd9\x02\xc0\x80"]
HUGE = [
    b"\xdd\xff\xff\xff\xff",
    b"\xdf\x7f\xff\xff\xff",
    b"\xdb\xff\xff\xff\xff",
    b"\xc6\xff\xff\xff\xff",
    b"\xc9" + b"\xff" * 5,
]
NUMBERS = [b"\xcf" + b"\xff" * 8, b"\xd3\x80" + bytes(7), b"\xc7\x0c\xff" + b"\xff" * 12, b"\xd4\x05\x00", b"\xc1"]
FILTERS = [
    b'"\xff"',
    b"[" * 5_000,
    rb'{"op":"\ud800","args":[]}',
    b'{"op":"and","args":[' * 300,
    b"1e999",
    b"9" * 5_000,
]


def value(rng: random.Random, levels: int = 3) -> bytes:
    """Return one value as MessagePack, or something that only begins like one."""
    choice = rng.random()
    if choice < 0.05:
        return b"\x91" * rng.choice([40, 600, 5_000]) + b"\xc0"
    if choice < 0.10:
        return b"\x81\xa1a" * rng.choice([40, 600, 5_000]) + b"\xc0"
    if choice < 0.45 and levels:
        n = rng.randrange(4)
        if rng.random() < 0.5:
            return bytes((0x90 + n,)) + b"".join(value(rng, levels - 1) for _ in range(n))
        return bytes((0x80 + n,)) + b"".join(value(rng, levels - 1) for _ in range(2 * n))
    return rng.choice(rng.choice([SCALARS, SCALARS, BAD_TEXT, HUGE, NUMBERS]))


def binary(data: bytes) -> bytes:
    return b"\xc6" + struct.pack(">I", len(data)) + data


def fields(rng: random.Random, *good: bytes) -> bytes:
    """Return an array of these fields, some of them replaced, left out or followed by others."""
    some = [value(rng) if rng.random() < 0.03 else field for field in good]
    if rng.random() < 0.03:
        some = some[: rng.randrange(len(some))]
    some += [value(rng) for _ in range(rng.choice([0] * 12 + [1, 2]))]
    return bytes((0x90 + len(some),)) + b"".join(some)


def message(rng: random.Random) -> bytes:
    """Return the body of a frame: a subscription, an end of one, events, or words that only brokers use."""
    payload = b"\x82\xa1a\x01\xa1b" + value(rng) if rng.random() < 0.8 else value(rng)
    event = fields(rng, fields(rng, b"\xa1p", b"\x01", b"\x01"), b"\xa7default", binary(payload))
    subscription = rng.choice(FILTERS) if rng.random() < 0.7 else b'{"op":"=","args":[{"property":"a"},1]}'
    about = rng.choice([b"", b"{}", b'{"text":"\xff"}', rb'{"text":"\ud800"}', b'{"metadata":' + b"[" * 5_000])
    kinds = [
        fields(rng, b"\x01", b"\xa1s", binary(subscription), b"\xa7default", b"\xc0", binary(about)),
        fields(rng, b"\x02", b"\xa1s"),
        fields(rng, b"\x03", event),
        fields(rng, b"\x04", b"\x92" + event + event),
        fields(rng, b"\x08", b"\x01", b"\x90", b"\x90", b"\xc3"),
    ]
    if rng.random() < 0.05:
        return b"\x01" + value(rng)
    return rng.choice([b"\x01"] * 30 + [b"\x02"]) + rng.choice(kinds)


def frame(rng: random.Random, epoch: int, number: int) -> bytes:
    """Return a frame that is addressed correctly most of the time, so that its message is read."""
    body = message(rng)
    if rng.random() < 0.9:
        return encode_frame(Frame(1, epoch, number, 0, body))
    count = b"\xcf" + struct.pack(">Q", epoch)
    return b"\x01" + fields(rng, b"\x01", count, bytes((number % 128,)), b"\x00", binary(body))


def new_edge() -> EdgeCore:
    """Return the edge of a broker with one client."""
    content, ends = Content(), {"c": StreamEnd("c", 1)}
    edge = EdgeCore(BrokerCore("here", {}, content), content, ends)
    edge.handle(Connect(Rights("alice")), sender="c", now=0.0)
    return edge


_edges: list[EdgeCore] = []

#: Messages that one edge takes: what it remembers does not slow down the next million.
MESSAGES_OF_EDGE = 2_000


def treat(data: tuple[bytes, bytes]) -> str:
    """Give a frame to a broker as a client's."""
    if not _edges or _edges[0].traffic.events > MESSAGES_OF_EDGE:
        _edges[:] = [new_edge()]
    raw, payload = data
    with contextlib.suppress(TamisError):
        read_raw(payload)
    try:
        message = m.decode(decode_frame(raw, "c").body, "c")
    except RemoteProtocolError:
        return "no frame"
    try:
        effects = _edges[0].handle(message, sender="c", now=0.0)
    except RemoteProtocolError:
        return "ends the connection"
    refused = any(isinstance(effect, Tell) and isinstance(effect.message, m.Refusal) for effect in effects)
    return f"{type(message).__name__} {'refused' if refused else 'taken'}"


AREA = Area("frames", lambda rng: (frame(rng, 5, rng.randrange(1, 100)), value(rng)), treat)

if __name__ == "__main__":
    sys.exit(main(AREA))
