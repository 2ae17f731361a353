"""The engine without Spark, on the same files: what stands fairly beside DuckDB, which has no Spark either."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from tamis.engine import Engine
from tamis.model.schema import Schema
from tamis.model.types import Number
from tamis_bench.spark.work import BoxFiles, Timing

__all__ = ["laptop"]


def laptop(spark: SparkSession, files: BoxFiles, repeat: int) -> Timing:
    """`Engine.match_table` in this process, with as many threads as Spark has tasks."""
    start, engine = time.perf_counter(), _engine(files)
    built, threads = time.perf_counter() - start, spark.sparkContext.defaultParallelism
    with ThreadPoolExecutor(threads) as pool:

        def run() -> tuple[float, int]:
            start = time.perf_counter()
            results = list(pool.map(lambda path: _matched(engine, files.names, path), sorted(files.events.iterdir())))
            return time.perf_counter() - start, sum(pairs for pairs, *_ in results)

        run()  # compiles what is not compiled yet
        seconds, pairs = min(run() for _ in range(repeat))
    note = f"no Spark, {threads} threads, indexed in {built:.1f} s"
    return Timing("tamis laptop", files.n_events / seconds, files.n_events, pairs, note)


def _engine(files: BoxFiles) -> Engine:
    table = pq.read_table(files.subscriptions)
    lo, hi = (np.stack([np.asarray(table[f"{name}_{end}"]) for name in files.names], axis=1) for end in ("lo", "hi"))
    engine = Engine(Schema({name: Number() for name in files.names}))
    engine.subscribe_boxes(list(files.names), lo, hi)  # numbered from 0, as those of the file are
    engine.wait()
    return engine


def _matched(engine: Engine, names: tuple[str, ...], path: Path) -> tuple[int, int, int]:
    """Read a file and make all rows of its answer, as the joins do; return how many, and the sums of their columns."""
    events = pq.read_table(path, use_threads=False)
    matches = engine.match_table(events.select(names))
    ids, event_ids = matches.ids.to_arrow(matches.rows), np.asarray(events["event_id"])[matches.event]
    return len(ids), int(event_ids.sum()), pc.sum(ids).as_py() or 0
