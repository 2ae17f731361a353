"""The heart of the packed matcher: box first, exact last.

Each filter becomes boxes (`boxes_of`); an event becomes a point (`axes`, `points_of`). Two box indexes hold
them:

* *plain*: subscriptions that are one exact box, under their own row. What the index finds is the answer.
* *special*: everything else, under entry numbers; an entry knows its row, its filter, and whether its box
  decides or only proposes. A row may have several entries; it is reported once.

Subscriptions that are one ball and nothing else have an index of their own (`balls`). Filters that give no box at all
(``x IS NULL``) are *loose* and asked one by one. A number that falls between two float64 makes its event ask the raw
values of every candidate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from tamis.algebra.evaluate import matches, matches_subscription
from tamis.index.packed.axes import Axes, AxesState, Part
from tamis.index.packed.balls import PackedBalls, only_ball
from tamis.index.packed.boxes.box_index import BoxIndex, MergePlan
from tamis.index.packed.boxes_of import Box, boxes_of
from tamis.index.packed.deciders.combined import Deciders, OneEvent, TableOfEvents, arrays_under
from tamis.index.packed.deciders.entries import Entries
from tamis.index.packed.deciders.regions import RegionTests, Verdicts
from tamis.index.packed.points_of import Points, points_of
from tamis.index.protocols import NO_ROWS, Guarantee, IndexStatistics, Lookup, MatchRows, Rows
from tamis.kernels.boxes.pairs import join_csr
from tamis.kernels.polygons.region_tests import OPEN, YES, take_met
from tamis.model.schema import Event
from tamis.model.subscription import Ball, Subscription
from tamis.model.tables import EventTable, SubscriptionTable

__all__ = ["BoxMerge", "PackedCore"]


_Answer = TypeVar("_Answer")
#: Events and rows, int32 each.
_Pairs = tuple[npt.NDArray[np.int32], Rows]


@dataclass(slots=True)
class BoxMerge:
    """A merge of one of the two box indexes, and of what its boxes leave open."""

    index: BoxIndex
    plan: MergePlan
    #: Whose regions are to follow the order of the boxes.
    deciders: Deciders | None
    regions: RegionTests | None = None

    def run(self) -> None:
        """Compute the merged segment; if it has most of the boxes, lay the regions out in its order."""
        self.plan.run()
        result = self.plan.result
        if self.deciders is not None and result is not None and 2 * result.n_slots > len(self.index):
            self.regions = self.deciders.laid_out(result.rows)


class PackedCore:
    """Finds matches through packed boxes; ``lookup`` gives the raw subscription of a row. See `PackedMatcher`."""

    guarantee = Guarantee.EXACT

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup
        self._axes = Axes()
        self._plain = BoxIndex(1)
        self._special = BoxIndex(1)
        self._entries = Entries()
        #: What decides entries whose boxes only propose.
        self._deciders = Deciders(lookup)
        self._balls = PackedBalls()
        #: Subscriptions that are neither plain nor a ball alone.
        self._n_special = 0
        #: ``{row: numbers of filters}`` that have no box; none of them: the subscription never matches.
        self._loose: dict[int, tuple[int, ...]] = {}

    def __len__(self) -> int:
        return len(self._plain) + self._n_special + len(self._balls)

    def add(self, row: int, subscription: Subscription) -> None:
        """Add a subscription under a row above all others."""
        ball = only_ball(subscription)
        if ball is not None:
            self._balls.add(row, ball)
            return
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
            self._deciders.append(entries, [box for _, box in bounded])
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

    def add_balls(self, rows: Rows, table: SubscriptionTable) -> None:
        """Add the balls of a table under rows above all others."""
        self._balls.add_many(rows, table.names[0], *table.balls())

    def remove(self, row: int) -> None:
        """Remove a row; KeyError when it is not there."""
        if self._balls.remove(row):
            return
        entries = self._entries.of(row)
        if row in self._loose:
            del self._loose[row]
        elif not entries:
            self._plain.remove_one(row)
            return
        if entries:
            self._special.remove(np.array(entries, np.int32))
        self._n_special -= 1

    def match(self, event: Event) -> Rows:
        """Return the rows that match a canonical event, ascending."""
        return self._at_one_width(lambda n_axes: self._match(event, n_axes))

    def match_table(self, events: EventTable) -> MatchRows:
        """Return the rows that match each event of a table; a bad row matches nothing."""
        return self._at_one_width(lambda n_axes: self._match_table(events, n_axes))

    def wants_merge(self) -> bool:
        """Whether one of the box indexes has something to merge."""
        return self._plain.wants_merge() or self._special.wants_merge()

    def plan_merge(self) -> BoxMerge | None:
        """Propose a merge of one of the box indexes."""
        for index in (self._plain, self._special):
            plan = index.plan_merge()
            if plan is not None:
                return BoxMerge(index, plan, self._deciders if index is self._special else None)
        return None

    def install(self, plan: BoxMerge) -> None:
        """Put a merge that has run into use."""
        if plan.index.install(plan.plan) and plan.regions is not None:
            self._deciders.adopt(plan.regions)

    def compact(self) -> None:
        """Merge everything now."""
        self._plain.compact()
        self._deciders.adopt(self._deciders.laid_out(self._special.compact()))

    def _at_one_width(self, match: Callable[[int], _Answer]) -> _Answer:
        """Match with as many axes as there are; again if a writer adds one meanwhile."""
        while True:
            n_axes = self._plain.n_axes
            try:
                return match(n_axes)
            except ValueError:
                if n_axes == self._plain.n_axes == self._special.n_axes:
                    raise

    def _match(self, event: Event, n_axes: int) -> Rows:
        low, high, is_point = self._axes.place(event, n_axes)
        lowest = np.array(low)
        corners = lowest, lowest if high is low else np.array(high)
        rows = self._plain.match_point(*corners)
        if not is_point:
            rows = self._verified(event, rows)
        if len(self._balls):
            rows = np.concatenate((rows, self._balls.match(event)))
        if self._n_special:
            entries = self._special.match_point(*corners)
            return np.union1d(rows, self._decided(event, entries, is_point)).astype(np.int32)
        rows.sort()
        return rows

    def _match_table(self, events: EventTable, n_axes: int) -> MatchRows:
        bad = events.bad
        points = points_of(events, self._axes, n_axes)
        plain = MatchRows(*self._plain.match_points(points.low, points.high))
        if self._n_special or bad or points.between.size:
            plain = self._settled(events, bad, points, plain)
        return self._with_balls(events, bad, plain) if len(self._balls) else plain

    def _with_balls(self, events: EventTable, bad: Mapping[int, object], found: MatchRows) -> MatchRows:
        """Add the matches of balls, which come as pairs of event and row in any order."""
        pairs = self._balls.pairs(events)
        if bad:
            good = ~np.isin(pairs[0], list(bad))
            pairs = pairs[0][good], pairs[1][good]
        return _joined(found, pairs)

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
                "bytes": sum(one.statistics()["bytes"] for one in (self._plain, self._special)) + self._balls.n_bytes,
                **self._balls.statistics(),
            },
        )

    def find_sides(self, row: int) -> dict[str, tuple[float, float]] | None:
        """Return the sides of a plain box on the NUMBER axes by attribute; None when the row is not there."""
        found = self._plain.find_box(row)
        if found is None:
            return None
        names = dict(self._axes)
        return {names[axis].attribute: (lo, hi) for axis, lo, hi in zip(*found, strict=True)}

    def find_ball(self, row: int) -> Ball | None:
        """Return the ball of a row that is a ball and nothing else; None when it is not there."""
        return self._balls.find(row)

    def to_arrays(self) -> tuple[AxesState, dict[str, npt.NDArray[Any]]]:
        """Return what `from_arrays` opens: the axes, and named arrays. For the writer only."""
        arrays = {f"plain.{name}": array for name, array in self._plain.to_arrays().items()}
        arrays |= {f"special.{name}": array for name, array in self._special.to_arrays().items()}
        arrays |= {f"entries.{name}": array for name, array in self._entries.to_arrays().items()}
        arrays |= {f"deciders.{name}": array for name, array in self._deciders.to_arrays().items()}
        arrays |= {f"balls.{name}": array for name, array in self._balls.to_arrays().items()}
        loose = [(row, i) for row, filters in sorted(self._loose.items()) for i in (filters or (-1,))]
        arrays["loose"] = np.array(loose, np.int32).reshape(len(loose), 2)
        arrays["special"] = np.array([self._n_special], np.int64)
        return self._axes.to_state(), arrays

    @classmethod
    def from_arrays(cls, lookup: Lookup, axes: AxesState, arrays: Mapping[str, npt.NDArray[Any]]) -> PackedCore:
        """Open a core on arrays that may be read-only and mapped; they stay in use."""
        core = cls(lookup)
        core._axes = Axes.from_state(axes)
        core._plain, core._special = (
            BoxIndex.from_arrays(arrays_under(arrays, part)) for part in ("plain.", "special.")
        )
        core._entries = Entries.from_arrays(arrays_under(arrays, "entries."))
        core._deciders = Deciders.from_arrays(lookup, arrays_under(arrays, "deciders."))
        core._balls = PackedBalls.from_arrays(arrays_under(arrays, "balls."))
        core._n_special = int(arrays["special"][0])
        for row, i in arrays["loose"].tolist():
            core._loose[row] = (*core._loose.get(row, ()), i) if i >= 0 else ()
        return core

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
        left = entries[~sure]
        if is_point and len(left):
            pairs = np.zeros(len(left), np.int64)
            verdicts = self._deciders.decide(left, pairs, OneEvent(event), self._entries, self._axes)
            found += self._entries.row[left[verdicts == YES]].tolist()
            left = left[verdicts == OPEN]
        return found + self._asked(event, left)

    def _asked(self, event: Event, entries: Rows) -> list[int]:
        """Return the rows of the entries and loose filters whose raw values match; a row may come twice."""
        questions = [(int(self._entries.row[i]), (int(self._entries.filter[i]),)) for i in entries]
        found = []
        for row, filters in [*questions, *list(self._loose.items())]:
            one = self._lookup(row)
            if one is not None and any(matches(event, one.filters[i]) for i in filters):
                found.append(row)
        return found

    def _settled(self, events: EventTable, bad: Mapping[int, object], points: Points, plain: MatchRows) -> MatchRows:
        """Finish a table where boxes alone do not decide: only what needs raw values is asked event by event."""
        if bad or points.between.size:
            found = [plain.rows[plain.offsets[i] : plain.offsets[i + 1]] for i in range(len(events))]
            for i in points.between.tolist():
                found[i] = self._verified(events.event(i), found[i])
            for i in bad:
                found[i] = NO_ROWS
            plain = MatchRows.joined(found)
        if not self._n_special:
            return plain
        event, rows = self._special_pairs(events, points)
        good = ~np.isin(event, list(bad)) if bad else slice(None)
        return _joined(plain, (event[good], rows[good]))

    def _special_pairs(self, events: EventTable, points: Points) -> _Pairs:
        """Return event and row of each match of special and loose subscriptions, each once, in any order."""
        order = self._special.find_order(points.low)
        order = np.arange(len(events)) if order is None else order
        low = points.low[order]
        starts, entries = self._special.match_points(low, low if points.high is points.low else points.high[order])
        event = np.repeat(order, np.diff(starts))
        verdicts = self._verdicts(entries, event, events, points)
        found = self._met(verdicts, event, entries)
        is_open = np.flatnonzero(verdicts == OPEN)
        if not (self._loose or len(is_open)):
            return found
        return _united(found, self._asked_pairs(events, event[is_open], entries[is_open]))

    def _verdicts(self, entries: Rows, event: npt.NDArray[np.int64], events: EventTable, points: Points) -> Verdicts:
        """Return a verdict for each pair of event and entry: by its box where that decides, else by the deciders."""
        values = TableOfEvents(events)
        if not (points.between.size or self._entries.has_exact):
            return self._deciders.decide(entries, event, values, self._entries, self._axes)
        is_point = ~np.isin(event, points.between)
        verdicts = np.where(self._entries.exact[entries] & is_point, np.int8(YES), np.int8(OPEN))
        left = np.flatnonzero((verdicts == OPEN) & is_point)
        verdicts[left] = self._deciders.decide(entries[left], event[left], values, self._entries, self._axes)
        return verdicts

    def _met(self, verdicts: Verdicts, event: npt.NDArray[np.int64], entries: Rows) -> _Pairs:
        """Return event and row of each match, once."""
        if self._entries.has_several:
            met = np.flatnonzero(verdicts == YES)
            return self._once(event[met], entries[met])
        found = np.empty((2, len(entries)), np.int32)
        n = take_met(verdicts, event, entries, self._entries.row, found[0], found[1])
        return found[0, :n], found[1, :n]

    def _once(self, event: npt.NDArray[np.int64], entries: Rows) -> _Pairs:
        """Return event and row of entries that match, a row with several entries once for each event."""
        rows = self._entries.row[entries]
        several = self._entries.is_one_of_several(entries)
        some = np.unique(event[several] << 32 | rows[several])
        both = np.concatenate([event[~several], some >> 32]).astype(np.int32)
        return both, np.concatenate([rows[~several], (some & 0xFFFFFFFF).astype(np.int32)])

    def _asked_pairs(self, events: EventTable, event: npt.NDArray[np.int64], entries: Rows) -> _Pairs:
        """Ask raw values, event by event, about the given pairs and the loose filters; a pair may come twice."""
        order = np.argsort(event, kind="stable")
        starts = np.searchsorted(event[order], np.arange(len(events) + 1))
        pairs = [(NO_ROWS, NO_ROWS)]
        for i in range(len(events)) if self._loose else np.unique(event).tolist():
            mine = entries[order[starts[i] : starts[i + 1]]]
            found = np.array(self._asked(events.event(i), mine), np.int32)
            pairs.append((np.full(len(found), i, np.int32), found))
        return np.concatenate([one for one, _ in pairs]), np.concatenate([rows for _, rows in pairs])


def _united(a: _Pairs, b: _Pairs) -> _Pairs:
    """Return the pairs of both, each once."""
    keys = np.unique(np.concatenate([event.astype(np.int64) << 32 | rows for event, rows in (a, b)]))
    return (keys >> 32).astype(np.int32), (keys & 0xFFFFFFFF).astype(np.int32)


def _joined(found: MatchRows, pairs: _Pairs) -> MatchRows:
    """Add pairs of event and row, in any order, to the rows of their events."""
    offsets = np.empty_like(found.offsets)
    rows = np.empty(len(found.rows) + len(pairs[1]), np.int32)
    join_csr((found.offsets, found.rows), pairs, offsets, np.empty(len(offsets) - 1, np.int64), rows)
    return MatchRows(offsets, rows)
