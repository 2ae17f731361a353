"""The packed matcher: box first, exact last.

Each filter becomes boxes (`boxes_of`); an event becomes a point (`axes`, `points_of`). Two box indexes hold
them:

* *plain*: subscriptions that are one exact box, under their own row. What the index finds is the answer.
* *special*: everything else, under entry numbers; an entry knows its row and, if its box only proposes, the
  filter whose raw values decide. A row may have several entries; it is reported once.

Filters that give no box at all (``LIKE '%x%'`` and ``IS NULL`` still give one axis or none) are *loose* and asked
one by one. A number that falls between two float64 makes its event ask the raw values of every candidate.
"""

from __future__ import annotations

import math
from collections.abc import Container, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tamis.algebra.evaluate import matches, matches_subscription
from tamis.index.packed.axes import Axes, Part
from tamis.index.packed.boxes_of import Box, boxes_of
from tamis.index.packed.lsm import BoxIndex
from tamis.index.packed.points_of import Points, points_of
from tamis.index.protocols import Guarantee, IndexStatistics, Lookup, MatchRows, Rows
from tamis.model.schema import Event
from tamis.model.subscription import Filter, Subscription
from tamis.model.tables import EventTable, SubscriptionTable

__all__ = ["PackedMatcher"]


class _Entry(NamedTuple):
    """What a box of the special index stands for; ``exact`` as in `Box`."""

    row: int
    filter: Filter
    exact: bool


