"""What a broker has on disk: nothing acknowledged is lost in a power cut, and damage is never served."""

from __future__ import annotations

import contextlib
import json
import random
import shutil
from pathlib import Path

import msgspec
import pytest

from tamis.errors import DiskFullError, StoreError
from tamis.node.effects import Key, Persist
from tamis.node.records import KINDS
from tamis.routing.edge.audit import Deed
from tamis.runtime.disk import migration
from tamis.runtime.stores.messages import PAGE_BYTES
from tamis.runtime.stores.protocol import Store
from tamis.runtime.stores.sqlite_store import SqliteStore
from tests.server.faulty_files import FaultyDisk, PowerCutError
from tests.server.postgres import Engine, SqliteEngine, engine, postgres

__all__ = ["engine", "postgres"]

Disk = dict[Key, bytes]

#: Data directories that earlier releases wrote, by format.
STORES = Path(__file__).parent / "stores"

#: Kinds of records that no file of format 2 has.
NEWER = {
    "table",
    "block",
    "former",
    "held",
    "token_file",
    "progress",
    "slice",
    "types",
    "link_gap",
    "reach",
    "skipped",
    "webhook",
    "life",
    "removed",
    "said",
    "overflow",
    "overflow_end",
}

#: The power may go while SQLite closes a file, which no caller learns of.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


#: The streams of a history, and how the end of each is written.
HEADS = {
    "a": lambda link, step, sent: Persist(("link", link), msgspec.msgpack.encode((1, step, sent))),
    "o:b": lambda link, step, sent: Persist(("overflow_end", link), b"%d" % sent),
}


def kind_of(link: str) -> str:
    """The kind of the messages of a stream."""
    return "overflow" if link.startswith("o:") else "out"


def history(rng: random.Random, steps: int) -> list[list[Persist]]:
    """The commits of a broker's life: subscriptions come and go, messages are queued and acknowledged.

    One of the two streams is an overflow.
    """
    commits: list[list[Persist]] = []
    sent, acked = dict.fromkeys(HEADS, 0), dict.fromkeys(HEADS, 0)
    for step in range(steps):
        changes = [
            Persist(("interest", "a", str(rng.randrange(5))), rng.choice([None, rng.randbytes(rng.randrange(900))]))
        ]
        for link, head in HEADS.items():
            for _ in range(rng.randrange(4)):
                sent[link] += 1
                changes.append(Persist((kind_of(link), link, str(sent[link])), rng.randbytes(rng.randrange(3_000))))
            while acked[link] < sent[link] and rng.random() < 0.6:
                acked[link] += 1
                changes.append(Persist((kind_of(link), link, str(acked[link])), None))
            changes.append(head(link, step, sent[link]))
        changes.append(Persist(("audit", str(step + 1)), msgspec.msgpack.encode(Deed(step, "alice", "subscribe"))))
        commits.append(changes)
    return commits


def applied(disk: Disk, changes: list[Persist]) -> Disk:
    records = dict(disk)
    for change in changes:
        if change.value is None:
            records.pop(change.key, None)
        else:
            records[change.key] = change.value
    return records


def messages_of(store: Store) -> Disk:
    """The messages that wait, each read from the disk."""
    waiting: Disk = {}
    for link, backlog in store.take_backlogs().items():
        numbers = range(backlog.acknowledged + 1, backlog.acknowledged + len(backlog.sizes) + 1)
        for number, size in zip(numbers, backlog.sizes, strict=True):
            [(number_read, body)] = store.read_outbox(link, number - 1, 1)
            assert (number_read, len(body)) == (number, size)
            waiting[kind_of(link), link, str(number)] = body
    return waiting


def loaded(store: Store) -> Disk:
    """Everything that is on disk, the audit included."""
    records = store.load()
    records |= messages_of(store)
    deeds = {
        ("audit", str(record.number)): msgspec.msgpack.encode(record.deed) for record in store.read_audit(limit=10_000)
    }
    return records | deeds


