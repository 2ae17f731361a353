"""Join regions by their relation: both sides go to the cells of a grid, and a pair is decided in one cell only.

Two boxes that meet share cells; the pair belongs to the cell whose numbers are the larger of their first cells on each
axis, so it is decided once, and nothing has to be made unique afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tamis.errors import TableError
from tamis.model.subscription import Relation
from tamis.spark.columns import arrow_form, require
from tamis.spark.joins.joining import Grid, bounds_of_regions, relate, spread_over_grid

__all__ = ["relation_join"]

#: Cells on a side at most: a region that spans everything has the square of it copies.
_CELLS = 256
_NUMBERS = ("x", "y", "first_x", "first_y")


def relation_join(left: DataFrame, right: DataFrame, relations: str | Iterable[str]) -> DataFrame:
    """Return (left_id, right_id, relation) for every pair of regions in one of the relations.

    Both have the columns ``id`` and ``region`` (WKB or WKT); a row without a region pairs with nothing. A region that
    is not valid, or larger than `tamis` accepts, is an error that names its id. The relations are those of
    `tamis.Relation` but ``disjoint``, which nearly every pair is in.
    """
    wanted = frozenset([relations] if isinstance(relations, str) else map(str, relations))
    names = {relation.value for relation in Relation} - {"disjoint"}
    if not wanted or wanted - names:
        raise TableError(f"relations {sorted(wanted)}: choose from {', '.join(sorted(names))}")
    for frame, name in ((left, "left"), (right, "right")):
        require(frame, ["id", "region"], f"the table {name!r}")
    grid = _grid(left, right)
    if grid is None:
        return _related(left, right).limit(0).select("left_id", "right_id", F.lit("").alias("relation"))
    mine, yours = (_spread(frame, grid, side) for frame, side in ((left, "left"), (right, "right")))
    pairs = mine.join(yours, ["x", "y"])
    owner = [F.col(name) == F.greatest(f"left_first_{name}", f"right_first_{name}") for name in ("x", "y")]
    chosen = pairs.where(owner[0] & owner[1]).select("left_id", "left_region", "right_id", "right_region")
    form = T.StructType(
        [chosen.schema["left_id"], chosen.schema["right_id"], T.StructField("relation", T.StringType())]
    )
    return chosen.mapInArrow(partial(relate, wanted=wanted, form=arrow_form(form, chosen)), form)


def _related(left: DataFrame, right: DataFrame) -> DataFrame:
    ids = left.select(F.col("id").alias("left_id")), right.select(F.col("id").alias("right_id"))
    return ids[0].crossJoin(ids[1])


def _grid(left: DataFrame, right: DataFrame) -> Grid | None:
    """Return a grid whose cells are twice as wide as regions on average; None when there is no region."""
    bounds = [
        frame.where("region IS NOT NULL")
        .select("id", "region")
        .mapInArrow(partial(bounds_of_regions, name="region"), "xmin double, ymin double, xmax double, ymax double")
        for frame in (left, right)
    ]
    extent = F.greatest(F.col("xmax") - F.col("xmin"), F.col("ymax") - F.col("ymin"))
    ends = [F.min("xmin"), F.min("ymin"), F.max("xmax"), F.max("ymax")]
    row = bounds[0].union(bounds[1]).agg(*ends, F.avg(extent)).first()  # five numbers
    if row is None or row[0] is None:
        return None
    widest = max(row[2] - row[0], row[3] - row[1])
    side = max(2 * row[4], widest / _CELLS) or 1.0
    return Grid(row[0], row[1], side)


def _spread(frame: DataFrame, grid: Grid, side: str) -> DataFrame:
    """Return the regions of one side in the cells they meet, under the names of the side."""
    rows = frame.select("id", "region")
    form = T.StructType([*rows.schema, *(T.StructField(name, T.LongType()) for name in _NUMBERS)])
    task = partial(spread_over_grid, grid=grid, name="region", form=arrow_form(form, rows))
    spread = rows.mapInArrow(task, form)
    named = [F.col(name).alias(f"{side}_{name}") for name in ("id", "region", "first_x", "first_y")]
    return spread.select("x", "y", *named)
