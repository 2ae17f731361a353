"""Balls in arrays that kernels read by address; the base of the fresh balls and of every part."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from tamis.index.balls.search import Search
from tamis.kernels import balls as kernels

__all__ = ["ROOM", "BallArrays", "Columns", "FreshBalls"]

_FloatArray = npt.NDArray[np.float64]

#: Rows int32[n], centers float64[n, d], radii float64[n].
Columns = tuple[npt.NDArray[np.int32], _FloatArray, _FloatArray]

#: Balls that can be fresh at once: scanning them takes some microseconds.
ROOM: Final = 512


class BallArrays:
    """n balls in slot order; ``alive[slot]`` goes from 1 to 0 when a ball is removed.

    Attributes
    ----------
    rows, centers, radii, alive
        int32, float64[, d], float64 and uint8; the first n count.
    """

    def __init__(self, rows: npt.NDArray[np.int32], centers: _FloatArray, radii: _FloatArray, n: int) -> None:
        self.rows, self.centers, self.radii = rows, centers, radii
        self.alive = np.ones(len(rows), np.uint8)
        self.n_dead = 0
        self._table = kernels.ball_table(centers, radii, self.alive, (0, n))

    @property
    def n_slots(self) -> int:
        """The number of used slots."""
        return int(self._table[3])

    def __len__(self) -> int:
        return self.n_slots - self.n_dead

    def remove(self, slot: int) -> None:
        """Mark a ball as removed."""
        self.alive[slot] = 0
        self.n_dead += 1

    def living(self) -> Columns:
        """Return the living balls."""
        slots = np.flatnonzero(self.alive[: self.n_slots])
        return self.rows[slots], self.centers[slots], self.radii[slots]

    def scan(self, search: Search) -> None:
        """Find covers by testing every ball."""
        begin = 0
        while begin < len(search):
            begin = kernels.scan_covers(self._table, search.queries, begin, search.first, search.hits)
            search.drain(self)
            if begin < len(search):
                search.enlarge(max(2 * search.room, len(self.rows)))

    def find_covered(self, center: _FloatArray, radius: float) -> npt.NDArray[np.uint8]:
        """Return, by slot, whether (center, radius) covers a ball: the codes of `tamis.kernels.vectors`."""
        table = self._table
        sides = np.empty(int(table[3]), np.uint8)
        kernels.scan_covered(table, center, radius, sides)
        return sides


class FreshBalls(BallArrays):
    """Up to ``ROOM`` balls in the order they came. A ball is written before the count that shows it."""

    def __init__(self, d: int) -> None:
        super().__init__(np.empty(ROOM, np.int32), np.empty((ROOM, d)), np.empty(ROOM), 0)

    @property
    def is_full(self) -> bool:
        """Whether there is no room for another ball."""
        return self.n_slots == ROOM

    def append(self, row: int, center: npt.ArrayLike, radius: float) -> None:
        """Add a ball; there must be room."""
        i = self.n_slots
        self.centers[i], self.radii[i], self.rows[i] = center, radius, row
        table = self._table.copy()
        table[3] = i + 1
        self._table = table

    def find(self, row: int) -> int | None:
        """Return the slot of a living row."""
        slots = np.flatnonzero((self.rows[: self.n_slots] == row) & (self.alive[: self.n_slots] != 0))
        return int(slots[0]) if slots.size else None
