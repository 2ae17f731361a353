"""What the types of Arrow columns say: which attributes they suggest, and which attributes they cannot hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.types as pat

from tamis.errors import SchemaError, TableError, shorten
from tamis.model.schema import Schema
from tamis.model.types import AttributeType
from tamis.model.types.registry import type_of_arrow

__all__ = ["check_columns", "column_kind", "fits_column", "plain_type", "repeated", "schema_from_arrow"]

#: The kinds of columns, and how each is recognised.
_KINDS: tuple[tuple[str, tuple[Callable[[pa.DataType], bool], ...]], ...] = (
    ("whole number", (pat.is_integer,)),
    ("number", (pat.is_floating, pat.is_decimal)),
    ("text", (pat.is_string, pat.is_large_string, pat.is_string_view)),
    ("boolean", (pat.is_boolean,)),
    ("binary", (pat.is_binary, pat.is_large_binary, pat.is_fixed_size_binary, pat.is_binary_view)),
    ("date", (pat.is_date,)),
    ("object", (pat.is_struct, pat.is_map)),
    ("nothing", (pat.is_null,)),
)


def schema_from_arrow(source: Any) -> dict[str, AttributeType]:
    """Return the attributes of an Arrow table, record batch or schema; columns of other types are left out.

    A list column of a table is a vector as long as its first value. A binary column is a region when its
    metadata says so (GeoArrow) or its first value is WKB.
    """
    schema = source if isinstance(source, pa.Schema) else getattr(source, "schema", None)
    if not isinstance(schema, pa.Schema):
        raise SchemaError("", f"expected an Arrow table or schema, not {type(source).__name__}")
    types: dict[str, AttributeType] = {}
    twice = repeated(schema.names)
    if twice is not None:
        raise SchemaError(twice, "duplicate column")
    for field in schema:
        column = None if source is schema else source.column(field.name)
        kind = type_of_arrow(field, plain_type(field.type), column)
        if kind is not None:
            types[field.name] = kind
    return types


def repeated(names: Iterable[str]) -> str | None:
    """Return the first name that occurs a second time, None when all differ.

    >>> repeated(["a", "b", "a"]), repeated(["a", "b"])
    ('a', None)
    """
    earlier: set[str] = set()
    for name in names:
        if name in earlier:
            return name
        earlier.add(name)
    return None


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of the values: a dictionary's value type, any other type itself."""
    return kind.value_type if pat.is_dictionary(kind) else kind


def column_kind(kind: pa.DataType) -> str:
    """Return the kind of an Arrow type, of which there are few: "whole number" for integers of any size.

    >>> column_kind(pa.int8()), column_kind(pa.timestamp("us")), column_kind(pa.list_(pa.float32()))
    ('whole number', 'timestamp without a zone', 'list of numbers')
    """
    if _is_list(kind):
        return "list of numbers" if column_kind(kind.value_type) in ("whole number", "number") else "list"
    if pat.is_timestamp(kind):
        return "timestamp" if kind.tz is not None else "timestamp without a zone"
    return next((name for name, tests in _KINDS if any(is_it(kind) for is_it in tests)), str(kind))


def fits_column(attribute: AttributeType, kind: pa.DataType) -> bool:
    """Whether values of an attribute can be in an Arrow column of a type; False only if no value fits."""
    kind = plain_type(kind)
    if attribute.element is not attribute:
        kind = kind.value_type if _is_list(kind) else kind
        attribute = attribute.element
    name, kinds = column_kind(kind), attribute.arrow_kinds if "arrow_kinds" in vars(type(attribute)) else None
    return kinds is None or name == "nothing" or name in kinds


def check_columns(columns: pa.Schema, schema: Schema) -> None:
    """Raise `TableError` if a column is of a type in which no value fits the attribute that is read from it."""
    types = dict(zip(columns.names, columns.types, strict=True))
    for name, attribute in schema.items():
        kind = None if name in schema.unasked else _type_at(types, name)
        if kind is None or fits_column(attribute, kind):
            continue
        shown = type_of_arrow(pa.field(name, kind), plain_type(kind), None)
        other = "" if shown is None or shown == attribute else f", or declare the attribute as {shown.words}"
        if column_kind(kind) == "timestamp without a zone":
            other = ", or declare the zone: Timestamp(zone='Europe/Berlin')"
        raise TableError(
            f"attribute {name!r} is {attribute.words}, but its column has the type {shorten(str(kind))}, "
            f"so every value would be refused; cast the column{other}"
        )


def _type_at(types: Mapping[str, pa.DataType], path: str) -> pa.DataType | None:
    """Return the type of a column, or of what is at a path through structs, lists of structs and maps."""
    if path in types:
        return types[path]
    for name, kind in types.items():
        inner = _type_inside(kind, path[len(name) + 1 :]) if path.startswith(f"{name}.") else None
        if inner is not None:
            return inner
    return None


def _type_inside(kind: pa.DataType, path: str) -> pa.DataType | None:
    if pat.is_struct(kind):
        return _type_at({field.name: field.type for field in kind}, path)
    if pat.is_map(kind):  # the rest of the path may be one key
        return None if pat.is_nested(kind.item_type) else kind.item_type
    inner = _type_inside(kind.value_type, path) if _is_list(kind) else None
    return inner if inner is None or _is_list(inner) else pa.list_(inner)


def _is_list(kind: pa.DataType) -> bool:
    return bool(pat.is_list(kind) or pat.is_large_list(kind) or pat.is_fixed_size_list(kind))
