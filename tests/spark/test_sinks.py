"""Sinks: each holds the rows that were written, once per batch however often it is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

from tamis.errors import ModelError, TableError
from tamis.spark import batch_reports, match_stream, write_rows, write_snapshot
from tamis.spark.sinks.kafka import messages
from tamis.spark.sinks.protocol import BatchKey
from tamis.spark.sinks.registry import SINKS
from tamis.spark.sources.formats import read_events
from tests.spark.every_type import check_every_type
from tests.spark.test_match import accepted
from tests.spark.worlds import COLUMNS, SCHEMA, laptop, pairs, rows

ROWS = [(1, "a"), (2, "b")]
FORM = "event_id long, subscription_id string"


def read(spark: Any, format: str, target: str) -> list[tuple[int, str]]:
    """Return what a target holds, by a reader that is not the sink's."""
    if format == "table":
        return pairs(spark.table(target))
    if format == "delta":
        return pairs(read_events(spark, target, "delta").rows)
    reader = spark.read.option("header", "true").option("recursiveFileLookup", "true").schema(FORM)
    return pairs(reader.format({"jsonl": "json"}.get(format, format)).load(target))


#: JSONL and CSV are the sink of Parquet with another word for Spark.
FORMATS = ["parquet", "delta", "table", *(pytest.param(name, marks=pytest.mark.soak) for name in ("jsonl", "csv"))]


@pytest.mark.parametrize("format", FORMATS)
def test_a_batch_is_there_once(spark: Any, tmp_path: Path, format: str) -> None:
    target = f"sink_{tmp_path.name}".lower().replace("-", "_") if format == "table" else str(tmp_path / "target")
    first, second = (spark.createDataFrame([row], FORM) for row in ROWS)
    try:
        for _ in range(2):  # the second time as after a crash
            write_rows(first, format, target, query="alerts", batch=0)
        write_rows(second, format, target, query="alerts", batch=1)
        write_rows(second.limit(0), format, target, query="alerts", batch=2)
        assert read(spark, format, target) == ROWS
        write_rows(first, format, target, query="others", batch=0)  # another query has batches of its own
        assert read(spark, format, target) == [ROWS[0], *ROWS]
        write_rows(second, format, target)
        assert read(spark, format, target) == [ROWS[1]]
    finally:
        if format == "table":
            spark.sql(f"DROP TABLE IF EXISTS {target}")


def test_the_console_shows_rows(spark: Any, capsys: pytest.CaptureFixture[str]) -> None:
    write_rows(spark.createDataFrame(ROWS, FORM), "console", "deliveries", query="alerts", batch=3)
    shown = capsys.readouterr().out
    assert "deliveries (alerts, batch 3)" in shown
    assert "|2       |b              |" in shown


def test_kafka_as_far_as_the_plan(spark: Any) -> None:
    """The connector's jar is not on PyPI: what it would be given, and Spark's answer without it."""
    frame = spark.createDataFrame(ROWS, FORM)
    message = messages(frame, BatchKey("alerts", 7)).orderBy("key").first()
    assert (message["key"], message["value"]) == ("a", '{"event_id":1,"subscription_id":"a"}')
    assert {header["key"]: bytes(header["value"]) for header in message["headers"]} == {
        "query": b"alerts",
        "batch": b"7",
    }
    with pytest.raises(Exception, match="(?i)kafka"):
        write_rows(frame, "kafka", "127.0.0.1:9092/alerts", query="alerts", batch=7)


@pytest.mark.parametrize(
    ("format", "target", "names", "problem"),
    [
        ("avro", "x", {}, "there is no sink 'avro'; choose from parquet, jsonl"),
        ("kafka", "topic", {"query": "q", "batch": 1}, "is not host:port/topic"),
        ("kafka", "h:1/topic", {}, "a topic cannot be replaced"),
        ("delta", "", {}, "the path of a sink is not empty"),
        ("delta", "hdfs://h/x", {}, "a Delta table is written to a directory, s3://"),
        ("table", "a/b", {}, "is not the name of a table"),
        ("parquet", "", {}, "the path of a sink is not empty"),
        ("parquet", "x", {"query": "q"}, "give both or neither"),
        ("parquet", "x", {"query": "../q", "batch": 1}, "is not a name of letters"),
        ("parquet", "x", {"query": "q", "batch": -1}, "is not the number of a batch"),
    ],
)
def test_what_a_caller_can_get_wrong(spark: Any, format: str, target: str, names: dict[str, Any], problem: str) -> None:
    with pytest.raises(ModelError, match=problem):
        write_rows(spark.range(1), format, target, **names)


