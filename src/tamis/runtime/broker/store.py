"""A broker's disk: one SQLite file, one writer, every record with a checksum.

A record goes into the table that the `Form` of its kind names (`tamis.node.records`): ``state`` holds values under
keys; ``outbox`` the messages of each stream by number; ``audit`` and ``activity`` sealed logs
(`tamis.runtime.broker.audit_log`).
A message that was acknowledged is not deleted at once: the *floor* of its link moves over it, and `trim` deletes it
when its retention is over. Until then it can be replayed (promise G10).

Nothing is trusted (G14). Each record carries a CRC, ``state`` has books (`tamis.runtime.disk.books`), what waits in an
outbox has no holes (`tamis.runtime.disk.messages`), and a *head* beside the file says where it ends
(`tamis.runtime.disk.head`). Whatever does not agree raises `StoreError`, and nothing is repaired or cleaned up.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from tamis.errors import DiskFullError, ModelError, StoreError
from tamis.node import records
from tamis.node.effects import Key, Link, Persist
from tamis.node.records import Form
from tamis.runtime.broker.audit_log import ACTIVITY_SCHEMA, AUDIT_SCHEMA, AuditLog, AuditRecord
from tamis.runtime.disk.books import FORMAT, STATE_SCHEMA, Books, packed
from tamis.runtime.disk.head import Head, read_head
from tamis.runtime.disk.lock import lock_directory
from tamis.runtime.disk.messages import OUTBOX_SCHEMA, MessageTable, message_crc, stream_ends
from tamis.runtime.disk.retention import Retention
from tamis.runtime.disk.room import BUSY_MILLISECONDS, Room, is_quota_error
from tamis.runtime.extra import demand_server

__all__ = ["Store"]

#: Before this one SQLite could damage its log when two connections wrote at a time (its WAL-reset race).
_OLDEST_SQLITE = (3, 51, 3)

_SCHEMA = f"{STATE_SCHEMA}{OUTBOX_SCHEMA}{AUDIT_SCHEMA}{ACTIVITY_SCHEMA}"

#: Bytes of records that a commit may write into the room of the reserve.
_SMALL_BYTES = 64 * 1024

T = TypeVar("T")


class Store:
    """The durable state of one broker in ``directory``; made when there is none.

    One process at a time, one thread that commits; `read_outbox` may be called from another. ``vfs`` names a file layer
    that was registered with apsw, for tests; it needs no shared memory, for there is then one connection only.
    """

    def __init__(self, directory: str | os.PathLike[str], *, vfs: str | None = None) -> None:
        demand_server("a durable store")
        self.directory = Path(directory)
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path = self.directory / "broker.sqlite"
        self._lock = lock_directory(self.directory)
        if vfs is None:
            _keep_private(self.path)
        self.books = Books(str(self.path))
        self.messages = MessageTable(str(self.path))
        self.retention = Retention()
        self.room = Room(self.directory)
        #: Called with the error when a record is found damaged while the broker runs (promise G14).
        self.on_damage: Callable[[StoreError], object] = lambda error: None
        self.audit = AuditLog(str(self.path))
        with self._telling():
            self._db = self._connect(vfs)
            self._reader = self._db if vfs else self._connect(vfs)

    def load(self) -> dict[Key, bytes]:
        """Return everything that was persisted and not removed, after checking all of it; called once, first.

        Messages stay on disk: ``messages.take_backlogs`` says which wait, `read_outbox` reads them.
        """
        with self._telling():
            stored = self.books.load(self._db)
            if (head := read_head(self.directory)) > self.books.number:
                raise StoreError(
                    str(self.path), f"commit {head:,} was confirmed, the file ends at {self.books.number:,}"
                )
            floors = {link: floor for (link,), floor in records.FLOOR.items(stored)}
            self.messages.load(self._db, floors, stream_ends(stored))
            self.retention.load(self._db, floors)
            self.audit.load(self._db)
        self.room.keep_reserve()
        self._head = Head(self.directory)
        self._head.write(self.books.number)
        return {key: value for key, value in stored.items() if key[0] != records.FLOOR.name}

    def commit(self, changes: Iterable[Persist], *, now: float) -> None:
        """Make changes durable, all or none.

        `DiskFullError`: nothing was written, and the same call may succeed later. `StoreError`: stop the process.
        """
        batch = _Batch(self, round(now * 1e6))
        with self._telling():
            for change in changes:
                batch.take(change)
            self._within(lambda: batch.write(self._db), may_use_reserve=batch.is_small)
        batch.settle()
        self._head.write(self.books.number)

    def read_outbox(self, link: Link, after: int, limit: int = 256) -> list[tuple[int, bytes]]:
        """Return the oldest messages of a link with numbers above ``after``, acknowledged ones included.

        They have at most `tamis.runtime.disk.messages.PAGE_BYTES`; one message may have more.
        """
        with self._noticing():
            return self.messages.read(self._reader, link, after, limit, self.retention.floors)

    def read_audit(self, before: int | None = None, limit: int = 100) -> list[AuditRecord]:
        """Return the newest records of the audit with numbers below ``before``, the newest first."""
        with self._noticing():
            return self.audit.read(self._reader, before, limit)

    def trim_audit(self, *, keep: int, before: float) -> int:
        """Delete what is beyond the newest ``keep`` records of each table of the audit, or older; return how many."""
        with self._telling():
            with self._transaction():
                deleted = self.audit.trim(self._db, keep=keep, before=before)
            self.audit.settle_trim(deleted)
        return sum(deleted.values())

    def trim(self, before: float, max_bytes: int | None = None) -> int:
        """Delete acknowledged messages older than a moment, and the oldest ones beyond some bytes; return how many.

        One call deletes a bounded number (`tamis.runtime.disk.retention.TRIM_ROWS`) and gives free pages back.
        """
        with self._telling():
            deleted = self._within(lambda: self.retention.trim(self._db, round(before * 1e6), max_bytes))
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

        found = tuple(map(int, apsw.sqlite_lib_version().split(".")[:3]))
        if found < _OLDEST_SQLITE:
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


class _Batch:
    """The rows of one commit, worked out before the first is written."""

    def __init__(self, store: Store, at: int) -> None:
        self.store = store
        self.at = at
        self.state: dict[bytes, bytes | None] = {}
        self.messages: dict[tuple[Link, int], bytes] = {}
        self.floors: dict[Link, int] = {}
        #: Bytes of the messages that the floors move over.
        self.grown: dict[Link, int] = {}
        self.restarted: set[Link] = set()
        #: Links that are no more, with all that was kept for a replay.
        self.forgotten: set[Link] = set()
        self.crcs: dict[bytes, int | None] = {}
        #: The table, the number and the body of each.
        self.deeds: list[tuple[str, int, bytes]] = []
        self.settle_audit: Callable[[], None] = lambda: None

    def take(self, change: Persist) -> None:
        kind = records.find_kind(change.key)
        if kind.form is Form.VALUE:
            self.state[packed(change.key)] = change.value
            if kind.stream_end is not None and change.value is None:
                self.forgotten.add(change.key[1])
        elif kind.form is Form.STREAM:
            self._take_message(change)
        elif change.value is not None:
            self.deeds.append((kind.name, int(change.key[1]), change.value))

    def _take_message(self, change: Persist) -> None:
        link, number = change.key[1], int(change.key[2])
        floor = self.floors.get(link, self.store.retention.floors.get(link, 0))
        if change.value is None:
            self.floors[link] = max(floor, number)
            self.messages.pop((link, number), None)
        else:
            if number <= floor:  # the stream began again
                self.restarted.add(link)
                self.floors[link] = number - 1
                self.messages = {place: body for place, body in self.messages.items() if place[0] != link}
            self.messages[link, number] = change.value

    def write(self, db: Any) -> None:
        self.grown = self.store.retention.measure(db, self.floors)
        self.floors |= dict.fromkeys(self.forgotten, 0)
        for link, floor in self.floors.items():
            record = records.FLOOR.drop(link) if link in self.forgotten else records.FLOOR.put(link, value=floor)
            self.state[packed(record.key)] = record.value
        db.executemany("DELETE FROM outbox WHERE link = ?", [(link,) for link in self.restarted | self.forgotten])
        db.executemany("INSERT OR REPLACE INTO outbox VALUES (?, ?, ?, ?, ?)", self._message_rows())
        self.crcs = self.store.books.write(db, self.state)
        self.settle_audit = partial(self.store.audit.settle, self.store.audit.write(db, self.deeds, self.at))

    @property
    def is_small(self) -> bool:
        """Whether it makes room or needs next to none: acknowledgements, cursors, withdrawals."""
        values = sum(len(value) for value in self.state.values() if value is not None)
        return not self.messages and values + sum(len(body) for _, _, body in self.deeds) <= _SMALL_BYTES

    def settle(self) -> None:
        """Take over into memory what is on the disk now."""
        store = self.store
        store.books.settle(self.crcs)
        store.retention.move(self.floors, self.grown)
        for link in self.restarted | self.forgotten:
            store.retention.restart(link, is_gone=link in self.forgotten)
        self.settle_audit()

    def _message_rows(self) -> Iterator[tuple[Link, int, int, bytes, int]]:
        for (link, number), body in self.messages.items():
            yield link, number, self.at, body, message_crc(link, number, self.at, body)


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
