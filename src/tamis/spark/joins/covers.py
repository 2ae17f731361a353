"""Which filters cover which: both sides fall into parts, and each pair of parts is one task."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tamis.engine.covering import covering_index
from tamis.errors import ModelError
from tamis.index.registry import COVERING_OPTIONS
from tamis.model.schema import Schema
from tamis.spark.columns import id_type, require_count, require_filters, require_schema
from tamis.spark.joins.joining import CoverPairs

__all__ = ["covers_join", "find_covers"]

#: Parts of each side: 16 tasks.
_PARTS = 4


def covers_join(
    outer: DataFrame, inner: DataFrame, *, schema: Schema, kind: str = "exact", parts: int = _PARTS, **options: Any
) -> DataFrame:
    """Return (covering_id, covered_id) for every filter of ``outer`` that covers a filter of ``inner``.

    Both have the columns ``id`` and ``filter``. ``kind`` and ``options`` are those of `tamis.covering_index`, such as
    ``kind="zcurve", epsilon=0.1, k=16, curve="hilbert"`` or ``kind="projection", k=8, seed=1``; an option that the kind
    does not read is refused. A kind that is only SOUND may leave pairs out. Each side falls into ``parts``, and each
    pair of parts is one task.
    """
    for frame, name in ((outer, "outer"), (inner, "inner")):
        require_filters(frame, ["id", "filter"], f"the table {name!r}")
    require_schema(schema, "covers_join")
    require_count("parts", parts, 1)
    _check_options(schema, kind, options)
    every = F.array(*(F.lit(number) for number in range(parts)))
    mine = F.pmod(F.xxhash64("id"), F.lit(parts)).cast("int")
    kinds = id_type(outer, "id"), id_type(inner, "id")
    ids = [F.col("id").cast(kind).alias("id") for kind in kinds]
    left = outer.select(ids[0], "filter", mine.alias("a"), F.explode(every).alias("b"))
    right = inner.select(ids[1], "filter", mine.alias("b"), F.explode(every).alias("a"))
    form = T.StructType().add("covering_id", kinds[0]).add("covered_id", kinds[1])
    pairs = left.groupBy("a", "b").cogroup(right.groupBy("a", "b"))
    return pairs.applyInArrow(_function(CoverPairs(schema.to_json(), kind, options)), form)


def find_covers(
    new: DataFrame, existing: DataFrame, *, schema: Schema, kind: str = "exact", parts: int = _PARTS, **options: Any
) -> DataFrame:
    """Return (id, cover): for each filter of ``new`` that one of ``existing`` covers, the lowest id of those.

    The other parameters are those of `covers_join`.
    """
    pairs = covers_join(existing, new, schema=schema, kind=kind, parts=parts, **options)
    return pairs.groupBy(F.col("covered_id").alias("id")).agg(F.min("covering_id").alias("cover"))


def _check_options(schema: Schema, kind: str, options: Mapping[str, Any]) -> None:
    """Raise `ModelError` for options that no worker could use."""
    accepted = COVERING_OPTIONS.get(kind, ())
    for name in options if kind in COVERING_OPTIONS else ():
        if name not in accepted:
            kinds = [other for other, names in COVERING_OPTIONS.items() if name in names]
            hint = (
                f"it is an option of {', '.join(kinds)}" if kinds else f"{kind!r} takes {', '.join(accepted) or 'none'}"
            )
            raise ModelError(f"the covering index {kind!r} has no option {name!r}; {hint}")
    covering_index(schema, kind, **options)


def _function(pairs: CoverPairs) -> Callable[[pa.Table, pa.Table], pa.Table]:
    """Return the task as a function, for Spark looks at the number of its parameters."""

    def run(left: pa.Table, right: pa.Table) -> pa.Table:
        return pairs(left, right)

    return run
