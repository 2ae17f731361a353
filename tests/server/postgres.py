"""PostgreSQL as a process of a test: started, killed, started again; and stores of both engines to compare."""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tamis.runtime.stores.protocol import Store
from tamis.runtime.stores.sqlite_store import SqliteStore
from tests.server.processes import HANGS, wait_until

#: Debian has the programs of the server in a folder of each version.
_FOLDERS = ":".join(str(path) for path in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True))
PROGRAM = shutil.which("postgres") or shutil.which("postgres", path=_FOLDERS)

needs_postgres = pytest.mark.skipif(PROGRAM is None, reason="not run: postgres is not installed (make setup-ci)")

#: The account of Linux that owns no files.
WITHOUT_RIGHTS = 65534

SETTINGS = {
    "listen_addresses": "",
    "shared_buffers": "16MB",
    "max_connections": "40",
    "autovacuum": "off",
    "max_wal_size": "256MB",
}


def _as_user() -> list[str]:
    """The start of a command that does not run as root: PostgreSQL refuses that."""
    if os.getuid():
        return []
    accounts = {account.pw_name: account for account in pwd.getpwall()}
    account = accounts.get("postgres") or pwd.getpwuid(WITHOUT_RIGHTS)
    return ["setpriv", f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--clear-groups"]


@dataclass
class PostgresServer:
    """One server that listens at a socket in a directory of its own, which its user may enter."""

    directory: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="tamis-postgres-", dir="/tmp")))
    process: subprocess.Popen[bytes] | None = None
    database: str = "postgres"

    @property
    def url(self) -> str:
        return f"postgresql://tamis@/{self.database}?host={self.directory}"

    def make(self, *more: str) -> PostgresServer:
        """Make a database cluster, with more options of initdb."""
        assert PROGRAM is not None
        command = _as_user()
        if command:
            os.chown(self.directory, int(command[1].split("=")[1]), -1)
        initdb = str(Path(PROGRAM).resolve().parent / "initdb")
        options = ["-U", "tamis", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C", "-k"]
        data = str(self.directory / "data")
        subprocess.run([*command, initdb, "-D", data, *options, *more], check=True, capture_output=True, cwd="/")
        return self

    def replica(self) -> PostgresServer:
        """A second server that has every commit before it is confirmed; `promote` makes it the first."""
        copy = PostgresServer()
        command = _as_user()
        if command:
            os.chown(copy.directory, int(command[1].split("=")[1]), -1)
        assert PROGRAM is not None
        backup = str(Path(PROGRAM).resolve().parent / "pg_basebackup")
        source = f"host={self.directory} user=tamis application_name=copy"
        options = ["-D", str(copy.directory / "data"), "-R", "--checkpoint=fast", "--no-sync"]
        subprocess.run([*command, backup, "-d", source, *options], check=True, capture_output=True, cwd="/")
        copy.start()
        with contextlib.closing(self.connect()) as db:
            db.execute("ALTER SYSTEM SET synchronous_standby_names = 'copy'")
            db.execute("ALTER SYSTEM SET synchronous_commit = 'remote_apply'")
            db.execute("SELECT pg_reload_conf()")
            waiting = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'"
            wait_until(lambda: db.execute(waiting).fetchone() == (1,), "the replica")
        return copy

    def promote(self) -> None:
        with contextlib.closing(self.connect()) as db:
            assert db.execute("SELECT pg_promote()").fetchone() == (True,)

    def start(self) -> PostgresServer:
        """Start the server; what a killed one left may still be there for a moment."""
        end = time.monotonic() + HANGS
        while time.monotonic() < end:
            self._run()
            while self.process is not None and self.process.poll() is None:
                with contextlib.suppress(Exception), contextlib.closing(self.connect()):
                    return self
                time.sleep(0.05)
        raise TimeoutError((self.directory / "log").read_text())

    def _run(self) -> None:
        assert PROGRAM is not None
        settings = {**SETTINGS, "unix_socket_directories": str(self.directory)}
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        with (self.directory / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [*_as_user(), PROGRAM, "-D", str(self.directory / "data"), *options], stdout=log, stderr=log, cwd="/"
            )

    def connect(self) -> Any:
        import psycopg

        return psycopg.connect(self.url, autocommit=True)

    def kill(self, number: int = signal.SIGQUIT) -> None:
        """End the server as a power cut does: SIGQUIT ends its processes, SIGKILL leaves them to notice."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)
            self.process.wait(HANGS)

    def remove(self) -> None:
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    """One server for the tests of a module; each test has schemas of its own."""
    server = PostgresServer()
    try:
        yield server.make().start()
    finally:
        server.remove()


class SqliteEngine:
    """Stores in a directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def open(self) -> Store:
        return SqliteStore(self.directory)

    def damage(self, statement: str) -> None:
        """Change what is kept behind the store's back; the engine itself finds nothing wrong with that."""
        import apsw

        connection = apsw.Connection(str(self.directory / "broker.sqlite"))
        assert connection.execute(f"{statement} RETURNING 1").fetchall()
        connection.close()


class PostgresEngine:
    """Stores in a schema of PostgreSQL."""

    def __init__(self, server: PostgresServer, directory: Path) -> None:
        self.server = server
        self.directory = directory
        self.name = f"{directory.name}_{time.monotonic_ns()}"[-50:]

    def open(self) -> Store:
        from tamis.runtime.stores.postgres_store import PostgresStore

        return PostgresStore(self.server.url, self.name, self.directory)

    def execute(self, statement: str) -> list[Any]:
        with contextlib.closing(self.server.connect()) as db:
            db.execute(f'SET search_path = "tamis_{self.name}"')
            cursor = db.execute(re.sub("X'([0-9a-f]*)'", r"'\\x\1'::bytea", statement))
            return list(cursor.fetchall()) if cursor.description else []

    def damage(self, statement: str) -> None:
        """Change what is kept behind the store's back."""
        assert self.execute(f"{statement} RETURNING 1")


Engine = SqliteEngine | PostgresEngine


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=needs_postgres)])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Engine:
    """Each engine in turn: a store must not show which one it is."""
    if request.param == "sqlite":
        return SqliteEngine(tmp_path)
    return PostgresEngine(request.getfixturevalue("postgres"), tmp_path)
