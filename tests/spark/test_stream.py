"""Streams: one version per micro-batch, written down first; exactly once; the rows of batch and laptop."""

from __future__ import annotations

import datetime as dt
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.errors import StreamingQueryException

from tamis.errors import TableError
from tamis.spark import (
    batch_reports,
    compile_subscriptions,
    match,
    match_stream,
    prune_snapshots,
    read_deliveries,
    read_rejected,
    write_snapshot,
)
from tamis.spark.streaming.batch_log import Begin, log_of
from tests.spark.test_match import accepted
from tests.spark.worlds import COLUMNS, SCHEMA, laptop, pairs, rows, texts


class Stream:
    """A folder of event files as a stream, and where its matches go."""

    def __init__(self, spark: Any, place: Path) -> None:
        self.spark, self.place = spark, place
        self.source, self.output, self.checkpoint = (place / name for name in ("source", "output", "checkpoint"))
        self.snapshots = place / "snapshots"
        self.source.mkdir()

    def subscribe(self, filters: list[tuple[Any, str]]) -> None:
        write_snapshot(accepted(self.spark, filters), self.snapshots, schema=SCHEMA)

    def publish(self, events: list[dict[str, Any]]) -> None:
        self.spark.createDataFrame(events, COLUMNS).coalesce(1).write.mode("append").parquet(str(self.source))

    def run(self, **options: Any) -> None:
        reader = self.spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1)
        places = {"output": self.output, "checkpoint": self.checkpoint, **options}
        query = match_stream(reader.parquet(str(self.source)), self.snapshots, trigger={"availableNow": True}, **places)
        query.awaitTermination()

    def delivered(self) -> list[tuple[Any, Any]]:
        return pairs(read_deliveries(self.spark, self.output))


@pytest.fixture
def stream(spark: Any, tmp_path: Path) -> Stream:
    return Stream(spark, tmp_path)


def test_subscriptions_change_while_it_runs(spark: Any, stream: Stream) -> None:
    first = [(f"s{i}", text) for i, text in enumerate(texts(150, seed=11))]
    second = [*first[50:], *((f"t{i}", text) for i, text in enumerate(texts(50, seed=12)))]
    events = rows(200, seed=13)
    stream.subscribe(first)
    stream.publish(events[:100])
    stream.run()
    stream.subscribe(second)
    stream.publish(events[100:])
    stream.run()
    assert stream.delivered() == sorted(laptop(first, events[:100]) | laptop(second, events[100:]))
    reports = batch_reports(stream.checkpoint)
    assert [(report.version, report.events, report.rejected) for report in reports] == [
        ("v000001", 100, 0),
        ("v000002", 100, 0),
    ]
    assert sum(report.deliveries for report in reports) == len(stream.delivered())
    frame = spark.createDataFrame(events[100:], COLUMNS)
    batch = read_deliveries(spark, stream.output).where("batch = 1")
    assert pairs(batch) == pairs(match(frame, stream.snapshots))


def test_a_batch_that_runs_again_gives_the_same_rows(stream: Stream) -> None:
    """As after a crash between the sink and Spark's commit: new subscriptions came, but the batch was begun."""
    filters = [(f"s{i}", text) for i, text in enumerate(texts(60, seed=14))]
    stream.subscribe(filters)
    stream.publish(rows(50, seed=15))
    stream.run()
    wanted = stream.delivered()
    stream.subscribe([("other", "TRUE")])
    for commit in (stream.checkpoint / "commits").glob("*0*"):
        commit.unlink()
    stream.run()
    assert stream.delivered() == wanted
    for commit in (stream.checkpoint / "commits").glob("*0*"):
        commit.unlink()
    shutil.rmtree(stream.output / "batch=0")  # as if it had never been put in place
    assert prune_snapshots(stream.snapshots, keep=1, checkpoints=[stream.checkpoint]) == []
    stream.run()
    assert stream.delivered() == wanted


def test_bad_events_are_kept_with_their_reason(spark: Any, stream: Stream) -> None:
    stream.subscribe([("low", "price < 10")])
    events = [{"event_id": 1, "price": 5.0}, {"event_id": 2, "price": float("nan")}, {"event_id": 3, "price": 50.0}]
    full = [{name: row.get(name) for name in ("event_id", *SCHEMA)} for row in events]
    stream.publish(full)
    stream.run(payload="*")
    assert stream.delivered() == [(1, "low")]
    [row] = read_deliveries(spark, stream.output).collect()
    assert (row["price"], set(SCHEMA) <= set(row.asDict())) == (5.0, True)
    [bad] = read_rejected(spark, stream.output).collect()
    assert (bad["event_id"], "NaN" in bad["reason"]) == (2, True)
    [report] = batch_reports(stream.checkpoint)
    assert (report.events, report.deliveries, report.rejected) == (3, 1, 1)
    assert report.rate > 0
    assert 0 < report.seconds <= report.lag


