"""Random subscriptions of the distributed R-tree paper: boxes on 0..1000, a share of them inside others."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

__all__ = ["DISTRIBUTIONS", "DOMAIN", "READINGS", "Boxes", "draw_containment_boxes"]

Boxes = npt.NDArray[np.float64]

DOMAIN: Final = 1_000
#: Share of the boxes that are drawn; every further one is a part of one that is there.
DISTRIBUTIONS: Final = {
    f"{origin}-{drawn}:{100 - drawn}" if drawn < 100 else origin: (origin, drawn / 100)
    for drawn in (100, 25, 10)
    for origin in ("uniform", "zipf")
}
READINGS: Final = (
    "The origin of a range is a whole number, uniform or Zipf p(v) ~ 1/(v + 1) on 0..1000; its size is uniform.",
    "A contained box: each origin uniform inside the box around it, the size uniform in the room left.",
    "Subscriptions come in random order.",
)
_ZIPF: Final = np.cumsum(1 / np.arange(1, DOMAIN + 2)) / (1 / np.arange(1, DOMAIN + 2)).sum()


def draw_containment_boxes(n: int, d: int, distribution: str, rng: np.random.Generator, most: float = DOMAIN) -> Boxes:
    """Draw boxes float64[n, 2, d] of one of `DISTRIBUTIONS`, in random order; sides are at most ``most`` long."""
    origin, share = DISTRIBUTIONS[distribution]
    drawn = max(1, round(n * share))
    boxes = np.empty((n, 2, d))
    low = _draw_origins(drawn, d, origin, rng)
    boxes[:drawn, 0] = low
    boxes[:drawn, 1] = low + rng.random((drawn, d)) * np.minimum(DOMAIN - low, most)
    for row in range(drawn, n):
        outer = boxes[rng.integers(row)]
        inner = outer[0] + rng.random(d) * (outer[1] - outer[0])
        boxes[row] = inner, inner + rng.random(d) * (outer[1] - inner)
    shuffled: Boxes = rng.permutation(boxes)
    return shuffled


def _draw_origins(n: int, d: int, origin: str, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    if origin == "uniform":
        return rng.integers(0, DOMAIN + 1, (n, d))
    return np.searchsorted(_ZIPF, rng.random((n, d))).astype(np.int64)
