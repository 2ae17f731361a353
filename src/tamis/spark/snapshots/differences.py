"""What differs between rules in a table and a version of a snapshot, as DataFrames.

Both sides fall into buckets by (namespace, id), and `changed_buckets` finds those that differ without a shuffle of
rules: Spark hashes the table, the workers hash the version with the same function (`fingerprints`). In these buckets
one aggregation by (namespace, id) finds the rules that differ. See decision 0078.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tamis.engine.snapshot import Version
from tamis.engine.snapshot.manifest import Manifest
from tamis.spark.columns import arrow_form
from tamis.spark.snapshots.few_rules import DELETED
from tamis.spark.snapshots.fingerprints import Buckets
from tamis.spark.snapshots.rule_rows import SUMS, ChosenBuckets, list_bucket_sums, list_rules
from tamis.spark.snapshots.snapshot import parts_frame
from tamis.spark.subscriptions.compile import Compiled

__all__ = [
    "Changed",
    "among",
    "changed_buckets",
    "differing_rules",
    "entering",
    "fetched",
    "given_among",
    "known_rules",
    "states_of",
]

#: A name by which a rule is found, in the table and in a version.
_KEY = ["namespace", "id"]

#: RFC 3339 as Spark reads it to the same microsecond; other texts are compared after they were compiled.
_RFC3339 = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)$"


#: What a rule takes as objects of Python in the driver, besides its text and metadata.
_ROW_BYTES = 1_300
#: Bytes of rules in buckets that differ up to which the driver compares them.
_FEW_BYTES = 64_000_000


class Changed(NamedTuple):
    """The buckets that differ, how many rules are in the others, and about how many bytes the rules in these have."""

    buckets: ChosenBuckets
    numbers: npt.NDArray[np.int32]
    unchanged: int
    n_bytes: int

    @property
    def is_few(self) -> bool:
        """Whether the rules of both sides are few enough for the driver."""
        return self.n_bytes <= _FEW_BYTES


def changed_buckets(rules: DataFrame, base: Version, manifest: Manifest, *, whole: bool) -> Changed:
    """Return the buckets in which the given rules and those of a version differ; without ``whole`` all with a rule.

    What comes to the driver is the numbers of the buckets, of which there are a million at most.
    """
    buckets = Buckets.of(sum(part.n_rows for part in manifest.parts))
    counted = F.count_if(~F.col(DELETED)).alias("rules")
    sums = [counted, F.bit_xor(_print(buckets)).alias("print"), F.sum(_size()).alias("bytes")]
    given_sums = rules.groupBy(_bucket(buckets).alias("bucket")).agg(*sums)
    if not whole:
        return _changed(buckets, given_sums.select("bucket", "bytes").toArrow(), 0, manifest)
    parts = parts_frame(rules.sparkSession, len(manifest.parts))
    saved_sums = parts.mapInArrow(partial(list_bucket_sums, version=str(base), buckets=buckets), SUMS)
    sides = given_sums.select("*", F.lit(1).alias("side")).union(saved_sums.select("*", F.lit(0), F.lit(-1)))
    surplus = F.sum(F.col("rules") * F.col("side")).alias("surplus")
    n_rules = F.sum(F.when(F.col("side") == 1, F.col("rules"))).alias("rules")
    size = F.sum("bytes").alias("bytes")
    differences = sides.groupBy("bucket").agg(surplus, F.bit_xor("print").alias("print"), n_rules, size)
    equal = F.expr("surplus = 0 AND print = 0")
    counter = Observation()
    counted_rules = differences.observe(counter, F.sum(F.when(equal, F.col("rules"))).alias("rules"))
    unequal = counted_rules.where(~equal).select("bucket", "bytes").toArrow()
    return _changed(buckets, unequal, counter.get["rules"] or 0, manifest)


def _changed(buckets: Buckets, unequal: pa.Table, unchanged: int, manifest: Manifest) -> Changed:
    """Return the buckets (bucket, bytes) that differ; the version's rules are spread evenly over its buckets."""
    numbers = np.asarray(unequal["bucket"], np.int32)
    saved = sum(file.bytes for part in manifest.parts for name, file in part.files.items() if name.endswith(".arrow"))
    saved += _ROW_BYTES * sum(part.n_rows for part in manifest.parts)
    n_bytes = int(np.asarray(unequal["bytes"]).sum()) + saved * len(numbers) // (1 << buckets.bits)
    return Changed(ChosenBuckets.of(buckets, numbers), numbers, unchanged, n_bytes)


