"""Rules that come as a stream of changes: each micro-batch becomes one version of a snapshot.

A batch that runs again after a crash finds its changes in the newest version and publishes nothing::

    CHECKPOINT/tamis/0.sync.json                what the batch did
               quarantine/batch=0/*.parquet     the changes that were rejected, with reason and position
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from tamis.engine import snapshot
from tamis.errors import SchemaError, TableError
from tamis.model.schema import Schema
from tamis.model.subscription import DEFAULT_NAMESPACE
from tamis.spark.columns import id_type, quoted, require, require_filters, require_places, require_trigger
from tamis.spark.running.file_systems import require_file_system
from tamis.spark.running.small_files import absolute_location
from tamis.spark.snapshots.few_rules import DELETED
from tamis.spark.snapshots.snapshot import unless_overtaken
from tamis.spark.snapshots.sync import SyncReport, apply_changes, first_version, tidied
from tamis.spark.streaming.batch_log import log_of, logged
from tamis.spark.subscriptions.compile import compiled_form, no_rejected

__all__ = ["SyncedBatch", "read_quarantine", "sync_reports", "sync_stream"]

#: What a change may ask for; the names of Delta's change feed are among them.
_UPSERTS = ("insert", "update", "update_postimage")
_DELETES = ("delete",)
_IGNORED = ("update_preimage",)
#: The folder of rejected changes in the log.
_QUARANTINE = "quarantine"


class SyncedBatch(msgspec.Struct, frozen=True):
    """What a micro-batch of changes did."""

    batch: int
    #: The newest version afterwards.
    version: str
    added: int
    changed: int
    removed: int
    unchanged: int
    rejected: int
    seconds: float


def sync_stream(
    changes: DataFrame,
    directory: str | Path,
    *,
    checkpoint: str | Path,
    schema: Schema | None = None,
    operation: str = "operation",
    version: str = "version",
    trigger: dict[str, Any] | None = None,
) -> StreamingQuery:
    """Start to publish a stream of changes of rules as versions of a snapshot, one for each micro-batch with changes.

    Parameters
    ----------
    changes
        A streaming DataFrame with the columns of `compile_subscriptions`, ``operation`` and ``version``.
    directory, schema
        As in `sync_snapshot`.
    operation
        The column that says ``insert``, ``update`` or ``delete``; the first two replace the rule of that id, if there
        is one. Of Delta's change feed (``_change_type``) ``update_preimage`` is ignored.
    version
        The column that orders the changes of a rule within a batch, such as a number, a time or ``_commit_version``:
        the highest one counts. At the same version a deletion comes first, and insertions that differ are rejected.
        Batches count in the order of the stream.
    trigger
        As in `match_stream`.

    A rejected change stops nothing and is kept (`read_quarantine`). A rule that is changed to something that cannot be
    compiled leaves. `sync_reports` tells what each batch did.
    """
    require(changes, [], "the stream of changes")
    if not changes.isStreaming:
        raise TableError("sync_stream needs a streaming DataFrame; use sync_snapshot for a table")
    require_filters(changes, ["id", "filter", operation, version], "the stream of changes", variant=True)
    require_trigger(trigger)
    require_places(directory=directory, checkpoint=checkpoint)
    if schema is None and snapshot.find_newest(directory) is None:
        raise SchemaError("", f"{directory} has no version yet: name the attributes of events with schema=")
    checkpoint_path, location = absolute_location(checkpoint), absolute_location(directory)
    require_file_system(changes.sparkSession, checkpoint_path)
    task = _SyncBatch(location, checkpoint_path, None if schema is None else schema.to_json(), operation, version)
    writer = changes.writeStream.foreachBatch(task.run).option("checkpointLocation", checkpoint_path)
    return (writer.trigger(**trigger) if trigger else writer).start()


def sync_reports(checkpoint: str | Path) -> list[SyncedBatch]:
    """Return what the finished micro-batches of `sync_stream` did, in their order."""
    return sorted(logged(checkpoint, ".sync.json", SyncedBatch), key=lambda report: report.batch)


def read_quarantine(spark: SparkSession, checkpoint: str | Path) -> DataFrame:
    """Return the rejected changes of `sync_stream`.

    Each has the columns of a rule, ``reason`` and ``position``, and ``operation``, ``version`` and ``batch`` that say
    which change it is.
    """
    if not any(name.startswith(f"{_QUARANTINE}/") for name in log_of(checkpoint).names()):
        absent = F.lit(None).cast("string")
        return no_rejected(spark, "string").select(
            absent.alias("version"), absent.alias("operation"), "*", F.lit(0).alias("batch")
        )
    return spark.read.parquet(f"{absolute_location(checkpoint)}/tamis/{_QUARANTINE}")


@dataclass(frozen=True)
class _SyncBatch:
    """What happens to each micro-batch; it travels pickled where Spark runs it elsewhere."""

    directory: str
    checkpoint: str
    schema: str | None
    operation: str
    version: str

    def run(self, changes: DataFrame, batch: int) -> None:
        """Publish one micro-batch, and write down what it did."""
        started = time.perf_counter()
        rows = changes.persist()
        try:
            last = self._last(rows)
            report = tidied(changes.sparkSession, unless_overtaken(lambda: self._apply(last)))
            bad_rows = self._rejected(rows)
            rejected = report.rejected + bad_rows.count()
            if rejected:
                directory = f"{self.checkpoint}/tamis/{_QUARANTINE}/batch={batch}"
                quarantined = self._with_change(report.quarantine, last).select(bad_rows.columns).union(bad_rows)
                quarantined.coalesce(1).write.mode("overwrite").parquet(directory)
            report.release()
        finally:
            rows.unpersist()
        numbers = (report.added, report.changed, report.removed, report.unchanged, rejected)
        done = SyncedBatch(batch, snapshot.name_of(report.version), *numbers, time.perf_counter() - started)
        log_of(self.checkpoint).replace(f"{batch}.sync.json", msgspec.json.encode(done))

    def _apply(self, changes: DataFrame) -> SyncReport:
        base = snapshot.find_newest(self.directory)
        schema = None if self.schema is None else Schema.from_json(self.schema)
        if base is None:
            return first_version(changes.where(~F.col(DELETED)), self.directory, schema)
        return apply_changes(changes, base, schema, whole=False)

    def _last(self, changes: DataFrame) -> DataFrame:
        """Return the last change of each rule; several that differ at one version are left to the compiler."""
        kind = F.lower(F.col(quoted(self.operation)).cast("string"))
        namespace = F.col("namespace").cast("string") if "namespace" in changes.columns else F.lit(None)
        window = Window.partitionBy(F.coalesce(namespace, F.lit(DEFAULT_NAMESPACE)), "id")
        marked = changes.where(self._problem().isNull() & ~kind.isin(*_IGNORED)).withColumn(
            DELETED, kind.isin(*_DELETES)
        )
        latest = F.rank().over(window.orderBy(F.col(quoted(self.version)).desc(), F.col(DELETED)))
        return marked.withColumn("__latest", latest).where("__latest = 1").drop("__latest")

    def _problem(self) -> Column:
        """Return why a change cannot be ordered or understood; null when it can."""
        kind = F.col(quoted(self.operation)).cast("string")
        is_known = F.lower(kind).isin(*_UPSERTS, *_DELETES, *_IGNORED)
        message = F.concat(F.lit("the operation is "), F.coalesce(kind, F.lit("missing")))
        reason = F.when(~F.coalesce(is_known, F.lit(False)), F.concat(message, F.lit("; use insert, update or delete")))
        return reason.when(F.col(quoted(self.version)).isNull(), F.lit("there is no version to order the change by"))

    def _with_change(self, rejected: DataFrame, changes: DataFrame) -> DataFrame:
        """Return rejected rules with the operation and the version of the change that each comes from."""
        namespace = F.col("namespace").cast("string") if "namespace" in changes.columns else F.lit(None).cast("string")
        keys = {"id": F.col("id"), "namespace": namespace, "filter": F.col("filter").cast("string")}
        newest = changes.groupBy(*(column.alias(f"of_{name}") for name, column in keys.items())).agg(
            F.max(F.struct(*self._change_columns(changes).values())).alias("change")
        )
        same = [
            F.coalesce(F.col("namespace"), F.lit(DEFAULT_NAMESPACE))
            == F.coalesce(F.col("of_namespace"), F.lit(DEFAULT_NAMESPACE)),
            *(F.col(name).eqNullSafe(F.col(f"of_{name}")) for name in ("id", "filter")),
        ]
        columns = [F.col(f"change.{name}") for name in self._change_columns(changes)]
        return rejected.join(newest, same, "left").select("*", *columns)

    def _change_columns(self, changes: DataFrame) -> dict[str, Column]:
        """Return the version and the operation of a change as columns of the quarantine."""
        return {
            "version": F.col(quoted(self.version)).cast("string").alias("version"),
            "operation": F.col(quoted(self.operation)).cast("string").alias("operation"),
        }

    def _rejected(self, changes: DataFrame) -> DataFrame:
        """Return the changes that cannot be understood, in the form of rejected rules."""
        columns = set(changes.columns)
        form = compiled_form(id_type(changes, "id"))
        rejected = changes.withColumn("reason", self._problem()).where("reason IS NOT NULL")
        kept_columns = {"id", "namespace", "filter", "reason"} & (columns | {"reason"})
        return rejected.select(
            *self._change_columns(changes).values(),
            *(
                (F.col(field.name) if field.name in kept_columns else F.lit(None))
                .cast(field.dataType)
                .alias(field.name)
                for field in form
                if field.name not in ("lo", "hi")
            ),
        )
