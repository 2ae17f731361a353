"""Subscriptions that come as typed columns rather than as text: bounds and values by attribute."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tamis.errors import EventError, ModelError, SchemaError, TableError
from tamis.model.columns import Column, column_from
from tamis.model.language.arithmetic.writing import name_text
from tamis.model.language.format import format_node
from tamis.model.language.nodes import Compare, SpatialTest
from tamis.model.schema import Schema
from tamis.model.tables import range_problem
from tamis.model.types import AttributeType, Boolean, Form, Number, ScalarType

__all__ = ["TypedColumns", "TypedTexts", "box_problem", "boxes_of", "joined_conditions", "number_names", "texts_of"]

Bounds = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class TypedColumns:
    """Which columns say what about which attribute: (attribute, lower, upper, equal)."""

    bounds: tuple[tuple[str, str | None, str | None], ...]
    equal: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, columns: Mapping[str, str | tuple[str | None, str | None]], schema: Schema) -> TypedColumns:
        """Check what a user says of his columns."""
        bounds, equal = [], []
        for attribute, source in columns.items():
            if attribute not in schema:
                raise SchemaError(attribute, f"unknown; the schema has {', '.join(schema)}")
            kind = schema[attribute]
            if kind.form is Form.VECTOR:
                raise SchemaError(attribute, "a ball needs a centre and a radius: write it as text with V_WITHIN")
            if isinstance(source, str):
                equal.append((attribute, source))
            elif isinstance(kind, ScalarType) and not isinstance(kind, Boolean) and len(source) == 2:
                bounds.append((attribute, *source))
            else:
                raise SchemaError(attribute, "expected one column, or (lower, upper) for what has an order")
        if not bounds and not equal:
            raise TableError("columns names no attribute")
        return cls(tuple(bounds), tuple(equal))

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that are read, each once."""
        named = [name for _, *pair in self.bounds for name in pair if name is not None]
        return tuple(dict.fromkeys([*named, *(name for _, name in self.equal)]))

    def is_box(self, batch: pa.RecordBatch, schema: Schema) -> bool:
        """Whether only numbers are bounded, by columns that float64 holds exactly: then rows are boxes."""
        numbers = not self.equal and all(isinstance(schema[name], Number) for name, *_ in self.bounds)
        return numbers and all(_is_float(batch.schema.field(name).type) for name in self.names)


def number_names(schema: Schema) -> list[str]:
    """Return the attributes over which boxes are given, in the order of their sides."""
    return sorted(name for name, kind in schema.items() if isinstance(kind, Number))


def _is_float(kind: pa.DataType) -> bool:
    """Whether every value of an Arrow type is a float64; a larger integer is written as text, exactly."""
    return bool(pa.types.is_floating(kind) or (pa.types.is_integer(kind) and kind.bit_width <= 32))


def boxes_of(
    batch: pa.RecordBatch, typed: TypedColumns, schema: Schema
) -> tuple[Bounds, Bounds, npt.NDArray[np.bool_]]:
    """Return the lower and upper sides over the schema's numbers, and which rows are not boxes."""
    names = number_names(schema)
    lo = np.full((batch.num_rows, len(names)), -np.inf)
    hi = np.full((batch.num_rows, len(names)), np.inf)
    for attribute, lower, upper in typed.bounds:
        axis = names.index(attribute)
        if lower is not None:
            lo[:, axis] = _side(batch, lower, -np.inf)
        if upper is not None:
            hi[:, axis] = _side(batch, upper, np.inf)
    is_wrong: Mask = np.logical_not(_is_range(lo, hi).all(axis=1))
    return lo, hi, is_wrong


def box_problem(lo: Bounds, hi: Bounds, schema: Schema) -> ModelError | None:
    """Return what is wrong with the sides of one box, if anything."""
    axes = np.flatnonzero(~_is_range(lo, hi))
    if not len(axes):
        return None
    axis = int(axes[0])
    return TableError(range_problem(number_names(schema)[axis], lo[axis], hi[axis]))


def _is_range(lo: Bounds, hi: Bounds) -> Mask:
    is_range: Mask = (lo <= hi) & (lo < np.inf) & (hi > -np.inf)
    return is_range


