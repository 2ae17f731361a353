"""The connections of a store in PostgreSQL: one that writes beneath the lease, and one that reads.

Both are made again when they break. A reader may simply ask again. A writer does not know then whether its last
transaction is durable: `PostgresWriter.write` says so, and `PostgresWriter.renew` finds out.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import psycopg

from tamis.errors import StoreError
from tamis.runtime.stores.audit_log import ACTIVITY_SCHEMA, AUDIT_SCHEMA
from tamis.runtime.stores.books import FORMAT, STATE_SCHEMA
from tamis.runtime.stores.database import Database
from tamis.runtime.stores.lease import LEASE_SCHEMA, LEASE_SECONDS, LOOK_SECONDS, Lease
from tamis.runtime.stores.messages import OUTBOX_SCHEMA
from tamis.runtime.stores.postgres_database import (
    PATIENCE,
    SCHEMA_PREFIX,
    DatabaseAddress,
    PostgresDatabase,
    first_line,
    is_lost,
    no_answer,
    telling,
    with_patience,
)
from tamis.runtime.stores.protocol import StandbyStoppedError

__all__ = ["PostgresReader", "PostgresWriter", "brokers_in"]

T = TypeVar("T")

_log = logging.getLogger("tamis")


class PostgresWriter:
    """The connection that writes. It is made when the lease is this process's.

    `StoreError` when another broker is alive. With ``stopped`` it waits instead until that one is gone, for as long as
    the event is not set.
    """

    def __init__(self, address: DatabaseAddress, stopped: threading.Event | None) -> None:
        self._address = address
        self._place = address.place
        #: How long a lost server is waited for, in seconds.
        self.patience = PATIENCE
        # It warns of each pipeline whose connection is lost; the broker says by itself that PostgreSQL is away.
        logging.getLogger("psycopg").setLevel(logging.ERROR)
        self.lease = Lease(address)
        self.db = self._hold(stopped)

    def write(self, write: Callable[[Database], object]) -> bool:
        """Write something in one fenced transaction; False: the connection was lost, and the outcome is unknown."""
        try:
            with telling(self._place), self._transaction():
                write(PostgresDatabase(self.db))
        except psycopg.Error:  # lost: `telling` has turned everything else into a StoreError
            return False
        return True

    def renew(self) -> int:
        """Replace the connection that writes, with a new fence; return the number of the last commit."""

        def attempt() -> int:
            self.db.close()
            self.db = self._connect()
            with telling(self._place):
                return self.lease.renew(self.db)

        return with_patience(self._place, attempt, self.patience)

    def close(self) -> None:
        """Release the lease, so that a standby takes over at once."""
        with contextlib.suppress(psycopg.Error):  # the next broker waits until the lease is over
            self.lease.release(self.db)
        self.db.close()

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
                with telling(self._place):
                    self._prepare(db)
                    while holder := self.lease.take(db):
                        self._pause(holder, end, stopped)
                return db
            except StoreError:
                if db is not None:
                    db.close()
                raise
            except psycopg.Error as error:  # lost: `telling` has turned everything else into a StoreError
                if stopped is None:
                    raise StoreError(self._place, no_answer(error)) from error
                if trouble != (trouble := first_line(error)):
                    _log.warning("%s: %s; the standby waits", self._place, trouble)
                self._pause("", end, stopped)

    def _pause(self, holder: str, end: float, stopped: threading.Event | None) -> None:
        if stopped is None and time.monotonic() > end:
            raise StoreError(self._place, f"another broker is alive in it: {holder}. Wait for it with --standby")
        if stopped is None:
            time.sleep(LOOK_SECONDS)
        elif stopped.wait(LOOK_SECONDS):
            raise StandbyStoppedError(self._place, "the standby was stopped")

    def _connect(self) -> psycopg.Connection[Any]:
        """Return a new connection on which commits are durable; `StoreError` when they cannot be."""
        db = self._address.connect("tamis")
        settings = "fsync", "server_encoding", "transaction_read_only", "synchronous_commit"
        values = [str((db.execute("SELECT current_setting(%s)", [name]).fetchone() or [""])[0]) for name in settings]
        fsync, encoding, read_only, synchronous = values
        problem = {
            fsync != "on": "fsync is off: PostgreSQL would lose commits in a power cut",
            encoding not in ("UTF8", "SQL_ASCII"): f"the database has the encoding {encoding}, expected UTF8",
            read_only != "off": "it is read-only, as a replica is: name the primary, or all hosts and "
            "target_session_attrs=read-write",
        }.get(True)
        if problem:
            db.close()
            raise StoreError(self._place, problem)
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

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        try:
            with self.db.pipeline():
                self.db.execute("BEGIN")
                self.db.execute("UPDATE lease SET writer = %s", [self.lease.fence])
                yield
                end = self.db.execute("COMMIT")
            if end.statusmessage != "COMMIT":
                raise StoreError(self._place, f"PostgreSQL answered COMMIT with {end.statusmessage}")
        except BaseException as error:
            if not is_lost(error):
                self.db.rollback()
            raise


class PostgresReader:
    """A connection that reads, for one thread at a time."""

    def __init__(self, address: DatabaseAddress) -> None:
        self._address = address
        self._turn = threading.Lock()
        self._db: psycopg.Connection[Any] | None = None

    def ask(self, question: Callable[[Database], T]) -> T:
        """Return the answer to a question; raises what psycopg raises when the server is lost."""
        with self._turn:
            if self._db is None or self._db.closed:
                self._db = self._address.connect(f"tamis reader {self._address.schema}")
            with telling(self._address.place):
                return question(PostgresDatabase(self._db))

    def ask_patiently(self, question: Callable[[Database], T], patience: float) -> T:
        """Return the answer to a question; `StoreError` when the server stays lost."""
        return with_patience(self._address.place, lambda: self.ask(question), patience)

    def close(self) -> None:
        """Close the connection."""
        if self._db is not None:
            self._db.close()


def brokers_in(address: DatabaseAddress) -> list[str]:
    """Return the names of the brokers whose state is in a database; `StoreError` when it cannot be asked."""
    question = (
        "SELECT nspname FROM pg_namespace JOIN pg_class ON relnamespace = pg_namespace.oid "
        "WHERE relname = 'books' AND starts_with(nspname, %s) ORDER BY nspname"
    )
    try:
        with telling(address.place), contextlib.closing(address.connect("tamis restore")) as db:
            rows = db.execute(question, [SCHEMA_PREFIX]).fetchall()
    except psycopg.Error as error:  # lost: `telling` has turned everything else into a StoreError
        raise StoreError(address.place, no_answer(error)) from error
    return [str(name).removeprefix(SCHEMA_PREFIX) for (name,) in rows]


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
