"""Iceberg tables: a catalog in SQLite, files in a directory or in an S3 server on loopback, and no jar in Spark."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestWriterV2,
    write_manifest_list,
)
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import AddSnapshotUpdate, SetSnapshotRefUpdate
from pyiceberg.typedef import Record
from pyiceberg.types import StringType

from tamis.errors import MissingExtraError, ModelError, TableError
from tamis.spark import batch_reports, match_stream, read_events, read_subscriptions, write_rows, write_snapshot
from tamis.spark.sinks.iceberg import _Commit
from tamis.spark.sinks.protocol import BatchKey
from tests.cloud.servers import BUCKET, S3Server, environment
from tests.spark.every_type import check_every_type
from tests.spark.test_match import accepted
from tests.spark.worlds import COLUMNS, SCHEMA, laptop, pairs, rows

ROWS = [(1, "a"), (2, "b")]
FORM = "event_id long, subscription_id string"
#: Two columns as pyiceberg takes them.
ARROW = pa.schema([("event_id", pa.int64()), ("subscription_id", pa.string())])


def configure(catalog: str, monkeypatch: pytest.MonkeyPatch, folder: Path, warehouse: str, **more: str) -> SqlCatalog:
    """Set the environment in which a catalog is known, and return it with a namespace ``ns``."""
    settings = {"type": "sql", "uri": f"sqlite:///{folder}/{catalog}.db", "warehouse": warehouse, **more}
    for name, value in settings.items():
        variable = f"PYICEBERG_CATALOG__{catalog.upper()}__{name.upper().replace('.', '__').replace('-', '_')}"
        monkeypatch.setenv(variable, value)
    loaded = load_catalog(catalog, **settings)
    loaded.create_namespace("ns")
    assert isinstance(loaded, SqlCatalog)
    return loaded


@pytest.fixture
def catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SqlCatalog]:
    """A catalog ``here``, whose files are below the folder of the test."""
    loaded = configure("here", monkeypatch, tmp_path, f"file://{tmp_path}/warehouse")
    yield loaded
    loaded.engine.dispose()


def frames(spark: Any) -> list[Any]:
    return [spark.createDataFrame([row], FORM) for row in ROWS]


def held(catalog: SqlCatalog, name: str = "ns.t") -> list[tuple[int, str]]:
    """Return what a table holds, by pyiceberg's own reader."""
    return sorted(tuple(row.values()) for row in catalog.load_table(name).scan().to_arrow().to_pylist())


def test_a_batch_is_there_once(spark: Any, catalog: SqlCatalog) -> None:
    first, second = frames(spark)
    for _ in range(2):  # the second time as after a crash
        write_rows(first, "iceberg", "here.ns.t", query="alerts", batch=0)
    write_rows(second, "iceberg", "here.ns.t", query="alerts", batch=1)
    write_rows(second.limit(0), "iceberg", "here.ns.t", query="alerts", batch=2)
    assert held(catalog) == ROWS
    assert pairs(read_events(spark, "here.ns.t", "iceberg").rows) == ROWS
    write_rows(first, "iceberg", "here.ns.t", query="others", batch=0)  # another query has batches of its own
    assert held(catalog) == [ROWS[0], *ROWS]
    write_rows(second, "iceberg", "here.ns.t")
    assert held(catalog) == [ROWS[1]]
    write_rows(second.limit(0), "iceberg", "here.ns.t")
    assert held(catalog) == pairs(read_events(spark, "here.ns.t", "iceberg").rows) == []


@pytest.mark.parametrize("other", ["the same batch", "another query"])
def test_a_driver_that_comes_late(spark: Any, catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch, other: str) -> None:
    """Another driver commits between this one's look at the table and its commit."""
    from tamis.spark.sinks import iceberg

    first, second = frames(spark)
    write_rows(first, "iceberg", "here.ns.t", query="alerts", batch=0)
    write_files = iceberg._write_files

    def overtaken(*arguments: Any) -> list[str]:
        monkeypatch.setattr(iceberg, "_write_files", write_files)
        query = "alerts" if other == "the same batch" else "others"
        write_rows(second, "iceberg", "here.ns.t", query=query, batch=1)
        return write_files(*arguments)

    monkeypatch.setattr(iceberg, "_write_files", overtaken)
    write_rows(second, "iceberg", "here.ns.t", query="alerts", batch=1)
    assert held(catalog) == (ROWS if other == "the same batch" else [*ROWS, ROWS[1]])
    assert catalog.load_table("ns.t").properties["tamis.batch.alerts"] == "1"


