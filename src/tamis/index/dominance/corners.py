"""An index of closed boxes that also finds the boxes that cover a box and those that lie in it.

Everything that changes (delta, segments, alive bits, merges) is the box index's. Beside its snapshot stands
the least row below each block of every tree, made once per segment, so that the *least* covering row is found
without looking at the others.

For one thread: unlike matching, covering is asked by the same thread that adds and removes.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tamis.index.packed.boxes.box_index import BoxIndex, checked_matrix
from tamis.index.packed.boxes.segment import Segment
from tamis.kernels import directory as at
from tamis.kernels.boxes.dominance import Walk, find_inside, find_least_covers, write_least_rows
from tamis.kernels.boxes.event_order import event_keys
from tamis.kernels.boxes.quantise import ANY_VALUE

__all__ = ["NOBODY", "CornerIndex"]

_FloatArray = npt.NDArray[np.float64]
_RowArray = npt.NDArray[np.int32]

#: Means "no row": larger than every row.
NOBODY: Final = 2_147_483_647

_FIRST_ROOM: Final = 4_096
#: At least ``_MANY`` boxes are sorted before a search in at least ``_LARGE``: neighbours then read the same blocks.
_MANY: Final = 512
_LARGE: Final = 50_000


class _Least(NamedTuple):
    """The addresses int64[parts] of the least rows, in the order of the directory, and the arrays by segment."""

    addresses: npt.NDArray[np.int64]
    arrays: dict[int, tuple[Segment, _RowArray]]


class CornerIndex(BoxIndex):
    """Boxes over some axes, each known by a row. See the module's text; sides as in `BoxIndex`.

    A box in question is passed as ``lo`` and ``hi`` float64[n, n_axes], NaN in both on an axis it leaves free.

    >>> index = CornerIndex(1)
    >>> index.add_boxes(np.array([[0.0], [2.0]]), np.array([[9.0], [8.0]]), np.array([5, 4], np.int32))
    >>> index.find_least_covers(np.array([[3.0], [1.0]]), np.array([[7.0], [10.0]])).tolist() == [4, NOBODY]
    True
    """

    def __init__(self, n_axes: int) -> None:
        super().__init__(n_axes, (at.TREE,))
        self._least = _Least(np.zeros(0, np.int64), {})
        self._walk = Walk(np.zeros((4, 1), np.int16), np.empty(1_024, np.int64), np.zeros(2, np.int64))
        self._room = np.empty(_FIRST_ROOM, np.int32)

    @property
    def counters(self) -> tuple[int, int]:
        """Blocks visited and ties settled on float64 since the index was made, by `find_least_covers`."""
        return int(self._walk.counters[0]), int(self._walk.counters[1])

    def find_least_covers(self, lo: _FloatArray, hi: _FloatArray, below: _RowArray | None = None) -> _RowArray:
        """Return for each box the least row below ``below[e]`` that covers it; otherwise that bound, or `NOBODY`."""
        lo, hi = checked_matrix(lo, self.n_axes), checked_matrix(hi, self.n_axes)
        best = np.full(len(lo), NOBODY, np.int32) if below is None else np.array(below, np.int32)
        least, directory = self._least.addresses, self.snapshot.directory
        walk = self._scratch()
        largest = directory[np.argmax(directory[:, at.N_SLOTS])] if directory.size else None
        if largest is None or len(lo) < _MANY or largest[at.N_SLOTS] < _LARGE:
            find_least_covers(directory, least, (hi, lo), best, walk)
            return best
        keys = np.empty(len(lo), np.uint16)
        event_keys(largest, lo, keys)
        order = np.argsort(keys, kind="stable")
        ordered = best[order]
        find_least_covers(directory, least, (hi[order], lo[order]), ordered, walk)
        best[order] = ordered
        return best

    def find_coverers(self, lo: _FloatArray, hi: _FloatArray) -> _RowArray:
        """Return every row that covers one box, float64[n_axes] each, in any order."""
        return self.match_point(hi, lo)

    def find_meeting(self, lo: _FloatArray, hi: _FloatArray) -> _RowArray:
        """Return every row whose box intersects a box, in any order."""
        return self.match_point(np.where(np.isnan(lo), ANY_VALUE, lo), np.where(np.isnan(hi), np.inf, hi))

    def find_inside(self, lo: _FloatArray, hi: _FloatArray) -> tuple[npt.NDArray[np.int64], _RowArray]:
        """Return the rows that lie in each box, as CSR offsets and rows in any order."""
        return self.find_fitting(np.where(np.isnan(lo), ANY_VALUE, lo), np.where(np.isnan(hi), np.inf, hi), lo, hi)

    def find_fitting(
        self, least_high: _FloatArray, most_low: _FloatArray, lo: _FloatArray, hi: _FloatArray
    ) -> tuple[npt.NDArray[np.int64], _RowArray]:
        """Return the rows that lie in each box and reach these ends (`space.Fit`), as CSR offsets and rows."""
        least_high, most_low, lo, hi = (
            checked_matrix(matrix, self.n_axes) for matrix in (least_high, most_low, lo, hi)
        )
        events = least_high, most_low
        offsets, out, done = np.zeros(len(lo) + 1, np.int64), self._room, 0
        walk = self._scratch()
        while (done := find_inside(self.snapshot.directory, events, (lo, hi), done, offsets, out, walk)) < len(lo):
            out = np.concatenate((out, np.empty_like(out)))
        self._room = out
        return offsets, out[: offsets[-1]].copy()

    def _scratch(self) -> Walk:
        if self._walk.codes.shape[1] < self.n_axes:
            self._walk = self._walk._replace(codes=np.zeros((4, self.n_axes), np.int16))
        return self._walk

    def _publish(self) -> None:
        super()._publish()
        previous, arrays = self._least.arrays, {}
        addresses = np.zeros(len(self.snapshot.parts), np.int64)
        for i, part in enumerate(self.snapshot.parts):
            if isinstance(part, Segment):
                arrays[id(part)] = previous.get(id(part)) or (part, _least_rows(part))
                addresses[i] = arrays[id(part)][1].ctypes.data
        self._least = _Least(addresses, arrays)


def _least_rows(segment: Segment) -> _RowArray:
    levels = segment.arrays["levels"]
    least = np.empty(int(levels[-1]), np.int32)
    write_least_rows(segment.rows, levels, least)
    return least
