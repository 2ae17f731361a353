"""Which filters cover which: both sides fall into groups, and each pair of groups is one task."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tamis.errors import TableError
from tamis.model.schema import Schema
from tamis.spark.columns import id_type, require
from tamis.spark.joins.joining import CoverPairs

__all__ = ["covers_join", "find_covers"]

#: Groups of each side: 16 tasks.
_GROUPS = 4


def covers_join(
    outer: DataFrame, inner: DataFrame, *, schema: Schema, kind: str = "exact", groups: int = _GROUPS
) -> DataFrame:
    """Return (covering_id, covered_id) for every filter of ``outer`` that covers a filter of ``inner``.

    Both have the columns ``id`` and ``filter``. ``kind`` is a covering index as `tamis.covering_index` takes it; one
    that is only SOUND may leave pairs out. Each side falls into ``groups`` parts, and each pair of parts is one task.
    """
    for frame, name in ((outer, "outer"), (inner, "inner")):
        require(frame, ["id", "filter"], f"the table {name!r}")
    if groups < 1:
        raise TableError(f"groups is {groups}; at least one is needed")
    every = F.array(*(F.lit(number) for number in range(groups)))
    mine = F.pmod(F.xxhash64("id"), F.lit(groups)).cast("int")
    left = outer.select("id", "filter", mine.alias("a"), F.explode(every).alias("b"))
    right = inner.select("id", "filter", mine.alias("b"), F.explode(every).alias("a"))
    form = T.StructType().add("covering_id", id_type(outer, "id")).add("covered_id", id_type(inner, "id"))
    pairs = left.groupBy("a", "b").cogroup(right.groupBy("a", "b"))
    return pairs.applyInArrow(_function(CoverPairs(schema.to_json(), kind)), form)


def find_covers(new: DataFrame, existing: DataFrame, *, schema: Schema, kind: str = "exact") -> DataFrame:
    """Return (id, cover): for each filter of ``new`` that one of ``existing`` covers, the lowest id of those."""
    pairs = covers_join(existing, new, schema=schema, kind=kind)
    return pairs.groupBy(F.col("covered_id").alias("id")).agg(F.min("covering_id").alias("cover"))


def _function(pairs: CoverPairs) -> Callable[[pa.Table, pa.Table], pa.Table]:
    """Return the task as a function, for Spark looks at the number of its parameters."""

    def run(left: pa.Table, right: pa.Table) -> pa.Table:
        return pairs(left, right)

    return run
