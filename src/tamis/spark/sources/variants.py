"""Events inside one column: a VARIANT, or JSON text, becomes a column for each attribute of the schema.

A value of another type than its attribute has makes the event unreadable: a VARIANT would turn ``"5"`` into 5
and ``true`` into 1 when asked, which no other door of tamis does.

The name ``items.sku`` means a key of that name, or the ``sku`` inside ``items``. If ``items`` is a list of objects, it
means the ``sku`` of all of them, which only a repeated attribute can hold.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tamis.errors import SchemaError, TableError
from tamis.model.schema import Schema
from tamis.model.types import AttributeType, Decimal, Many, Mixed, Number, Region, Timestamp
from tamis.model.types.paths import is_path
from tamis.spark.columns import MIXED_IN_SPARK, quoted, require

__all__ = ["unpack_variant"]

_VALUE = "__tamis_variant"
#: What `schema_of_variant` says of values that fit, as patterns, and the Spark type they are taken as.
_NUMBER = (r"BIGINT|DOUBLE|FLOAT|DECIMAL\(.*", "double")
_BOOLEAN = ("BOOLEAN", "boolean")
_TEXT = ("STRING", "string")
_MOMENT = ("STRING|TIMESTAMP|BIGINT", "string")
_DIGITS = (r"STRING|BIGINT|DECIMAL\(.*", "string")
_GEOMETRY = (r"STRING|OBJECT<.*|ARRAY<(BIGINT|DOUBLE|DECIMAL\(.*)>", "string")
_NUMBERS = (r"ARRAY<(BIGINT|DOUBLE|FLOAT|DECIMAL\(.*|VOID)>", "array<double>")
_FITS = {pa.float64(): _NUMBER, pa.bool_(): _BOOLEAN, pa.string(): _TEXT, pa.list_(pa.float64()): _NUMBERS}
_SPECIAL: dict[type[AttributeType], tuple[str, str]] = {Timestamp: _MOMENT, Region: _GEOMETRY, Decimal: _DIGITS}
#: Dots in a name of which any may belong to a key: there are two ways more for each.
_MOST_DOTS = 3
#: Whole numbers up to here are float64 exactly.
_EXACT = 2**53


def unpack_variant(
    rows: DataFrame, name: str, schema: Schema, beside: Sequence[str], unreadable: DataFrame | None
) -> tuple[DataFrame, DataFrame]:
    """Return (rows with a column for each attribute, unreadable records with their reason)."""
    require(rows, [name], "the table of events")
    if not schema:
        raise SchemaError("", f"column {name!r} holds whole events; name their attributes and types in a schema")
    with_value = rows.withColumn(_VALUE, _parsed(rows, name))
    problem = F.coalesce(_not_an_object(), *(_misfit(column, kind) for column, kind in schema.items()))
    judged = with_value.withColumn("reason", problem)
    others = [F.col(quoted(column)) for column in rows.columns if column != name and column not in schema]
    inside = [column for column in beside if column not in rows.columns and column not in schema]
    attributes = [_extracted(column, kind).alias(column) for column, kind in schema.items()]
    texts = [_get(column, "string").alias(column) for column in inside]
    readable = judged.where(F.col("reason").isNull()).select(*others, *attributes, *texts)
    record = F.coalesce(F.col(quoted(name)).cast("string"), F.lit("")).alias("record")
    rejected = judged.where(F.col("reason").isNotNull()).select(*others, *texts, record, "reason")
    return readable, rejected if unreadable is None else rejected.unionByName(unreadable, allowMissingColumns=True)


def _parsed(rows: DataFrame, name: str) -> Column:
    kind, column = rows.schema[name].dataType, F.col(quoted(name))
    if isinstance(kind, T.VariantType):
        return column
    if isinstance(kind, T.StringType):
        return F.try_parse_json(column)
    raise TableError(f"column {name!r} is {kind.simpleString()}; events in one column are VARIANT or JSON text")


def _get(name: str, kind: str) -> Column:
    """Return the value of an attribute: under its whole name, or inside objects where the name has dots."""
    paths = ("".join(f"[{_literal(step)}]" for step in steps) for steps in _ways(name))
    return F.coalesce(*(F.try_variant_get(F.col(_VALUE), f"${path}", kind) for path in paths))


def _ways(name: str) -> list[tuple[str, ...]]:
    """Return the keys by which a name may be reached, the whole name first; keys may have dots of their own.

    Of a name with many dots, only two ways are tried: the whole, and a key for each part.

    >>> _ways("a.b.c")
    [('a.b.c',), ('a', 'b.c'), ('a', 'b', 'c'), ('a.b', 'c')]
    """
    if not is_path(name):
        return [(name,)]
    if name.count(".") > _MOST_DOTS:
        return [(name,), tuple(name.split("."))]
    dots = [at for at, character in enumerate(name) if character == "." and at]
    return [(name,), *((name[:at], *rest) for at in dots for rest in _ways(name[at + 1 :]))]


def _elements(name: str) -> Column:
    """Return the elements of a repeated attribute, or null when it is missing: a single value is a list of one."""
    value = _get(name, "variant")
    elements = F.when(F.schema_of_variant(value) != "VOID", _as_list(value))
    return F.coalesce(elements, _through_lists(name)) if is_path(name) else elements


def _through_lists(name: str) -> Column:
    """Return what a path finds in all elements of the lists that lie on it; null when it finds nothing."""
    first, *steps = name.split(".")
    values = _as_list(_inside(F.col(_VALUE), first))
    for step in steps:
        values = _one_step(values, step)
    values = F.filter(values, lambda element: F.schema_of_variant(element) != "VOID")
    return F.when(F.size(values) > 0, values)


def _one_step(elements: Column, step: str) -> Column:
    return F.flatten(F.transform(elements, lambda element: _as_list(_inside(element, step))))


def _inside(value: Column, step: str) -> Column:
    return F.try_variant_get(value, f"$[{_literal(step)}]", "variant")


def _as_list(value: Column) -> Column:
    """Return the elements of a value that is a list, or a list of the value; an empty list of null."""
    elements = F.try_variant_get(value, "$", "array<variant>")
    single = F.when(value.isNotNull(), F.array(value)).otherwise(F.array().cast("array<variant>"))
    return F.coalesce(elements, single)


def _literal(name: str) -> str:
    if "'" in name:
        raise SchemaError(name, "a name with an apostrophe cannot be looked up in a VARIANT")
    return f"'{name}'"


def _not_an_object() -> Column:
    kind = F.schema_of_variant(F.col(_VALUE))
    no_value = F.when(F.col(_VALUE).isNull(), F.lit("no value, or text that is not JSON"))
    return F.coalesce(no_value, F.when(~kind.startswith("OBJECT"), F.concat(F.lit("expected an object, not "), kind)))


def _fit(kind: AttributeType) -> tuple[str, str]:
    if isinstance(kind, Mixed):
        raise SchemaError("", MIXED_IN_SPARK)
    special = (fit for type_class, fit in _SPECIAL.items() if isinstance(kind, type_class))
    fit = next(special, None) or _FITS.get(kind.arrow_type)
    if fit is None:
        raise SchemaError("", f"{kind.words} cannot be read from a VARIANT; give it a column of its own")
    return fit


def _misfit(name: str, kind: AttributeType) -> Column:
    """Return why the value of an attribute cannot be taken; null when it can, or is missing."""
    if not isinstance(kind, Many):
        value = _get(name, "variant")
        listed = F.lit(f"attribute '{name}': a list of objects is on its path; declare a repeated attribute, Many(...)")
        is_listed = value.isNull() & _through_lists(name).isNotNull() if is_path(name) else F.lit(False)
        return F.coalesce(_value_misfit(value, name, kind), F.when(is_listed, listed))
    of = kind.of
    return F.get(F.array_compact(F.transform(_elements(name), lambda element: _value_misfit(element, name, of))), 0)


def _value_misfit(value: Column, name: str, kind: AttributeType) -> Column:
    pattern, _ = _fit(kind)
    type_name = F.schema_of_variant(value)
    message = F.concat(F.lit(f"attribute '{name}': expected a {kind.name}, not "), F.lower(type_name))
    misfit = F.when((type_name != "VOID") & ~type_name.rlike(f"^({pattern})$"), message)
    if not isinstance(kind, Number):
        return misfit
    whole = F.try_variant_get(value, "$", "bigint")
    large = F.lit(f"attribute '{name}': a whole number beyond 2**53 in a VARIANT; give it a column of its own")
    return F.coalesce(misfit, F.when((type_name == "BIGINT") & ((whole > _EXACT) | (whole < -_EXACT)), large))


def _extracted(name: str, kind: AttributeType) -> Column:
    if not isinstance(kind, Many):
        return _value_taken(_get(name, "variant"), kind)
    of = kind.of
    return F.transform(_elements(name), lambda element: _value_taken(element, of))


def _value_taken(value: Column, kind: AttributeType) -> Column:
    value_as_type, type_name = F.try_variant_get(value, "$", _fit(kind)[1]), F.schema_of_variant(value)
    if isinstance(kind, Region):
        numbers = F.try_variant_get(value, "$", "array<string>")
        return F.when(
            type_name.startswith("ARRAY"), F.concat(F.lit("POINT ("), F.concat_ws(" ", numbers), F.lit(")"))
        ).otherwise(value_as_type)
    if not isinstance(kind, Timestamp):
        return value_as_type
    since_1970 = F.timestamp_micros(F.when(type_name == "BIGINT", F.try_variant_get(value, "$", "bigint")))
    moment = F.coalesce(since_1970, F.when(type_name == "TIMESTAMP", F.try_variant_get(value, "$", "timestamp")))
    return F.coalesce(F.date_format(moment, "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"), value_as_type)
