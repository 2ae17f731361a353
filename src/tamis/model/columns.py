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
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat
import shapely

from tamis.errors import EventError, LimitError
from tamis.model.arrow_types import is_text
from tamis.model.types import AttributeType, Boolean, Number, Region, String, Timestamp, Vector
from tamis.model.values import INT64_MAX, UnfitError, Value

__all__ = ["Column", "column_from", "is_null"]

Mask = npt.NDArray[np.bool_]

_NOT_FINITE = "NaN and infinity are not numbers; leave a missing value out"
_MICROSECONDS = {"s": 1_000_000, "ms": 1_000, "us": 1}


@dataclass(slots=True)
class Column:
    """The values of one attribute for every row of a table (see the module's text)."""

    kind: AttributeType
    values: Any
    present: Mask
    #: Rows whose value does not fit, with the reason.
    bad: dict[int, EventError] = field(default_factory=dict)

    def value(self, row: int) -> Value | None:
        """Return the canonical value of a row, None when it is missing or bad."""
        if not self.present[row]:
            return None
        found = self.values[row]
        if isinstance(found, pa.Scalar):
            found = found.as_py()
        return found.item() if isinstance(found, np.generic) else found


def column_from(name: str, kind: AttributeType, data: Any) -> Column:
    """Return the column of canonical values; what does not fit is in its ``bad`` rows."""
    if isinstance(data, pa.ChunkedArray | pa.Array):
        return _from_arrow(name, kind, data)
    if hasattr(data, "iloc"):
        return _from_pandas(name, kind, data)
    if isinstance(data, np.ndarray) and data.dtype.kind == "f" and isinstance(kind, Number):
        wide = data.astype(np.float64)
        return _floats(name, kind, wide, ~np.isnan(wide))
    if isinstance(data, np.ndarray) and data.dtype.kind in "iu" and isinstance(kind, Number):
        wider = np.uint64 if data.dtype == np.uint64 else np.int64
        return Column(kind, data.astype(wider), np.ones(len(data), dtype=bool))
    if isinstance(data, np.ndarray) and data.dtype.kind in "fiu" and isinstance(kind, Vector) and data.ndim == 2:
        return _vectors(name, kind, data.astype(np.float64), np.ones(len(data), dtype=bool))
    return _one_by_one(name, kind, list(data))


def _from_arrow(name: str, kind: AttributeType, data: pa.ChunkedArray | pa.Array) -> Column:
    array = data.combine_chunks() if isinstance(data, pa.ChunkedArray) else data
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pat.is_dictionary(array.type):
        array = array.dictionary_decode()
    given = array.type
    present = np.asarray(array.is_valid())
    if isinstance(kind, Number) and (pat.is_integer(given) or pat.is_floating(given)):
        return _arrow_numbers(name, kind, array, present)
    if isinstance(kind, String) and is_text(given):
        array.validate(full=True)
        return Column(kind, array.cast(pa.large_string()), present)
    if isinstance(kind, Boolean) and pat.is_boolean(given):
        return Column(kind, np.asarray(array.fill_null(False)), present)
    if isinstance(kind, Timestamp) and pat.is_timestamp(given):
        return _arrow_timestamps(name, kind, array, present)
    if isinstance(kind, Region) and (pat.is_binary(given) or pat.is_large_binary(given)):
        return _wkb_regions(name, kind, array, present)
    if isinstance(kind, Vector) and pat.is_fixed_size_list(given) and given.list_size == kind.n:
        return _arrow_vectors(name, kind, array, present)
    return _one_by_one(name, kind, array.to_pylist())


def _from_pandas(name: str, kind: AttributeType, data: Any) -> Column:
    """Read a pandas series, in which NaN stands for a missing value whatever the type."""
    try:
        return _from_arrow(name, kind, pa.Array.from_pandas(data))
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError):  # mixed objects
        missing = data.isna().tolist()
        return _one_by_one(name, kind, [None if gone else one for one, gone in zip(data, missing, strict=True)])


def _arrow_numbers(name: str, kind: Number, array: pa.Array, present: Mask) -> Column:
    if pat.is_floating(array.type):
        return _floats(name, kind, np.asarray(array.cast(pa.float64()).fill_null(0.0)), present)
    wide = pa.uint64() if pat.is_uint64(array.type) else pa.int64()
    return Column(kind, np.asarray(array.cast(wide).fill_null(0)), present)


def _floats(name: str, kind: Number, values: npt.NDArray[np.float64], present: Mask) -> Column:
    column = Column(kind, values + 0.0, present)  # -0.0 becomes 0.0
    wrong = present & ~np.isfinite(values)
    _reject(column, name, wrong, values, _NOT_FINITE)
    column.values[~column.present] = 0.0
    return column


def _arrow_timestamps(name: str, kind: Timestamp, array: pa.Array, present: Mask) -> Column:
    if array.type.tz is None:
        try:
            array = pc.assume_timezone(array, kind.zone) if kind.zone else array
        except pa.ArrowInvalid:  # an ambiguous or skipped hour: let zoneinfo decide, as for single events
            return _one_by_one(name, kind, array.to_pylist())
    if array.type.tz is None:
        column = Column(kind, np.zeros(len(array), np.int64), present)
        problem = "a time without a zone; declare Timestamp(zone=...)"
        _reject(column, name, present.copy(), np.asarray(array), problem)
        return column
    raw = np.asarray(array.cast(pa.int64()).fill_null(0))
    if array.type.unit == "ns":
        return Column(kind, raw // 1000, present)
    factor = _MICROSECONDS[array.type.unit]
    too_far = present & (np.abs(raw) > INT64_MAX // factor)
    column = Column(kind, np.where(too_far, 0, raw) * factor, present)
    _reject(column, name, too_far, raw, "a timestamp outside int64 microseconds")
    return column


def _wkb_regions(name: str, kind: Region, array: pa.Array, present: Mask) -> Column:
    """Decode all at once; only what is not a plain finite point is looked at one by one."""
    encoded = array.to_numpy(zero_copy_only=False)  # None where null
    shapes = shapely.from_wkb(encoded, on_invalid="ignore")
    plain = (shapely.get_type_id(shapes) == 0) & ~shapely.has_z(shapes) & ~shapely.has_m(shapes)
    plain &= np.isfinite(shapely.get_x(shapes)) & np.isfinite(shapely.get_y(shapes))
    column = Column(kind, shapes, plain & present)
    for row in np.flatnonzero(present & ~plain):
        _take(column, name, int(row), encoded[row])
    return column


def _arrow_vectors(name: str, kind: Vector, array: pa.Array, present: Mask) -> Column:
    flat = array.values.slice(array.offset * kind.n, len(array) * kind.n)
    if not (pat.is_floating(flat.type) or pat.is_integer(flat.type)):
        return _one_by_one(name, kind, array.to_pylist())
    numbers = np.asarray(flat.cast(pa.float64()).fill_null(np.nan)).reshape(len(array), kind.n)
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
        if not is_null(value):
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


def is_null(value: object) -> bool:
    """Whether a value of a NumPy, pandas or Arrow column stands for nothing (NaT and pd.NA included)."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, np.datetime64) and bool(np.isnat(value))


def _reject(column: Column, name: str, wrong: Mask, values: Any, problem: str) -> None:
    for row in np.flatnonzero(wrong):
        column.bad[int(row)] = EventError(name, values[row], problem, int(row))
    column.present = column.present & ~wrong
