"""Backtest on Spark: how often each rule fired, per day, the rules that never fired included."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import Column, DataFrame
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
    strict: bool = False,
) -> DataFrame:
    """Return (subscription_id, day, fired): the firings of each rule per day; a rule that never fired has a row with 0.

    ``time`` is a timestamp column of the events; without it ``day`` is null and there is a row per rule. The other
    parameters are those of `match`. The result is as large as rules times days, and not collected.

    The parts of a long Sigma rule are counted as that rule, once per event id, where the rules carry their metadata.
    """
    require(events, [event_id, *([time] if time else [])], "the table of events")
    if schema is None and isinstance(subscriptions, DataFrame):
        require(subscriptions, ["filter"], "the table of subscriptions")
    deliveries = match(
        events,
        subscriptions,
        schema=schema,
        event_id=event_id,
        namespace=namespace,
        payload=[time] if time else (),
        strict=strict,
    )
    day = F.to_date(F.col(quoted(time))) if time else F.lit(None).cast("date")
    rules = subscriptions if isinstance(subscriptions, DataFrame) else read_snapshot(events.sparkSession, subscriptions)
    wanted = rules
    if "namespace" in rules.columns:
        wanted = rules.where(F.coalesce(F.col("namespace"), F.lit(DEFAULT_NAMESPACE)) == namespace)
    name = "id" if "id" in rules.columns else "subscription_id"
    rule_of = wanted.select(F.col(name).alias("subscription_id"), _rule(wanted, name).alias("rule")).distinct()
    if "metadata" in rules.columns:
        deliveries = _of_whole_rules(deliveries, rule_of)
    fired = deliveries.groupBy("subscription_id", day.alias("day")).agg(F.count(F.lit(1)).alias("fired"))
    all_rules = rule_of.select(F.col("rule").alias("subscription_id")).distinct()
    joined = all_rules.join(fired, "subscription_id", "left")
    return joined.select("subscription_id", "day", F.coalesce("fired", F.lit(0)).alias("fired"))


def _rule(rules: DataFrame, name: str) -> Column:
    """Return the rule of each subscription: what its metadata names if it is a part of a long rule."""
    id = F.col(name)
    if "metadata" not in rules.columns:
        return id
    rule = F.col("metadata")["rule"]
    return F.when(id.cast("string").startswith(F.concat(rule, F.lit(" (part "))), rule).otherwise(id)


def _of_whole_rules(deliveries: DataFrame, rule_of: DataFrame) -> DataFrame:
    """Return deliveries with parts replaced by their rules, once per event."""
    named = deliveries.join(rule_of, "subscription_id")
    is_part = F.col("rule") != F.col("subscription_id")
    columns = [
        F.col("rule").alias("subscription_id"),
        *(F.col(quoted(c)) for c in deliveries.columns if c != "subscription_id"),
    ]
    return named.where(~is_part).select(columns).unionByName(named.where(is_part).select(columns).distinct())
