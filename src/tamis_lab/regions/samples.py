"""The boundary of a polygon as points, and where they lie in another: the loops of [crtree] Algorithm 1.

A sample has a *halo*: a boundary within that distance counts as met. Distances are float64 and rounded; what lies
beyond the halo is inside or outside exactly (`tamis.kernels.polygons.flat_rings.point_in_ring`).
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from tamis.kernels.compile import Int, hot_kernel
from tamis.kernels.polygons.flat_rings import INSIDE, ON, Corners, Rings, point_in_ring

__all__ = ["ALL_PLACES", "EITHER", "IN", "MEET", "OUT", "place", "place_samples", "spread_samples"]

#: Where samples were found, as bits.
MEET: Final = 1
IN: Final = 2
OUT: Final = 4
#: When to stop looking: when one was in and one out; when one was in or out; never.
ALL_PLACES: Final = IN | OUT
EITHER: Final = 0


@hot_kernel
def place(xy: npt.NDArray[np.float64], r: Int, halo: float, rings: Rings, j: Int, corners: Corners) -> Int:
    """Say where row ``r`` of xy lies: `MEET` within ``halo`` of the boundary of ring ``j``, else `IN` or `OUT`."""
    if halo > 0.0:
        x, y = xy[r, 0], xy[r, 1]
        for p in range(rings.start[j], rings.start[j + 1] - 1):
            from_x, from_y = rings.xy[p, 0], rings.xy[p, 1]
            dx, dy = rings.xy[p + 1, 0] - from_x, rings.xy[p + 1, 1] - from_y
            t = ((x - from_x) * dx + (y - from_y) * dy) / (dx * dx + dy * dy)
            t = min(1.0, max(0.0, t))
            off_x, off_y = x - from_x - t * dx, y - from_y - t * dy
            if off_x * off_x + off_y * off_y <= halo * halo:
                return np.int64(MEET)
    where = point_in_ring(xy, r, rings, j, corners)
    return np.int64(MEET if where == ON else (IN if where == INSIDE else OUT))


@hot_kernel
def place_samples(
    xy: npt.NDArray[np.float64],
    halos: npt.NDArray[np.float64],
    rings: Rings,
    j: Int,
    enough: Int,
    checks: npt.NDArray[np.int64],
    corners: Corners,
) -> Int:
    """Return the places at which samples were found in ring ``j``; ``checks[0]`` counts them.

    ``enough`` is `ALL_PLACES` (stop when one is in and one out), `EITHER` (stop when one is in or out) or -1.
    """
    seen = np.int64(0)
    for r in range(halos.size):
        seen |= place(xy, r, halos[r], rings, j, corners)
        checks[0] += 1
        decisive = seen & ALL_PLACES
        if (enough == ALL_PLACES and decisive == ALL_PLACES) or (enough == EITHER and decisive != 0):
            break
    return seen


@hot_kernel
def spread_samples(
    ring: npt.NDArray[np.float64],
    parts: npt.NDArray[np.int64],
    longest: bool,
    xy: npt.NDArray[np.float64],
    halos: npt.NDArray[np.float64],
) -> None:
    """Write the samples of a closed ring, edge p in ``parts[p]`` equal parts, and their halos.

    A halo is half the distance to the neighbours on the same edge; at a corner the shorter of two, or the longer.
    """
    n = parts.size
    at = 0
    before = _spacing(ring, n - 1, parts[n - 1])
    for p in range(n):
        spacing = _spacing(ring, p, parts[p])
        for k in range(parts[p]):
            share = k / parts[p]
            for axis in range(2):
                xy[at, axis] = ring[p, axis] + (ring[p + 1, axis] - ring[p, axis]) * share
            halos[at] = spacing / 2.0
            if k == 0:
                halos[at] = (max(before, spacing) if longest else min(before, spacing)) / 2.0
            at += 1
        before = spacing


@hot_kernel
def _spacing(ring: npt.NDArray[np.float64], p: Int, parts: Int) -> float:
    """Return the distance of the samples on edge ``p``."""
    return float(np.hypot(ring[p + 1, 0] - ring[p, 0], ring[p + 1, 1] - ring[p, 1]) / parts)