class PackedMatcher:
    """Finds matches through packed boxes.

    Guarantee: EXACT. When not to use it: sets of a few dozen subscriptions, or none with a box.
    """

    guarantee = Guarantee.EXACT

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup
        self._axes = Axes()
        self._plain = BoxIndex(1)
        self._special = BoxIndex(1)
        self._entries: dict[int, _Entry] = {}
        #: ``{row: entries}``: exactly the rows that are not plain; the list is empty when all is loose.
        self._entries_of: dict[int, list[int]] = {}
        self._next_entry = 0
        #: ``{row: filters}`` that have no box.
        self._loose: dict[int, list[Filter]] = {}

    def __len__(self) -> int:
        return len(self._plain) + len(self._entries_of)

    def add(self, row: int, subscription: Subscription) -> None:
        """Add a subscription under a row that is free."""
        if row in self._entries_of or row in self._plain:
            raise KeyError(f"row {row} is taken")
        boxes = [(box, one) for one in subscription.filters for box in boxes_of(one, self._axes)]
        self._grow()
        if len(boxes) == 1 and boxes[0][0].exact:
            self._plain.add_boxes(*self._corners([boxes[0][0]]), np.array([row], np.int32))
            return
        loose = [one for box, one in boxes if not (box.sides or box.exact)]
        if loose:
            self._loose[row] = loose
        self._add_special(row, [(box, one) for box, one in boxes if box.sides or box.exact])

    def add_boxes(self, rows: Rows, table: SubscriptionTable) -> None:
        """Add the boxes of a table under rows that are free."""
        assert table.lo is not None
        assert table.hi is not None
        axes = [self._axes.number(name, Part.NUMBER) for name in table.names]
        self._grow()
        lo, hi = table.lo, table.hi
        if axes != list(range(self._plain.n_axes)):
            shape = len(rows), self._plain.n_axes
            lo, hi = np.full(shape, -math.inf), np.full(shape, math.inf)
            lo[:, axes], hi[:, axes] = table.lo, table.hi
        self._plain.add_boxes(lo, hi, rows)

    def remove(self, row: int) -> None:
        """Remove a row; KeyError when it is not there."""
        entries = self._entries_of.pop(row, None)
        if entries is None:
            self._plain.remove(np.array([row], np.int32))
            return
        self._loose.pop(row, None)
        self._special.remove(np.array(entries, np.int32))
        for entry in entries:
            del self._entries[entry]

    def match(self, event: Event) -> Rows:
        """Return the rows that match a canonical event, ascending."""
        low, high, is_point = self._axes.place(event, self._plain.n_axes)
        corners = np.array(low), np.array(high)
        rows = self._plain.match_point(*corners)
        if not is_point:
            rows = self._verified(event, rows)
        if self._entries_of:
            entries = self._special.match_point(*corners) if self._entries else _NONE
            rows = np.union1d(rows, self._decided(event, entries.tolist(), is_point)).astype(np.int32)
        else:
            rows.sort()
        return rows

    def match_table(self, events: EventTable) -> MatchRows:
        """Return the rows that match each event of a table; a bad row matches nothing."""
        bad = events.bad
        points = points_of(events, self._axes, self._plain.n_axes)
        offsets, rows = self._plain.match_points(points.low, points.high)
        if not (self._entries_of or bad or points.between.size):
            return MatchRows(offsets, rows)
        return self._settled(events, bad, points, MatchRows(offsets, rows))

    def statistics(self) -> IndexStatistics:
        """Return how many subscriptions took which road, and the axes."""
        return IndexStatistics(
            "packed",
            len(self),
            {
                "plain": len(self._plain),
                "special": len(self._entries_of),
                "boxes": len(self._special),
                "loose": len(self._loose),
                "axes": len(self._axes),
            },
        )

    def _add_special(self, row: int, boxes: Sequence[tuple[Box, Filter]]) -> None:
        entries = list(range(self._next_entry, self._next_entry + len(boxes)))
        self._next_entry += len(boxes)
        for entry, (box, one) in zip(entries, boxes, strict=True):
            self._entries[entry] = _Entry(row, one, box.exact)
        self._special.add_boxes(*self._corners([box for box, _ in boxes]), np.array(entries, np.int32))
        self._entries_of[row] = entries

    def _grow(self) -> None:
        if len(self._axes) > self._plain.n_axes:
            for index in (self._special, self._plain):
                index.grow(len(self._axes))

    def _corners(self, boxes: Sequence[Box]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        lo = np.full((len(boxes), self._plain.n_axes), -math.inf)
        hi = np.full((len(boxes), self._plain.n_axes), math.inf)
        for i, box in enumerate(boxes):
            for axis, (low, high) in box.sides.items():
                lo[i, axis], hi[i, axis] = low, high
        return lo, hi

    def _verified(self, event: Event, rows: Rows) -> Rows:
        """Keep the candidates whose raw values say so; one removed meanwhile is gone."""
        found = ((row, self._lookup(row)) for row in rows.tolist())
        kept = [row for row, one in found if one is not None and matches_subscription(event, one)]
        return np.array(kept, np.int32)

    def _decided(self, event: Event, entries: Sequence[int], is_point: bool) -> list[int]:
        """Return the rows among special candidates and loose filters that match; a row may come twice."""
        found = []
        for entry in map(self._entries.get, entries):
            if entry is not None and ((entry.exact and is_point) or matches(event, entry.filter)):
                found.append(entry.row)
        for row, filters in list(self._loose.items()):
            if any(matches(event, one) for one in filters):
                found.append(row)
        return found

    def _settled(self, events: EventTable, bad: Container[int], points: Points, plain: MatchRows) -> MatchRows:
        """Finish a table event by event where boxes alone do not decide."""
        starts, entries = self._special.match_points(points.low, points.high)
        between = set(points.between.tolist())
        found: list[Rows] = []
        for i in range(len(events)):
            rows = plain.rows[plain.offsets[i] : plain.offsets[i + 1]]
            mine = entries[starts[i] : starts[i + 1]]
            if i in bad:
                rows = _NONE
            elif mine.size or self._loose or i in between:
                event, is_point = events.event(i), i not in between
                rows = rows if is_point else self._verified(event, rows)
                rows = np.union1d(rows, self._decided(event, mine.tolist(), is_point)).astype(np.int32)
            found.append(rows)
        offsets = np.zeros(len(events) + 1, np.int64)
        np.cumsum([len(rows) for rows in found], out=offsets[1:])
        return MatchRows(offsets, np.concatenate([_NONE, *found]))


_NONE = np.empty(0, np.int32)
