"""The pipeline and a synced table with an object store: an S3 server on loopback, and the rows of a directory."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tamis
from tamis.engine import snapshot
from tamis.engine.snapshot import object_store
from tamis.engine.snapshot.manifest import read_manifest
from tamis.errors import SnapshotConflictError, TableError
from tamis.spark import (
    Pipeline,
    compact_snapshot,
    match,
    match_stream,
    matcher,
    prune_snapshots,
    read_deliveries,
    read_events,
    read_rejected,
    read_summary,
    run_pipeline,
    sync_snapshot,
    write_rows,
    write_snapshot,
)
from tamis.spark.matching.scratch import remove
from tamis.spark.running.small_files import small_files
from tamis.spark.tiles.tiles import read_tiles
from tests.cloud.servers import BUCKET, S3Server, environment
from tests.spark.test_match import accepted
from tests.spark.test_pipeline import PIPELINE, expected, folder  # noqa: F401  the fixture with the files
from tests.spark.worlds import COLUMNS, SCHEMA, laptop, pairs, rows, texts

DELIVERED = [(1, "a"), (2, "b")]
#: An event that matches, one that does not, and one whose value does not fit.
PRICES = [(1, 5.0), (2, 50.0), (3, float("nan"))]
COLUMN_NAMES = [part.split()[0] for part in COLUMNS.split(", ")]
#: What a pipeline in an object store leaves in the folder of its file: its sources, a copy, and the cache of the test.
NAMES = ("alerts.toml", "s.jsonl", "e.jsonl", "cache", "copy")


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    running = S3Server()
    yield running
    running.close()


@pytest.fixture
def uri(spark: Any, server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A place of the test's own, which driver and workers can reach."""
    for name, value in environment(server.url, tmp_path / "cache").items():
        monkeypatch.setenv(name, value)
        monkeypatch.setitem(spark.sparkContext.environment, name, value)
    object_store.open_store.cache_clear()
    yield f"s3://{BUCKET}/{uuid.uuid4().hex}"
    object_store.open_store.cache_clear()


def rows_below(uri: str, home: str) -> list[dict[str, Any]]:
    """Return the rows of the Parquet objects of a run, read without Spark."""
    store = object_store.open_store(uri)
    names = [entry.name for entry in store.list(f"{home}/")]
    return [row for name in names for row in pq.read_table(pa.BufferReader(store.read(name, 1 << 30))).to_pylist()]


def test_a_pipeline_with_two_uris(spark: Any, uri: str, folder: Path) -> None:  # noqa: F811
    """What changes is the snapshot's place and the output's; the sources are the files they were."""
    more = '[deliveries]\nformat = "jsonl"\npath = "copy"\n'
    text = f'snapshot = "{uri}/rules"\noutput = "{uri}/out"\n[reduce]\n{PIPELINE}{more}'
    (folder / "alerts.toml").write_text(text, encoding="utf-8")
    first = run_pipeline(Pipeline.from_file(folder / "alerts.toml"), spark=spark)
    jobs = spark.sparkContext._jsc.sc().statusStore().jobsList(None)
    named = {jobs.apply(n).description().get() for n in range(jobs.size()) if jobs.apply(n).description().isDefined()}
    assert {"alerts: compile", "alerts: match"} <= named  # in Spark's own pages
    out = object_store.open_store(f"{uri}/out")
    home = first.output.removeprefix(f"{uri}/out/")
    delivered = {
        (row["event_id"], row["subscription_id"], row["place"]) for row in rows_below(out.uri, f"{home}/deliveries")
    }
    assert delivered == expected()
    lines = [line for path in (folder / "copy").glob("*.json") for line in path.read_text().splitlines()]
    assert {tuple(json.loads(line).values()) for line in lines} == expected()  # another sink, in a directory
    assert {row["event_id"] for row in rows_below(out.uri, f"{home}/quarantine/events")} == {"d", None}
    assert json.loads(out.read("report.json", 1 << 20) or b"")["output"] == first.output
    assert {row["id"] for row in read_summary(spark, f"{uri}/rules").collect()} == {"strong", "here", "deep"}
    again = run_pipeline(Pipeline.from_file(folder / "alerts.toml"), spark=spark)
    assert (again.new_snapshot, again.snapshot, again.deliveries) == (False, f"{uri}/rules/v000001", first.deliveries)
    homes = {entry.name.partition("/")[0] for entry in out.list()}
    assert homes == {"report.json", again.output.removeprefix(f"{uri}/out/")}  # the run before is gone
    assert not [path.name for path in folder.iterdir() if path.name not in NAMES]
    out.replace("report.json", b'{"other": 1}')
    with pytest.raises(TableError, match="not the report of an earlier run"):
        run_pipeline(Pipeline.from_file(folder / "alerts.toml"), spark=spark)


