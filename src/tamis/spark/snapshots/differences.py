"""What differs between rules in a table and a version of a snapshot, as DataFrames.

Each rule of both sides gets a fingerprint, and one aggregation by (namespace, id) finds the rules that differ, so that
neither side is sorted and texts do not travel. Spark computes the fingerprints of both sides by one expression.
"""

from __future__ import annotations

from functools import partial

from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tamis.engine.snapshot import Version
from tamis.engine.snapshot.manifest import Manifest
from tamis.spark.columns import arrow_form
from tamis.spark.snapshots.reading import list_rules
from tamis.spark.snapshots.snapshot import parts_frame
from tamis.spark.subscriptions.compile import Compiled

__all__ = ["DELETED", "among", "differing_rules", "entering", "known_rules", "states_of"]

#: The column of changes that says whether the rule leaves.
DELETED = "__tamis_deleted"

#: A name by which a rule is found, in the table and in a version.
_KEY = ["namespace", "id"]

#: RFC 3339 as Spark reads it to the same microsecond; other texts are compared after they were compiled.
_RFC3339 = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)$"


def known_rules(spark: SparkSession, base: Version, manifest: Manifest, kind: str) -> DataFrame:
    """Return (part, row, namespace, id, filter, expires, metadata) of the living rules of a version."""
    form = T.StructType().add("part", "integer").add("row", "integer").add("namespace", "string").add("id", kind)
    form = (
        form.add("filter", "string").add("expires", "long").add("metadata", T.MapType(T.StringType(), T.StringType()))
    )
    parts = parts_frame(spark, len(manifest.parts))
    return parts.mapInArrow(partial(list_rules, version=str(base), form=arrow_form(form, parts)), form)


def differing_rules(given: DataFrame, known: DataFrame, seen: Observation, *, whole: bool) -> DataFrame:
    """Return a row for each (namespace, id) that is not surely unchanged: given, part, row, known1, known2.

    ``given`` is how many rows ask for it, 0 for a rule that leaves. ``seen`` observes how many are unchanged.
    """
    nothing, number = F.lit(None).cast("long"), F.lit(None).cast("int")
    if not whole:
        known = among(known, given)
    text = F.coalesce("filter", F.lit(""))  # neither is accepted, so no version has it
    prints, unknown = _prints(text, _given_expires(), "given"), (nothing.alias("known1"), nothing.alias("known2"))
    ours = given.select(*_KEY, DELETED, *prints, *unknown, number.alias("part"), number.alias("row"))
    not_given = (F.lit(None).cast("boolean"), nothing, nothing)
    both = ours.union(known.select(*_KEY, *not_given, *_saved_prints("known"), "part", "row"))
    wanted = F.count_if(~F.col(DELETED)).alias("given")
    bounds = [F.min("given1").alias("low1"), F.max("given1").alias("high1"), F.min("given2").alias("low2")]
    bounds += [F.max("given2").alias("high2"), F.max("known1").alias("known1"), F.max("known2").alias("known2")]
    found = both.groupBy(*_KEY).agg(wanted, *bounds, F.max("part").alias("part"), F.max("row").alias("row"))
    same = "given > 0 AND low1 <=> high1 AND low2 <=> high2 AND low1 <=> known1 AND low2 <=> known2"
    counted: DataFrame = found.withColumn("same", F.expr(same)).observe(seen, F.count_if("same").alias("unchanged"))
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
    said = F.concat_ws("\x00", F.length(text).cast("string"), text, F.coalesce(expires, F.lit("")), metadata)
    digest = F.when(text.isNotNull(), F.sha2(said, 256))
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
