"""The pipeline: read, compile, reduce, snapshot, match, quarantine, report.

Each stage is timed. Every row is accounted for at the end, or the run fails and its output never appears: the
output directory is replaced as a whole (`run_directory`). Subscriptions that did not change since the last run
keep their snapshot; a fingerprint of all accepted rows, computed by the executors, tells.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from importlib.metadata import version

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from tamis.engine import snapshot
from tamis.engine.snapshot.object_store import is_remote, local_path
from tamis.errors import ModelError, TableError
from tamis.model.schema import Schema
from tamis.spark.matching.match import check_events, match
from tamis.spark.pipelines.pipeline_file import Pipeline
from tamis.spark.pipelines.pipeline_frames import (
    canonical,
    count_repeats,
    fingerprint_of,
    learned_schema,
    require_columns,
    with_event_id,
)
from tamis.spark.pipelines.report import EventCounts, Report, Stage, SubscriptionCounts, reasons_in, top_subscriptions
from tamis.spark.pipelines.run_place import RunPlace, run_place
from tamis.spark.reduction.reduce import Reduced, reduce_subscriptions
from tamis.spark.running.failures import SPARK_ERRORS, last_words
from tamis.spark.running.progress import named_jobs
from tamis.spark.running.session import session
from tamis.spark.sinks.registry import write_rows
from tamis.spark.snapshots.snapshot import write_snapshot
from tamis.spark.snapshots.summary import read_reduction
from tamis.spark.sources.formats import Read, read_events, read_subscriptions
from tamis.spark.subscriptions.compile import compile_subscriptions

__all__ = ["START", "run_pipeline"]

#: The name of the stage that starts Spark, which is not work on data.
START = "start Spark"

#: Given a stage's name, what to hold open while it runs: a progress bar, a log line.
Watch = Callable[[str], AbstractContextManager[object]]


def run_pipeline(pipeline: Pipeline, *, spark: SparkSession | None = None, watch: Watch = nullcontext) -> Report:
    """Run a pipeline from files to files; return what it did, which is also in ``report.json`` of the output.

    Parameters
    ----------
    pipeline
        `Pipeline.from_file` reads one; its output directory is replaced, whole or not at all.
    spark
        Your own session; one is made, and shown as a stage, when not given.
    watch
        Called with each stage's name; what it returns is entered while the stage runs.
    """
    pipeline.check()
    _refuse_nested(pipeline)
    stages = _Stages(pipeline.name, watch)
    with run_place(pipeline.output) as place:
        if spark is None:
            with stages.timed(START):
                spark = session(pipeline.options.master, name=f"tamis {pipeline.name}".strip(), **_settings(pipeline))
        report = _Run(pipeline, spark, place, stages).report()
        place.finish(report)
    return report


def _refuse_nested(pipeline: Pipeline) -> None:
    """Refuse an output that would replace the snapshot, and a snapshot inside the output."""
    locations = [
        str(location).rstrip("/") if is_remote(location) else str(local_path(location))
        for location in (pipeline.snapshot, pipeline.output)
    ]
    snapshot_path, output = (f"{location}/" for location in locations)
    if snapshot_path.startswith(output) or output.startswith(snapshot_path):
        raise ModelError(f"snapshot ({locations[0]}) and output ({locations[1]}) may not lie in one another")


def _settings(pipeline: Pipeline) -> dict[str, str]:
    """Return Spark's settings as it writes them: true, not True."""
    settings = pipeline.options.spark.items()
    return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in settings}


class _Stages:
    """The stages of a run, in order, each timed."""

    def __init__(self, name: str, watch: Watch) -> None:
        self._name = name
        self._watch = watch
        self.done: list[Stage] = []

    @contextmanager
    def timed(self, name: str) -> Iterator[Stage]:
        """Time a stage; a failure of Spark in it names the stage."""
        stage = Stage(name)
        start = time.perf_counter()
        try:
            with self._watch(name), named_jobs(f"{self._name}: {name}"):
                yield stage
        except SPARK_ERRORS as error:
            raise TableError(f"{self._name}, stage {name!r}: Spark failed: {last_words(error)}") from error
        stage.seconds = round(time.perf_counter() - start, 3)
        self.done.append(stage)


