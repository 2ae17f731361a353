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
    """``[i, j]``: ball i of the outer ones covers ball j of the inner ones."""
    found = np.zeros((len(outer[1]), len(inner[1])), bool)
    for i, one in enumerate(zip(*outer, strict=True)):
        for j, other in enumerate(zip(*inner, strict=True)):
            found[i, j] = covers(one, other)
    return found
