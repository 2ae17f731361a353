"""Random subscriptions and publications of the MICS paper: cells of 256 to an axis, uniform or Zipf."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from tamis.curves.hilbert import HilbertCurve

__all__ = ["BITS", "KINDS", "READINGS", "SIDE", "Cells", "draw_boxes", "draw_cells", "ranges_of_each"]

Cells = npt.NDArray[np.int64]

BITS: Final = 8
SIDE: Final = 256
KINDS: Final = ("zipf", "uniform")
READINGS: Final = (
    "Zipf: p(v) ~ 1/(v + 1) on the cells 0 to 255; a side has `size` cells and is moved inside at the upper edge.",
)
_ZIPF: Final = np.cumsum(1 / np.arange(1, SIDE + 1)) / (1 / np.arange(1, SIDE + 1)).sum()


def draw_cells(n: int, d: int, kind: str, rng: np.random.Generator) -> Cells:
    """Draw cells int64[n, d], uniform or Zipf on every axis."""
    if kind == "uniform":
        return rng.integers(0, SIDE, (n, d))
    return np.searchsorted(_ZIPF, rng.random((n, d))).astype(np.int64)


def draw_boxes(n: int, d: int, kind: str, size: int, rng: np.random.Generator) -> Cells:
    """Draw boxes int64[n, 2, d] of ``size`` cells a side: lower and upper cells."""
    low = np.minimum(draw_cells(n, d, kind, rng), SIDE - size)
    return np.stack([low, low + size - 1], axis=1)


def ranges_of_each(curve: HilbertCurve, boxes: Cells) -> list[Cells]:
    """Return the ranges int64[m, 2] of every box."""
    offsets, ranges = curve.ranges_of(boxes)
    return np.split(ranges, offsets[1:-1])