@dataclass(frozen=True)
class _Input:
    """What was read, and how many records there were before anything happened to them."""

    subscriptions: Read
    n_subscriptions: int
    events: Read
    n_events: int
    schema: Schema


@dataclass(frozen=True)
class _Compiled:
    accepted: DataFrame
    rejected: DataFrame
    counts: SubscriptionCounts
    fingerprint: str
    release: Callable[[], None]


@dataclass(frozen=True)
class _Snapshot:
    version: snapshot.Version
    fingerprint: str
    is_new: bool


@dataclass(frozen=True)
class _Matched:
    deliveries: DataFrame
    n_deliveries: int
    #: Events that came into the matcher, as the job that matched them counted.
    entered: int


@dataclass(frozen=True)
class _Run:
    """One run: what each stage leaves is what the next one takes."""

    pipeline: Pipeline
    spark: SparkSession
    place: RunPlace
    stages: _Stages

    def report(self) -> Report:
        """Run every stage; return what was done."""
        inputs = self._read()
        compiled = self._compile(inputs)
        current = self._snapshot(compiled, inputs.schema)
        compiled.release()
        matched = self._match(inputs, current)
        self._deliver(matched)
        quarantine, counts = self._quarantine(inputs, matched)
        with self.stages.timed("summary"):
            top = top_subscriptions(matched.deliveries)
            bad_subscriptions = reasons_in(compiled.rejected, "id") if compiled.counts.rejected else []
            bad_events = reasons_in(quarantine, "event_id") if counts.quarantined else []
        return Report(
            tamis=version("tamis"),
            pipeline=self.pipeline.name,
            stages=self.stages.done,
            subscriptions=compiled.counts,
            events=counts,
            deliveries=matched.n_deliveries,
            top=top,
            rejected_subscriptions=bad_subscriptions,
            rejected_events=bad_events,
            output=self.place.output,
            snapshot=str(current.version),
            fingerprint=current.fingerprint,
            new_snapshot=current.is_new,
            reduction=read_reduction(snapshot.opened(current.version, parts=False)),
        )

    def _read(self) -> _Input:
        subscription_source, event_source = self.pipeline.subscriptions, self.pipeline.events
        with self.stages.timed("read subscriptions") as stage:
            metadata = subscription_source.metadata or "metadata"
            subscriptions = read_subscriptions(
                self.spark,
                subscription_source.path,
                subscription_source.format,
                filter=subscription_source.filter,
                metadata=metadata,
            )
            require_columns(subscriptions, subscription_source.path, subscription_source.columns())
            stage.rows_out = subscriptions.records.count()
        with self.stages.timed("read events") as events_stage:
            declared = self.pipeline.declared()
            keys = event_source.columns()
            events = read_events(
                self.spark,
                event_source.path,
                event_source.format,
                declared,
                variant=event_source.variant,
                beside=[name for _, name in keys],
            )
            require_columns(events, event_source.path, keys)
            events_stage.rows_out = events.records.count()
        schema = declared if event_source.variant is not None else learned_schema(events, declared)
        return _Input(subscriptions, stage.rows_out, events, events_stage.rows_out, schema)

    def _compile(self, inputs: _Input) -> _Compiled:
        with self.stages.timed("compile") as stage:
            rows = canonical(inputs.subscriptions.rows, self.pipeline.subscriptions)
            columns = self.pipeline.subscriptions.typed_columns
            compiled = compile_subscriptions(rows, schema=inputs.schema, columns=columns)
            accepted, rejected = compiled
            if inputs.subscriptions.unreadable is not None:
                unreadable = inputs.subscriptions.unreadable.withColumnRenamed("record", "filter")
                rejected = rejected.unionByName(unreadable, allowMissingColumns=True)
            rejected = self.place.written(rejected, "quarantine/subscriptions")
            counts = SubscriptionCounts(inputs.n_subscriptions, accepted.count(), rejected.count(), count_repeats(rows))
            fingerprint = fingerprint_of(accepted, inputs.schema, self.pipeline.reduce)
            stage.rows_in, stage.rows_out = counts.rows, counts.accepted
        counts.check()
        return _Compiled(accepted, rejected, counts, fingerprint, compiled.release)

    def _snapshot(self, compiled: _Compiled, schema: Schema) -> _Snapshot:
        """Return the version with these subscriptions: the newest if it has them, else one that is made."""
        location = self.pipeline.snapshot
        earlier, newest = self.place.earlier, snapshot.find_newest(location)
        unchanged = (earlier.get("snapshot"), earlier.get("fingerprint")) == (str(newest), compiled.fingerprint)
        reduced = None if unchanged else self._reduced(compiled, schema)
        with self.stages.timed("snapshot") as stage:
            stage.rows_in = stage.rows_out = compiled.counts.accepted
            if newest is not None and unchanged:
                return _Snapshot(newest, compiled.fingerprint, False)
            size = self.pipeline.options.part_size
            version = write_snapshot(compiled.accepted, location, schema=schema, part_size=size, summary=reduced)
        if reduced is not None:
            reduced.release()
        return _Snapshot(version, compiled.fingerprint, True)

    def _reduced(self, compiled: _Compiled, schema: Schema) -> Reduced | None:
        """Return what links have to carry, if the pipeline asks for it."""
        settings = self.pipeline.reduce
        if settings is None:
            return None
        with self.stages.timed("reduce") as stage:
            reduced = reduce_subscriptions(
                compiled.accepted, schema=schema, tile_by=settings.tile_by, tiles=settings.tiles, merge=settings.merge
            )
            stage.rows_in, stage.rows_out = reduced.counts.before, reduced.counts.after
        return reduced

    def _match(self, inputs: _Input, current: _Snapshot) -> _Matched:
        source, options = self.pipeline.events, self.pipeline.options
        with self.stages.timed("match") as stage:
            counter = Observation()
            deliveries = match(
                inputs.events.rows.observe(counter, F.count(F.lit(1)).alias("n")),
                current.version,
                schema=inputs.schema,
                event_id=source.id,
                namespace=options.namespace,
                namespace_column=source.namespace,
                payload=source.payload,
                now=options.now,
            )
            deliveries = self.place.written(deliveries, "deliveries")
            stage.rows_in, stage.rows_out = int(counter.get["n"]), deliveries.count()
        return _Matched(deliveries, stage.rows_out, stage.rows_in)

    def _deliver(self, matched: _Matched) -> None:
        """Write the deliveries to the sink that the pipeline names, if it names one."""
        sink = self.pipeline.deliveries
        if sink is not None:
            with self.stages.timed("deliver") as stage:
                write_rows(matched.deliveries, sink.format, sink.path)
                stage.rows_in = stage.rows_out = matched.n_deliveries

    def _quarantine(self, inputs: _Input, matched: _Matched) -> tuple[DataFrame, EventCounts]:
        """Write the events that match nothing because something is wrong with them."""
        with self.stages.timed("quarantine") as stage:
            rejected = check_events(inputs.events.rows, schema=inputs.schema, event_id=self.pipeline.events.id)
            rejected = rejected.withColumn("record", F.lit(None).cast("string"))
            if inputs.events.unreadable is not None:
                rejected = rejected.unionByName(
                    with_event_id(inputs.events.unreadable, self.pipeline.events.id, rejected)
                )
            rejected = self.place.written(rejected, "quarantine/events")
            counted = rejected.agg(F.count("record").alias("unreadable"), F.count(F.lit(1)).alias("all")).first()
            unreadable, quarantined = (int(counted["unreadable"]), int(counted["all"])) if counted else (0, 0)
            stage.rows_in, stage.rows_out = inputs.n_events, quarantined
        counts = EventCounts(
            rows=inputs.n_events,
            entered=matched.entered,
            matched_input=matched.entered - (quarantined - unreadable),
            quarantined=quarantined,
            unreadable=unreadable,
        )
        counts.check()
        return rejected, counts
