"""A regular expression on one text, all its threads at once as bits: for expressions with too many states to keep.

A word has 64 steps, so that eight hold the 500 steps of the longest program and the bit `MET`. A character costs one
pass over the threads that are alive, whatever texts came before.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from tamis.kernels.compile import hot_kernel
from tamis.kernels.emit import lowest_bit

__all__ = ["MET", "WORDS", "run_threads"]

#: Words of a set of steps, and the bit that says that the expression was met.
WORDS: Final = 8
MET: Final = 64 * WORDS - 1

_Bits = npt.NDArray[np.uint64]


@hot_kernel
def _count_runs(runs: npt.NDArray[np.int64], counts: npt.NDArray[np.int64], taken: _Bits) -> None:
    """Count the characters that runs took, and take their steps out of ``taken``: they do not move on."""
    for r in range(runs.shape[0]):
        word, bit = runs[r, 0] >> 6, np.uint64(1) << np.uint64(runs[r, 0] & 63)
        if taken[word] & bit:
            counts[r] += 1
            taken[word] &= ~bit
        else:
            counts[r] = 0


@hot_kernel
def run_threads(
    cells: npt.NDArray[np.int64],
    kinds: npt.NDArray[np.int64],
    closures: _Bits,
    takes: _Bits,
    is_anchored: bool,
    scratch: _Bits,
    runs: npt.NDArray[np.int64],
    counts: npt.NDArray[np.int64],
) -> bool:
    """Whether an expression fits somewhere in a text, given the cells of its characters.

    ``kinds`` are of what stands at each position: before the text, each character, behind the text.
    ``closures[before, after, step]`` are the steps that take a character next, ``takes[cell]`` those that take one of
    this cell: each goes on at the step behind it. ``scratch`` uint64[2, WORDS] holds the threads. ``runs`` int64[n, 2]
    are the steps that stay where they are, and the characters each takes before it may end; ``counts`` int64[n] what
    they have taken, zeros at first.
    """
    threads, alive = scratch[0], scratch[1]
    for w in range(WORDS):
        threads[w] = np.uint64(0)
    threads[0] = np.uint64(1)
    for place in range(cells.size + 1):
        for w in range(WORDS):
            alive[w] = np.uint64(0)
        before, after = kinds[place], kinds[place + 1]
        for w in range(WORDS):
            bits = threads[w]
            while bits:
                step = 64 * w + lowest_bit(bits)
                bits &= bits - np.uint64(1)
                for v in range(WORDS):
                    alive[v] |= closures[before, after, step, v]
        for r in range(runs.shape[0]):
            if counts[r] >= runs[r, 1]:
                for v in range(WORDS):
                    alive[v] |= closures[before, after, runs[r, 0] + 1, v]
        if alive[WORDS - 1] >> np.uint64(63):
            return True
        if place < cells.size:
            for w in range(WORDS):
                alive[w] &= takes[cells[place], w]
            _count_runs(runs, counts, alive)
            carry = np.uint64(0 if is_anchored else 1)
            for w in range(WORDS):
                threads[w] = alive[w] << np.uint64(1) | carry
                carry = alive[w] >> np.uint64(63)
            for r in range(runs.shape[0]):
                if counts[r]:
                    threads[runs[r, 0] >> 6] |= np.uint64(1) << np.uint64(runs[r, 0] & 63)
    return False
