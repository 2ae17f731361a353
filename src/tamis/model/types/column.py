"""Columns: many canonical values of one attribute, as one array and a mask of present values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pat
import shapely

from tamis.errors import EventError, LimitError
from tamis.model.shapes import are_compound, geometries_of
from tamis.model.values import UnfitError, Value, is_null

if TYPE_CHECKING:
    from tamis.kernels.polygons.flat_rings import Rings
    from tamis.model.types.base import AttributeType

__all__ = ["Column", "ManyColumn", "Mask", "PointColumn", "Unreadable", "column_of_each", "is_text", "python_values"]

Mask = npt.NDArray[np.bool_]


@dataclass(slots=True)
class Column:
    """The values of one attribute for every row of a table (see `tamis.model.columns`)."""

    kind: AttributeType
    values: Any
    present: Mask
    #: Rows whose value does not fit, with the reason.
    bad: dict[int, EventError] = field(default_factory=dict)
    #: The regions in flat arrays, if they were laid out on the way and all rows are there.
    rings: Rings | None = None

    @property
    def compound(self) -> Mask | None:
        """The rows with geometry other than points and simple polygons; None if there are none."""
        if self.rings is not None or self.values.dtype != object:
            return None
        compound = are_compound(geometries_of(self.values)) & self.present
        return compound if compound.any() else None

    def value(self, row: int) -> Value | None:
        """Return the canonical value of a row, None when it is missing or bad."""
        if not self.present[row]:
            return None
        value = self.values[row]
        if isinstance(value, pa.Scalar):
            value = value.as_py()
        return value.item() if isinstance(value, np.generic) else value

    def part(self, start: int, stop: int) -> Column:
        """Return the rows from ``start`` to before ``stop`` as a separate column."""
        bad = {row - start: error for row, error in self.bad.items() if start <= row < stop}
        return Column(self.kind, self.values[start:stop], self.present[start:stop], bad)

    def take(self, name: str, row: int, value: object) -> None:
        """Put one value into a row by `AttributeType.canonical`, or note why it does not fit."""
        try:
            self.values[row] = self.kind.canonical(value)
            self.present[row] = True
        except (UnfitError, LimitError) as error:
            self.bad[row] = EventError(name, value, str(error), row)

    def reject(self, name: str, wrong: Mask, values: Any, problem: str) -> None:
        """Mark the rows in ``wrong`` as bad, all with the same problem."""
        for row in np.flatnonzero(wrong):
            self.bad[int(row)] = EventError(name, values[row], problem, int(row))
        self.present = self.present & ~wrong


class PointColumn(Column):
    """A column of points in every row, held as coordinates; the geometries are created on access."""

    __slots__ = ("_made", "xy")
    _made: Any

    def __init__(self, kind: AttributeType, xy: npt.NDArray[np.float64]) -> None:
        #: x and y of every row.
        self.xy = xy
        super().__init__(kind, None, np.ones(len(xy), np.bool_))

    @property
    def values(self) -> Any:
        """The points as shapely geometry."""
        if self._made is None:
            self._made = shapely.points(self.xy)
        return self._made

    @values.setter
    def values(self, made: Any) -> None:
        self._made = made

    @property
    def compound(self) -> Mask | None:
        """None: all are points."""
        return None

    def value(self, row: int) -> Value | None:
        """Return the point of a row."""
        return shapely.Point(self.xy[row])

    def part(self, start: int, stop: int) -> Column:
        """Return the rows from ``start`` to before ``stop`` as a separate column."""
        return PointColumn(self.kind, self.xy[start:stop])


class ManyColumn(Column):
    """A column of repeated values, held as all elements in a row; tuples are created on access.

    The elements of row i are those from ``starts[i]`` to before ``starts[i + 1]``, all present; they may repeat.
    """

    __slots__ = ("_made", "elements", "starts")
    _made: Any

    def __init__(self, kind: AttributeType, present: Mask, starts: npt.NDArray[np.int64], elements: Column) -> None:
        self.starts = starts
        self.elements = elements
        super().__init__(kind, None, present)

    @property
    def values(self) -> Any:
        """The different elements of each row as a tuple, None where there is no value."""
        if self._made is None:
            made = np.empty(len(self.present), dtype=object)
            made[:] = [self.value(row) for row in range(len(made))]
            self._made = made
        return self._made

    @values.setter
    def values(self, made: Any) -> None:
        self._made = made

    @property
    def compound(self) -> Mask | None:
        """None: no element is a region."""
        return None

    def value(self, row: int) -> Value | None:
        """Return the different elements of a row as a tuple, None when it is missing."""
        if not self.present[row]:
            return None
        own = range(self.starts[row], self.starts[row + 1])
        return tuple(dict.fromkeys(self.elements.value(position) for position in own))

    def part(self, start: int, stop: int) -> Column:
        """Return the rows from ``start`` to before ``stop`` as a separate column."""
        return ManyColumn(self.kind, self.present[start:stop], self.starts[start : stop + 1], self.elements)


@dataclass(frozen=True)
class Unreadable:
    """A value that an Arrow array holds and Python cannot: a time of the year 20000, bytes that are not text."""

    value: object
    problem: str

    def __repr__(self) -> str:
        return repr(self.value)


def column_of_each(name: str, kind: AttributeType, data: Sequence[Any]) -> Column:
    """Return a column that is read value by value."""
    n = len(data)
    column = Column(kind, np.empty(n, dtype=object), np.zeros(n, dtype=bool))
    for row, value in enumerate(data):
        if isinstance(value, Unreadable):
            column.bad[row] = EventError(name, value.value, value.problem, row)
        elif not is_null(value):
            column.take(name, row, value)
    column.values = kind.pack(column.values)
    return column


def is_text(kind: pa.DataType) -> bool:
    """Whether values of an Arrow type are strings, in any layout."""
    return bool(pat.is_string(kind) or pat.is_large_string(kind) or pat.is_string_view(kind))


def python_values(array: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Return the values of an Arrow array, an `Unreadable` in place of what Python cannot hold."""
    try:
        return list(array.to_pylist())
    except (ValueError, OverflowError):  # of UnicodeDecodeError, ArrowInvalid and OverflowError
        return [_python_value(scalar) for scalar in array]


def _python_value(scalar: pa.Scalar) -> Any:
    try:
        return scalar.as_py()
    except UnicodeDecodeError:
        shown = scalar.as_buffer().to_pybytes() if is_text(scalar.type) else str(scalar.type)
        return Unreadable(shown, "not text: the bytes are not UTF-8")
    except (ValueError, OverflowError) as error:
        return Unreadable(str(scalar.type), f"a value out of range: {error}")
