"""JSONL and CSV: Spark parses, and what it cannot parse is given its reason.

Spark parses only the columns that a query needs, and then misses errors in the others. So every query here
needs them all: whether a record is readable does not depend on the query.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_type

from tamis.errors import EventError, SchemaError, TableError
from tamis.model.schema import Schema
from tamis.model.types import AttributeType, Boolean, Many, Mixed, Number, Region, Timestamp
from tamis.spark.columns import MIXED_IN_SPARK, quoted
from tamis.spark.functions.worker_task import WorkerTask

__all__ = ["read_csv", "read_jsonl"]

#: All records, those that can be read, those that cannot.
Split = tuple[DataFrame, DataFrame, DataFrame]

_CORRUPT = "__tamis_corrupt"
_UNREADABLE = "record string, reason string"
_WHY_NOT = "a value does not fit the type of its column"

_COMMON = {
    "mode": "PERMISSIVE",
    "columnNameOfCorruptRecord": _CORRUPT,
    # A time without a zone stays text, and is refused as an event's value: the moment it means is unknown.
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS]XXX",
}
_JSON = {**_COMMON, "allowSingleQuotes": "false", "allowNonNumericNumbers": "false", "inferTimestamp": "true"}
_CSV = {**_COMMON, "header": "true", "escape": '"', "enforceSchema": "false", "preferDate": "false"}


def read_jsonl(spark: SparkSession, path: str, schema: Schema, forced: T.StructType) -> Split:
    """Read an object per line; blank lines are none. Columns ``forced`` have the type they say."""
    # Lines, not Spark's JSON source: the line is at hand when it cannot be read.
    lines = spark.read.text(path).where(F.trim("value") != "")
    form = _form(path, spark.read.options(**_JSON).json(path).schema, schema, forced, extend=True)
    read = lines.select("value", F.from_json("value", _with_corrupt(form), _JSON).alias("read"))
    corrupt = F.col("read").isNull() | F.col(f"read.{_CORRUPT}").isNotNull()
    rows = read.where(~corrupt).select(*(F.col(f"read.{quoted(name)}").alias(name) for name in form.names))
    return lines, rows, _with_reasons(read.where(corrupt).select("value"), _Explain(schema.to_json(), ()))


def read_csv(spark: SparkSession, path: str, schema: Schema, forced: T.StructType) -> Split:
    """Read rows below a header line; an empty cell is a missing value."""
    inferred = spark.read.options(**_CSV, inferSchema="true").csv(path).schema
    form = _form(path, inferred, schema, forced, extend=False)
    for name in form.names:
        if isinstance(form[name].dataType, T.ArrayType | T.MapType):
            raise TableError(
                f"{path}: column {name!r} cannot hold a {form[name].dataType.typeName()}; use jsonl or parquet"
            )
    records = spark.read.options(**_CSV).schema(_with_corrupt(form)).csv(path)
    # A hash is never below the least int: the comparison is there because it needs every column parsed.
    all_parsed = F.hash(*(quoted(name) for name in form.names)) >= F.lit(-(2**31))
    rows = records.where(F.col(_CORRUPT).isNull() & all_parsed).drop(_CORRUPT)
    unreadable_rows = records.where(F.col(_CORRUPT).isNotNull() & all_parsed).select(F.col(_CORRUPT).alias("value"))
    return records.drop(_CORRUPT), rows, _with_reasons(unreadable_rows, _Explain(schema.to_json(), tuple(form.names)))


def _with_corrupt(form: T.StructType) -> T.StructType:
    return T.StructType([*form.fields, T.StructField(_CORRUPT, T.StringType())])


def _form(path: str, inferred: T.StructType, schema: Schema, forced: T.StructType, *, extend: bool) -> T.StructType:
    """Return the columns: of the type that the schema asks for, else as the values show."""
    types = {field.name: field.dataType for field in inferred if field.name != _CORRUPT}
    for name, kind in schema.items():
        is_inside = name in schema.paths and name not in types and name.partition(".")[0] in types
        if (extend or name in types) and not is_inside:  # what lies inside an object is read with the object
            types[name] = _column_type(name, kind, types.get(name))
    types |= {field.name: field.dataType for field in forced if field.name in types}
    if not types:
        raise TableError(f"{path}: there is no record that can be read")
    return T.StructType([T.StructField(name, kind) for name, kind in types.items()])


def _column_type(name: str, kind: AttributeType, inferred_type: T.DataType | None) -> T.DataType:
    """Return the Spark type in which an attribute's values come from text."""
    if isinstance(kind.element, Mixed):
        raise SchemaError(name, MIXED_IN_SPARK)
    if isinstance(kind, Many):
        return T.ArrayType(
            _column_type(name, kind.of, inferred_type.elementType if isinstance(inferred_type, T.ArrayType) else None)
        )
    if isinstance(kind, Number):
        return inferred_type if isinstance(inferred_type, T.NumericType) else T.DoubleType()
    if isinstance(kind, Timestamp) and isinstance(inferred_type, T.TimestampType | T.LongType):
        return inferred_type
    return from_arrow_type(kind.arrow_type)  # regions as WKT; moments as RFC 3339, which the matcher reads


