"""The frame: the unit that one end of a link sends to the other, as bytes that begin with a version.

A frame names two lives: ``epoch`` is the sender's, ``to`` the life of the receiver that the sender knows (0: none
yet). A stream of messages belongs to one pair of lives, so frames of a former life are never mistaken for new ones.
"""

from __future__ import annotations

import re

import msgspec

from tamis.errors import RemoteProtocolError
from tamis.node.vocabulary import Count

__all__ = ["VERSION", "Frame", "decode_frame", "encode_frame"]

#: The first byte of every frame. A receiver of another version refuses the frame with an error.
VERSION = 1


class Frame(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """``seq`` numbers the messages of a stream from 1 (0: no message); ``ack`` is the last one received in order."""

    epoch: Count
    to: Count
    seq: Count
    ack: Count
    body: bytes = b""


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Frame)
#: How the parser names a field of an array.
_FIELD = re.compile(r"`\$\[([0-4])\]`")


def encode_frame(frame: Frame) -> bytes:
    """Return the bytes of a frame."""
    return bytes((VERSION,)) + _encoder.encode(frame)


def decode_frame(data: bytes, link: str) -> Frame:
    """Return a frame that came over ``link``; raise `RemoteProtocolError` for other bytes.

    >>> decode_frame(encode_frame(Frame(1, 2, 3, 4, b"x")), "east")
    Frame(epoch=1, to=2, seq=3, ack=4, body=b'x')
    >>> decode_frame(encode_frame(Frame(-1, 2, 3, 4)), "east")
    Traceback (most recent call last):
        ...
    tamis.errors.RemoteProtocolError: link 'east': not a frame: Expected `int` >= 0 - at `epoch`
    """
    if not data or data[0] != VERSION:
        problem = f"expected a frame of version {VERSION}, got {data[:8]!r}"
        raise RemoteProtocolError(
            link, f"{problem}; if the other end is another release of tamis, upgrade the older one"
        )
    try:
        return _decoder.decode(memoryview(data)[1:])
    except Exception as error:  # whatever the parser raises, the sender is at fault
        raise RemoteProtocolError(link, f"not a frame: {_with_names(str(error))}") from None


def _with_names(problem: str) -> str:
    """Return a message of the parser with the names of fields in place of their numbers."""
    return _FIELD.sub(lambda match: f"`{Frame.__struct_fields__[int(match[1])]}`", problem)
