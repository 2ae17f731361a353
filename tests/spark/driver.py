"""A Spark driver to be killed: a script that takes commands, a line of JSON each, and answers in kind.

One process has one SparkContext, so every cluster under test gets a driver process of its own. Commands that
name a ``hold`` stop at a known place, say so by a file ``HOLD/PLACE-PID``, and go on when ``HOLD/go`` is there:
a test can then kill what it likes, knowing what was going on.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext

import tamis
from tamis import spark as pipeline
from tamis.spark.running.small_files import DirectoryFiles
from tamis.spark.snapshots import building, snapshot
from tamis.spark.streaming import stream as streaming

REGIONS = "id long, region string"
#: Where ``toTable`` writes.
_TABLE = "tamis_own_sink"
#: Nothing is held longer, whatever became of the test.
_LONGEST = 600


def hold(directory: str, place: str) -> None:
    """Say that this process came to a place, and stay until told to go on."""
    Path(directory, f"{place}-{os.getpid()}").touch()
    deadline = time.monotonic() + _LONGEST
    while not Path(directory, "go").exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"no file told this driver to go on in {directory}")
        time.sleep(0.02)


def held_after_one(
    batches: Iterator[pa.RecordBatch], *, directory: str, partition: int | None = None
) -> Iterator[pa.RecordBatch]:
    """Pass batches on; hold after the first one, when those behind have begun with it, in one partition or in all."""
    task = TaskContext.get()
    is_held = partition is None or (task is not None and task.partitionId() == partition)
    for number, batch in enumerate(batches):
        if number == 1 and is_held:
            hold(directory, "task")
        yield batch


def held_build(batches: Iterator[pa.RecordBatch], *, task: Any, directory: str) -> Iterator[pa.RecordBatch]:
    """Write a part and hold before it is reported: its files are there, and no table names them."""
    for report in building.build_batches(batches, task=task):
        hold(directory, "task")
        yield report


def counts_of(report: Any) -> list[int]:
    return [report.added, report.changed, report.removed, report.unchanged, report.rejected]


class Commands:
    """What a test can ask for; each method is a command and returns what JSON can say."""

    def __init__(self, spark: Any = None) -> None:
        self._spark = spark
        self._queries: dict[str, Any] = {}

    def session(self, **settings: Any) -> dict[str, Any]:
        self._spark = pipeline.session(**settings)
        return {"version": self._spark.version, "java": os.environ.get("JAVA_HOME", "")}

    def write(self, subscriptions: str, directory: str, schema: str, part_size: int, hold: str = "") -> dict[str, Any]:
        frame = self._spark.read.parquet(subscriptions)
        accepted, rejected = pipeline.compile_subscriptions(frame, schema=tamis.Schema.from_json(schema))
        build = snapshot.build_batches
        if hold:
            snapshot.build_batches = lambda batches, *, task: held_build(batches, task=task, directory=hold)
        try:
            version = pipeline.write_snapshot(
                accepted, directory, schema=tamis.Schema.from_json(schema), part_size=part_size
            )
        finally:
            snapshot.build_batches = build
        return {"version": version.name, "rejected": rejected.count()}

    def match(self, events: str, directory: str, hold: str = "", rows_per_batch: int = 10_000) -> list[list[Any]]:
        self._spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", rows_per_batch)
        deliveries = pipeline.match(self._held(self._spark.read.parquet(events), hold), directory)
        return [[row.event_id, row.subscription_id] for row in deliveries.collect()]

    def verb(self, events: str, directory: str, place: str) -> dict[str, list[list[Any]]]:
        """Match in every form of the one verb: a DataFrame, a column, SQL, and a stream into a sink of Spark's own."""
        frame, matcher = self._spark.read.parquet(events), pipeline.matcher(directory)
        frame.createOrReplaceTempView("verb_events")
        matcher.register(self._spark, "verb_alerts", event_id_type="bigint")
        stream = self._spark.readStream.schema(frame.schema).parquet(events).transform(matcher.match)
        writer = stream.writeStream.format("parquet").option("checkpointLocation", f"{place}/checkpoint")
        writer.trigger(availableNow=True).start(f"{place}/output").awaitTermination()
        forms = {
            "match": frame.transform(matcher.match),
            "ids": frame.select("event_id", matcher.ids().alias("who")).selectExpr(
                "event_id", "explode(who) AS subscription_id"
            ),
            "sql": self._spark.sql("SELECT * FROM verb_alerts(TABLE(verb_events))"),
            "stream": self._spark.read.parquet(f"{place}/output"),
        }
        return {name: [[row.event_id, row.subscription_id] for row in rows.collect()] for name, rows in forms.items()}

    def page(self, text: str) -> str:
        """Run Python of a page in this session; return what it prints."""
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(text, "docs/spark.md", "exec"), {"spark": self._spark})
        return printed.getvalue()

    def sync(self, place: str) -> list[list[int]]:
        """Bring a version up to date with a table, twice; return the counts."""
        schema, directory = tamis.Schema({"price": tamis.Number()}), f"{place}/rules"
        first = {"a": "price < 1", "b": "price < 2", "bad": "price >>"}
        second = {"a": "price < 1", "b": "price < 3", "c": "price > 2"}
        reports = []
        for rules in (first, second):
            frame = self._spark.createDataFrame(list(rules.items()), "id string, filter string")
            reports.append(pipeline.sync_snapshot(frame, directory, schema=schema))
            reports[-1].release()
        return [counts_of(report) for report in reports]

    def sync_changes(self, place: str) -> list[list[int]]:
        """Bring the version of `sync` up to date with a stream of changes; return the counts of its batches."""
        form = "id string, filter string, operation string, version long"
        changes = [("a", None, "delete", 1), ("d", "price > 5", "insert", 2)]
        self._spark.createDataFrame(changes, form).write.mode("overwrite").parquet(f"{place}/changes")
        stream = self._spark.readStream.schema(form).parquet(f"{place}/changes")
        once = {"availableNow": True}
        query = pipeline.sync_stream(stream, f"{place}/rules", checkpoint=f"{place}/sync", trigger=once)
        query.awaitTermination()
        return [counts_of(report) for report in pipeline.sync_reports(f"{place}/sync")]

    def join(self, place: str) -> dict[str, list[list[Any]]]:
        """Join in every way, count what a version would have fired, and write the rows to sinks and back."""
        schema, make = tamis.Schema({"price": tamis.Number()}), self._spark.createDataFrame
        rules = make([("a", "price < 1"), ("b", "price < 3")], "id string, filter string")
        events = make([(1, 0.5), (2, 2.5), (3, 9.0)], "event_id long, price double")
        regions = make([(1, "POLYGON((0 0,1 0,1 1,0 1,0 0))"), (2, "POLYGON((0 0,3 0,3 3,0 3,0 0))")], REGIONS)
        points = make([(1, [0.0, 0.5]), (2, [3.0, 3.0])], "id long, vector array<double>")
        balls = make([(7, [0.0, 0.0], 1.0)], "id long, center array<double>, radius double")
        cells = pipeline.hilbert_keys(make([(1, [1, 1]), (2, [7, 7])], "id long, cell array<int>"), bits=3)
        boxes = pipeline.hilbert_ranges(make([(9, [0, 0], [2, 2])], "id long, low array<int>, high array<int>"), bits=3)
        rows = pipeline.matcher(rules, schema=schema).match(events)
        for format in ("parquet", "jsonl"):
            pipeline.write_rows(rows, format, f"{place}/{format}", query="q", batch=0)
            pipeline.write_rows(rows, format, f"{place}/{format}", query="q", batch=0)
        frames = {
            "covers": pipeline.covers_join(rules, rules, schema=schema, groups=2),
            "find": pipeline.find_covers(rules.where("id = 'a'"), rules.where("id = 'b'"), schema=schema),
            "relation": pipeline.relation_join(regions, regions, ["covered_by"]),
            "ball": pipeline.ball_join(points, balls, dimensions=2),
            "range": pipeline.range_join(cells, boxes, key_bits=6),
            "backtest": pipeline.backtest(events, rules, schema=schema).drop("day"),
            "parquet": self._spark.read.parquet(f"{place}/parquet").select("event_id", "subscription_id"),
            "jsonl": self._spark.read.json(f"{place}/jsonl").select("event_id", "subscription_id"),
        }
        return {name: sorted(map(list, frame.collect())) for name, frame in frames.items()}

    def own_stream(
        self, name: str, sink: str, events: str, directory: str, output: str, checkpoint: str, files: int, hold: str
    ) -> None:
        """Start a stream of the one verb into a sink of Spark's own; a hold comes when some rows of a batch are out."""
        self._spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", 50)
        source = self._spark.readStream.schema("event_id long, symbol string, price double, volume long")
        rows = source.option("maxFilesPerTrigger", files).parquet(events).transform(pipeline.matcher(directory).match)
        if hold and sink != "kept":
            second = partial(held_after_one, directory=hold, partition=1)  # the first one has written its file
            rows = rows.mapInArrow(second, rows.schema)
        writer = rows.writeStream.option("checkpointLocation", checkpoint)
        self._queries[name] = self._into(writer, sink, output, hold)

    def _into(self, writer: Any, sink: str, output: str, hold_at: str) -> Any:
        """Start a query into a sink: ``parquet``, ``table``, or ``foreach`` and ``kept``, a function per batch."""
        if sink == "parquet":
            return writer.format("parquet").start(output)
        if sink == "table":
            return writer.format("parquet").option("path", output).toTable(_TABLE)

        def keep(rows: Any, batch: int) -> None:
            pipeline.write_rows(rows, "parquet", output, query="own", batch=batch)
            if sink == "kept" and hold_at:
                hold(hold_at, "kept")

        return writer.foreachBatch(keep).start()

    def own_rows(self, sink: str, output: str) -> list[list[Any]]:
        """Return the rows of a sink as its reader sees them; a table is dropped afterwards, its files stay."""
        if sink == "table":
            self._spark.catalog.refreshTable(_TABLE)
        rows = self._spark.table(_TABLE) if sink == "table" else self._spark.read.parquet(output)
        pairs = [[row.event_id, row.subscription_id] for row in rows.select("event_id", "subscription_id").collect()]
        self._spark.sql(f"DROP TABLE IF EXISTS {_TABLE}")
        return pairs

    def confide(self, token: str) -> str:
        """Publish to a broker that is not there, with a token; return the error."""
        writer = self._spark.range(3).write.format("tamis").mode("append")
        try:
            writer.options(url="http://127.0.0.1:9", token=token, timeout="1").save()
        except Exception as error:
            return str(error)
        return ""

    def stream(self, name: str, hold: str = "", **places: str) -> None:
        self._spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", 50)
        source = self._spark.readStream.schema("event_id long, symbol string, price double, volume long")
        events = source.option("maxFilesPerTrigger", 1).parquet(places.pop("events"))
        self._queries[name] = pipeline.match_stream(self._held(events, hold), **places)

    def cook(self, url: str, checkpoint: str) -> None:
        """Stream a broker's raw events into cooked ones, through the broker."""
        options = {"url": url, "subscription": "raw", "filter": "kind = 'raw'", "maxEventsPerTrigger": 40}
        raw = self._spark.readStream.format("tamis").schema("n long").options(**options).load()
        sink = raw.selectExpr("n", "'cooked' AS kind").writeStream.format("tamis").option("url", url)
        self._queries["cook"] = sink.option("checkpointLocation", checkpoint).start()

    def finish(self, name: str) -> None:
        """Wait until a stream took all there is, stop it, and raise what it ended with."""
        query = self._queries.pop(name)
        query.processAllAvailable()
        query.stop()

    def deliveries(self, output: str) -> list[list[Any]]:
        deliveries = pipeline.read_deliveries(self._spark, output)
        return [[row.batch, row.event_id, row.subscription_id] for row in deliveries.collect()]

    def rejected(self, output: str) -> list[list[Any]]:
        rejected = pipeline.read_rejected(self._spark, output)
        return [[row.batch, row.event_id, row.reason] for row in rejected.collect()]

    def hold_stream(self, batch: int, directory: str) -> None:
        """Hold the batch of each stream at the place that is the stream's name (`PLACES`)."""
        for place in PLACES.values():
            place(batch, directory)

    def _held(self, frame: Any, directory: str) -> Any:
        if not directory:
            return frame
        return frame.mapInArrow(lambda batches: held_after_one(batches, directory=directory), frame.schema)


