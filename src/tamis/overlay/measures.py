"""Measures boxes, and chooses by them: the child to descend to, and the best cover.

Boxes are float64[n, 2, axes] in the unit space of `tamis.overlay.space`. Where areas tie (a box with one flat side has
none) margins decide, then the order of the children, which is the order in which they came.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tamis.overlay.space import Box

__all__ = ["CHOICES", "best_cover", "choose_r", "choose_r_star", "contains", "hull", "meets", "sizes", "volume"]

Boxes = npt.NDArray[np.float64]
Sizes = npt.NDArray[np.float64]


def hull(boxes: Boxes) -> Box:
    """Return the smallest box around boxes: their MBR."""
    return np.stack([boxes[:, 0].min(axis=0), boxes[:, 1].max(axis=0)])


def around(boxes: Boxes, box: Box) -> Boxes:
    """Return each box, enlarged to contain another one."""
    grown = np.empty_like(boxes)
    np.minimum(boxes[:, 0], box[0], out=grown[:, 0])
    np.maximum(boxes[:, 1], box[1], out=grown[:, 1])
    return grown


def contains(outer: Box, inner: Box) -> bool:
    """Whether a box lies within another."""
    return bool((outer[0] <= inner[0]).all() and (outer[1] >= inner[1]).all())


def meets(boxes: Boxes, box: Box) -> npt.NDArray[np.bool_]:
    """Return which boxes have a point in common with a box."""
    return np.array(((boxes[:, 0] <= box[1]) & (boxes[:, 1] >= box[0])).all(axis=1), np.bool_)


def widths(boxes: Boxes) -> npt.NDArray[np.float64]:
    """Return the lengths of the sides; the missing value has length 0.

    >>> widths(np.array([[[-1.0, 0.25], [1.0, 0.75]]]))
    array([[1. , 0.5]])
    """
    return np.maximum(boxes[..., 1, :], 0.0) - np.maximum(boxes[..., 0, :], 0.0)


def sizes(boxes: Boxes) -> Sizes:
    """Return area and margin (the sum of the sides) of boxes, float64[n, 2]."""
    sides = widths(boxes)
    return np.stack([sides.prod(axis=-1), sides.sum(axis=-1)], axis=-1)


def volume(box: Box) -> float:
    """Return the share of the space that a box takes."""
    return float(widths(box).prod())


def best_cover(boxes: Boxes) -> int:
    """Return the child that owns the node: the one with the largest MBR.

    A box that contains all others is among the largest. Deviation: "largest MBR" is the child's MBR, not its
    subscription (erratum D.3.7).

    Implements: [drtree] section 4, the choice of promoted peers.
    """
    return _first_best(-sizes(boxes))


def choose_r(boxes: Boxes, box: Box) -> int:
    """Return the child to descend to: least enlargement, then the smallest.

    Implements: [drtree] section 4, registering, variant R.
    """
    before = sizes(boxes)
    return _first_best(np.concatenate([sizes(around(boxes, box)) - before, before], axis=1))


def choose_r_star(boxes: Boxes, box: Box) -> int:
    """Return the child to descend to just above the leaves: least enlargement of overlap, then as `choose_r`.

    Implements: [drtree] section 4, registering, variant R*.
    """
    grown, before = around(boxes, box), sizes(boxes)
    overlap = _overlaps(grown, boxes) - _overlaps(boxes, boxes)
    return _first_best(np.concatenate([overlap[:, None], sizes(grown) - before, before], axis=1))


#: How to descend just above the leaves, by name; higher up it is always `choose_r`.
CHOICES = {"r": choose_r, "r*": choose_r_star}


def _overlaps(boxes: Boxes, others: Boxes) -> npt.NDArray[np.float64]:
    """Return for each box the sum of the areas it shares with the others (all but that of its own place)."""
    low = np.maximum(np.maximum(boxes[:, None, 0], others[None, :, 0]), 0.0)
    high = np.maximum(np.minimum(boxes[:, None, 1], others[None, :, 1]), 0.0)
    shared = np.maximum(high - low, 0.0).prod(axis=2)
    np.fill_diagonal(shared, 0.0)
    return np.array(shared.sum(axis=1))


def _first_best(keys: npt.NDArray[np.float64]) -> int:
    """Return the first row that is least: the first column decides, then the next."""
    rows = np.arange(len(keys))
    for column in range(keys.shape[1]):
        values = keys[rows, column]
        rows = rows[values == values.min()]
        if len(rows) == 1:
            break
    return int(rows[0])
