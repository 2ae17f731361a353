"""Backups: taken while the broker runs, restored as a new life that loses and doubles nothing between brokers (G20)."""

from __future__ import annotations

import asyncio
import json
import random
import re
import shutil
import threading
from pathlib import Path
from typing import Any

import apsw
import pytest
from typer.testing import CliRunner

import tamis
from tamis.cli.main import app
from tamis.errors import StoreError
from tamis.runtime.broker.config import BrokerConfig
from tamis.runtime.broker.open_broker import open_broker
from tamis.runtime.broker.tokens import Tokens
from tamis.runtime.disk.backup import read_backup, restore_backup, write_backup
from tamis.runtime.disk.checking import check_files
from tests.server.processes import HANGS, BrokerProcess, a_line, ask, running, wait_until

#: Data directories that earlier releases wrote, by format.
STORES = Path(__file__).parent / "stores"


def shell(*arguments: object) -> Any:
    """The exit code, and the JSON that a command printed."""
    run = CliRunner().invoke(app, ["serve", *map(str, arguments), "--json"])
    return run.exit_code, json.loads(run.stdout) if run.stdout else run.stderr


def subscribe(broker: BrokerProcess, id: str) -> None:
    """Make a subscription, and wait until the neighbours have confirmed it."""
    answer = ask(f"{broker.url}/v1/subscriptions", "POST", {"filter": "n >= 0", "id": id})
    assert answer.status == 201, answer.body
    wait_until(lambda: is_active(broker, id), f"{id} to be active")


def publish(broker: BrokerProcess, *numbers: int) -> None:
    lines = "\n".join(json.dumps({"n": n}) for n in numbers)
    answer = ask(f"{broker.url}/v1/events", "POST", lines, Content_Type="application/x-ndjson")
    assert answer.status in (200, 201, 202), answer.body


def log_of(broker: BrokerProcess, id: str) -> list[int | str]:
    """What waits for a subscription: the numbers of events, and gaps."""
    messages = ask(f"{broker.url}/v1/subscriptions/{id}/log?limit=1000").json["messages"]
    return ["gap" if "gap" in message else int(message["event"]["n"]) for message in messages]


def wait_for(broker: BrokerProcess, id: str, *numbers: int) -> None:
    wait_until(lambda: set(numbers) <= set(log_of(broker, id)), f"{numbers} at {id}")


def is_active(broker: BrokerProcess, id: str) -> bool:
    return bool(ask(f"{broker.url}/v1/subscriptions/{id}").json["state"] == "active")


def exchange_for_backup(broker: BrokerProcess, backup: Path) -> None:
    """Let a broker die, and start it again from a backup."""
    broker.kill()
    data = broker.directory / "data"
    data.rename(broker.directory / "dead")
    assert shell("restore", backup, "--data", data)[0] == 0
    broker.start().wait_until_ready()


def test_a_restored_broker_and_its_neighbours_go_on(tmp_path: Path) -> None:
    with running(*a_line(tmp_path, "ab")) as (a, b):
        subscribe(a, "at-a")
        subscribe(b, "at-b")
        publish(a, 1, 2, 3)
        publish(b, 4, 5, 6)
        for broker, id in ((a, "at-a"), (b, "at-b")):
            wait_for(broker, id, *range(1, 7))
        assert shell("backup", tmp_path / "backup", "--data", b.directory / "data")[0] == 0
        subscribe(a, "later-at-a")
        publish(a, 7, 8, 9)
        publish(b, 10, 11, 12)
        for broker, id in ((a, "at-a"), (b, "at-b")):
            wait_for(broker, id, *range(1, 13))
        old = ask(f"{b.url}/v1/subscriptions/at-b/log").json["last"]
        exchange_for_backup(b, tmp_path / "backup")
        assert ask(f"{b.url}/v1/subscriptions/at-b/log?after={old}").status == 410
        wait_until(lambda: is_active(a, "at-a") and is_active(b, "at-b"), "subscriptions on both sides")
        publish(a, 13, 14, 15)
        publish(b, 16, 17, 18)
        for broker, id in ((a, "at-a"), (b, "at-b"), (a, "later-at-a")):
            wait_for(broker, id, *range(13, 19))
        assert sorted(map(int, log_of(a, "at-a"))) == list(range(1, 19))
        assert sorted(map(int, log_of(a, "later-at-a"))) == list(range(7, 19))
        waiting = log_of(b, "at-b")
        assert sorted(map(int, waiting[:6])) == list(range(1, 7))
        assert waiting[6] == "gap"
        assert sorted(map(int, waiting[7:])) == list(range(13, 19))
        deeds = [deed["what"] for deed in ask(f"{b.url}/v1/audit").json["deeds"]]
        assert "restore" in deeds


