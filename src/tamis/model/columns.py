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

A value that does not fit is recorded with its row, and is absent from the mask. Columns with a fast path use it
(`AttributeType.from_arrow`, ``from_numpy``); all others are converted value by value with
`AttributeType.canonical`, so both agree.
Coordinates of a vector are float64: an integer beyond 2**53 is rounded to the nearest, as in a single event.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from tamis.errors import TableError
from tamis.model.types import AttributeType, Boolean, String
from tamis.model.types.base import Form
from tamis.model.types.column import Column, Mask, Unreadable, column_of_each, is_text, python_values
from tamis.model.types.string import coerced_column
from tamis.model.values import has_lone_surrogate, is_null

__all__ = ["Column", "Unreadable", "column_from", "joined_column", "presence_column", "python_values"]


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
    values = list(data)
    return coerced_column(values) if kind == String(coerce=True) else column_of_each(name, kind, values)


def joined_column(name: str, columns: Sequence[Any], n: int) -> Column:
    """Return the strings of several columns joined row by row, a line each; other values are left out."""
    texts = [_strings(name, data) for data in columns]
    texts = [array for array in texts if array.null_count < n]
    if not texts:
        return Column(String(), pa.nulls(n, pa.large_string()), np.zeros(n, dtype=bool))
    present = np.logical_or.reduce([np.asarray(array.is_valid()) for array in texts])
    texts[0] = pc.if_else(pa.array(present), texts[0], "")  # Arrow drops a row in which all are null
    joined = pc.binary_join_element_wise(*texts, pa.scalar("\n", pa.large_string()), null_handling="skip")
    return Column(String(), joined, present)


def _strings(name: str, data: Any) -> pa.Array:
    """Return a column as Arrow strings; values that are not strings are missing."""
    if isinstance(data, pa.ChunkedArray | pa.Array):
        data = _plain_array(data)
        if not is_text(data.type):
            return pa.nulls(len(data), pa.large_string())
        column = column_from(name, String(), data)
        return pc.if_else(pa.array(column.present), column.values, None) if column.bad else column.values
    if isinstance(data, np.ndarray) and data.dtype.kind not in "OUT":
        return pa.nulls(len(data), pa.large_string())
    texts = [value if isinstance(value, str) and not has_lone_surrogate(value) else None for value in data]
    return pa.array(texts, pa.large_string())


def presence_column(data: Any) -> Column:
    """Return a column that is true for each row with a value of any type."""
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
    pairs = kind.form is Form.REGION and data.shape[1:] == (2,)
    if data.ndim != 1 and not (data.ndim == 2 and (pairs or kind.form is Form.VECTOR)):
        raise TableError(f"column {name!r}: an array of {data.ndim} dimensions cannot hold a {kind.name} a row")
    column = kind.from_numpy(name, data)
    if column is not None:
        return column
    if isinstance(data, np.ma.MaskedArray):  # a vector is missing when all of it is masked
        return column_of_each(name, kind, [None if _is_all_masked(value) else value for value in data])
    return column_of_each(name, kind, list(data))


def _is_all_masked(value: object) -> bool:
    return isinstance(value, np.ma.MaskedArray) and bool(np.ma.getmaskarray(value).all())


def _from_arrow(name: str, kind: AttributeType, data: pa.ChunkedArray | pa.Array) -> Column:
    array = _plain_array(data)
    present = np.asarray(array.is_valid()) if array.null_count else np.ones(len(array), dtype=bool)
    column = kind.from_arrow(name, array, present)
    return column_of_each(name, kind, python_values(array)) if column is None else column


def _from_pandas(name: str, kind: AttributeType, data: Any) -> Column:
    """Read a pandas series, in which NaN is a missing value for every type."""
    try:
        return _from_arrow(name, kind, pa.Array.from_pandas(data))
    except (pa.ArrowException, UnicodeError, OverflowError):  # mixed objects, strings that are not text
        missing = data.isna().tolist()
        values = [None if is_missing else value for value, is_missing in zip(data, missing, strict=True)]
        return column_of_each(name, kind, values)
