"""The plain linear scan of boxes: what every index has to beat.

Row-major float64, one box after the other, left at the first side that fails. This is what a careful user
writes with Numba in ten lines, and the base of every ratio in the benchmarks.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tamis.kernels.compile import Int, hot_kernel

__all__ = ["scan_boxes"]


@hot_kernel
def scan_boxes(
    lo: npt.NDArray[np.float64],
    hi: npt.NDArray[np.float64],
    points: npt.NDArray[np.float64],
    begin: Int,
    offsets: npt.NDArray[np.int64],
    out: npt.NDArray[np.int32],
) -> Int:
    """Match the points from number ``begin`` on; return the number of the first one not done (``out`` is full).

    Boxes are closed, float64[n, d]; points float64[m, d] have no gaps: NaN fits no side. The rows of point e are
    ``out[offsets[e]:offsets[e + 1]]``; ``offsets[begin]`` rows are already in ``out``.
    """
    for e in range(begin, points.shape[0]):
        count = offsets[e]
        for row in range(lo.shape[0]):
            fits = True
            for k in range(lo.shape[1]):
                if not (lo[row, k] <= points[e, k] <= hi[row, k]):
                    fits = False
                    break
            if fits:
                if count == out.size:
                    return e
                out[count] = row
                count += 1
        offsets[e + 1] = count
    return points.shape[0]
