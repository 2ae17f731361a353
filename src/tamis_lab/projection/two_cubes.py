"""The paper's baseline: two cubes instead of a ball. For the lab; the index asks the ball itself.

The bounding cube has half side r, the cube inside has half side ``r / sqrt(d)``. If the bounding cubes do not
contain each other the balls do not; if the inner cubes do (and the radii agree with that) the balls do; between
lies the ambiguous case.

Implements: [projection] Proposition 2.2 and section II.A, mBC and MBC.
Deviation: R.3.9: section II.A gives the inner cube the side sqrt(2) r, true for d = 2 only, and an exponent
too many; its share of ambiguous pairs, 1 - (1 / sqrt(2))**d, is refuted by the data. The projection on the d axes
*is* the bounding cube, so the baseline that it dismisses is its own method with k = d.
"""

from __future__ import annotations

import enum
import math

import numpy as np
import numpy.typing as npt

__all__ = ["CubeVerdict", "cube_verdict", "inner_half_side"]


class CubeVerdict(enum.Enum):
    """Whether one of two balls covers the other, as far as their cubes decide."""

    YES = "yes"
    NO = "no"
    AMBIGUOUS = "ambiguous"


def inner_half_side(d: int, radius: float) -> float:
    """Return the half side of the largest axis-parallel cube in a ball of d dimensions.

    >>> inner_half_side(4, 1.0), round(2 * inner_half_side(2, 1.0), 3)  # sqrt(2) r is the side in the plane only
    (0.5, 1.414)
    """
    return radius / math.sqrt(d)


def cube_verdict(
    outer: tuple[npt.NDArray[np.float64], float], inner: tuple[npt.NDArray[np.float64], float]
) -> CubeVerdict:
    """Return what the cubes of two balls (center, radius) decide about whether ``outer`` covers ``inner``.

    Implements: [projection] Proposition 2.2.
    """
    (s, r), (t, q) = outer, inner
    apart = float(np.abs(s - t).max())
    if apart > r - q:
        return CubeVerdict.NO
    d = len(s)
    # An inner cube contains another iff apart <= (r - q) / sqrt(d), and then ||s - t|| <= sqrt(d) apart <= r - q.
    return CubeVerdict.YES if apart <= inner_half_side(d, r) - inner_half_side(d, q) else CubeVerdict.AMBIGUOUS
