"""The same joins in DuckDB, which has no Python in its way; with as many threads as Spark has tasks."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tamis.errors import MissingExtraError
from tamis_bench.spark.bins import Bins, Cut
from tamis_bench.spark.work import BoxFiles, Timing

__all__ = ["duckdb_binned", "duckdb_binned_on_two", "duckdb_range"]

#: Events that the plain join is given.
_FEW = 2_000


def duckdb_range(spark: SparkSession, files: BoxFiles, repeat: int) -> Timing:
    """The ranges as the condition of a join."""
    connection = _connected(spark)
    events = f"(SELECT * FROM '{files.few_events}' LIMIT {_FEW})"
    query = _join(events, f"'{files.subscriptions}'", _within(files))
    [(seconds, pairs), *_] = sorted(_timed(connection, query) for _ in range(min(repeat, 2)))
    [[n]] = connection.execute(f"SELECT count(*) FROM {events}").fetchall()
    return Timing("duckdb range", n / seconds, n, pairs, f"{n:,} events")


def duckdb_binned_on_two(spark: SparkSession, files: BoxFiles, repeat: int) -> Timing:
    """Bins on two attributes."""
    return _tuned("duckdb binned on 2", spark, files, files.bins_on_two, repeat)


def duckdb_binned(spark: SparkSession, files: BoxFiles, repeat: int) -> Timing:
    """Bins on as many attributes as is best."""
    return _tuned("duckdb binned", spark, files, files.bins, repeat)


def _tuned(system: str, spark: SparkSession, files: BoxFiles, tried: tuple[Bins, ...], repeat: int) -> Timing:
    """Cut in the way that is quickest on one file of events, then time it on as many as it can take."""
    connection = _connected(spark)
    bins = min(tried, key=lambda bins: _timed(connection, _binned(connection, files, bins, files.few_events))[0])
    query = _binned(connection, files, bins, files.events_for(bins))
    [(seconds, pairs), *_] = sorted(_timed(connection, query) for _ in range(min(repeat, 2)))
    [[n_copies]] = connection.execute("SELECT count(*) FROM copies").fetchall()
    [[n]] = connection.execute(f"SELECT count(*) FROM {_read(files.events_for(bins))}").fetchall()
    return Timing(system, n / seconds, n, pairs, f"{bins}, {n_copies:,} copies, {n:,} events")


def _connected(spark: SparkSession) -> Any:
    try:
        import duckdb
    except ImportError:
        raise MissingExtraError("DuckDB beside Spark", "peers", "tamis-bench") from None
    connection = duckdb.connect()
    connection.execute(f"SET threads = {spark.sparkContext.defaultParallelism}")
    return connection


def _binned(connection: Any, files: BoxFiles, bins: Bins, events: Path) -> str:
    """Copy the boxes into their bins; return the join."""
    boxes, of_box, of_event = f"'{files.subscriptions}'", [], []
    for cut, weight in bins.weighted:
        lo = f"greatest({cut.name}_lo, {_number(cut.low)})"
        hi = f"least({cut.name}_hi, {_number(cut.high)})"
        bins_met = f"range({_bin(lo, cut)}, {_bin(hi, cut)} + 1)"
        boxes = f"(SELECT *, unnest({bins_met}) AS bin_{cut.name} FROM {boxes} WHERE {lo} <= {hi})"
        of_box.append(f"bin_{cut.name} * {weight}")
        of_event.append(f"{_bin(f'e.{cut.name}', cut)} * {weight}")
    named = ", ".join(["id", *(f"{name}_{end}" for name in files.names for end in ("lo", "hi"))])
    connection.execute(f"CREATE OR REPLACE TABLE copies AS SELECT {named}, {' + '.join(of_box)} AS bin FROM {boxes}")
    return _join(_read(events), "copies", f"s.bin = {' + '.join(of_event)} AND {_within(files)}")


def _bin(value: str, cut: Cut) -> str:
    return f"floor(({value} - {_number(cut.low)}) / {_number(cut.size)})::BIGINT"


def _number(value: float) -> str:
    """Write a float64 exactly; digits alone would be a decimal."""
    return f"'{value!r}'::DOUBLE"


def _read(events: Path) -> str:
    return f"'{events}/*.parquet'" if events.is_dir() else f"'{events}'"


def _within(files: BoxFiles) -> str:
    return " AND ".join(f"e.{name} BETWEEN s.{name}_lo AND s.{name}_hi" for name in files.names)


def _join(events: str, boxes: str, condition: str) -> str:
    """Write a join whose rows are all made: a mere count could do without them."""
    return f"SELECT count(*), sum(e.event_id), sum(s.id) FROM {events} e JOIN {boxes} s ON {condition}"


def _timed(connection: Any, query: str) -> tuple[float, int]:
    """Return seconds and how many pairs there are."""
    start = time.perf_counter()
    [[pairs, *_]] = connection.execute(query).fetchall()
    return time.perf_counter() - start, pairs
