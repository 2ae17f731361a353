"""Who is worth an exact question: found by indexes, not by comparing everybody with everybody.

Whoever covers an item matches every event that the item matches. So the item's own sample events are put to a
matcher that holds all items; those that match all of them are asked. Where an item has no sample, the outline
of a dominance index proposes instead, as it does for "who has something in common with this one".
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np

from tamis.index.dominance.index import DominanceIndex
from tamis.index.packed.matcher import PackedMatcher
from tamis.model.schema import Event
from tamis.reduction.items import Item

__all__ = ["Candidates"]


class Candidates:
    """Items by their position; finds positions worth an exact question. No answer leaves out who covers."""

    def __init__(self, items: Sequence[Item]) -> None:
        self._items = items
        self._matcher = PackedMatcher(lambda row: items[row].subscription)
        self._index = DominanceIndex()
        self._alive = np.ones(len(items), bool)
        for row, item in enumerate(items):
            self._matcher.add(row, item.subscription)
            self._index.add(row, item.subscription)

    def may_cover(self, row: int) -> list[int]:
        """Return every living row that covers this one, and perhaps others; ascending, never itself."""
        item = self._items[row]
        if item.witnesses:
            found = reduce(np.intersect1d, [self._matcher.match(event) for event in item.witnesses])
        else:
            found = self._index.propose_covers(item.subscription)
        return self._others(found, row)

    def may_help(self, row: int) -> list[int]:
        """Return the living rows that have something in common with this one; ascending, never itself."""
        return self._others(self._index.propose_meeting(self._items[row].subscription), row)

    def matching(self, event: Event, row: int) -> list[int]:
        """Return the living rows that match an event; ascending, never ``row``."""
        return self._others(self._matcher.match(event), row)

    def remove(self, row: int) -> None:
        """Leave a row out of later answers."""
        self._alive[row] = False
        self._matcher.remove(row)
        self._index.remove(row)

    def _others(self, found: np.ndarray[tuple[int], np.dtype[np.int32]], row: int) -> list[int]:
        rows: list[int] = np.sort(found[self._alive[found]]).tolist()
        return [one for one in rows if one != row]
