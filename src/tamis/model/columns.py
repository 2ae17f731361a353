"""Columns: many values of one attribute, validated and canonical, as arrays.

A column comes as Arrow (chunked, sliced, dictionary, large or view), NumPy, pandas or a list. It becomes
one array of a fixed form per type and a mask of what is present:

========= ============================================================================
number    int64, uint64 or float64; an object array of int, float and Fraction otherwise
string    Arrow large_string
boolean   bool
timestamp int64 microseconds UTC
region    object array of shapely geometry
vector    float64[n, d]
========= ============================================================================

A value that does not fit is noted with its row, and is absent from the mask. What has a fast path goes
through it; whatever has none is taken value by value through `AttributeType.canonical`, so both agree.
Coordinates of a vector are float64: an integer beyond 2**53 is rounded to the nearest, as in a single event.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat
import shapely

from tamis.errors import EventError, LimitError, TableError
from tamis.model.arrow_types import is_text
from tamis.model.geometry_text import read_wkb_column
from tamis.model.shapes import geometries_of, plain_rings
from tamis.model.types import AttributeType, Boolean, Number, Region, String, Timestamp, Vector
from tamis.model.values import INT64_MAX, UnfitError, Value, is_null

if TYPE_CHECKING:
    from tamis.kernels.polygons.flat_rings import Rings

__all__ = ["Column", "Unreadable", "column_from", "presence_column", "python_values"]

Mask = npt.NDArray[np.bool_]

_NOT_FINITE = "NaN and infinity are not numbers; leave a missing value out"
#: Polygons of a column from which on they are judged all at once.
_WORTH_A_KERNEL = 64
_MICROSECONDS = {"s": 1_000_000, "ms": 1_000, "us": 1}
#: Where the years of datetime begin and end, and from where on Arrow has no summer times any more (zoneinfo has).
_FIRST_YEAR, _AFTER_LAST_YEAR, _ARROW_KNOWS_ZONES_TO = (
    int(np.datetime64(year, "us").astype(np.int64)) for year in ("0001", "10000", "2037")
)


@dataclass(slots=True)
class Column:
    """The values of one attribute for every row of a table (see the module's text)."""

    kind: AttributeType
    values: Any
    present: Mask
    #: Rows whose value does not fit, with the reason.
    bad: dict[int, EventError] = field(default_factory=dict)
    #: The regions in flat arrays, if they were laid out on the way and all rows are there.
    rings: Rings | None = None

    def value(self, row: int) -> Value | None:
        """Return the canonical value of a row, None when it is missing or bad."""
        if not self.present[row]:
            return None
        found = self.values[row]
        if isinstance(found, pa.Scalar):
            found = found.as_py()
        return found.item() if isinstance(found, np.generic) else found

    def part(self, start: int, stop: int) -> Column:
        """Return the rows from ``start`` to before ``stop`` as a column of their own."""
        bad = {row - start: error for row, error in self.bad.items() if start <= row < stop}
        return Column(self.kind, self.values[start:stop], self.present[start:stop], bad)


@dataclass(frozen=True)
class Unreadable:
    """A value that an Arrow array holds and Python cannot: a time of the year 20000, bytes that are no text."""

    value: object
    problem: str

    def __repr__(self) -> str:
        return repr(self.value)


def column_from(name: str, kind: AttributeType, data: Any) -> Column:
    """Return the column of canonical values; what does not fit is in its ``bad`` rows.

    Raises `TableError` when an array has not the dimensions of such a column.
    """
    if isinstance(data, pa.ChunkedArray | pa.Array):
        return _from_arrow(name, kind, data)
    if hasattr(data, "iloc"):
        return _from_pandas(name, kind, data)
    if isinstance(data, np.ndarray):
        return _from_numpy(name, kind, data)
    return _one_by_one(name, kind, list(data))


def presence_column(data: Any) -> Column:
    """Return a column that is true wherever there is a value, whatever its type."""
    present = _presence(data)
    return Column(Boolean(), np.ones(len(present), dtype=bool), present)


def _presence(data: Any) -> Mask:
    if isinstance(data, pa.ChunkedArray | pa.Array):
        return np.asarray(_plain_array(data).is_valid())
    if hasattr(data, "iloc"):
        return ~np.asarray(data.isna(), dtype=bool)
    if isinstance(data, np.ndarray) and data.dtype.kind == "f" and data.ndim == 1:
        missing: Mask = np.isnan(np.ma.getdata(data)) | np.ma.getmaskarray(data)
        return ~missing
    return np.array([not (is_null(value) or _is_all_masked(value)) for value in data], dtype=bool)


def _plain_array(data: pa.ChunkedArray | pa.Array) -> pa.Array:
    """Return one array of the values themselves: no chunks, no extension, no dictionary."""
    array = data.combine_chunks() if isinstance(data, pa.ChunkedArray) else data
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    return array.dictionary_decode() if pat.is_dictionary(array.type) else array


def _from_numpy(name: str, kind: AttributeType, data: npt.NDArray[Any]) -> Column:
    """Read an array; one of two dimensions holds vectors, or points of a region as x, y."""
    pairs = isinstance(kind, Region) and data.shape[1:] == (2,)
    if data.ndim != 1 and not (data.ndim == 2 and (pairs or isinstance(kind, Vector))):
        raise TableError(f"column {name!r}: an array of {data.ndim} dimensions cannot hold a {kind.name} a row")
    if isinstance(data, np.ma.MaskedArray):
        return _from_masked(name, kind, data)
    if data.dtype.kind == "f" and isinstance(kind, Number):
        wide = data.astype(np.float64)
        return _floats(name, kind, wide, ~np.isnan(wide))
    if data.dtype.kind in "iu" and isinstance(kind, Number):
        wider = np.uint64 if data.dtype == np.uint64 else np.int64
        return Column(kind, data.astype(wider), np.ones(len(data), dtype=bool))
    if data.dtype.kind in "fiu" and isinstance(kind, Vector) and data.ndim == 2:
        return _vectors(name, kind, data.astype(np.float64), np.ones(len(data), dtype=bool))
    if data.dtype == object and isinstance(kind, Region) and data.ndim == 1:
        return _regions(name, kind, data, geometries_of(data), np.array([not is_null(one) for one in data], dtype=bool))
    return _one_by_one(name, kind, list(data))


def _from_masked(name: str, kind: AttributeType, data: np.ma.MaskedArray[Any, Any]) -> Column:
    """Read a masked array: what is masked is missing; a vector is missing when all of it is masked."""
    if isinstance(kind, Number) and data.dtype.kind in "fiu":
        column = _from_numpy(name, kind, data.filled(0))
        column.present = column.present & ~np.ma.getmaskarray(data)
        return column
    return _one_by_one(name, kind, [None if _is_all_masked(value) else value for value in data])


def _is_all_masked(value: object) -> bool:
    return isinstance(value, np.ma.MaskedArray) and bool(np.ma.getmaskarray(value).all())


def _from_arrow(name: str, kind: AttributeType, data: pa.ChunkedArray | pa.Array) -> Column:
    array = _plain_array(data)
    given = array.type
    present = np.asarray(array.is_valid()) if array.null_count else np.ones(len(array), dtype=bool)
    if isinstance(kind, Number) and (pat.is_integer(given) or pat.is_floating(given)):
        return _arrow_numbers(name, kind, array, present)
    if isinstance(kind, String) and is_text(given):
        return _arrow_strings(name, kind, array, present)
    if isinstance(kind, Boolean) and pat.is_boolean(given):
        return Column(kind, np.asarray(array.fill_null(False)), present)
    if isinstance(kind, Timestamp) and pat.is_timestamp(given):
        return _arrow_timestamps(name, kind, array, present)
    if isinstance(kind, Region) and (pat.is_binary(given) or pat.is_large_binary(given)):
        return _wkb_regions(name, kind, array, present)
    if isinstance(kind, Vector) and pat.is_fixed_size_list(given) and given.list_size == kind.n:
        return _arrow_vectors(name, kind, array, present)
    return _one_by_one(name, kind, python_values(array))


def python_values(array: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Return the values of an Arrow array, an `Unreadable` in place of what Python cannot hold."""
    try:
        return list(array.to_pylist())
    except (ValueError, OverflowError):  # of UnicodeDecodeError, ArrowInvalid and OverflowError
        return [_python_value(one) for one in array]


def _python_value(one: pa.Scalar) -> Any:
    try:
        return one.as_py()
    except UnicodeDecodeError:
        shown = one.as_buffer().to_pybytes() if is_text(one.type) else str(one.type)
        return Unreadable(shown, "not text: the bytes are not UTF-8")
    except (ValueError, OverflowError) as error:
        return Unreadable(str(one.type), f"a value out of range: {error}")


def _from_pandas(name: str, kind: AttributeType, data: Any) -> Column:
    """Read a pandas series, in which NaN stands for a missing value whatever the type."""
    try:
        return _from_arrow(name, kind, pa.Array.from_pandas(data))
    except (pa.ArrowException, UnicodeError, OverflowError):  # mixed objects, strings that are no text
        missing = data.isna().tolist()
        return _one_by_one(name, kind, [None if gone else one for one, gone in zip(data, missing, strict=True)])


def _arrow_numbers(name: str, kind: Number, array: pa.Array, present: Mask) -> Column:
    if array.type == pa.float64() and not array.null_count:  # the usual case: nothing to convert
        return _floats(name, kind, np.asarray(array), present)
    if pat.is_floating(array.type):
        return _floats(name, kind, np.asarray(array.cast(pa.float64()).fill_null(0.0)), present)
    wide = pa.uint64() if pat.is_uint64(array.type) else pa.int64()
    return Column(kind, np.asarray(array.cast(wide).fill_null(0)), present)


def _floats(name: str, kind: Number, values: npt.NDArray[np.float64], present: Mask) -> Column:
    column = Column(kind, values + 0.0, present)  # -0.0 becomes 0.0
    finite = np.isfinite(values)
    if not (finite.all() and present.all()):
        _reject(column, name, present & ~finite, values, _NOT_FINITE)
        column.values[~column.present] = 0.0
    return column


def _arrow_strings(name: str, kind: String, array: pa.Array, present: Mask) -> Column:
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:  # a row that is not UTF-8; the others are good
        return _one_by_one(name, kind, python_values(array))
    return Column(kind, array.cast(pa.large_string()), present)


def _arrow_timestamps(name: str, kind: Timestamp, array: pa.Array, present: Mask) -> Column:
    raw = np.asarray(array.cast(pa.int64()).fill_null(0))
    if array.type.unit == "ns":
        column = Column(kind, raw // 1000, present)
    else:
        factor = _MICROSECONDS[array.type.unit]
        too_far = present & ((raw > INT64_MAX // factor) | (raw < -(2**63 // factor)))
        column = Column(kind, np.where(too_far, 0, raw) * factor, present)
        _reject(column, name, too_far, raw, "a timestamp outside int64 microseconds")
    if array.type.tz is None:
        _place_in_zone(name, kind, column)
    return column


def _place_in_zone(name: str, kind: Timestamp, column: Column) -> None:
    """Turn times without a zone into moments, as for single events: there is no zone beyond the year 9999."""
    shown = column.values.astype("datetime64[us]")
    if kind.zone is None:
        _reject(column, name, column.present, shown, "a time without a zone; declare Timestamp(zone=...)")
    outside = (column.values < _FIRST_YEAR) | (column.values >= _AFTER_LAST_YEAR)
    _reject(column, name, column.present & outside, shown, "a time outside the years 1 to 9999")
    column.values = np.where(column.present, column.values, 0)
    if kind.zone is None:
        return
    times = pa.array(column.values, pa.timestamp("us"), mask=~column.present)
    alone = column.present & (column.values >= _ARROW_KNOWS_ZONES_TO)
    try:
        placed = pc.assume_timezone(times, kind.zone)
        column.values = np.array(placed.cast(pa.int64()).fill_null(0))
    except pa.ArrowInvalid:  # an ambiguous or skipped hour: let zoneinfo decide
        alone = column.present
    for row in np.flatnonzero(alone):
        _take(column, name, int(row), times[row].as_py())


def _wkb_regions(name: str, kind: Region, array: pa.Array, present: Mask) -> Column:
    """Decode all at once; only what is not plainly a region is looked at one by one."""
    encoded, shapes = read_wkb_column(array)
    return _regions(name, kind, encoded, shapes, present)


def _regions(name: str, kind: Region, given: npt.NDArray[Any], shapes: npt.NDArray[Any], present: Mask) -> Column:
    """Take over ``shapes``, what shapely makes of the values given; points alone need no kernel."""
    plain = (shapely.get_type_id(shapes) == 0) & ~shapely.has_z(shapes) & ~shapely.has_m(shapes)
    plain &= np.isfinite(shapely.get_x(shapes)) & np.isfinite(shapely.get_y(shapes))
    rings: Rings | None = None
    if np.count_nonzero(present & ~plain) > _WORTH_A_KERNEL:
        rings, plain = plain_rings(shapes)
    column = Column(kind, shapes, plain & present, rings=rings if plain.all() else None)
    for row in np.flatnonzero(present & ~plain):
        _take(column, name, int(row), given[row])
    return column


def _arrow_vectors(name: str, kind: Vector, array: pa.Array, present: Mask) -> Column:
    flat = array.values.slice(array.offset * kind.n, len(array) * kind.n)
    if not (pat.is_floating(flat.type) or pat.is_integer(flat.type)):
        return _one_by_one(name, kind, python_values(array))
    numbers = np.asarray(flat.cast(pa.float64(), safe=False).fill_null(np.nan)).reshape(len(array), kind.n)
    return _vectors(name, kind, numbers, present)


def _vectors(name: str, kind: Vector, numbers: npt.NDArray[np.float64], present: Mask) -> Column:
    if numbers.shape[1] != kind.n:
        return _one_by_one(name, kind, list(numbers))
    column = Column(kind, np.ascontiguousarray(numbers), present)
    wrong = present & ~np.isfinite(numbers).all(axis=1)
    _reject(column, name, wrong, numbers, "NaN and infinity are not coordinates")
    return column


def _one_by_one(name: str, kind: AttributeType, data: Sequence[Any]) -> Column:
    n = len(data)
    column = Column(kind, np.empty(n, dtype=object), np.zeros(n, dtype=bool))
    for row, value in enumerate(data):
        if isinstance(value, Unreadable):
            column.bad[row] = EventError(name, value.value, value.problem, row)
        elif not is_null(value):
            _take(column, name, row, value)
    if isinstance(kind, Vector):
        column.values = np.array([v if v is not None else np.zeros(kind.n) for v in column.values]).reshape(n, kind.n)
    elif isinstance(kind, String):
        column.values = pa.array(column.values.tolist(), pa.large_string())
    elif isinstance(kind, Timestamp | Boolean):
        plain = [0 if value is None else value for value in column.values]
        column.values = np.array(plain, dtype=np.int64 if isinstance(kind, Timestamp) else np.bool_)
    return column


def _take(column: Column, name: str, row: int, value: object) -> None:
    try:
        column.values[row] = column.kind.canonical(value)
        column.present[row] = True
    except (UnfitError, LimitError) as error:
        column.bad[row] = EventError(name, value, str(error), row)


def _reject(column: Column, name: str, wrong: Mask, values: Any, problem: str) -> None:
    for row in np.flatnonzero(wrong):
        column.bad[int(row)] = EventError(name, values[row], problem, int(row))
    column.present = column.present & ~wrong
