"""Projection rectangles: the intervals that a ball covers along k directions.

The projection of a ball (s, r) on a unit vector u is the interval ``[<u, s> - r, <u, s> + r]``. If one ball
covers another, its interval contains the other's on every vector, so k vectors are a filter that dismisses
no cover (RP1). How much it lets pass is another matter, and nothing like the paper's bound: see
`pass_probability`.

The sentence is about real numbers. Rounding moves <u, s> by up to ``d * 2**-53 * |s|``, so the rectangle of a
ball that is *kept* grows by a bound on it and that of a ball that is *asked about* shrinks. Then tangent balls
pass, and nothing but the filter is loosened.

Implements: [projection] section II.B and section III, eq. (3), RECT(s, r).
Deviation: R.3.7: the paper compares rounded projections; on tangent balls they fail in 9 of 100 cases.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tamis.errors import ModelError

__all__ = ["KINDS", "Projections", "default_k", "idx", "pass_probability"]

_FloatArray = npt.NDArray[np.float64]

#: Ways to choose the vectors: the paper's two, and the coordinate axes of its baseline (Proposition 2.2).
KINDS = ("orthonormal", "gaussian", "cube")
#: OpenBLAS starts threads above four times 2**16 multiplications.
_IN_ONE_THREAD = 200_000
#: More axes make every block of a tree wider and let hardly less pass.
_MOST_DEFAULT = 12


@dataclass(frozen=True)
class Projections:
    """k unit vectors, float64[k, d]; they belong to the index for its life and are saved with it.

    >>> two = Projections.drawn(3, k=2, seed=1)
    >>> low, high = two.rectangles(np.array([[1.0, 2.0, 3.0]]), np.array([0.5]))
    >>> bool((high - low > 1.0).all()), np.allclose(high - low, 1.0)
    (True, True)
    """

    vectors: _FloatArray

    @classmethod
    def drawn(cls, d: int, k: int | None = None, seed: int = 0, kind: str = "orthonormal") -> Projections:
        """Draw k vectors of d dimensions: Gaussian and normalised, made orthonormal, or the axes of the cube.

        Implements: [projection] section III, eq. (3): the matrix of k unit vectors, with Gram-Schmidt if wanted.
        Deviation: R.3.8: orthonormal vectors are not independent, as the proof of Proposition 2.4 needs; they
        filter better and are the default. Beyond d of them further orthonormal sets are drawn.
        """
        if kind not in KINDS:
            raise ModelError(f"unknown kind of projection {kind!r}; choose one of {', '.join(KINDS)}")
        if kind == "cube":
            return cls(np.eye(d))
        k = default_k(d) if k is None else k
        if k < 1:
            raise ModelError(f"k, the number of projections, must be at least 1, not {k}")
        rng = np.random.default_rng([seed, d])
        if kind == "gaussian":
            return cls(_unit(rng.standard_normal((k, d))))
        sets = [np.linalg.qr(rng.standard_normal((d, min(d, k - at))))[0].T for at in range(0, k, d)]
        return cls(_unit(np.concatenate(sets)))

    @property
    def k(self) -> int:
        """The number of vectors."""
        return len(self.vectors)

    @property
    def d(self) -> int:
        """The number of coordinates."""
        return int(self.vectors.shape[1])

    def rectangles(
        self, centers: _FloatArray, radii: _FloatArray, *, inner: bool = False
    ) -> tuple[_FloatArray, _FloatArray]:
        """Return the lower and upper ends float64[n, k]: a little too large, or too small if ``inner``."""
        middle = _product(centers, self.vectors)
        lengths = np.sqrt(np.einsum("ij,ij->i", centers, centers))
        slack = (self.d + 16) * 4.5e-16 * (lengths + radii) + 1e-290
        reach = (radii - slack if inner else radii + slack)[:, None]
        return middle - reach, middle + reach


def _product(centers: _FloatArray, vectors: _FloatArray) -> _FloatArray:
    """Multiply in small pieces so that BLAS stays in this thread: on a busy machine its threads wait for each other."""
    k, d = vectors.shape
    step = max(1, _IN_ONE_THREAD // (k * d))
    if len(centers) <= step:
        return centers @ vectors.T
    return np.concatenate([centers[i : i + step] @ vectors.T for i in range(0, len(centers), step)])


def _unit(vectors: _FloatArray) -> _FloatArray:
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
    return np.ascontiguousarray(vectors / lengths[:, None])


def default_k(d: int) -> int:
    """Return the number of projections for d dimensions; docs/decisions/0011 has the measurements.

    >>> [default_k(d) for d in (1, 2, 4, 8, 20, 384)]
    [1, 2, 3, 7, 12, 12]
    """
    return d if d <= 3 else min(d - 1, _MOST_DEFAULT)


def idx(projections: Projections, center: _FloatArray, radius: float) -> _FloatArray:
    """Return the 2k numbers by which the paper indexes a ball, with the signs that make a coverer the larger one.

    Implements: [projection] section III, idx(s, r).
    Deviation: R.3.1: the paper's (a, -b) makes a coverer the *smaller* vector, its text calls the larger ones
    coverers, and its sample has +b_2 for -b_2. Here it is (-a, b), without slack.

    >>> axes = Projections.drawn(2, kind="cube")
    >>> small, large = idx(axes, np.array([1.0, 0.0]), 1.0), idx(axes, np.zeros(2), 3.0)
    >>> small.tolist(), bool((large >= small).all())
    ([0.0, 2.0, 1.0, 1.0], True)
    """
    middle = projections.vectors @ center
    return np.stack((radius - middle, radius + middle), 1).ravel()


def pass_probability(z: float, d: int) -> float:
    """Return how likely one random projection agrees that a covers b, for ``z = (r - r') / ||s - s'|| < 1``.

    It is the share of directions whose angle to s - s' has a cosine between -z and z: a regularised incomplete
    beta function, here by Simpson's rule.

    Implements: [projection] Proposition 2.3, eq. (1).
    Deviation: R.3.4: the paper takes the angle as uniform, true in the plane only, and its approximation
    (2/pi) z lies below even that, (2/pi) arcsin z. So its bound (2/pi)**k of Proposition 2.4 does not hold.

    >>> [round(pass_probability(0.5, d), 3) for d in (2, 3, 4, 8, 20)]
    [0.333, 0.5, 0.609, 0.83, 0.979]
    """
    if d == 1:
        return 0.0
    angles = np.linspace(0.0, math.asin(z), 2_001)
    weights = np.cos(angles) ** (d - 2)
    whole = np.cos(np.linspace(0.0, math.pi / 2, 2_001)) ** (d - 2)
    return float(_simpson(weights, math.asin(z)) / _simpson(whole, math.pi / 2))


def _simpson(values: _FloatArray, length: float) -> float:
    n = len(values) - 1
    return float(length / n / 3 * (values[0] + 4 * values[1:-1:2].sum() + 2 * values[2:-1:2].sum() + values[-1]))
