"""Runs a regular expression on one text, all threads at once as bits: for expressions with too many states to store.

A word has 64 steps, so that eight words hold the 500 steps of the longest program and the bit `MET`. A character costs
one pass over the living threads, whatever texts were read before.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from tamis.kernels.compile import hot_kernel
from tamis.kernels.emit import lowest_bit

__all__ = ["MET", "WORDS", "run_threads"]

#: Words of a set of steps, and the bit that means that the expression matched.
WORDS: Final = 8
MET: Final = 64 * WORDS - 1

_Bits = npt.NDArray[np.uint64]


@hot_kernel
def _count_runs(runs: npt.NDArray[np.int64], counts: npt.NDArray[np.int64], steps: _Bits) -> None:
    """Count the characters that runs took, and remove their steps from ``steps``: they do not advance."""
    for r in range(runs.shape[0]):
        word, bit = runs[r, 0] >> 6, np.uint64(1) << np.uint64(runs[r, 0] & 63)
        if steps[word] & bit:
            counts[r] += 1
            steps[word] &= ~bit
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

    ``kinds`` are the kinds at each position: before the text, each character, after the text.
    ``closures[before, after, step]`` are the steps that take a character next, ``takes[cell]`` those that take one of
    this cell: each continues at the following step. ``scratch`` uint64[2, WORDS] holds the threads. ``runs``
    int64[n, 2] are the steps that repeat, and the characters each takes before it may end; ``counts`` int64[n] are the
    characters they have taken, zeros at first.
    """
    threads, alive = scratch[0], scratch[1]
    for w in range(WORDS):
        threads[w] = np.uint64(0)
    threads[0] = np.uint64(1)
    for position in range(cells.size + 1):
        for w in range(WORDS):
            alive[w] = np.uint64(0)
        kind_before, kind_after = kinds[position], kinds[position + 1]
        for w in range(WORDS):
            bits = threads[w]
            while bits:
                step = 64 * w + lowest_bit(bits)
                bits &= bits - np.uint64(1)
                for v in range(WORDS):
                    alive[v] |= closures[kind_before, kind_after, step, v]
        for r in range(runs.shape[0]):
            if counts[r] >= runs[r, 1]:
                for v in range(WORDS):
                    alive[v] |= closures[kind_before, kind_after, runs[r, 0] + 1, v]
        if alive[WORDS - 1] >> np.uint64(63):
            return True
        if position < cells.size:
            for w in range(WORDS):
                alive[w] &= takes[cells[position], w]
            _count_runs(runs, counts, alive)
            carry = np.uint64(0 if is_anchored else 1)
            for w in range(WORDS):
                threads[w] = alive[w] << np.uint64(1) | carry
                carry = alive[w] >> np.uint64(63)
            for r in range(runs.shape[0]):
                if counts[r]:
                    threads[runs[r, 0] >> 6] |= np.uint64(1) << np.uint64(runs[r, 0] & 63)
    return False
