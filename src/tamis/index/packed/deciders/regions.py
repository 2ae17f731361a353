"""The polygons of entries in columns, so that candidates are decided in batches.

A box proposes by bounding boxes; for an entry of which nothing but regions is left to ask, the polygons and the
wanted relations stand here in flat arrays, and one kernel decides all candidates of a table
(`tamis.kernels.polygons.region_tests`). No Python object is touched per candidate. Entries of which more is left to
ask are unknown here.

Like everything that readers see while a writer adds, the columns only grow, and are replaced when they are full. When
boxes are merged the polygons are laid out again in the order of the boxes, in which neighbours lie near each other: to
fetch them from memory would take longer than to compare them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tamis.geometry.relations import relation_set, rings_of
from tamis.index.packed.arrays import Growing
from tamis.index.protocols import Rows
from tamis.index.saved_arrays import Below, Declared, Finite, Offsets, SavedArrays, Size
from tamis.kernels.polygons.flat_rings import Rings, are_points, find_bad_ring, new_corners
from tamis.kernels.polygons.region_tests import ANY, OPEN, YES, RegionColumns, decide_points, decide_regions, mark_axes
from tamis.model.subscription import Spatial

__all__ = ["RegionTests", "Verdicts"]

_IntArray = npt.NDArray[np.int64]
Verdicts = npt.NDArray[np.int8]

#: The columns: per entry, per polygon, and those of `Rings`.
_COLUMNS: Final = {
    "first": Declared(np.int32, ("entries",), Below("tests_and_end")),
    "count": Declared(np.uint8, ("entries",)),
    "axis": Declared(np.int32, ("tests",), Below("axes")),
    "wanted": Declared(np.uint8, ("tests",)),
    "xy": Declared(np.float64, ("points", 2), Finite()),
    "start": Declared(np.int64, (Size("tests", plus=1),), Offsets("points")),
    "turn": Declared(np.int8, ("tests",), Below(2, least=-1)),
    "bounds": Declared(np.float64, ("tests", 8), Finite()),
    "block_start": Declared(np.int64, (Size("tests", plus=1),), Offsets("blocks")),
    "blocks": Declared(np.float64, ("blocks", 4)),
    "inner": Declared(np.float64, ("tests", 4)),
}


class RegionTests:
    """The polygons that entries ask about; entry e has the tests ``first[e]`` to ``first[e] + count[e] - 1``.

    A test is a polygon, the set of relations wanted to it, and the number of the axis whose attribute is meant.
    """

    def __init__(self) -> None:
        self._columns = {
            name: Growing(np.empty((0, *(n for n in form.shape if isinstance(n, int))), form.dtype))
            for name, form in _COLUMNS.items()
        }
        for name in ("start", "block_start"):
            self._columns[name].extend(np.zeros(1, np.int64))
        #: The axes of all tests there are; replaced, never changed, as readers may be at it.
        self.axes: frozenset[int] = frozenset()

    def append(self, tests: Sequence[Sequence[tuple[int, Spatial]]]) -> None:
        """Add the tests (axis, constraint) of the next entries; none: the entry is unknown here."""
        n_before = len(self._columns["wanted"].values)
        counts = [len(tests_of_entry) for tests_of_entry in tests]
        flat = [test for tests_of_entry in tests for test in tests_of_entry]
        if flat:
            self._add_rings(rings_of(np.array([constraint.region for _, constraint in flat], dtype=object)))
            self.axes |= {axis for axis, _ in flat}
            self._columns["axis"].extend(np.array([axis for axis, _ in flat]))
            self._columns["wanted"].extend(np.array([relation_set(constraint.relations) for _, constraint in flat]))
        self._columns["first"].extend(n_before + np.cumsum([0, *counts[:-1]]))
        self._columns["count"].extend(np.array(counts))

    def decide(self, shapes: Callable[[int], Rings], event: _IntArray, entries: Rows) -> tuple[Verdicts, int]:
        """Return a verdict for each pair of event and entry, and how many stay open: of those more is left to ask.

        ``shapes`` gives the regions of all events on the attribute of an axis. Pairs near each other are best given
        one after the other.
        """
        if not self.axes:
            return np.full(len(entries), OPEN, np.int8), len(entries)
        columns = {name: column.values for name, column in self._columns.items()}
        rings = Rings(*(columns[name] for name in Rings._fields))
        tests = RegionColumns(columns["first"], columns["count"], columns["axis"], columns["wanted"], rings)
        axes = self._asked_axes(tests, entries)
        if not axes:
            return np.full(len(entries), OPEN, np.int8), len(entries)
        n_open, verdicts, corners = 0, np.full(len(entries), YES, np.int8), new_corners()
        for axis in axes:
            regions, only = shapes(axis), ANY if len(self.axes) == 1 else axis
            decide = decide_points if are_points(regions) else decide_regions
            n_open = int(decide(tests, entries, regions, event, only, verdicts, corners))
        return verdicts, n_open

    def _asked_axes(self, tests: RegionColumns, entries: Rows) -> list[int]:
        """Return the axes that tests of these entries are about."""
        axes = self.axes
        is_asked = np.zeros(max(axes, default=-1) + 1, np.bool_)
        mark_axes(tests, entries, len(axes), is_asked)
        asked_axes: list[int] = np.flatnonzero(is_asked).tolist()
        return asked_axes

    def laid_out(self, entries: Rows) -> RegionTests:
        """Return the tests of all entries there are, those of the given ones first and in their order.

        Changes nothing that others see; `adopt` takes it over.
        """
        columns = {name: column.values for name, column in self._columns.items()}
        first, count = columns["first"], columns["count"]
        entries = entries[entries < min(len(first), len(count))].astype(np.int64)
        left = np.ones(min(len(first), len(count)), np.bool_)
        left[entries] = False
        order = np.concatenate([entries, np.flatnonzero(left)])
        tests = _spans(first[order].astype(np.int64), count[order].astype(np.int64))
        result = RegionTests()
        moved = np.empty(len(order), np.int64)
        moved[order] = np.cumsum(count[order]) - count[order]
        result._columns["first"].extend(moved)
        result._columns["count"].extend(count[: len(order)])
        result._append_tests(columns, tests)
        result.axes = self.axes
        return result

    def adopt(self, laid_out: RegionTests) -> None:
        """Install a new order of the earlier entries, and add the later ones. For the writer."""
        columns = {name: column.values for name, column in self._columns.items()}
        n_entries, n_tests = len(laid_out._columns["count"].values), len(laid_out._columns["wanted"].values)
        laid_out._columns["first"].extend(columns["first"][n_entries:])
        laid_out._columns["count"].extend(columns["count"][n_entries:])
        laid_out._append_tests(columns, np.arange(n_tests, len(columns["wanted"])))
        self._columns = laid_out._columns

    def _append_tests(self, columns: Mapping[str, npt.NDArray[Any]], tests: _IntArray) -> None:
        """Add some tests of other columns behind these."""
        for starts, parts in (("start", "xy"), ("block_start", "blocks")):
            start, own_starts = columns[starts], self._columns[starts]
            length = start[tests + 1] - start[tests]
            own_starts.extend(own_starts.values[-1] + np.cumsum(length))
            self._columns[parts].extend(columns[parts][_spans(start[tests], length)])
        for name in ("axis", "wanted", "turn", "bounds", "inner"):
            self._columns[name].extend(columns[name][tests])

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the columns by name."""
        return {name: column.values for name, column in self._columns.items()}

    @classmethod
    def from_arrays(cls, arrays: SavedArrays, n_entries: int, n_axes: int) -> RegionTests:
        """Open columns, checked, that may be read-only; the first entry that is added moves them."""
        tests, n_tests = cls(), len(arrays["wanted"]) if arrays["wanted"].ndim else 0
        columns, _ = arrays.take(_COLUMNS, entries=n_entries, axes=n_axes, tests=n_tests, tests_and_end=n_tests + 1)
        if (columns["first"].astype(np.int64) + columns["count"] > n_tests).any():
            arrays.refuse("count", f"names tests beyond the last of {n_tests}")
        ring = find_bad_ring(Rings(*(columns[name] for name in Rings._fields)))
        if ring >= 0:
            arrays.refuse("start", f"begins polygon {ring}, which is not closed or lacks blocks for its edges")
        tests._columns = {name: Growing(column) for name, column in columns.items()}
        tests.axes = frozenset(np.flatnonzero(np.bincount(arrays["axis"])).tolist())
        return tests

    def _add_rings(self, more: Rings) -> None:
        """Add rings behind the others; their places are counted on."""
        for name in ("start", "block_start"):
            column = self._columns[name]
            column.extend(column.values[-1] + getattr(more, name)[1:])
        for name in ("xy", "turn", "bounds", "blocks", "inner"):
            self._columns[name].extend(getattr(more, name))


def _spans(starts: _IntArray, lengths: _IntArray) -> _IntArray:
    """Return the numbers of all spans, one span after the other.

    >>> _spans(np.array([7, 2]), np.array([2, 3]))
    array([7, 8, 2, 3, 4])
    """
    before = np.cumsum(lengths) - lengths
    positions: _IntArray = np.arange(int(lengths.sum())) + np.repeat(starts - before, lengths)
    return positions
