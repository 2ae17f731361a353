"""The packed matcher: box first, exact last.

Each filter becomes boxes (`boxes_of`); an event becomes a point (`axes`, `points_of`). Two box indexes hold
them:

* *plain*: subscriptions that are one exact box, under their own row. What the index finds is the answer.
* *special*: everything else, under entry numbers; an entry knows its row, its filter, and whether its box
  decides or only proposes. A row may have several entries; it is reported once.

Filters that give no box at all (``x IS NULL``) are *loose* and asked one by one. A number that falls between two float64 makes its event ask the raw values of every candidate.
"""

from __future__ import annotations

import math
from collections.abc import Container, Sequence

import numpy as np
import numpy.typing as npt

from tamis.algebra.evaluate import matches, matches_subscription
from tamis.index.packed.axes import Axes, Part
from tamis.index.packed.boxes_of import Box, boxes_of
from tamis.index.packed.entries import Entries
from tamis.index.packed.lsm import BoxIndex
from tamis.index.packed.points_of import Points, points_of
from tamis.index.protocols import Guarantee, IndexStatistics, Lookup, MatchRows, Rows
from tamis.model.schema import Event
from tamis.model.subscription import Subscription
from tamis.model.tables import EventTable, SubscriptionTable

__all__ = ["PackedMatcher"]


class PackedMatcher:
    """Finds matches through packed boxes; ``lookup`` gives the raw subscription of a row.

    Guarantee: EXACT. When not to use it: sets of a few dozen subscriptions, or none with a box.
    """

    guarantee = Guarantee.EXACT

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup
        self._axes = Axes()
        self._plain = BoxIndex(1)
        self._special = BoxIndex(1)
        self._entries = Entries()
        #: Subscriptions that are not plain.
        self._n_special = 0
        #: ``{row: numbers of filters}`` that have no box; none of them: the subscription never matches.
        self._loose: dict[int, tuple[int, ...]] = {}

    def __len__(self) -> int:
        return len(self._plain) + self._n_special

    def add(self, row: int, subscription: Subscription) -> None:
        """Add a subscription under a row above all others."""
        boxes = [(i, box) for i, one in enumerate(subscription.filters) for box in boxes_of(one, self._axes)]
        self._grow()
        if len(boxes) == 1 and boxes[0][1].exact:
            self._plain.add_boxes(*self._corners([boxes[0][1]]), np.array([row], np.int32))
            return
        bounded = [(i, box) for i, box in boxes if box.sides or box.exact]
        if len(bounded) < len(boxes) or not boxes:
            self._loose[row] = tuple(i for i, box in boxes if not (box.sides or box.exact))
        if bounded:
            entries = self._entries.append(row, [(i, box.exact) for i, box in bounded])
            self._special.add_boxes(*self._corners([box for _, box in bounded]), np.array(entries, np.int32))
        self._n_special += 1

    def add_boxes(self, rows: Rows, table: SubscriptionTable) -> None:
        """Add the boxes of a table under rows above all others."""
        axes = [self._axes.number(name, Part.NUMBER) for name in table.names]
        self._grow()
        lo, hi = table.corners()
        if axes != list(range(self._plain.n_axes)):
            wide_lo, wide_hi = (np.full((len(rows), self._plain.n_axes), side) for side in (-math.inf, math.inf))
            wide_lo[:, axes], wide_hi[:, axes] = lo, hi
            lo, hi = wide_lo, wide_hi
        self._plain.add_boxes(lo, hi, rows)

    def remove(self, row: int) -> None:
        """Remove a row; KeyError when it is not there."""
        entries = self._entries.of(row)
        if row in self._loose:
            del self._loose[row]
        elif not entries:
            self._plain.remove(np.array([row], np.int32))
            return
        if entries:
            self._special.remove(np.array(entries, np.int32))
        self._n_special -= 1

    def match(self, event: Event) -> Rows:
        """Return the rows that match a canonical event, ascending."""
        low, high, is_point = self._axes.place(event, self._plain.n_axes)
        corners = np.array(low), np.array(high)
        rows = self._plain.match_point(*corners)
        if not is_point:
            rows = self._verified(event, rows)
        if self._n_special:
            entries = self._special.match_point(*corners)
            return np.union1d(rows, self._decided(event, entries, is_point)).astype(np.int32)
        rows.sort()
        return rows

    def match_table(self, events: EventTable) -> MatchRows:
        """Return the rows that match each event of a table; a bad row matches nothing."""
        bad = events.bad
        points = points_of(events, self._axes, self._plain.n_axes)
        plain = MatchRows(*self._plain.match_points(points.low, points.high))
        if not (self._n_special or bad or points.between.size):
            return plain
        return self._settled(events, bad, points, plain)

    def statistics(self) -> IndexStatistics:
        """Return how many subscriptions took which road, and the axes."""
        return IndexStatistics(
            "packed",
            len(self),
            {
                "plain": len(self._plain),
                "special": self._n_special,
                "special_boxes": len(self._special),
                "loose": len(self._loose),
                "axes": len(self._axes),
                "bytes": self._plain.statistics()["bytes"] + self._special.statistics()["bytes"],
            },
        )

    def _grow(self) -> None:
        if len(self._axes) > self._plain.n_axes:
            for index in (self._special, self._plain):
                index.grow(len(self._axes))

    def _corners(self, boxes: Sequence[Box]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        lo, hi = (np.full((len(boxes), self._plain.n_axes), side) for side in (-math.inf, math.inf))
        for i, box in enumerate(boxes):
            for axis, (low, high) in box.sides.items():
                lo[i, axis], hi[i, axis] = low, high
        return lo, hi

    def _verified(self, event: Event, rows: Rows) -> Rows:
        """Keep the candidates whose raw values say so; one removed meanwhile is gone."""
        found = ((row, self._lookup(row)) for row in rows.tolist())
        kept = [row for row, one in found if one is not None and matches_subscription(event, one)]
        return np.array(kept, np.int32)

    def _decided(self, event: Event, entries: Rows, is_point: bool) -> list[int]:
        """Return the rows among special candidates and loose filters that match; a row may come twice."""
        sure = self._entries.exact[entries] & is_point
        found: list[int] = self._entries.row[entries[sure]].tolist()
        open_questions = [(int(self._entries.row[i]), (int(self._entries.filter[i]),)) for i in entries[~sure]]
        for row, filters in [*open_questions, *list(self._loose.items())]:
            one = self._lookup(row)
            if one is not None and any(matches(event, one.filters[i]) for i in filters):
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
                rows = np.union1d(rows, self._decided(event, mine, is_point)).astype(np.int32)
            found.append(rows)
        offsets = np.zeros(len(events) + 1, np.int64)
        np.cumsum([len(rows) for rows in found], out=offsets[1:])
        return MatchRows(offsets, np.concatenate([_NONE, *found]))


_NONE = np.empty(0, np.int32)
