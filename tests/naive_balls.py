"""Balls by the book: rational arithmetic, one pair after the other."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt


def covers(outer: tuple[Sequence[float], float], inner: tuple[Sequence[float], float]) -> bool:
    """Proposition 2.1 on the given float64 numbers, exactly."""
    (s, r), (t, q) = outer, inner
    if r < q:
        return False
    squared = sum(((Fraction(float(x)) - Fraction(float(y))) ** 2 for x, y in zip(s, t, strict=True)), Fraction(0))
    return squared <= (Fraction(float(r)) - Fraction(float(q))) ** 2


def cover_matrix(
    outer: tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]],
    inner: tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]],
) -> npt.NDArray[np.bool_]:
    """``[i, j]``: ball i of the outer ones covers ball j of the inner ones.

    Where the distance is far from the difference of the radii nine digits tell; the others are asked one by one.
    """
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        apart = np.sqrt(sum((s[:, None] - t) ** 2 for s, t in zip(outer[0].T, inner[0].T, strict=True)))
        gap = outer[1][:, None] - inner[1]
        covered = apart <= gap
        clear = (np.abs(apart - gap) > 1e-9 * (apart + np.abs(gap))) & (apart > 1e-100) & (apart + np.abs(gap) < 1e100)
    for i, j in np.argwhere(~clear).tolist():
        covered[i, j] = covers((outer[0][i], outer[1][i]), (inner[0][j], inner[1][j]))
    return covered
