"""The file ``head``: the number of the last commit, beside the database.

SQLite takes a damaged write-ahead log for a shorter one; the head tells the difference. It is written after each commit
and never waited for: after a power cut it may be behind, never ahead.
"""

from __future__ import annotations

import os
import struct
import zlib
from pathlib import Path

__all__ = ["HEAD", "Head", "read_head"]

#: The name of the file.
HEAD = "head"

_HEAD = struct.Struct(">QI")


class Head:
    """The head of one directory, open for writing."""

    def __init__(self, directory: Path) -> None:
        self._handle = os.open(directory / HEAD, os.O_WRONLY | os.O_CREAT, 0o600)

    def write(self, number: int) -> None:
        """Note the number of the last commit."""
        digits = struct.pack(">Q", number)
        os.pwrite(self._handle, digits + struct.pack(">I", zlib.crc32(digits)), 0)

    def close(self) -> None:
        """Close the file."""
        os.close(self._handle)


def read_head(directory: Path) -> int:
    """Return the number in the head of a directory; a torn or missing one says nothing, which is 0."""
    path = directory / HEAD
    data = path.read_bytes() if path.exists() else b""
    if len(data) != _HEAD.size:
        return 0
    number, crc = _HEAD.unpack(data)
    return int(number) if crc == zlib.crc32(data[:8]) else 0
