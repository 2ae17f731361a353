"""A broker's state in PostgreSQL: a schema of its own, one transaction per commit, a lease that every one checks.

The tables and their checks are those of the SQLite store (`tamis.runtime.stores.tables`). A connection that breaks is
made again within some seconds; whether the commit under way is durable is then read from the books, never guessed
(`tamis.runtime.stores.lease`). The data directory keeps the tokens and the *head*: a database that ends before the
last commit that was confirmed from this machine, such as a replica that lagged, is refused.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable
from itertools import accumulate
from pathlib import Path
from typing import TypeVar

import psycopg

from tamis.errors import DiskFullError, StoreError
from tamis.node.effects import Key, Link, Persist
from tamis.node.outbox import Backlog
from tamis.runtime.disk.head import HEAD, Head, read_head
from tamis.runtime.stores.audit_log import AuditRecord
from tamis.runtime.stores.database import Database
from tamis.runtime.stores.lease import Heartbeat
from tamis.runtime.stores.messages import PAGE_BYTES
from tamis.runtime.stores.postgres_connections import PostgresReader, PostgresWriter, brokers_in
from tamis.runtime.stores.postgres_database import (
    SCHEMA_PREFIX,
    DatabaseAddress,
    PostgresDatabase,
    telling,
    with_patience,
)
from tamis.runtime.stores.tables import Tables

__all__ = ["PostgresStore"]

#: Messages that are read without looking at their sizes first.
_FEW = 16

T = TypeVar("T")


class PostgresStore:
    """The durable state of the broker ``name`` in the database at ``url``; made when there is none.

    `StoreError` when another broker is alive in it. With ``stopped`` it waits instead until that one is gone, for as
    long as the event is not set. With ``is_older_copy`` nothing is made, and the head may be ahead of the database: the
    first commit replaces it.
    """

    def __init__(
        self,
        url: str,
        name: str,
        data: Path,
        *,
        stopped: threading.Event | None = None,
        is_older_copy: bool = False,
    ) -> None:
        address = DatabaseAddress(url, f"{SCHEMA_PREFIX}{name}")
        self.place = address.place
        if len(address.schema.encode()) > 63:
            raise StoreError(self.place, "the name of a broker in PostgreSQL has at most 57 bytes")
        if is_older_copy:
            _demand_broker(address, name)
        self.tables = Tables(self.place)
        self.on_damage: Callable[[StoreError], object] = lambda error: None
        self._data = data
        self._data.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._is_older_copy = is_older_copy
        self._head: Head | None = None
        self._size = 0
        self._reader = PostgresReader(address)
        self._writer = PostgresWriter(address, stopped)
        self._heartbeat = Heartbeat(address, self._writer.lease, lambda error: self.on_damage(error))
        self._heartbeat.start()

    @property
    def audited(self) -> int:
        """The number of the last record of the audit."""
        return self.tables.audit.number

    @property
    def fence(self) -> int:
        """How often the lease has changed hands or connections."""
        return self._writer.lease.fence

    @property
    def is_cut_off(self) -> bool:
        """Whether the database has not answered for as long as the lease lasts."""
        return self._heartbeat.is_silent

    def load(self) -> dict[Key, bytes]:
        """Return everything that was persisted and not removed, after checking all of it; called once, first."""
        stored = with_patience(self.place, self._load_tables, 0.0)
        number = self.tables.books.number
        if not self._is_older_copy and (head := read_head(self._data)) > number:
            raise StoreError(
                self.place,
                f"commit {head:,} was confirmed, the database ends at {number:,}: a replica that lagged was promoted, "
                f"or an older copy restored. To go on without what is missing, remove {self._data / HEAD}",
            )
        self._head = Head(self._data)
        if not self._is_older_copy:
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
        while not self._writer.write(batch.write):
            last = self._writer.renew()
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
        with contextlib.suppress(psycopg.Error):  # it is asked for again
            self._size = int(self._reader.ask(lambda db: db.execute(question).fetchone()[0]))
        return self._size

    def has_room(self, min_free: int) -> bool:
        """True: PostgreSQL says that its disk is full when a commit finds it so."""
        return True

    def close(self) -> None:
        """Release the lease, so that a standby takes over at once."""
        self._heartbeat.stop()
        self._writer.close()
        self._reader.close()
        if self._head is not None:
            self._head.close()

    # Inside

    def _load_tables(self) -> dict[Key, bytes]:
        with telling(self.place), self._writer.db.transaction():
            return self.tables.load(PostgresDatabase(self._writer.db, is_large=True))

    def _write_and_look(self, write: Callable[[Database], object]) -> bool:
        """Write something that is not counted as a commit; False: what is in the tables was read again instead."""
        try:
            if self._writer.write(write):
                return True
            self._writer.renew()
        except DiskFullError:
            self._look_again()
            raise
        self._look_again()
        return False

    def _look_again(self) -> None:
        with telling(self.place):
            database = PostgresDatabase(self._writer.db)
            self.tables.retention.load(database, self.tables.retention.floors)
            self.tables.audit.load(database)

    def _read(self, question: Callable[[Database], T]) -> T:
        """Return the answer to a query; an error in any caller stops the broker."""
        try:
            return self._reader.ask_patiently(question, self._writer.patience)
        except StoreError as error:
            self.on_damage(error)
            raise


def _demand_broker(address: DatabaseAddress, name: str) -> None:
    """Raise `StoreError` unless the database has the state of a broker; the names of those that it has help."""
    names = brokers_in(address)
    if name not in names:
        raise StoreError(
            address.place, f"there is nothing of a broker {name!r} in it; brokers: {', '.join(names) or 'none'}"
        )


def _how_many(db: Database, link: Link, after: int, limit: int) -> int:
    """Return how many messages fit into a page, at least one: an answer of PostgreSQL is in memory as a whole."""
    question = "SELECT length(body) FROM outbox WHERE link = ? AND number > ? ORDER BY number LIMIT ?"
    sizes = accumulate(size for (size,) in db.execute(question, (link, after, limit)))
    return max(1, sum(1 for size in sizes if size <= PAGE_BYTES))
