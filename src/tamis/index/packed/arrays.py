"""Arrays that grow at their end, for columns that readers see while a writer appends; and arrays for kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

__all__ = ["Growing", "line_aligned"]

_Array = npt.NDArray[Any]

_LINE_BYTES: Final = 64
_FIRST_ROOM: Final = 64


class Growing:
    """An array that grows at its end. A full or read-only array is replaced by a copy; readers keep the old one."""

    def __init__(self, values: _Array) -> None:
        self._values, self.n = values, len(values)

    @property
    def values(self) -> _Array:
        """The values that were added so far."""
        return self._values[: self.n]

    def extend(self, more: Sequence[Any] | _Array) -> None:
        """Add values at the end."""
        stop = self.n + len(more)
        if stop > len(self._values) or not self._values.flags.writeable:
            grown = np.empty((max(stop, 2 * self.n, _FIRST_ROOM), *self._values.shape[1:]), self._values.dtype)
            grown[: self.n] = self._values[: self.n]
            self._values = grown
        self._values[self.n : stop] = more
        self.n = stop


def line_aligned(size: int, dtype: type[np.generic]) -> _Array:
    """Return an uninitialised array of ``size`` numbers whose first byte begins a cache line.

    Kernels read blocks of trees and rows of bitmaps, which are whole lines of 64 bytes. NumPy's allocator aligns to 16
    bytes: with blocks placed like that, matching against a tree of 100,000 boxes took 5 % longer.

    >>> line_aligned(7, np.int16).ctypes.data % 64
    0
    """
    n_bytes = size * np.dtype(dtype).itemsize
    buffer = np.empty(n_bytes + _LINE_BYTES, np.uint8)
    start = -buffer.ctypes.data % _LINE_BYTES
    return buffer[start : start + n_bytes].view(dtype)
