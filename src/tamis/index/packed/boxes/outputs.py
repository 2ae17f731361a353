"""Buffers for large answers, reused as soon as no view of them is left.

A fresh array of 88 MB costs 15 ms before the first row is in it: the system hands out each of its pages, cleared, when
it is first touched. So room that was used is kept. An answer is a view of it, and a view holds a reference: as long as
anyone has one (an answer, a part of it, an Arrow array that shares its memory), the room counts as taken and is not
handed out. What an index keeps beyond the answers of its users is bounded: two arrays of at most 128 MB.
"""

from __future__ import annotations

import sys
from typing import Final

import numpy as np
import numpy.typing as npt

__all__ = ["Outputs"]

_RowArray = npt.NDArray[np.int32]

#: Numbers in an array: with fewer a fresh one costs little, with more it is not kept.
_LEAST: Final = 1 << 18
_MOST: Final = 1 << 25
#: Number of arrays in reserve: a result often lives until the next one exists.
_KEPT: Final = 2
#: References to an array that only a local variable holds, as ``sys.getrefcount`` counts: it, and its own argument.
_ALONE: Final = 2


class Outputs:
    """Arrays for answers. Threads may share it: ``pop`` and ``append`` of a list are atomic.

    >>> outputs = Outputs()
    >>> room = outputs.take(1_000_000)
    >>> answer = room[:10]
    >>> outputs.give(room)
    >>> del room
    >>> outputs.take(1_000_000) is answer.base
    False
    """

    def __init__(self) -> None:
        self._rooms: list[_RowArray] = []

    def take(self, size: int) -> _RowArray:
        """Return an array of at least ``size`` uninitialised numbers to which no other reference exists."""
        seen: list[_RowArray] = []
        chosen: _RowArray | None = None
        while chosen is None and self._rooms and size >= _LEAST:
            try:
                room = self._rooms.pop()
            except IndexError:  # another thread was faster
                break
            if sys.getrefcount(room) == _ALONE and size <= room.size <= 4 * size:
                chosen = room
            else:
                seen.append(room)
            del room
        self._rooms[:0] = reversed(seen)
        return np.empty(size, np.int32) if chosen is None else chosen

    def give(self, room: _RowArray) -> None:
        """Keep an array for later; it is not reused while a view of it exists."""
        if _LEAST <= room.size <= _MOST and room.base is None:
            self._rooms.append(room)
            del self._rooms[:-_KEPT]
