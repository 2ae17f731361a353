"""Derives attribute types from Arrow columns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.types as pat

from tamis.errors import SchemaError
from tamis.model.types import AttributeType
from tamis.model.types.registry import type_of_arrow

__all__ = ["plain_type", "repeated", "schema_from_arrow"]


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
