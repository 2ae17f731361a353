"""Chooses the search method for a part of the balls by a sample.

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

#: Up to this many balls, a scan is as fast as any index.
_FEW: Final = 64
#: The least number of products that are computed at a time.
_BLOCK: Final = 4_096
#: The number of balls and of questions in a sample.
_SAMPLE, _QUESTIONS = 1_024, 64
#: Beyond this squares and their sums may overflow, in float64 and, relative to the typical ball, in float32.
_LARGE_TREE, _LARGE_BLOCKS = 1e140, 1e6
#: Nanoseconds: to verify a candidate and each of its coordinates; for each ball and coordinate in BLAS.
_VERIFY, _VERIFY_EACH = 6.0, 0.5
_PRODUCT, _PRODUCT_EACH = 1.5, 0.03


@dataclass(frozen=True)
class Choice:
    """The method, the reason for it, and the share of pairs in the sample that the projections do not rule out."""

    way: str
    pass_share: float
    why: str


def choose_way(
    centers: _FloatArray, radii: _FloatArray, projections: Projections, *, points: bool, wanted: str = "auto"
) -> Choice:
    """Return the method that should be fastest for these balls; ``points``: most questions will be points."""
    if wanted not in WAYS:
        raise ModelError(f"unknown way {wanted!r} to search balls; choose one of {', '.join(WAYS)}")
    n, d = centers.shape
    largest = float(max(np.abs(centers).max(initial=0.0), radii.max(initial=0.0)))
    if largest > _LARGE_TREE:
        return Choice("scan", 1.0, "coordinates so large that squares overflow")
    if wanted != "auto":
        return Choice(wanted, np.nan, "as wished")
    if n <= _FEW:
        return Choice("scan", 1.0, f"{n} balls are few")
    share, candidates, products = _measure(centers, radii, projections, points=points)
    tree = candidates * (_VERIFY + _VERIFY_EACH * d)
    blocks = products * (_PRODUCT + _PRODUCT_EACH * d)
    reason = f"{share:.1%} of pairs pass k = {projections.k} projections"
    reason += f": about {tree / 1e3:.3g} us by tree, {blocks / 1e3:.3g} by blocks"
    return Choice("tree" if tree <= blocks else "blocks", share, reason)


def _measure(
    centers: _FloatArray, radii: _FloatArray, projections: Projections, *, points: bool
) -> tuple[float, float, float]:
    """Return the share of pairs that pass, and the candidates and products a question is likely to cost.

    The questions are balls of the sample. A question about covers ends at the first cover, since the largest balls come
    first; a question about a point tests all balls.
    """
    n = len(radii)
    kept = np.argsort(-radii, kind="stable")[np.linspace(0, n - 1, min(n, _SAMPLE)).astype(np.int64)]
    questions = kept[:: max(1, len(kept) // _QUESTIONS)]
    inner_radii = np.zeros(len(questions)) if points else radii[questions]
    low, high = projections.rectangles(centers[kept], radii[kept])
    inner_low, inner_high = projections.rectangles(centers[questions], inner_radii, inner=True)
    passes = (low[:, None] <= inner_low).all(axis=2) & (high[:, None] >= inner_high).all(axis=2)
    passes &= kept[:, None] != questions
    if points:
        return float(passes.mean()), n * float(passes.mean()), float(n)
    true = passes.copy()
    for i, question in enumerate(questions):
        rest = kept[passes[:, i]]
        apart = centers[rest] - centers[question]
        true[passes[:, i], i] = np.einsum("ij,ij->i", apart, apart) <= (radii[rest] - radii[question]) ** 2
    covered = true.any(axis=0)
    ends = true.argmax(axis=0)
    before = np.cumsum(passes, axis=0)[ends, np.arange(len(questions))]
    candidates = np.where(covered, before, passes.sum(axis=0) * (n / len(kept)))
    products = np.where(covered, ends + 1, (radii[kept][:, None] >= inner_radii).sum(axis=0)) * (n / len(kept))
    return float(passes.mean()), float(candidates.mean()), float(np.maximum(products, min(n, _BLOCK)).mean())


def fits_blocks(largest: float, scale: float) -> bool:
    """Whether numbers up to ``largest`` are safe in float32 squares after scaling."""
    return largest * scale <= _LARGE_BLOCKS
