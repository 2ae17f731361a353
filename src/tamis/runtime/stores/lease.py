"""The right to write to a broker's schema in PostgreSQL: one holder at a time, and a number that fences off others.

The table ``lease`` has one row: the *fence*, a number that grows whenever the right changes hands or connections, and
the *writer*, which must equal it. Every transaction begins by setting the writer to the fence that it knows. If another
broker has taken over meanwhile, the two differ, PostgreSQL refuses the row, and nothing of the transaction is written,
however late it comes. The same row is locked until the transaction ends, so no broker takes over in the middle of one.

The table ``alive`` says who holds the lease and when that process was last seen, by the clock of the database. It is
not the locked row: a commit that takes long does not look like a dead broker.
"""

from __future__ import annotations

import os
import socket
import threading
import time
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tamis.errors import LeaseLostError, StoreError
from tamis.runtime.stores.postgres_database import PATIENCE, DatabaseAddress, telling, with_patience

if TYPE_CHECKING:
    import psycopg

__all__ = ["LEASE_SCHEMA", "LEASE_SECONDS", "Heartbeat", "Lease"]

#: Seconds without a sign of life after which a broker counts as dead.
LEASE_SECONDS = 2.0

#: Seconds between two signs of life, and between two looks for them.
BEAT_SECONDS, LOOK_SECONDS = 0.4, 0.2

LEASE_SCHEMA = """
CREATE TABLE lease (one BIGINT PRIMARY KEY CHECK (one = 1), fence BIGINT NOT NULL, writer BIGINT NOT NULL,
                    CONSTRAINT fenced CHECK (writer = fence));
INSERT INTO lease VALUES (1, 0, 0);
CREATE TABLE alive (one BIGINT PRIMARY KEY CHECK (one = 1), holder TEXT NOT NULL, at TIMESTAMPTZ NOT NULL);
INSERT INTO alive VALUES (1, '', '-infinity');
"""


class Lease:
    """The lease of one process on one schema."""

    def __init__(self, address: DatabaseAddress) -> None:
        self._address = address
        #: Who this is: people read the machine and the process, the rest makes it unique.
        self.holder = f"{socket.gethostname()} process {os.getpid()} {uuid.uuid4().hex[:8]}"
        #: The number that this process writes with; 0: none yet.
        self.fence = 0

    def take(self, db: psycopg.Connection[Any]) -> str:
        """Try to take the lease; return who has it when that is another process, else ""."""
        from psycopg import Rollback

        row = db.execute(
            "SELECT fence, holder, at < clock_timestamp() - make_interval(secs => %s) FROM lease, alive",
            [LEASE_SECONDS],
        ).fetchone()
        if row is None:
            raise StoreError(self._address.place, "the lease is missing")
        fence, holder, is_over = row
        if not is_over:
            return str(holder)
        self._end_writers(db, fence)
        with db.transaction():
            db.execute("SET LOCAL lock_timeout = '2s'")
            taken = db.execute("UPDATE lease SET fence = fence + 1, writer = fence + 1 WHERE fence = %s", [fence])
            seen = db.execute(
                "UPDATE alive SET holder = %s, at = clock_timestamp() "
                "WHERE at < clock_timestamp() - make_interval(secs => %s)",
                [self.holder, LEASE_SECONDS],
            )
            if not (is_taken := taken.rowcount == seen.rowcount == 1):
                raise Rollback
        if not is_taken:
            return "a broker that took over just now"
        self.fence = fence + 1
        self._name(db)
        return ""

    def renew(self, db: psycopg.Connection[Any]) -> int:
        """Write from now on through a new connection, with a new fence; return the number of the last commit.

        What the former connection has sent is decided then: a transaction that holds the lease's row ends first, and
        one that comes later bears an old fence.
        """
        self._end_writers(db, self.fence)
        with db.transaction():
            db.execute("SET LOCAL lock_timeout = '2s'")
            row = db.execute(
                "UPDATE lease SET fence = fence + 1, writer = fence + 1 FROM alive WHERE holder = %s RETURNING fence",
                [self.holder],
            ).fetchone()
            if row is None:
                raise LeaseLostError(
                    self._address.place, "another broker has taken over; this one stops and has written nothing since"
                )
            [number] = db.execute("SELECT number FROM books").fetchone() or [-1]
        self.fence = row[0]
        self._name(db)
        return int(number)

    def release(self, db: psycopg.Connection[Any]) -> None:
        """Let another process take over at once."""
        db.execute("UPDATE alive SET at = '-infinity' WHERE holder = %s", [self.holder])

    def _name(self, db: psycopg.Connection[Any]) -> None:
        db.execute("SELECT set_config('application_name', %s, false)", [self._writer(self.fence)])

    def _end_writers(self, db: psycopg.Connection[Any], fence: int) -> None:
        """End connections that wrote with a fence: one that was cut off in a transaction would hold the row for long.

        Safety depends on the fence alone.
        """
        db.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE application_name = %s AND pid <> pg_backend_pid()",
            [self._writer(fence)],
        )

    def _writer(self, fence: int) -> str:
        return f"tamis {fence} {self._address.schema}".encode()[:63].decode(errors="ignore")


class Heartbeat:
    """A thread that shows that the holder of a lease lives, on its own connection; ``lost`` is called at its end."""

    def __init__(self, address: DatabaseAddress, lease: Lease, lost: Callable[[StoreError], object]) -> None:
        self._address = address
        self._lease = lease
        self._lost = lost
        self._stopped = threading.Event()
        #: When the database answered last, by this machine's clock.
        self._answered = time.monotonic()
        self._db: psycopg.Connection[Any] | None = None
        self._thread = threading.Thread(target=self._run, name="tamis-lease", daemon=True)

    @property
    def is_silent(self) -> bool:
        """Whether the database has not answered for as long as the lease lasts: another process may have it."""
        return time.monotonic() - self._answered > LEASE_SECONDS

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End; the lease lasts until it is over or released."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        try:
            while not self._stopped.wait(BEAT_SECONDS):
                with_patience(self._address.place, self._beat, PATIENCE)
        except StoreError as error:
            self._lost(error)
        finally:
            if self._db is not None:
                self._db.close()

    def _beat(self) -> None:
        if self._stopped.is_set():
            return
        if self._db is None or self._db.closed:
            self._db = self._address.connect(f"tamis lease {self._address.schema}")
        with telling(self._address.place):
            seen = self._db.execute(
                "UPDATE alive SET at = clock_timestamp() WHERE holder = %s", [self._lease.holder]
            ).rowcount
        if seen != 1:
            raise LeaseLostError(self._address.place, "another broker has taken over; this one stops")
        self._answered = time.monotonic()