def _side(batch: pa.RecordBatch, name: str, open_end: float) -> Bounds:
    column = batch.column(name).cast(pa.float64())
    return np.asarray(column.fill_null(open_end)) + 0.0


class TypedTexts(NamedTuple):
    """Rows of typed columns as CQL2 texts."""

    #: Null where a value does not fit.
    texts: pa.Array
    errors: dict[int, ModelError]
    #: The different conditions that are not about numbers: a text that is no longer than usual is good if they are.
    parts: set[str]


def texts_of(batch: pa.RecordBatch, typed: TypedColumns, schema: Schema) -> TypedTexts:
    """Write each row as CQL2 text; each different value of a column that is not float64 is written once."""
    bounds = [
        (attribute, name, op) for attribute, *pair in typed.bounds for name, op in zip(pair, (">=", "<="), strict=True)
    ]
    wanted = [*bounds, *((attribute, name, "=") for attribute, name in typed.equal)]
    columns = [_conditions(batch, name, attribute, op, schema) for attribute, name, op in wanted if name is not None]
    joined = joined_conditions([column.texts for column in columns])
    errors = {row: error for column in reversed(columns) for row, error in column.errors.items()}
    is_wrong = np.zeros(batch.num_rows, np.bool_)
    is_wrong[list(errors)] = True
    parts = {part for column in columns for part in column.parts}
    return TypedTexts(pc.if_else(pa.array(is_wrong), pa.scalar(None, pa.string()), joined), errors, parts)


def joined_conditions(conditions: list[pa.Array]) -> pa.Array:
    """Return the conjunction of the conditions that are not null in each row.

    >>> joined_conditions([pa.array(["a > 1", None, None]), pa.array(["b > 2", "b > 3", None])]).to_pylist()
    ['a > 1 AND b > 2', 'b > 3', 'TRUE']
    """
    asks = np.logical_or.reduce([np.asarray(condition.is_valid()) for condition in conditions])
    first = pc.if_else(pa.array(asks), conditions[0], "TRUE")  # Arrow drops a row in which all are null
    return pc.binary_join_element_wise(first, *conditions[1:], " AND ", null_handling="skip")


def _conditions(batch: pa.RecordBatch, name: str, attribute: str, op: Any, schema: Schema) -> TypedTexts:
    """Return what a column asks of its attribute in each row; null where it asks nothing."""
    kind, values = schema[attribute], batch.column(name)
    if isinstance(kind, Number) and pa.types.is_floating(values.type):
        column = column_from(name, kind, values)
        start = f"{name_text(attribute)} {op} "
        written = [start + repr(value) for value in column.values.tolist()]
        return TypedTexts(pa.array(written, pa.string(), mask=~column.present), _problems(name, column), set())
    if pa.types.is_nested(values.type):  # Arrow finds no equal values among lists: each row is one by itself
        rows = pa.array(range(len(values)), pa.int32())
        different = pa.DictionaryArray.from_arrays(pc.if_else(values.is_valid(), rows, None), values)
    else:
        different = pc.dictionary_encode(values)
    column = column_from(name, kind, different.dictionary)
    errors, texts = _problems(name, column), list[str | None]()
    for index in range(len(different.dictionary)):
        value = None if index in errors else column.value(index)
        written_value = None if value is None else _condition(name, attribute, op, kind, value)
        if isinstance(written_value, ModelError):
            errors[index], written_value = written_value, None
        texts.append(written_value)
    indices = different.indices.to_pylist() if errors else ()
    row_errors = {row: errors[index] for row, index in enumerate(indices) if index in errors}
    return TypedTexts(pa.array(texts, pa.string()).take(different.indices), row_errors, set(texts) - {None})  # type: ignore[arg-type]


def _problems(name: str, column: Column) -> dict[int, ModelError]:
    return {row: EventError(name, problem.value, problem.problem) for row, problem in column.bad.items()}


def _condition(name: str, attribute: str, op: Any, kind: AttributeType, value: Any) -> str | ModelError:
    """Write one condition."""
    if isinstance(value, Fraction):
        return EventError(name, value, "a decimal with more digits than a literal can have")
    if isinstance(kind, ScalarType):
        return format_node(Compare(attribute, op, kind.literal(value)))
    return format_node(SpatialTest("S_INTERSECTS", attribute, value))