def fetched(rules: DataFrame) -> pa.Table:
    """Bring rules to the driver, which `Changed.is_few` must allow."""
    return rules.toArrow()


def given_among(rules: DataFrame, changed: Changed) -> DataFrame:
    """Return the given rules in the buckets that differ."""
    chosen = rules.sparkSession.createDataFrame(pa.table({"__bucket": pa.array(changed.numbers, pa.int32())}))
    return rules.join(F.broadcast(chosen), _bucket(changed.buckets.buckets) == F.col("__bucket"), "left_semi")


def known_rules(spark: SparkSession, base: Version, manifest: Manifest, kind: str, changed: Changed) -> DataFrame:
    """Return (part, row, namespace, id, filter, expires, metadata) of a version's rules in buckets that differ."""
    form = T.StructType().add("part", "integer").add("row", "integer").add("namespace", "string").add("id", kind)
    form = (
        form.add("filter", "string").add("expires", "long").add("metadata", T.MapType(T.StringType(), T.StringType()))
    )
    parts = parts_frame(spark, len(manifest.parts))
    listing = partial(list_rules, version=str(base), chosen=changed.buckets, form=arrow_form(form, parts))
    return parts.mapInArrow(listing, form)


def _bucket(buckets: Buckets) -> Column:
    """Return the bucket of a rule, as `Buckets.numbers` does."""
    key = F.xxhash64(F.lit(buckets.seed).cast("long"), *_KEY)
    return F.shiftrightunsigned(key, 64 - buckets.bits).cast("int")


def _size() -> Column:
    """Return about how many bytes a given rule has in memory."""
    metadata = F.coalesce(F.octet_length(F.to_json("metadata")), F.lit(0))
    return F.coalesce(F.octet_length("filter"), F.lit(0)) + metadata + F.lit(_ROW_BYTES)


def _print(buckets: Buckets) -> Column:
    """Return the fingerprint of a given rule, as `rule_prints` does; an end that Spark cannot read makes it differ."""
    expires = _given_expires()
    micros = expires.try_cast("long")
    unread = F.when(micros.isNull(), expires)
    text, entries = F.coalesce("filter", F.lit("")), F.array_sort(F.map_entries("metadata"))
    return F.xxhash64(F.lit(buckets.seed).cast("long"), *_KEY, text, micros, unread, entries)


def differing_rules(rules: DataFrame, saved: DataFrame, counter: Observation, *, whole: bool) -> DataFrame:
    """Return a row for each (namespace, id) that is not surely unchanged: given, part, row, known1, known2.

    ``rules`` is how many rows ask for it, 0 for a rule that leaves. ``counter`` observes how many are unchanged.
    """
    null, number = F.lit(None).cast("long"), F.lit(None).cast("int")
    if not whole:
        saved = among(saved, rules)
    text = F.coalesce("filter", F.lit(""))  # neither is accepted, so no version has it
    prints, unknown = _prints(text, _given_expires(), "given"), (null.alias("known1"), null.alias("known2"))
    # Equal ends in differing texts are a conflict, as in a table of which no version is known.
    end = F.when(F.col("expires").isNotNull(), F.xxhash64("expires")).alias("end")
    given_rows = rules.select(*_KEY, DELETED, end, *prints, *unknown, number.alias("part"), number.alias("row"))
    not_given = (F.lit(None).cast("boolean"), null, null, null)
    both = given_rows.union(saved.select(*_KEY, *not_given, *_saved_prints("known"), "part", "row"))
    wanted = F.count_if(~F.col(DELETED)).alias("given")
    bounds = [F.min("given1").alias("low1"), F.max("given1").alias("high1"), F.min("given2").alias("low2")]
    bounds += [F.max("given2").alias("high2"), F.max("known1").alias("known1"), F.max("known2").alias("known2")]
    bounds += [F.min("end").alias("end1"), F.max("end").alias("end2")]
    grouped = both.groupBy(*_KEY).agg(wanted, *bounds, F.max("part").alias("part"), F.max("row").alias("row"))
    is_one = "given > 0 AND low1 <=> high1 AND low2 <=> high2 AND end1 <=> end2"
    same = f"{is_one} AND low1 <=> known1 AND low2 <=> known2"
    counted: DataFrame = grouped.withColumn("same", F.expr(same)).observe(
        counter, F.count_if("same").alias("unchanged")
    )
    # What is neither here nor asked for, such as a deletion of an unknown rule, asks for nothing.
    return counted.where("NOT same AND (given > 0 OR part IS NOT NULL)").select(
        *_KEY, "given", "part", "row", "known1", "known2"
    )