@pytest.mark.parametrize("is_batch", [True, False], ids=["batch", "replace"])
def test_a_commit_that_landed_and_was_reported_as_failed(
    tmp_path: Path, catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch, is_batch: bool
) -> None:
    catalog.create_table("ns.t", pa.schema([("a", pa.int64())]))
    for number in (0, 1):
        pq.write_table(pa.table({"a": [number]}), tmp_path / f"{number}.parquet")

    def commit(number: int) -> bool:
        key = BatchKey("query", number) if is_batch else None
        return _Commit([f"file://{tmp_path}/{number}.parquet"], key).on(catalog.load_table("ns.t"), "ns.t")

    assert commit(0)
    original = SqlCatalog.commit_table

    def lose_answer(self: SqlCatalog, *arguments: Any) -> Any:
        monkeypatch.setattr(SqlCatalog, "commit_table", original)
        original(self, *arguments)
        raise CommitFailedException("the answer was lost, and the request sent again")

    monkeypatch.setattr(SqlCatalog, "commit_table", lose_answer)
    assert commit(1)
    rows = catalog.load_table("ns.t").scan().to_arrow()["a"].to_pylist()
    assert sorted(rows) == ([0, 1] if is_batch else [1])


def test_values_of_every_type_come_back(spark: Any, catalog: SqlCatalog) -> None:
    check_every_type(spark, "iceberg", f"{catalog.name}.ns.kinds")


def test_rules_and_events_of_tables_that_changed(spark: Any, catalog: SqlCatalog) -> None:
    """A column that was renamed, one that was added, partitions, and a row that was deleted by rewriting a file."""
    table = catalog.create_table("ns.old", pa.schema([("id", pa.int64()), ("day", pa.string()), ("m", pa.float64())]))
    table.append(pa.table({"id": [1, 2], "day": ["mon", "tue"], "m": [1.0, 2.0]}))
    with table.update_spec() as update:
        update.add_identity("day")
    with table.update_schema() as change:
        change.rename_column("m", "mag")
        change.add_column("note", StringType())
    table.append(pa.table({"id": [3, 4], "day": ["mon", "wed"], "mag": [3.0, 4.0], "note": ["x", "y"]}))
    table.delete("id = 2")
    events = read_events(spark, "here.ns.old", "iceberg").rows
    assert sorted(tuple(row) for row in events.collect()) == [
        (1, "mon", 1.0, None),
        (3, "mon", 3.0, "x"),
        (4, "wed", 4.0, "y"),
    ]
    with pytest.raises(TableError, match="here.ns.old: the table is partitioned by day"):
        write_rows(events, "iceberg", "here.ns.old")
    rules = catalog.create_table("ns.rules", pa.schema([("id", pa.string()), ("filter", pa.string())]))
    rules.append(pa.table({"id": ["low"], "filter": ["mag < 2"]}))
    read = read_subscriptions(spark, "here.ns.rules", "iceberg")
    assert [tuple(row) for row in read.rows.collect()] == [("low", "mag < 2")]


class DeleteManifest(ManifestWriterV2):
    """A manifest of delete files, which pyiceberg reads and does not write."""

    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


def commit_deletes(catalog: SqlCatalog, name: str, deletes: pa.Table, content: DataFileContent) -> None:
    """Add a delete file to a table, as engines that merge on read do."""
    table = catalog.load_table(name)
    before = table.current_snapshot()
    assert before is not None
    path = f"{table.location()}/data/deletes-{uuid.uuid4().hex}.parquet"
    pq.write_table(deletes, path.removeprefix("file://"))
    size = Path(path.removeprefix("file://")).stat().st_size
    equality = [1] if content is DataFileContent.EQUALITY_DELETES else None
    file = DataFile.from_args(
        content=content,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=len(deletes),
        file_size_in_bytes=size,
        equality_ids=equality,
    )
    file.spec_id = 0
    snapshot_id, number = table.metadata.new_snapshot_id(), table.metadata.next_sequence_number()
    output = table.io.new_output(f"{table.location()}/metadata/{uuid.uuid4().hex}-m0.avro")
    with DeleteManifest(table.spec(), table.schema(), output, snapshot_id, "deflate") as writer:
        writer.add(ManifestEntry.from_args(snapshot_id=snapshot_id, data_file=file))
    listed = f"{table.location()}/metadata/snap-{snapshot_id}.avro"
    manifests = [*before.manifests(table.io), writer.to_manifest_file()]
    with write_manifest_list(
        2, table.io.new_output(listed), snapshot_id, before.snapshot_id, number, "deflate"
    ) as lister:
        lister.add_manifests(manifests)
    snapshot = Snapshot(
        snapshot_id=snapshot_id,
        parent_snapshot_id=before.snapshot_id,
        sequence_number=number,
        manifest_list=listed,
        summary=Summary(Operation.DELETE),
        schema_id=table.schema().schema_id,
    )
    point = SetSnapshotRefUpdate(ref_name="main", type="branch", snapshot_id=snapshot_id)
    catalog.commit_table(table, (), (AddSnapshotUpdate(snapshot=snapshot), point))


