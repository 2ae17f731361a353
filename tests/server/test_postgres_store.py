"""A store in PostgreSQL: servers that die, connections that break, disks that are full, brokers that were replaced."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from tamis.cli.main import app
from tamis.errors import DiskFullError, LeaseLostError, ModelError, StoreError
from tamis.node.effects import Persist
from tamis.runtime.disk.head import HEAD, Head
from tamis.runtime.stores import postgres_connections
from tamis.runtime.stores.database import Database
from tamis.runtime.stores.lease import Lease
from tamis.runtime.stores.postgres_store import PostgresStore
from tamis.runtime.stores.protocol import StandbyStoppedError
from tests.server.postgres import PostgresEngine, PostgresServer, needs_postgres, postgres
from tests.server.processes import HANGS
from tests.server.test_store import Disk, applied, history, loaded

__all__ = ["postgres"]

pytestmark = needs_postgres


@pytest.fixture
def engine(postgres: PostgresServer, tmp_path: Path) -> PostgresEngine:
    return PostgresEngine(postgres, tmp_path)


@contextlib.contextmanager
def opened(engine: PostgresEngine) -> Iterator[PostgresStore]:
    store = engine.open()
    assert isinstance(store, PostgresStore)
    with contextlib.closing(store):
        yield store


def number_of(engine: PostgresEngine) -> int:
    return int(engine.execute("SELECT number FROM books")[0][0])


def take_over(engine: PostgresEngine) -> None:
    """Let the lease look as if its holder had died."""
    engine.execute("UPDATE alive SET at = '-infinity'")


class _Killer(threading.Thread):
    """Kills the server again and again, and starts it again."""

    def __init__(self, server: PostgresServer, signals: list[int], rng: random.Random) -> None:
        super().__init__(daemon=True)
        self.server, self.signals, self.rng = server, signals, rng
        self.is_over = threading.Event()

    def run(self) -> None:
        for number in self.signals:
            self.is_over.wait(self.rng.uniform(0.05, 0.4))
            self.server.kill(number)
            self.server.start()
        self.is_over.set()


def commit_beneath(engine: PostgresEngine, killer: _Killer, rng: random.Random) -> None:
    """Commit while the server is killed; what was confirmed is there afterwards, each commit once."""
    disk, count = Disk(), 0
    with opened(engine) as store:
        store._writer.patience = HANGS
        store.load()
        commits = iter(history(rng, 100_000))
        killer.start()
        while not killer.is_over.is_set() or count < 20:
            changes = next(commits)
            store.commit(changes, now=count)
            disk, count = applied(disk, changes), count + 1
            if count % 7 == 3:
                store.trim(count - 2)
        killer.join()
        assert number_of(engine) == count
    with opened(engine) as again:
        assert loaded(again) == disk


def test_no_kill_of_the_server_loses_or_repeats_a_commit(engine: PostgresEngine) -> None:
    rng = random.Random(1)
    commit_beneath(engine, _Killer(engine.server, [signal.SIGQUIT, signal.SIGKILL], rng), rng)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(20))
def test_soak_server_kills_of_postgres(engine: PostgresEngine, seed: int) -> None:
    rng = random.Random(seed)
    signals = rng.choices([signal.SIGQUIT, signal.SIGKILL, signal.SIGINT], k=20)
    commit_beneath(engine, _Killer(engine.server, signals, rng), rng)


@pytest.mark.parametrize("is_durable", [True, False])
def test_a_commit_whose_outcome_is_unknown_is_looked_up(
    engine: PostgresEngine, monkeypatch: pytest.MonkeyPatch, is_durable: bool
) -> None:
    """The connection breaks after the commit, or before it; the store is not told which."""
    with opened(engine) as store:
        store.load()
        store.commit([Persist(("schema",), b"1")], now=0)
        write, attempts = store._writer.write, []

        def cut(action: Callable[[Database], object]) -> bool:
            attempts.append(action)
            if len(attempts) > 1:
                return write(action)
            if is_durable:
                assert write(action)
            store._writer.db.close()
            return False

        monkeypatch.setattr(store._writer, "write", cut)
        changes = history(random.Random(2), 1)[0]
        store.commit(changes, now=1)
        assert len(attempts) == (1 if is_durable else 2)
        assert (number_of(engine), store.tables.books.number, store.fence) == (2, 2, 2)
        store.commit([Persist(("tokens",), b"2")], now=2)
    with opened(engine) as again:
        assert loaded(again) == applied({("schema",): b"1", ("tokens",): b"2"}, changes)


def test_a_server_that_stays_away_stops_the_broker_and_loses_nothing(engine: PostgresEngine) -> None:
    with opened(engine) as store:
        store.load()
        store.commit([Persist(("schema",), b"1")], now=0)
        store._writer.patience = 0.3
        engine.server.kill()
        try:
            with pytest.raises(StoreError, match="What was confirmed is in it: start the broker again"):
                store.commit([Persist(("schema",), b"2")], now=1)
        finally:
            engine.server.start()
    with opened(engine) as again:
        assert again.load() == {("schema",): b"1"}


def test_a_broker_that_was_replaced_cannot_write(engine: PostgresEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its connections live on, as those of a machine that was cut off: only the fence stops it."""
    monkeypatch.setattr(Lease, "_end_writers", lambda self, db, fence: None)
    with opened(engine) as first:
        first.load()
        first.commit([Persist(("schema",), b"1")], now=0)
        first._heartbeat.stop()
        take_over(engine)
        with opened(engine) as second:
            assert second.fence == 2
            assert second.load() == {("schema",): b"1"}
            for write in (
                lambda: first.commit([Persist(("schema",), b"old")], now=1),
                lambda: first.trim(2),
                lambda: first.trim_audit(keep=0, before=0),
            ):
                with pytest.raises(LeaseLostError, match="another broker has taken over"):
                    write()
            second.commit([Persist(("tokens",), b"2")], now=1)
            assert number_of(engine) == 2
        with pytest.raises(LeaseLostError, match="another broker has taken over"):
            first._writer.renew()
    with opened(engine) as third:
        assert third.load() == {("schema",): b"1", ("tokens",): b"2"}


