"""Binary search in ascending numbers, for kernels that search a part of an array."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tamis.kernels.compile import Int, inline_kernel

__all__ = ["bisect_left"]


@inline_kernel
def bisect_left(numbers: npt.NDArray[np.int32] | npt.NDArray[np.int64], number: Int, start: Int, stop: Int) -> Int:
    """Return the first position from ``start`` on whose number is at least ``number``; ``stop`` if there is none.

    The numbers from ``start`` to ``stop`` ascend.
    """
    low, high = np.int64(start), np.int64(stop)
    while low < high:
        middle = (low + high) >> 1
        if numbers[middle] < number:
            low = middle + 1
        else:
            high = middle
    return low
