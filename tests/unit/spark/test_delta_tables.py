"""Delta tables without Spark: what a late driver commits, and what a log may say of files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("deltalake")
pytest.importorskip("obstore")
pytest.importorskip("pyspark")

import deltalake
from pyspark.sql import types as T

from tamis.engine.snapshot.manifest import File
from tamis.engine.snapshot.object_store import is_in_cloud
from tamis.errors import TableError
from tamis.spark.sinks import objects
from tamis.spark.sinks.delta import DeltaTables
from tamis.spark.sinks.objects import Written
from tamis.spark.sinks.protocol import BatchKey
from tamis.spark.sources import delta_tables

FORM = pa.schema({"a": pa.int64()})


class Frame:
    """Rows of one partition; ``before`` runs ahead of the worker's function, as slow work would."""

    schema = T.StructType().add("a", "long")
    sparkSession = SimpleNamespace(conf=SimpleNamespace(get=lambda _name: "UTC"))

    def __init__(self, values: list[int], before: Callable[[], None] = lambda: None) -> None:
        self._rows, self._before = pa.RecordBatch.from_pydict({"a": values}, FORM), before

    def mapInArrow(self, function: Callable[..., Iterator[pa.RecordBatch]], _form: str) -> Any:
        def collect() -> list[Any]:
            self._before()
            return [SimpleNamespace(**row) for batch in function(iter([self._rows])) for row in batch.to_pylist()]

        return SimpleNamespace(collect=collect)


def values(target: Path) -> list[int]:
    return sorted(deltalake.DeltaTable(str(target)).to_pyarrow_table()["a"].to_pylist())


@pytest.mark.parametrize("exists", [True, False])
def test_a_driver_that_was_taken_for_dead_adds_nothing(tmp_path: Path, exists: bool) -> None:
    sink, number = DeltaTables(), int(exists)
    if exists:
        sink.write_batch(Frame([0]), str(tmp_path), BatchKey("alerts", 0))

    def take_over() -> None:
        sink.write_batch(Frame([7]), str(tmp_path), BatchKey("alerts", number))

    sink.write_batch(Frame([7], take_over), str(tmp_path), BatchKey("alerts", number))
    assert values(tmp_path) == [0] * exists + [7]


@pytest.mark.parametrize("exists", [True, False])
def test_a_commit_of_another_query_meanwhile_costs_no_rows(tmp_path: Path, exists: bool) -> None:
    sink = DeltaTables()
    if exists:
        sink.write_batch(Frame([0]), str(tmp_path), BatchKey("alerts", 0))
    others = Frame([5])

    def replace() -> None:
        sink.replace(others, str(tmp_path))

    sink.write_batch(Frame([7], replace), str(tmp_path), BatchKey("alerts", 1))
    assert values(tmp_path) == [5, 7]


def test_names_of_columns_that_are_not_those_of_files_are_refused(tmp_path: Path) -> None:
    """A table of protocol (2, 5) names no features: its mapping is a setting."""
    deltalake.write_deltalake(str(tmp_path), pa.table({"a": [1]}))
    log = tmp_path / "_delta_log" / f"{0:020}.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for action in actions:
        if "metaData" in action:
            action["metaData"]["configuration"] = {"delta.columnMapping.mode": "name"}
            form = json.loads(action["metaData"]["schemaString"])
            for number, field in enumerate(form["fields"], 1):
                field["metadata"] = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": f"c{number}"}
            action["metaData"]["schemaString"] = json.dumps(form)
        if "protocol" in action:
            action["protocol"] = {"minReaderVersion": 2, "minWriterVersion": 5}
    log.write_text("".join(json.dumps(action) + "\n" for action in actions))
    assert deltalake.DeltaTable(str(tmp_path)).protocol().reader_features is None
    with pytest.raises(
        TableError, match="the table uses column mapping, which is not read; write it to a table without"
    ):
        delta_tables.read_delta(None, str(tmp_path))  # type: ignore[arg-type]


def download(store: Path, name: str, size: int, form: pa.Schema = FORM) -> list[dict[str, Any]]:
    line = msgspec.json.encode(Written(name, File(size, 0))).decode()
    lines = iter([pa.RecordBatch.from_pydict({"object": [line]})])
    return [row for part in objects._download(lines, address=f"file://{store}", form=form) for row in part.to_pylist()]


def test_objects_in_folders_are_read_and_not_hashed_without_need(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ab" / "part-0.parquet"
    path.parent.mkdir()
    pq.write_table(pa.table({"a": [1, 2]}), path)
    monkeypatch.setattr(objects, "sha256_of", lambda _path: pytest.fail("no digest is known"))
    size = path.stat().st_size
    assert download(tmp_path, "ab/part-0.parquet", size) == [{"a": 1}, {"a": 2}]
    newer = pa.schema({"a": pa.int64(), "b": pa.string()})
    assert download(tmp_path, "ab/part-0.parquet", size, newer)[0] == {"a": 1, "b": None}
    with pytest.raises(TableError, match="no column of the table is in the file"):
        download(tmp_path, "ab/part-0.parquet", size, pa.schema({"b": pa.string()}))
    with pytest.raises(TableError, match="changed since it was written"):
        download(tmp_path, "ab/part-0.parquet", size + 1)


def test_an_object_that_is_not_what_was_written_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "part-0.parquet"
    pq.write_table(pa.table({"a": [1, 2]}), path)
    line = msgspec.json.encode(Written("part-0.parquet", File(path.stat().st_size, 0, sha256="00"))).decode()
    lines = iter([pa.RecordBatch.from_pydict({"object": [line]})])
    with pytest.raises(TableError, match="changed since it was written"):
        next(objects._download(lines, address=f"file://{tmp_path}", form=FORM))


def test_a_name_that_leaves_the_table_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Path] = []
    opening = Path.open
    monkeypatch.setattr(Path, "open", lambda path, *args: made.append(path) or opening(path, *args))
    name = "../../tamis-escaped.parquet"
    with pytest.raises(TableError, match="names a file outside of it: ../../tamis-escaped"):
        download(tmp_path, name, 10)
    assert made == []
    actions = pa.table({"path": ["a/..%2F../x.parquet"]})
    with pytest.raises(TableError, match=r"names a file outside of it: a/\.\./\.\./x"):
        delta_tables._names_of("s3://bucket/t", actions)


def test_what_is_written_to_is_read_from() -> None:
    """Executors read the stores that they write to; other URIs are Spark's."""
    for scheme in ("s3", "s3a", "gs", "az", "abfs", "abfss"):
        assert is_in_cloud(f"{scheme}://bucket/table")
    for path in ("/data/table", "file:///data/table", "hdfs://host/table", "dbfs://table"):
        assert not is_in_cloud(path)
