"""Backtest on Spark: how often each rule fired, per day, the rules that never fired included."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tamis.model.schema import Schema
from tamis.model.subscription import DEFAULT_NAMESPACE
from tamis.model.types import AttributeType, String
from tamis.spark.columns import quoted, require, schema_of
from tamis.spark.matching.match import match
from tamis.spark.snapshots.snapshot import read_snapshot
from tamis.spark.subscriptions.compiling import LEARNED, Compile, learn_batches

__all__ = ["backtest"]


def backtest(
    events: DataFrame,
    subscriptions: DataFrame | str | Path,
    *,
    time: str | None = None,
    schema: Schema | None = None,
    event_id: str = "event_id",
    namespace: str = DEFAULT_NAMESPACE,
) -> DataFrame:
    """Return (subscription_id, day, fired): the firings of each rule per day; a rule that never fired has a row with 0.

    ``time`` is a timestamp column of the events; without it ``day`` is null and there is a row per rule. The other
    parameters are those of `match`. The result is as large as rules times days, and not collected.

    Without ``schema`` an attribute that rules of a DataFrame name and events lack is missing in all events.
    """
    require(events, [event_id, *([time] if time else [])], "the table of events")
    if schema is None and isinstance(subscriptions, DataFrame):
        require(subscriptions, ["filter"], "the table of subscriptions")
        schema = _learned(schema_of(events), subscriptions)
    deliveries = match(
        events,
        subscriptions,
        schema=schema,
        event_id=event_id,
        namespace=namespace,
        payload=[time] if time else (),
    )
    day = F.to_date(F.col(quoted(time))) if time else F.lit(None).cast("date")
    fired = deliveries.groupBy("subscription_id", day.alias("day")).agg(F.count(F.lit(1)).alias("fired"))
    rules = subscriptions if isinstance(subscriptions, DataFrame) else read_snapshot(events.sparkSession, subscriptions)
    wanted = rules
    if "namespace" in rules.columns:
        wanted = rules.where(F.coalesce(F.col("namespace"), F.lit(DEFAULT_NAMESPACE)) == namespace)
    name = "id" if "id" in rules.columns else "subscription_id"
    all_rules = wanted.select(F.col(name).alias("subscription_id")).distinct()
    joined = all_rules.join(fired, "subscription_id", "left")
    return joined.select("subscription_id", "day", F.coalesce("fired", F.lit(0)).alias("fired"))


def _learned(schema: Schema, rules: DataFrame) -> Schema:
    """Return a schema with the attributes that rules name besides; one that is only asked whether it is there is text.

    Of two types that rules give an attribute the first by name is taken; `match` says which rule does not fit.
    """
    task = Compile(schema.to_json(), None)
    texts = rules.select(F.col("filter").cast("string").alias("filter"))
    named = texts.mapInArrow(partial(learn_batches, task=task), LEARNED).distinct()
    types: dict[str, AttributeType] = {}
    for row in sorted(named.collect(), key=lambda row: (row.attribute, row.type is None, row.type)):  # attributes
        kind = String() if row.type is None else Schema.from_json(row.type)[row.attribute]
        types.setdefault(row.attribute, kind)
    return schema.extended(types, "the rules")