@pytest.mark.parametrize("has_got_them", [True, False])
def test_what_waited_for_a_neighbour_comes_once(tmp_path: Path, has_got_them: bool) -> None:
    """The backup holds events for a neighbour that was away; it gets them before the restore, or only after it."""
    with running(*a_line(tmp_path, "ab")) as (a, b):
        subscribe(a, "at-a")
        a.stop()
        publish(b, 1, 2, 3)
        write_backup(b.directory / "data", tmp_path / "backup")
        if has_got_them:
            a.start().wait_until_ready()
            wait_for(a, "at-a", 1, 2, 3)
        exchange_for_backup(b, tmp_path / "backup")
        if not has_got_them:
            a.start().wait_until_ready()
        publish(b, 4)
        wait_for(a, "at-a", 4)
        assert log_of(a, "at-a") == [1, 2, 3, 4]


def test_a_client_that_was_ahead_of_the_backup_goes_on(tmp_path: Path) -> None:
    """What it has acknowledged since does not come again, it is told of the gap, and its subscription is made again."""
    broker = BrokerProcess(tmp_path)
    with running(broker):

        async def story() -> None:
            async with tamis.connect(broker.url, client="reader") as client:
                before = await client.subscribe("n >= 0", id="before")
                await client.publish([{"n": n} for n in (1, 2, 3)])
                await asyncio.to_thread(write_backup, tmp_path / "data", tmp_path / "backup")
                seen = [await read_one(before) for _ in range(3)]
                after = await client.subscribe("n >= 100", id="after")
                await client.publish([{"n": 4}])
                seen.append(await read_one(before))
                await asyncio.to_thread(exchange_for_backup, broker, tmp_path / "backup")
                await asyncio.to_thread(publish, broker, 5)
                seen.append(await read_one(before))
                assert seen == [1, 2, 3, 4, 5]
                assert (before.restored, client._session.repeated) == (1, 0)
                while len(ask(f"{broker.url}/v1/subscriptions").json["subscriptions"]) < 2:
                    await asyncio.sleep(0.02)
                await asyncio.to_thread(publish, broker, 100)
                assert await read_one(after) == 100

        asyncio.run(asyncio.wait_for(story(), HANGS))


async def read_one(subscription: Any) -> int:
    delivery = await anext(subscription)
    await delivery.ack()
    return int(delivery.event["n"])


def test_a_backup_beside_a_busy_broker_is_one_state(tmp_path: Path) -> None:
    """Each request publishes two events for one subscription: every backup holds a whole number of requests."""
    with running(BrokerProcess(tmp_path)) as (broker,):
        subscribe(broker, "s")
        done = threading.Event()

        def be_busy() -> None:
            n = 0
            while not done.is_set():
                publish(broker, n, n)
                n += 1

        writer = threading.Thread(target=be_busy)
        writer.start()
        try:
            counts = []
            for i in range(3):
                write_backup(tmp_path / "data", tmp_path / f"backup{i}", step_seconds=0.05)
                counts.append(check_files(tmp_path / f"backup{i}").messages)
            assert shell("check", "--data", tmp_path / "data")[0] == 0
        finally:
            done.set()
            writer.join()
    assert sorted(counts) == counts
    assert counts[0] < counts[-1]
    assert [count % 2 for count in counts] == [0, 0, 0]