def test_lag_is_counted_from_the_oldest_event(spark: Any, stream: Stream) -> None:
    stream.subscribe([("low", "price < 10")])
    now, nothing = dt.datetime.now(dt.UTC), {**dict.fromkeys(SCHEMA), "price": 5.0}
    times = [now - dt.timedelta(hours=1), now - dt.timedelta(hours=2), None]
    stream.publish([{"event_id": i, **nothing, "at": at} for i, at in enumerate(times)])
    stream.run(event_time="at")
    [report] = batch_reports(stream.checkpoint)
    assert 0 < report.lag - 2 * 3600 < 3600
    with pytest.raises(TableError, match="event_time is a timestamp"):
        stream.run(event_time="price")


def test_a_stream_without_matches_can_be_read(spark: Any, stream: Stream) -> None:
    stream.subscribe([("none", "price < -1")])
    with pytest.raises(TableError, match="there is no directory"):
        read_deliveries(spark, stream.output)
    stream.publish(rows(3, seed=16))
    stream.run()
    assert stream.delivered() == []
    assert read_rejected(spark, stream.output).count() == 0


def test_a_batch_keeps_the_moment_at_which_it_was_begun(spark: Any, stream: Stream) -> None:
    frame = spark.createDataFrame(
        [("ends", "TRUE", "2026-01-01T00:00:00Z")], "id string, filter string, expires string"
    )
    write_snapshot(compile_subscriptions(frame, schema=SCHEMA)[0], stream.snapshots, schema=SCHEMA)
    stream.publish(rows(1, seed=16))
    stream.run(now="2025-01-01T00:00:00Z")
    for commit in (stream.checkpoint / "commits").glob("*0*"):
        commit.unlink()
    shutil.rmtree(stream.output / "batch=0")
    stream.run()
    assert stream.delivered() == [(0, "ends")]
    stream.publish(rows(1, seed=16))
    stream.run()
    assert stream.delivered() == [(0, "ends")]  # the second batch was begun when it had ended


def test_an_output_belongs_to_one_checkpoint(stream: Stream) -> None:
    stream.subscribe([("all", "TRUE")])
    stream.publish(rows(3, seed=17))
    stream.run()
    problem = "ModelError: .*batch=0 was written by a stream with another checkpoint; give each"
    with pytest.raises(StreamingQueryException, match=problem):
        stream.run(checkpoint=stream.place / "second")
    assert stream.delivered() == [(0, "all"), (1, "all"), (2, "all")]
    assert not list(stream.output.glob(".*"))


def test_a_version_that_was_pruned_under_a_begun_batch(stream: Stream) -> None:
    stream.subscribe([("first", "TRUE")])
    stream.subscribe([("second", "TRUE")])
    stream.publish(rows(3, seed=19))
    # What a driver leaves that died when it had begun a batch.
    log_of(stream.checkpoint).create("0.begin.json", msgspec.json.encode(Begin(0, "v000001", 0)))
    assert prune_snapshots(stream.snapshots, keep=1, checkpoints=[stream.checkpoint]) == []
    assert prune_snapshots(stream.snapshots, keep=1) == ["v000001"]
    with pytest.raises(StreamingQueryException, match="SnapshotError: .*v000001 is gone, and batch 0 was"):
        stream.run()


def test_a_streaming_frame_in_match_is_fixed_to_one_version(spark: Any, stream: Stream) -> None:
    stream.subscribe([("low", "price < 10")])
    events = rows(40, seed=18)
    stream.publish(events)
    reader = spark.readStream.schema(COLUMNS).parquet(str(stream.source))
    deliveries = match(reader, stream.snapshots)
    assert deliveries.isStreaming
    stream.subscribe([("high", "price > 10")])
    query = deliveries.writeStream.format("memory").queryName("fixed").trigger(availableNow=True).start()
    query.awaitTermination()
    assert pairs(spark.table("fixed")) == sorted(laptop([("low", "price < 10")], events))


def test_what_a_caller_can_get_wrong(spark: Any, stream: Stream) -> None:
    stream.subscribe([("all", "TRUE")])
    with pytest.raises(TableError, match="needs a streaming DataFrame"):
        match_stream(spark.createDataFrame(rows(1, 1), COLUMNS), stream.snapshots, output="o", checkpoint="c")
    reader = spark.readStream.schema(COLUMNS).parquet(str(stream.source))
    with pytest.raises(TableError, match="has no column 'key'"):
        match_stream(reader, stream.snapshots, output="o", checkpoint="c", event_id="key")
    with pytest.raises(TableError, match="a delivery has a column 'event_id' already"):
        match_stream(reader, stream.snapshots, output="o", checkpoint="c", payload=["event_id"])
