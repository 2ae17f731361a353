"""Match a stream whose subscriptions change while it runs.

Each micro-batch meets one version of the snapshot, the newest when it begins. Which one, and the moment that
decides what has ended, is written down before the batch runs, so that a batch that runs again after a crash
gives the same rows. `outputs` puts them in place::

    CHECKPOINT/tamis/stream                        the name of the stream
               0.begin.json                        batch, version, now
               0.end.json                          events, deliveries, rejected, seconds, lag

A batch is there whole or not at all, and one that is there is never written again: exactly once, whatever was
killed. Output and checkpoint are directories that the driver and all executors see, or URIs; the checkpoint must be a
place where Spark itself can write.

With ``sink`` the deliveries go to a sink of the registry instead, under the stream's name and the number of the batch,
and rejected events to ``CHECKPOINT/tamis/rejected/batch=0``.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.streaming.query import StreamingQuery

from tamis.engine import snapshot
from tamis.engine.snapshot.object_store import is_remote
from tamis.errors import ModelError, SnapshotError, TableError
from tamis.model.schema import Schema
from tamis.model.subscription import DEFAULT_NAMESPACE
from tamis.spark.columns import quoted, require, require_places, require_trigger
from tamis.spark.matching.match import MatchPlan, moment_of, payload_of, require_location
from tamis.spark.running.file_systems import require_file_system
from tamis.spark.running.small_files import absolute_location
from tamis.spark.sinks.protocol import BatchKey
from tamis.spark.sinks.registry import SINKS, sink_of
from tamis.spark.streaming.batch_log import BatchReport, Begin, log_of
from tamis.spark.streaming.outputs import BatchFile, StreamOutput, output_at

__all__ = ["match_stream", "read_deliveries", "read_rejected"]


def match_stream(
    events: DataFrame,
    directory: str | Path,
    *,
    output: str | Path,
    checkpoint: str | Path,
    schema: Schema | None = None,
    event_id: str = "event_id",
    namespace: str = DEFAULT_NAMESPACE,
    namespace_column: str | None = None,
    payload: Sequence[str] = (),
    event_time: str | None = None,
    now: object = None,
    trigger: dict[str, Any] | None = None,
    sink: str | None = None,
    strict: bool = False,
) -> StreamingQuery:
    """Start matching a streaming DataFrame against the newest version in ``directory``, batch by batch.

    ``trigger`` is what `DataStreamWriter.trigger` takes, such as ``{"processingTime": "10 seconds"}`` or
    ``{"availableNow": True}``; ``event_time`` is a column with the moment an event happened, from which the lag in
    the reports is counted; ``now`` decides which subscriptions have ended, the time at which a batch is begun if it is
    not given, and is written down with the batch; the other parameters are those of `match`. Read the result with
    `read_deliveries` and `read_rejected`, and how it goes with `batch_reports`. Back-pressure is the source's: limit
    what a batch takes with its options (``maxFilesPerTrigger``, ``maxOffsetsPerTrigger``).

    ``sink`` names one of those of `write_rows`, and ``output`` is its target then: a Delta table, a table of the
    catalog. Each batch is there once, as the sink promises.
    """
    _check_arguments(events, directory, trigger)
    require_places(output=output, checkpoint=checkpoint)
    optional = [name for name in (namespace_column, event_time) if name is not None]
    payload = payload_of(events, payload, event_id, metadata=False)
    require(events, [event_id, *payload, *optional], "the stream of events")
    if event_time is not None and not isinstance(events.schema[event_time].dataType, T.TimestampType):
        raise TableError(f"column {event_time!r}: event_time is a timestamp with a zone")
    target = absolute_location(output) if sink is None else sink_of(sink, str(output))[1]
    log = absolute_location(checkpoint)
    require_file_system(events.sparkSession, log)
    newest = snapshot.newest(directory)  # says at once what is missing
    task = _Stream(
        str(newest).rpartition("/")[0],
        target,
        log,
        schema.to_json() if schema is not None else None,
        event_id,
        namespace,
        namespace_column,
        payload,
        event_time,
        sink,
        None if now is None else moment_of(now),
    )
    plan = MatchPlan(events, newest, schema, event_id, namespace, namespace_column, payload)
    plan.check_absent(strict=strict)
    plan.deliveries(None, rejects=True)  # says at once which column does not fit its attribute
    writer = events.writeStream.foreachBatch(task.run).option("checkpointLocation", log)
    return (writer.trigger(**trigger) if trigger else writer).start()


def _check_arguments(events: DataFrame, directory: str | Path, trigger: dict[str, Any] | None) -> None:
    """Check the kinds of the arguments before anything starts; `TableError` names the wrong one."""
    require(events, [], "the stream of events")
    require_location(directory, "directory")
    if isinstance(directory, DataFrame):
        raise TableError("directory: got a DataFrame of rules; write_snapshot or sync_snapshot makes a snapshot of it")
    require_trigger(trigger)
    if not events.isStreaming:
        raise TableError("match_stream needs a streaming DataFrame; use match for one that is complete")


def read_deliveries(spark: SparkSession, output: str | Path) -> DataFrame:
    """Return the deliveries of all finished batches of a stream, with their ``batch``."""
    return output_at(absolute_location(output)).read(spark, rejected=False).drop("reason")


def read_rejected(spark: SparkSession, output: str | Path) -> DataFrame:
    """Return (event_id, reason, batch) of the events that did not fit the schema."""
    return output_at(absolute_location(output)).read(spark, rejected=True).drop("subscription_id")


@dataclass(frozen=True)
class _Stream:
    """What happens to each micro-batch; it travels pickled where Spark runs it elsewhere."""

    directory: str
    output: str
    checkpoint: str
    schema: str | None
    event_id: str
    namespace: str
    namespace_column: str | None
    payload: tuple[str, ...]
    event_time: str | None
    sink: str | None = None
    #: The moment of every batch that is not begun yet; None for the time at which it begins.
    now: int | None = None

    def run(self, events: DataFrame, batch: int) -> None:
        """Match one micro-batch and put its rows in place, unless they are there."""
        if self.sink is not None:
            self._deliver(events, self._begin(batch), self.sink)
            return
        output = output_at(self.output)
        batch_file = output.find(batch)
        if batch_file is None:
            self._write(events, self._begin(batch), output)
            batch_file = output.find(batch)
            assert batch_file is not None
        self._check_owner(batch_file, batch)
        log_of(self.checkpoint).replace(f"{batch}.end.json", msgspec.json.encode(batch_file.report))
        output.clean(batch)

    def _begin(self, batch: int) -> Begin:
        """Return what the batch was begun with before, or choose now and write it down."""
        log, name = log_of(self.checkpoint), f"{batch}.begin.json"
        data = log.read(name)
        if data is None:
            version = snapshot.name_of(snapshot.newest(self.directory))
            now = time.time_ns() // 1000 if self.now is None else self.now
            data = log.create(name, msgspec.json.encode(Begin(batch, version, now)))
        begin = msgspec.json.decode(data, type=Begin)
        if not is_remote(self.directory) and not (Path(self.directory) / begin.version).is_dir():
            raise SnapshotError(self.directory, f"{begin.version} is gone, and batch {batch} was begun with it")
        return begin

    def _stream(self) -> str:
        """Return the name of this stream, given at its first batch."""
        log = log_of(self.checkpoint)
        return (log.read("stream") or log.create("stream", uuid.uuid4().hex.encode())).decode()

    def _check_owner(self, batch_file: BatchFile, batch: int) -> None:
        """Raise an error if the batch in place is another stream's: ours would be lost."""
        if batch_file.stream != self._stream():
            raise ModelError(
                f"{self.output}/batch={batch} was written by a stream with another checkpoint; "
                "give each checkpoint an output of its own"
            )

    def _deliver(self, events: DataFrame, begin: Begin, sink: str) -> None:
        """Match, hand the deliveries to a sink, keep the rejected events beside the checkpoint."""
        started = time.perf_counter()
        counted, counts = self._counted(events, begin)
        rows = counted.persist()
        try:
            deliveries = rows.where("reason IS NULL").drop("reason")
            SINKS[sink].write_batch(deliveries, self.output, BatchKey(self._stream(), begin.batch))
            rejected = rows.where("reason IS NOT NULL").drop("subscription_id")
            rejected.write.mode("overwrite").parquet(f"{self.checkpoint}/tamis/rejected/batch={begin.batch}")
        finally:
            rows.unpersist()
        report = _report(begin, counts(), time.perf_counter() - started)
        log_of(self.checkpoint).replace(f"{begin.batch}.end.json", msgspec.json.encode(report))

    def _counted(self, events: DataFrame, begin: Begin) -> tuple[DataFrame, Callable[[], dict[str, Any]]]:
        """Return deliveries and rejected events, and a function that gives their counts when they were written."""
        events_counter, deliveries_counter = Observation(), Observation()
        rows = self._rows(events.observe(events_counter, F.count(F.lit(1)).alias("events"), self._oldest()), begin)
        is_rejected = F.col("reason").isNotNull()
        counted = rows.observe(
            deliveries_counter, F.count_if(~is_rejected).alias("deliveries"), F.count_if(is_rejected).alias("rejected")
        )
        return counted, lambda: {**events_counter.get, **deliveries_counter.get}

    def _write(self, events: DataFrame, begin: Begin, output: StreamOutput) -> None:
        """Match, and put the rows in place."""
        started = time.perf_counter()
        counted, counts = self._counted(events, begin)

        def describe() -> BatchFile:
            report = _report(begin, counts(), time.perf_counter() - started)
            return BatchFile(self._stream(), counted.schema.json(), report)

        output.write(counted, begin.batch, describe)

    def _oldest(self) -> Column:
        """Return when the oldest event happened, in microseconds since 1970; null where nothing tells."""
        moment = F.lit(None).cast("long") if self.event_time is None else F.unix_micros(F.col(quoted(self.event_time)))
        return F.min(moment).alias("oldest")

    def _rows(self, events: DataFrame, begin: Begin) -> DataFrame:
        """Return deliveries and rejected events, as the batch was begun."""
        schema = Schema.from_json(self.schema) if self.schema is not None else None
        version = f"{self.directory}/{begin.version}"
        namespaces = (self.namespace, self.namespace_column)
        plan = MatchPlan(events, version, schema, self.event_id, *namespaces, self.payload)
        return plan.deliveries(begin.now, rejects=True)


def _report(begin: Begin, counts: dict[str, Any], seconds: float) -> BatchReport:
    """Return what a batch did that ends now; ``counts`` may tell when its oldest event happened."""
    ended = time.time()
    lag = ended - (counts.pop("oldest") or begin.now) / 1e6
    return BatchReport(begin.batch, begin.version, **counts, seconds=seconds, ended=ended, lag=lag)