def test_a_stream_into_a_store(spark: Any, uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rules, pins and rows are objects; a batch that is in place is not written again, as after a crash."""
    monkeypatch.chdir(tmp_path)
    write_snapshot(accepted(spark, [("low", "price < 10")]), f"{uri}/rules", schema=SCHEMA)
    source, checkpoint = tmp_path / "source", tmp_path / "checkpoint"

    def run() -> None:
        stream = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).parquet(str(source))
        places = {"output": f"{uri}/out", "checkpoint": checkpoint}
        match_stream(stream, f"{uri}/rules", trigger={"availableNow": True}, **places).awaitTermination()

    events = [{**dict.fromkeys(COLUMN_NAMES), "event_id": id, "price": price} for id, price in PRICES]
    with pytest.raises(TableError, match="there is no finished batch"):
        read_deliveries(spark, f"{uri}/out")
    for row in events:
        spark.createDataFrame([row], COLUMNS).coalesce(1).write.mode("append").parquet(str(source))
        run()
    assert pairs(read_deliveries(spark, f"{uri}/out")) == [(1, "low")]
    assert [(row["event_id"], row["batch"]) for row in read_rejected(spark, f"{uri}/out").collect()] == [(3, 2)]
    out = object_store.open_store(f"{uri}/out")
    before = {entry.name: entry.modified for entry in out.list()}
    assert {name.partition("/")[0] for name in before} == {"batch=0", "batch=1", "batch=2"}
    write_snapshot(accepted(spark, [("other", "TRUE")]), f"{uri}/rules", schema=SCHEMA)
    out.replace("batch=2/left.parquet", b"by a driver that was killed")
    for commit in (checkpoint / "commits").glob("*2*"):
        commit.unlink()
    run()
    assert {entry.name: entry.modified for entry in out.list()} == before
    out.delete(["batch=2/_batch.json"])  # as if the driver had been killed before: begun with the old rules
    for commit in (checkpoint / "commits").glob("*2*"):
        commit.unlink()
    run()
    assert pairs(read_deliveries(spark, f"{uri}/out")) == [(1, "low")]
    assert read_rejected(spark, f"{uri}/out").count() == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cache", "checkpoint", "source"]


def test_the_index_of_a_table_of_rules_lies_in_a_store_until_it_is_removed(spark: Any, uri: str) -> None:
    rules = spark.createDataFrame([("low", "price < 10")], "id string, filter string")
    events = spark.createDataFrame([(1, 5.0), (2, 50.0)], "event_id long, price double")
    deliveries = match(events, rules, work=f"{uri}/scratch")
    [version] = {name.split("/")[0] for name in small_files(f"{uri}/scratch").names()}
    assert pairs(deliveries) == [(1, "low")]
    assert pairs(matcher(rules, schema=SCHEMA, work=f"{uri}/scratch").match(events)) == [(1, "low")]
    assert len({name.split("/")[0] for name in small_files(f"{uri}/scratch").names()}) == 2
    remove(f"{uri}/scratch/{version}")
    [other] = {name.split("/")[0] for name in small_files(f"{uri}/scratch").names()}
    assert other != version


def test_a_micro_batch_is_pinned_in_a_store(spark: Any, uri: str, tmp_path: Path) -> None:
    write_snapshot(accepted(spark, [("low", "price < 10")]), f"{uri}/rules", schema=SCHEMA)
    spark.createDataFrame([(1, 5.0)], "event_id long, price double").write.parquet(str(tmp_path / "source"))
    stream = spark.readStream.schema("event_id long, price double").parquet(str(tmp_path / "source"))
    writer = stream.transform(matcher(f"{uri}/rules", pins=f"{uri}/pins").match).writeStream.format("memory")
    writer.queryName("pinned_in_a_store").trigger(availableNow=True).start().awaitTermination()
    assert pairs(spark.table("pinned_in_a_store")) == [(1, "low")]
    [name] = small_files(f"{uri}/pins").names()
    assert name.endswith("/0.json")


def test_a_delta_table_in_a_store(spark: Any, uri: str, tmp_path: Path) -> None:
    """A batch is there once, the log names its objects, and the format ``delta`` reads them without a jar."""
    first, second = (spark.createDataFrame([row], "event_id long, subscription_id string") for row in DELIVERED)
    for _ in range(2):  # the second time as after a crash
        write_rows(first, "delta", f"{uri}/alerts/", query="alerts", batch=0)
    write_rows(second, "delta", f"{uri}/alerts", query="alerts", batch=1)
    assert pairs(read_events(spark, f"{uri}/alerts", "delta").rows) == DELIVERED
    write_rows(second.selectExpr("event_id", "CAST(NULL AS STRING) AS subscription_id"), "delta", f"{uri}/alerts")
    assert pairs(read_events(spark, f"{uri}/alerts", "delta").rows) == [(2, None)]
    options = {"allow_http": "true"}
    parted = pa.table({"event_id": [1], "day": ["monday"]})
    deltalake.write_deltalake(f"{uri}/parted", parted, partition_by=["day"], storage_options=options)
    with pytest.raises(TableError, match="only Spark reads a partitioned table in a store, and it cannot"):
        read_events(spark, f"{uri}/parted", "delta")
    assert not list(tmp_path.glob("s3*"))  # nothing took the URI for a path


def test_a_table_synced_to_a_store(spark: Any, uri: str) -> None:
    schema = tamis.Schema({"price": tamis.Number()})
    events = spark.createDataFrame([(1, 0.5), (2, 2.5)], "event_id long, price double")

    def sync(*rules: tuple[str, str]) -> Any:
        return sync_snapshot(spark.createDataFrame(list(rules), "id string, filter string"), uri, schema=schema)

    sync(("a", "price < 1"), ("b", "price < 2")).release()
    sync(("a", "price < 3"), ("b", "price < 2")).release()
    last = sync(("a", "price < 3"), ("c", "price > 2"))
    assert (last.version, last.added, last.removed, last.unchanged) == (f"{uri}/v000003", 1, 1, 1)
    assert pairs(match(events, uri)) == [(1, "a"), (2, "a"), (2, "c")]
    assert {subscription.id for subscription in tamis.Engine.load(uri)} == {"a", "c"}
    with snapshot.building(uri) as place, pytest.raises(SnapshotConflictError, match="published v000003/manifest.json"):
        snapshot.seal(place, snapshot.EngineState(schema, False, "packed", 0), [], after=f"{uri}/v000002")
    assert snapshot.newest(uri) == f"{uri}/v000003"


def test_tiles_in_a_store(spark: Any, uri: str, tmp_path: Path) -> None:
    filters = [(f"s{i}", text) for i, text in enumerate(texts(120, seed=31))]
    version = write_snapshot(accepted(spark, filters), uri, schema=SCHEMA, tile_by=["price"], tiles=6)
    events = rows(150, seed=32)
    frame = spark.createDataFrame(events, COLUMNS).repartition(3)
    one_event = [row for row in events if row["price"] is not None][:1]
    assert pairs(match(spark.createDataFrame(one_event, COLUMNS), version)) == sorted(laptop(filters, one_event))
    fetched = {path.name for path in (tmp_path / "cache" / "versions").rglob("*.low")}
    tiles = read_tiles(local := snapshot.opened(version, parts=False), read_manifest(local))
    assert tiles is not None
    assert 0 < len(fetched) < len(tiles.parts)
    assert pairs(match(frame, uri)) == sorted(laptop(filters, events))
    compacted = compact_snapshot(spark, uri)
    assert "tiles.json" in read_manifest(snapshot.opened(compacted, parts=False)).beside
    prune_snapshots(uri, keep=1, grace=0.0)
    assert pairs(match(frame, uri)) == sorted(laptop(filters, events))
    assert len(tamis.Engine.load(uri)) == 120
