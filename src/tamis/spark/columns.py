"""What the pipeline's DataFrames look like, and how a user's columns are brought into that form.

Everything here is a plan on the JVM's side: no row is read, nothing is collected.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema

from tamis.errors import SchemaError, TableError
from tamis.model.schema import Schema
from tamis.model.types import Region, Vector

__all__ = ["id_type", "partitions_of", "quoted", "require", "schema_of", "values_of"]

_WHOLE = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)


def require(frame: DataFrame, names: Sequence[str], what: str) -> None:
    """Raise `TableError` for the first name that is not a column of the frame."""
    for name in names:
        if name not in frame.columns:
            raise TableError(f"{what} has no column {name!r} (columns: {', '.join(frame.columns) or 'none'})")


def id_type(frame: DataFrame, name: str) -> str:
    """Return the Spark type of a column of subscription ids: string, or bigint for whole numbers."""
    kind = frame.schema[name].dataType
    if isinstance(kind, T.StringType):
        return "string"
    if isinstance(kind, _WHOLE):
        return "bigint"
    raise TableError(f"column {name!r}: a subscription id is a string or a whole number, not {kind.simpleString()}")


def partitions_of(frame: DataFrame) -> int:
    """Return how many partitions a shuffle of this session makes."""
    return int(frame.sparkSession.conf.get("spark.sql.shuffle.partitions") or 8)


def schema_of(frame: DataFrame) -> Schema:
    """Return the schema that the columns of a DataFrame suggest.

    GEOMETRY columns are regions. Binary columns and arrays could be anything: name them in a schema of your
    own (``Region()``, ``Vector(n)``).
    """
    regions = {field.name: Region() for field in frame.schema if _is_geometry(field.dataType)}
    plain = [field for field in frame.schema if _is_plain(field.dataType)]
    known = Schema.from_arrow(to_arrow_schema(T.StructType(plain), timezone="UTC"))
    return Schema({**{name: known[name] for name in known}, **regions})


def values_of(frame: DataFrame, schema: Schema, *, beside: Sequence[Column] = ()) -> DataFrame:
    """Return the columns that the schema names, readable in Arrow, after the columns ``beside``."""
    names = [name for name in frame.columns if name in schema]
    if not names:
        raise SchemaError("", f"no column of the events is in the schema (columns: {', '.join(frame.columns)})")
    return frame.select(*beside, *(_readable(frame, name, schema).alias(name) for name in names))


def _readable(frame: DataFrame, name: str, schema: Schema) -> Column:
    """Return a column in a type that crosses to Arrow as the schema needs it."""
    kind, column = frame.schema[name].dataType, F.col(quoted(name))
    if _is_geometry(kind):
        return F.call_function("ST_AsBinary", column)
    if isinstance(kind, T.VariantType):
        return column.cast("string")
    if isinstance(schema[name], Vector) and isinstance(kind, T.ArrayType):
        return column.cast("array<double>")
    return column


def _is_geometry(kind: T.DataType) -> bool:
    return kind.typeName().lower().startswith(("geometry", "geography"))


def _is_plain(kind: T.DataType) -> bool:
    scalar = (T.NumericType, T.StringType, T.BooleanType, T.TimestampType, T.TimestampNTZType)
    return isinstance(kind, scalar)


def quoted(name: str) -> str:
    """Return a column name as an expression that means it, whatever characters it has."""
    return "`" + name.replace("`", "``") + "`"
