"""Where rows live: the sentence that a box index keeps true about its parts."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from tamis.errors import InvariantError
from tamis.index.packed.delta import Delta
from tamis.index.packed.segment import Segment

__all__ = ["check_distinct", "check_homes"]


def check_distinct(rows: npt.NDArray[np.int32], scratch: npt.NDArray[np.int32]) -> None:
    """Raise ``ValueError`` if a row is named twice; ``scratch`` is written at the places of the rows."""
    scratch[rows] = np.arange(rows.size)
    twice = np.flatnonzero(scratch[rows] != np.arange(rows.size))
    if twice.size:
        raise ValueError(f"row {rows[twice[0]]} is named twice")


def check_homes(
    parts: Mapping[int, Segment | Delta], home: npt.NDArray[np.int32], slot_of: npt.NDArray[np.int32], n_rows: int
) -> None:
    """Raise ``InvariantError`` unless each of ``n_rows`` rows has one home, a living slot of one part."""
    living = 0
    for serial, part in parts.items():
        slots = part.find_live()
        rows = part.rows[slots]
        if part.n_live != slots.size:
            raise InvariantError(f"part {serial} counts {part.n_live} living slots of {slots.size}")
        if (home[rows] != serial).any() or (slot_of[rows] != slots).any():
            raise InvariantError(f"part {serial} holds a row that lives elsewhere")
        living += slots.size
    if not living == n_rows == np.count_nonzero(home):
        raise InvariantError(f"{n_rows} rows, {living} living slots, {np.count_nonzero(home)} homes")
