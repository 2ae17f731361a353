"""The joins that users of Spark write: ranges as a condition, and bins with an equality join.

The binned join is written as well as we can. The boxes are copied into their bins beforehand, off the clock, and
kept in memory; the bins of several attributes make one number, which Spark hashes quickest; which of the promising ways
to cut is best, and whether the copies are sent to all tasks or shuffled, is tried on a part of the events.
"""

from __future__ import annotations

import time
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tamis_bench.spark.bins import Bins, Cut
from tamis_bench.spark.work import BoxFiles, Timing

__all__ = ["binned_join", "binned_join_on_two", "range_join"]

#: Events that the plain join is given.
_FEW = 2_000
#: The join hints given to Spark.
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
    """Bins on two attributes, which may leave hundreds of candidates for each event."""
    return _binned("binned join on 2", spark, files, files.bins_on_two, repeat)


def binned_join(spark: SparkSession, files: BoxFiles, repeat: int) -> Timing:
    """Bins on as many attributes as is best."""
    return _binned("binned join", spark, files, files.bins, repeat)


def _binned(system: str, spark: SparkSession, files: BoxFiles, tried: tuple[Bins, ...], repeat: int) -> Timing:
    """Return the timing of the bins and the kind of join that are quickest on one file of events."""
    few = spark.read.parquet(str(files.few_events))
    trials: list[tuple[float, Bins, str]] = []
    for bins in tried:
        copies = _copies(spark, files, bins).persist()
        copies.count()
        trials += [(_seconds(_joined(few, copies, files, bins, how)), bins, how) for how in _HOW]
        copies.unpersist()
    _, bins, how = min(trials, key=lambda trial: trial[0])
    copies, events = _copies(spark, files, bins).persist(), spark.read.parquet(str(files.events_for(bins)))
    n = events.count()
    note = f"{bins}, {copies.count():,} copies, {how}, {n:,} events"
    joined = _joined(events, copies, files, bins, how)
    pairs = joined.count()
    seconds = min(_seconds(joined) for _ in range(min(repeat, 2)))
    copies.unpersist()
    return Timing(system, n / seconds, n, pairs, note)


def _copies(spark: SparkSession, files: BoxFiles, bins: Bins) -> DataFrame:
    """Return the boxes, once for every bin that each meets."""
    boxes, key = spark.read.parquet(str(files.subscriptions)), F.lit(0).cast("long")
    for cut, weight in bins.weighted:
        low, high = F.lit(cut.low), F.lit(cut.high)
        lo, hi = F.greatest(F.col(f"{cut.name}_lo"), low), F.least(F.col(f"{cut.name}_hi"), high)
        met = boxes.where(lo <= hi)  # Spark would count a sequence down
        boxes = met.withColumn(f"bin_{cut.name}", F.explode(F.sequence(_bin(lo, cut), _bin(hi, cut))))
        key = key + F.col(f"bin_{cut.name}") * F.lit(weight)
    return boxes.withColumn("bin", key).drop(*(f"bin_{name}" for name in files.names))


def _bin(value: Column, cut: Cut) -> Column:
    return F.floor((value - F.lit(cut.low)) / F.lit(cut.size))


def _joined(events: DataFrame, copies: DataFrame, files: BoxFiles, bins: Bins, how: str) -> DataFrame:
    terms = [_bin(F.col(cut.name), cut) * F.lit(weight) for cut, weight in bins.weighted]
    placed = events.withColumn("bin", reduce(Column.__add__, terms))
    return placed.join(copies.hint(how), "bin").where(_within(files)).select("event_id", "id")


def _within(files: BoxFiles) -> Column:
    sides = [F.col(name).between(F.col(f"{name}_lo"), F.col(f"{name}_hi")) for name in files.names]
    return reduce(Column.__and__, sides)


def _seconds(frame: DataFrame) -> float:
    start = time.perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - start