def test_a_broker_notices_that_it_was_replaced(engine: PostgresEngine) -> None:
    is_noticed, errors = threading.Event(), list[StoreError]()
    with opened(engine) as store:
        store.on_damage = lambda error: (errors.append(error), is_noticed.set())
        engine.execute("UPDATE alive SET holder = 'another'")
        assert is_noticed.wait(HANGS)
    assert isinstance(errors[0], LeaseLostError)


def test_a_writer_that_hangs_in_a_transaction_does_not_stop_its_standby(engine: PostgresEngine) -> None:
    with opened(engine) as first:
        first._heartbeat.stop()
        first._writer.db.execute("BEGIN")
        first._writer.db.execute("UPDATE lease SET writer = %s", [first.fence])  # and nothing more: it holds the row
        take_over(engine)
        with opened(engine) as second:
            assert second.fence == 2


def test_a_store_that_was_closed_is_free_at_once(engine: PostgresEngine) -> None:
    with opened(engine):
        assert engine.execute("SELECT at > '-infinity' FROM alive") == [(True,)]
    assert engine.execute("SELECT at > '-infinity' FROM alive") == [(False,)]


def test_a_standby_can_be_stopped(engine: PostgresEngine) -> None:
    stopped = threading.Event()
    with opened(engine):
        threading.Timer(0.2, stopped.set).start()
        with pytest.raises(StandbyStoppedError):
            PostgresStore(engine.server.url, engine.name, engine.directory, stopped=stopped)


