"""Snapshots in HDFS through Hadoop's own client.

No HDFS can be installed here, so a mount of the client leads to a local directory. What is missing is the name node:
that a rename never overwrites is checked by the client here, and by HDFS itself there.
"""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Iterator
from multiprocessing import get_context
from pathlib import Path

import pytest

import tamis
from tamis.engine import snapshot
from tamis.engine.snapshot import hadoop_store, object_store
from tamis.engine.snapshot.hadoop_store import HadoopStore
from tamis.errors import SnapshotError

MOUNTS = """<configuration>
  <property><name>fs.viewfs.mounttable.cluster.link./rules</name><value>file://{directory}</value></property>
</configuration>
"""


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The directory behind ``viewfs://cluster/rules``, in a JVM of the module's own."""
    place = tmp_path_factory.mktemp("hadoop")
    (place / "files").mkdir()
    (place / "core-site.xml").write_text(MOUNTS.format(directory=place / "files"))
    hadoop_store._java_of.cache_clear()
    hadoop_store._client_of.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HADOOP_CONF_DIR", str(place))
        patch.setenv("TAMIS_SNAPSHOT_CACHE", str(place / "cache"))
        yield place / "files"
    hadoop_store._java_of(os.getpid()).shutdown()
    hadoop_store._client_of.cache_clear()
    hadoop_store._java_of.cache_clear()
    object_store.open_store.cache_clear()


@pytest.fixture
def uri(java: Path, request: pytest.FixtureRequest) -> str:
    return f"viewfs://cluster/rules/{request.node.name.partition('[')[0]}"


def test_an_engine_comes_back(uri: str) -> None:
    engine = tamis.Engine()
    engine.subscribe("price < 10", id="cheap")
    engine.subscribe("symbol LIKE 'I%'", id="names")
    assert engine.save(uri) == f"{uri}/v000001"
    event = {"price": 5, "symbol": "IBM"}
    assert sorted(tamis.Engine.load(uri).match(event)) == ["cheap", "names"]
    engine.unsubscribe("cheap")
    assert engine.save(uri) == f"{uri}/v000002"
    assert tamis.Engine.load(uri).match(event) == ["names"]
    assert len(tamis.Engine.load(f"{uri}/v000001").match(event)) == 2


def test_a_name_is_created_once(uri: str) -> None:
    store = HadoopStore(uri)
    assert store.read("a/x", 10) is None
    assert not store.exists("a/x")
    assert store.create("a/x", b"first")
    assert not store.create("a/x", b"second")
    assert store.create("a/x", b"first")  # a writer that asks again after a lost answer
    with pytest.raises(FileExistsError):
        store._write("a/x", b"third", overwrite=False)  # one that looked before the first had written
    assert store.read("a/x", 10) == b"first"
    store.replace("a/x", b"second")
    assert store.read("a/x", 10) == b"second"
    assert [stored.name for stored in store.list()] == ["a/x"]  # nothing unfinished is left


def test_files_are_copied_listed_and_deleted(uri: str, tmp_path: Path) -> None:
    store, file = object_store.open_store(uri), tmp_path / "a part: 100%"
    file.write_bytes(b"x" * 100_000)
    store.upload(file, "parts-1/rows")
    store.replace("newest", b"1")
    listed = {stored.name: stored for stored in store.list()}
    assert {name: stored.size for name, stored in listed.items()} == {"parts-1/rows": 100_000, "newest": 1}
    assert abs(listed["newest"].modified - dt.datetime.now(dt.UTC)) < dt.timedelta(minutes=5)
    assert [stored.name for stored in store.list("parts-")] == ["parts-1/rows"]
    store.download("parts-1/rows", tmp_path / "again", 100_000)
    assert (tmp_path / "again").read_bytes() == file.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == [file.name, "again"]
    store.delete(["parts-1/rows", "absent"])
    assert [stored.name for stored in store.list()] == ["newest"]


def test_nothing_larger_than_expected_is_read(uri: str, tmp_path: Path) -> None:
    store = object_store.open_store(uri)
    store.replace("large", b"x" * 1000)
    with pytest.raises(SnapshotError, match="larger than 999 bytes"):
        store.read("large", 999)
    with pytest.raises(SnapshotError, match="torn: more than the 999 bytes"):
        store.download("large", tmp_path / "large", 999)
    with pytest.raises(SnapshotError, match="the file is gone: was the version pruned"):
        store.download("absent", tmp_path / "absent", 999)


def test_old_versions_are_pruned(uri: str) -> None:
    engine = tamis.Engine()
    for number in range(3):
        engine.subscribe("price < 10", id=number)
        engine.save(uri)
    assert snapshot.prune(uri, keep=1, grace=0) == ["v000001", "v000002"]
    assert tamis.Engine.load(uri).match({"price": 1}) == [0, 1, 2]
    engine.save(uri)
    assert [str(version).rpartition("/")[2] for version in snapshot.versions(uri)] == ["v000003", "v000004"]


@pytest.mark.parametrize(
    ("uri_of_nothing", "problem"),
    [
        ("viewfs://cluster/elsewhere", "there is no saved engine in it"),
        ("viewfs://unknown/rules", "Mount table.*check the address, HADOOP_CONF_DIR and the Kerberos ticket"),
        ("hdfs://127.0.0.1:1/rules", "ConnectException.*check the address, HADOOP_CONF_DIR"),
    ],
)
def test_what_cannot_be_reached(java: Path, uri_of_nothing: str, problem: str) -> None:
    with pytest.raises(SnapshotError, match=problem):
        tamis.Engine.load(uri_of_nothing)


def test_a_forked_process_has_a_client_of_its_own(uri: str) -> None:
    """Workers of Spark are forked; an object of the parent's would mix its requests with the parent's."""
    store = HadoopStore(uri)
    store.replace("x", b"parent")
    with get_context("fork").Pool(1) as pool:
        assert pool.apply(_port_of_client, (store,)) != _port_of_client(store)
        assert pool.apply(store.create, ("x", b"child")) is False
        pool.apply(store.replace, ("y", b"child"))
    assert (store.read("x", 10), store.read("y", 10)) == (b"parent", b"child")


def _port_of_client(store: HadoopStore) -> int:
    return int(store._client.java.gateway_parameters.port)
