"""What the pipeline's DataFrames look like, and how a user's columns are brought into that form.

Everything here is a plan on the JVM's side: no row is read, nothing is collected.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tamis.engine.snapshot.manifest import Manifest
from tamis.errors import SchemaError, TableError
from tamis.model.arrow_types import check_columns, repeated
from tamis.model.schema import ALL_STRINGS, Schema
from tamis.model.types import Form, Region
from tamis.model.types.paths import MAX_DEPTH, is_path

__all__ = [
    "MIXED_IN_SPARK",
    "VALUE",
    "arrow_form",
    "arrow_function",
    "has_path",
    "id_kind",
    "id_type",
    "leaf_names",
    "partitions_of",
    "quoted",
    "require",
    "require_count",
    "require_filters",
    "require_places",
    "require_schema",
    "require_trigger",
    "schema_of",
    "value_names",
    "values_of",
]

MIXED_IN_SPARK = "Spark has no column of values of several types; declare one type, such as Many(String())"

#: How the columns of attributes begin while they travel.
VALUE = "__tamis_value_"

#: Spark 4.1 has all timestamps in UTC.
_TAKES_ZONE = "timezone" in inspect.signature(to_arrow_schema).parameters

#: How a stream may be triggered in the Spark that is installed.
_TRIGGERS = [name for name in inspect.signature(DataStreamWriter.trigger).parameters if name != "self"]

_WHOLE = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)


def require(frame: DataFrame, names: Sequence[str], table: str) -> None:
    """Raise `TableError` unless the frame is a DataFrame with these columns; it names the first that is missing."""
    if not isinstance(frame, DataFrame):
        hint = "make one with spark.createDataFrame(...) or spark.read"
        kind = f"{type(frame).__module__}.{type(frame).__qualname__}".removeprefix("builtins.")
        raise TableError(f"{table}: expected a DataFrame of Spark, got {kind}; {hint}")
    for name in names:
        if name not in frame.columns:
            hint = "; name the column that identifies an event: event_id='...'" if name == "event_id" else ""
            raise TableError(f"{table} has no column {name!r} (columns: {', '.join(frame.columns) or 'none'}){hint}")


def require_filters(frame: DataFrame, names: Sequence[str], table: str, *, variant: bool = False) -> None:
    """Raise `TableError` unless the frame has these columns, and ``filter`` among them holds text or a VARIANT."""
    require(frame, names, table)
    kind = frame.schema["filter"].dataType
    kinds = (T.StringType, T.CharType, T.VarcharType, T.NullType, *([T.VariantType] if variant else []))
    if not isinstance(kind, kinds):
        expected = "text or VARIANT" if variant else "text"
        raise TableError(f"column 'filter': a filter is {expected}, not {kind.simpleString()}")


def require_schema(schema: object, function: str) -> None:
    """Raise `SchemaError` unless ``schema`` is one."""
    if not isinstance(schema, Schema):
        raise SchemaError("", f"{function} needs a tamis.Schema, not {type(schema).__name__}")


def require_count(name: str, value: object, least: int, most: int | None = None) -> None:
    """Raise `TableError` unless a setting is a whole number in its range."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least or (most is not None and value > most):
        limits = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise TableError(f"{name}: expected a whole number {limits}, got {value!r}")


def require_trigger(trigger: object) -> None:
    """Raise `TableError` unless a trigger is a dict with one key that `DataStreamWriter.trigger` takes, or None."""
    if trigger is None:
        return
    if not isinstance(trigger, dict):
        raise TableError(f"trigger: expected a dict such as {{'availableNow': True}}, got {trigger!r}")
    unknown = next((key for key in trigger if key not in _TRIGGERS), None)
    if unknown is not None:
        raise TableError(f"trigger: unknown key {unknown!r}; choose one of {', '.join(_TRIGGERS)}")
    if len(trigger) > 1:
        raise TableError(f"trigger: expected one key, got {', '.join(trigger)}")


