"""How many of some boxes no other one covers, counted by the exact covering index."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tamis.index.dominance.index import DominanceIndex
from tamis.model.tables import SubscriptionTable

__all__ = ["BoxArray", "count_announced", "count_uncovered"]

BoxArray = npt.NDArray[np.float64]


def count_uncovered(boxes: BoxArray) -> int:
    """Count the boxes that no other one covers, and one of equals.

    A cover has longer sides, so that in the order of their sum the first cover of a box is itself or comes earlier.

    >>> count_uncovered(np.array([[[0.0], [9.0]], [[1.0], [2.0]], [[8.0], [10.0]], [[0.0], [9.0]]]))
    2
    """
    return count_announced(boxes[np.argsort(-(boxes[:, 1] - boxes[:, 0]).sum(axis=1), kind="stable")])


def count_announced(boxes: BoxArray) -> int:
    """Count the boxes that no earlier one covers: what a link announces when they come one by one."""
    rows = np.arange(len(boxes), dtype=np.int32)
    names = [f"a{axis}" for axis in range(boxes.shape[2])]
    table = SubscriptionTable.from_boxes(names, boxes[:, 0], boxes[:, 1])
    index = DominanceIndex()
    index.add_boxes(rows, table)
    return int((index.find_covers(table) == rows).sum())
