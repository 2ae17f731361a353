"""Snapshots in an object store: an S3 server on loopback, two writers, killed writers, lost and slow answers."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

import tamis
from tamis.engine import snapshot
from tamis.engine.snapshot import cache, object_store
from tamis.errors import SnapshotError
from tamis.spark.running.small_files import small_files
from tamis.spark.streaming.batch_log import log_of, versions_in_use
from tamis.spark.streaming.stream import _Stream
from tests.cloud.servers import BUCKET, Proxy, S3Server, environment


@pytest.fixture(scope="module")
def proxy() -> Iterator[Proxy]:
    server = S3Server()
    between = Proxy(server.url)
    yield between
    between.close()
    server.close()


@pytest.fixture
def uri(proxy: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A place of the test's own in the bucket."""
    for name, value in environment(proxy.url, tmp_path / "cache").items():
        monkeypatch.setenv(name, value)
    proxy.fault = lambda method, path: None
    proxy.requests.clear()
    object_store.open_store.cache_clear()
    yield f"s3://{BUCKET}/{uuid.uuid4().hex}"
    object_store.open_store.cache_clear()


def engine(*texts: str) -> tamis.Engine:
    built = tamis.Engine()
    for text in texts:
        built.subscribe(text, id=text)
    return built


def test_an_engine_comes_back(uri: str) -> None:
    saved = engine("price < 10", "symbol LIKE 'I%'")
    assert saved.save(uri) == f"{uri}/v000001"
    event = {"price": 5, "symbol": "IBM"}
    assert sorted(tamis.Engine.load(uri).match(event)) == ["price < 10", "symbol LIKE 'I%'"]
    saved.unsubscribe("price < 10")
    assert saved.save(uri) == f"{uri}/v000002"
    assert tamis.Engine.load(uri).match(event) == ["symbol LIKE 'I%'"]
    assert len(tamis.Engine.load(f"{uri}/v000001").match(event)) == 2


def test_nothing_is_listed_to_find_a_version(uri: str, proxy: Proxy) -> None:
    for _ in range(5):
        engine("price < 10").save(uri)
    proxy.requests.clear()
    assert snapshot.newest(uri) == f"{uri}/v000005"
    assert not any("list-type" in path for _, path in proxy.requests)
    assert len(proxy.requests) <= 6
    object_store.open_store(uri).delete(["newest"])  # without the hint it takes more questions
    assert snapshot.newest(uri) == f"{uri}/v000005"
    object_store.open_store(uri).replace("newest", b"2")  # a slow writer's
    assert snapshot.newest(uri) == f"{uri}/v000005"


def test_the_log_of_a_stream_is_in_a_store(uri: str, proxy: Proxy, tmp_path: Path) -> None:
    """A checkpoint with a URI: what a batch was begun with is created once, and pruning reads it there."""
    engine("price < 10").save(tmp_path)
    stream = _Stream(str(tmp_path), "", f"{uri}/checkpoint", None, "event", "default", None, (), None)
    proxy.fault = lambda method, path: "lose" if method == "PUT" and len(proxy.requests) < 3 else None
    first = stream._begin(0)
    engine("price < 10").save(tmp_path)
    assert stream._begin(0) == first
    assert stream._begin(1).version == "v000002"
    assert small_files(f"{uri}/checkpoint").names() == ["tamis/0.begin.json", "tamis/1.begin.json"]
    assert versions_in_use(f"{uri}/checkpoint") == {"v000001", "v000002"}
    assert log_of(f"{uri}/checkpoint").create("0.begin.json", b"another driver") == msgspec.json.encode(first)


def test_racing_writers_have_numbers_of_their_own(uri: str) -> None:
    results: list[object] = []

    def write(number: int) -> None:
        results.extend(engine(f"price < {number}{turn}").save(uri) for turn in range(3))

    threads = [threading.Thread(target=write, args=(number,)) for number in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(str, results)) == [f"{uri}/v{number:06d}" for number in range(1, 7)]
    texts = {next(iter(tamis.Engine.load(str(version)))).text for version in results}
    assert texts == {f"price < {number}{turn}" for number in (1, 2) for turn in range(3)}


def test_a_writer_that_is_killed_leaves_no_version(uri: str, proxy: Proxy) -> None:
    engine("price < 10").save(uri)
    source = (
        "import os, tamis\n"
        "from tamis.engine import snapshot\n"
        "snapshot.publish_remote = lambda *_: os.kill(os.getpid(), 9)\n"
        "engine = tamis.Engine()\n"
        "engine.subscribe('price < 99', id='late')\n"
        f"engine.save({uri!r})\n"
    )
    killed = subprocess.run([sys.executable, "-c", source], env=dict(os.environ), capture_output=True, check=False)
    assert killed.returncode == -9, killed.stderr
    assert snapshot.versions(uri) == [f"{uri}/v000001"]
    store = object_store.open_store(uri)
    homes = {entry.name.partition("/")[0] for entry in store.list() if entry.name.startswith("parts-")}
    assert len(homes) == 2
    assert snapshot.prune(uri, keep=1) == []  # within the grace the writer may still be at work
    assert {entry.name.partition("/")[0] for entry in store.list() if entry.name.startswith("parts-")} == homes
    snapshot.prune(uri, keep=1, grace=0)
    assert len({entry.name.partition("/")[0] for entry in store.list() if entry.name.startswith("parts-")}) == 1
    assert tamis.Engine.load(uri).match({"price": 5}) == ["price < 10"]


