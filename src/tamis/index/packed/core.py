"""The core of the packed matcher: a store, the search in it, and the merges of its box indexes.

`store` decides where a subscription is stored, `search` finds it for events, `saving` converts everything to arrays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tamis.index.direct import DirectRoads
from tamis.index.packed.axes import AxesState
from tamis.index.packed.boxes.box_index import BoxIndex, SegmentMerge
from tamis.index.packed.deciders.combined import Deciders
from tamis.index.packed.deciders.regions import RegionTests
from tamis.index.packed.saving import open_store, save_store
from tamis.index.packed.search import PackedSearch
from tamis.index.packed.store import PackedStore
from tamis.index.protocols import Guarantee, IndexStatistics, Lookup, MatchRows, Rows, SavedRows
from tamis.model.language.templates.columns import TextColumns
from tamis.model.schema import Event
from tamis.model.subscription import Ball, Subscription
from tamis.model.tables import EventTable, SubscriptionTable

__all__ = ["BoxMerge", "PackedCore"]


@dataclass(slots=True)
class BoxMerge:
    """A merge of one of the box indexes, and of the deciders for what its boxes leave open."""

    index: BoxIndex
    plan: SegmentMerge
    #: Whose regions are to follow the order of the boxes.
    deciders: Deciders | None
    regions: RegionTests | None = None

    @property
    def n_dead(self) -> int:
        """How many removed rows the merge leaves out."""
        return self.plan.n_dead

    def run(self) -> None:
        """Compute the merged segment; if it has most of the boxes, lay the regions out in its order."""
        self.plan.run()
        result = self.plan.result
        if self.deciders is not None and result is not None and 2 * result.n_slots > len(self.index):
            self.regions = self.deciders.laid_out(result.rows)


class PackedCore:
    """Finds matches through packed boxes; ``lookup`` gives the raw subscription of a row. See `PackedMatcher`.

    ``store`` is one that was saved; without, the core is empty.
    """

    guarantee = Guarantee.EXACT

    def __init__(self, lookup: Lookup, store: PackedStore | None = None) -> None:
        self._store = PackedStore(Deciders(lookup)) if store is None else store
        self._search = PackedSearch(self._store, lookup)
        self.roads = DirectRoads(self._store)

    @classmethod
    def from_arrays(
        cls, lookup: Lookup, axes: AxesState, arrays: Mapping[str, npt.NDArray[Any]], rows: SavedRows | None = None
    ) -> PackedCore:
        """Open a core on arrays, checked, that may be read-only and mapped; they stay in use."""
        return cls(lookup, open_store(lookup, axes, arrays, rows))

    def to_arrays(self) -> tuple[AxesState, dict[str, npt.NDArray[Any]]]:
        """Return what `from_arrays` opens: the axes, and named arrays. For the writer only."""
        return save_store(self._store)

    def __len__(self) -> int:
        return len(self._store)

    def add(self, row: int, subscription: Subscription) -> None:
        """Add a subscription under a row above all others."""
        self._store.add(row, subscription)

    def add_many(
        self, rows: Rows, subscriptions: Sequence[Subscription], columns: Sequence[TextColumns] | None = None
    ) -> list[int]:
        """Add subscriptions under ascending rows above all others, and texts as columns: all or, if it raises, none.

        Return, where there are columns, the rows that are decided without a look at the subscription.
        """
        circles = [column for column in columns or () if column.circles is not None]
        self._store.add_many(rows.tolist(), subscriptions, circles)
        try:
            self._store.add_columns([column for column in columns or () if column.circles is None])
        except BaseException:
            for row in np.concatenate([rows, *(circle.rows for circle in circles)]).tolist():
                self._store.remove(row)
            raise
        return [] if columns is None else self._store.decided(rows)

    def add_boxes(self, rows: Rows, table: SubscriptionTable) -> None:
        """Add the boxes of a table under rows above all others."""
        self._store.add_boxes(rows, table)

    def add_balls(self, rows: Rows, table: SubscriptionTable) -> None:
        """Add the balls of a table under rows above all others."""
        self._store.add_balls(rows, table)

    def remove(self, row: int) -> None:
        """Remove a row; raise `KeyError` if it is absent."""
        self._store.remove(row)

    def find_sides(self, row: int) -> dict[str, tuple[float, float]] | None:
        """Return the sides of a plain box on the NUMBER axes by attribute; None if the row is absent."""
        return self._store.find_sides(row)

    def find_ball(self, row: int) -> Ball | None:
        """Return the ball of a row that consists of one ball; None if it is absent."""
        return self._store.balls.find(row)

    def statistics(self) -> IndexStatistics:
        """Return how many subscriptions are stored in which way, and the axes."""
        return self._store.statistics()

    def match(self, event: Event) -> Rows:
        """Return the rows that match a canonical event, ascending."""
        return self._search.match(event)

    def match_table(self, events: EventTable) -> MatchRows:
        """Return the rows that match each event of a table; a bad row matches nothing."""
        return self._search.match_table(events)

    def matches_any(self, event: Event) -> bool:
        """Whether some row matches a canonical event."""
        return self._search.matches_any(event)

    def matches_any_of(self, events: EventTable) -> npt.NDArray[np.bool_]:
        """Return for each event of a table whether some row matches it; a bad row matches nothing."""
        return self._search.matches_any_of(events)

    def wants_merge(self) -> bool:
        """Whether one of the box indexes has something to merge."""
        store = self._store
        return any(index.wants_merge() for index in (store.plain, store.special, store.trees.hulls))

    def plan_merge(self) -> BoxMerge | None:
        """Propose a merge of one of the box indexes."""
        store = self._store
        for index, deciders in ((store.plain, None), (store.special, store.deciders), (store.trees.hulls, None)):
            plan = index.plan_merge()
            if plan is not None:
                return BoxMerge(index, plan, deciders)
        return None

    def install(self, plan: BoxMerge) -> None:
        """Install the result of a merge that has run."""
        if plan.index.install(plan.plan):
            if plan.regions is not None:
                self._store.deciders.adopt(plan.regions)
            if plan.index is self._store.trees.hulls:
                self._store.trees.publish()

    def compact(self) -> None:
        """Merge everything now."""
        self._store.plain.compact()
        self._store.trees.hulls.compact()
        self._store.trees.publish()
        deciders = self._store.deciders
        deciders.adopt(deciders.laid_out(self._store.special.compact()))
