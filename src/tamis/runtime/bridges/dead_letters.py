"""Messages that can never be handed over, kept in a file of JSON lines.

A line is on disk before its message is acknowledged, so a message is either here or comes again. After a crash a line
may be here twice.
"""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from tamis.errors import ModelError, RefusedError

__all__ = ["DeadLetters", "check_dead_letters", "letter"]

#: Bytes of the file; a bridge that would write more stops, so that a sender of nonsense cannot fill a disk.
MAX_BYTES = 1 << 30


def letter(direction: str, source: str, payload: bytes, reason: str, **more: Any) -> dict[str, Any]:
    """Return one line: where a message came from or should have gone, why not, and its bytes.

    >>> line = letter("in", "sensors.7", b"{no json", "not JSON", number=3)
    >>> line["payload"], line["reason"], line["number"]
    ('{no json', 'not JSON', 3)
    """
    try:
        content = {"payload": payload.decode()}
    except UnicodeDecodeError:
        content = {"payload_base64": msgspec.to_builtins(payload)}
    moment = dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return {"at": moment, "direction": direction, "source": source, "reason": reason, **more, **content}


def check_dead_letters(path: Path) -> None:
    """Raise `ModelError` unless a file for dead letters can be written; it is not made."""
    if path.is_dir():
        raise ModelError(f"--dead-letters: {path} is a directory, not a file")
    if not path.parent.is_dir():
        raise ModelError(f"--dead-letters {path}: there is no folder {path.parent}")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise ModelError(f"--dead-letters {path}: it cannot be written by this user")


class DeadLetters:
    """The file; without a path nothing is kept."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def add(self, letters: Iterable[dict[str, Any]]) -> None:
        """Append lines; they are on disk when this returns."""
        lines = msgspec.json.Encoder().encode_lines(list(letters))
        if self._path is None or not lines:
            return
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(descriptor, "ab") as file:
            if file.tell() + len(lines) > MAX_BYTES:
                raise RefusedError(507, f"{self._path} has {MAX_BYTES >> 20:,} MiB of dead letters: move it away")
            file.write(lines)
            file.flush()
            os.fsync(file.fileno())