def test_a_database_that_lags_behind_what_was_confirmed_is_refused(engine: PostgresEngine) -> None:
    with opened(engine) as store:
        store.load()
        store.commit([Persist(("schema",), b"1")], now=0)
    head = Head(engine.directory)
    head.write(5)
    head.close()
    with opened(engine) as again, pytest.raises(StoreError, match="commit 5 was confirmed, the database ends at 1"):
        again.load()


def test_a_server_that_does_not_flush_is_refused(engine: PostgresEngine) -> None:
    with contextlib.closing(engine.server.connect()) as db:
        db.execute("ALTER SYSTEM SET fsync = off")
        db.execute("SELECT pg_reload_conf()")
        try:
            while db.execute("SHOW fsync").fetchone() != ("off",):
                pass
            with pytest.raises(StoreError, match="fsync is off"):
                engine.open()
        finally:
            db.execute("ALTER SYSTEM RESET fsync")
            db.execute("SELECT pg_reload_conf()")
        while db.execute("SHOW fsync").fetchone() != ("on",):
            pass


def test_no_password_is_in_an_address_or_a_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ModelError, match="PGPASSWORD") as error:
        PostgresStore("postgresql://tamis:secret@localhost/tamis", "b", tmp_path)
    assert "secret" not in str(error.value)
    monkeypatch.setenv("PGPASSWORD", "secret")
    with pytest.raises(StoreError, match="PostgreSQL does not answer") as refused:
        PostgresStore("postgresql://tamis@127.0.0.1:1/tamis", "b", tmp_path)
    assert "secret" not in str(refused.value)