def live(directory: Path, commits: list[list[Persist]], disk: FaultyDisk) -> tuple[Disk, Disk]:
    """Commit until the power goes; return what was acknowledged, and that with what was under way."""
    acknowledged: Disk = {}
    under_way = acknowledged
    with contextlib.suppress(PowerCutError), contextlib.ExitStack() as stack:
        store = SqliteStore(directory, vfs=disk.name)
        stack.callback(store.close)
        store.load()
        for number, changes in enumerate(commits):
            under_way = applied(acknowledged, changes)
            store.commit(changes, now=number)
            acknowledged = under_way
            if number % 7 == 3:
                store.trim(number)
    return acknowledged, under_way


def cut_at(
    directory: Path, commits: list[list[Persist]], point: int, rng: random.Random, *, lies: bool = False
) -> None:
    disk = FaultyDisk(cut=point, lies=lies)
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    acknowledged, under_way = live(directory, commits, disk)
    shutil.copytree(directory, directory.with_name("after"), dirs_exist_ok=True)
    after = directory.with_name("after")
    for path, data in disk.after_the_cut(rng).items():
        (after / Path(path).name).write_bytes(data)
    (after / "broker.sqlite-shm").unlink(missing_ok=True)
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, after)
        mended = FaultyDisk()
        store = SqliteStore(after, vfs=mended.name)
        stack.callback(store.close)
        assert loaded(store) in (acknowledged, under_way), f"power cut at point {point}"


def points_of(directory: Path, commits: list[list[Persist]]) -> int:
    disk = FaultyDisk()
    live(directory / "measured", commits, disk)
    return disk.points


def test_no_power_cut_loses_what_was_acknowledged(tmp_path: Path) -> None:
    rng = random.Random(5)
    commits = history(rng, 12)
    points = points_of(tmp_path, commits)
    assert points > 100
    for point in range(1, points + 1):
        cut_at(tmp_path / "broker", commits, point, rng)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100))
