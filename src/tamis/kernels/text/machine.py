"""Whether bytes match a regular expression, by a compiled state machine: one look-up per character.

A machine is a program of bytes that starts with `IS_MACHINE`, a byte that no UTF-8 has: the number of cells (one byte)
and of states (two), the cell of each ASCII character, the first code point of each cell (three bytes each), a byte for
each state that tells whether the text may end there, and the next state by state and cell (two bytes each). Numbers
are little-endian. State `MET` ends with a match, `DEAD` without one.

Programs may come from a file. So a program of the wrong length fits nothing, and neither does a state out of range.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tamis.kernels.compile import Int, hot_kernel

__all__ = ["DEAD", "HEADER", "IS_MACHINE", "MET", "fits_machine"]

IS_MACHINE = 0xFD
MET, DEAD = 0xFFFF, 0xFFFE
#: Bytes before the first code points of cells.
HEADER = 4 + 128

_Bytes = npt.NDArray[np.uint8]


@hot_kernel
def _code_point(text: _Bytes, j: Int, stop: Int) -> tuple[Int, Int]:
    """Return the code point that starts at a byte, and how many bytes it takes; the text is UTF-8."""
    first = np.int64(text[j])
    if first < 0x80:
        return first, 1
    size = 2 if first < 0xE0 else 3 if first < 0xF0 else 4
    code = first & (0xFF >> (size + 1))
    for k in range(1, size):
        code = code << 6 | (np.int64(text[min(j + k, stop - 1)]) & 0x3F)
    return code, size


@hot_kernel
def _cell(program: _Bytes, at: Int, n_cells: Int, code: Int) -> Int:
    """Return the last cell that does not begin after a code point."""
    low, high = 0, n_cells
    while high - low > 1:
        middle = (low + high) >> 1
        p = at + 3 * middle
        if np.int64(program[p]) | np.int64(program[p + 1]) << 8 | np.int64(program[p + 2]) << 16 <= code:
            low = middle
        else:
            high = middle
    return low


@hot_kernel
def fits_machine(program: _Bytes, i: Int, end: Int, text: _Bytes, j: Int, stop: Int) -> Int:
    """Whether a machine ``program[i:end]`` fits somewhere in ``text[j:stop]``."""
    if end - i < HEADER:
        return False
    n_cells, n_states = np.int64(program[i + 1]), np.int64(program[i + 2]) | np.int64(program[i + 3]) << 8
    ends = i + HEADER + 3 * n_cells
    table = ends + n_states
    if n_cells == 0 or n_states == 0 or table + 2 * n_states * n_cells != end:
        return False
    state: Int = 0
    while j < stop:
        c = text[j]
        if c < 0x80:
            cell = np.int64(program[i + 4 + c])
            j += 1
        else:
            code, size = _code_point(text, j, stop)
            cell = _cell(program, i + HEADER, n_cells, code)
            j += size
        if cell >= n_cells:
            return False
        p = table + 2 * (state * n_cells + cell)
        state = np.int64(program[p]) | np.int64(program[p + 1]) << 8
        if state >= n_states:
            return state == MET
    return program[ends + state] != 0
