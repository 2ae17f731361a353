"""The home of each row: the part that contains it, and its slot there.

A part gets a serial number, never used twice, when the first row moves in; serial 0 means "no home". Invariants, which
`RowHomes.check_invariants` verifies:

* a row has a home exactly if it was added and not removed;
* the home of a row is a living slot, and the part notes the same row for this slot;
* every living slot is the home of its row.

`RowHomes` belongs to the writer. `RowHomes.find` alone may be called by other threads: a row that is moving to another
part at that moment is looked up again.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tamis.errors import InvariantError
from tamis.index.packed.boxes.delta import Delta
from tamis.index.packed.boxes.segment import Segment
from tamis.kernels.boxes.bits import adopt_rows

__all__ = ["BoxPart", "RowHomes"]

_RowArray = npt.NDArray[np.int32]
#: A part that contains boxes.
BoxPart = Segment | Delta


class RowHomes:
    """The part and slot of every row. Memory grows with the largest row."""

    def __init__(self) -> None:
        #: ``{serial: part}`` and ``{id(part): serial}`` of the parts that hold rows.
        self._parts: dict[int, BoxPart] = {}
        self._serials: dict[int, int] = {}
        self._next_serial = 1
        #: Serial of the part that holds a row (0: none), and its slot there.
        self._home = np.zeros(0, np.int32)
        self._slot_of = np.zeros(0, np.int32)
        self._n_rows = 0

    def __len__(self) -> int:
        """Count the rows that have a home."""
        return self._n_rows

    def __contains__(self, row: int) -> bool:
        return 0 <= row < self._home.size and bool(self._home[row])

    def rows(self) -> _RowArray:
        """Return the rows that have a home, ascending."""
        return np.flatnonzero(self._home).astype(np.int32)

    def check_new(self, rows: _RowArray) -> None:
        """Raise ``ValueError`` if a row is negative, in use or named twice; make room for the rows otherwise."""
        if rows.size == 0:
            return
        if rows.min() < 0:
            raise ValueError(f"row {rows.min()} is negative")
        self._make_room(rows)
        if self._home[rows].any():
            raise ValueError(f"row {rows[np.flatnonzero(self._home[rows])[0]]} is in use")
        if rows.size > 1:
            _check_distinct(rows, self._slot_of)

    def add(self, part: BoxPart, rows: _RowArray, slots: _RowArray) -> None:
        """Assign slots of a part to rows that :meth:`check_new` has accepted."""
        self.move(part, rows, slots)
        self._n_rows += rows.size

    def add_living(self, part: Segment) -> bool:
        """Assign the living slots of an existing part to its rows; return False if a row has a home already."""
        live = part.find_live()
        rows = part.rows[live]
        self._make_room(rows)
        if self._home[rows].any():
            return False
        self.add(part, rows, live.astype(np.int32))
        return bool((self._slot_of[rows] == live).all())

    def move(self, part: BoxPart, rows: _RowArray, slots: _RowArray) -> None:
        """Move rows that have a home to these slots of a part."""
        self._home[rows] = self._serial(part)
        self._slot_of[rows] = slots

    def forget(self, part: BoxPart) -> int:
        """Forget a part, whose rows are about to move; return the serial it had (0: none)."""
        serial = self._serials.pop(id(part), 0)
        self._parts.pop(serial, None)
        return serial

    def replace(self, sources: Sequence[BoxPart], result: Segment | None) -> None:
        """Move the rows of some parts to the segment built of them; slots of rows that left meanwhile die."""
        serials = np.array([self.forget(part) for part in sources], np.int32)
        if result is not None:
            serial = self._serial(result)
            result.count_dead(adopt_rows(result.rows, serials, serial, self._home, self._slot_of, result.alive))

    def remove(self, rows: _RowArray) -> None:
        """Remove rows, and let their slots die; one without a home raises ``KeyError`` and nothing is removed."""
        if rows.size == 0:
            return
        if rows.min() < 0 or rows.max() >= self._home.size or not self._home[rows].all():
            raise KeyError(int(next(row for row in rows.tolist() if row not in self)))
        home = self._home[rows]
        for serial in (home[:1] if rows.size == 1 else np.unique(home)).tolist():
            self._n_rows -= self._parts[serial].kill(self._slot_of[rows[home == serial]])
        self._home[rows] = 0

    def remove_one(self, row: int) -> None:
        """Remove one row, ten times as fast as :meth:`remove`; raise ``KeyError`` if it has no home."""
        home = self._home
        if not (0 <= row < home.size and home[row]):
            raise KeyError(row)
        self._parts[int(home[row])].kill_one(int(self._slot_of[row]))
        home[row] = 0
        self._n_rows -= 1

    def find(self, row: int) -> tuple[BoxPart, int] | None:
        """Return the part and the slot of a row; None when it has no home."""
        while row in self:
            part, slot = self._parts.get(int(self._home[row])), int(self._slot_of[row])
            if part is not None and part.rows[slot] == row:  # otherwise it is moving to another part: look again
                return part, slot
        return None

    def check_invariants(self, present: Sequence[BoxPart]) -> None:
        """Raise ``InvariantError`` unless the invariants hold and the ``present`` parts are those that hold rows."""
        living = 0
        for serial, part in self._parts.items():
            slots = part.find_live()
            rows = part.rows[slots]
            if part.n_live != slots.size:
                raise InvariantError(f"part {serial} counts {part.n_live} living slots of {slots.size}")
            if (self._home[rows] != serial).any() or (self._slot_of[rows] != slots).any():
                raise InvariantError(f"part {serial} holds a row that lives elsewhere")
            living += slots.size
        homes = np.count_nonzero(self._home)
        if not living == self._n_rows == homes:
            raise InvariantError(f"{self._n_rows} rows, {living} living slots, {homes} homes")
        if {id(part) for part in present} != {id(part) for part in self._parts.values()}:
            raise InvariantError("the snapshot does not show the present parts")

    def _serial(self, part: BoxPart) -> int:
        """Return the serial of a part, a new one if it has none."""
        serial = self._serials.get(id(part))
        if serial is None:
            serial, self._next_serial = self._next_serial, self._next_serial + 1
            self._serials[id(part)] = serial
            self._parts[serial] = part
        return serial

    def _make_room(self, rows: _RowArray) -> None:
        if rows.size and int(rows.max()) >= self._home.size:
            size = max(int(rows.max()) + 1, self._home.size * 3 // 2)
            self._home, self._slot_of = _widened(self._home, size), _widened(self._slot_of, size)


def _widened(array: _RowArray, size: int) -> _RowArray:
    """Return a longer array, filled with zeros; the system allocates memory only for pages that are written."""
    wider = np.zeros(size, np.int32)
    wider[: array.size] = array
    return wider


def _check_distinct(rows: _RowArray, scratch: _RowArray) -> None:
    """Raise ``ValueError`` if a row is named twice; ``scratch`` is written at the places of the rows."""
    scratch[rows] = np.arange(rows.size)
    twice = np.flatnonzero(scratch[rows] != np.arange(rows.size))
    if twice.size:
        raise ValueError(f"row {rows[twice[0]]} is named twice")
