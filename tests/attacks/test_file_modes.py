"""Attack: another user of the machine reads the events, subscriptions and token digests of a broker from its files.

A broker makes its directory for its own user only (0700) and all files in it (0600), whatever the umask; files that an
earlier version left readable are closed when the broker opens them.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from tamis.runtime.stores.sqlite_store import SqliteStore
from tests.attacks.callers import tokens_beside
from tests.server.postgres import PostgresServer, needs_postgres, postgres
from tests.server.processes import BrokerProcess, ask, running, wait_until

__all__ = ["postgres"]


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def check(data: Path) -> None:
    files = {path.name: mode(path) for path in data.iterdir()}
    assert {"broker.sqlite", "broker.sqlite-wal", "broker.sqlite-shm", "head", "lock"} <= set(files)
    assert set(files.values()) == {0o600}, files


@pytest.fixture
def no_umask() -> object:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("no_umask")
def test_the_files_of_a_broker_are_its_own(tmp_path: Path) -> None:
    with running(BrokerProcess(tmp_path)) as (broker,):
        assert ask(f"{broker.url}/v1/events", "POST", {"n": 1}).status == 200
        tokens_beside(tmp_path).add("alice")
        assert mode(tmp_path / "data") == 0o700
        check(tmp_path / "data")
    for path in (tmp_path / "data").iterdir():
        path.chmod(0o644)
    with running(broker):
        assert ask(f"{broker.url}/v1/events", "POST", {"n": 2}).status == 200
        check(tmp_path / "data")


@needs_postgres
@pytest.mark.usefixtures("no_umask")
def test_the_files_of_a_broker_with_postgresql_are_its_own(postgres: PostgresServer, tmp_path: Path) -> None:
    config = f'data = "{tmp_path / "data"}"\nstore = "{postgres.url}"\n'
    tokens_beside(tmp_path).add("alice")
    with running(BrokerProcess(tmp_path, config)) as (broker,):
        assert ask(f"{broker.url}/healthz").status == 200
        wait_until(lambda: (tmp_path / "data" / "tokens.version").exists(), "the copy of the tokens in the store")
        files = {path.name: mode(path) for path in (tmp_path / "data").iterdir()}
    assert {"head", "tokens.json", "tokens.version"} <= set(files)
    assert set(files.values()) == {0o600}, files


@pytest.mark.usefixtures("no_umask")
def test_a_directory_that_was_there_keeps_its_mode(tmp_path: Path) -> None:
    """It may be anything, /tmp even; the files in it are closed all the same."""
    tmp_path.chmod(0o755)
    store = SqliteStore(tmp_path)
    store.load()
    assert mode(tmp_path) == 0o755
    check(tmp_path)
    store.close()


@pytest.mark.usefixtures("no_umask")
def test_a_token_that_is_made_first_makes_a_private_directory(tmp_path: Path) -> None:
    tokens = tokens_beside(tmp_path)
    tokens.add("alice")
    assert (mode(tokens.path.parent), mode(tokens.path)) == (0o700, 0o600)