def _saved_prints(name: str) -> list[Column]:
    """Return the fingerprint of an accepted rule, whose end is a number."""
    return _prints(F.col("filter"), F.col("expires").cast("string"), name)


def _prints(text: Column, expires: Column, name: str) -> list[Column]:
    """Return the fingerprint of what a rule says, 128 bits of SHA-256 in two columns; null without a text."""
    entries = F.array_sort(F.map_entries("metadata"))
    metadata = F.when(F.size("metadata") > 0, F.to_json(entries)).otherwise("")
    content = F.concat_ws("\x00", F.length(text).cast("string"), text, F.coalesce(expires, F.lit("")), metadata)
    digest = F.when(text.isNotNull(), F.sha2(content, 256))
    halves = (F.conv(F.substring(digest, start, 16), 16, -10).cast("long") for start in (1, 17))
    return [half.alias(f"{name}{number}") for number, half in enumerate(halves, 1)]


def _given_expires() -> Column:
    """Return the end of a given rule as versions have it, microseconds as text, where Spark can tell."""
    text = F.col("expires")
    micros = F.unix_micros(F.try_to_timestamp(text)).cast("string")
    return F.when(text.rlike(_RFC3339), F.coalesce(micros, text)).otherwise(text)


def states_of(differing: DataFrame, compiled: Compiled) -> DataFrame:
    """Return the rules that differ with their ``state``: added, changed, removed or, after all, unchanged."""
    accepted = compiled[0].select(F.col("namespace").alias("space"), F.col("id").alias("name"), *_saved_prints("new"))
    joined = differing.join(accepted, [F.col("namespace") == F.col("space"), F.col("id") == F.col("name")], "left")
    is_there, is_accepted = F.col("part").isNotNull(), F.col("name").isNotNull()
    same = F.expr("new1 <=> known1 AND new2 <=> known2 AND known1 IS NOT NULL")
    state = F.when(is_accepted & ~is_there, "added").when(is_accepted & same, "unchanged")
    state = state.when(is_accepted, "changed").when(is_there, "removed")
    return joined.select(*_KEY, "part", "row", state.alias("state"))


def entering(compiled: Compiled, states: DataFrame) -> DataFrame:
    """Return the accepted rows that are new or changed."""
    accepted = compiled[0]
    enter = states.where("state IN ('added', 'changed')").select(*_KEY)
    return accepted.join(enter, _KEY, "left_semi").select(accepted.columns)


def among(rows: DataFrame, keys: DataFrame) -> DataFrame:
    """Return the rows about one of the rules in ``keys``; rows without an id are about one rule."""
    named = keys.select(F.col("namespace").alias("__space"), F.col("id").alias("__name"))
    same = F.col("namespace").eqNullSafe(F.col("__space")) & F.col("id").eqNullSafe(F.col("__name"))
    return rows.join(named, same, "left_semi")
