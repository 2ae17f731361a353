"""Slots with alive bits; the base of a segment and of the delta.

A slot is born alive and dies once. The writer clears its bit in place, readers see that at once or at their next call.
``n_dead`` counts the slots whose bit was cleared, so ``n_live`` is the number of bits that are set.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tamis.kernels.boxes.bits import clear_bits, live_slots

__all__ = ["Slots"]


class Slots:
    """``n_slots`` slots, some of them dead.

    Attributes
    ----------
    alive
        uint8, one bit per slot; kernels read it while the writer clears bits.
    n_dead
        Slots that died.
    """

    def __init__(self, n_slots: int, alive: npt.NDArray[np.uint8]) -> None:
        self.n_slots = n_slots
        self.alive = alive
        self.n_dead = 0

    @property
    def n_live(self) -> int:
        """Slots that are not dead."""
        return self.n_slots - self.n_dead

    def find_live(self, alive: npt.NDArray[np.uint8] | None = None) -> npt.NDArray[np.int64]:
        """Return the living slots, ascending, by the given bits or the present ones."""
        slots = np.empty(self.n_slots + 1, np.int64)
        return slots[: live_slots(self.alive if alive is None else alive, self.n_slots, slots)]

    def kill(self, slots: npt.NDArray[np.int32]) -> int:
        """Clear the bits of slots; return how many were alive. A slot may be named twice."""
        died = int(clear_bits(self.alive, slots))
        self.n_dead += died
        return died

    def kill_one(self, slot: int) -> None:
        """Clear the bit of a living slot, without a kernel."""
        self.alive[slot >> 3] &= 255 - (1 << (slot & 7))
        self.n_dead += 1

    def count_dead(self, died: int) -> None:
        """Count slots whose bits a kernel has cleared."""
        self.n_dead += died
