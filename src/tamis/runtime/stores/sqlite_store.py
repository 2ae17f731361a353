"""A broker's disk: one SQLite file, one writer; a *head* beside it says where it ends (`tamis.runtime.disk.head`).

What is in the tables and how it is checked: `tamis.runtime.stores.tables`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from tamis.errors import DiskFullError, ModelError, StoreError
from tamis.node.effects import Key, Link, Persist
from tamis.node.outbox import Backlog
from tamis.runtime.disk.head import Head, read_head
from tamis.runtime.disk.lock import lock_directory
from tamis.runtime.disk.room import BUSY_MILLISECONDS, Room, is_quota_error
from tamis.runtime.extra import demand_server
from tamis.runtime.stores.audit_log import ACTIVITY_SCHEMA, AUDIT_SCHEMA, AuditRecord
from tamis.runtime.stores.books import FORMAT, STATE_SCHEMA
from tamis.runtime.stores.database import SqliteDatabase
from tamis.runtime.stores.messages import OUTBOX_SCHEMA
from tamis.runtime.stores.tables import Tables

__all__ = ["SqliteStore"]

#: Before this one SQLite could damage its log when two connections wrote at a time (its WAL-reset race).
_OLDEST_SQLITE = (3, 51, 3)

_SCHEMA = f"{STATE_SCHEMA}{OUTBOX_SCHEMA}{AUDIT_SCHEMA}{ACTIVITY_SCHEMA}"

T = TypeVar("T")


class SqliteStore:
    """The durable state of one broker in ``directory``; made when there is none.

    One process at a time, one thread that commits; `read_outbox` may be called from another. ``vfs`` names a file layer
    that was registered with apsw, for tests; it needs no shared memory, for there is then one connection only.
    """

    #: The files are on this machine.
    is_cut_off = False

    def __init__(self, directory: str | os.PathLike[str], *, vfs: str | None = None) -> None:
        demand_server("a durable store")
        self.directory = Path(directory)
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path = self.directory / "broker.sqlite"
        self._lock = lock_directory(self.directory)
        if vfs is None:
            _keep_private(self.path)
        self.place = str(self.directory)
        self.tables = Tables(str(self.path))
        self.room = Room(self.directory)
        #: Called with the error when a record is found damaged while the broker runs (promise G14).
        self.on_damage: Callable[[StoreError], object] = lambda error: None
        with self._telling():
            self._db = self._connect(vfs)
            self._database = SqliteDatabase(self._db)
            self._reader = self._db if vfs else self._connect(vfs)

    @property
    def audited(self) -> int:
        """The number of the last record of the audit."""
        return self.tables.audit.number

    @property
    def fence(self) -> int:
        """0: the lock of the directory goes with the process."""
        return 0

    def load(self) -> dict[Key, bytes]:
        """Return everything that was persisted and not removed, after checking all of it; called once, first.

        Messages stay on disk: `take_backlogs` says which wait, `read_outbox` reads them.
        """
        with self._telling():
            stored = self.tables.load(self._database)
            number = self.tables.books.number
            if (head := read_head(self.directory)) > number:
                raise StoreError(str(self.path), f"commit {head:,} was confirmed, the file ends at {number:,}")
        self.room.keep_reserve()
        self._head = Head(self.directory)
        self._head.write(number)
        return stored

    def take_backlogs(self) -> dict[Link, Backlog]:
        """Return what waits for each link, as `load` found it; the store forgets it."""
        return self.tables.messages.take_backlogs()

    def commit(self, changes: Iterable[Persist], *, now: float) -> None:
        """Make changes durable, all or none.

        `DiskFullError`: nothing was written, and the same call may succeed later. `StoreError`: stop the process.
        """
        with self._telling():
            batch = self.tables.batch(changes, now)
            self._within(lambda: batch.write(self._database), may_use_reserve=batch.is_small)
        batch.settle()
        self._head.write(self.tables.books.number)

    def read_outbox(self, link: Link, after: int, limit: int = 256) -> list[tuple[int, bytes]]:
        """Return the oldest messages of a link with numbers above ``after``, acknowledged ones included.

        They have at most `tamis.runtime.stores.messages.PAGE_BYTES`; one message may have more.
        """
        with self._noticing():
            return self.tables.messages.read(self._reader, link, after, limit, self.tables.retention.floors)

    def read_audit(self, before: int | None = None, limit: int = 100) -> list[AuditRecord]:
        """Return the newest records of the audit with numbers below ``before``, the newest first."""
        with self._noticing():
            return self.tables.audit.read(self._reader, before, limit)

    def trim_audit(self, *, keep: int, before: float) -> int:
        """Delete what is beyond the newest ``keep`` records of each table of the audit, or older; return how many."""
        with self._telling():
            with self._transaction():
                deleted = self.tables.audit.trim(self._database, keep=keep, before=before)
            self.tables.audit.settle_trim(deleted)
        return sum(deleted.values())

    def trim(self, before: float, max_bytes: int | None = None) -> int:
        """Delete acknowledged messages older than a moment, and the oldest ones beyond some bytes; return how many.

        One call deletes a bounded number (`tamis.runtime.stores.retention.TRIM_ROWS`) and gives free pages back.
        """
        with self._telling():
            deleted = self._within(lambda: self.tables.retention.trim(self._database, round(before * 1e6), max_bytes))
            self._within(lambda: self.room.shrink(self._db), is_transaction=False)
        self.room.keep_reserve()
        return deleted

    def compact(self) -> None:
        """Rewrite the file without free pages; it needs room for a copy of what it holds."""
        with self._telling():
            self.room.compact(self._db)

    def size(self) -> int:
        """Return the bytes of the file and its log."""
        files = (self.path, self.path.with_name(self.path.name + "-wal"))
        return sum(file.stat().st_size for file in files if file.exists())

    def free(self) -> int:
        """Return the bytes that are left for new records: on the disk, and within the file."""
        with self._telling():
            return self.room.free(self._reader)

    def has_room(self, min_free: int) -> bool:
        """Whether more than ``min_free`` bytes are left."""
        return self.free() > min_free

    def close(self) -> None:
        """Close the file; nothing is written that `commit` has not written."""
        self._reader.close()
        self._db.close()
        if hasattr(self, "_head"):
            self._head.close()
        os.close(self._lock)

    # Inside

    def _connect(self, vfs: str | None) -> Any:
        import apsw

        version = tuple(map(int, apsw.sqlite_lib_version().split(".")[:3]))
        if version < _OLDEST_SQLITE:
            raise StoreError(str(self.path), f"SQLite {apsw.sqlite_lib_version()} is too old: pip install -U apsw")
        connection = apsw.Connection(str(self.path), vfs=vfs)
        connection.set_busy_timeout(BUSY_MILLISECONDS)
        locking = "EXCLUSIVE" if vfs else "NORMAL"
        for pragma in (
            "auto_vacuum=INCREMENTAL",  # of a new file; before anything else touches it
            f"locking_mode={locking}",
            "journal_mode=WAL",
            "synchronous=FULL",
            "fullfsync=ON",  # macOS: a plain fsync leaves data in the drive's cache
            "checkpoint_fullfsync=ON",
            "cell_size_check=ON",
            "trusted_schema=OFF",
        ):
            connection.execute(f"PRAGMA {pragma}").fetchall()
        if not connection.execute("SELECT 1 FROM sqlite_schema").fetchone():
            connection.execute(f"BEGIN IMMEDIATE; {_SCHEMA} INSERT INTO books VALUES (1, {FORMAT}, 0, 0, 0); COMMIT")
        if vfs is None:
            self.room.prepare(connection)
        return connection

    def _within(self, write: Callable[[], T], *, may_use_reserve: bool = True, is_transaction: bool = True) -> T:
        """Write something; on a full disk once more with the room of the reserve, which is for what makes room."""
        import apsw

        for is_last in (not may_use_reserve, True):
            try:
                with self._transaction() if is_transaction else contextlib.nullcontext():
                    return write()
            except apsw.FullError:
                if is_last or not self.room.give_reserve():
                    raise
                self.room.checkpoint(self._db)  # the log gives its room back, too
        raise AssertionError("the last try returns or raises")

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    def _telling(self) -> _Telling:
        return _Telling(str(self.path), lambda: self._db.system_errno if hasattr(self, "_db") else 0)

    @contextlib.contextmanager
    def _noticing(self) -> Iterator[None]:
        """Report damage that is met while the broker runs: raise it to the reader, and call `on_damage`."""
        try:
            with self._telling():
                yield
        except StoreError as error:
            self.on_damage(error)
            raise


class _Telling:
    """Turns what SQLite raises into what a broker can act upon."""

    def __init__(self, path: str, find_errno: Callable[[], int]) -> None:
        self.path = path
        #: Returns what the operating system said last.
        self.find_errno = find_errno

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        import apsw

        is_quota = isinstance(error, apsw.IOError) and is_quota_error(self.find_errno())
        if isinstance(error, apsw.FullError) or is_quota:
            raise DiskFullError(self.path) from error
        if isinstance(error, apsw.Error):
            raise StoreError(self.path, f"{type(error).__name__}: {error}") from error
        if isinstance(error, msgspec.MsgspecError | UnicodeDecodeError | ModelError):
            raise StoreError(self.path, f"a record cannot be read: {error}") from error


def _keep_private(path: Path) -> None:
    """Have the files of a broker for its user only; SQLite gives a new log the mode of its database."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    names = (path.name, f"{path.name}-wal", f"{path.name}-shm", "head", "lock", "tokens.json")
    for name in names:
        with contextlib.suppress(FileNotFoundError):
            path.with_name(name).chmod(0o600)
