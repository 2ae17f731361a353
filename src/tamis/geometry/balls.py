"""Decides exactly whether a point lies in a ball.

The definition is ``||point - center|| <= radius`` in real numbers, for the given float64 values and without
rounding. So the result does not depend on the order of summation, and `covers` can be exact. A float64 kernel
decides almost every case; rational arithmetic decides the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt

__all__ = ["in_ball", "squared_distance"]


def in_ball(point: npt.NDArray[np.float64], center: Sequence[float], radius: float) -> bool:
    """Whether a point lies in the closed ball, exactly.

    >>> in_ball(np.array([3.0, 4.0]), (0.0, 0.0), 5.0), in_ball(np.array([3.0, 4.0]), (0.0, 0.0), 4.999)
    (True, False)
    """
    from tamis.kernels import vectors  # late: importing tamis must not import numba

    side: int = vectors.ball_side(point, np.asarray(center, dtype=np.float64), float(radius))
    if side != vectors.UNCERTAIN:
        return side == vectors.INSIDE
    return squared_distance(point, center) <= Fraction(radius) ** 2


def squared_distance(a: Sequence[float] | npt.NDArray[np.float64], b: Sequence[float]) -> Fraction:
    """Return the exact squared distance of two points."""
    total = Fraction(0)
    for x, y in zip(a, b, strict=True):
        total += (Fraction(float(x)) - Fraction(float(y))) ** 2
    return total
