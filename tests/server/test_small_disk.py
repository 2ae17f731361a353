"""A broker's file on a real file system of a few MiB: it fills it, drains it and goes on (promises G15, G21)."""

from __future__ import annotations

import contextlib
import errno
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from tamis.errors import DiskFullError, StoreError
from tamis.node.effects import Persist
from tamis.runtime.disk.room import RESERVE_BYTES, is_quota_error
from tamis.runtime.stores.messages import PAGE_BYTES
from tamis.runtime.stores.retention import Retention
from tamis.runtime.stores.sqlite_store import SqliteStore
from tests.effort import effort
from tests.server.processes import BrokerProcess, ask, running, wait_until
from tests.server.test_links import two_brokers

BODY = bytes(range(256)) * 256


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 24 MiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", disk], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"not run: a file system cannot be mounted here ({mounted.stderr.decode().strip()})")
    yield disk
    subprocess.run(["umount", disk], check=True)


def message(number: int, body: bytes | None = BODY) -> Persist:
    return Persist(("out", "a", str(number)), body)


def filled(store: SqliteStore) -> int:
    """Fill the disk with messages for a link; return how many were taken."""
    number = 0
    with contextlib.suppress(DiskFullError):
        while True:
            store.commit([message(number + 1)], now=number)
            number += 1
    return number


def fill(file: BinaryIO) -> None:
    while True:
        file.write(BODY)


def test_a_disk_that_the_broker_filled_heals(small_disk: Path) -> None:
    store = SqliteStore(small_disk / "data")
    store.load()
    assert (small_disk / "data" / "reserve").stat().st_size == RESERVE_BYTES
    taken = filled(store)
    assert (small_disk / "data" / "reserve").exists(), "it is not for what adds"
    assert store.free() < 1 << 20
    store.trim(before=10**9)  # nothing is acknowledged: nothing goes
    numbers: list[int] = []
    while page := store.read_outbox("a", numbers[-1] if numbers else 0, 10_000):
        assert sum(len(body) for _, body in page) <= PAGE_BYTES
        numbers += [number for number, _ in page]
    assert numbers == list(range(1, taken + 1))
    for number in range(1, taken + 1):
        store.commit([message(number, None)], now=taken)
    while store.trim(before=10**9):
        pass
    assert store.free() > 12 << 20
    assert store.size() < 4 << 20, "the file gives its pages back"
    store.commit([message(taken + 1)], now=taken)
    store.trim(before=0)
    assert (small_disk / "data" / "reserve").exists()
    store.close()
    again = SqliteStore(small_disk / "data")
    assert again.load() == {}
    assert {link: (backlog.acknowledged, len(backlog.sizes)) for link, backlog in again.take_backlogs().items()} == {
        "a": (taken, 1)
    }
    again.close()


def test_acknowledgements_go_through_on_a_disk_that_others_filled(small_disk: Path) -> None:
    store = SqliteStore(small_disk / "data")
    store.load()
    store.commit([message(number) for number in range(1, 20)], now=0)
    with (small_disk / "other").open("wb") as other, pytest.raises(OSError, match="No space"):
        fill(other)
    store.commit([message(number, None) for number in range(1, 20)], now=1)
    store.close()
    (small_disk / "other").unlink()
    again = SqliteStore(small_disk / "data")
    assert again.load() == {}
    again.close()


def test_withdrawals_and_acknowledgements_go_through_beside_a_link_on_a_full_disk(small_disk: Path) -> None:
    """A withdrawal is announced to neighbours, so it writes messages; what comes behind it must not wait for them."""
    north, south = two_brokers(small_disk)
    for broker in (north, south):
        broker.config = f"min_free = 1048576\n{broker.config}"
    events, subscriptions = f"{south.url}/v1/events", f"{south.url}/v1/subscriptions"
    with running(north, south):
        for id in "ab":
            assert ask(subscriptions, "POST", {"id": id, "filter": f"mag > {ord(id)}"}).status == 201
        assert ask(events, "POST", [{"mag": 1_000}] * 5).status == 200
        wait_until(lambda: linked(south)["in_step"] and not linked(south)["waiting"], "the link")
        north.kill()
        with (small_disk / "other").open("wb", buffering=0) as other, pytest.raises(OSError, match="No space"):
            fill(other)
        wait_until(lambda: ask(events, "POST", {"mag": 1}).status == 507, "the refusal of an event")
        assert ask(f"{subscriptions}/a", "DELETE").status == 204
        assert linked(south)["waiting"] > 0
        last = ask(f"{subscriptions}/b/log").json["messages"][-1]["cursor"]
        assert ask(f"{subscriptions}/b/acknowledge", "POST", {"cursor": last}).status in (200, 204)
        assert ask(f"{subscriptions}/b").json["waiting"] == 0
        south.kill()
        south.start().wait_until_ready()
        assert ask(f"{subscriptions}/a").status == 404
        assert ask(f"{subscriptions}/b").json["waiting"] == 0


