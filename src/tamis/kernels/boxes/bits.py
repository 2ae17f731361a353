"""Alive bits: one per slot, little end first, so that sixteen slots of a block are one uint16.

The writer clears bits in place while readers scan: a reader sees a removal at once or at its next call,
and never a torn one, since a byte is written whole.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tamis.kernels.compile import Int, hot_kernel

__all__ = ["adopt_rows", "clear_bits", "live_slots", "set_bits"]


@hot_kernel
def clear_bits(alive: npt.NDArray[np.uint8], slots: npt.NDArray[np.int32]) -> Int:
    """Clear the bits of ``slots``; return how many were set. A slot may be named twice."""
    cleared = 0
    for i in range(slots.size):
        slot = np.int64(slots[i])
        bit = np.uint8(1 << (slot & 7))
        if alive[slot >> 3] & bit != 0:
            alive[slot >> 3] = alive[slot >> 3] & np.uint8(255 - bit)
            cleared += 1
    return cleared


@hot_kernel
def set_bits(alive: npt.NDArray[np.uint8], start: Int, stop: Int) -> None:
    """Set the bits of the slots ``start`` to ``stop - 1``."""
    for slot in range(start, stop):
        alive[slot >> 3] = alive[slot >> 3] | np.uint8(1 << (slot & 7))


@hot_kernel
def live_slots(alive: npt.NDArray[np.uint8], n_slots: Int, slots: npt.NDArray[np.int64]) -> Int:
    """Write the slots below ``n_slots`` whose bit is set, ascending; return how many."""
    count = 0
    for slot in range(n_slots):
        slots[count] = slot
        count += (alive[slot >> 3] >> (slot & 7)) & 1
    return count


@hot_kernel
def adopt_rows(
    rows: npt.NDArray[np.int32],
    sources: npt.NDArray[np.int32],
    serial: Int,
    home: npt.NDArray[np.int32],
    slot_of: npt.NDArray[np.int32],
    alive: npt.NDArray[np.uint8],
) -> Int:
    """Move rows to the segment ``serial``, where row ``rows[i]`` has slot ``i``; return how many had left.

    A row still lives in one of the segments ``sources`` unless it was removed (and perhaps added again
    elsewhere) while the new segment was being built; then its bit in ``alive`` is cleared instead.
    """
    n_gone = 0
    for i in range(rows.size):
        row = rows[i]
        is_present = False
        for j in range(sources.size):
            is_present |= home[row] == sources[j]
        if is_present:
            home[row] = serial
            slot_of[row] = i
        else:
            alive[i >> 3] = alive[i >> 3] & np.uint8(255 - (1 << (i & 7)))
            n_gone += 1
    return n_gone
