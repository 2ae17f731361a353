"""Paths: a name such as ``detail.state`` reaches into nested objects.

A key of the event that has the whole name wins; otherwise the name is cut at its dots, from the left, and each part is
looked up one level deeper, where again a key may hold dots of its own. A list on the way is all of its elements:
``items.sku`` is the set of the ``sku`` of all items. What all paths look up in one event is bounded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from tamis.errors import LimitError

__all__ = [
    "MAX_DEPTH",
    "MAX_LOOKUPS",
    "Lookups",
    "column_at",
    "is_path",
    "leaves_of",
    "nested",
    "value_at",
    "with_roots",
]

#: Levels of an event, itself included (promise S14).
MAX_DEPTH = 32

#: Keys that are looked up for all paths in one event: about 30 ms.
MAX_LOOKUPS = 200_000


class Lookups:
    """Counts the keys that are looked up in one event; `LimitError` beyond `MAX_LOOKUPS`."""

    def __init__(self) -> None:
        self.count = 0

    def spend(self, n: int) -> None:
        """Count ``n`` more."""
        self.count += n
        if self.count > MAX_LOOKUPS:
            raise LimitError("keys that are looked up for the paths in one event", self.count, MAX_LOOKUPS)


def is_path(name: str) -> bool:
    """Whether a name may reach into nested objects: one with more parts than an event has levels is a key only.

    >>> is_path("detail.state"), is_path("price"), is_path(".".join("a" * 33))
    (True, False, False)
    """
    return 0 < name.count(".") < MAX_DEPTH


def with_roots(names: Iterable[str]) -> set[str]:
    """Return names and the keys through which those that are paths may reach.

    >>> sorted(with_roots(["price", "a.b.c"]))
    ['a', 'a.b', 'a.b.c', 'price']
    """
    roots: set[str] = set()
    for name in names:
        roots.add(name)
        if is_path(name):
            parts = name.split(".")
            roots.update(".".join(parts[:n]) for n in range(1, len(parts)))
    return roots


def value_at(event: Mapping[str, Any], name: str, lookups: Lookups | None = None) -> Any:
    """Return the value at a path, a list where a list of objects lies on the way; None when nothing is there.

    >>> value_at({"detail": {"state": "running"}}, "detail.state")
    'running'
    >>> value_at({"items": [{"sku": "a"}, {"sku": "b"}]}, "items.sku")
    ['a', 'b']
    """
    if name in event:
        return event[name]
    return _value_below(event, name, lookups or Lookups()) if is_path(name) else None


def _value_below(event: Mapping[str, Any], name: str, lookups: Lookups) -> Any:
    dot = name.find(".")
    while dot > 0:
        lookups.spend(1)
        inner, rest = event.get(name[:dot]), name[dot + 1 :]
        if isinstance(inner, Mapping):
            value = inner[rest] if rest in inner else _value_below(inner, rest, lookups)
        else:
            value = _among(inner, rest, lookups) if isinstance(inner, list | tuple) else None
        if value is not None:
            return value
        dot = name.find(".", dot + 1)
    return None


def _among(elements: list[Any] | tuple[Any, ...], name: str, lookups: Lookups) -> list[Any] | None:
    lookups.spend(len(elements))
    values: list[Any] = []
    for element in elements:
        if not isinstance(element, Mapping):
            continue
        value = element[name] if name in element else _value_below(element, name, lookups)
        if value is not None:
            values.extend(value if isinstance(value, list | tuple) else (value,))
    return values or None


def nested(values: Mapping[str, Any], flat: Mapping[str, Any]) -> dict[str, Any]:
    """Return values with those that are not a key of ``flat`` put back under their paths.

    >>> nested({"a": 1, "detail.state": "running"}, {"a": 1, "detail": {}})
    {'a': 1, 'detail': {'state': 'running'}}
    """
    result: dict[str, Any] = {name: value for name, value in values.items() if name in flat or "." not in name}
    for name, value in values.items():
        if name in result:
            continue
        *path, last = name.split(".")
        inner = result
        for part in path:
            child = inner.setdefault(part, {})
            if not isinstance(child, dict):  # the presence of an object: it has room for its values
                child = inner[part] = {}
            inner = child
        inner[last] = value
    return result


def leaves_of(event: Mapping[str, Any], prefix: str = "", depth: int = 1) -> Iterator[tuple[str, Any]]:
    """Yield the paths and values inside nested objects, not deeper than `MAX_DEPTH`."""
    for name, value in event.items():
        if not isinstance(name, str) or not name:
            continue
        if isinstance(value, Mapping) and "coordinates" not in value and depth < MAX_DEPTH:
            yield from leaves_of(value, f"{prefix}{name}.", depth + 1)
        elif prefix:
            yield prefix + name, value


def column_at(columns: Mapping[str, Any], name: str) -> Any:
    """Return the column at a path through struct columns or columns of objects; None if there is none."""
    dot = name.find(".")
    while dot > 0:
        column = columns.get(name[:dot])
        if column is not None:
            inner = _inside(column, name[dot + 1 :])
            if inner is not None:
                return inner
        dot = name.find(".", dot + 1)
    return None


def _inside(column: Any, name: str) -> Any:
    if isinstance(column, pa.ChunkedArray | pa.Array) and pat.is_struct(column.type):
        fields = {field.name for field in column.type}
        if name in fields:
            return pc.struct_field(column, [name])
        inside = {field: pc.struct_field(column, [field]) for field in fields if name.startswith(f"{field}.")}
        return column_at(inside, name)
    if isinstance(column, pa.ChunkedArray | pa.Array) and not pat.is_nested(column.type):
        return None
    rows = column.to_pylist() if isinstance(column, pa.ChunkedArray | pa.Array) else list(column)
    values = [_row_value(row, name) for row in rows]
    return values if any(value is not None for value in values) else None


def _row_value(row: Any, name: str) -> Any:
    if isinstance(row, Mapping):
        return value_at(row, name)
    return _among(row, name, Lookups()) if isinstance(row, list | tuple) else None