def test_soak_server_power_cuts(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    commits = history(rng, 40)
    for point in range(1, points_of(tmp_path / "points", commits) + 1):
        cut_at(tmp_path / "broker", commits, point, rng)


def test_the_test_of_power_cuts_can_fail(tmp_path: Path) -> None:
    """On a disk that says it has flushed and has not, the same cuts do lose what was acknowledged."""
    rng = random.Random(5)
    commits = history(rng, 12)
    points, lost = points_of(tmp_path, commits), 0
    for point in range(points // 2, points, 5):
        try:
            cut_at(tmp_path / "broker", commits, point, rng, lies=True)
        except (AssertionError, StoreError):
            lost += 1
    assert lost


def written(directory: Path) -> tuple[Disk, int]:
    """A store as a kill leaves it: part in the file, part in the log."""
    store, disk = SqliteStore(directory), Disk()
    store.load()
    for number, changes in enumerate(history(random.Random(7), 8)):
        store.commit(changes, now=number)
        disk = applied(disk, changes)
        if number == 3:
            store._db.wal_checkpoint()
    shutil.copytree(directory, directory.with_name("killed"))
    store.close()
    return disk, store.tables.books.number


def test_every_bit_flip_is_detected_or_harmless(tmp_path: Path) -> None:
    disk, _ = written(tmp_path / "broker")
    rng = random.Random(11)
    refused = 0
    for name in ("broker.sqlite", "broker.sqlite-wal"):
        size = (tmp_path / "killed" / name).stat().st_size
        assert size > 4_096
        for _ in range(60):
            shutil.rmtree(tmp_path / "flipped", ignore_errors=True)
            shutil.copytree(tmp_path / "killed", tmp_path / "flipped")
            (tmp_path / "flipped" / "broker.sqlite-shm").unlink(missing_ok=True)
            place = rng.randrange(size * 8)
            with (tmp_path / "flipped" / name).open("r+b") as file:
                file.seek(place // 8)
                byte = file.read(1)[0]
                file.seek(place // 8)
                file.write(bytes((byte ^ (1 << place % 8),)))
            refused += not opens_as(tmp_path / "flipped", disk)
    assert refused > 40


def opens_as(directory: Path, disk: Disk) -> bool:
    """Whether a store opens; if it does, it must hold this."""
    store = None
    try:
        store = SqliteStore(directory)
        assert loaded(store) == disk
        return True
    except StoreError:
        return False
    finally:
        if store is not None:
            store.close()


#: What is changed, and what is then said about it.
DAMAGE = [
    ("UPDATE state SET value = X'3132' WHERE value = X'3131'", "record .* is damaged"),
    ("UPDATE state SET crc = crc + 1 WHERE value = X'3131'", "record .* is damaged"),
    ("UPDATE outbox SET body = X'00' WHERE number = 2", "message 2 of link 'a' is damaged"),
    ("UPDATE outbox SET at = at + 1 WHERE number = 2", "message 2 of link 'a' is damaged"),
    ("DELETE FROM state WHERE value = X'3131'", "records were kept"),
    ("DELETE FROM outbox WHERE number = 2", "message 2 of link 'a' is missing"),
    ("DELETE FROM outbox WHERE number = 3", "message 3 of link 'a' is missing"),
    ("DELETE FROM outbox", "message 3 of link 'a' is missing"),
    ("UPDATE books SET format = 99", "expected format"),
    ("UPDATE books SET records = records + 1", "records were kept"),
]

#: SQLite has values of any type in any column.
DAMAGE_OF_TYPES = [
    ("UPDATE state SET value = '11' WHERE value = X'3131'", "record .* is damaged"),
    ("UPDATE state SET value = CAST(X'ff31' AS TEXT) WHERE value = X'3131'", "cannot be read|is damaged"),
    ("UPDATE outbox SET body = '2' WHERE number = 2", "message 2 of link 'a' is damaged"),
]


def demand_that_damage_is_refused(engine: Engine, statement: str, problem: str) -> None:
    store = engine.open()
    store.load()
    sent = [Persist(("out", "a", str(number)), b"%d" % number) for number in (1, 2, 3)]
    store.commit([Persist(("interest", "a", "1"), b"11"), Persist(("interest", "a", "2"), b"2"), *sent], now=0)
    store.commit([Persist(("link", "a"), msgspec.msgpack.encode((1, 0, 3)))], now=0)
    store.close()
    engine.damage(statement)
    again = engine.open()
    with pytest.raises(StoreError, match=problem):
        again.load()
    again.close()


@pytest.mark.parametrize(("statement", "problem"), DAMAGE)
def test_damage_that_the_engine_does_not_see_is_refused(engine: Engine, statement: str, problem: str) -> None:
    demand_that_damage_is_refused(engine, statement, problem)


@pytest.mark.parametrize(("statement", "problem"), DAMAGE_OF_TYPES)
def test_damage_that_sqlite_does_not_see_is_refused(tmp_path: Path, statement: str, problem: str) -> None:
    demand_that_damage_is_refused(SqliteEngine(tmp_path), statement, problem)


def test_a_life_is_read_back_as_it_was_written(engine: Engine) -> None:
    disk = Disk()
    for part in range(3):
        store = engine.open()
        assert loaded(store) == disk
        for number, changes in enumerate(history(random.Random(3), 30)[10 * part : 10 * part + 10]):
            store.commit(changes, now=number)
            disk = applied(disk, changes)
            if number % 4 == 1:
                store.trim(number - 1)
        assert store.size() > 0
        store.close()
    assert len(disk) > 30


def test_a_message_that_is_damaged_later_is_not_replayed(engine: Engine) -> None:
    store = engine.open()
    store.load()
    store.commit([Persist(("out", "a", "1"), b"1")], now=0)
    engine.damage("UPDATE outbox SET body = X'00'")
    reported: list[StoreError] = []
    store.on_damage = reported.append
    with pytest.raises(StoreError, match="message 1 of link 'a' is damaged") as error:
        store.read_outbox("a", 0)
    assert reported == [error.value]
    store.close()


def test_a_page_of_messages_has_a_bounded_size(engine: Engine) -> None:
    store = engine.open()
    store.load()
    store.commit([Persist(("out", "a", str(n)), bytes(PAGE_BYTES // 4 + 1)) for n in range(1, 31)], now=0)
    assert [number for number, _ in store.read_outbox("a", 2)] == [3, 4, 5]
    store.commit([Persist(("out", "a", "31"), bytes(2 * PAGE_BYTES)), Persist(("out", "a", "32"), b"")], now=0)
    assert [number for number, _ in store.read_outbox("a", 30)] == [31]
    store.close()


def test_names_of_links_may_be_anything(engine: Engine) -> None:
    names = ["c:zoë:\0", "ﬁ", "%s ? '", "a" * 300]
    store = engine.open()
    store.load()
    store.commit([Persist(("out", name, "1"), name.encode()) for name in names], now=0)
    store.close()
    again = engine.open()
    assert loaded(again) == {("out", name, "1"): name.encode() for name in names}
    again.close()


def test_a_log_that_lost_its_end_is_noticed(tmp_path: Path) -> None:
    written(tmp_path / "broker")
    log = tmp_path / "killed" / "broker.sqlite-wal"
    log.write_bytes(log.read_bytes()[: log.stat().st_size * 2 // 3])
    store = SqliteStore(tmp_path / "killed")
    with pytest.raises(StoreError, match="was confirmed, the file ends at"):
        store.load()
    store.close()


def test_a_full_disk_is_refused_and_forgotten_when_there_is_room(tmp_path: Path) -> None:
    disk = FaultyDisk()
    store = SqliteStore(tmp_path, vfs=disk.name)
    store.load()
    store.commit([Persist(("schema",), b"1")], now=0)
    disk.is_full = True
    for _ in range(3):
        with pytest.raises(DiskFullError, match="disk|full|room"):
            store.commit([Persist(("schema",), b"2" * 5_000), Persist(("tokens",), b"3")], now=1)
    disk.is_full = False
    store.commit([Persist(("tokens",), b"4")], now=2)
    store.close()
    again = SqliteStore(tmp_path)
    assert again.load() == {("schema",): b"1", ("tokens",): b"4"}
    again.close()


def test_a_disk_that_does_not_flush_stops_the_broker(tmp_path: Path) -> None:
    disk = FaultyDisk()
    store = SqliteStore(tmp_path, vfs=disk.name)
    store.load()
    disk.fails_to_flush = True
    with pytest.raises(StoreError, match="disk|flush|I/O"):
        store.commit([Persist(("schema",), b"1")], now=0)


def test_one_directory_is_for_one_process(engine: Engine) -> None:
    store = engine.open()
    with pytest.raises(StoreError, match="another process|another broker is alive"):
        engine.open()
    store.load()
    store.close()
    engine.open().close()


def test_acknowledged_messages_can_be_read_until_they_are_trimmed(engine: Engine) -> None:
    store = engine.open()
    store.load()
    store.commit([Persist(("out", "a", str(n)), b"%d" % n) for n in range(1, 6)], now=100)
    store.commit([Persist(("out", "a", str(n)), None) for n in range(1, 4)], now=200)
    assert [number for number, _ in store.read_outbox("a", 1)] == [2, 3, 4, 5]
    assert store.trim(before=150) == 3
    assert [number for number, _ in store.read_outbox("a", 0)] == [4, 5]
    store.close()
    again = engine.open()
    assert loaded(again) == {("out", "a", "4"): b"4", ("out", "a", "5"): b"5"}
    again.close()


def test_what_leaves_an_overflow_is_deleted_at_once(engine: Engine) -> None:
    with contextlib.closing(engine.open()) as store:
        store.load()
        messages = [Persist(("overflow", "o:a", str(number)), b"%d" % number) for number in range(1, 5)]
        store.commit([*messages, Persist(("overflow_end", "o:a"), b"4")], now=1)
        store.commit([Persist(("overflow", "o:a", str(number)), None) for number in (1, 2)], now=2)
        assert store.read_outbox("o:a", 0) == [(3, b"3"), (4, b"4")]
        fifth = [Persist(("overflow", "o:a", "5"), b"5"), Persist(("overflow_end", "o:a"), b"5")]
        store.commit([*fifth, *(Persist(("overflow", "o:a", str(number)), None) for number in (3, 4, 5))], now=3)
        assert store.read_outbox("o:a", 0) == []
        assert store.trim(10, max_bytes=0) == 0
    with contextlib.closing(engine.open()) as store:
        assert store.load()["overflow_end", "o:a"] == b"5"
        assert store.take_backlogs() == {}
        store.commit([Persist(("overflow_end", "o:a"), None)], now=4)  # its link is removed, and added again
        store.commit([Persist(("overflow", "o:a", "1"), b"new"), Persist(("overflow_end", "o:a"), b"1")], now=5)
        assert store.read_outbox("o:a", 0) == [(1, b"new")]


def test_a_record_of_no_known_kind_is_neither_written_nor_read(engine: Engine) -> None:
    store = engine.open()
    store.load()
    for key in (("mystery",), ("schema", "more"), ("out", "a")):
        with pytest.raises(StoreError, match="no kind that tamis/node/records.py has"):
            store.commit([Persist(key, b"1")], now=0)
    store.commit([Persist(("schema",), b"1")], now=1)
    store.close()
    engine.damage("UPDATE state SET key = X'91a13f', crc = 0")
    again = engine.open()
    with pytest.raises(StoreError, match="damaged"):
        again.load()
    again.close()


def test_a_file_of_format_2_is_migrated_with_all_that_was_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An earlier release wrote the file, with every kind of record, and listed its contents beside it.

    The values of the records are not messages, which a check after the migration would notice.
    """
    monkeypatch.setattr(migration, "check_files", lambda data: None)
    shutil.copytree(STORES / "format-2", tmp_path / "data")
    expected = json.loads((STORES / "format-2" / "records.json").read_text())
    assert migration.migrate_store(tmp_path / "data") == (2, tmp_path / "data" / "broker.sqlite.format-2")
    store = SqliteStore(tmp_path / "data")
    records = store.load()
    records |= messages_of(store)
    assert records == {tuple(key): bytes.fromhex(value) for key, value in expected["records"]}
    assert {key[0] for key in records} | {"floor", "audit", "activity"} >= {kind for kind in KINDS if kind not in NEWER}
    for link, numbers in expected["retained"].items():
        assert [number for number, _ in store.read_outbox(link, 0, 1_000)] == numbers
    audit = [[record.number, msgspec.to_builtins(record.deed)] for record in store.read_audit(limit=1_000)]
    assert audit == expected["audit"]
    assert store.tables.books.number == expected["number"]
    store.close()


def test_a_stream_that_begins_again_forgets_its_old_numbers(engine: Engine) -> None:
    store = engine.open()
    store.load()
    store.commit([Persist(("out", "a", str(n)), b"old") for n in (1, 2, 3)], now=0)
    store.commit([*(Persist(("out", "a", str(n)), None) for n in (1, 2, 3)), Persist(("out", "a", "1"), b"new")], now=1)
    store.close()
    again = engine.open()
    assert loaded(again) == {("out", "a", "1"): b"new"}
    assert again.read_outbox("a", 0) == [(1, b"new")]
    again.close()
