"""Boxes as ranges of Hilbert keys, and keys joined with ranges: the forwarding table of [mics] as two DataFrames."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tamis.curves.hilbert import MAX_BITS
from tamis.spark.columns import arrow_function, require, require_count
from tamis.spark.functions.evaluating import hilbert_keys_of, ranges_of

__all__ = ["hilbert_keys", "hilbert_ranges", "range_join"]

_RANGES = "array<struct<first: bigint, last: bigint>>"
#: Buckets into which all keys fall: a range is copied to each bucket that it meets.
_BUCKET_BITS = 10


def hilbert_ranges(boxes: DataFrame, *, bits: int) -> DataFrame:
    """Return (id, first, last), ends included, of boxes of cells: ``id``, ``low``, ``high`` (arrays of integers)."""
    require(boxes, ["id", "low", "high"], "the table of boxes")
    require_count("bits", bits, 1, MAX_BITS)
    ranges = arrow_function(ranges_of, _RANGES)("low", "high", F.lit(bits))
    return boxes.select("id", F.explode(ranges).alias("range")).select("id", "range.first", "range.last")


def hilbert_keys(cells: DataFrame, *, bits: int) -> DataFrame:
    """Return (id, key) for cells: ``id`` and ``cell`` (an array of integers)."""
    require(cells, ["id", "cell"], "the table of cells")
    require_count("bits", bits, 1, MAX_BITS)
    return cells.select("id", arrow_function(hilbert_keys_of, "bigint")("cell", F.lit(bits)).alias("key"))


def range_join(keys: DataFrame, ranges: DataFrame, *, key_bits: int) -> DataFrame:
    """Return (key_id, range_id) for every key inside a range; ``key_bits`` is dimensions times bits."""
    require(keys, ["id", "key"], "the table of keys")
    require(ranges, ["id", "first", "last"], "the table of ranges")
    require_count("key_bits", key_bits, 1, 62)
    shift = max(0, key_bits - _BUCKET_BITS)
    left = keys.select(F.col("id").alias("key_id"), "key", F.shiftright("key", shift).alias("bucket"))
    buckets = F.sequence(F.shiftright("first", shift), F.shiftright("last", shift))
    right = ranges.select(F.col("id").alias("range_id"), "first", "last", F.explode(buckets).alias("bucket"))
    inside = (F.col("first") <= F.col("key")) & (F.col("key") <= F.col("last"))
    return left.join(right, "bucket").where(inside).select("key_id", "range_id")