def test_a_table_of_other_columns_is_left_alone(spark: Any, tmp_path: Path) -> None:
    name = f"other_{tmp_path.name}".lower().replace("-", "_")
    spark.range(1).write.saveAsTable(name)
    try:
        with pytest.raises(TableError, match=f"the table {name} has the columns id, not event_id"):
            write_rows(spark.createDataFrame(ROWS, FORM), "table", name, query="q", batch=0)
    finally:
        spark.sql(f"DROP TABLE {name}")


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        ("event_id long", "has the columns event_id, subscription_id, not event_id$"),
        ("event_id long, subscription_id string, x int", "not event_id, subscription_id, x"),
        ("event_id string, subscription_id string", "the column 'event_id' of the table .* is .*long.*, not .*string"),
    ],
)
def test_a_delta_table_of_other_columns_is_left_alone(spark: Any, tmp_path: Path, columns: str, problem: str) -> None:
    """The log takes files of any columns; rows in them would be read as null."""
    target = str(tmp_path / "target")
    write_rows(spark.createDataFrame(ROWS, FORM), "delta", target, query="q", batch=0)
    with pytest.raises(TableError, match=problem):
        write_rows(spark.createDataFrame([], columns), "delta", target, query="q", batch=1)
    assert read(spark, "delta", target) == ROWS


def test_values_of_every_type_come_back_from_delta(spark: Any, tmp_path: Path) -> None:
    check_every_type(spark, "delta", str(tmp_path / "target"))


def test_a_required_column_of_a_delta_table_is_left_alone(spark: Any, tmp_path: Path) -> None:
    target = str(tmp_path / "target")
    form = pa.schema([pa.field("event_id", pa.int64(), nullable=False), pa.field("subscription_id", pa.string())])
    deltalake.DeltaTable.create(target, deltalake.Schema.from_arrow(form))
    with pytest.raises(TableError, match="the column 'event_id' of the table .* is required; make it optional first"):
        write_rows(spark.createDataFrame(ROWS, FORM), "delta", target, query="q", batch=0)


def test_a_delta_table_is_replaced_by_one_of_other_columns(spark: Any, tmp_path: Path) -> None:
    target = str(tmp_path / "target")
    write_rows(spark.createDataFrame(ROWS, FORM), "delta", target)
    write_rows(spark.createDataFrame([("x", 0.5)], "event_id string, mag double"), "delta", target)
    assert [tuple(row) for row in read_events(spark, target, "delta").rows.collect()] == [("x", 0.5)]


def test_a_stream_into_delta(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The batch that runs again after a crash is recognised by the table, and meets the rules it was begun with."""
    source, output, checkpoint = tmp_path / "source", tmp_path / "delta", tmp_path / "checkpoint"
    rules, events = tmp_path / "rules", rows(20, seed=51)
    write_snapshot(accepted(spark, [("low", "price < 50")]), rules, schema=SCHEMA)
    spark.createDataFrame(events, COLUMNS).coalesce(1).write.parquet(str(source))

    def run() -> None:
        stream = spark.readStream.schema(COLUMNS).parquet(str(source))
        match_stream(
            stream, rules, output=output, checkpoint=checkpoint, trigger={"availableNow": True}, sink="delta"
        ).awaitTermination()

    run()
    wanted = sorted(laptop([("low", "price < 50")], events))
    assert read(spark, "delta", str(output)) == wanted != []
    write_snapshot(accepted(spark, [("high", "price > 50")]), rules, schema=SCHEMA)
    for noted in [*(checkpoint / "commits").iterdir(), *(checkpoint / "tamis").glob("*.end.json")]:
        noted.unlink()
    run()
    assert read(spark, "delta", str(output)) == wanted
    [report] = batch_reports(checkpoint)
    assert (report.version, report.events, report.deliveries) == ("v000001", 20, len(wanted))
    with pytest.raises(ModelError, match="there is no sink 'avro'"):
        match_stream(
            spark.readStream.schema(COLUMNS).parquet(str(source)), rules, output="o", checkpoint="c", sink="avro"
        )


def test_every_sink_is_tried() -> None:
    assert set(SINKS) == {
        "parquet",
        "jsonl",
        "csv",
        "delta",
        "iceberg",
        "table",
        "kafka",
        "console",
    }
