"""Entries: the row and filter of each box of the special index, in columns.

Rows come in ascending order and never again, so the entries of a row stand together and are found by
bisection. Nothing here is an object per subscription: the columns can be saved and mapped again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tamis.index.saved_arrays import Ascending, Declared, Flags, SavedArrays

__all__ = ["Entries"]

_FIRST_ROOM = 64

_ARRAYS: Final = {
    "row": Declared(np.int32, ("entries",), Ascending("rows", strict=False)),
    "filter": Declared(np.uint16, ("entries",)),
    "exact": Declared(np.bool_, ("entries",), Flags()),
}


class Entries:
    """Columns that grow: entry i belongs to ``row[i]``, to the filter ``filter[i]`` of its subscription.

    ``exact[i]`` says that the box decides alone for an event that is a point.

    >>> entries = Entries()
    >>> entries.append(7, [(0, True), (1, False)])
    range(0, 2)
    >>> entries.of(7), entries.of(6)
    (range(0, 2), range(0, 0))
    """

    def __init__(self) -> None:
        self._n = 0
        self.row: npt.NDArray[Any] = np.empty(_FIRST_ROOM, np.int32)
        self.filter: npt.NDArray[Any] = np.empty(_FIRST_ROOM, np.uint16)
        self.exact: npt.NDArray[Any] = np.empty(_FIRST_ROOM, np.bool_)
        #: Whether some row has several entries, and whether some box decides alone.
        self.has_several = False
        self.has_exact = False

    def __len__(self) -> int:
        return self._n

    def append(self, row: int, boxes: Sequence[tuple[int, bool]]) -> range:
        """Add an entry (filter, exact) per box of a row above all others; return their numbers."""
        start, stop = self._n, self._n + len(boxes)
        if stop > len(self.row):
            self._enlarge(max(2 * len(self.row), stop))
        for entry, (filter, exact) in enumerate(boxes, start):
            self.row[entry], self.filter[entry], self.exact[entry] = row, filter, exact
        self.has_several |= len(boxes) > 1
        self.has_exact |= any(exact for _, exact in boxes)
        self._n = stop
        return range(start, stop)

    def of(self, row: int) -> range:
        """Return the entries of a row."""
        if not self._n:
            return range(0)
        used = self.row[: self._n]
        return range(int(np.searchsorted(used, row, "left")), int(np.searchsorted(used, row, "right")))

    def of_rows(self, rows: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Return row and entry of each entry of some rows."""
        used = self.row[: self._n]
        starts, stops = np.searchsorted(used, rows, "left"), np.searchsorted(used, rows, "right")
        counts = stops - starts
        before = np.cumsum(counts) - counts
        numbers = np.arange(counts.sum()) + np.repeat(starts - before, counts)
        return np.repeat(rows, counts).astype(np.int32), numbers.astype(np.int32)

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the columns by name."""
        n = self._n
        return {"row": self.row[:n], "filter": self.filter[:n], "exact": self.exact[:n]}

    @classmethod
    def from_arrays(cls, arrays: SavedArrays, n_rows: int) -> Entries:
        """Open columns, checked, that may be read-only; the first entry that is added moves them."""
        entries, (columns, _) = cls(), arrays.take(_ARRAYS, rows=n_rows)
        entries.row, entries.filter, entries.exact = columns["row"], columns["filter"], columns["exact"]
        entries._n = len(entries.row)
        entries.has_several = bool((entries.row[1:] == entries.row[:-1]).any())
        entries.has_exact = bool(entries.exact.any())
        return entries

    def _enlarge(self, room: int) -> None:
        """Copy the columns to larger arrays; readers keep the old ones, which stay valid."""
        self.row = np.resize(self.row, room)
        self.filter = np.resize(self.filter, room)
        self.exact = np.resize(self.exact, room)
