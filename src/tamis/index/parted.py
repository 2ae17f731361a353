"""Combines several matchers into one: each owns a range of rows, and new rows go to the last.

A snapshot that many builders wrote, or one that only adds to an earlier one, comes in parts; this makes one
matcher of them. Inside a part rows count from 0.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

import numpy as np

from tamis.index.protocols import (
    NO_ROWS,
    BoxMatcher,
    EventMatcher,
    Guarantee,
    IndexStatistics,
    MatchRows,
    Mergeable,
    MergePlan,
    Rows,
)
from tamis.model.schema import Event
from tamis.model.subscription import Subscription
from tamis.model.tables import EventTable, SubscriptionTable

__all__ = ["PartedMatcher"]


@dataclass(frozen=True)
class _PartPlan:
    """A merge inside one part."""

    part: Mergeable
    plan: MergePlan

    @property
    def n_dead(self) -> int:
        return self.plan.n_dead

    def run(self) -> None:
        self.plan.run()


class PartedMatcher:
    """One matcher made of others.

    Guarantee: what all parts guarantee. Cost: the sum over all parts; few large parts are faster than many small
    ones.
    """

    def __init__(self, first: EventMatcher) -> None:
        #: The first row of each part, ascending, and the parts.
        self._first = [0]
        self._parts = [first]

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee that every part has."""
        guarantee = Guarantee.EXACT
        for part in self._parts:
            guarantee &= part.guarantee
        return guarantee

    def __len__(self) -> int:
        return sum(len(part) for part in self._parts)

    def append(self, first: int, part: EventMatcher) -> None:
        """Add a part whose row 0 is row ``first`` here, above all rows so far."""
        self._first.append(first)
        self._parts.append(part)

    def parts(self, n_rows: int) -> list[tuple[int, int, EventMatcher]]:
        """Return (first row, row after the last, matcher) of every part."""
        return list(zip(self._first, [*self._first[1:], n_rows], self._parts, strict=True))

    def add(self, row: int, subscription: Subscription) -> None:
        """Add a subscription under a row above all rows added before."""
        self._parts[-1].add(row - self._first[-1], subscription)

    def add_boxes(self, rows: Rows, table: SubscriptionTable) -> None:
        """Add the boxes of a table under rows above all rows added before, ascending."""
        last, first = self._parts[-1], self._first[-1]
        if isinstance(last, BoxMatcher):
            last.add_boxes(rows - np.int32(first), table)
            return
        for position, row in enumerate(rows.tolist()):
            last.add(row - first, table.box_subscription(position, row))

    def remove(self, row: int) -> None:
        """Remove a row; raise `KeyError` if it is absent."""
        number = self._place(row)
        self._parts[number].remove(row - self._first[number])

    def find_sides(self, row: int) -> dict[str, tuple[float, float]] | None:
        """Return the sides of a box that came with `add_boxes`; None if the row is absent."""
        number = self._place(row)
        part = self._parts[number]
        return part.find_sides(row - self._first[number]) if isinstance(part, BoxMatcher) else None

    def match(self, event: Event) -> Rows:
        """Return the rows that match a canonical event, ascending."""
        rows_of_parts = [
            part.match(event) + np.int32(first) for first, part in zip(self._first, self._parts, strict=True)
        ]
        return np.concatenate([NO_ROWS, *rows_of_parts])

    def match_table(self, events: EventTable) -> MatchRows:
        """Return the rows that match each event of a table; a bad row matches nothing."""
        answers = [part.match_table(events) for part in self._parts]
        counts = [np.diff(answer.offsets) for answer in answers]
        offsets = np.zeros(len(events) + 1, np.int64)
        np.cumsum(np.sum(counts, axis=0), out=offsets[1:])
        rows = np.empty(offsets[-1], np.int32)
        start = offsets[:-1].copy()  # where the next part's rows of each event begin
        for first, answer, count in zip(self._first, answers, counts, strict=True):
            positions = np.repeat(start - answer.offsets[:-1], count) + np.arange(len(answer.rows))
            rows[positions] = answer.rows + np.int32(first)
            start += count
        return MatchRows(offsets, rows)

    def statistics(self) -> IndexStatistics:
        """Return the sums of the counts of all parts."""
        total: dict[str, int | float | str] = {"parts": len(self._parts)}
        for part in self._parts:
            for name, value in part.statistics().details.items():
                before = total.get(name, 0)
                total[name] = value if isinstance(value, str) or isinstance(before, str) else before + value
        return IndexStatistics("parted", len(self), total)

    def wants_merge(self) -> bool:
        """Whether some part has something to merge."""
        return any(part.wants_merge() for part in self._mergeable())

    def plan_merge(self) -> _PartPlan | None:
        """Propose a merge in the first part that wants one."""
        for part in self._mergeable():
            plan = part.plan_merge()
            if plan is not None:
                return _PartPlan(part, plan)
        return None

    def install(self, plan: MergePlan) -> None:
        """Install the result of a merge that has run."""
        assert isinstance(plan, _PartPlan), "a plan of another index"
        plan.part.install(plan.plan)

    def compact(self) -> None:
        """Merge everything in the last part, the only one that is added to."""
        for part in self._mergeable()[-1:]:
            part.compact()

    def _mergeable(self) -> list[Mergeable]:
        return [part for part in self._parts if isinstance(part, Mergeable)]

    def _place(self, row: int) -> int:
        return bisect_right(self._first, row) - 1
