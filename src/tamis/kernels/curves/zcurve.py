"""The search of an extremal rectangle along the Z curve, for keys of up to 62 bits.

:mod:`tamis.curves.zcurve` tells what the cubes are; here they are enumerated without an object per cube, the
largest first, each looked up in the sorted keys. The search stops at every run that is not empty, so that its
points can be verified, and goes on from there.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from tamis.kernels.bisection import bisect_left
from tamis.kernels.compile import Int, hot_kernel, inline_kernel

__all__ = ["CAPPED", "COUNT", "DONE", "PLACE", "SEARCHED", "SIDE", "STATE_SIZE", "STOP", "search_cubes", "write_z_keys"]

#: Fields of the state: exponent of the side, where in it (0: before its first rectangle), cubes looked up, cells
#: searched, end of the run that was found.
SIDE: Final = 0
PLACE: Final = 1
COUNT: Final = 2
SEARCHED: Final = 3
STOP: Final = 4
STATE_SIZE: Final = 5

#: What `search_cubes` returns when there is no further run.
DONE: Final = -1
CAPPED: Final = -2


@hot_kernel
def write_z_keys(cells: npt.NDArray[np.int64], k: Int, keys: npt.NDArray[np.int64]) -> None:
    """Write the Z keys int64[n] of cells int64[n, d] of k bits each; ``k * d`` is at most 62."""
    for e in range(cells.shape[0]):
        key = np.int64(0)
        for bit in range(k - 1, -1, -1):
            for j in range(cells.shape[1]):
                key = (key << 1) | ((cells[e, j] >> bit) & 1)
        keys[e] = key


@inline_kernel
def _next_cube(exponents: npt.NDArray[np.int64], i: Int, steps: npt.NDArray[np.int64]) -> bool:
    """Advance to the next cube of a rectangle; False after the last, when all steps are 0 again."""
    for j in range(steps.size):
        steps[j] += 1
        if steps[j] < np.int64(1) << (exponents[j] - i):
            return True
        steps[j] = 0
    return False


@inline_kernel
def _next_rectangle(lengths: npt.NDArray[np.int64], i: Int, exponents: npt.NDArray[np.int64]) -> bool:
    """Advance to the next choice of ones at or above i, one per side; False after the last."""
    for j in range(lengths.size):
        bit = exponents[j] - 1
        while bit >= i and (lengths[j] >> bit) & 1 == 0:
            bit -= 1
        if bit >= i:
            exponents[j] = bit
            return True
        exponents[j] = _top_bit(lengths[j])
    return False


@inline_kernel
def _top_bit(x: Int) -> Int:
    bit = np.int64(-1)
    while x > 0:
        x >>= 1
        bit += 1
    return bit


@inline_kernel
def _advance(lengths: npt.NDArray[np.int64], state: npt.NDArray[np.int64], cursor: npt.NDArray[np.int64]) -> bool:
    """Move to the next cube, of this rectangle, of this side or of a smaller one; False when there is none."""
    exponents, steps = cursor[0], cursor[1]
    if state[PLACE] == 1 and _next_cube(exponents, state[SIDE], steps):
        return True
    while state[SIDE] >= 0:
        if state[PLACE] == 0:
            for j in range(lengths.size):
                exponents[j] = _top_bit(lengths[j])
                steps[j] = 0
            state[PLACE] = 1
        elif not _next_rectangle(lengths, state[SIDE], exponents):
            state[SIDE] -= 1
            state[PLACE] = 0
            continue
        for j in range(lengths.size):
            if exponents[j] == state[SIDE]:  # a rectangle without such a side belongs to larger cubes
                return True
    return False


@inline_kernel
def _first_key(lengths: npt.NDArray[np.int64], k: Int, i: Int, cursor: npt.NDArray[np.int64]) -> Int:
    """Return the key of the first cell of the present cube."""
    key = np.int64(0)
    for bit in range(k - i - 1, -1, -1):
        for j in range(lengths.size):
            length = (lengths[j] >> cursor[0, j]) << cursor[0, j]
            index = (((np.int64(1) << k) - length) >> i) + cursor[1, j]
            key = (key << 1) | ((index >> bit) & 1)
    return key << (lengths.size * i)


@hot_kernel
def search_cubes(
    keys: npt.NDArray[np.int64],
    lengths: npt.NDArray[np.int64],
    k: Int,
    limits: tuple[Int, Int],
    state: npt.NDArray[np.int64],
    cursor: npt.NDArray[np.int64],
) -> Int:
    """Look up cubes until one is not empty; return where its run starts in ``keys``, or `DONE` or `CAPPED`.

    Parameters
    ----------
    keys
        Sorted int64[n].
    lengths, k
        Sides int64[d] of the extremal rectangle in a universe of k bits, ``k * d`` at most 62.
    limits
        Cells to be searched and cubes that may be looked up.
    state, cursor
        int64[STATE_SIZE] and int64[2, d]; at first zeros but for ``state[SIDE]``, the top bit of the shortest side.
    """
    d = lengths.size
    while state[SEARCHED] < limits[0]:
        if state[COUNT] >= limits[1]:
            return CAPPED
        if not _advance(lengths, state, cursor):
            return DONE
        i = state[SIDE]
        first = _first_key(lengths, k, i, cursor)
        start = bisect_left(keys, first, 0, keys.size)
        state[COUNT] += 1
        state[SEARCHED] += np.int64(1) << (d * i)
        last = first + (np.int64(1) << (d * i)) - 1
        if start < keys.size and keys[start] <= last:
            state[STOP] = bisect_left(keys, last + 1, start, keys.size)
            return start
    return DONE