def test_a_lost_answer_makes_no_second_version(uri: str, proxy: Proxy) -> None:
    lost = iter(["lose"])
    proxy.fault = lambda method, path: next(lost, None) if method == "PUT" and "manifest.json" in path else None
    assert engine("price < 10").save(uri) == f"{uri}/v000001"
    assert snapshot.versions(uri) == [f"{uri}/v000001"]
    assert sum(method == "PUT" and "manifest.json" in path for method, path in proxy.requests) == 2


def test_answers_that_fail_or_are_late(uri: str, proxy: Proxy) -> None:
    faults = iter(["fail", 0.3, "fail", None] * 3)
    proxy.fault = lambda method, path: next(faults, None)
    engine("price < 10").save(uri)
    assert tamis.Engine.load(uri).match({"price": 5}) == ["price < 10"]


def test_a_pruned_number_is_never_used_again(uri: str) -> None:
    for number in range(4):
        engine(f"price < {number}").save(uri)
    assert snapshot.prune(uri, keep=1, needed=["v000002"], grace=0) == ["v000001", "v000003"]
    assert snapshot.versions(uri) == [f"{uri}/v000002", f"{uri}/v000004"]
    object_store.open_store(uri).replace("newest", b"2")
    assert snapshot.newest(uri) == f"{uri}/v000004"
    with pytest.raises(SnapshotError, match="the version was pruned"):
        tamis.Engine.load(f"{uri}/v000003")
    assert engine("price < 9").save(uri) == f"{uri}/v000005"


def test_each_file_is_fetched_once_and_checked(uri: str, proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    engine(*(f"price < {n}" for n in range(300))).save(uri)
    tamis.Engine.load(uri)
    proxy.requests.clear()
    assert len(tamis.Engine.load(uri).match({"price": -1})) == 300
    assert not any("parts-" in path for _, path in proxy.requests)
    place = Path(os.environ["TAMIS_SNAPSHOT_CACHE"])
    assert place.stat().st_mode & 0o077 == 0
    store = object_store.open_store(uri)
    [arrays] = [entry.name for entry in store.list() if entry.name.endswith(".arrays")]
    data = store.read(arrays, 1 << 30)
    assert data is not None
    store.replace(arrays, data[:-1] + bytes([data[-1] ^ 1]))
    monkeypatch.setenv("TAMIS_SNAPSHOT_CACHE", str(place.parent / "second"))
    with pytest.raises(SnapshotError, match="SHA-256 is not the manifest's"):
        tamis.Engine.load(uri)


def test_the_cache_has_a_limit(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAMIS_SNAPSHOT_CACHE_BYTES", "1")
    for number in range(3):
        engine(f"price < {number + 1}").save(uri)
        assert tamis.Engine.load(uri).match({"price": 0}) == [f"price < {number + 1}"]
    kept = Path(os.environ["TAMIS_SNAPSHOT_CACHE"])
    assert len(list((kept / "versions").iterdir())) == 1
    assert {path.stat().st_nlink for path in (kept / "objects").iterdir()} == {2}
    assert cache.fetch_version(str(snapshot.newest(uri))).is_dir()


def test_signed_and_verified(uri: str, tmp_path: Path) -> None:
    from tamis.cli.main import app

    key = tmp_path / "key"
    key.write_bytes(b"k" * 40)
    key.chmod(0o600)
    engine("price < 10").save(uri, key=b"k" * 40)
    answer = CliRunner().invoke(app, ["verify", uri, "--key-file", str(key)])
    assert (answer.exit_code, "v000001: sound" in answer.output) == (0, True), answer.output
    with pytest.raises(SnapshotError, match="not signed with this key"):
        tamis.Engine.load(uri, key=b"x" * 40)


@pytest.mark.parametrize(
    ("location", "problem"),
    [
        ("ftp://host/rules", "ftp:// is not a store for snapshots; use a directory or s3://"),
        ("file://data/rules", "a file:// URI of this machine has three slashes, such as file:///data/rules"),
        ("file://[x/rules", "a file:// URI of this machine has three slashes"),
        (f"s3://{BUCKET}/empty", "there is no saved engine in it"),
    ],
)
def test_what_a_caller_can_get_wrong(uri: str, location: str, problem: str) -> None:
    with pytest.raises(SnapshotError, match=problem):
        tamis.Engine.load(location)


def test_a_store_that_cannot_be_reached(uri: str, monkeypatch: pytest.MonkeyPatch, proxy: Proxy) -> None:
    proxy.fault = lambda method, path: "lose"
    monkeypatch.setenv("AWS_MAX_RETRIES", "1")
    store = object_store.open_store(uri)
    monkeypatch.setattr(store, "_store", _impatient(proxy.url, uri))
    with pytest.raises(SnapshotError, match="check the address, the network and the credentials"):
        tamis.Engine.load(uri)


def _impatient(url: str, uri: str) -> object:
    from obstore.store import from_url

    return from_url(uri, client_options={"allow_http": True}, retry_config={"max_retries": 0})
