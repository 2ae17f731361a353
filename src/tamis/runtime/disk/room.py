"""Room on a broker's disk: what is free, a reserve for when nothing is, and pages that go back to the file system.

Free is what the file system has left and what the file itself has no use for. A full disk heals by itself: deleted
messages leave free pages in the file, and `shrink` gives them back a few at a time (promise G21).

The *reserve* is a file of some MiB that is deleted when a commit finds the disk full. A broker accepts nothing new
then, so its room is for what empties the disk: acknowledgements, greetings, withdrawals. It is made again when there is
room.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

__all__ = ["BUSY_MILLISECONDS", "RESERVE_BYTES", "Room", "is_quota_error"]

#: How long a connection waits for another one that holds the file.
BUSY_MILLISECONDS = 5_000

#: Bytes of the reserve. A commit of acknowledgements needs some pages of 4 KiB in the log.
RESERVE_BYTES = 4 * 1024 * 1024

#: Pages that one step of `shrink` gives back, and steps of one call: the log holds every page that is moved.
SHRINK_PAGES, SHRINK_STEPS = 200, 20


class Room:
    """The disk of one data directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._reserve = directory / "reserve"

    def free(self, db: Any) -> int:
        """Return the bytes that the file system has left, and those of free pages in the file."""
        pages, size = (int(db.execute(f"PRAGMA {name}").fetchone()[0]) for name in ("freelist_count", "page_size"))
        return self._left() + pages * size

    def keep_reserve(self) -> None:
        """Make the reserve when it is not there and its making leaves as much again."""
        if self._reserve.exists():
            self._reserve.chmod(0o600)
        if self._reserve.exists() or self._left() < 2 * RESERVE_BYTES:
            return
        handle = os.open(self._reserve, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            os.write(handle, bytes(RESERVE_BYTES))  # written, not only announced: a sparse file reserves nothing
        except OSError:
            self.give_reserve()
        finally:
            os.close(handle)

    def give_reserve(self) -> bool:
        """Delete the reserve; whether there was one."""
        had = self._reserve.exists()
        self._reserve.unlink(missing_ok=True)
        return had

    def shrink(self, db: Any) -> None:
        """Give free pages of the file back to the file system, a bounded number at a time."""
        for _ in range(SHRINK_STEPS):
            if not self.checkpoint(db) or not db.execute("PRAGMA freelist_count").fetchone()[0]:
                return
            db.execute(f"PRAGMA incremental_vacuum({SHRINK_PAGES})").fetchall()
        self.checkpoint(db)

    def checkpoint(self, db: Any) -> bool:
        """Write what is in the log into the file, and empty the log; whether it is empty.

        It stays as it is while a backup reads from it: the broker does not wait for that.
        """
        db.set_busy_timeout(0)
        try:
            return not db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        finally:
            db.set_busy_timeout(BUSY_MILLISECONDS)

    def compact(self, db: Any) -> None:
        """Rewrite the file without free pages, and empty the log."""
        db.execute("VACUUM").fetchall()
        self.checkpoint(db)

    def prepare(self, db: Any) -> None:
        """Let a file give pages back; one that was made without is rewritten once, if there is room for a copy."""
        if int(db.execute("PRAGMA auto_vacuum").fetchone()[0]) == 2:
            return
        pages, size = (int(db.execute(f"PRAGMA {name}").fetchone()[0]) for name in ("page_count", "page_size"))
        if 3 * pages * size < self._left():
            db.execute("PRAGMA auto_vacuum=INCREMENTAL").fetchall()
            db.execute("VACUUM").fetchall()

    def _left(self) -> int:
        space = os.statvfs(self._directory)
        return space.f_bavail * space.f_frsize


def is_quota_error(system_errno: int) -> bool:
    """Whether a write failed because the user's share of the disk is used up, which SQLite calls an I/O error.

    >>> is_quota_error(errno.EDQUOT), is_quota_error(errno.EIO)
    (True, False)
    """
    return system_errno in (errno.EDQUOT, errno.ENOSPC)
