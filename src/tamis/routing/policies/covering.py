"""Covering: what an announced filter covers is not announced, and filters that a new one covers are retracted.

Any covering index can propose covers, by its name in the registry: the exact ones, the Z curve with its epsilon, random
projections, cells. It must be SOUND, because a false cover loses events (promise R6); a missed cover only costs
messages. The decision is per outgoing link: a cover that came from a neighbour was never announced to it (erratum R-B).

Implements: [zcurve] section 1.1, covering at a router; [projection] section III, arrival and cancellation.
Deviation: both papers ask whether any subscription at the router covers the new one; here only what was announced
on the same link counts, otherwise events are lost (erratum R-B).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tamis.index.dominance.batches import Questions
from tamis.index.dominance.index import DominanceIndex
from tamis.index.linear_scan import LinearCovering
from tamis.index.protocols import CoveringIndex, Guarantee, Rows, demand
from tamis.model.subscription import Subscription
from tamis.routing.core.summary import NewGroup, Placement, Wanted

__all__ = ["PIECES", "CoveringStrategy"]

#: Cost limit of all proofs about one subscription on a link, in pieces of about 50 microseconds. Beyond it the
#: subscription is announced (promise S19).
PIECES = 500


class CoveringStrategy:
    """A home is a group that covers a subscription; a new group absorbs those it covers.

    Up to ``few`` groups are scanned one by one; an index pays only beyond that.
    """

    def __init__(self, make_index: Callable[[], CoveringIndex], few: int = 0, pieces: int = PIECES) -> None:
        self._few = few
        self._make_index = make_index
        self._index: CoveringIndex = LinearCovering(pieces) if few else make_index()
        demand(Guarantee.SOUND, self._index.guarantee)
        #: ``{key: filter}`` of the groups, in the order they were made; those that came in batches are not among them.
        self._contents: dict[str, Subscription] = {}
        #: Both ways between the keys of the groups and their rows in the index.
        self._rows: dict[str, int] = {}
        self._keys: dict[int, str] = {}
        self._next_row = 0

    @property
    def finder(self) -> CoveringIndex:
        """The index that proposes covers."""
        return self._index

    def find_homes(self, subscription: Subscription) -> tuple[str, ...] | None:
        """Return a group that covers a subscription."""
        row = self._index.find_cover(subscription)
        return None if row is None else (self._keys[row],)

    def grow(self, subscription: Subscription) -> NewGroup:
        """Return the subscription itself; it replaces all groups that it covers."""
        return NewGroup(subscription, covered=self.covered(subscription))

    def covered(self, subscription: Subscription) -> tuple[str, ...]:
        """Return the groups that a subscription covers."""
        return tuple(self._keys[int(row)] for row in self._index.find_covered(subscription))

    def opened(self, content: Subscription) -> None:
        """Note a new group."""
        key, row = str(content.id), self._next_row
        self._next_row += 1
        self._rows[key], self._keys[row] = row, key
        self._contents[key] = content
        self._index.add(row, content)
        if 0 < self._few < len(self._rows):
            self._build_index()

    def closed(self, content: Wanted) -> None:
        """Note that a group has ended."""
        row = self._rows.pop(str(content.id))
        del self._keys[row]
        self._contents.pop(str(content.id), None)
        self._index.remove(row)

    def place(self, keys: Sequence[str], questions: Questions) -> Placement | None:
        """Return a covering group for each subscription; the broadest become groups. None without an exact index."""
        if self._few:
            self._build_index()
        if not isinstance(self._index, DominanceIndex):
            return None
        batches = self._index.batches
        homes = [self._keys.get(row, "") for row in batches.find_covers(questions).tolist()]
        homeless = [position for position, home in enumerate(homes) if not home]
        homeless_questions, first = questions.take(homeless), self._next_row
        self._next_row += len(homeless)
        batches.add(range(first, self._next_row), homeless_questions)
        covered = batches.find_covered(homeless_questions)
        older: dict[int, tuple[str, ...]] = {}
        for i, (position, coverer) in enumerate(zip(homeless, _coverers(covered, first), strict=True)):
            homes[position] = keys[homeless[coverer]]
            if coverer != i:
                self._index.remove(first + i)
                continue
            older[position] = tuple(self._keys[row] for row in covered[i][covered[i] < first].tolist())
            self._rows[keys[position]], self._keys[first + i] = first + i, keys[position]
        return Placement(homes, older)

    def _build_index(self) -> None:
        self._few = 0
        self._index = self._make_index()
        demand(Guarantee.SOUND, self._index.guarantee)
        for key, row in self._rows.items():
            self._index.add(row, self._contents[key])


def _coverers(covered: Sequence[Rows], first: int) -> list[int]:
    """Return for each subscription which of them represents it, itself or a broader one; rows count from ``first``.

    Those that cover most are taken first; a subscription that none of them covers represents itself.
    """
    covered_new = [rows[rows >= first] - first for rows in covered]
    coverers = np.full(len(covered), -1)
    for i in sorted(range(len(covered)), key=lambda i: -len(covered_new[i])):
        if coverers[i] < 0:
            coverers[covered_new[i][coverers[covered_new[i]] < 0]] = i
            coverers[i] = i
    return coverers.tolist()
