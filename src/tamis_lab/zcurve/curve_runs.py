"""How many runs of a curve the cells of a box make: Z, Gray and Hilbert side by side, all cells of many boxes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

from tamis.curves.hilbert import HilbertCurve

__all__ = ["CURVES", "count_runs_of_boxes"]

Ints = npt.NDArray[np.int64]


def _z_keys(cells: Ints, bits: int) -> Ints:
    """Return the keys of cells int64[n, d] on the Z curve: the bits of the coordinates, interleaved."""
    keys = np.zeros(len(cells), np.int64)
    for bit in reversed(range(bits)):
        for axis in range(cells.shape[1]):
            keys = keys << 1 | cells[:, axis] >> bit & 1
    return keys


def _gray_keys(cells: Ints, bits: int) -> Ints:
    """Return the keys on the Gray code curve: the rank of the interleaved bits among the Gray codes."""
    keys, shift = _z_keys(cells, bits), 1
    while shift < bits * cells.shape[1]:
        keys = keys ^ keys >> shift
        shift *= 2
    return keys


def _hilbert_keys(cells: Ints, bits: int) -> Ints:
    return np.asarray(HilbertCurve(cells.shape[1], bits).keys(cells), np.int64)


#: The keys of cells int64[n, d] on a grid of 2^bits cells to an axis, by the curve's name.
CURVES: Final[Mapping[str, Callable[[Ints, int], Ints]]] = {
    "z": _z_keys,
    "gray": _gray_keys,
    "hilbert": _hilbert_keys,
}


def count_runs_of_boxes(low: Ints, sides: Ints, bits: int, curve: str) -> Ints:
    """Return int64[n]: the runs of each box with lower cells int64[n, d] and sides int64[d] that all boxes share.

    >>> count_runs_of_boxes(np.array([[0, 0], [1, 0]]), np.array([2, 2]), 2, "z").tolist()
    [1, 2]
    """
    n, d = low.shape
    inside = np.stack(np.meshgrid(*(np.arange(side) for side in sides), indexing="ij"), axis=-1).reshape(-1, d)
    cells = (low[:, None] + inside[None]).reshape(-1, d)
    keys = np.sort(CURVES[curve](cells, bits).reshape(n, -1), axis=1)
    runs: Ints = 1 + (np.diff(keys, axis=1) > 1).sum(axis=1)
    return runs
