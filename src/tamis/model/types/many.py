"""Repeated attributes: a set of values of one scalar type."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from tamis.errors import LimitError, SchemaError
from tamis.model.types.base import AttributeType, Form, ScalarType
from tamis.model.types.boolean import Boolean
from tamis.model.types.column import Column, ManyColumn, Mask
from tamis.model.types.number import Number
from tamis.model.types.small.mixed import Mixed
from tamis.model.types.string import String
from tamis.model.types.timestamp import Timestamp
from tamis.model.value_set import ValueSet
from tamis.model.values import Value, is_null

__all__ = ["MAX_ELEMENTS", "Many"]

#: Different values of one repeated attribute in one event.
MAX_ELEMENTS = 1_000


#: The types of elements that values show.
_KINDS: tuple[type[ScalarType], ...] = (Boolean, Number, String, Timestamp)


@dataclass(frozen=True)
class Many(AttributeType):
    """Several values of one scalar type: ``Many(String())``. Order and repetition do not count."""

    of: AttributeType
    name: ClassVar[str] = "many"
    form: ClassVar[Form] = Form.MANY

    def __post_init__(self) -> None:
        if not isinstance(self.of, ScalarType):
            raise SchemaError("", f"Many holds values that have an order, such as Many(String()), not {self.of!r}")

    @property
    def arrow_type(self) -> pa.DataType:
        """A list of what its elements are."""
        return pa.list_(self.of.arrow_type)

    @property
    def words(self) -> str:
        """The type in a sentence, with the type of its elements."""
        return f"many of {self.of.words}"

    @property
    def element(self) -> AttributeType:
        """The type of its elements."""
        return self.of

    def agrees_with(self, other: AttributeType) -> bool:
        """Whether both hold many values of one type."""
        return isinstance(other, Many) and self.of.agrees_with(other.of)

    def canonical(self, value: object) -> Value:
        """Return the different elements as a tuple, without nulls; a single value is one element."""
        return self._read(value, self.of.canonical)

    def _read(self, value: object, read: Any) -> Value:
        if isinstance(value, np.ndarray):
            value = value.tolist()
        if not isinstance(value, list | tuple | set | frozenset):
            value = (value,)
        if len(value) > MAX_ELEMENTS:
            raise LimitError("values of one repeated attribute", len(value), MAX_ELEMENTS)
        return tuple(dict.fromkeys(read(element) for element in value if not is_null(element)))

    @classmethod
    def of_value(cls, value: object) -> Self | None:
        """Return the type for a list of strings, booleans, moments or a mixture; a list of numbers is a vector."""
        if not isinstance(value, list | tuple | set | frozenset):
            return None
        elements = itertools.islice(
            value, MAX_ELEMENTS + 1
        )  # a longer list is refused, whatever its other elements are
        kinds = {kind for element in elements if not is_null(element) for kind in _KINDS if kind.of_value(element)}
        if len(kinds) > 1:
            return cls(Mixed())
        kind = kinds.pop() if kinds else Number
        return None if kind is Number else cls(kind())

    @classmethod
    def of_arrow(cls, field: pa.Field, kind: pa.DataType, column: Any) -> Self | None:
        """Return the type for lists of anything but floats, which are vectors."""
        if not (pat.is_list(kind) or pat.is_large_list(kind) or pat.is_fixed_size_list(kind)):
            return None
        for candidate in (Number, String, Boolean, Timestamp):
            guess = candidate.of_arrow(field, kind.value_type, None)
            if guess is not None and not pat.is_floating(kind.value_type):
                return cls(guess)
        return None

    def from_arrow(self, name: str, array: pa.Array, present: Mask) -> Column | None:
        """Return the elements of all lists as one column; None, value by value, when some do not fit."""
        if not (pat.is_list(array.type) or pat.is_large_list(array.type) or pat.is_fixed_size_list(array.type)):
            return None
        lengths = np.asarray(pc.list_value_length(array).fill_null(0)).astype(np.int64)
        if lengths.max(initial=0) > MAX_ELEMENTS:
            return None
        flat = array.flatten()  # without the elements of lists that are null
        is_valid = np.asarray(flat.is_valid())
        ends = np.concatenate(([0], np.cumsum(is_valid)))
        starts = ends[np.concatenate(([0], np.cumsum(lengths)))]
        flat = flat if is_valid.all() else flat.filter(pa.array(is_valid))
        elements = self.of.from_arrow(name, flat, np.ones(len(flat), dtype=bool))
        if elements is None or not elements.present.all():
            return None
        return ManyColumn(self, present, starts, elements)

    def to_json(self, value: Any) -> Any:
        """Return a list."""
        return [self.of.to_json(element) for element in value]

    def to_wire(self, value: Any) -> Any:
        """Return a list."""
        return [self.of.to_wire(element) for element in value]

    def from_wire(self, value: Any) -> Value:
        """Return the different elements as a tuple."""
        return self._read(value, self.of.from_wire)

    def from_cell(self, text: str) -> object:
        """Return the values of a cell, which are separated by semicolons."""
        return [self.of.from_cell(part.strip()) for part in text.split(";")] if text.strip() else None

    def from_cells(self, texts: pa.Array) -> list[object]:
        """Return the values of all cells."""
        return [None if text is None else self.from_cell(text) for text in texts.to_pylist()]

    def samples(self, allowed: ValueSet) -> Iterator[tuple[Any, ...]]:
        """Yield a set of one element."""
        yield from ((element,) for element in self.of.samples(allowed))
