"""Distances between vectors, with a bound on their rounding error.

The exact meaning of a ball is ``||x - c|| <= r`` in real numbers, on the given float64 values. These
kernels decide it when rounding cannot matter and return UNCERTAIN when it could; the caller then uses rational
arithmetic. The sum of squares has only non-negative terms, so its relative error is at most
``(n + 3) * 2**-53`` however the terms are added; blocked or BLAS sums may use the same bound.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tamis.kernels.compile import hot_kernel

__all__ = ["INSIDE", "OUTSIDE", "UNCERTAIN", "ball_side"]

OUTSIDE, INSIDE, UNCERTAIN = 0, 1, 2

#: Below this a square may have lost bits to underflow, above it the next operation may overflow.
_SAFE_LOW, _SAFE_HIGH = 1e-280, 1e280


@hot_kernel
def ball_side(point: npt.NDArray[np.float64], center: npt.NDArray[np.float64], radius: float) -> int:
    """Return whether ``point`` lies in the closed ball: INSIDE, OUTSIDE, or UNCERTAIN for float64."""
    total = 0.0
    for i in range(point.shape[0]):
        difference = point[i] - center[i]
        total += difference * difference
    limit = radius * radius
    if total == 0.0 and radius > 1e-140:
        return INSIDE
    if not (_SAFE_LOW < total < _SAFE_HIGH and _SAFE_LOW < limit < _SAFE_HIGH):
        return UNCERTAIN
    slack = (point.shape[0] + 8) * 1.2e-16
    if total * (1.0 + slack) < limit * (1.0 - slack):
        return INSIDE
    if total * (1.0 - slack) > limit * (1.0 + slack):
        return OUTSIDE
    return UNCERTAIN
