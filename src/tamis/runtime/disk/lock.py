"""The file ``lock``: one data directory is for one process."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from tamis.errors import StoreError

__all__ = ["LOCK", "lock_directory", "locked"]

#: The name of the file.
LOCK = "lock"


def lock_directory(directory: Path) -> int:
    """Return the handle of the lock, which is held until it is closed; `StoreError` when another process has it."""
    import fcntl

    handle = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise StoreError(str(directory), "another process has it open; one data directory is for one broker") from None
    return handle


@contextlib.contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Hold the lock of a directory."""
    handle = lock_directory(directory)
    try:
        yield
    finally:
        os.close(handle)