def require_places(**places: object) -> None:
    """Raise `TableError` for a location that is neither a directory nor a URI."""
    for name, place in places.items():
        if not isinstance(place, str | Path):
            raise TableError(f"{name}: expected a directory or a URI, got {place!r}")


def id_type(frame: DataFrame, name: str) -> str:
    """Return the Spark type of a column of subscription ids: string, or long for whole numbers."""
    kind = frame.schema[name].dataType
    if isinstance(kind, T.StringType):
        return "string"
    if isinstance(kind, _WHOLE):
        return "long"
    raise TableError(f"column {name!r}: a subscription id is a string or a whole number, not {kind.simpleString()}")


def id_kind(manifest: Manifest, version: Path | str) -> str:
    """Return the Spark type of the ids in a snapshot: string or long."""
    kinds = {part.id_kind for part in manifest.parts} - {"none"}
    if kinds <= {"number"}:
        return "long"
    if kinds == {"text"}:
        return "string"
    raise TableError(f"{version} has ids that are numbers and ids that are strings; a column holds one kind")


def arrow_form(form: T.StructType, frame: DataFrame) -> pa.Schema:
    """Return the types in which columns of a DataFrame's session cross to Python."""
    convert: Callable[..., pa.Schema] = to_arrow_schema
    if not _TAKES_ZONE:
        return convert(form)
    return convert(form, timezone=frame.sparkSession.conf.get("spark.sql.session.timeZone") or "UTC")


def arrow_function(function: Callable[..., pa.Array], kind: T.DataType | str) -> Callable[..., Column]:
    """Return a function of columns from one of Arrow arrays; its type hints say that it is one, as PySpark prefers."""
    make: Any = arrow_udf  # its stub demands the kind of function, about which PySpark then warns
    wrapped: Callable[..., Column] = make(function, kind)
    return wrapped


def partitions_of(frame: DataFrame) -> int:
    """Return how many partitions a shuffle of this session makes."""
    return int(frame.sparkSession.conf.get("spark.sql.shuffle.partitions") or 8)


def schema_of(frame: DataFrame) -> Schema:
    """Return the schema that the columns of a DataFrame suggest; fields of a struct are attributes such as ``a.b``.

    GEOMETRY columns are regions, arrays of strings are repeated attributes. Binary columns and other arrays could be
    anything: name them in a schema of your own (``Region()``, ``Vector(n)``, ``Many(Number())``).
    """
    fields = [*_leaves(frame.schema)]
    regions = {field.name: Region() for field in fields if _is_geometry(field.dataType)}
    plain = [field for field in fields if _is_plain(field.dataType)]
    schema = Schema.from_arrow(arrow_form(T.StructType(plain), frame))
    return Schema({**{name: schema[name] for name in schema}, **regions})


def has_path(form: T.StructType, path: str) -> bool:
    """Return whether events of a form may have a value at a path: at a column or field, or inside of a map or array.

    >>> inner = T.StructType().add("b", "string").add("c", T.MapType(T.StringType(), T.LongType()))
    >>> form = T.StructType().add("a", inner)
    >>> [has_path(form, path) for path in ("a", "a.b", "a.c.any", "a.d", "a.b.any")]
    [True, True, True, False, False]
    """
    # A struct that is a leaf lies too deep to be looked into.
    open_kinds = (T.ArrayType, T.MapType, T.VariantType, T.StructType)
    return any(
        field.name == path
        or field.name.startswith(f"{path}.")
        or (path.startswith(f"{field.name}.") and isinstance(field.dataType, open_kinds))
        for field in _leaves(form)
    )


def leaf_names(form: T.StructType) -> list[str]:
    """Return the names of the columns, with the fields inside of structs under their paths."""
    return [field.name for field in _leaves(form)]


