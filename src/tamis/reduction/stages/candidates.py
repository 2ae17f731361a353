"""Finds candidates for an exact covering test with indexes, without comparing every pair.

A cover of an item matches every event that the item matches, and its outline contains the item's. So a
dominance index proposes by outlines, and where it proposes many, a matcher that holds all items is asked which
of them match the item's own sample events.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from tamis.index.dominance.index import DominanceIndex
from tamis.index.packed.matcher import PackedMatcher
from tamis.index.protocols import Rows
from tamis.model.schema import Event
from tamis.model.subscription import Filter, Subscription, Values
from tamis.reduction.stages.items import Item

__all__ = ["CandidateFinder"]

#: With more candidates than this a sample event is put to the matcher.
MANY = 16


class CandidateFinder:
    """Finds the rows of items that may cover an item; never misses a cover."""

    def __init__(self, items: Sequence[Item]) -> None:
        self._items = items
        self._index = DominanceIndex()
        split = [item.split for item in items]
        self._index.add_many(range(len(items)), [item.subscription for item in items], split)
        self._is_living = np.ones(len(items), np.bool_)

    @cached_property
    def _matcher(self) -> PackedMatcher:
        """A matcher with all items; built for the first event."""
        matcher = PackedMatcher(lambda row: self._items[row].subscription)
        rows = np.arange(len(self._items), dtype=np.int32)
        matcher.add_many(rows, [item.subscription for item in self._items])
        return matcher

    @cached_property
    def _helpers(self) -> _Helpers:
        return _Helpers(self._items)

    def may_cover(self, items: Sequence[Item]) -> list[list[tuple[int, bool]]]:
        """Return the living rows that may cover each item, ascending, and whether each is proved; misses no cover."""
        proposed = self._index.batches.propose_covers([item.filters for item in items], [item.split for item in items])
        return [self._narrowed(item, *proposal) for item, proposal in zip(items, proposed, strict=True)]

    def _narrowed(self, item: Item, rows: Rows, sure: npt.NDArray[np.bool_]) -> list[tuple[int, bool]]:
        """Return the rows that match the item's sample events, if there are many unproved rows."""
        for event in item.witnesses if np.count_nonzero(~sure) > MANY else ():
            keep = sure | np.isin(rows, self._matcher.match(event))
            rows, sure = rows[keep], sure[keep]
        return list(zip(rows.tolist(), sure.tolist(), strict=True))

    def may_help(self, row: int, item: Item) -> list[int]:
        """Return the living rows that have something in common with an item; ascending, never ``row``."""
        return _others(self._helpers.useful(self._index.propose_meeting(item.subscription), item), row)

    def matching(self, event: Event, row: int) -> list[int]:
        """Return the living rows that match an event; ascending, never ``row``."""
        rows = self._matcher.match(event)
        return _others(rows[self._is_living[rows]], row)

    def remove(self, row: int) -> None:
        """Exclude a row from later results."""
        self._is_living[row] = False
        self._index.remove(row)


class _Helpers:
    """Finds rows that can help to cover an item together with others, by their patterns, regions and balls.

    A filter helps only if the item implies all of its conditions of those kinds (`Item.find_union`): stripped of its
    values it covers the item then, which an index of such filters finds.
    """

    def __init__(self, items: Sequence[Item]) -> None:
        stripped = [
            (row, Subscription(row, (Filter(tuple(c for c in filter.constraints if not isinstance(c, Values))),)))
            for row, item in enumerate(items)
            for filter in item.filters
        ]
        #: The row of each stripped filter; rows of which each filter has a condition.
        self._row_of = np.array([row for row, _ in stripped], np.int32)
        self._needs_proof = np.ones(len(items), np.bool_)
        self._needs_proof[[row for row, subscription in stripped if not subscription.filters[0].constraints]] = False
        self._index = DominanceIndex()
        chosen = [number for number, (row, _) in enumerate(stripped) if self._needs_proof[row]]
        self._index.add_many(chosen, [stripped[number][1] for number in chosen])

    def useful(self, rows: Rows, item: Item) -> Rows:
        """Return the given rows that can help to cover an item; a short list is returned unchecked."""
        needs_proof = self._needs_proof[rows]
        if np.count_nonzero(needs_proof) <= MANY:
            return rows
        questions = (Subscription(item.id, (filter,)) for filter in item.filters)
        implied = np.concatenate([self._row_of[self._index.propose_covers(question)] for question in questions])
        return rows[~needs_proof | np.isin(rows, implied)]


def _others(candidates: Rows, row: int) -> list[int]:
    rows: list[int] = np.sort(candidates).tolist()
    return [other for other in rows if other != row]
