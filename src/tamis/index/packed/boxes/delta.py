"""The small mutable part: boxes in the order of their arrival, found by scanning every block.

A box is written to a free lane first and its alive bit is set last, so a reader sees a box whole or not
at all. Lanes are never used twice: when the lanes or the room for entries run out, the index turns the
living boxes into a segment and starts a new delta. Readers of the old delta keep it.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from tamis.index.packed.boxes.coding import Coding
from tamis.index.packed.boxes.segment import columns_of, corners_of, padded
from tamis.index.packed.boxes.slots import Slots
from tamis.kernels import directory as at
from tamis.kernels.boxes.bits import set_bits
from tamis.kernels.boxes.sparse import Boxes, take_boxes
from tamis.kernels.boxes.tree import append_lanes

__all__ = ["CAPACITY", "ENTRIES", "Delta"]

#: Boxes that a delta can hold. Scanning them all costs about three microseconds on four axes.
CAPACITY: Final = 2_048
#: Entries (constrained axes of boxes) that a delta can hold: eight per box on average.
ENTRIES: Final = 8 * CAPACITY


class Delta(Slots):
    """Up to ``CAPACITY`` boxes over a fixed set of columns and one coding.

    Attributes
    ----------
    row
        int64[WIDTH]; replaced, never changed, when boxes are appended.
    """

    def __init__(self, coding: Coding, columns: npt.NDArray[np.int32]) -> None:
        super().__init__(0, np.zeros(CAPACITY // 8, np.uint8))
        self.coding = coding
        self.columns = columns
        self.boxes = Boxes(np.zeros(CAPACITY + 1, np.uint32), np.empty(ENTRIES, np.int16), np.empty((ENTRIES, 2)))
        self.rows = padded(np.zeros(CAPACITY, np.int32))
        self._blocks = np.zeros(CAPACITY * 2 * columns.size, np.int16)
        #: Whether an axis is a column with knots: the column of a delta that began with a free box has none.
        self._has_knots = np.zeros(int(columns[-1]) + 1, bool)
        self._has_knots[[axis for axis in columns.tolist() if coding.quantiser.has_axes(np.array([axis]))]] = True
        self.row = self._directory_row()

    @classmethod
    def start(cls, boxes: Boxes, coding: Coding | None) -> Delta:
        """Make an empty delta for boxes like these; ``coding`` is used again if it has their axes."""
        if coding is None or not coding.quantiser.has_axes(columns_of(boxes) if boxes.axis.size else np.zeros(0, int)):
            coding = Coding.train(boxes)
        return cls(coding, columns_of(boxes))

    @property
    def n_bytes(self) -> int:
        """Bytes of all arrays, free lanes included."""
        return sum(array.nbytes for array in (*self.boxes, self.rows, self.alive, self._blocks))

    def is_poorly_coded(self) -> bool:
        """Return whether the knots come from so few boxes that most codes would tie."""
        return self.n_slots >= 64 and 8 * self.coding.trained_on < self.n_slots

    def has_room(self, boxes: Boxes) -> bool:
        """Return whether these boxes fit into the free lanes."""
        n, used = boxes.first.size - 1, int(self.boxes.first[self.n_slots])
        return self.n_slots + n <= CAPACITY and used + boxes.axis.size <= self.boxes.axis.size

    def knows(self, boxes: Boxes) -> bool:
        """Return whether every axis of these boxes is a column with knots (a free box has neither)."""
        if boxes.axis.size == 0:
            return True
        return bool(boxes.axis.max() < self._has_knots.size and self._has_knots[boxes.axis].all())

    def append(self, boxes: Boxes, rows: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        """Add boxes, for which there must be room and columns; return their slots."""
        start, n = self.n_slots, rows.size
        take_boxes(boxes, np.arange(n), self.boxes, start)
        append_lanes(self._blocks, corners_of(boxes, self.coding.codes_of(boxes), self.columns), start)
        self.rows[start : start + n] = rows
        set_bits(self.alive, start, start + n)
        self.n_slots = start + n
        self.row = self.row.copy()
        self.row[at.N_SLOTS] = self.n_slots
        return np.arange(start, start + n, dtype=np.int32)

    def _directory_row(self) -> npt.NDArray[np.int64]:
        row = np.zeros(at.WIDTH, np.int64)
        row[at.FIRST : at.ENDS + 1] = [array.ctypes.data for array in self.boxes]
        row[at.ROWS], row[at.ALIVE] = self.rows.ctypes.data, self.alive.ctypes.data
        row[at.N_SLOTS], row[at.LAYOUT] = self.n_slots, at.FLAT
        row[at.QUANTISER : at.QUANTISER + 5] = self.coding.table
        row[at.COLUMN_AXES], row[at.N_COLUMNS] = self.columns.ctypes.data, self.columns.size
        row[at.LEAVES] = self._blocks.ctypes.data
        return row
