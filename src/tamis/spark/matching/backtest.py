"""Backtest on Spark: how often each rule fired, per day, the rules that never fired included."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tamis.model.schema import Schema
from tamis.model.subscription import DEFAULT_NAMESPACE
from tamis.spark.columns import quoted, require
from tamis.spark.matching.match import match
from tamis.spark.snapshots.snapshot import read_snapshot

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
    parameters are those of `match`. Nothing is collected: the result is as large as rules times days.
    """
    require(events, [event_id, *([time] if time else [])], "the table of events")
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
