"""What the pipeline does to DataFrames between its stages: name, count, tell apart."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import msgspec
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tamis.errors import TableError
from tamis.model.schema import Schema
from tamis.model.subscription import DEFAULT_NAMESPACE
from tamis.spark.columns import quoted, schema_of
from tamis.spark.pipelines.pipeline_file import ReduceOptions, SubscriptionSource
from tamis.spark.sources.formats import Read
from tamis.spark.subscriptions.compile import ACCEPTED

__all__ = [
    "canonical",
    "count_repeats",
    "fingerprint_of",
    "learned_schema",
    "require_columns",
    "with_event_id",
]

_OPTIONAL = ("namespace", "expires", "metadata")


def require_columns(read: Read, path: str, named: Sequence[tuple[str, str]]) -> None:
    """Raise `TableError` for the first column that a key names and the source has not."""
    for key, name in named:
        if name not in read.rows.columns:
            columns = ", ".join(read.rows.columns) or "none"
            raise TableError(f"{path}: there is no column {name!r}, which {key} names (columns: {columns})")


def learned_schema(events: Read, declared: Schema) -> Schema:
    """Return the attributes: those that a user names, that the source declares, and that the columns show."""
    named = {**events.declared, **declared}
    others = events.rows.select(*(quoted(name) for name in events.rows.columns if name not in named))
    return Schema({**schema_of(others), **named})


def canonical(rows: DataFrame, source: SubscriptionSource) -> DataFrame:
    """Return subscriptions under the names that `compile_subscriptions` knows."""
    columns = [F.col(quoted(source.id)).alias("id")]
    if not source.bounds:
        columns.append(F.col(quoted(source.filter)).alias("filter"))
    for key in _OPTIONAL:
        name = getattr(source, key) or key
        if name in rows.columns:
            columns.append(F.col(quoted(name)).alias(key))
    bounds = [[bound] if isinstance(bound, str) else list(bound) for bound in source.bounds.values()]
    names = dict.fromkeys(name for pair in bounds for name in pair if name)
    missing = [name for name in names if name not in rows.columns]
    if missing:
        raise TableError(f"{source.path}: there is no column {missing[0]!r}, which subscriptions.bounds names")
    return rows.select(*columns, *(F.col(quoted(name)) for name in names if name not in ("id", *_OPTIONAL)))


def count_repeats(rows: DataFrame) -> int:
    """Count the rows that are there already: equal to another row, in a namespace and id that has no other kind."""
    namespace = F.col("namespace").cast("string") if "namespace" in rows.columns else F.lit(None).cast("string")
    placed = rows.withColumn("namespace", F.coalesce(namespace, F.lit(DEFAULT_NAMESPACE)))
    prints = placed.select("namespace", "id", _print_of(placed, placed.columns).alias("print"))
    groups = prints.groupBy("namespace", "id").agg(
        F.count(F.lit(1)).alias("n"), (F.min("print") == F.max("print")).alias("alike")
    )
    total = groups.where("alike").agg(F.sum(F.col("n") - 1)).first()
    return int((total[0] if total else None) or 0)


def fingerprint_of(accepted: DataFrame, schema: Schema, reduce: ReduceOptions | None) -> str:
    """Return a text that is the same for the same accepted subscriptions, in whatever order, schema and reduction."""
    prints = accepted.select(_print_of(accepted, ACCEPTED).alias("print"))
    # The sum does not depend on the order; two halves of a hash, because a decimal holds no more digits.
    halves = [F.conv(F.substring("print", first, 15), 16, 10).cast("decimal(38, 0)") for first in (1, 16)]
    sums = prints.agg(F.count(F.lit(1)), *(F.sum(half) for half in halves)).first()
    content = f"{schema.to_json()} {msgspec.json.encode(reduce).decode()} {tuple(map(str, sums or ()))}"
    return hashlib.sha256(content.encode()).hexdigest()[:32]


def with_event_id(unreadable: DataFrame, event_id: str, like: DataFrame) -> DataFrame:
    """Return unreadable records in the columns of a quarantine; the id is null where the record does not show it."""
    kind = like.schema["event_id"].dataType
    id_column = F.col(quoted(event_id)) if event_id in unreadable.columns else F.lit(None)
    return unreadable.select(id_column.cast(kind).alias("event_id"), "reason", "record")


def _print_of(frame: DataFrame, names: Sequence[str]) -> Column:
    """Return a hash of a row; a map counts by what is in it, not by the order."""
    parts = [
        F.array_sort(F.map_entries(name)).alias(name) if name == "metadata" else F.col(quoted(name)) for name in names
    ]
    return F.sha2(F.to_json(F.struct(*parts)), 256)
