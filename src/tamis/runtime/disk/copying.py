"""A copy of a broker's database as of one moment, made while the broker runs, and flushed to disk."""

from __future__ import annotations

import os
import time
from pathlib import Path

from tamis.errors import StoreError
from tamis.runtime.disk.checking import open_to_read

__all__ = ["STEP_SECONDS", "copy_database", "flush"]

#: Pages that are copied at once, and the seconds between two steps: 4 KiB pages make about 100 MiB a second at most.
STEP_PAGES, STEP_SECONDS = 256, 0.01


def copy_database(source: Path, target: Path, step_seconds: float) -> None:
    """Copy a database as of one moment, in steps with pauses, into one new file."""
    import apsw

    os.close(os.open(target, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    try:
        origin, copy = open_to_read(source), apsw.Connection(str(target))
        try:
            # One state for all steps: without a transaction each commit of the broker would begin the copy again.
            origin.execute("BEGIN; SELECT count(*) FROM books").fetchall()
            with copy.backup("main", origin, "main") as steps:
                while not steps.done:
                    steps.step(STEP_PAGES)
                    time.sleep(step_seconds)
            copy.execute("PRAGMA journal_mode=DELETE").fetchall()  # all of it in one file
        finally:
            copy.close()
            origin.close()
    except apsw.Error as error:
        raise StoreError(str(source), f"cannot be copied: {type(error).__name__}: {error}") from error
    flush(target)


def flush(path: Path) -> None:
    """Have a file or a directory on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
