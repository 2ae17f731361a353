"""Compile: raw subscriptions in, canonical ones out; what cannot be read goes to quarantine with its reason.

Every input row is accepted, rejected, or one of several identical rows of which one is kept: none is lost. Rows
that share an id and differ are all rejected, because it is unknown which of them is meant.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from functools import partial

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tamis.errors import TableError
from tamis.model.schema import Schema
from tamis.model.subscription import DEFAULT_NAMESPACE
from tamis.spark.columns import arrow_form, id_type, partitions_of, require, require_filters, require_schema
from tamis.spark.subscriptions.compiling import Compile, compile_batches
from tamis.spark.subscriptions.typed import TypedColumns

__all__ = [
    "ACCEPTED",
    "Compiled",
    "accepted_form",
    "compile_subscriptions",
    "compiled_form",
    "no_rejected",
    "prepared_rules",
]

#: The columns of accepted subscriptions; a box has ``lo`` and ``hi`` over the schema's numbers and no text.
ACCEPTED = ("id", "namespace", "filter", "expires", "metadata", "lo", "hi")


def accepted_form(id_kind: str) -> T.StructType:
    """Return the types of `ACCEPTED`; ids are ``string`` or ``long``."""
    sides = T.ArrayType(T.DoubleType())
    form = T.StructType().add("id", id_kind).add("namespace", "string").add("filter", "string").add("expires", "long")
    return form.add("metadata", T.MapType(T.StringType(), T.StringType())).add("lo", sides).add("hi", sides)


def compiled_form(id_kind: str) -> T.StructType:
    """Return the types of compiled rows: accepted ones, and rejected ones with the reason."""
    return accepted_form(id_kind).add("reason", "string").add("position", "integer")


class Compiled(tuple[DataFrame, DataFrame]):
    """``accepted, rejected``: two answers from the same compiled rows, which Spark keeps until `release`."""

    _cached: DataFrame

    def __new__(cls, accepted: DataFrame, rejected: DataFrame, cached: DataFrame) -> Compiled:
        """Make the pair; ``cached`` are the rows that both come from."""
        pair = super().__new__(cls, (accepted, rejected))
        pair._cached = cached
        return pair

    def release(self) -> None:
        """Release what Spark caches of the rows; a later read compiles them again."""
        self._cached.unpersist()


def compile_subscriptions(
    subscriptions: DataFrame,
    *,
    schema: Schema,
    columns: Mapping[str, str | tuple[str | None, str | None]] | None = None,
    persist: bool = True,
) -> Compiled:
    """Return (accepted, rejected) subscriptions.

    Parameters
    ----------
    subscriptions
        Columns ``id`` (string or whole number) and ``filter`` (CQL2 text, or CQL2-JSON as text or VARIANT);
        optionally ``namespace``, ``expires`` (timestamp, RFC 3339 text or microseconds UTC) and ``metadata``
        (a map of strings).
    schema
        The attributes events carry.
    columns
        Instead of ``filter``: for each attribute the columns that hold its lower and upper bound (closed; null
        leaves the side open), or one column whose value it must equal (a region: intersect); null asks nothing.
    persist
        Keep the compiled rows (Spark spills them to disk), because both answers come from them; ``release()`` of
        what is returned gives them back.

    ``accepted`` is what `write_snapshot` takes. ``rejected`` has ``reason`` and ``position``, the offset of the
    culprit in the text if it has one.
    """
    require_schema(schema, "compile_subscriptions")
    typed = TypedColumns.of(columns, schema) if columns is not None else None
    sources = typed.names if typed is not None else ("filter",)
    require(subscriptions, ["id", *sources], "the table of subscriptions")
    if typed is None:
        require_filters(subscriptions, ["id", "filter"], "the table of subscriptions", variant=True)
    kind = id_type(subscriptions, "id")
    task = Compile(schema.to_json(), typed)
    # Spark answers a plan that equals an earlier, persisted one from what it kept, even when the files behind it have
    # changed since; a column of its own makes each call's plan its own.
    marked = subscriptions.withColumn("__tamis_call", F.lit(uuid.uuid4().hex))
    rows = _without_repeats(prepared_rules(marked, kind, sources))
    form = compiled_form(kind)
    compiled = rows.mapInArrow(partial(compile_batches, task=task, form=arrow_form(form, rows)), form)
    if persist:
        compiled = compiled.persist()
    accepted = compiled.where(F.col("reason").isNull()).select(*ACCEPTED)
    rejected = compiled.where(F.col("reason").isNotNull()).drop("lo", "hi")
    return Compiled(accepted, rejected, compiled)


def no_rejected(spark: SparkSession, id_kind: str) -> DataFrame:
    """Return an empty table of rejected subscriptions."""
    return spark.createDataFrame([], compiled_form(id_kind)).drop("lo", "hi")


def prepared_rules(frame: DataFrame, kind: str, sources: tuple[str, ...] = ("filter",)) -> DataFrame:
    """Return id, namespace, expires and metadata in one form, and the columns the filters come from."""
    present = set(frame.columns)
    namespace = F.col("namespace").cast("string") if "namespace" in present else F.lit(None).cast("string")
    metadata = F.col("metadata") if "metadata" in present else F.lit(None).cast("map<string, string>")
    if "metadata" in present and frame.schema["metadata"].dataType.simpleString() != "map<string,string>":
        raise TableError("column 'metadata': expected map<string,string>")
    return frame.select(
        F.col("id").cast(kind).alias("id"),
        F.coalesce(namespace, F.lit(DEFAULT_NAMESPACE)).alias("namespace"),
        (_expires(frame) if "expires" in present else F.lit(None).cast("string")).alias("expires"),
        metadata.alias("metadata"),
        *(_source(frame, name) for name in sources),
    )


def _source(frame: DataFrame, name: str) -> Column:
    kind = frame.schema[name].dataType
    if isinstance(kind, T.VariantType):
        return F.to_json(F.col(name)).alias(name)
    if isinstance(kind, T.StructType | T.MapType):
        raise TableError(f"column {name!r}: a filter is text or VARIANT, not {kind.simpleString()}")
    return F.col(name)


def _expires(frame: DataFrame) -> Column:
    """Return the end of a subscription as text that `moment` reads, or microseconds as text."""
    kind = frame.schema["expires"].dataType
    if isinstance(kind, T.TimestampType):
        return F.unix_micros(F.col("expires")).cast("string")
    return F.col("expires").cast("string")


def _without_repeats(rows: DataFrame) -> DataFrame:
    """Keep one of identical rows; mark all rows whose id has differing ones in ``conflict``."""
    entries = F.when(F.size("metadata") > 0, F.array_sort(F.map_entries("metadata")))  # none is as good as empty
    plain = [F.col(name) for name in rows.columns if name != "metadata"]
    print_of = F.sha2(F.to_json(F.struct(*plain, entries.alias("metadata"))), 256)
    same_id = Window.partitionBy("namespace", "id")
    marked = (
        rows.repartition(partitions_of(rows), "namespace", "id")
        .withColumn("_print", print_of)
        .withColumn("_place", F.row_number().over(same_id.orderBy("_print")))
        .withColumn("conflict", F.min("_print").over(same_id) != F.max("_print").over(same_id))
    )
    return marked.where((F.col("_place") == 1) | F.col("conflict")).drop("_print", "_place")
