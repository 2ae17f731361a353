"""Who is worth an exact question: found by indexes, not by comparing everybody with everybody.

Whoever covers an item matches every event that the item matches, and its outline contains the item's. So a
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
from tamis.reduction.stages.items import Item

__all__ = ["Candidates"]

#: With more candidates than this a sample event is put to the matcher.
MANY = 16


class Candidates:
    """Items by their row; finds rows worth an exact question. No answer leaves out who covers."""

    def __init__(self, items: Sequence[Item]) -> None:
        self._matcher = PackedMatcher(lambda row: items[row].subscription)
        self._index = DominanceIndex()
        for row, item in enumerate(items):
            self._matcher.add(row, item.subscription)
            self._index.add(row, item.subscription)

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
        return _others(self._index.propose_meeting(item.subscription), row)

    def matching(self, event: Event, row: int) -> list[int]:
        """Return the living rows that match an event; ascending, never ``row``."""
        return _others(self._matcher.match(event), row)

    def remove(self, row: int) -> None:
        """Leave a row out of later answers."""
        self._matcher.remove(row)
        self._index.remove(row)


def _others(found: Rows, row: int) -> list[int]:
    rows: list[int] = np.sort(found).tolist()
    return [one for one in rows if one != row]