def _hold_begun(batch: int, directory: str) -> None:
    begin = streaming._Stream._begin

    def begun(self: Any, number: int) -> Any:
        begun_batch = begin(self, number)
        if number == batch and "/begun/" in self.output:
            hold(directory, "begun")
        return begun_batch

    streaming._Stream._begin = begun  # type: ignore[method-assign]


def _hold_written(batch: int, directory: str) -> None:
    rename = os.rename

    def renamed(old: Any, new: Any) -> None:
        if str(new).endswith(f"/written/output/batch={batch}"):
            hold(directory, "written")
        rename(old, new)

    os.rename = renamed


def _hold_placed(batch: int, directory: str) -> None:
    replace = DirectoryFiles.replace

    def replaced(self: DirectoryFiles, name: str, data: bytes) -> None:
        if f"{self.directory}/{name}".endswith(f"/placed/checkpoint/tamis/{batch}.end.json"):
            hold(directory, "placed")
        replace(self, name, data)

    DirectoryFiles.replace = replaced  # type: ignore[method-assign]


def _hold_reported(batch: int, directory: str) -> None:
    run = streaming._Stream.run

    def ran(self: Any, events: Any, number: int) -> None:
        run(self, events, number)
        if number == batch and "/reported/" in self.output:
            hold(directory, "reported")

    streaming._Stream.run = ran  # type: ignore[method-assign]


#: Where the driver of a stream can be held: the batch is begun and nothing is written; all its rows are written
#: aside; they are in place and the report is not; all is there and Spark does not know it.
PLACES: dict[str, Callable[[int, str], None]] = {
    "begun": _hold_begun,
    "written": _hold_written,
    "placed": _hold_placed,
    "reported": _hold_reported,
}


def main() -> None:
    answers, commands = os.fdopen(os.dup(1), "w"), Commands()
    os.dup2(2, 1)  # whatever Spark prints goes to the log
    for line in sys.stdin:
        command = json.loads(line)
        try:
            answer = {"answer": getattr(commands, command.pop("do"))(**command)}
        except Exception as error:
            answer = {"error": type(error).__name__, "message": str(error), "trace": traceback.format_exc()}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
