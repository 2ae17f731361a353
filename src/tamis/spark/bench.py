"""How fast `match` is, beside Spark's own ceiling and the joins that Spark users write.

Everything reads the same Parquet files and throws its rows away at the end (the ``noop`` sink), so that reading
and matching are what is timed. The joins are written as carefully as we can: ranges as a condition, or bins on two
attributes with an equality join, at the best of several widths.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tamis.model.schema import Schema
from tamis.spark.compile import compile_subscriptions
from tamis.spark.match import match
from tamis.spark.snapshot import write_snapshot

__all__ = ["SYSTEMS", "BoxFiles", "Timing", "measure"]

#: What is measured, in this order.
SYSTEMS = ("identity", "tamis", "binned join", "range join")

#: Events that a slow join is given, of those at hand.
_FEW = 2_000
#: Widths of bins that are tried, in multiples of the mean side of a box.
_WIDTHS = (0.5, 1.0, 2.0)


@dataclass(frozen=True)
class BoxFiles:
    """Boxes and events as Parquet files: columns ``id``, ``NAME_lo``, ``NAME_hi``; and ``event_id``, ``NAME``."""

    subscriptions: Path
    events: Path
    names: tuple[str, ...]
    #: The mean side of a box on each attribute.
    sides: tuple[float, ...]


@dataclass(frozen=True)
class Timing:
    """Events per second of one system, and how many pairs it found in how many events."""

    system: str
    rate: float
    events: int
    pairs: int
    note: str = ""


def measure(
    spark: SparkSession, files: BoxFiles, schema: Schema, directory: Path, *, systems: tuple[str, ...], repeat: int
) -> Iterator[Timing]:
    """Time each system, the best of ``repeat`` runs."""
    run = _Run(spark, files, schema, directory, repeat)
    ways: dict[str, Callable[[], Timing]] = {
        "identity": run.identity,
        "tamis": run.tamis,
        "binned join": run.binned_join,
        "range join": run.range_join,
    }
    for system in systems:
        yield ways[system]()


@dataclass(frozen=True)
class _Run:
    """One set of files, and how it is put to each system."""

    spark: SparkSession
    files: BoxFiles
    schema: Schema
    directory: Path
    repeat: int

    def identity(self) -> Timing:
        """Arrow batches to Python and back: what no function in Python can beat."""
        events = self._events()
        return self._timed("identity", lambda: events.mapInArrow(_identity, events.schema), events.count())

    def tamis(self) -> Timing:
        """The product."""
        columns: dict[str, str | tuple[str | None, str | None]] = {
            name: (f"{name}_lo", f"{name}_hi") for name in self.files.names
        }
        start = time.perf_counter()
        accepted, _ = compile_subscriptions(self._subscriptions(), schema=self.schema, columns=columns)
        version = write_snapshot(accepted, self.directory, schema=self.schema)
        built = time.perf_counter() - start
        events = self._events()
        note = f"compiled and indexed in {built:.1f} s"
        return self._timed("tamis", lambda: match(events, version), events.count(), note)

    def binned_join(self) -> Timing:
        """Bins on two attributes: boxes are copied into every bin they meet, and joined on equality."""
        best: Timing | None = None
        for width in _WIDTHS:
            plan = partial(self._binned, width)
            found = self._timed("binned join", plan, self._events().count(), f"bins of {width} sides")
            best = found if best is None or found.rate > best.rate else best
        assert best is not None
        return best

    def range_join(self) -> Timing:
        """The ranges as the condition of a join, as one writes it first."""
        events = self._events().limit(_FEW).persist()
        n = events.count()
        return self._timed("range join", lambda: events.join(self._subscriptions(), self._within()), n, f"{n:,} events")

    def _binned(self, width: float) -> DataFrame:
        axes = list(zip(self.files.names, self.files.sides, strict=True))[:2]
        boxes, events = self._subscriptions(), self._events()
        for i, (name, side) in enumerate(axes):
            size = F.lit(side * width)
            first, last = (F.floor(F.col(f"{name}_{end}") / size) for end in ("lo", "hi"))
            boxes = boxes.withColumn(f"bin{i}", F.explode(F.sequence(first, last)))
            events = events.withColumn(f"bin{i}", F.floor(F.col(name) / size))
        return events.join(boxes, [f"bin{i}" for i in range(len(axes))]).where(self._within())

    def _within(self) -> Column:
        condition = F.lit(True)
        for name in self.files.names:
            condition = condition & F.col(name).between(F.col(f"{name}_lo"), F.col(f"{name}_hi"))
        return condition

    def _events(self) -> DataFrame:
        return self.spark.read.parquet(str(self.files.events))

    def _subscriptions(self) -> DataFrame:
        return self.spark.read.parquet(str(self.files.subscriptions))

    def _timed(self, system: str, plan: Callable[[], DataFrame], events: int, note: str = "") -> Timing:
        found = plan().count()  # also warms what is cached
        times = []
        for _ in range(self.repeat):
            start = time.perf_counter()
            plan().write.format("noop").mode("overwrite").save()
            times.append(time.perf_counter() - start)
        return Timing(system, events / min(times), events, found, note)


def _identity(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches
