"""Join points with balls: the balls are indexed like subscriptions, and the points are matched."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tamis.model.schema import Schema
from tamis.model.types import Vector
from tamis.spark.columns import require, require_count
from tamis.spark.matching.matcher import matcher

__all__ = ["ball_join"]


def ball_join(points: DataFrame, balls: DataFrame, *, dimensions: int) -> DataFrame:
    """Return (point_id, ball_id) for every point that lies in a ball, its boundary included.

    ``points`` has ``id`` and ``vector``, ``balls`` has ``id``, ``center`` and ``radius``; vectors and centers are
    arrays of ``dimensions`` numbers. A ball without a radius is an error.
    """
    require(points, ["id", "vector"], "the table of points")
    require(balls, ["id", "center", "radius"], "the table of balls")
    require_count("dimensions", dimensions, 1)
    center = F.array_join(F.transform(F.col("center").cast("array<double>"), lambda x: x.cast("string")), ", ")
    text = F.concat(F.lit("V_WITHIN(vector, ("), center, F.lit("), "), F.col("radius").cast("string"), F.lit(")"))
    rules = balls.select("id", text.alias("filter"))
    ball_matcher = matcher(rules, event_id="id", schema=Schema({"vector": Vector(dimensions)}))
    return ball_matcher.match(points).select(
        F.col("event_id").alias("point_id"), F.col("subscription_id").alias("ball_id")
    )
