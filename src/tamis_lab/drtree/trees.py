"""Trees of real peers over the paper's workloads, and what single events meet in them."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from tamis.overlay.seat import Seat, Shape
from tamis_lab.peers.containment import containment_boxes, grow_tree

__all__ = ["DEFAULT", "READINGS", "SPLITS", "Floats", "count_events", "draw", "grow", "mean_hits"]

Floats = npt.NDArray[np.float64]

SPLITS: Final = ("linear", "quadratic", "r*")
#: The paper's m and M.
DEFAULT: Final = (5, 10)
READINGS: Final = (
    "The origin of a range is a whole number, uniform or Zipf p(v) ~ 1/(v + 1) on 0..1000; its size is uniform.",
    "A contained box: each origin uniform inside the box around it, the size uniform in the room left.",
    "Subscriptions come in random order.",
)
#: Events that are looked at together.
_AT_ONCE: Final = 50


def draw(distribution: str, n: int, d: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Draw n boxes of d attributes, float64[n, d] low and high."""
    return containment_boxes(distribution, n, d, seed=int(rng.integers(2**31)))


def grow(lo: Floats, hi: Floats, split: str, limits: tuple[int, int] = DEFAULT) -> list[Seat]:
    """Let a peer join for each box, one after another; return their seats in the tree they form."""
    return list(grow_tree(lo, hi, Shape(*limits, split)).seats())


def mean_hits(lo: Floats, hi: Floats, side: float) -> float:
    """Return the share of boxes that a uniform event lies in, on average: their mean volume."""
    return float(((hi - lo) / side).prod(axis=1).mean())


def count_events(seats: list[Seat], events: Floats) -> npt.NDArray[np.int64]:
    """Return int64[m, 2]: how many peers want each event of the unit space, and how many receive it in vain."""
    boxes = np.array([seat.box for seat in seats])
    outer = np.array([seat.mbr(seat.top) for seat in seats])
    counts = []
    for few in np.array_split(events, max(1, len(events) // _AT_ONCE)):
        wanted, received = _inside(few, boxes), _inside(few, outer)
        counts.append(np.stack([wanted.sum(axis=1), (received & ~wanted).sum(axis=1)], axis=1))
    return np.concatenate(counts)


def _inside(events: Floats, boxes: Floats) -> npt.NDArray[np.bool_]:
    at = events[:, None]
    return np.array(((boxes[None, :, 0] <= at) & (boxes[None, :, 1] >= at)).all(axis=2), np.bool_)
