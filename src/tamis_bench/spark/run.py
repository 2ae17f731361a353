"""How fast the pipeline is, beside Spark's own ceiling and the joins that users of Spark and DuckDB write.

Everything reads the same Parquet files and throws its rows away at the end (the ``noop`` sink), so that reading
and matching are what is timed. Spark's identity and `match` take turns, because a machine is not as quick now as
it was a minute ago: what the two have to say to each other is their ratio.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tamis.model.schema import Schema
from tamis.spark.matching.match import match
from tamis.spark.snapshots.snapshot import write_snapshot
from tamis.spark.subscriptions.compile import compile_subscriptions
from tamis_bench.spark.duckdb_joins import duckdb_binned, duckdb_binned_on_two, duckdb_range
from tamis_bench.spark.joins import binned_join, binned_join_on_two, range_join
from tamis_bench.spark.laptop import laptop
from tamis_bench.spark.work import BoxFiles, Timing

__all__ = ["OURS", "PEERS", "measure"]

#: What is measured at every size, in this order: Spark's ceiling, the match, and compiling texts.
OURS = ("identity", "tamis", "compile")

#: What does without Spark or without `match`: the engine alone, and joins, which get too slow or too large when there
#: are many subscriptions.
PEERS: dict[str, Callable[[SparkSession, BoxFiles, int], Timing]] = {
    "tamis laptop": laptop,
    "binned join": binned_join,
    "binned join on 2": binned_join_on_two,
    "range join": range_join,
    "duckdb binned": duckdb_binned,
    "duckdb binned on 2": duckdb_binned_on_two,
    "duckdb range": duckdb_range,
}


def measure(
    spark: SparkSession, files: BoxFiles, schema: Schema, directory: Path, *, systems: list[str], repeat: int
) -> Iterator[Timing]:
    """Time each system, the best of ``repeat`` runs."""
    run = _Run(spark, files, schema, directory, repeat)
    yield from run.in_turns({name: plan for name, plan in run.plans().items() if name in systems})
    if "compile" in systems:
        yield run.compile()
    for name, peer in PEERS.items():
        if name in systems:
            yield peer(spark, files, repeat)


@dataclass(frozen=True)
class _Run:
    """One set of files, and how it is put to the systems that come to be compared."""

    spark: SparkSession
    files: BoxFiles
    schema: Schema
    directory: Path
    repeat: int

    def plans(self) -> dict[str, Callable[[], tuple[DataFrame, str]]]:
        """Return what gives the rows of each system, and a note."""
        return {"identity": self._identity, "tamis": self._match}

    def _identity(self) -> tuple[DataFrame, str]:
        """Arrow batches to Python and back: what no function in Python can beat."""
        events = self._events()
        return events.mapInArrow(_unchanged, events.schema), "mapInArrow that does nothing"

    def _match(self) -> tuple[DataFrame, str]:
        """The product."""
        columns: dict[str, str | tuple[str | None, str | None]] = {
            name: (f"{name}_lo", f"{name}_hi") for name in self.files.names
        }
        start = time.perf_counter()
        boxes = self.spark.read.parquet(str(self.files.subscriptions))
        compiled = compile_subscriptions(boxes, schema=self.schema, columns=columns)
        version = write_snapshot(compiled[0], self.directory, schema=self.schema)
        compiled.release()
        built = time.perf_counter() - start
        return match(self._events(), version), f"columns compiled and indexed in {built:.1f} s"

    def in_turns(self, plans: dict[str, Callable[[], tuple[DataFrame, str]]]) -> Iterator[Timing]:
        """Time plans one after the other, again and again."""
        rows = {name: plan() for name, plan in plans.items()}
        pairs = {name: frame.count() for name, (frame, _) in rows.items()}  # also opens what is opened once
        best = dict.fromkeys(rows, float("inf"))
        for _ in range(self.repeat):
            for name, (frame, _) in rows.items():
                best[name] = min(best[name], _seconds(frame))
        for name, (_, note) in rows.items():
            yield Timing(name, self.files.n_events / best[name], self.files.n_events, pairs[name], note)

    def compile(self) -> Timing:
        """Compile the boxes as texts, once: parsing has nothing to warm up for."""
        texts = self.spark.read.parquet(str(self.files.texts)).repartition(
            4 * self.spark.sparkContext.defaultParallelism
        )
        n = texts.count()
        accepted, _ = compile_subscriptions(texts, schema=self.schema, persist=False)
        seconds = _seconds(accepted)
        return Timing("compile", n / seconds, 0, 0, f"{n:,} texts in {seconds:.0f} s", unit="texts/s")

    def _events(self) -> DataFrame:
        return self.spark.read.parquet(str(self.files.events))


def _seconds(frame: DataFrame) -> float:
    start = time.perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - start


def _unchanged(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches
