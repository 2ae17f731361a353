"""Covering by a single other in a set that no axis cuts: texts, moments, patterns, balls.

Subscriptions fall into parts by their ids, and each pair of parts is one task. Whatever covers a subscription is with
it in some pair, so what no pair drops stays in the whole set, and what a pair drops is gone. A second round over pairs,
of what stays with what is gone, finds the first id among the covers that stay.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tamis.model.schema import Schema
from tamis.reduction import cover_partition
from tamis.spark.columns import arrow_form, id_type, partitions_of
from tamis.spark.reduction.reducing import Reason, Reduce, groups_of_rows, reasons_of, subscriptions_of
from tamis.spark.subscriptions.compile import ACCEPTED
from tamis.spark.subscriptions.rule_texts import reader_of

__all__ = ["covered_by_parts"]


def covered_by_parts(rows: DataFrame, schema: Schema, n_parts: int) -> tuple[DataFrame, DataFrame]:
    """Return accepted subscriptions with ``rule``, ``by`` (one id) and ``copies``, and the frame to unpersist later."""
    kind = id_type(rows, "id")
    form = T.StructType().add("namespace", "string").add("id", kind).add("rule", "string").add("by", kind)
    task = Reduce(schema.to_json(), "", False, 0, arrow_form(form, rows))
    part = F.pmod(F.xxhash64("id"), F.lit(n_parts)).cast("int")
    every = F.explode(F.array(*(F.lit(number) for number in range(n_parts))))
    numbered = rows.select(*ACCEPTED, part.alias("part"))
    paired = numbered.withColumn("other", every).where("part <> other")
    pair = F.least("part", "other") * n_parts + F.greatest("part", "other")
    dropped = _in_pairs(paired.withColumn("stays", F.lit(True)), pair, partial(drop_in_pair, task=task), form)
    is_impossible = F.bool_or(F.col("rule") == "impossible").alias("is_impossible")
    marked = numbered.join(dropped.groupBy("namespace", "id").agg(is_impossible), ["namespace", "id"], "left").persist()
    rest = marked.where("NOT coalesce(is_impossible, false)").withColumn("stays", F.col("is_impossible").isNull())
    kept_part, gone_part = (F.when(F.col("stays") == side, F.col("part")) for side in (True, False))
    spread = rest.withColumn("other", every)
    pair = F.coalesce(kept_part, "other") * n_parts + F.coalesce(gone_part, "other")
    explained = _in_pairs(spread, pair, partial(explain_in_pair, task=task), form)
    first = explained.groupBy("namespace", "id").agg(F.min(F.struct("by", "rule")).alias("first"))
    joined = marked.join(first, ["namespace", "id"], "left")
    # What only a pair covers whose cover is gone, with no proof for one that stays, stays itself: it has no reason.
    rule = F.when(F.col("is_impossible"), "impossible").otherwise(F.col("first.rule"))
    by = F.when(F.col("is_impossible"), F.array().cast("array<string>")).when(
        F.col("first").isNotNull(), F.array(F.col("first.by").cast("string"))
    )
    copies = F.lit(2 * n_parts - 1).alias("copies")
    return joined.select(*ACCEPTED, rule.alias("rule"), by.alias("by"), copies), marked


def _in_pairs(rows: DataFrame, pair: Column, task: Any, form: T.StructType) -> DataFrame:
    """Return what a task makes of the rows of each pair of parts of a namespace, which come together."""
    chosen = rows.select(*ACCEPTED, "stays", pair.alias("pair"))
    placed = chosen.repartition(partitions_of(rows), "namespace", "pair").sortWithinPartitions("namespace", "pair")
    return placed.mapInArrow(task, form)


def drop_in_pair(batches: Iterator[pa.RecordBatch], *, task: Reduce) -> Iterator[pa.RecordBatch]:
    """Yield what a single other of the same pair covers, and what nothing can match."""
    reader = reader_of(task.schema)
    for rows in groups_of_rows(batches, "namespace", "pair"):
        reasons = reasons_of(cover_partition(subscriptions_of(rows, reader), reader.schema))
        yield _reported(rows, reasons, task.form)


def explain_in_pair(batches: Iterator[pa.RecordBatch], *, task: Reduce) -> Iterator[pa.RecordBatch]:
    """Yield what is gone and covered by something of the pair that stays, with the first of those covers."""
    reader = reader_of(task.schema)
    for rows in groups_of_rows(batches, "namespace", "pair"):
        staying = set(rows.filter(rows["stays"])["id"].to_pylist())
        reasons: dict[Any, Reason] = {}
        while len(rows) > len(staying):
            reasons = reasons_of(cover_partition(subscriptions_of(rows, reader), reader.schema))
            is_explained = pa.array([id in reasons or id in staying for id in rows["id"].to_pylist()], pa.bool_())
            if pc.all(is_explained).as_py():
                break
            rows = rows.filter(is_explained)  # a row that nothing here covers must not be named as the cover of another
        yield _reported(rows, {id: _by_staying(id, reasons, staying) for id in reasons.keys() - staying}, task.form)


def _by_staying(id: Any, reasons: dict[Any, Reason], staying: set[Any]) -> Reason:
    """Return the reason why one is gone by one that stays: its equal may be gone by another."""
    rule, (by,) = reasons[id]
    while by not in staying:
        next_rule, (by,) = reasons[by]
        rule = "covered" if "covered" in (rule, next_rule) else rule
    return rule, (by,)


def _reported(rows: pa.Table, reasons: dict[Any, Reason], form: pa.Schema) -> pa.RecordBatch:
    """Return the rows that have a reason, with it."""
    namespaces = rows["namespace"].unique().to_pylist()
    lines = [
        {"namespace": namespaces[0], "id": id, "rule": rule, "by": by[0] if by else None}
        for id, (rule, by) in reasons.items()
    ]
    return pa.RecordBatch.from_pylist(lines, schema=form)
