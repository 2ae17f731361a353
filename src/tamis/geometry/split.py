"""Splits the boxes of a node that became too large: linear, quadratic and R* split, for any number of axes.

Boxes are float64[n, d], low corners and high corners. The cost of a box is its area; if areas are equal (boxes
without area are common), its margin, the sum of its sides, decides.

Implements: A. Guttman, R-trees, SIGMOD 1984, section 3.5.2 (QuadraticSplit, PickSeeds, PickNext) and 3.5.3
(LinearPickSeeds), which [crtree] section 4.1 and [drtree] section 3.2 take over; N. Beckmann et al., The R*-tree,
SIGMOD 1990, sections 4.2 and 4.3.
Deviation: [drtree] describes the linear split with the seeds of the quadratic one; Guttman's linear seeds are those
that lie apart most, measured by the width of all boxes (erratum D.3.2).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["SPLITS", "area_and_margin", "farthest", "linear_split", "quadratic_split", "r_star_split"]

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
            if len(group) + len(left) == least:  # it needs all remaining boxes to reach ``least``
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


def linear_split(lo: _FloatArray, hi: _FloatArray, least: int) -> tuple[list[int], list[int]]:
    """Return two groups as `quadratic_split` does, in linear time: seeds by separation, the others in order.

    >>> linear_split(np.array([[0.0], [9.0], [1.0]]), np.array([[1.0], [10.0], [2.0]]), 1)
    ([0, 2], [1])
    """
    groups = [[seed] for seed in _pick_linear_seeds(lo, hi)]
    hulls = [(lo[group[0]], hi[group[0]]) for group in groups]
    left = [i for i in range(len(lo)) if i not in (groups[0][0], groups[1][0])]
    for position, box in enumerate(left):
        short = [group for group in groups if len(group) + len(left) - position == least]
        if short:
            short[0] += left[position:]
            break
        growth = np.stack([_growth(lo[box], hi[box], *hull) for hull in hulls])
        target = _pick_group(growth, hulls, groups)
        groups[target].append(box)
        hulls[target] = np.minimum(hulls[target][0], lo[box]), np.maximum(hulls[target][1], hi[box])
    return sorted(groups[0]), sorted(groups[1])


def _pick_linear_seeds(lo: _FloatArray, hi: _FloatArray) -> tuple[int, int]:
    """LinearPickSeeds: return the highest low end and the lowest high end of the axis on which they are most apart."""
    width = hi.max(axis=0) - lo.min(axis=0)
    highest_low, lowest_high = lo.argmax(axis=0), hi.argmin(axis=0)
    axes = np.arange(lo.shape[1])
    apart = lo[highest_low, axes] - hi[lowest_high, axes]
    axis = int(np.argmax(apart / np.where(width > 0, width, 1.0)))
    first, second = int(lowest_high[axis]), int(highest_low[axis])
    if first == second:  # one box lies within all others there: any other one is a seed
        second = 1 if first == 0 else 0
    return first, second


def r_star_split(lo: _FloatArray, hi: _FloatArray, least: int) -> tuple[list[int], list[int]]:
    """Return two groups as `quadratic_split` does: the axis with the least margins, its cut with the least overlap.

    >>> r_star_split(np.array([[0.0], [9.0], [1.0]]), np.array([[1.0], [10.0], [2.0]]), 1)
    ([0, 2], [1])
    """
    best: tuple[float, list[_Cut]] | None = None
    for axis in range(lo.shape[1]):
        cuts = [
            cut
            for order in (np.lexsort((hi[:, axis], lo[:, axis])), np.lexsort((lo[:, axis], hi[:, axis])))
            for cut in _cuts(order, lo, hi, least)
        ]
        margins = sum(cut[0] for cut in cuts)
        if best is None or margins < best[0]:
            best = margins, cuts
    assert best is not None
    _, _, _, first, second = min(best[1], key=lambda cut: cut[1:3])
    return (first, second) if first[0] < second[0] else (second, first)


#: The margins of two groups, their overlap, their areas, and the groups.
_Cut = tuple[float, float, float, list[int], list[int]]


def _cuts(order: npt.NDArray[np.int64], lo: _FloatArray, hi: _FloatArray, least: int) -> list[_Cut]:
    """Return every distribution of boxes in an order to a first and a second group."""
    first_lo, first_hi = np.minimum.accumulate(lo[order]), np.maximum.accumulate(hi[order])
    last_lo, last_hi = np.minimum.accumulate(lo[order[::-1]])[::-1], np.maximum.accumulate(hi[order[::-1]])[::-1]
    positions = range(max(least, 1), len(order) - max(least, 1) + 1)
    firsts = area_and_margin(first_lo, first_hi)
    lasts = area_and_margin(last_lo, last_hi)
    shared = np.maximum(np.minimum(first_hi[:-1], last_hi[1:]) - np.maximum(first_lo[:-1], last_lo[1:]), 0.0)
    overlap = shared.prod(axis=1)
    return [
        (
            float(firsts[k - 1, 1] + lasts[k, 1]),
            float(overlap[k - 1]),
            float(firsts[k - 1, 0] + lasts[k, 0]),
            sorted(order[:k].tolist()),
            sorted(order[k:].tolist()),
        )
        for k in positions
    ]


def farthest(lo: _FloatArray, hi: _FloatArray, count: int) -> list[int]:
    """Return the boxes whose centres are farthest from the centre of all, the nearest of them first (close reinsert).

    >>> farthest(np.array([[0.0], [4.0], [5.0]]), np.array([[1.0], [5.0], [6.0]]), 1)
    [0]
    """
    middle = (lo.min(axis=0) + hi.max(axis=0)) / 2
    distance = (((lo + hi) / 2 - middle) ** 2).sum(axis=1)
    return [int(i) for i in np.argsort(-distance, kind="stable")[:count][::-1]]


#: The splits by name.
SPLITS = {"linear": linear_split, "quadratic": quadratic_split, "r*": r_star_split}
