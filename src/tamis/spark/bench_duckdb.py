"""The same joins in DuckDB, which has no Python in its way; with as many threads as Spark has tasks."""

from __future__ import annotations

import time
from typing import Any

from pyspark.sql import SparkSession

from tamis.errors import MissingExtraError
from tamis.spark.bench_work import Bins, BoxFiles, Timing, best_bins

__all__ = ["duckdb_binned", "duckdb_range"]

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


def duckdb_binned(spark: SparkSession, files: BoxFiles, repeat: int) -> Timing:
    """Bins and an equality join, cut in the way that is quickest on one file of events; copies made beforehand."""
    connection = _connected(spark)
    bins = best_bins(lambda bins: _timed(connection, _binned(connection, files, bins, str(files.few_events)))[0])
    query = _binned(connection, files, bins, f"{files.events}/*.parquet")
    [(seconds, pairs), *_] = sorted(_timed(connection, query) for _ in range(min(repeat, 2)))
    [[n_copies]] = connection.execute("SELECT count(*) FROM copies").fetchall()
    note = f"{bins}, {n_copies:,} copies"
    return Timing("duckdb binned", files.n_events / seconds, files.n_events, pairs, note)


def _connected(spark: SparkSession) -> Any:
    try:
        import duckdb
    except ImportError:
        raise MissingExtraError("DuckDB beside Spark", "bench") from None
    connection = duckdb.connect()
    connection.execute(f"SET threads = {spark.sparkContext.defaultParallelism}")
    return connection


def _binned(connection: Any, files: BoxFiles, bins: Bins, events: str) -> str:
    """Copy the boxes into their bins; return the join."""
    boxes, of_box, of_event = f"'{files.subscriptions}'", [], []
    for name, size, weight in bins.steps(files):
        first, last = (f"floor({name}_{end} / {size})::BIGINT" for end in ("lo", "hi"))
        boxes = f"(SELECT *, unnest(range({first}, {last} + 1)) AS bin_{name} FROM {boxes})"
        of_box.append(f"bin_{name} * {weight}")
        of_event.append(f"floor(e.{name} / {size})::BIGINT * {weight}")
    named = ", ".join(["id", *(f"{name}_{end}" for name in files.names for end in ("lo", "hi"))])
    connection.execute(f"CREATE OR REPLACE TABLE copies AS SELECT {named}, {' + '.join(of_box)} AS bin FROM {boxes}")
    return _join(f"'{events}'", "copies", f"s.bin = {' + '.join(of_event)} AND {_within(files)}")


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
