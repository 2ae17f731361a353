"""Vectors: points in n-dimensional space."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pat

from tamis.errors import SchemaError
from tamis.model import values
from tamis.model.types.base import AttributeType, Form
from tamis.model.types.column import Column, Mask, column_of_each, python_values
from tamis.model.value_set import ValueSet
from tamis.model.values import UnfitError, Value

__all__ = ["MAX_COORDINATES", "Vector"]

#: Coordinates of one vector.
MAX_COORDINATES = 65_536


@dataclass(frozen=True)
class Vector(AttributeType):
    """A point in n-dimensional space."""

    n: int
    name: ClassVar[str] = "vector"
    form: ClassVar[Form] = Form.VECTOR
    arrow_type: ClassVar[pa.DataType] = pa.list_(pa.float64())
    arrow_kinds: ClassVar[frozenset[str] | None] = frozenset({"list of numbers"})
    python_types: ClassVar[tuple[type, ...]] = (np.ndarray,)

    def __post_init__(self) -> None:
        if isinstance(self.n, bool) or not isinstance(self.n, int) or not 1 <= self.n <= MAX_COORDINATES:
            raise SchemaError("", f"a vector has 1 to {MAX_COORDINATES:,} coordinates, not {self.n!r}")

    @property
    def words(self) -> str:
        """The type in a sentence, with its length."""
        return f"a vector of {self.n}"

    def canonical(self, value: object) -> Value:
        """Return a read-only float64 array."""
        return values.vector(value, self.n)

    def agrees_with(self, other: AttributeType) -> bool:
        """Whether both are vectors of one length."""
        return self == other

    @classmethod
    def of_value(cls, value: object) -> Self | None:
        """Return the type for a list or an array that begins with a number."""
        if not isinstance(value, list | tuple | np.ndarray) or not 1 <= len(value) <= MAX_COORDINATES:
            return None
        first = value[0]
        if isinstance(first, np.ndarray) and not first.ndim:
            try:
                first = values.single(first)
            except UnfitError:
                return None
        is_number = isinstance(first, int | float | Decimal | np.number) and not isinstance(first, bool)
        return cls(len(value)) if is_number else None

    @classmethod
    def of_arrow(cls, field: pa.Field, kind: pa.DataType, column: Any) -> Self | None:
        """Return the type for lists of floats that are of one length, or as long as the first that is there."""
        if pat.is_fixed_size_list(kind) and pat.is_floating(kind.value_type):
            return cls(kind.list_size) if 1 <= kind.list_size <= MAX_COORDINATES else None
        is_list = pat.is_list(kind) or pat.is_large_list(kind)
        if column is None or not is_list or not pat.is_floating(kind.value_type):
            return None
        first = next((value for value in column.slice(0, 1000).to_pylist() if value), None)
        return None if first is None or len(first) > MAX_COORDINATES else cls(len(first))

    def from_arrow(self, name: str, array: pa.Array, present: Mask) -> Column | None:
        """Return float64[n, d] from lists of one length."""
        if not (pat.is_fixed_size_list(array.type) and array.type.list_size == self.n):
            return None
        flat = array.values.slice(array.offset * self.n, len(array) * self.n)
        if not (pat.is_floating(flat.type) or pat.is_integer(flat.type)):
            return column_of_each(name, self, python_values(array))
        numbers = np.asarray(flat.cast(pa.float64(), safe=False).fill_null(np.nan)).reshape(len(array), self.n)
        return self._vectors(name, numbers, present)

    def from_numpy(self, name: str, data: npt.NDArray[Any]) -> Column | None:
        """Return float64[n, d] from an array of two dimensions."""
        if data.ndim != 2 or data.dtype.kind not in "fiu" or isinstance(data, np.ma.MaskedArray):
            return None
        return self._vectors(name, data.astype(np.float64), np.ones(len(data), dtype=bool))

    def _vectors(self, name: str, numbers: npt.NDArray[np.float64], present: Mask) -> Column:
        if numbers.shape[1] != self.n:
            return column_of_each(name, self, list(numbers))
        column = Column(self, np.ascontiguousarray(numbers), present)
        wrong = present & ~np.isfinite(numbers).all(axis=1)
        column.reject(name, wrong, numbers, "NaN and infinity are not coordinates")
        return column

    def pack(self, values: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """Return float64[n, d]."""
        rows = [np.zeros(self.n) if value is None else value for value in values]
        return np.array(rows, np.float64).reshape(len(values), self.n)

    def to_json(self, value: Any) -> Any:
        """Return a list of numbers."""
        return value.tolist() if isinstance(value, np.ndarray) else value

    def to_wire(self, value: Any) -> Any:
        """Return a list of numbers."""
        return value.tolist()

    def wire_to_json(self, value: Any) -> Any:
        """Return the list as it is."""
        return value

    @classmethod
    def plain(cls, value: Any) -> Any:
        """Return a list of numbers."""
        return value.tolist()

    def samples(self, allowed: ValueSet) -> Iterator[npt.NDArray[np.float64]]:
        """Yield the origin."""
        yield np.zeros(self.n)
