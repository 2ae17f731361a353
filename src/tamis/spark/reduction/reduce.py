"""Reduce on Spark: what links have to carry of a set that no single worker can hold, and why not the rest.

In two steps, both in the executors:

1. *Covering by a single other.* Space is cut into tiles. A subscription is decided in its home, the lowest tile it
   meets; each of its covers meets that tile, too, and is copied there. So every decision is the one that would be
   made in the whole set, and cannot depend on how it was cut. Where no number and no region is bounded by half of the
   subscriptions, they fall into parts by their ids instead, and all pairs of parts are tried (`part_pairs`).
2. *Unions and merges* of what is left, by namespace: who helps to cover a subscription may lie anywhere in it, so
   this is done by one task for each namespace, and not at all for one with more than ``at_once`` left.

It yields the routing summary for links. Every client still gets all its deliveries.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import msgspec
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tamis.errors import InvariantError
from tamis.model.schema import Schema
from tamis.model.types import Number, Region
from tamis.spark.columns import arrow_form, id_type, partitions_of, require, require_count, require_schema
from tamis.spark.reduction.part_pairs import covered_by_parts
from tamis.spark.reduction.reducing import NEW, Reduce, cover_tiles, spread_to_tiles, unite
from tamis.spark.running.failures import explaining_schema, unfit_schema
from tamis.spark.subscriptions.compile import ACCEPTED, accepted_form
from tamis.spark.subscriptions.typed import number_names
from tamis.spark.tiles.tiles import cut_tiles, middles_of
from tamis.spark.tiles.tiling import TileAxis, Tiling, axes_for

__all__ = ["Reduced", "ReductionCounts", "covered_by_tiles", "reduce_subscriptions"]

#: Subscriptions that one worker holds: more are tiled, and unions and merges are not sought among more.
AT_ONCE = 1_000_000


class ReductionCounts(msgspec.Struct, frozen=True):
    """How many subscriptions there were, how many remain, and by which rule the others are gone.

    ``before = kept + merged + covered + equivalent + subsumed + impossible``.
    """

    before: int
    kept: int
    #: Those that are part of a merge, and what they were merged into.
    merged: int
    merged_into: int
    covered: int
    equivalent: int
    subsumed: int
    impossible: int
    #: Of those kept, how many were too many for unions and merges to be sought.
    untried: int
    #: Subscriptions in all tiles together for each one there is: the price of not needing all of them in one place.
    replication: float

    @property
    def after(self) -> int:
        """How many remain."""
        return self.kept + self.merged_into

    def check(self) -> None:
        """Raise `InvariantError` when a subscription is neither there nor told to be gone."""
        n_removed = self.merged + self.covered + self.equivalent + self.subsumed + self.impossible
        if self.before != self.kept + n_removed:
            story = [f"{name}: {value}" for name, value in msgspec.to_builtins(self).items()]
            raise InvariantError("a subscription was lost while reducing", story)


@dataclass(frozen=True)
class Reduced:
    """A reduction: the summary for links, and what is gone. Ids are text, for a merge is called by the ids in it."""

    #: What remains, in the columns of accepted subscriptions.
    summary: DataFrame
    #: ``namespace``, ``id``, ``rule``, and ``by``: the ids of the remaining subscriptions that cover it.
    removed: DataFrame
    counts: ReductionCounts
    _kept: tuple[DataFrame, ...]

    def release(self) -> None:
        """Release what Spark caches of the rows; a later read reduces them again."""
        for frame in self._kept:
            frame.unpersist()


def reduce_subscriptions(
    accepted: DataFrame,
    *,
    schema: Schema,
    tile_by: str | Sequence[str] | None = None,
    tiles: int = 64,
    merge: bool = True,
    at_once: int = AT_ONCE,
) -> Reduced:
    """Return what has to be carried of accepted subscriptions so that no event is missed, and why not the rest.

    Parameters
    ----------
    accepted
        What `compile_subscriptions` accepted or `read_snapshot` reads.
    schema
        The attributes events carry, as the subscriptions were compiled with.
    tile_by, tiles
        One or two numbers, or a region, to cut space by, and in about how many tiles; chosen, where more than
        ``at_once`` subscriptions make it necessary, by what most of them bound. If fewer than half of them bound any of
        these, all pairs of parts of the set are tried instead. What is kept does not depend on it.
    merge
        Whether subscriptions that one filter can say are merged.
    at_once
        Subscriptions that one worker can hold.
    """
    require(accepted, ACCEPTED, "the table of accepted subscriptions (see compile_subscriptions)")
    require_schema(schema, "reduce_subscriptions")
    require_count("at_once", at_once, 1)
    require_count("tiles", tiles, 2)
    with explaining_schema():
        return _reduced(accepted, schema, [tile_by] if isinstance(tile_by, str) else tile_by, tiles, merge, at_once)


def _reduced(
    accepted: DataFrame, schema: Schema, tile_by: Sequence[str] | None, tiles: int, merge: bool, at_once: int
) -> Reduced:
    before = _count(accepted, schema)
    axes, cached = _axes(accepted, schema, tile_by, before, at_once), list[DataFrame]()
    if axes or before <= at_once:
        tiling = cut_tiles(accepted, axes, schema, tiles) if axes else Tiling([])
        covered = covered_by_tiles(accepted, schema, tiling).persist()
    else:
        frame, marked = covered_by_parts(accepted, schema, max(3, math.ceil(2 * before / at_once)))
        covered, cached = frame.persist(), [marked]
    united = _united(covered.where("rule IS NULL").select(*ACCEPTED), schema, merge, at_once).persist()
    summary = united.where(F.col("rule").isNull() | (F.col("rule") == NEW)).select(*ACCEPTED)
    removed = _retold(covered, united)
    counts = _counted(before, covered, united, removed, at_once)
    counts.check()
    return Reduced(summary, removed, counts, (covered, united, *cached))


def _count(accepted: DataFrame, schema: Schema) -> int:
    """Count the subscriptions; `SchemaError` if their boxes have other sides than the numbers of the schema."""
    sides = F.array_size("lo")
    row = accepted.agg(F.count(F.lit(1)).alias("n"), F.min(sides).alias("least"), F.max(sides).alias("most")).first()
    n, least, most = row or (0, None, None)
    names = number_names(schema)
    if least is not None and (least, most) != (len(names), len(names)):
        wrong = most if least == len(names) else least
        raise unfit_schema(f"a box has {wrong} numbers, the schema {len(names)} ({', '.join(names) or 'none'})")
    return int(n)


def _axes(
    accepted: DataFrame, schema: Schema, tile_by: Sequence[str] | None, before: int, at_once: int
) -> list[TileAxis]:
    """Return the axes to cut: those a user names, or the ones that most subscriptions bound.

    There are none where one worker holds all, and none where fewer than half of the subscriptions bound an axis: these
    would be copied into every tile.
    """
    if tile_by:
        return axes_for(tile_by, schema)
    candidates = [name for name, kind in schema.items() if isinstance(kind, Number | Region)]
    if before <= at_once or not candidates:
        return []
    every = [axis for name in candidates for axis in axes_for([name], schema)]
    middles = middles_of(accepted, every, schema)
    counts = middles.agg(*(F.count(name) for name in middles.columns)).first()  # a count per axis
    bounded = {axis.attribute: n for axis, n in zip(every, counts or (), strict=True)}
    best = sorted((name for name in candidates if 2 * bounded[name] >= before), key=lambda name: -bounded[name])
    numbers = [name for name in best if isinstance(schema[name], Number)]
    chosen = best[:1] if best and isinstance(schema[best[0]], Region) else numbers[:2]
    return axes_for(chosen, schema) if chosen else []


def _form(id_kind: str) -> T.StructType:
    """Return the columns of subscriptions with the rule by which each is gone."""
    return accepted_form(id_kind).add("rule", "string").add("by", T.ArrayType(T.StringType()))


def covered_by_tiles(accepted: DataFrame, schema: Schema, tiling: Tiling) -> DataFrame:
    """Return every subscription, with ``rule`` and ``by`` where it is impossible or a single other covers it.

    A tile is a task; a tiling without axes is a single tile for each namespace.
    """
    rows = accepted.select(*ACCEPTED)
    tiled = T.StructType([*rows.schema, *(T.StructField(name, T.IntegerType()) for name in ("tile", "copies"))])
    described = msgspec.json.encode(tiling).decode()
    task = partial(Reduce, schema.to_json(), described, False, 0)
    if tiling.axes:
        spread = rows.mapInArrow(partial(spread_to_tiles, task=task(arrow_form(tiled, rows))), tiled)
    else:
        spread = rows.withColumn("tile", F.lit(0)).withColumn("copies", F.lit(1))
    form = _form(id_type(accepted, "id")).add("copies", "integer")
    placed = spread.repartition(partitions_of(rows), "namespace", "tile").sortWithinPartitions("namespace", "tile")
    return placed.mapInArrow(partial(cover_tiles, task=task(arrow_form(form, rows))), form)


def _united(rows: DataFrame, schema: Schema, merge: bool, at_once: int) -> DataFrame:
    """Return subscriptions none of which covers another, with ``rule`` and ``by`` of those that go, and merges."""
    form = _form("string")
    task = Reduce(schema.to_json(), "", merge, at_once, arrow_form(form, rows))
    placed = rows.repartition(partitions_of(rows), "namespace").sortWithinPartitions("namespace")
    return placed.mapInArrow(partial(unite, task=task), form)


def _retold(covered: DataFrame, united: DataFrame) -> DataFrame:
    """Return what was dropped; where a cover was dropped later itself, name its replacement instead."""
    covered_rows = covered.where("rule IS NOT NULL").select(
        "namespace", F.col("id").cast("string").alias("id"), "rule", "by"
    )
    united_rows = united.where(F.col("rule").isNotNull() & (F.col("rule") != NEW)).select(
        "namespace", "id", "rule", "by"
    )
    later = united_rows.select(
        "namespace", F.col("id").alias("_first"), F.col("rule").alias("_rule"), F.col("by").alias("_by")
    )
    joined = covered_rows.withColumn("_first", F.get("by", F.lit(0))).join(later, ["namespace", "_first"], "left")
    several = F.when(F.size("_by") > 1, "subsumed").otherwise("covered")
    is_removed = F.col("_rule").isNotNull()
    retold = joined.select(
        "namespace",
        "id",
        F.when(is_removed, several).otherwise(F.col("rule")).alias("rule"),
        F.when(is_removed, F.col("_by")).otherwise(F.col("by")).alias("by"),
    )
    return retold.unionByName(united_rows)


def _counted(before: int, covered: DataFrame, united: DataFrame, removed: DataFrame, at_once: int) -> ReductionCounts:
    """Count by rule; a handful of numbers come to the driver."""
    n_removed, n_united = (
        {row["rule"]: row["n"] for row in _counts(frame, "rule").collect()} for frame in (removed, united)
    )
    left = _counts(covered.where("rule IS NULL"), "namespace")
    untried = left.where(F.col("n") > at_once).agg(F.sum("n")).first()
    copies = covered.agg(F.sum("copies")).first()
    rules = {name: n_removed.get(name, 0) for name in ("merged", "covered", "equivalent", "subsumed", "impossible")}
    return ReductionCounts(
        before=before,
        kept=n_united.get(None, 0),
        merged_into=n_united.get(NEW, 0),
        **rules,
        untried=int((untried[0] if untried else None) or 0),
        replication=int((copies[0] if copies else None) or 0) / max(before, 1),
    )


def _counts(frame: DataFrame, name: str) -> DataFrame:
    return frame.groupBy(name).agg(F.count(F.lit(1)).alias("n"))
