"""Which attribute type an Arrow column suggests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.types as pat

from tamis.errors import LimitError, SchemaError
from tamis.model.geometry_text import read_wkb
from tamis.model.types import MAX_COORDINATES, AttributeType, Boolean, Number, Region, String, Timestamp, Vector
from tamis.model.values import UnfitError

__all__ = ["is_text", "plain_type", "repeated", "schema_from_arrow"]


def schema_from_arrow(source: Any) -> dict[str, AttributeType]:
    """Return the attributes of an Arrow table, record batch or schema; columns of other types are left out.

    A list column of a table is a vector as long as its first value. A binary column is a region when its
    metadata says so (GeoArrow) or its first value is WKB.
    """
    schema = source if isinstance(source, pa.Schema) else getattr(source, "schema", None)
    if not isinstance(schema, pa.Schema):
        raise SchemaError("", f"expected an Arrow table or schema, not {type(source).__name__}")
    found: dict[str, AttributeType] = {}
    twice = repeated(schema.names)
    if twice is not None:
        raise SchemaError(twice, "two columns have this name")
    for field in schema:
        kind = _suggested(field, None if source is schema else source.column(field.name))
        if kind is not None:
            found[field.name] = kind
    return found


def repeated(names: Iterable[str]) -> str | None:
    """Return the first name that occurs a second time, None when all differ.

    >>> repeated(["a", "b", "a"]), repeated(["a", "b"])
    ('a', None)
    """
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of the values: a dictionary's value type, any other type itself."""
    return kind.value_type if pat.is_dictionary(kind) else kind


def is_text(kind: pa.DataType) -> bool:
    """Whether values of an Arrow type are strings, in whatever layout."""
    return bool(pat.is_string(kind) or pat.is_large_string(kind) or pat.is_string_view(kind))


def _suggested(field: pa.Field, column: Any) -> AttributeType | None:
    kind = plain_type(field.type)
    if pat.is_integer(kind) or pat.is_floating(kind) or pat.is_decimal(kind):
        return Number()
    if is_text(kind):
        return String()
    if pat.is_boolean(kind):
        return Boolean()
    if pat.is_timestamp(kind):
        return Timestamp()
    if b"geoarrow" in (field.metadata or {}).get(b"ARROW:extension:name", b""):
        return Region()
    if column is not None and (pat.is_binary(kind) or pat.is_large_binary(kind)):
        return Region() if _is_wkb(_first(column)) else None
    return _suggested_vector(kind, column)


def _suggested_vector(kind: pa.DataType, column: Any) -> AttributeType | None:
    if pat.is_fixed_size_list(kind) and pat.is_floating(kind.value_type):
        return Vector(kind.list_size) if 1 <= kind.list_size <= MAX_COORDINATES else None
    if column is None or not (pat.is_list(kind) or pat.is_large_list(kind)) or not pat.is_floating(kind.value_type):
        return None
    first = _first(column)
    return None if first is None or len(first) > MAX_COORDINATES else Vector(len(first))


def _first(column: Any) -> Any:
    """Return the first value of a column that is neither null nor empty, looked for in its first thousand."""
    return next((value for value in column.slice(0, 1000).to_pylist() if value), None)


def _is_wkb(value: bytes | None) -> bool:
    try:
        return value is not None and read_wkb(value) is not None
    except (UnfitError, LimitError):
        return False