@pytest.fixture
def small_database(postgres: PostgresServer) -> Iterator[PostgresServer]:
    """A database on a file system of 24 MiB; the server's log of changes is elsewhere."""
    disk = postgres.directory / "small"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=24m,mode=777", "tmpfs", str(disk)]
    mounted = subprocess.run(command, capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip(f"not run: a file system cannot be mounted here ({mounted.stderr.decode().strip()})")
    try:
        with contextlib.closing(postgres.connect()) as db:
            (disk / "space").mkdir()
            os.chown(disk / "space", postgres.directory.stat().st_uid, -1)
            db.execute(f"CREATE TABLESPACE small LOCATION '{disk / 'space'}'")
            db.execute("CREATE DATABASE small TABLESPACE small")
            db.execute("CHECKPOINT")  # its files have holes until then, which a read may have to fill
            yield PostgresServer(postgres.directory, database="small")
            db.execute("DROP DATABASE small WITH (FORCE)")
            db.execute("DROP TABLESPACE small")
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


@pytest.fixture
def small_log(tmp_path: Path) -> Iterator[tuple[PostgresServer, Callable[[], None]]]:
    """A server whose log of changes (WAL) has a file system of 24 MiB, and how to enlarge that."""
    disk = Path(tempfile.mkdtemp(prefix="tamis-wal-", dir="/tmp"))
    mount = ["mount", "-t", "tmpfs", "tmpfs", str(disk), "-o"]
    mounted = subprocess.run([*mount, "size=24m,mode=777"], capture_output=True, check=False)
    if mounted.returncode:
        disk.rmdir()
        pytest.skip(f"not run: a file system cannot be mounted here ({mounted.stderr.decode().strip()})")
    server = PostgresServer()
    try:
        yield (
            server.make("-X", str(disk / "wal"), "--wal-segsize=1").start(),
            lambda: subprocess.run([*mount, "remount,size=200m"], check=True) and None,
        )
    finally:
        server.remove()
        subprocess.run(["umount", "-l", str(disk)], check=True)
        disk.rmdir()


def test_a_full_disk_of_the_servers_log_stops_the_broker_and_loses_nothing(
    small_log: tuple[PostgresServer, Callable[[], None]], tmp_path: Path
) -> None:
    """PostgreSQL itself stops when it cannot write its log; with more room it starts with all that was confirmed."""
    server, enlarge = small_log
    engine, body = PostgresEngine(server, tmp_path), random.Random(5).randbytes(100_000)
    confirmed = 0
    with opened(engine) as store:
        store.load()
        store._writer.patience = 2.0
        with pytest.raises(StoreError, match="PostgreSQL"):  # noqa: PT012 - which commit it is depends on PostgreSQL
            while confirmed < 1_000:
                store.commit([Persist(("out", "a", str(confirmed + 1)), body)], now=confirmed)
                confirmed += 1
    assert 50 < confirmed < 400  # the log was full: 24 MiB hold no more
    server.kill()
    enlarge()
    server.start()
    with opened(engine) as again:
        stored = loaded(again)
        expected = {("out", "a", str(n)): body for n in range(1, confirmed + 1)}
        assert stored in (expected, expected | {("out", "a", str(confirmed + 1)): body})  # one was under way
        again.commit([Persist(("tokens",), b"1")], now=0)


def test_damage_of_a_page_is_noticed(postgres: PostgresServer, tmp_path: Path) -> None:
    """Not a record but the file beneath it: PostgreSQL's own checksum of the page tells, and nothing is repaired."""
    engine = PostgresEngine(postgres, tmp_path)
    with opened(engine) as store:
        store.load()
        for number in range(1, 30):
            store.commit([Persist(("out", "a", str(number)), bytes(1_000))], now=number)
    engine.execute("CHECKPOINT")
    [(path,)] = engine.execute("SELECT pg_relation_filepath('outbox')")
    postgres.kill()
    with (postgres.directory / "data" / path).open("r+b") as file:
        file.seek(8_192 + 4_000)  # within a body on the second page
        file.write(b"damage")
    postgres.start()
    with pytest.raises(StoreError, match="DataCorrupted: invalid page in block 1"), opened(engine) as again:
        loaded(again)


def fill(store: PostgresStore, body: bytes) -> int:
    """Commit messages until the disk is full; return the number of the one that was refused."""
    number = 0
    with contextlib.suppress(DiskFullError):
        while True:
            number += 1
            store.commit([Persist(("out", "a", str(number)), body)], now=number)
    return number


def test_a_full_disk_of_the_server_is_refused_and_forgotten(small_database: PostgresServer, tmp_path: Path) -> None:
    engine, body = PostgresEngine(small_database, tmp_path), random.Random(3).randbytes(200_000)
    filler = small_database.directory / "small" / "filler"
    filler.write_bytes(bytes(4 << 20))
    with opened(engine) as store:
        store.load()
        number = fill(store, body)
        refused = [Persist(("out", "a", str(number)), body), Persist(("tokens",), b"1")]
        with pytest.raises(DiskFullError, match="the disk is full"):
            store.commit(refused, now=number)
        assert [message for message, _ in store.read_outbox("a", number - 2)] == [number - 1]
        assert number_of(engine) == number - 1
        filler.unlink()
        store.commit(refused, now=number)
    with opened(engine) as again:
        expected = {("out", "a", str(n)): body for n in range(1, number + 1)}
        assert loaded(again) == expected | {("tokens",): b"1"}


def test_a_restored_database_begins_a_new_life(engine: PostgresEngine) -> None:
    """What `pg_restore` brings back is older than what was confirmed: it is refused until a new life begins."""
    with opened(engine) as store:
        store.load()
        store.commit([Persist(("epoch",), b"5"), Persist(("schema",), b"1")], now=0)
        store.commit(history(random.Random(4), 1)[0], now=1)
    engine.execute("UPDATE books SET number = 1")
    options = ["--store", engine.server.url, "--name", engine.name, "--data", str(engine.directory), "--json"]
    run = CliRunner().invoke(app, ["serve", "restore", *options])
    assert run.exit_code == 0, run.output
    with opened(engine) as again:
        stored = again.load()
        assert int(stored["epoch",]) > 5
        assert stored["schema",] == b"1"
        assert [record.deed.what for record in again.read_audit()] == ["restore", "subscribe"]


def restore(engine: PostgresEngine, name: str = "") -> Result:
    options = ["--store", engine.server.url, "--name", name or engine.name, "--data", str(engine.directory)]
    return CliRunner().invoke(app, ["serve", "restore", *options])


def test_a_restore_that_is_refused_leaves_the_head(engine: PostgresEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The head is what notices an older copy; without it the broker would start on one and use numbers twice."""
    with opened(engine) as store:
        store.load()
        store.commit([Persist(("epoch",), b"5"), Persist(("schema",), b"1")], now=0)
        store.commit(history(random.Random(4), 1)[0], now=1)
        head = (engine.directory / HEAD).read_bytes()
        monkeypatch.setattr(postgres_connections, "LEASE_SECONDS", -1.0)  # do not wait for the holder
        refused = restore(engine)
        assert (refused.exit_code, "another broker is alive" in refused.stderr) == (2, True)
        assert (engine.directory / HEAD).read_bytes() == head
    engine.execute("UPDATE books SET number = 1, records = 9")
    refused = restore(engine)
    assert (refused.exit_code, "records were kept" in refused.stderr) == (2, True)
    assert (engine.directory / HEAD).read_bytes() == head


def test_a_restore_of_a_broker_that_is_not_in_the_database_makes_nothing(engine: PostgresEngine) -> None:
    with opened(engine) as store:
        store.load()
        store.commit([Persist(("epoch",), b"5")], now=0)
    refused = restore(engine, "typo")
    assert refused.exit_code == 2
    problem, _, names = refused.stderr.strip().partition("; brokers: ")
    assert problem.endswith("there is nothing of a broker 'typo' in it")
    assert engine.name in names.split(", ")
    with contextlib.closing(engine.server.connect()) as db:
        assert db.execute("SELECT 1 FROM pg_namespace WHERE nspname = 'tamis_typo'").fetchall() == []


@pytest.mark.parametrize(
    ("command", "advice"),
    [
        (["backup", "TARGET"], "copy it with pg_dump"),
        (["check"], "run pg_amcheck"),
        (["compact"], "autovacuum compacts it"),
        (["migrate"], "there is nothing to migrate"),
        (["audit"], "ask the running broker for its audit, with --url instead of --data"),
    ],
)
def test_commands_for_files_name_what_postgresql_has_instead(tmp_path: Path, command: list[str], advice: str) -> None:
    Head(tmp_path).close()
    arguments = [str(tmp_path / "backup") if part == "TARGET" else part for part in command]
    run = CliRunner().invoke(app, ["serve", *arguments, "--data", str(tmp_path)])
    assert run.exit_code == 2  # 1 is what `check` calls damage
    assert f"is in PostgreSQL, not in files: {advice}" in " ".join(run.stderr.split())
    assert "damaged" not in run.output


def test_a_server_that_refuses_the_connection_is_not_said_to_be_silent(engine: PostgresEngine) -> None:
    for url, problem in (
        (engine.server.url.replace("/postgres?", "/nodb?"), 'database "nodb" does not exist'),
        (engine.server.url.replace("tamis@", "stranger@"), 'role "stranger" does not exist'),
    ):
        with pytest.raises(StoreError) as refused:
            PostgresStore(url, engine.name, engine.directory)
        assert refused.value.problem == f"PostgreSQL refuses the connection: {problem}"


def test_a_connection_that_is_lost_puts_no_line_of_psycopg_into_the_log(
    engine: PostgresEngine, caplog: pytest.LogCaptureFixture
) -> None:
    def lose(database: Database) -> None:
        engine.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
        while True:
            database.execute("SELECT 1")

    with opened(engine) as store:
        store.load()
        assert not store._writer.write(lose)
    assert [record.getMessage() for record in caplog.records if record.name.startswith("psycopg")] == []