@dataclass(frozen=True)
class _Explain(WorkerTask):
    """What the workers need to say why a record cannot be read; it travels pickled inside Spark."""

    schema: str
    #: The header of a CSV file; none for JSON.
    header: tuple[str, ...]


def _with_reasons(values: DataFrame, task: _Explain) -> DataFrame:
    return values.mapInArrow(partial(_explain_batches, task=task), _UNREADABLE)


def _explain_batches(batches: Iterator[pa.RecordBatch], *, task: _Explain) -> Iterator[pa.RecordBatch]:
    schema = Schema.from_json(task.schema)
    problem: Callable[[str], str] = partial(_csv_problem, header=task.header, schema=schema)
    if not task.header:
        problem = partial(_json_problem, schema=schema)
    for batch in batches:
        texts = [text or "" for text in batch.column("value").to_pylist()]
        reasons = [problem(text) for text in texts]
        yield pa.RecordBatch.from_pydict({"record": pa.array(texts, pa.string()), "reason": pa.array(reasons)})


def _json_problem(text: str, schema: Schema) -> str:
    """Say why a line is not an event.

    >>> _json_problem('{"mag": }', Schema())
    'not JSON: expecting value at column 9'
    >>> _json_problem("[1, 2]", Schema())
    'expected an object, not a list'
    >>> _json_problem('{"mag": "big"}', Schema({"mag": Number()}))
    "attribute 'mag': expected a number, not a string (got 'big')"
    """
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        return f"not JSON: {error.msg[:1].lower()}{error.msg[1:]} at column {error.colno}"
    except (ValueError, RecursionError):
        return "not JSON that tamis reads: a number or a nesting out of all bounds"
    if not isinstance(value, dict):
        return f"expected an object, not a {type(value).__name__}"
    return _misfit(value, schema)


def _csv_problem(text: str, header: tuple[str, ...], schema: Schema) -> str:
    """Say why a row of CSV is not an event.

    >>> _csv_problem("1,2", ("id", "mag", "place"), Schema())
    'the row has 2 cells, the header 3'
    >>> _csv_problem("1,big", ("id", "mag"), Schema({"mag": Number()}))
    "attribute 'mag': expected a number (got 'big')"
    """
    cells = next(csv.reader([text]), [])
    if len(cells) != len(header):
        return f"the row has {len(cells)} cells, the header {len(header)}"
    for name, cell in zip(header, cells, strict=True):
        kind = schema.get(name)
        if cell and isinstance(kind, Number | Boolean) and not _reads_as(kind, cell):
            return str(EventError(name, cell, f"expected a {kind.name}"))
    return _WHY_NOT


def _reads_as(kind: Number | Boolean, cell: str) -> bool:
    if isinstance(kind, Boolean):
        return cell.lower() in ("true", "false")
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _misfit(value: dict[str, Any], schema: Schema) -> str:
    texts = Schema({name: kind for name, kind in schema.items() if not isinstance(kind, Region | Timestamp)})
    try:
        texts.event(value)
    except EventError as error:
        return str(error)
    return _WHY_NOT
