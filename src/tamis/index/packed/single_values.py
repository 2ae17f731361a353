"""Represents events with repeated attributes as several points: one for each combination of elements.

A box of the index bounds one element of each repeated attribute, so an event lies in it iff one of its points does. The
points of an event are matched together with those of all others, and each subscription is reported once. An event
without elements, or with more than `MOST_POINTS` combinations, is matched alone, by an interval around its elements.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tamis.index.protocols import MatchRows
from tamis.model.columns import Column
from tamis.model.schema import Event
from tamis.model.tables import EventTable
from tamis.model.types import AttributeType, Form
from tamis.model.types.column import ManyColumn
from tamis.model.values import Value

__all__ = ["MOST_POINTS", "SingleValues", "combinations", "is_repeated", "taken"]

#: Points of one event.
MOST_POINTS = 64

_EXACT = 2**53


def is_repeated(events: EventTable) -> bool:
    """Whether some attribute of a table has several values."""
    return any(column.kind.form is Form.MANY for column in events.columns.values())


def combinations(event: Event) -> list[dict[str, Value]] | None:
    """Return the event with each combination of elements; None if there is none, or more than `MOST_POINTS`."""
    repeated = {name: value for name, value in event.items() if type(value) is tuple}
    if not 1 <= math.prod(map(len, repeated.values())) <= MOST_POINTS:
        return None
    return [
        {**event, **dict(zip(repeated, elements, strict=True))} for elements in itertools.product(*repeated.values())
    ]


@dataclass(frozen=True)
class SingleValues(EventTable):
    """A table in which repeated attributes have a single value; ``origin`` is the row of the event it came from."""

    events: EventTable
    origin: npt.NDArray[np.int64]
    #: The events that are matched alone.
    alone: list[int]

    @classmethod
    def of_events(cls, events: EventTable) -> SingleValues:
        """Return the points of all events."""
        names = [name for name, column in events.columns.items() if column.kind.form is Form.MANY]
        repeated = [_elements(events.columns[name]) for name in names]
        counts = np.ones(len(events), np.int64)
        for elements in repeated:
            counts = np.minimum(counts * elements.sizes, MOST_POINTS + 1)
        fits = (counts >= 1) & (counts <= MOST_POINTS)
        counts[~fits] = 0
        rows = np.repeat(np.arange(len(events)), counts)
        # The number of a point among those of its row; its digits say which element of each attribute it has.
        number = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        columns = {name: taken(column, rows) for name, column in events.columns.items() if name not in names}
        for name, elements in zip(names, repeated, strict=True):
            number, at = np.divmod(number, elements.sizes[rows])
            columns[name] = elements.at(rows, at, _bad(events.columns[name], rows))
        return cls(len(rows), columns, events, rows, np.flatnonzero(~fits).tolist())

    def event(self, row: int) -> dict[str, Value]:
        """Return the event that a point came from, with all elements."""
        return self.events.event(int(self.origin[row]))

    def regrouped(self, matches: MatchRows, alone: Iterator[npt.NDArray[np.int32]]) -> MatchRows:
        """Return the matches of the points as matches of their events, each once, with those matched alone."""
        keys = [np.repeat(self.origin, np.diff(matches.offsets)) << 32 | matches.rows]
        keys += [np.int64(row) << 32 | rows.astype(np.int64) for row, rows in zip(self.alone, alone, strict=True)]
        pairs = np.unique(np.concatenate(keys))
        offsets = np.searchsorted(pairs >> 32, np.arange(len(self.events) + 1))
        return MatchRows(offsets.astype(np.int64), (pairs & 0xFFFFFFFF).astype(np.int32))


def taken(column: Column, rows: npt.NDArray[np.int64]) -> Column:
    """Return the values of a column at rows, which may repeat."""
    values = column.values.take(pa.array(rows)) if isinstance(column.values, pa.Array) else column.values[rows]
    return Column(column.kind, values, column.present[rows], _bad(column, rows))


def _bad(column: Column, rows: npt.NDArray[np.int64]) -> dict[int, Any]:
    if not column.bad:
        return {}
    return {at: column.bad[row] for at, row in enumerate(rows.tolist()) if row in column.bad}


class _Elements(NamedTuple):
    """The elements of all rows in one column; ``sizes`` counts those of each row, and 1 for a row without a value."""

    elements: Column
    starts: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int64]
    present: npt.NDArray[np.bool_]

    def at(self, rows: npt.NDArray[np.int64], number: npt.NDArray[np.int64], bad: dict[int, Any]) -> Column:
        """Return a column with one element of each of these rows, which its number says."""
        present = self.present[rows]
        single = taken(self.elements, np.where(present, self.starts[rows] + number, 0))
        return Column(single.kind, single.values, present, bad)


def _elements(column: Column) -> _Elements:
    """Return the elements of a column; the first of them is there even if no row has one."""
    if isinstance(column, ManyColumn) and len(column.elements.present):
        starts, elements = column.starts, column.elements
    else:
        held = [column.value(row) or () for row in range(len(column.present))]
        starts = np.cumsum([0, *map(len, held)])
        elements = _column(column.kind.element, [element for values in held for element in values] or [None])
    sizes = np.where(column.present, np.diff(starts), 1)
    return _Elements(elements, starts[:-1], sizes, column.present)


def _column(kind: AttributeType, elements: list[Any]) -> Column:
    """Return a column of single elements, None where there is none."""
    present = np.array([element is not None for element in elements], np.bool_)
    if kind.form is Form.TEXT:
        values: Any = pa.array(elements, pa.large_string())
    else:
        plain = [0 if element is None else element for element in elements]
        exact = all(
            type(number) is float or (isinstance(number, int) and -_EXACT <= number <= _EXACT) for number in plain
        )
        values = np.array(plain, np.float64 if exact else object)
    return Column(kind, values, present)
