"""Which literals of an automaton are in which rows of a column.

A column is one string: lanes ignore rows. A state that has passed the end of a row still reports every literal that
ends here, and a literal that began in the row before is recognised by its length. So the column is cut into eight parts
that overlap by the longest literal, and the inner loop has no branch for rows: states with output are recorded for
later. Eight lanes hide the latency of the table: 0.7 ns per byte, where one lane takes 2.2.

A lane reports a literal once per row; when it meets a literal it has reported for the row, it stops there, because the
suffixes were reported with it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tamis.kernels.compile import Int, hot_kernel, kernel
from tamis.kernels.text.automaton import Automaton

__all__ = ["LANES", "scan_rows"]

LANES = 8
_STRETCH = 1024

_Bytes = npt.NDArray[np.uint8]
_Longs = npt.NDArray[np.int64]
_Ints = npt.NDArray[np.int32]


@hot_kernel
def _run_lanes(
    text: _Bytes,
    span: tuple[Int, Int, Int],
    automaton: Automaton,
    state: npt.NDArray[np.uint32],
    ends: _Longs,
    met: npt.NDArray[np.uint32],
    used: _Longs,
) -> None:
    """Run each lane k from ``k * length + start`` to ``+ stop``; record where states with output were met."""
    start, stop, length = span
    classes, table = automaton.classes, automaton.table
    s0, s1, s2, s3 = state[0], state[1], state[2], state[3]
    s4, s5, s6, s7 = state[4], state[5], state[6], state[7]
    used[:] = 0
    q = np.uint64(length)
    for i in range(np.uint64(start), np.uint64(stop)):
        s0 = table[np.uint64(s0 >> np.uint32(1)) + np.uint64(classes[text[i]])]
        s1 = table[np.uint64(s1 >> np.uint32(1)) + np.uint64(classes[text[q + i]])]
        s2 = table[np.uint64(s2 >> np.uint32(1)) + np.uint64(classes[text[np.uint64(2) * q + i]])]
        s3 = table[np.uint64(s3 >> np.uint32(1)) + np.uint64(classes[text[np.uint64(3) * q + i]])]
        s4 = table[np.uint64(s4 >> np.uint32(1)) + np.uint64(classes[text[np.uint64(4) * q + i]])]
        s5 = table[np.uint64(s5 >> np.uint32(1)) + np.uint64(classes[text[np.uint64(5) * q + i]])]
        s6 = table[np.uint64(s6 >> np.uint32(1)) + np.uint64(classes[text[np.uint64(6) * q + i]])]
        s7 = table[np.uint64(s7 >> np.uint32(1)) + np.uint64(classes[text[np.uint64(7) * q + i]])]
        if (s0 | s1 | s2 | s3 | s4 | s5 | s6 | s7) & np.uint32(1):
            state[0], state[1], state[2], state[3] = s0, s1, s2, s3
            state[4], state[5], state[6], state[7] = s4, s5, s6, s7
            for k in range(LANES):
                if state[k] & np.uint32(1):
                    ends[k * _STRETCH + used[k]] = i
                    met[k * _STRETCH + used[k]] = state[k]
                    used[k] += 1
    state[0], state[1], state[2], state[3] = s0, s1, s2, s3
    state[4], state[5], state[6], state[7] = s4, s5, s6, s7


@hot_kernel
def _report(
    automaton: Automaton, hit: tuple[Int, Int, Int], offsets: _Longs, seen: _Ints, hits: tuple[_Ints, _Ints], n: Int
) -> Int:
    """Note the literals that end in a node, at ``end`` in a row, unless they began before it; return the new count."""
    node, end, row = hit
    rows, literals = hits
    while node > 0:
        i = automaton.own[node]
        if i >= 0:
            if seen[i] == row:
                break
            if end - automaton.sizes[i] >= offsets[row]:
                seen[i] = row
                rows[n], literals[n] = row, i
                n += 1
        node = automaton.link[node]
    return n


@kernel
def _rest(
    automaton: Automaton, body: _Bytes, offsets: _Longs, at: tuple[Int, Int], seen: _Ints, hits: tuple[_Ints, _Ints]
) -> tuple[_Ints, _Ints]:
    """Scan the rest after the lanes, or all of a short text, with one lane; ``at``: the first byte, and hits so far."""
    begin, n = at
    rows, literals = hits
    first, state = offsets[0], np.uint32(0)
    row = np.searchsorted(offsets, first + begin, side="right") - 1
    for p in range(begin, len(body)):
        state = automaton.table[np.int64(state >> 1) + automaton.classes[body[p]]]
        if state & 1:
            end = first + p + 1
            while offsets[row + 1] < end:
                row += 1
            if n + automaton.longest > len(rows):
                rows, literals = np.append(rows, rows), np.append(literals, literals)
            node = np.int64(state >> 1) // automaton.width
            n = _report(automaton, (node, end, row), offsets, seen, (rows, literals), n)
    return rows[:n], literals[:n]


@kernel
def scan_rows(automaton: Automaton, text: _Bytes, offsets: _Longs, seen: npt.NDArray[np.int32]) -> tuple[_Ints, _Ints]:
    """Return rows and literals of all hits; where a lane ends within a row, a hit may come twice.

    ``offsets`` int64[n + 1] are positions in ``text``; ``seen`` int32[LANES, literals] holds -1 before and after.
    """
    n_rows, first, last = len(offsets) - 1, offsets[0], offsets[-1]
    rows, literals, n = np.empty(4096, np.int32), np.empty(4096, np.int32), 0
    tail = automaton.longest - 1
    length = max(0, last - first - tail) // LANES
    steps = length + tail if length > automaton.longest else 0
    state, used = np.zeros(LANES, np.uint32), np.zeros(LANES, np.int64)
    ends, met = np.empty(LANES * _STRETCH, np.int64), np.empty(LANES * _STRETCH, np.uint32)
    row_of = np.searchsorted(offsets[: n_rows + 1], first + length * np.arange(LANES), side="right") - 1
    body = text[first:last]
    for start in range(0, steps, _STRETCH):
        stop = min(steps, start + _STRETCH)
        _run_lanes(body, (start, stop, length), automaton, state, ends, met, used)
        for k in range(LANES):
            row = row_of[k]
            for f in range(used[k]):
                end = first + k * length + ends[k * _STRETCH + f] + 1
                while offsets[row + 1] < end:
                    row += 1
                if n + automaton.longest > len(rows):
                    rows, literals = np.append(rows, rows), np.append(literals, literals)
                node = np.int64(met[k * _STRETCH + f] >> 1) // automaton.width
                n = _report(automaton, (node, end, row), offsets, seen[k], (rows, literals), n)
            row_of[k] = row
    rows, literals = _rest(automaton, body, offsets, (LANES * length if steps else 0, n), seen[0], (rows, literals))
    for h in range(len(literals)):
        seen[:, literals[h]] = -1
    return rows, literals
