"""Which balls cover which, all pairs at once: the truth of these experiments."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["Bools", "Floats", "covers_each"]

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


def covers_each(outer: Floats, outer_radii: Floats, inner: Floats, inner_radii: Floats) -> Bools:
    """Return bool[n, m]: which of n balls cover which of m (Proposition 2.1).

    >>> covers_each(np.zeros((1, 2)), np.ones(1), np.array([[0.5, 0], [0.9, 0]]), np.array([0.5, 0.5])).tolist()
    [[True, False]]
    """
    squares = (outer**2).sum(1)[:, None] + (inner**2).sum(1)[None] - 2 * outer @ inner.T
    room = outer_radii[:, None] - inner_radii[None]
    covers: Bools = (room >= 0) & (squares <= room**2)
    return covers
