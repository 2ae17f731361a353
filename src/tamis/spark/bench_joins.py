"""The joins that users of Spark write: ranges as a condition, and bins with an equality join.

The binned join is written as well as we can. The boxes are copied into their bins beforehand, off the clock, and
kept in memory; the bins of several attributes make one number, which Spark hashes quickest; how the bins are cut
and whether the copies are sent to all tasks or shuffled is tried on a part of the events.
"""

from __future__ import annotations

import time
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tamis.spark.bench_work import ON_MORE, ON_TWO, Bins, BoxFiles, Timing

__all__ = ["binned_join", "binned_join_on_two", "range_join"]

#: Events that the plain join is given.
_FEW = 2_000
#: Copies of boxes that are kept in memory at most.
_MOST_COPIES = 12_000_000
#: How Spark is told to join.
_HOW = ("broadcast", "shuffle_hash")


def range_join(spark: SparkSession, files: BoxFiles, repeat: int) -> Timing:
    """The ranges as the condition of a join, as one writes it first."""
    events = spark.read.parquet(str(files.few_events)).limit(_FEW).persist()
    n = events.count()
    joined = events.join(spark.read.parquet(str(files.subscriptions)), _within(files)).select("event_id", "id")
    pairs = joined.count()
    seconds = min(_seconds(joined) for _ in range(min(repeat, 2)))
    events.unpersist()
    return Timing("range join", n / seconds, n, pairs, f"{n:,} events")


def binned_join_on_two(spark: SparkSession, files: BoxFiles, repeat: int) -> Timing:
    """Bins on two attributes; they leave hundreds of candidates for each event, so it is given one file of events."""
    events = spark.read.parquet(str(files.few_events))
    return _binned("binned join on 2", spark, files, ON_TWO, events, repeat=1)


def binned_join(spark: SparkSession, files: BoxFiles, repeat: int) -> Timing:
    """Bins on more attributes."""
    events = spark.read.parquet(str(files.events))
    return _binned("binned join", spark, files, ON_MORE, events, repeat=min(repeat, 2))


def _binned(
    system: str, spark: SparkSession, files: BoxFiles, tried: tuple[Bins, ...], events: DataFrame, repeat: int
) -> Timing:
    """Cut and join in the way that is quickest on one file of events, then time it on the events given."""
    few, n = spark.read.parquet(str(files.few_events)), events.count()
    found: list[tuple[float, Bins, str]] = []
    for bins in tried:
        copies = _copies(spark, files, bins).persist()
        if copies.count() <= _MOST_COPIES:
            found += [(_seconds(_joined(few, copies, files, bins, how)), bins, how) for how in _HOW]
        copies.unpersist()
    _, bins, how = min(found, key=lambda one: one[0])
    copies = _copies(spark, files, bins).persist()
    note = f"{bins}, {copies.count():,} copies, {how}, {n:,} events"
    joined = _joined(events, copies, files, bins, how)
    pairs = joined.count()
    seconds = min(_seconds(joined) for _ in range(repeat))
    copies.unpersist()
    return Timing(system, n / seconds, n, pairs, note)


def _copies(spark: SparkSession, files: BoxFiles, bins: Bins) -> DataFrame:
    """Return the boxes, once for every bin that each meets."""
    boxes, key = spark.read.parquet(str(files.subscriptions)), F.lit(0).cast("long")
    for name, size, weight in bins.steps(files):
        first, last = (F.floor(F.col(f"{name}_{end}") / size) for end in ("lo", "hi"))
        boxes = boxes.withColumn(f"bin_{name}", F.explode(F.sequence(first, last)))
        key = key + F.col(f"bin_{name}") * F.lit(weight)
    return boxes.withColumn("bin", key).drop(*(f"bin_{name}" for name in files.names))


def _joined(events: DataFrame, copies: DataFrame, files: BoxFiles, bins: Bins, how: str) -> DataFrame:
    terms = [F.floor(F.col(name) / size) * F.lit(weight) for name, size, weight in bins.steps(files)]
    placed = events.withColumn("bin", reduce(Column.__add__, terms))
    return placed.join(copies.hint(how), "bin").where(_within(files)).select("event_id", "id")


def _within(files: BoxFiles) -> Column:
    sides = [F.col(name).between(F.col(f"{name}_lo"), F.col(f"{name}_hi")) for name in files.names]
    return reduce(Column.__and__, sides)


def _seconds(frame: DataFrame) -> float:
    start = time.perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - start
