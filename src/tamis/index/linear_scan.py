"""Linear scan: exact and slow, the reference for every other structure.

It evaluates `tamis.algebra.evaluate.matches` and `tamis.algebra.covers.is_covered` for each subscription in turn. The
code is too simple to be wrong, so contract tests compare every other index with it.

When not to use it: beyond a few thousand subscriptions. An event costs about a microsecond per constraint.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tamis.algebra.covers import Prover
from tamis.algebra.evaluate import matches_subscription
from tamis.index.protocols import Guarantee, IndexStatistics, MatchRows, OneByOne, Rows, match_each
from tamis.model.schema import Event
from tamis.model.subscription import Subscription
from tamis.model.tables import EventTable

__all__ = ["LinearCovering", "LinearMatcher"]


class _LinearScan:
    """The base of both roles: subscriptions by row."""

    guarantee = Guarantee.EXACT
    kind = "linear"

    def __init__(self) -> None:
        #: ``{row: subscription}``, exactly those added and not removed.
        self._subscriptions: dict[int, Subscription] = {}

    def add(self, row: int, subscription: Subscription) -> None:
        """Add a subscription under a row that is free."""
        if row in self._subscriptions:
            raise KeyError(f"row {row} is taken")
        self._subscriptions[row] = subscription

    def remove(self, row: int) -> None:
        """Remove a row; raise `KeyError` if it is absent."""
        del self._subscriptions[row]

    def __len__(self) -> int:
        return len(self._subscriptions)

    def statistics(self) -> IndexStatistics:
        """Return the number of subscriptions."""
        return IndexStatistics(self.kind, len(self))

    def items(self) -> list[tuple[int, Subscription]]:
        """Return the current rows and subscriptions; a writer may continue meanwhile."""
        return sorted(self._subscriptions.items())


class LinearMatcher(_LinearScan):
    """Matches an event by evaluating every subscription."""

    def match(self, event: Event) -> Rows:
        """Return the rows that match a canonical event, ascending."""
        rows = [row for row, subscription in self.items() if matches_subscription(event, subscription)]
        return np.array(rows, dtype=np.int32)

    def match_table(self, events: EventTable) -> MatchRows:
        """Return the rows that match each event of a table, ascending; a bad row matches nothing."""
        return match_each(self.match, events)

    def matches_any(self, event: Event) -> bool:
        """Whether some row matches a canonical event; ends at the first that does."""
        return any(matches_subscription(event, subscription) for _, subscription in self.items())

    def matches_any_of(self, events: EventTable) -> npt.NDArray[np.bool_]:
        """Return for each event of a table whether some row matches it; a bad row matches nothing."""
        bad = events.bad
        return np.array([i not in bad and self.matches_any(events.event(i)) for i in range(len(events))], np.bool_)


class LinearCovering(_LinearScan, OneByOne):
    """Finds covers by asking every subscription; with ``pieces`` all proofs of one question cost no more than that."""

    def __init__(self, pieces: int | None = None) -> None:
        super().__init__()
        self._pieces = pieces
        if pieces is not None:  # some covers are missed
            self.guarantee = Guarantee.SOUND

    def find_cover(self, subscription: Subscription) -> int | None:
        """Return the smallest row whose subscription covers the given one."""
        prover, filters = Prover(self._pieces), subscription.filters
        return next((row for row, other in self.items() if prover.is_covered(filters, other.filters)), None)

    def find_covered(self, subscription: Subscription) -> Rows:
        """Return the rows the given subscription covers, ascending."""
        prover = Prover(self._pieces)
        rows = [row for row, other in self.items() if prover.is_covered(other.filters, subscription.filters)]
        return np.array(rows, dtype=np.int32)
