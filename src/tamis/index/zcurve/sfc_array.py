"""The SFC array: points in the order of their keys, and the search of an extremal rectangle in it.

Implements: [zcurve] section 2, SFC array; section 5, approximate point dominance.
Deviation: a sorted array with insertion and deletion in place, not a balanced tree: a change moves memory
(3 ms at a million points) and a look-up is two bisections of flat memory. The searched volume is compared as
exact integers with ">=" (erratum Z.3.9), and the search goes on after a run whose points fail (Z.3.10).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tamis.curves.zcurve import (
    CurveKey,
    coverage_bits,
    greedy_decomposition,
    key_range,
    side_lengths,
    truncate,
    volume,
    z_key,
)
from tamis.kernels.curves.zcurve import CAPPED, COUNT, SEARCHED, SIDE, STATE_SIZE, STOP, search_cubes, write_z_keys

__all__ = ["CurveSearch", "SfcArray"]

#: Keys of up to this many bits are int64 and searched by a kernel; wider ones are Python integers.
_WORD: Final = 62


@dataclass
class CurveSearch:
    """The counts of one search.

    ``cubes`` were looked up, ``searched`` of ``volume`` cells lie in them; ``capped`` says that it gave up at ``most``
    cubes and, if it ``scans``, compared the points one by one instead.
    """

    lengths: tuple[int, ...]
    needed: int
    most: int
    cubes: int = 0
    searched: int = 0
    capped: bool = False
    volume: int = 0
    scans: bool = True


class SfcArray:
    """Points of d dimensions and k bits each with their rows, sorted along a curve.

    >>> points = SfcArray(d=2, k=3)
    >>> points.insert((5, 6), row=7)
    >>> search = points.begin((4, 4), skipped=(0, 1), most=100)
    >>> [rows.tolist() for rows in points.runs(search)], search.cubes
    ([[7]], 1)
    """

    def __init__(self, d: int, k: int, key: CurveKey = z_key) -> None:
        self.d, self.k = d, k
        self._key = key
        self._is_narrow = key is z_key and d * k <= _WORD
        self._keys: npt.NDArray[Any] = np.zeros(0, np.int64 if self._is_narrow else object)
        self._rows = np.zeros(0, np.int32)
        self._cells = np.zeros((0, d), np.int64)

    def __len__(self) -> int:
        return len(self._rows)

    def insert(self, point: Sequence[int], row: int) -> None:
        """Add a point under a row."""
        self.insert_all(np.array([point], np.int64).reshape(1, self.d), np.array([row], np.int32))

    def insert_all(self, cells: npt.NDArray[np.int64], rows: npt.NDArray[np.int32]) -> None:
        """Add points int64[n, d] under rows."""
        keys = self._keys_of(cells)
        order = np.argsort(keys, kind="stable")
        at = np.searchsorted(self._keys, keys[order])
        self._keys = np.insert(self._keys, at, keys[order])
        self._rows = np.insert(self._rows, at, rows[order])
        self._cells = np.insert(self._cells, at, cells[order], axis=0)

    def delete(self, point: Sequence[int], row: int) -> None:
        """Remove a point; raise `KeyError` if it is absent."""
        [key] = self._keys_of(np.array([point], np.int64).reshape(1, self.d))
        start, stop = (int(np.searchsorted(self._keys, key, side)) for side in ("left", "right"))
        positions = np.flatnonzero(self._rows[start:stop] == row)
        if not positions.size:
            raise KeyError(row)
        at = start + int(positions[0])
        self._keys, self._rows = np.delete(self._keys, at), np.delete(self._rows, at)
        self._cells = np.delete(self._cells, at, axis=0)

    def begin(self, point: Sequence[int], skipped: tuple[int, int], most: int) -> CurveSearch:
        """Start a search for what dominates a point; at most a share ``skipped`` of the cells is left out."""
        lengths = side_lengths(point, self.k)
        numerator, denominator = skipped
        needed = -(-(denominator - numerator) * volume(lengths) // denominator)
        return CurveSearch(lengths, needed, most, volume=volume(lengths))

    def begin_truncated(self, point: Sequence[int], epsilon: float, most: int) -> CurveSearch:
        """Start a search for what dominates a point in the rectangle of the first bits of each side, all of it.

        Implements: [zcurve] Lemma 3.1: so many bits that at most a share ``epsilon`` of the cells is left out.
        """
        lengths = side_lengths(point, self.k)
        kept = tuple(truncate(length, coverage_bits(self.d, epsilon)) for length in lengths)
        return CurveSearch(kept, volume(kept), most, volume=volume(lengths))

    def at(self, point: Sequence[int]) -> npt.NDArray[np.int32]:
        """Return the rows of the points in one cell."""
        [key] = self._keys_of(np.array([point], np.int64).reshape(1, self.d))
        start, stop = (int(np.searchsorted(self._keys, key, side)) for side in ("left", "right"))
        return self._rows[start:stop]

    def runs(self, search: CurveSearch) -> Iterator[npt.NDArray[np.int32]]:
        """Yield the rows of each cube that is not empty, the largest cubes first, until enough is searched.

        A search that needs more cubes than it may look up scans all points instead: with that many cubes a scan is
        quicker, and it is complete (erratum Z.3.11).
        """
        spans = self._spans_by_kernel(search) if self._is_narrow else self._spans_by_generator(search)
        yield from (self._rows[start:stop] for start, stop in spans)
        if search.capped and search.scans:
            yield self.dominating(tuple(2**self.k - length for length in search.lengths))

    def dominating(self, point: Sequence[int]) -> npt.NDArray[np.int32]:
        """Return the rows of every point that dominates a point, by comparing all of them."""
        return self._rows[(self._cells >= np.array(point, np.int64)).all(axis=1)]

    def dominated(self, point: Sequence[int]) -> npt.NDArray[np.int32]:
        """Return the rows of every point that a point dominates, by comparing all of them."""
        return self._rows[(self._cells <= np.array(point, np.int64)).all(axis=1)]

    def _spans_by_kernel(self, search: CurveSearch) -> Iterator[tuple[int, int]]:
        lengths = np.array(search.lengths, np.int64)
        state, cursor = np.zeros(STATE_SIZE, np.int64), np.zeros((2, self.d), np.int64)
        state[SIDE] = min(search.lengths).bit_length() - 1
        while True:
            start = search_cubes(self._keys, lengths, self.k, (search.needed, search.most), state, cursor)
            search.cubes, search.searched = int(state[COUNT]), int(state[SEARCHED])
            search.capped = start == CAPPED
            if start < 0:
                return
            yield int(start), int(state[STOP])

    def _spans_by_generator(self, search: CurveSearch) -> Iterator[tuple[int, int]]:
        for i, cube in greedy_decomposition(search.lengths, self.k):
            if search.searched >= search.needed:
                return
            if search.cubes >= search.most:
                search.capped = True
                return
            first, last = key_range(cube, i, self.k, self._key)
            search.cubes += 1
            search.searched += 1 << i * self.d
            start, stop = (int(np.searchsorted(self._keys, *pair)) for pair in ((first, "left"), (last, "right")))
            if start < stop:
                yield start, stop

    def _keys_of(self, cells: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        if self._is_narrow:
            keys = np.empty(len(cells), np.int64)
            write_z_keys(cells, self.k, keys)
            return keys
        made = np.empty(len(cells), object)
        made[:] = [self._key(cell, self.k) for cell in cells.tolist()]
        return made
