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
def run_threads(
    cells: npt.NDArray[np.int64],
    kinds: npt.NDArray[np.int64],
    closures: _Bits,
    takes: _Bits,
    is_anchored: bool,
    scratch: _Bits,
) -> bool:
    """Whether an expression fits somewhere in a text, given the cells of its characters.

    ``kinds`` are of what stands at each position: before the text, each character, behind the text.
    ``closures[before, after, step]`` are the steps that take a character next, ``takes[cell]`` those that take one of
    this cell: each goes on at the step behind it. ``scratch`` uint64[2, WORDS] holds the threads.
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
        if alive[WORDS - 1] >> np.uint64(63):
            return True
        if place < cells.size:
            carry = np.uint64(0 if is_anchored else 1)
            for w in range(WORDS):
                taken = alive[w] & takes[cells[place], w]
                threads[w] = taken << np.uint64(1) | carry
                carry = taken >> np.uint64(63)
    return False
