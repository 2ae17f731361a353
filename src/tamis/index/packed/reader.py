"""Ask a snapshot: buffers of one reader, and the loop that enlarges them.

A *snapshot* is a directory and the parts whose arrays it names. The writer replaces the index's snapshot
and never changes one, so whoever holds it can match against it as long as they like, while segments
merge. A reader's buffers are its own; the index keeps a pool of readers, because a list's ``pop`` and
``append`` are atomic and a thread-local would need a thread module here.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tamis.index.packed.delta import Delta
from tamis.index.packed.segment import Segment
from tamis.kernels import directory as at
from tamis.kernels.match import Scratch, match_events
from tamis.kernels.quantise import MISSING

__all__ = ["Reader", "Snapshot", "make_snapshot"]

_FloatArray = npt.NDArray[np.float64]
_FIRST_ROOM: Final = 4_096
_STACK: Final = 1_024


class Snapshot(NamedTuple):
    """A directory int64[parts, WIDTH] and the parts that own its arrays."""

    directory: npt.NDArray[np.int64]
    parts: tuple[Segment | Delta, ...]


def make_snapshot(parts: list[Segment | Delta]) -> Snapshot:
    """Write the directory of these parts; those with one coding stand together."""
    parts = sorted(parts, key=lambda part: id(part.coding))
    rows = [part.row for part in parts]
    return Snapshot(np.array(rows, np.int64).reshape(len(rows), at.WIDTH), tuple(parts))


class Reader:
    """Buffers for one thread at a time; :meth:`match` and :meth:`match_one` use nothing else.

    Attributes
    ----------
    n_axes
        Width of the events these buffers serve.
    """

    def __init__(self, n_axes: int) -> None:
        self.n_axes = n_axes
        self._scratch = Scratch(np.full((4, max(1, n_axes)), MISSING, np.int16), np.empty(_STACK, np.int64))
        self._offsets = np.zeros(2, np.int64)
        self._out = np.empty(_FIRST_ROOM, np.int32)

    def match_one(self, snapshot: Snapshot, low: _FloatArray, high: _FloatArray) -> npt.NDArray[np.int32]:
        """Return the rows whose box meets the event, in no particular order."""
        events = (low.reshape(1, -1), high.reshape(1, -1))
        while match_events(snapshot.directory, events, 0, self._offsets, self._out, self._scratch) == 0:
            self._out = np.empty(4 * self._out.size, np.int32)
        return self._out[: self._offsets[1]].copy()

    def match(
        self, snapshot: Snapshot, low: _FloatArray, high: _FloatArray, guess: float
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
        """Return CSR offsets and rows of many events; ``guess`` is the expected number of rows per event."""
        n = low.shape[0]
        offsets = np.zeros(n + 1, np.int64)
        out = np.empty(int(n * guess * 1.2) + _FIRST_ROOM, np.int32)
        done = match_events(snapshot.directory, (low, high), 0, offsets, out, self._scratch)
        while done < n:
            used = int(offsets[done])
            larger = np.empty(max(2 * out.size, int(used / max(done, 1) * n * 1.1)), np.int32)
            larger[:used] = out[:used]
            out = larger
            done = match_events(snapshot.directory, (low, high), done, offsets, out, self._scratch)
        rows = out[: offsets[n]]
        return offsets, rows if 2 * rows.size + _FIRST_ROOM >= out.size else rows.copy()
