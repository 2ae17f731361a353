"""Events inside one column: a VARIANT, or JSON text, becomes a column for each attribute of the schema.

A value of another type than its attribute has makes the event unreadable: a VARIANT would turn ``"5"`` into 5
and ``true`` into 1 when asked, which no other door of tamis does.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tamis.errors import SchemaError, TableError
from tamis.model.schema import Schema
from tamis.model.types import AttributeType, Mixed, Number, Timestamp
from tamis.spark.columns import MIXED_IN_SPARK, quoted, require

__all__ = ["unpack_variant"]

_VALUE = "__tamis_variant"
#: What `schema_of_variant` says of values that fit, as patterns, and the Spark type they are taken as.
_NUMBER = (r"BIGINT|DOUBLE|FLOAT|DECIMAL\(.*", "double")
_BOOLEAN = ("BOOLEAN", "boolean")
_TEXT = ("STRING", "string")
_MOMENT = ("STRING|TIMESTAMP", "string")
_NUMBERS = (r"ARRAY<(BIGINT|DOUBLE|FLOAT|DECIMAL\(.*|VOID)>", "array<double>")
_TEXTS = ("ARRAY<(STRING|VOID)>", "array<string>")
_BOOLEANS = ("ARRAY<(BOOLEAN|VOID)>", "array<boolean>")
_FITS = {pa.float64(): _NUMBER, pa.bool_(): _BOOLEAN, pa.string(): _TEXT, pa.list_(pa.float64()): _NUMBERS}
_FITS |= {pa.list_(pa.string()): _TEXTS, pa.list_(pa.bool_()): _BOOLEANS}
#: Whole numbers up to here are float64 exactly.
_EXACT = 2**53


def unpack_variant(
    rows: DataFrame, name: str, schema: Schema, beside: Sequence[str], unreadable: DataFrame | None
) -> tuple[DataFrame, DataFrame]:
    """Return (rows with a column for each attribute, unreadable records with their reason)."""
    require(rows, [name], "the table of events")
    if not schema:
        raise SchemaError("", f"column {name!r} holds whole events; name their attributes and types in a schema")
    held = rows.withColumn(_VALUE, _parsed(rows, name))
    problem = F.coalesce(_not_an_object(), *(_misfit(one, kind) for one, kind in schema.items()))
    judged = held.withColumn("reason", problem)
    others = [F.col(quoted(one)) for one in rows.columns if one != name and one not in schema]
    inside = [one for one in beside if one not in rows.columns and one not in schema]
    attributes = [_taken(one, kind).alias(one) for one, kind in schema.items()]
    texts = [_get(one, "string").alias(one) for one in inside]
    good = judged.where(F.col("reason").isNull()).select(*others, *attributes, *texts)
    record = F.coalesce(F.col(quoted(name)).cast("string"), F.lit("")).alias("record")
    bad = judged.where(F.col("reason").isNotNull()).select(*others, *texts, record, "reason")
    return good, bad if unreadable is None else bad.unionByName(unreadable, allowMissingColumns=True)


def _parsed(rows: DataFrame, name: str) -> Column:
    kind, column = rows.schema[name].dataType, F.col(quoted(name))
    if isinstance(kind, T.VariantType):
        return column
    if isinstance(kind, T.StringType):
        return F.try_parse_json(column)
    raise TableError(f"column {name!r} is {kind.simpleString()}; events in one column are VARIANT or JSON text")


def _get(name: str, kind: str) -> Column:
    """Return the value of an attribute: under its whole name, or inside objects where the name has dots."""
    whole = F.try_variant_get(F.col(_VALUE), f"$[{_literal(name)}]", kind)
    if "." not in name.strip("."):
        return whole
    steps = "".join(f"[{_literal(step)}]" for step in name.split("."))
    return F.coalesce(whole, F.try_variant_get(F.col(_VALUE), f"${steps}", kind))


def _literal(name: str) -> str:
    if "'" in name:
        raise SchemaError(name, "a name with an apostrophe cannot be looked up in a VARIANT")
    return f"'{name}'"


def _not_an_object() -> Column:
    kind = F.schema_of_variant(F.col(_VALUE))
    no_value = F.when(F.col(_VALUE).isNull(), F.lit("no value, or text that is not JSON"))
    return F.coalesce(no_value, F.when(~kind.startswith("OBJECT"), F.concat(F.lit("expected an object, not "), kind)))


def _fit(kind: AttributeType) -> tuple[str, str]:
    if isinstance(kind.element, Mixed):
        raise SchemaError("", MIXED_IN_SPARK)
    fit = _MOMENT if isinstance(kind, Timestamp) else _FITS.get(kind.arrow_type)
    if fit is None:
        raise SchemaError("", f"{kind.words} cannot be read from a VARIANT; give it a column of its own")
    return fit


def _misfit(name: str, kind: AttributeType) -> Column:
    """Return why the value of an attribute cannot be taken; null when it can, or is missing."""
    pattern, _ = _fit(kind)
    value = _get(name, "variant")
    given = F.schema_of_variant(value)
    told = F.concat(F.lit(f"attribute '{name}': expected a {kind.name}, not "), F.lower(given))
    wrong = F.when((given != "VOID") & ~given.rlike(f"^({pattern})$"), told)
    if not isinstance(kind, Number):
        return wrong
    whole = _get(name, "bigint")
    large = F.lit(f"attribute '{name}': a whole number beyond 2**53 in a VARIANT; give it a column of its own")
    return F.coalesce(wrong, F.when((given == "BIGINT") & ((whole > _EXACT) | (whole < -_EXACT)), large))


def _taken(name: str, kind: AttributeType) -> Column:
    if not isinstance(kind, Timestamp):
        return _get(name, _fit(kind)[1])
    moment = F.date_format(_get(name, "timestamp"), "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX")
    is_moment = F.schema_of_variant(_get(name, "variant")) == "TIMESTAMP"
    return F.when(is_moment, moment).otherwise(_get(name, "string"))
