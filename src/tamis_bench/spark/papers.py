"""How fast the papers are on DataFrames: covering, reducing, relations, balls, ranges of keys, a plan of peers."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack

import numpy as np
import pyarrow as pa
import shapely
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tamis.model.schema import Schema
from tamis.model.types import Number, String
from tamis.spark import (
    ball_join,
    compile_subscriptions,
    covers_join,
    find_covers,
    hilbert_keys,
    hilbert_ranges,
    overlay_plan,
    range_join,
    relation_join,
)
from tamis.spark.columns import arrow_function
from tamis.spark.reduction.part_pairs import covered_by_parts
from tamis.spark.reduction.reduce import covered_by_tiles
from tamis.spark.tiles.tiling import Tiling
from tamis_bench.spark.work import Timing

__all__ = ["PAPERS", "timed"]

_RELATIONS = ["overlaps", "inside", "contains", "meets"]
#: Regions of each side up to which a function is called for every pair.
_MOST_FOR_ALL_PAIRS = 1_000
_BITS = 10
#: Parts of a set that no axis cuts, as `reduce_subscriptions` makes them of a set twice as large as a worker can hold.
_PARTS = 4

Rows = tuple[DataFrame, DataFrame]


def timed(name: str, frame: DataFrame, n: int, repeat: int, note: str) -> Timing:
    """Time a join, the best of ``repeat`` runs after one that counts its rows."""
    pairs, best = frame.count(), float("inf")
    for _ in range(repeat):
        start = time.perf_counter()
        frame.write.format("noop").mode("overwrite").save()
        best = min(best, time.perf_counter() - start)
    return Timing(name, n / best, n, pairs, note, unit="rows/s")


def _rules(spark: SparkSession, n: int, seed: int, width: float) -> DataFrame:
    """Return ``n`` rectangles as texts."""
    rng = np.random.default_rng(seed)
    low, size = rng.uniform(0, 100, (n, 2)), rng.uniform(0.1, width, (n, 2))
    texts = [
        f"a BETWEEN {x:.3f} AND {x + w:.3f} AND b BETWEEN {y:.3f} AND {y + h:.3f}"
        for (x, y), (w, h) in zip(low.tolist(), size.tolist(), strict=True)
    ]
    return spark.createDataFrame(pa.table({"id": np.arange(n), "filter": texts}))


def _schema() -> Schema:
    return Schema({"a": Number(0, 200), "b": Number(0, 200)})


def _regions(spark: SparkSession, n: int, seed: int) -> DataFrame:
    """Return ``n`` polygons of 16 corners."""
    rng = np.random.default_rng(seed)
    shapes = shapely.buffer(shapely.points(rng.uniform(0, 100, (n, 2))), rng.uniform(0.2, 2, n), quad_segs=4)
    return spark.createDataFrame(pa.table({"id": np.arange(n), "region": shapely.to_wkb(shapes)}))


def _covers(spark: SparkSession, n: int, repeat: int) -> Timing:
    frame = covers_join(_rules(spark, n, 1, 20.0), _rules(spark, n, 2, 2.0), schema=_schema())
    return timed("covers_join", frame, n, repeat, f"{n:,} filters on each side")


def _find_covers(spark: SparkSession, n: int, repeat: int) -> Timing:
    frame = find_covers(_rules(spark, n, 2, 2.0), _rules(spark, n, 1, 20.0), schema=_schema())
    return timed("find_covers", frame, n, repeat, f"{n:,} new filters among {n:,}")


def _patterns(spark: SparkSession, n: int) -> DataFrame:
    """Return ``n`` patterns, which no tile divides; most are covered by a shorter one."""
    rng = np.random.default_rng(1)
    lengths, letters = rng.integers(2, 8, n), rng.choice(list("abcdefgh"), (n, 8))
    texts = [f"name LIKE '{''.join(row[:length])}%'" for row, length in zip(letters, lengths.tolist(), strict=True)]
    return spark.createDataFrame(pa.table({"id": np.arange(n), "filter": texts}))


def _reduce_by_parts(spark: SparkSession, n: int, repeat: int) -> Timing:
    return _reduced("reduce by parts", spark, n, repeat, _PARTS)


def _reduce_in_one_task(spark: SparkSession, n: int, repeat: int) -> Timing:
    return _reduced("reduce in one task", spark, n, repeat, None)


def _reduced(name: str, spark: SparkSession, n: int, repeat: int, parts: int | None) -> Timing:
    """Time how long it takes to find what a single other pattern covers, from compiled rows."""
    schema, best, n_covered = Schema({"name": String()}), float("inf"), 0
    compiled = compile_subscriptions(_patterns(spark, n), schema=schema)
    accepted = compiled[0].persist()
    accepted.count()
    for _ in range(repeat):
        with ExitStack() as cached:
            start = time.perf_counter()
            if parts is None:
                rows = covered_by_tiles(accepted, schema, Tiling([]))
            else:
                rows, marked = covered_by_parts(accepted, schema, parts)
                cached.callback(marked.unpersist)
            n_covered = rows.where("rule IS NOT NULL").count()
            best = min(best, time.perf_counter() - start)
    accepted.unpersist()
    compiled.release()
    largest = n if parts is None else 2 * -(-n // parts)
    note = f"{n:,} patterns, {n_covered:,} are covered; a task has at most about {largest:,} of them"
    return Timing(name, n / best, n, n_covered, note, unit="rows/s")


def _relations(spark: SparkSession, n: int, repeat: int) -> Timing:
    frame = relation_join(_regions(spark, n, 1), _regions(spark, n, 2), _RELATIONS)
    return timed("relation_join", frame, n, repeat, f"{n:,} polygons on each side")


def _relations_by_function(spark: SparkSession, n: int, repeat: int) -> Timing:
    """What a user writes first: a function of two geometries in the condition of a join."""
    few = min(n, _MOST_FOR_ALL_PAIRS)
    left, right = _regions(spark, few, 1), _regions(spark, few, 2)
    related = arrow_function(_intersect, "boolean")
    pairs = left.crossJoin(right.select(F.col("id").alias("other"), F.col("region").alias("its_region")))
    note = f"shapely.intersects for every pair of {few:,} polygons on each side"
    return timed("relation by function", pairs.where(related("region", "its_region")), few, repeat, note)


def _intersect(left: pa.Array, right: pa.Array) -> pa.Array:
    shapes = (shapely.from_wkb(np.asarray(side.to_pylist(), dtype=object)) for side in (left, right))
    return pa.array(shapely.intersects(*shapes))


def _balls(spark: SparkSession, n: int, repeat: int) -> Timing:
    rng = np.random.default_rng(1)
    vectors, centers, radii = rng.normal(size=(n, 8)), rng.normal(size=(n, 8)), rng.uniform(0.1, 1, n)
    points = spark.createDataFrame(pa.table({"id": np.arange(n), "vector": list(vectors)}))
    balls = spark.createDataFrame(pa.table({"id": np.arange(n), "center": list(centers), "radius": radii}))
    return timed("ball_join", ball_join(points, balls, dimensions=8), n, repeat, f"{n:,} points and balls of 8 axes")


def _ranges(spark: SparkSession, n: int, repeat: int) -> Timing:
    rng = np.random.default_rng(1)
    cells, low = rng.integers(0, 1 << _BITS, (n, 2)), rng.integers(0, (1 << _BITS) - 16, (n, 2))
    keys = hilbert_keys(spark.createDataFrame(pa.table({"id": np.arange(n), "cell": list(cells)})), bits=_BITS)
    boxes = pa.table({"id": np.arange(n), "low": list(low), "high": list(low + 15)})
    ranges = hilbert_ranges(spark.createDataFrame(boxes), bits=_BITS)
    frame = range_join(keys, ranges, key_bits=2 * _BITS)
    return timed("range_join", frame, n, repeat, f"{n:,} keys and boxes of 16 by 16 cells")


def _plan(spark: SparkSession, n: int, repeat: int) -> Timing:
    start = time.perf_counter()
    plan = overlay_plan(_rules(spark, n, 1, 20.0), schema=_schema())
    built = time.perf_counter() - start
    rng = np.random.default_rng(2)
    events = pa.table({"event_id": np.arange(n), "a": rng.uniform(0, 100, n), "b": rng.uniform(0, 100, n)})
    receptions = plan.receptions(spark.createDataFrame(events))
    false = receptions.where("NOT matches").count()
    timing = timed("overlay_plan", receptions, n, repeat, "")
    share = false / max(1, timing.pairs)
    plan.release()
    note = f"{n:,} peers planned in {built:.1f} s, {plan.height} levels; {share:.1%} of receptions are false positives"
    return Timing(timing.system, timing.rate, n, timing.pairs, note, unit="events/s sent")


#: Each join, and what a user would write instead.
PAPERS: dict[str, Callable[[SparkSession, int, int], Timing]] = {
    "covers_join": _covers,
    "find_covers": _find_covers,
    "reduce by parts": _reduce_by_parts,
    "reduce in one task": _reduce_in_one_task,
    "relation_join": _relations,
    "relation by function": _relations_by_function,
    "ball_join": _balls,
    "range_join": _ranges,
    "overlay_plan": _plan,
}
