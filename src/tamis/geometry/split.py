"""Splitting the boxes of a node that became too large: Guttman's quadratic split, for any number of axes.

Boxes are float64[n, d], low corners and high corners. What a box costs is its area; where areas tie (boxes without
an area are common) its margin, the sum of its sides, decides.

Implements: A. Guttman, R-trees, SIGMOD 1984, section 3.5.2 (QuadraticSplit, PickSeeds, PickNext), which [crtree]
section 4.1 and [drtree] take over.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["area_and_margin", "quadratic_split"]

_FloatArray = npt.NDArray[np.float64]


def area_and_margin(lo: _FloatArray, hi: _FloatArray) -> _FloatArray:
    """Return area and margin of boxes as one more axis of two.

    >>> area_and_margin(np.array([0.0, 0.0]), np.array([2.0, 3.0]))
    array([6., 5.])
    """
    sides = hi - lo
    return np.stack([sides.prod(axis=-1), sides.sum(axis=-1)], axis=-1)


def quadratic_split(lo: _FloatArray, hi: _FloatArray, least: int) -> tuple[list[int], list[int]]:
    """Return the numbers of the boxes of two groups, each of at least ``least`` boxes.

    Parameters
    ----------
    lo, hi
        float64[n, d], finite; clamp unbounded sides to the domain first.
    least
        At most n / 2.

    >>> quadratic_split(np.array([[0.0], [9.0], [1.0]]), np.array([[1.0], [10.0], [2.0]]), 1)
    ([0, 2], [1])
    """
    n = len(lo)
    groups = [[seed] for seed in _pick_seeds(lo, hi)]
    hulls = [(lo[group[0]].copy(), hi[group[0]].copy()) for group in groups]
    left = [i for i in range(n) if i not in (groups[0][0], groups[1][0])]
    while left:
        for group in groups:
            if len(group) + len(left) == least:  # it needs all that is left
                group += left
                return sorted(groups[0]), sorted(groups[1])
        growth = np.stack([_growth(lo[left], hi[left], *hull) for hull in hulls])
        chosen = _pick_next(growth)
        target = _pick_group(growth[:, chosen], hulls, groups)
        box = left.pop(chosen)
        groups[target].append(box)
        hulls[target] = np.minimum(hulls[target][0], lo[box]), np.maximum(hulls[target][1], hi[box])
    return sorted(groups[0]), sorted(groups[1])


def _growth(lo: _FloatArray, hi: _FloatArray, hull_lo: _FloatArray, hull_hi: _FloatArray) -> _FloatArray:
    """Return by how much a hull grows to take each box in: area and margin."""
    return area_and_margin(np.minimum(lo, hull_lo), np.maximum(hi, hull_hi)) - area_and_margin(hull_lo, hull_hi)


def _pick_seeds(lo: _FloatArray, hi: _FloatArray) -> tuple[int, int]:
    """PickSeeds: return the pair that would waste most if it were in one group."""
    first, second = np.triu_indices(len(lo), 1)
    hull = area_and_margin(np.minimum(lo[first], lo[second]), np.maximum(hi[first], hi[second]))
    own = area_and_margin(lo, hi)
    waste = hull - own[first] - own[second]
    worst = int(np.lexsort((waste[:, 1], waste[:, 0]))[-1])
    return int(first[worst]), int(second[worst])


def _pick_next(growth: _FloatArray) -> int:
    """PickNext: return the box that prefers one group most, given growth[group, box, area or margin]."""
    preference = np.abs(growth[0] - growth[1])
    return int(np.lexsort((preference[:, 1], preference[:, 0]))[-1])


def _pick_group(growth: _FloatArray, hulls: list[tuple[_FloatArray, _FloatArray]], groups: list[list[int]]) -> int:
    """Return the group that grows least; of equal ones the smaller, then the one with fewer boxes."""
    keys = [(*growth[i].tolist(), *area_and_margin(*hulls[i]).tolist(), len(groups[i])) for i in (0, 1)]
    return 0 if keys[0] <= keys[1] else 1