def value_names(frame: DataFrame, schema: Schema) -> list[str]:
    """Return the columns of a DataFrame that the schema names, or into which one of its paths reaches.

    All strings belong to them where the schema asks for these (`ALL_STRINGS`).
    """
    joins = ALL_STRINGS in schema and ALL_STRINGS not in frame.columns
    texts = {field.name for field in frame.schema if joins and isinstance(field.dataType, T.StringType)}
    names = [name for name in frame.columns if name in schema or name in texts or _is_entered(frame, name, schema)]
    twice = repeated(names)
    if twice is not None:
        raise TableError(f"the table of events has two columns {twice!r}; drop or rename one of them")
    if not names:
        raise SchemaError("", f"no column of the events is in the schema (columns: {', '.join(frame.columns)})")
    return names


def _is_entered(frame: DataFrame, name: str, schema: Schema) -> bool:
    """Whether a path of the schema reaches into a column; `TableError` for a VARIANT, whose inside is not read."""
    kind = frame.schema[name].dataType
    if not isinstance(kind, T.StructType | T.ArrayType | T.MapType | T.VariantType):
        return False
    paths = [path for path in schema if path.startswith(f"{name}.") and is_path(path) and path not in frame.columns]
    if paths and isinstance(kind, T.VariantType):
        raise TableError(
            f"column {name!r} is a VARIANT, and the attribute {paths[0]!r} is inside it: give it a column of its own, "
            f"try_variant_get({name}, '$.{paths[0].removeprefix(name + '.')}', 'string') AS `{paths[0]}`"
        )
    return bool(paths)


def values_of(frame: DataFrame, schema: Schema, *, beside: Sequence[Column] = ()) -> DataFrame:
    """Return the columns of `value_names`, readable in Arrow, after the columns ``beside``.

    They are called by number, for Spark resolves a name with a dot in it only where it is quoted. `TableError` if a
    column has a type in which no value fits its attribute.
    """
    names = value_names(frame, schema)
    values = [_readable(frame, name, schema).alias(f"{VALUE}{i}") for i, name in enumerate(names)]
    readable = frame.select(*beside, *values)
    types = [field.dataType for field in readable.schema.fields[len(beside) :]]
    check_columns(arrow_form(T.StructType(list(map(T.StructField, names, types))), frame), schema)
    return readable


def _readable(frame: DataFrame, name: str, schema: Schema) -> Column:
    """Return a column in a type that crosses to Arrow as the schema needs it."""
    kind, column = frame.schema[name].dataType, F.col(quoted(name))
    if _is_geometry(kind):
        return F.call_function("ST_AsBinary", column)
    if isinstance(kind, T.VariantType):
        return column.cast("string")
    if name in schema and schema[name].form is Form.VECTOR and _is_of_numbers(kind):
        return column.cast("array<double>")
    return column


def _is_of_numbers(kind: T.DataType) -> bool:
    return isinstance(kind, T.ArrayType) and isinstance(kind.elementType, T.NumericType)


def _leaves(form: T.StructType, prefix: str = "", depth: int = 1) -> Iterator[T.StructField]:
    """Yield the columns, and the fields inside of structs under their paths."""
    for field in form:
        if isinstance(field.dataType, T.StructType) and depth < MAX_DEPTH:
            yield from _leaves(field.dataType, f"{prefix}{field.name}.", depth + 1)
        else:
            yield T.StructField(prefix + field.name, field.dataType)


def _is_geometry(kind: T.DataType) -> bool:
    return kind.typeName().lower().startswith(("geometry", "geography"))


def _is_plain(kind: T.DataType) -> bool:
    scalar = (T.NumericType, T.StringType, T.BooleanType, T.TimestampType, T.TimestampNTZType)
    is_texts = isinstance(kind, T.ArrayType) and isinstance(kind.elementType, T.StringType)
    return is_texts or isinstance(kind, scalar)


def quoted(name: str) -> str:
    """Return a column name as an expression that means it, whatever characters it has."""
    return "`" + name.replace("`", "``") + "`"
