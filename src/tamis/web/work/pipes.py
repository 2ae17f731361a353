"""The messages between a broker and its worker processes: JSON and byte strings, prefixed by their lengths.

Values are JSON text of the standard library, which writes whole numbers of any size. Nothing is pickled.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from typing import Any, BinaryIO

import msgspec

__all__ = ["HEADER", "WorkerAnswer", "WorkerQuestion", "frame", "read_from", "value_of"]

#: The length of a message.
HEADER = struct.Struct(">Q")


class WorkerQuestion(msgspec.Struct, frozen=True, array_like=True):
    """One job: its name, the CPU time it may take, its arguments as JSON text, and byte strings."""

    job: str
    cpu_seconds: int
    arguments: str
    blobs: tuple[bytes, ...]


class WorkerAnswer(msgspec.Struct, frozen=True, array_like=True):
    """A value as JSON text, or the class of a `TamisError`, its arguments and the corrected text of a filter, if any.

    ``defect`` is an unexpected exception.
    """

    value: str = ""
    error: str = ""
    arguments: str = "[]"
    defect: str = ""
    corrected: str | None = None


def frame(message: WorkerQuestion | WorkerAnswer) -> bytes:
    """Return a message as bytes."""
    body = msgspec.msgpack.encode(message)
    return HEADER.pack(len(body)) + body


def read_from(stream: BinaryIO) -> WorkerQuestion | None:
    """Return the next question; None when there will be no more."""
    header = stream.read(HEADER.size)
    if len(header) < HEADER.size:
        return None
    body = stream.read(HEADER.unpack(header)[0])
    return msgspec.msgpack.decode(body, type=WorkerQuestion)


def value_of(value: Any) -> str:
    """Return a value as JSON text; values of other types become strings.

    >>> value_of({"n": 10**30})
    '{"n": 1000000000000000000000000000000}'
    """
    return json.dumps(value, default=_plain)


def _plain(value: object) -> object:
    return list(value) if isinstance(value, Sequence) else str(value)