# Files


@pytest.fixture(scope="module")
def broker_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data directory of a broker that was killed, with every usual kind of record, and a token."""
    directory = tmp_path_factory.mktemp("files")
    with running(*a_line(directory, "ab")) as (a, b):
        subscribe(a, "at-a")
        subscribe(b, "at-b")
        publish(b, *range(50))
        wait_for(a, "at-a", *range(50))
        Tokens(b.directory / "data" / "tokens.json").add("alice")
        b.kill()
    return b.directory / "data"


def test_a_backup_holds_tokens_and_is_for_its_user_alone(broker_files: Path, tmp_path: Path) -> None:
    code, written = shell("backup", tmp_path / "backup", "--data", broker_files)
    assert code == 0
    assert written["commit"] > 0
    assert {file.name for file in (tmp_path / "backup").iterdir()} == {"broker.sqlite", "tokens.json", "manifest.json"}
    assert (tmp_path / "backup").stat().st_mode & 0o777 == 0o700
    assert {file.stat().st_mode & 0o777 for file in (tmp_path / "backup").iterdir()} == {0o600}
    code, proved = shell("check", "--backup", tmp_path / "backup")
    assert (code, proved["sound"]) == (0, True)
    restore_backup(tmp_path / "backup", tmp_path / "data")
    assert [token.name for token in Tokens(tmp_path / "data" / "tokens.json").all()] == ["alice"]
    with pytest.raises(StoreError, match="is there already"):
        write_backup(broker_files, tmp_path / "backup")


def test_a_damaged_backup_is_refused(broker_files: Path, tmp_path: Path) -> None:
    write_backup(broker_files, tmp_path / "backup")
    rng = random.Random(3)
    for name in ("broker.sqlite", "tokens.json", "manifest.json"):
        for _ in range(5):
            shutil.rmtree(tmp_path / "bad", ignore_errors=True)
            shutil.copytree(tmp_path / "backup", tmp_path / "bad")
            content = bytearray((tmp_path / "bad" / name).read_bytes())
            content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
            (tmp_path / "bad" / name).write_bytes(content)
            if name != "manifest.json":
                with pytest.raises(StoreError, match=f"{name}.*changed since the backup"):
                    read_backup(tmp_path / "bad")
            elif not is_same_manifest(tmp_path / "bad", tmp_path / "backup"):
                with pytest.raises(StoreError, match="manifest|backup"):
                    restore_backup(tmp_path / "bad", tmp_path / "data")
            assert not (tmp_path / "data").exists()
    for name in ("broker.sqlite", "manifest.json"):
        shutil.rmtree(tmp_path / "bad")
        shutil.copytree(tmp_path / "backup", tmp_path / "bad")
        (tmp_path / "bad" / name).unlink()
        code, _ = shell("restore", tmp_path / "bad", "--data", tmp_path / "data")
        assert code == 2


def is_same_manifest(bad: Path, good: Path) -> bool:
    """Whether a flipped bit fell on what is about people: the moment, the version, the count of the audit."""
    try:
        actual, expected = (json.loads((directory / "manifest.json").read_bytes()) for directory in (bad, good))
    except ValueError:
        return False
    proved = ("format", "epoch", "commit", "audit_seal", "files")
    return actual.keys() == expected.keys() and all(actual[name] == expected[name] for name in proved)


def test_a_directory_in_use_is_not_restored_to(broker_files: Path, tmp_path: Path) -> None:
    write_backup(broker_files, tmp_path / "backup")
    with running(BrokerProcess(tmp_path)):
        with pytest.raises(StoreError, match="in use"):
            restore_backup(tmp_path / "backup", tmp_path / "data")
        code, problem = shell("compact", "--data", tmp_path / "data")
        assert code == 2
        assert "another process has it open" in problem


@pytest.mark.parametrize(
    ("crime", "problem"),
    [
        ("UPDATE state SET value = x'00' WHERE key = (SELECT min(key) FROM state)", "is damaged"),
        ("DELETE FROM state WHERE key = (SELECT max(key) FROM state)", "records were kept"),
        ("DELETE FROM outbox WHERE number = 20", "message 20 of link .* is missing"),
        ("UPDATE outbox SET body = x'00' WHERE number = 20", "message 20 of link .* is damaged"),
        ("UPDATE audit SET at = 0 WHERE number = 1", "record 1 of the audit"),
        ("UPDATE activity SET at = 0 WHERE number = 2", "record 2 of the audit"),
        ("UPDATE books SET format = 9", "expected format 3, found"),
    ],
)
def test_a_check_finds_damage_and_changes_nothing(broker_files: Path, tmp_path: Path, crime: str, problem: str) -> None:
    shutil.copytree(broker_files, tmp_path / "data")
    assert shell("check", "--data", tmp_path / "data")[0] == 0
    with apsw.Connection(str(tmp_path / "data" / "broker.sqlite")) as connection:
        connection.execute(crime)
    connection.close()
    code, report = shell("check", "--data", tmp_path / "data")
    assert (code, report["sound"]) == (1, False)
    assert re.search(problem, report["problem"]), report
    with pytest.raises(StoreError):
        write_backup(tmp_path / "data", tmp_path / "backup")
    assert not (tmp_path / "backup").exists()


def test_a_check_tells_a_missing_database_from_a_wrong_directory(broker_files: Path, tmp_path: Path) -> None:
    shutil.copytree(broker_files, tmp_path / "data")
    (tmp_path / "data" / "broker.sqlite").unlink()
    code, report = shell("check", "--data", tmp_path / "data")
    assert (code, "the database of this broker is missing" in report["problem"]) == (1, True)
    (tmp_path / "empty").mkdir()
    wrong = CliRunner().invoke(app, ["serve", "check", "--data", str(tmp_path / "empty")])
    assert (wrong.exit_code, "there is no broker here" in wrong.stderr) == (2, True)


def test_a_check_finds_a_page_that_was_overwritten(broker_files: Path, tmp_path: Path) -> None:
    write_backup(broker_files, tmp_path / "data")
    file = tmp_path / "data" / "broker.sqlite"
    content = bytearray(file.read_bytes())
    content[4096 * 3 : 4096 * 4] = b"\xff" * 4096
    file.write_bytes(content)
    code, report = shell("check", "--data", tmp_path / "data")
    assert (code, report["sound"]) == (1, False)


def test_records_without_their_link_are_found(broker_files: Path, tmp_path: Path) -> None:
    from tamis.node.effects import Persist
    from tamis.runtime.stores.sqlite_store import SqliteStore

    shutil.copytree(broker_files, tmp_path / "data")
    store = SqliteStore(tmp_path / "data")
    store.load()
    store.commit([Persist(("refused", "c:local:absent", "1"), b"\x90")], now=0)
    store.close()
    code, report = shell("check", "--data", tmp_path / "data")
    assert (code, "'c:local:absent', which is not there" in report["problem"]) == (1, True)


def test_compacting_gives_space_back_and_keeps_everything(broker_files: Path, tmp_path: Path) -> None:
    from tamis.node.effects import Persist
    from tamis.runtime.stores.sqlite_store import SqliteStore

    shutil.copytree(broker_files, tmp_path / "data")
    store = SqliteStore(tmp_path / "data")
    stored = store.load()
    store.commit([Persist(("schema",), bytes(3_000_000))], now=0)
    store.commit([Persist(("schema",), stored.get(("schema",)))], now=0)
    store.close()
    code, sizes = shell("compact", "--data", tmp_path / "data")
    assert code == 0
    assert sizes["after"] < sizes["before"] - 2_500_000
    again = SqliteStore(tmp_path / "data")
    assert again.load() == stored
    again.close()


def test_a_file_of_format_1_is_migrated(tmp_path: Path) -> None:
    """The code of the first format wrote the file: broker b of a line of two, with a subscription and its log."""
    shutil.copytree(STORES / "format-1", tmp_path / "b" / "data")
    data = tmp_path / "b" / "data"
    with pytest.raises(StoreError, match="run `tamis serve migrate --data DIRECTORY` first"):
        open_broker(BrokerConfig(data=str(data)))
    before = (data / "broker.sqlite").read_bytes()
    assert shell("migrate", "--data", data) == (0, {"format": 1, "kept": str(data / "broker.sqlite.format-1")})
    assert (data / "broker.sqlite").read_bytes() != before
    assert shell("check", "--data", data)[0] == 0
    assert shell("migrate", "--data", data) == (0, {"format": 3, "kept": None})
    with running(*a_line(tmp_path, "ab")) as (a, b):
        assert log_of(b, "at-b") == [3, 4, 5]
        wait_until(lambda: is_active(b, "at-b"), "the subscription")
        publish(a, 6)
        wait_for(b, "at-b", 6)


def test_the_check_of_an_older_backup_names_the_command_that_migrates_it(tmp_path: Path) -> None:
    shutil.copytree(STORES / "format-2-backup", tmp_path / "backup")
    with pytest.raises(StoreError, match="format 2 of an earlier release: `tamis serve restore` migrates it"):
        check_files(tmp_path / "backup")


def test_a_backup_of_format_2_is_restored_and_keeps_its_audit(tmp_path: Path) -> None:
    """The code of format 2 wrote the backup; its audit was one table. The backup itself is left as it is."""
    backup = tmp_path / "backup"
    shutil.copytree(STORES / "format-2-backup", backup)
    assert shell("restore", backup, "--data", tmp_path / "b" / "data")[0] == 0
    assert sorted(path.name for path in backup.iterdir()) == ["broker.sqlite", "manifest.json"]
    with running(BrokerProcess(tmp_path / "b")) as (b,):
        assert log_of(b, "kept")[:2] == [3, 4]
        deeds = [(deed["what"], deed["subject"]) for deed in ask(f"{b.url}/v1/audit").json["deeds"]]
        assert deeds[::-1] == [
            ("start", "broker"),
            ("subscribe", "kept"),
            ("subscribe", "gone"),
            ("unsubscribe", "gone"),
            ("stop", "broker"),
            ("restore", ""),
            ("start", "broker"),
        ]
    assert check_files(tmp_path / "b" / "data").audit_last == 8
    manifest = backup / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"commit": 8', '"commit": 7'))
    with pytest.raises(StoreError, match="does not belong to the files beside it"):
        restore_backup(backup, tmp_path / "other")


def test_an_older_disk_without_a_new_life_is_noticed(tmp_path: Path) -> None:
    """H10: the directory was copied and put back by hand. The link does not stall in silence: log and audit say why."""
    with running(*a_line(tmp_path, "ab")) as (a, b):
        subscribe(b, "at-b")
        b.stop()
        shutil.copytree(b.directory / "data", tmp_path / "copy")
        b.start().wait_until_ready()
        publish(a, 1, 2, 3)
        wait_for(b, "at-b", 1, 2, 3)
        b.kill()
        shutil.rmtree(b.directory / "data")
        shutil.copytree(tmp_path / "copy", b.directory / "data")
        b.start().wait_until_ready()
        publish(a, 4)
        wait_until(lambda: "the disk of this broker is older than the link" in b.log(), "the log of b")
        write = tmp_path / "backup"
        b.kill()
        assert shell("backup", write, "--data", b.directory / "data")[0] == 0
        (b.directory / "data").rename(b.directory / "old")
        assert shell("restore", write, "--data", b.directory / "data")[0] == 0
        b.start().wait_until_ready()
        wait_for(b, "at-b", 4)