def linked(broker: BrokerProcess) -> dict[str, Any]:
    [link] = ask(f"{broker.url}/v1/links").json["links"]
    shown: dict[str, Any] = link
    return shown


def test_a_file_that_never_shrank_is_rewritten_once(tmp_path: Path) -> None:
    import apsw

    store = SqliteStore(tmp_path)
    store.load()
    store.commit([message(1, b"1")], now=0)
    store.close()
    db = apsw.Connection(str(tmp_path / "broker.sqlite"))
    for pragma in ("journal_mode=DELETE", "auto_vacuum=NONE"):
        db.execute(f"PRAGMA {pragma}").fetchall()
    db.execute("VACUUM").fetchall()
    assert db.execute("PRAGMA auto_vacuum").fetchone() == (0,)
    db.close()
    again = SqliteStore(tmp_path)
    assert again.load() == {}
    assert {link: (backlog.acknowledged, len(backlog.sizes)) for link, backlog in again.take_backlogs().items()} == {
        "a": (0, 1)
    }
    assert again._db.execute("PRAGMA auto_vacuum").fetchone() == (2,)
    again.close()


def test_room_counts_the_free_pages_within_the_file(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    store.load()
    store.commit([message(number) for number in range(1, 200)], now=0)
    store.commit([message(number, None) for number in range(1, 200)], now=1)
    with store._transaction():
        store.tables.retention.trim(store._db, 10**12, None)
    pages = store._reader.execute("PRAGMA freelist_count").fetchone()[0]
    assert pages > 1_000
    assert store.free() >= store.room._left() + pages * 4_096 - (1 << 20)
    store.close()


def test_what_is_kept_is_bounded_in_bytes_and_the_largest_link_gives_first(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    store.load()
    for link, count in (("a", 600), ("b", 20)):
        store.commit([Persist(("out", link, str(n)), bytes(1_000)) for n in range(1, count + 1)], now=5)
        store.commit([Persist(("out", link, str(n)), None) for n in range(1, count - 9)], now=6)
    assert store.tables.retention.kept_bytes == {"a": 590_000, "b": 10_000}
    assert store.trim(before=0, max_bytes=200_000) > 0
    assert sum(store.tables.retention.kept_bytes.values()) <= 200_000
    assert store.tables.retention.kept_bytes["b"] == 10_000
    assert [number for number, _ in store.read_outbox("a", 0, 1_000)][-10:] == list(range(591, 601))
    store.close()
    again = SqliteStore(tmp_path)
    again.load()
    assert again.tables.retention.kept_bytes == store.tables.retention.kept_bytes
    again.close()


def test_trimming_costs_what_goes_and_not_what_stays(tmp_path: Path) -> None:
    def cost(n: int) -> float:
        store = SqliteStore(tmp_path / str(n))
        store.load()
        store.commit([message(number, b"x") for number in range(1, n + 1)], now=100)
        store.commit([message(number, None) for number in range(1, n + 1)], now=200)
        retention: Retention = store.tables.retention
        work = effort(lambda: [retention.trim(store._db, 50_000_000, 10**9) for _ in range(50)])
        store.close()
        return work

    assert cost(20_000) <= 6 * cost(200)


def test_a_quota_is_a_full_disk() -> None:
    assert is_quota_error(errno.EDQUOT)
    assert not is_quota_error(errno.EIO)


def test_damage_that_is_met_while_the_broker_runs_is_reported(tmp_path: Path) -> None:
    import apsw

    store = SqliteStore(tmp_path)
    store.load()
    reported: list[StoreError] = []
    store.on_damage = reported.append
    store.commit([message(1, b"1")], now=0)
    db = apsw.Connection(str(tmp_path / "broker.sqlite"))
    db.execute("UPDATE outbox SET crc = crc + 1")
    db.close()
    with pytest.raises(StoreError, match="message 1 of link 'a' is damaged"):
        store.read_outbox("a", 0)
    assert [error.problem for error in reported] == ["message 1 of link 'a' is damaged"]
    store.close()
