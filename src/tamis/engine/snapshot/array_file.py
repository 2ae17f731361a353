"""Stores many arrays in one file, which is mapped rather than read.

::

    8 bytes   magic "tamisarr"
    8 bytes   length of the header, little endian
    header    JSON: name, type, shape and offset of every array
    ...       the arrays, each on a 64-byte boundary

The file is written once. Whether its bytes are those that were written is the manifest's business
(`snapshot`), which holds a checksum of the whole file.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from tamis.errors import SnapshotError

__all__ = ["map_arrays", "write_arrays"]

_MAGIC = b"tamisarr"
_ALIGN = 64
_MOST_DIMENSIONS = 8
#: The types of numbers, little end first, and booleans.
_DTYPES = frozenset({"|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f4", "<f8"})


class _Entry(msgspec.Struct):
    """The name, type, shape and offset of one array."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int


def write_arrays(path: Path, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Write arrays to a new file."""
    entries, offset = [], 0
    for name, array in arrays.items():
        entries.append(_Entry(name, array.dtype.str, array.shape, offset))
        offset += _padded(array.nbytes)
    header = msgspec.json.encode(entries)
    header = header.ljust(_padded(len(header) + 16) - 16)
    with path.open("xb") as file:
        file.write(_MAGIC + len(header).to_bytes(8, "little") + header)
        for array in arrays.values():
            data = np.ascontiguousarray(array)
            file.write(data.data if data.nbytes else b"")
            file.write(b"\0" * (_padded(data.nbytes) - data.nbytes))


def map_arrays(path: Path) -> dict[str, npt.NDArray[Any]]:
    """Map the arrays of a file; processes that do so share the pages, and none can change the file.

    Copy-on-write rather than read-only: to Numba a read-only array has another type, and every kernel would be
    compiled a second time for it.
    """
    try:
        data: npt.NDArray[np.uint8] = np.memmap(path, np.uint8, mode="c")
    except ValueError as error:
        raise SnapshotError(str(path), "not a file of arrays: it is empty") from error
    length = int.from_bytes(data[8:16].tobytes(), "little")
    if data[:8].tobytes() != _MAGIC or 16 + length > data.size or (16 + length) % _ALIGN:
        raise SnapshotError(str(path), "not a file of arrays")
    try:
        entries = msgspec.json.decode(data[16 : 16 + length].tobytes(), type=list[_Entry])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise SnapshotError(str(path), f"not a file of arrays: {error}") from error
    arrays = {entry.name: _view(path, data[16 + length :], entry) for entry in entries}
    if len(arrays) != len(entries):
        raise SnapshotError(str(path), "not a file of arrays: duplicate array name")
    return arrays


def _view(path: Path, data: npt.NDArray[np.uint8], entry: _Entry) -> npt.NDArray[Any]:
    if entry.dtype not in _DTYPES:
        raise SnapshotError(str(path), f"the array {entry.name!r} is of the unknown type {entry.dtype!r}")
    dtype, numbers = np.dtype(entry.dtype), math.prod(entry.shape)
    stop = entry.offset + numbers * dtype.itemsize
    is_shape = len(entry.shape) <= _MOST_DIMENSIONS and all(0 <= n <= data.size for n in entry.shape)
    if not is_shape or entry.offset % _ALIGN or not 0 <= entry.offset <= stop <= data.size:
        raise SnapshotError(str(path), f"the array {entry.name!r} does not fit the file")
    flat = np.asarray(data[entry.offset : stop])
    return flat.view(dtype).reshape(entry.shape)


def _padded(n: int) -> int:
    return -(-n // _ALIGN) * _ALIGN
