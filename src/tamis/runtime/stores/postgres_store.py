"""A broker's state in PostgreSQL: a schema of its own, one transaction per commit, a lease that every one checks.

The tables and their checks are those of the SQLite store (`tamis.runtime.stores.tables`). A connection that breaks is
made again within some seconds; whether the commit under way is durable is then read from the books, never guessed
(`Lease.renew`). The data directory keeps the tokens and the *head*: a database that ends before the last commit that
was confirmed from this machine, such as a replica that lagged, is refused.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any, TypeVar

import psycopg

from tamis.errors import DiskFullError, StoreError
from tamis.node.effects import Key, Link, Persist
from tamis.node.outbox import Backlog
from tamis.runtime.disk.head import Head, read_head
from tamis.runtime.stores.audit_log import ACTIVITY_SCHEMA, AUDIT_SCHEMA, AuditRecord
from tamis.runtime.stores.books import FORMAT, STATE_SCHEMA
from tamis.runtime.stores.database import Database
from tamis.runtime.stores.lease import LEASE_SCHEMA, LEASE_SECONDS, LOOK_SECONDS, Heartbeat, Lease
from tamis.runtime.stores.messages import OUTBOX_SCHEMA, PAGE_BYTES
from tamis.runtime.stores.postgres_database import (
    PATIENCE,
    Address,
    PostgresDatabase,
    first_line,
    is_lost,
    telling,
    with_patience,
)
from tamis.runtime.stores.protocol import StandbyStoppedError
from tamis.runtime.stores.tables import Tables

__all__ = ["PostgresStore"]

#: Messages that are read without looking at their sizes first.
_FEW = 16

T = TypeVar("T")

_log = logging.getLogger("tamis")


class PostgresStore:
    """The durable state of the broker ``name`` in the database at ``url``; made when there is none.

    `StoreError` when another broker is alive in it. With ``stopped`` it waits instead until that one is gone, for as
    long as the event is not set.
    """

    def __init__(self, url: str, name: str, data: Path, *, stopped: threading.Event | None = None) -> None:
        self._address = Address(url, f"tamis_{name}")
        self.place = self._address.place
        if len(self._address.schema.encode()) > 63:
            raise StoreError(self.place, "the name of a broker in PostgreSQL has at most 57 bytes")
        self.tables = Tables(self.place)
        #: How long a lost server is waited for, in seconds.
        self.patience = PATIENCE
        self.on_damage: Callable[[StoreError], object] = lambda error: None
        self._data = data
        self._data.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lease = Lease(self._address)
        self._reading = threading.Lock()
        self._size = 0
        self._reader: psycopg.Connection[Any] | None = None
        self._head: Head | None = None
        self._db = self._hold(stopped)
        self._heartbeat = Heartbeat(self._address, self._lease, lambda error: self.on_damage(error))
        self._heartbeat.start()

    @property
    def audited(self) -> int:
        """The number of the last record of the audit."""
        return self.tables.audit.number

    @property
    def fence(self) -> int:
        """How often the lease has changed hands or connections."""
        return self._lease.fence

    def load(self) -> dict[Key, bytes]:
        """Return everything that was persisted and not removed, after checking all of it; called once, first."""
        with telling(self.place), self._db.transaction():
            stored = self.tables.load(PostgresDatabase(self._db, is_large=True))
        number = self.tables.books.number
        if (head := read_head(self._data)) > number:
            raise StoreError(
                self.place,
                f"commit {head:,} was confirmed, the database ends at {number:,}: a replica that lagged was promoted, "
                f"or an older copy restored. To go on without what is missing, remove {self._data / 'head'}",
            )
        self._head = Head(self._data)
        self._head.write(number)
        return stored

    def take_backlogs(self) -> dict[Link, Backlog]:
        """Return what waits for each link, as `load` found it; the store forgets it."""
        return self.tables.messages.take_backlogs()

    def commit(self, changes: Iterable[Persist], *, now: float) -> None:
        """Make changes durable, all or none.

        `DiskFullError`: nothing was written, and the same call may succeed later. `StoreError`: stop the process.
        """
        with telling(self.place):
            batch = self.tables.batch(changes, now)
        number = self.tables.books.number
        while not self._write(batch.write):
            last = self._reconnect()
            if last == number + 1:
                break  # it was durable when the connection broke
            if last != number:
                raise StoreError(self.place, f"commit {number:,} was the last one, the database has {last:,}")
        batch.settle()
        if self._head is not None:
            self._head.write(number + 1)

    def read_outbox(self, link: Link, after: int, limit: int = 256) -> list[tuple[int, bytes]]:
        """Return the oldest messages of a link with numbers above ``after``, acknowledged ones included."""

        def read(db: Database) -> list[tuple[int, bytes]]:
            most = _how_many(db, link, after, limit) if limit > _FEW else limit
            return self.tables.messages.read(db, link, after, most, self.tables.retention.floors)

        return self._read(read)

    def read_audit(self, before: int | None = None, limit: int = 100) -> list[AuditRecord]:
        """Return the newest records of the audit with numbers below ``before``, the newest first."""
        return self._read(lambda db: self.tables.audit.read(db, before, limit))

    def trim(self, before: float, max_bytes: int | None = None) -> int:
        """Delete acknowledged messages older than a moment, and the oldest ones beyond some bytes; return how many."""
        deleted = 0

        def write(db: Database) -> None:
            nonlocal deleted
            deleted = self.tables.retention.trim(db, round(before * 1e6), max_bytes)

        return deleted if self._write_and_look(write) else 0

    def trim_audit(self, *, keep: int, before: float) -> int:
        """Delete what is beyond the newest ``keep`` records of each table of the audit, or older; return how many."""
        deleted: dict[str, int] = {}
        if not self._write_and_look(lambda db: deleted.update(self.tables.audit.trim(db, keep=keep, before=before))):
            return 0
        self.tables.audit.settle_trim(deleted)
        return sum(deleted.values())

    def size(self) -> int:
        """Return the bytes of the schema's tables and indexes; while PostgreSQL is away, those of the last look."""
        question = (
            "SELECT coalesce(sum(pg_total_relation_size(pg_class.oid)), 0)::int8 FROM pg_class "
            "JOIN pg_namespace ON pg_namespace.oid = relnamespace WHERE nspname = current_schema() AND relkind = 'r'"
        )
        with contextlib.suppress(psycopg.Error), self._reading:  # it is asked for again
            self._size = int(self._ask(lambda db: db.execute(question).fetchone()[0]))
        return self._size

    def has_room(self, min_free: int) -> bool:
        """True: PostgreSQL says that its disk is full when a commit finds it so."""
        return True

    def close(self) -> None:
        """Release the lease, so that a standby takes over at once."""
        self._heartbeat.stop()
        with contextlib.suppress(psycopg.Error):  # whoever comes next waits until the lease is over
            self._lease.release(self._db)
        self._db.close()
        if self._reader is not None:
            self._reader.close()
        if self._head is not None:
            self._head.close()

    # Inside

    def _hold(self, stopped: threading.Event | None) -> psycopg.Connection[Any]:
        """Return the connection that writes, once the lease is this process's.

        Without ``stopped`` it waits only for what a process that died just now has left of its lease.
        """
        end, trouble = time.monotonic() + LEASE_SECONDS + 1.0, ""
        while True:
            db, holder = None, ""
            try:
                db = self._connect()
                with telling(self.place):
                    self._prepare(db)
                    while holder := self._lease.take(db):
                        self._pause(holder, end, stopped)
                return db
            except StoreError:
                if db is not None:
                    db.close()
                raise
            except psycopg.Error as error:  # lost: `telling` has turned everything else into a StoreError
                if stopped is None:
                    raise StoreError(self.place, f"PostgreSQL does not answer: {first_line(error)}") from error
                if trouble != (trouble := first_line(error)):
                    _log.warning("%s: %s; the standby waits", self.place, trouble)
                self._pause("", end, stopped)

    def _pause(self, holder: str, end: float, stopped: threading.Event | None) -> None:
        if stopped is None and time.monotonic() > end:
            raise StoreError(self.place, f"another broker is alive in it: {holder}. Wait for it with --standby")
        if stopped is None:
            time.sleep(LOOK_SECONDS)
        elif stopped.wait(LOOK_SECONDS):
            raise StandbyStoppedError(self.place, "the standby was stopped")

    def _connect(self) -> psycopg.Connection[Any]:
        """Return a new connection on which commits are durable; `StoreError` when they cannot be."""
        db = self._address.connect("tamis")
        settings = "fsync", "server_encoding", "transaction_read_only", "synchronous_commit"
        found = [str((db.execute("SELECT current_setting(%s)", [name]).fetchone() or [""])[0]) for name in settings]
        fsync, encoding, read_only, synchronous = found
        problem = {
            fsync != "on": "fsync is off: PostgreSQL would lose commits in a power cut",
            encoding not in ("UTF8", "SQL_ASCII"): f"the database has the encoding {encoding}, expected UTF8",
            read_only != "off": "it is read-only, as a replica is: name the primary, or all hosts and "
            "target_session_attrs=read-write",
        }.get(True)
        if problem:
            db.close()
            raise StoreError(self.place, problem)
        if synchronous == "off":
            db.execute("SET synchronous_commit = on")
        return db

    def _prepare(self, db: psycopg.Connection[Any]) -> None:
        """Make the schema when there is none; of two brokers that find none, one waits for the other."""
        from psycopg import sql

        with db.transaction():
            db.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [self._address.schema])
            if db.execute("SELECT to_regclass('books')").fetchone() != (None,):
                return
            schema = sql.Identifier(self._address.schema)
            db.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(schema))
            db.execute(_SCHEMA)

    def _write(self, write: Callable[[Database], object]) -> bool:
        """Write something in one fenced transaction; False: the connection was lost, and the outcome is unknown."""
        try:
            with telling(self.place), self._transaction():
                write(PostgresDatabase(self._db))
        except psycopg.Error:  # lost: `telling` has turned everything else into a StoreError
            return False
        return True

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        try:
            with self._db.pipeline():
                self._db.execute("BEGIN")
                self._db.execute("UPDATE lease SET writer = %s", [self._lease.fence])
                yield
                end = self._db.execute("COMMIT")
            if end.statusmessage != "COMMIT":
                raise StoreError(self.place, f"PostgreSQL answered COMMIT with {end.statusmessage}")
        except BaseException as error:
            if not is_lost(error):
                self._db.rollback()
            raise

    def _write_and_look(self, write: Callable[[Database], object]) -> bool:
        """Write something that is not counted as a commit; False: what is in the tables was read anew instead."""
        try:
            if self._write(write):
                return True
            self._reconnect()
        except DiskFullError:
            self._look_again()
            raise
        self._look_again()
        return False

    def _look_again(self) -> None:
        with telling(self.place):
            database = PostgresDatabase(self._db)
            self.tables.retention.load(database, self.tables.retention.floors)
            self.tables.audit.load(database)

    def _reconnect(self) -> int:
        """Replace the connection that writes, with a new fence; return the number of the last commit."""

        def attempt() -> int:
            self._db.close()
            self._db = self._connect()
            with telling(self.place):
                return self._lease.renew(self._db)

        return with_patience(self.place, attempt, self.patience)

    def _read(self, action: Callable[[Database], T]) -> T:
        """Return what an action reads; an error stops the broker, whoever met it."""
        try:
            with self._reading:
                return with_patience(self.place, lambda: self._ask(action), self.patience)
        except StoreError as error:
            self.on_damage(error)
            raise

    def _ask(self, action: Callable[[Database], T]) -> T:
        if self._reader is None or self._reader.closed:
            self._reader = self._address.connect(f"tamis reader {self._address.schema}")
        with telling(self.place):
            return action(PostgresDatabase(self._reader))


def _how_many(db: Database, link: Link, after: int, limit: int) -> int:
    """Return how many messages fit into a page, at least one: an answer of PostgreSQL is in memory as a whole."""
    question = "SELECT length(body) FROM outbox WHERE link = ? AND number > ? ORDER BY number LIMIT ?"
    sizes = accumulate(size for (size,) in db.execute(question, (link, after, limit)))
    return max(1, sum(1 for size in sizes if size <= PAGE_BYTES))


def _of_postgres(schema: str) -> str:
    """Return tables as PostgreSQL has them."""
    for theirs, ours in (("BLOB", "BYTEA"), ("TEXT", "BYTEA"), ("INTEGER", "BIGINT"), ("x''", "''")):
        schema = schema.replace(theirs, ours)
    return schema.replace(" WITHOUT ROWID", "")


_SCHEMA = (
    _of_postgres(STATE_SCHEMA + OUTBOX_SCHEMA + AUDIT_SCHEMA + ACTIVITY_SCHEMA)
    + LEASE_SCHEMA
    + f"INSERT INTO books VALUES (1, {FORMAT}, 0, 0, 0);"
)
