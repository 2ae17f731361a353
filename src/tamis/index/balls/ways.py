"""Which way to search a part of the balls, chosen by what a sample says.

* ``tree``: projection rectangles in packed trees. Quick where they tell balls apart: few dimensions, small radii.
* ``blocks``: all distances at once, by BLAS. In many dimensions every projection looks alike (of random pairs in 384
  dimensions 86 % pass) and the filter only costs.
* ``scan``: every ball in turn. For a handful, and for numbers so large that float32 or squares overflow.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from tamis.errors import ModelError
from tamis.index.balls.projections import Projections

__all__ = ["WAYS", "Choice", "choose_way"]

_FloatArray = npt.NDArray[np.float64]

WAYS: Final = ("auto", "tree", "blocks", "scan")

#: Up to so many balls a scan is as good as anything.
_FEW: Final = 64
#: Balls and questions of the sample.
_SAMPLE, _ASKED = 1_024, 64
#: Beyond this squares and their sums may overflow, in float64 and, relative to the typical ball, in float32.
_LARGE_TREE, _LARGE_BLOCKS = 1e140, 1e6
#: Nanoseconds: to verify a candidate and each of its coordinates, of which most see the first ones only; for each
#: ball and coordinate in BLAS.
_VERIFY, _VERIFY_EACH, _SEEN = 6.0, 0.5, 64
_PRODUCT, _PRODUCT_EACH = 1.0, 0.03


@dataclass(frozen=True)
class Choice:
    """The way, how it came about, and the share of pairs that the projections let pass in the sample."""

    way: str
    pass_share: float
    why: str


def choose_way(
    centers: _FloatArray, radii: _FloatArray, projections: Projections, *, points: bool, wanted: str = "auto"
) -> Choice:
    """Return the way that should be quickest for these balls; ``points``: they will be asked who holds a point."""
    if wanted not in WAYS:
        raise ModelError(f"there is no way {wanted!r} to search balls; choose one of {', '.join(WAYS)}")
    n, d = centers.shape
    largest = float(max(np.abs(centers).max(initial=0.0), radii.max(initial=0.0)))
    if largest > _LARGE_TREE:
        return Choice("scan", 1.0, "coordinates so large that squares overflow")
    if wanted != "auto":
        return Choice(wanted, np.nan, "as wished")
    if n <= _FEW:
        return Choice("scan", 1.0, f"{n} balls are few")
    share = _measure_share(centers, radii, projections, points=points)
    tree = n * share * (_VERIFY + _VERIFY_EACH * min(d, _SEEN))
    blocks = n * (_PRODUCT + _PRODUCT_EACH * d)
    told = f"{share:.1%} of pairs pass k = {projections.k} projections: about {tree:.3g} ns by tree, {blocks:.3g} by blocks"
    return Choice("tree" if tree <= blocks else "blocks", share, told)


def _measure_share(centers: _FloatArray, radii: _FloatArray, projections: Projections, *, points: bool) -> float:
    """Return the share of (ball, question) that pass the projections; the questions are balls of the sample."""
    kept = np.linspace(0, len(radii) - 1, min(len(radii), _SAMPLE)).astype(np.int64)
    asked = kept[:: max(1, len(kept) // _ASKED)]
    low, high = projections.rectangles(centers[kept], radii[kept])
    inner_radii = np.zeros(len(asked)) if points else radii[asked]
    inner_low, inner_high = projections.rectangles(centers[asked], inner_radii, asked=True)
    passes = (low[:, None] <= inner_low).all(axis=2) & (high[:, None] >= inner_high).all(axis=2)
    passes &= kept[:, None] != asked
    return float(passes.mean())


def fits_blocks(largest: float, scale: float) -> bool:
    """Whether numbers up to ``largest`` are safe in float32 squares after scaling."""
    return largest * scale <= _LARGE_BLOCKS
