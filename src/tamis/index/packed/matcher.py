"""The packed matcher: the default for any number of subscriptions.

A few subscriptions are evaluated one at a time, and no kernel is loaded for them. From `FEW` on they are in the packed
core (`core`): boxes in packed segments first, exact values last. Large tables, and repeated tables, use a packed core
even if the subscriptions are few.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tamis.index.linear_scan import LinearMatcher
from tamis.index.protocols import Guarantee, IndexStatistics, Lookup, MatchRows, Rows, SavedRows
from tamis.model.language.templates.columns import TextColumns
from tamis.model.schema import Event, Schema
from tamis.model.subscription import Ball, Subscription
from tamis.model.tables import EventTable, SubscriptionTable

if TYPE_CHECKING:
    from tamis.index.direct import DirectReader
    from tamis.index.packed.axes import AxesState
    from tamis.index.packed.core import BoxMerge, PackedCore

__all__ = ["FEW", "PackedMatcher"]

#: Up to this many subscriptions are evaluated one at a time, in less than a tenth of a millisecond per event.
FEW = 128
#: Pairs of event and subscription, over all tables so far, from which on kernels are worth loading: a second or two of
#: asking one by one.
MANY_PAIRS = 1_000_000
#: Pairs in a table from which it pays to pack a few subscriptions, which takes about ten milliseconds.
LARGE_TABLE = 20_000


class PackedMatcher:
    """Finds matches among any number of subscriptions; ``lookup`` gives the raw subscription of a row.

    Up to ``few`` subscriptions are evaluated one at a time.

    Guarantee: EXACT. Cost: microseconds per event at a million boxes. When not to use it: when most filters have
    no box (``IS NULL``, ``<>`` alone), for these are asked one by one.
    """

    guarantee = Guarantee.EXACT

    def __init__(self, lookup: Lookup, few: int = FEW) -> None:
        self._lookup = lookup
        self._room = few
        self._few = LinearMatcher()
        #: None while there are few subscriptions. Afterwards ``_few`` stays unchanged for readers that still use it.
        self._core: PackedCore | None = None
        #: Pairs of event and subscription in all tables so far.
        self._n_pairs = 0
        self.columns = _ColumnLoader(self)
        self.direct = _DirectFinder(self)

    def __len__(self) -> int:
        return len(self._few if self._core is None else self._core)

    def add(self, row: int, subscription: Subscription) -> None:
        """Add a subscription under a row above all rows added before."""
        if self._core is None and len(self._few) < self._room:
            self._few.add(row, subscription)
        else:
            _packed(self).add(row, subscription)

    def add_many(self, rows: Rows, subscriptions: Sequence[Subscription]) -> None:
        """Add subscriptions under ascending rows above all rows added before: all or, if it raises, none."""
        if self._core is None and len(self._few) + len(subscriptions) <= self._room:
            for row, subscription in zip(rows.tolist(), subscriptions, strict=True):
                self._few.add(row, subscription)
        else:
            _packed(self).add_many(rows, subscriptions)

    def add_boxes(self, rows: Rows, table: SubscriptionTable) -> None:
        """Add the boxes of a table under rows above all rows added before, ascending."""
        _packed(self).add_boxes(rows, table)

    def add_balls(self, rows: Rows, table: SubscriptionTable) -> None:
        """Add the balls of a table under rows above all rows added before, ascending."""
        _packed(self).add_balls(rows, table)

    def remove(self, row: int) -> None:
        """Remove a row; raise `KeyError` if it is absent."""
        (self._few if self._core is None else self._core).remove(row)

    def match(self, event: Event) -> Rows:
        """Return the rows that match a canonical event, ascending."""
        return (self._few if self._core is None else self._core).match(event)

    def match_table(self, events: EventTable) -> MatchRows:
        """Return the rows that match each event of a table; a bad row matches nothing."""
        if self._core is not None:
            return self._core.match_table(events)
        n_pairs = len(self._few) * len(events)
        self._n_pairs += n_pairs
        if n_pairs < LARGE_TABLE or self._n_pairs < MANY_PAIRS:
            return self._few.match_table(events)
        return _pack(self._few, self._lookup).match_table(events)

    def matches_any(self, event: Event) -> bool:
        """Whether some row matches a canonical event; ends at the first that does."""
        return (self._few if self._core is None else self._core).matches_any(event)

    def matches_any_of(self, events: EventTable) -> npt.NDArray[np.bool_]:
        """Return for each event of a table whether some row matches it; a bad row matches nothing."""
        return (self._few if self._core is None else self._core).matches_any_of(events)

    def statistics(self) -> IndexStatistics:
        """Return how many subscriptions are stored in which way."""
        if self._core is None:
            return IndexStatistics("packed", len(self), {"one_by_one": len(self)})
        return self._core.statistics()

    def wants_merge(self) -> bool:
        """Whether there is something to merge."""
        return self._core is not None and self._core.wants_merge()

    def plan_merge(self) -> BoxMerge | None:
        """Propose a merge."""
        return None if self._core is None else self._core.plan_merge()

    def install(self, plan: BoxMerge) -> None:
        """Install the result of a merge that has run."""
        if self._core is not None:
            self._core.install(plan)

    def compact(self) -> None:
        """Merge everything now."""
        if self._core is not None:
            self._core.compact()

    def find_sides(self, row: int) -> dict[str, tuple[float, float]] | None:
        """Return the sides of a box that came with `add_boxes`; None if the row is absent."""
        return None if self._core is None else self._core.find_sides(row)

    def find_ball(self, row: int) -> Ball | None:
        """Return the ball of a row that consists of one ball; None if it is absent."""
        return None if self._core is None else self._core.find_ball(row)

    def to_arrays(self) -> tuple[AxesState, dict[str, npt.NDArray[Any]]] | None:
        """Return arrays for `open_arrays`; None while the subscriptions are few: adding them again is as fast."""
        return None if self._core is None else self._core.to_arrays()

    def open_arrays(
        self, axes: AxesState, arrays: Mapping[str, npt.NDArray[Any]], rows: SavedRows
    ) -> npt.NDArray[np.int32]:
        """Open a saved core after checking it; arrays may be mapped read-only, and the matcher must be empty.

        Return how many filters each row must have.
        """
        from tamis.index.packed.core import PackedCore
        from tamis.index.packed.saving import filters_needed, open_store

        store = open_store(self._lookup, axes, arrays, rows)
        self._core = PackedCore(self._lookup, store)
        return filters_needed(store, len(rows.living))


class _ColumnLoader:
    """Adds texts to a packed matcher as columns of bounds."""

    def __init__(self, matcher: PackedMatcher) -> None:
        self._matcher = matcher

    def add(self, columns: Sequence[TextColumns], rows: Rows, others: Sequence[Subscription]) -> list[int]:
        """Add texts as columns, and ``others`` under ``rows``, ascending: all or, if it raises, none.

        Return the rows of others that are decided without a look at the subscription.
        """
        return _packed(self._matcher).add_many(rows, others, columns)


class _DirectFinder:
    """Finds the fast path of a packed matcher."""

    def __init__(self, matcher: PackedMatcher) -> None:
        self._matcher = matcher

    def find(self, schema: Schema) -> DirectReader | None:
        """Return the fast path for single events of a schema; None if there is none now."""
        core = self._matcher._core
        return None if core is None else core.roads.find(schema)


def _packed(matcher: PackedMatcher) -> PackedCore:
    """Return the core of a matcher; create it on first use."""
    if matcher._core is None:
        matcher._core = _pack(matcher._few, matcher._lookup)
    return matcher._core


def _pack(few: LinearMatcher, lookup: Lookup) -> PackedCore:
    from tamis.index.packed.core import PackedCore  # imported late: few subscriptions need no numba

    core = PackedCore(lookup)
    for row, subscription in few.items():
        core.add(row, subscription)
    return core