def test_rows_deleted_by_position_are_left_out_and_other_deletes_refused(spark: Any, catalog: SqlCatalog) -> None:
    write_rows(spark.createDataFrame([*ROWS, (3, "c")], FORM).coalesce(1), "iceberg", "here.ns.t")
    [task] = catalog.load_table("ns.t").scan().plan_files()
    positions = pa.table({"file_path": [task.file.file_path], "pos": pa.array([1], pa.int64())})
    commit_deletes(catalog, "ns.t", positions, DataFileContent.POSITION_DELETES)
    assert pairs(read_events(spark, "here.ns.t", "iceberg").rows) == [ROWS[0], (3, "c")]
    commit_deletes(catalog, "ns.t", pa.table({"event_id": [1]}), DataFileContent.EQUALITY_DELETES)
    with pytest.raises(TableError, match="here.ns.t: Iceberg: .*equality deletes"):
        read_events(spark, "here.ns.t", "iceberg")


@pytest.mark.parametrize(
    ("target", "problem"),
    [
        ("", "is not the name of an Iceberg table: catalog.namespace.table"),
        ("t", "is not the name of an Iceberg table"),
        ("here.t", "is not the name of an Iceberg table"),
        ("here..t", "is not the name of an Iceberg table"),
        ("nowhere.ns.t", "no Iceberg catalog 'nowhere' .known: .*here.*; .* set PYICEBERG_CATALOG__NOWHERE__URI"),
        ("here.other.t", "here.other.t: there is no namespace 'other'; create it first"),
        ("broken.ns.t", "broken.ns.t: Iceberg: "),
    ],
)
def test_what_a_caller_can_get_wrong(
    spark: Any, catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch, target: str, problem: str
) -> None:
    monkeypatch.setenv("PYICEBERG_CATALOG__BROKEN__URI", "sqlite:////no/such/folder/catalog.db")
    with pytest.raises((ModelError, TableError), match=problem):
        write_rows(frames(spark)[0], "iceberg", target)


def test_tables_of_other_columns_are_left_alone(spark: Any, catalog: SqlCatalog) -> None:
    catalog.create_table("ns.t", ARROW)
    for columns, problem in (
        ("event_id long", "has the columns event_id, subscription_id, not event_id$"),
        ("event_id long, subscription_id string, x int", "not event_id, subscription_id, x"),
        ("event_id string, subscription_id string", "the column 'event_id' of the table here.ns.t is long, not string"),
    ):
        for names in ({}, {"query": "q", "batch": 0}):
            with pytest.raises(TableError, match=problem):
                write_rows(spark.createDataFrame([], columns), "iceberg", "here.ns.t", **names)
    with pytest.raises(TableError, match="here.ns.none: there is no such Iceberg table"):
        read_events(spark, "here.ns.none", "iceberg")


def test_without_the_extra_the_next_step_is_named(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyiceberg.catalog", None)
    advice = "an Iceberg table needs .* pip install 'tamis.iceberg.'"
    with pytest.raises(MissingExtraError, match=advice):
        write_rows(spark.range(1), "iceberg", "a.b.c")
    with pytest.raises(MissingExtraError, match=advice):
        read_events(spark, "a.b.c", "iceberg")


def test_a_stream_into_a_table_in_a_store(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The batch that runs again after a crash is recognised by the table, whose files are in an S3 server."""
    server = S3Server()
    for name, value in environment(server.url, tmp_path / "cache").items():
        monkeypatch.setenv(name, value)
        monkeypatch.setitem(spark.sparkContext.environment, name, value)
    more = {"s3.endpoint": server.url, "s3.region": "us-east-1"}
    catalog = configure("store", monkeypatch, tmp_path, f"s3://{BUCKET}/{uuid.uuid4().hex}", **more)
    source, checkpoint, rules = (tmp_path / name for name in ("source", "checkpoint", "rules"))
    events = rows(20, seed=51)
    write_snapshot(accepted(spark, [("low", "price < 50")]), rules, schema=SCHEMA)
    spark.createDataFrame(events, COLUMNS).coalesce(1).write.parquet(str(source))

    def run() -> None:
        stream = spark.readStream.schema(COLUMNS).parquet(str(source))
        options: dict[str, Any] = {"checkpoint": checkpoint, "trigger": {"availableNow": True}}
        match_stream(stream, rules, output="store.ns.t", sink="iceberg", **options).awaitTermination()

    try:
        run()
        wanted = sorted(laptop([("low", "price < 50")], events))
        assert pairs(read_events(spark, "store.ns.t", "iceberg").rows) == wanted != []
        write_snapshot(accepted(spark, [("high", "price > 50")]), rules, schema=SCHEMA)
        for noted in [*(checkpoint / "commits").iterdir(), *(checkpoint / "tamis").glob("*.end.json")]:
            noted.unlink()
        run()
        assert held(catalog) == wanted
        [report] = batch_reports(checkpoint)
        assert (report.version, report.events, report.deliveries) == ("v000001", 20, len(wanted))
    finally:
        catalog.engine.dispose()
        server.close()
