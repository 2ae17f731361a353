"""Decides many pairs of candidates whose boxes are not exact, before raw values are compared.

What a box leaves open is most often of one kind: LIKE patterns (`patterns`), regions (`regions`), or one ball
(`balls`). Each kind has its columns and its kernel, and says YES, NO, or that the pair stays OPEN.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import shapely

from tamis.geometry.relations import rings_of
from tamis.geometry.spaces import vector_of, vectors_of_column
from tamis.index.packed.axes import Axes
from tamis.index.packed.boxes_of import Box
from tamis.index.packed.deciders.balls import MixedBalls
from tamis.index.packed.deciders.entries import Entries
from tamis.index.packed.deciders.patterns import ASK, OpenConditions
from tamis.index.packed.deciders.regions import RegionTests, Verdicts
from tamis.index.protocols import Lookup, Rows
from tamis.index.saved_arrays import SavedArrays
from tamis.kernels.polygons.flat_rings import Rings
from tamis.kernels.polygons.region_tests import OPEN
from tamis.model.schema import Event
from tamis.model.shapes import is_plain
from tamis.model.tables import EventTable

__all__ = ["Deciders", "OneEvent", "TableOfEvents"]

_IntArray = npt.NDArray[np.int64]
_FloatArray = npt.NDArray[np.float64]


class PairEvents(Protocol):
    """The events of the pairs, as the kernels read them."""

    @property
    def table(self) -> EventTable | None:
        """The events as a table; None for a single event, whose strings are best tested one at a time."""

    def shapes(self, name: str) -> Rings:
        """Return the regions of all events on an attribute; none where there is no value."""

    def compound(self, name: str) -> npt.NDArray[np.bool_] | None:
        """Return which events have geometry that the kernels cannot compare; None: none has."""

    def vectors(self, name: str, rows: _IntArray) -> _FloatArray | None:
        """Return the vectors of some events on an attribute, NaN where there is none; None when there is no column."""


class TableOfEvents:
    """Many events."""

    def __init__(self, table: EventTable) -> None:
        self.table = table

    def shapes(self, name: str) -> Rings:
        """Return the regions of the events; none where there is no value. A column that is whole keeps them."""
        column = self.table.columns.get(name)
        if column is None:
            return rings_of(np.full(len(self.table), None))
        if column.rings is not None:
            return column.rings
        compound = column.compound
        if compound is not None or not column.present.all():
            values = column.values.copy()
            values[~column.present if compound is None else compound | ~column.present] = None
            return rings_of(values)
        column.rings = rings_of(column.values)
        return column.rings

    def compound(self, name: str) -> npt.NDArray[np.bool_] | None:
        """Return which events have geometry other than points and simple polygons."""
        column = self.table.columns.get(name)
        return None if column is None else column.compound

    def vectors(self, name: str, rows: _IntArray) -> _FloatArray | None:
        """Return the vectors of some events."""
        read = vectors_of_column(self.table.columns, name, rows)
        if read is None or read[1].all():
            return None if read is None else read[0]
        return np.where(read[1][:, None], read[0], np.nan)


class OneEvent:
    """A single event, which every pair is about."""

    table = None

    def __init__(self, event: Event) -> None:
        self._event = event

    def shapes(self, name: str) -> Rings:
        """Return the region of the event; none when it has no value."""
        value = self._event.get(name)
        return rings_of(np.array([None if self.compound(name) is not None else value], dtype=object))

    def compound(self, name: str) -> npt.NDArray[np.bool_] | None:
        """Return whether the event has geometry other than a point or a simple polygon."""
        value = self._event.get(name)
        return np.ones(1, np.bool_) if isinstance(value, shapely.Geometry) and not is_plain(value) else None

    def vectors(self, name: str, rows: _IntArray) -> _FloatArray | None:
        """Return the vector of the event as a table of one."""
        value = vector_of(self._event, name)
        return None if value is None else value[None]


class Deciders:
    """The open conditions of each entry. Readers may continue while a writer appends."""

    def __init__(self, lookup: Lookup) -> None:
        self._questions = OpenConditions(lookup)
        self._regions = RegionTests()
        self._balls = MixedBalls()

    def append(self, numbers: Sequence[int], boxes: Sequence[Box]) -> None:
        """Add the open conditions of the next entries."""
        self._regions.append([box.regions for box in boxes])
        balls = [(number, box.ball) for number, box in zip(numbers, boxes, strict=True) if box.ball is not None]
        if balls:
            self._balls.add(*zip(*balls, strict=True))

    def decide(self, entries: Rows, event: _IntArray, values: PairEvents, all_entries: Entries, axes: Axes) -> Verdicts:
        """Return a verdict for each pair of entry and event; the event is a point in the entry's box."""
        verdicts, n_open = self._regions.decide(lambda axis: values.shapes(axes.attribute(axis)), event, entries)
        if self._regions.axes:
            for attribute in {axes.attribute(axis) for axis in self._regions.axes}:
                compound = values.compound(attribute)
                if compound is not None:
                    verdicts[compound[event]] = OPEN
                    n_open = 1
        if not n_open:
            return verdicts
        if self._balls:
            if values.table is None:
                needed, position = event[:1], event
            else:
                needed, position = np.unique(event, return_inverse=True)
            self._balls.decide(verdicts, entries, position, lambda name: values.vectors(name, needed))
        if values.table is not None:
            self._ask_strings(verdicts, entries, event, values.table, all_entries, axes)
        return verdicts

    @property
    def region_axes(self) -> frozenset[int]:
        """The axes that tests of regions are about."""
        return self._regions.axes

    @property
    def ball_dimensions(self) -> list[tuple[str, int]]:
        """The attributes that balls are about, with the dimension of each."""
        return self._balls.dimensions()

    def laid_out(self, entries: Rows) -> RegionTests:
        """Return the regions laid out in the order of entries, for `adopt`; changes nothing that others see."""
        return self._regions.laid_out(entries)

    def adopt(self, regions: RegionTests) -> None:
        """Install regions in a new order. For the writer."""
        self._regions.adopt(regions)

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the columns by name; questions are worked out again."""
        arrays = {f"regions.{name}": array for name, array in self._regions.to_arrays().items()}
        return arrays | {f"balls.{name}": array for name, array in self._balls.to_arrays().items()}

    @classmethod
    def from_arrays(cls, lookup: Lookup, arrays: SavedArrays, n_entries: int, n_axes: int) -> Deciders:
        """Open columns, checked, that may be read-only and mapped."""
        deciders = cls(lookup)
        deciders._regions = RegionTests.from_arrays(arrays.under("regions."), n_entries, n_axes)
        deciders._balls = MixedBalls.from_arrays(arrays.under("balls."), n_entries)
        return deciders

    def _ask_strings(
        self, verdicts: Verdicts, entries: Rows, event: _IntArray, table: EventTable, all_entries: Entries, axes: Axes
    ) -> None:
        left = np.flatnonzero(verdicts == OPEN)
        numbers = self._questions.numbers(entries[left], all_entries, axes)
        left, numbers = left[numbers != ASK], numbers[numbers != ASK]
        verdicts[left] = self._questions.answers(numbers, event[left], table)
