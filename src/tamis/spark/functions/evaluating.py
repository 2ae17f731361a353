"""Inside the workers: the functions of SQL on Arrow arrays. A null argument gives null; a bad one is an error."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from tamis.algebra.covers import covers
from tamis.algebra.evaluate import matches_subscription
from tamis.algebra.explain import explain
from tamis.algebra.sources import as_subscription
from tamis.curves.hilbert import HilbertCurve
from tamis.errors import TableError
from tamis.geometry.relations import relations
from tamis.model.schema import Schema
from tamis.model.subscription import Relation, Subscription

__all__ = [
    "covers_of",
    "explanation_of",
    "hilbert_keys_of",
    "matches_of",
    "ranges_of",
    "relation_of",
]

_NAMES = [relation.value for relation in Relation]


def matches_of(filters: pa.Array, events: pa.Array) -> pa.Array:
    """Return whether each event matches the filter beside it."""
    schema = _schema_of(events)

    def matches(text: str, row: dict[str, Any]) -> bool:
        return matches_subscription(schema.event(_values(row, schema)), _compiled(text, schema.to_json()))

    return _each(matches, pa.bool_(), filters, events)


def explanation_of(filters: pa.Array, events: pa.Array) -> pa.Array:
    """Return why each event matches the filter beside it or does not."""
    schema = _schema_of(events)

    def reason(text: str, row: dict[str, Any]) -> str:
        raw = _values(row, schema)
        return str(explain(schema.event(raw), raw, text, schema, 0))

    return _each(reason, pa.string(), filters, events)


def covers_of(first: pa.Array, second: pa.Array) -> pa.Array:
    """Return whether every event that matches the second filter matches the first; unknown counts as no."""
    return _each(_covers, pa.bool_(), first, second)


def relation_of(first: pa.Array, second: pa.Array) -> pa.Array:
    """Return the relation of each pair of regions, WKB or WKT: disjoint, meets, overlaps, equals, inside, ..."""
    pairs = list(zip(first.to_pylist(), second.to_pylist(), strict=True))
    complete = [row for row, pair in enumerate(pairs) if None not in pair]
    names: list[str | None] = [None] * len(pairs)
    if complete:
        codes = relations([pairs[row][0] for row in complete], [pairs[row][1] for row in complete])
        for row, code in zip(complete, codes, strict=True):
            names[row] = _NAMES[code]
    return pa.array(names, pa.string())


def hilbert_keys_of(cells: pa.Array, bits: pa.Array) -> pa.Array:
    """Return the key of each cell on the Hilbert curve with this many bits on a side."""

    def key(cell: list[int], n_bits: int) -> int:
        return int(_curve(len(cell), n_bits).keys([cell])[0])

    return _each(key, pa.int64(), cells, bits)


def ranges_of(low: pa.Array, high: pa.Array, bits: pa.Array) -> pa.Array:
    """Return the ranges of Hilbert keys, both ends included, of each box of cells from ``low`` to ``high``."""

    def ranges(low: list[int], high: list[int], n_bits: int) -> list[dict[str, int]]:
        if len(low) != len(high):
            raise TableError(f"tamis_ranges: corners of {len(low)} and {len(high)} dimensions")
        runs = _curve(len(low), n_bits).ranges(np.array(low, np.int64), np.array(high, np.int64))
        return [{"first": first, "last": last} for first, last in runs.tolist()]

    return _each(ranges, pa.list_(pa.struct([("first", pa.int64()), ("last", pa.int64())])), low, high, bits)


def _each(function: Callable[..., Any], kind: pa.DataType, *columns: pa.Array) -> pa.Array:
    """Apply a function to each row; a null argument gives null."""
    rows = zip(*(column.to_pylist() for column in columns), strict=True)
    return pa.array([None if _has_null(row) else function(*row) for row in rows], kind)


def _has_null(row: Sequence[Any]) -> bool:
    return any(value is None for value in row)


def _schema_of(events: pa.Array) -> Schema:
    return Schema.from_arrow(pa.schema(list(events.type)))


def _values(row: dict[str, Any], schema: Schema) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name in schema}


@lru_cache(maxsize=10_000)
def _compiled(text: str, schema: str) -> Subscription:
    return as_subscription(text, Schema.from_json(schema))


@lru_cache(maxsize=10_000)
def _covers(first: str, second: str) -> bool:
    return covers(first, second).yes


@lru_cache(maxsize=64)
def _curve(dimensions: int, bits: int) -> HilbertCurve:
    return HilbertCurve(dimensions, bits)
