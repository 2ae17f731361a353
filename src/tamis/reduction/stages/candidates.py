"""Candidates for an exact covering test: found by indexes, not by comparing every pair.

A cover of an item matches every event that the item matches, and its outline contains the item's. So a
dominance index proposes by outlines, and where it proposes many, a matcher that holds all items is asked which
of them match the item's own sample events.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tamis.index.dominance.index import DominanceIndex
from tamis.index.packed.matcher import PackedMatcher
from tamis.index.protocols import Rows
from tamis.model.schema import Event
from tamis.model.subscription import Filter, Subscription, Values
from tamis.reduction.stages.items import Item

__all__ = ["Candidates"]

#: With more candidates than this a sample event is put to the matcher.
MANY = 16


class Candidates:
    """Items by their row; finds rows worth an exact question. No answer leaves out who covers."""

    def __init__(self, items: Sequence[Item]) -> None:
        self._matcher = PackedMatcher(lambda row: items[row].subscription)
        self._index = DominanceIndex()
        rows, subscriptions = np.arange(len(items), dtype=np.int32), [item.subscription for item in items]
        self._matcher.add_many(rows, subscriptions)
        self._index.add_many(rows.tolist(), subscriptions)
        self._helpers = _Helpers(items)

    def may_cover(self, item: Item, row: int = -1) -> list[int]:
        """Return every living row that covers an item, and perhaps others; ascending, never ``row``."""
        found = self._index.propose_covers(item.subscription)
        for event in item.witnesses:
            if len(found) <= MANY:
                break
            found = np.intersect1d(found, self._matcher.match(event), assume_unique=True)
        return _others(found, row)

    def may_help(self, row: int, item: Item) -> list[int]:
        """Return the living rows that have something in common with an item; ascending, never ``row``."""
        return _others(self._helpers.useful(self._index.propose_meeting(item.subscription), item), row)

    def matching(self, event: Event, row: int) -> list[int]:
        """Return the living rows that match an event; ascending, never ``row``."""
        return _others(self._matcher.match(event), row)

    def remove(self, row: int) -> None:
        """Leave a row out of later answers."""
        self._matcher.remove(row)
        self._index.remove(row)


class _Helpers:
    """Tells which rows can help to cover an item together with others, by their patterns, regions and balls.

    A filter helps only if the item implies all of its conditions of those kinds (`Item.find_union`): stripped of its
    values it covers the item then, which an index of such filters finds.
    """

    def __init__(self, items: Sequence[Item]) -> None:
        stripped = [
            (row, Subscription(row, (Filter(tuple(one for one in filter.constraints if not isinstance(one, Values))),)))
            for row, item in enumerate(items)
            for filter in item.filters
        ]
        #: The row of each stripped filter; rows of which each filter has a condition.
        self._row_of = np.array([row for row, _ in stripped], np.int32)
        self._needs_proof = np.ones(len(items), np.bool_)
        self._needs_proof[[row for row, one in stripped if not one.filters[0].constraints]] = False
        self._index = DominanceIndex()
        chosen = [number for number, (row, _) in enumerate(stripped) if self._needs_proof[row]]
        self._index.add_many(chosen, [stripped[number][1] for number in chosen])

    def useful(self, rows: Rows, item: Item) -> Rows:
        """Return those of some rows that can help an item; where there are few, perhaps others."""
        needs_proof = self._needs_proof[rows]
        if np.count_nonzero(needs_proof) <= MANY:
            return rows
        asked = (Subscription(item.id, (filter,)) for filter in item.filters)
        implied = np.concatenate([self._row_of[self._index.propose_covers(one)] for one in asked])
        return rows[~needs_proof | np.isin(rows, implied)]


def _others(found: Rows, row: int) -> list[int]:
    rows: list[int] = np.sort(found).tolist()
    return [one for one in rows if one != row]
