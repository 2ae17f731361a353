"""Which tree of peers a table of subscriptions would form, and what it would cost: [drtree] as DataFrames.

Peers that join one after the other grow a tree that depends on their order. This plan packs the same boxes instead:
along a Hilbert curve, ``fanout`` neighbours to a node, level by level, each node played by the peer with the largest
box below it. Every level is a grouping of the one before, so no task sees more than its share.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial, reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tamis.errors import TableError
from tamis.model.schema import Schema
from tamis.model.types import Form, Number
from tamis.overlay.space import Space
from tamis.spark.columns import (
    arrow_form,
    id_type,
    partitions_of,
    require,
    require_count,
    require_filters,
    require_schema,
    value_names,
    values_of,
)
from tamis.spark.joins.overlay_boxes import axis_names, boxes_of_rules, points_of_events
from tamis.spark.matching.matcher import matcher

__all__ = ["OverlayPlan", "overlay_plan"]

#: ``monotonically_increasing_id`` has the partition above these bits and the position in it below.
_POSITION_BITS = 33


@dataclass(frozen=True)
class OverlayPlan:
    """A tree of peers; made by `overlay_plan`."""

    #: level (0: the subscriptions), node, parent (null for the root), owner, children, low and high (a side per axis).
    nodes: DataFrame
    #: Levels of nodes above the subscriptions.
    height: int
    _rules: DataFrame
    _schema: Schema
    _cached: DataFrame

    def receptions(self, events: DataFrame, *, event_id: str = "event_id") -> DataFrame:
        """Return (event_id, subscription_id, matches) for every peer that an event reaches, once each.

        An event goes down into every node whose box holds it. A peer that receives it as the owner of such a node,
        while its own subscription does not match, is a false positive: ``matches`` is false.
        """
        require(events, [event_id], "the table of events")
        if any(kind.form not in (Form.NUMBER, Form.TEXT) for kind in self._schema.values()):
            raise TableError("receptions: an event must be a point, so the schema may have no regions and no vectors")
        reached = self._reached(events, event_id)
        hits = matcher(self._rules, event_id=event_id, schema=self._schema).match(events)
        joined = reached.join(hits.withColumn("hit", F.lit(True)), ["event_id", "subscription_id"], "left")
        return joined.select("event_id", "subscription_id", F.coalesce("hit", F.lit(False)).alias("matches"))

    def release(self) -> None:
        """Release what Spark caches of the tree."""
        self._cached.unpersist()

    def _reached(self, events: DataFrame, event_id: str) -> DataFrame:
        """Return the owners of the nodes whose boxes hold an event: boxes are subscriptions, too."""
        names = axis_names(Space(self._schema))
        form = T.StructType([T.StructField("event_id", events.schema[event_id].dataType)])
        form = reduce(lambda so_far, name: so_far.add(name, "double"), names, form)
        values = values_of(events, self._schema, beside=[F.col(event_id).alias("event_id")])
        columns = value_names(events, self._schema)
        task = partial(points_of_events, schema=self._schema.to_json(), names=columns, form=arrow_form(form, values))
        number = F.concat_ws("/", "level", "node").alias("id")
        sides = [_between(name, F.col("low")[axis], F.col("high")[axis]) for axis, name in enumerate(names)]
        boxes = self.nodes.select(number, F.concat_ws(" AND ", *sides).alias("filter"))
        reached = matcher(boxes, schema=Schema({name: Number() for name in names})).match(values.mapInArrow(task, form))
        owners = self.nodes.select(number, F.col("owner").alias("owner"))
        pairs = reached.join(owners, reached["subscription_id"] == owners["id"])
        return pairs.select("event_id", F.col("owner").alias("subscription_id")).distinct()


def overlay_plan(subscriptions: DataFrame, *, schema: Schema, fanout: int = 10) -> OverlayPlan:
    """Return the tree of peers that subscriptions would form, a peer for each.

    Parameters
    ----------
    subscriptions
        Columns ``id`` and ``filter``; a filter that cannot be read is an error that names its id. One that nothing can
        match has no place in the tree.
    schema
        The attributes; numbers with a domain spread best.
    fanout
        Children of a node at most.

    Spark keeps the boxes, sorted along the curve, until ``release()`` of what is returned.
    """
    require_filters(subscriptions, ["id", "filter"], "the table of subscriptions")
    require_schema(schema, "overlay_plan")
    require_count("fanout", fanout, 2)
    cached = _sorted_boxes(subscriptions, schema).persist()
    level = _ranked(cached)
    n, height, axes = cached.count(), 0, len(Space(schema))
    levels = []
    while n > 1:
        levels.append(level.withColumn("parent", F.expr(f"node div {fanout}")))
        level, n, height = _level_above(levels[-1], axes), -(-n // fanout), height + 1
    levels.append(level.withColumn("parent", F.lit(None).cast("long")))
    columns = ["node", "parent", "owner", "children", "low", "high"]
    numbered = [level.select(F.lit(number).alias("level"), *columns) for number, level in enumerate(levels)]
    return OverlayPlan(reduce(DataFrame.union, numbered), height, subscriptions.select("id", "filter"), schema, cached)


def _sorted_boxes(subscriptions: DataFrame, schema: Schema) -> DataFrame:
    """Return (owner, key, low, high) of the subscriptions, sorted by key in partitions that follow each other."""
    sides = T.ArrayType(T.DoubleType())
    form = T.StructType().add("owner", id_type(subscriptions, "id")).add("key", "long")
    form = form.add("low", sides).add("high", sides)
    rules = subscriptions.select(F.col("id").cast(id_type(subscriptions, "id")).alias("id"), "filter")
    task = partial(boxes_of_rules, schema=schema.to_json(), form=arrow_form(form, rules))
    boxes = rules.mapInArrow(task, form)
    return boxes.repartitionByRange(partitions_of(boxes), "key", "owner").sortWithinPartitions("key", "owner")


def _ranked(boxes: DataFrame) -> DataFrame:
    """Return the leaves, numbered along the curve; what comes to the driver is the size of each partition."""
    number = F.monotonically_increasing_id()
    placed = boxes.withColumn("partition", F.shiftright(number, _POSITION_BITS)).withColumn(
        "position", number.bitwiseAND(F.lit((1 << _POSITION_BITS) - 1))
    )
    sizes = {
        row["partition"]: row["count"]
        for row in boxes.groupBy(F.spark_partition_id().alias("partition")).count().collect()
    }
    first, starts = 0, []
    for partition in sorted(sizes):
        starts += [F.lit(partition).cast("long"), F.lit(first).cast("long")]
        first += sizes[partition]
    start = F.create_map(*starts)[F.col("partition")] if starts else F.lit(0)
    return placed.select((start + F.col("position")).alias("node"), "owner", F.lit(0).alias("children"), "low", "high")


def _level_above(level: DataFrame, axes: int) -> DataFrame:
    """Return the nodes above those of a level: the boxes around their children, played by the largest child's owner."""
    largest = F.min(F.struct((-_volume(axes)).alias("size"), "owner"))["owner"].alias("owner")
    low = F.array(*(F.min(F.col("low")[axis]) for axis in range(axes))).alias("low")
    high = F.array(*(F.max(F.col("high")[axis]) for axis in range(axes))).alias("high")
    children = F.count(F.lit(1)).cast("int").alias("children")
    return level.groupBy(F.col("parent").alias("node")).agg(largest, children, low, high)


def _volume(axes: int) -> Column:
    return reduce(lambda size, axis: size * (F.col("high")[axis] - F.col("low")[axis]), range(axes), F.lit(1.0))


def _between(name: str, low: Column, high: Column) -> Column:
    return F.concat(F.lit(f"{name} BETWEEN "), low.cast("string"), F.lit(" AND "), high.cast("string"))
