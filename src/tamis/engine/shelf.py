"""A shelf: the subscriptions of one namespace, with merges and renewals that keep matching fast and memory small.

`Namespace` has rows, ids and a matcher; only a shelf changes it. Merges of the matcher are run by a `Merging`: a
thread in an engine or a real broker (`tamis.engine.merging`), the caller itself in a simulated broker, where a seed
must reproduce a run (`MergeAtOnce`).

Rows are never used again, so a removed subscription leaves data behind: an id, an entry in the maps of rows, a polygon,
a LIKE pattern, the code of a string. When there are more dead rows than living ones, the shelf is *renewed*: the living
subscriptions move to a new `Namespace`, which is built beside the old one like a merge, catches up with the changes
made meanwhile, and replaces it. The cost per removal is that of moving about one subscription.

One thread writes at a time, under the lock of the collaborator. Readers take ``now`` once, and no lock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import pairwise
from typing import Protocol

import numpy as np
import numpy.typing as npt

from tamis.engine.namespace import Namespace
from tamis.engine.stored import Record
from tamis.engine.text_batch import LazyBatch, TextBatch
from tamis.index.protocols import EventMatcher, LinkMatcher, Lookup, Mergeable, MergePlan
from tamis.model.schema import Event
from tamis.model.subscription import Subscription, SubscriptionId
from tamis.model.tables import EventTable, SubscriptionTable

__all__ = ["MergeAtOnce", "Merging", "Shelf"]

#: Number of subscriptions in one call from which it pays to merge at once.
BULK = 4_096
#: Removals between two checks whether a merge would pay: a check costs a quarter of a removal.
TIDY_EVERY = 64
#: Dead rows that are always tolerated. One costs at most 170 bytes if it was a range, 380 if it was a LIKE pattern; the
#: corners of a polygon come on top.
DEAD_ROWS = 1 << 14


class Merging(Protocol):
    """Runs the merges that an index proposes, now or later."""

    @property
    def lock(self) -> AbstractContextManager[object]:
        """The lock that every writer holds; plans are made and installed under it."""

    def nudge(self, index: Mergeable) -> None:
        """Check whether an index needs a merge, and run or schedule it. The caller holds the lock."""


class MergeAtOnce:
    """Merges before the call returns, so that the same calls give the same index. For one thread."""

    @property
    def lock(self) -> AbstractContextManager[object]:
        """No lock is needed."""
        return nullcontext()

    def nudge(self, index: Mergeable) -> None:
        """Run every merge that an index proposes."""
        while index.wants_merge() and (plan := index.plan_merge()) is not None:
            plan.run()
            index.install(plan)


class _Renewal:
    """The move of the living subscriptions of a namespace to a new one."""

    def __init__(self, old: Namespace, fresh: Namespace) -> None:
        self._old = old
        self._rows = list(old.ids.live_rows())
        self.fresh = fresh
        self.n_dead = old.n_dead
        #: The additions to the old namespace and the removed ids since the rows were recorded, in order.
        self.changes: list[Subscription | SubscriptionId] = []

    def run(self) -> None:
        """Move the recorded subscriptions; changes nothing that other threads see."""
        subscriptions = (self._old.find(row) for row in self._rows)
        self.fresh.add_many([subscription for subscription in subscriptions if subscription is not None])

    def catch_up(self) -> None:
        """Repeat the changes of the old namespace since then; a subscription may have been removed before its move."""
        for change in self.changes:
            if isinstance(change, Subscription):
                self.fresh.add_many([change])
            elif change in self.fresh.ids:
                self.fresh.remove(change)


class Shelf:
    """Subscriptions by id, in one namespace. ``merging`` may be shared by many shelves.

    Attributes
    ----------
    now
        The current subscriptions. A reader of several fields takes it once: an update replaces the whole object.
    """

    def __init__(self, name: str, make_matcher: Callable[[Lookup], EventMatcher], merging: Merging) -> None:
        self._make_matcher = make_matcher
        self._merging = merging
        self.now = Namespace(name, make_matcher)
        self._renewal: _Renewal | None = None

    def __len__(self) -> int:
        return len(self.now)

    def __contains__(self, id: object) -> bool:
        return id in self.now.ids

    def __iter__(self) -> Iterator[Subscription]:
        return iter(self.now)

    def add(self, subscriptions: Sequence[Subscription]) -> None:
        """Add subscriptions whose ids are free and different: all or, if it raises, none."""
        with self._merging.lock:
            self.now.add_many(subscriptions)
            if self._renewal is not None:
                self._renewal.changes += subscriptions
            self._tidy(len(subscriptions))

    def add_texts(self, batch: TextBatch, compile: Callable[[Record], Subscription]) -> None:
        """Add texts whose ids are free and different, without an object for each: all or, if it raises, none."""
        with self._merging.lock:
            self.now.add_texts(batch, compile)
            self._renewal = None  # too many changes to catch up with; the next renewal will have them
            self._tidy(len(batch.ids))

    def add_lazy(self, batch: LazyBatch) -> None:
        """Add subscriptions, whose ids are free and different, that are made when asked for: all or none."""
        with self._merging.lock:
            self.now.add_lazy(batch)
            if self._renewal is not None:
                self._renewal.changes += map(batch.make, range(len(batch.ids)))
            self._tidy(len(batch.ids))

    def _tidy(self, n: int) -> None:
        """Merge after ``n`` subscriptions were added: at once if they are most of all, otherwise when it pays."""
        if n >= BULK and 2 * n > len(self.now):
            self.compact()
        self._merging.nudge(self)

    def add_boxes(self, table: SubscriptionTable, ids: Sequence[SubscriptionId] | range) -> None:
        """Add a table of boxes or balls whose ids are free, without an object for each."""
        with self._merging.lock:
            self.now.add_boxes(table, ids)
            self._renewal = None  # too many changes to catch up with; the next renewal will have them
            self._merging.nudge(self)

    def remove(self, id: SubscriptionId) -> None:
        """Remove a subscription; raise `UnknownSubscriptionError` if there is none with this id."""
        with self._merging.lock:
            self.now.remove(id)
            if self._renewal is not None:
                self._renewal.changes.append(id)
            if self.now.n_dead % TIDY_EVERY == 0:
                self._merging.nudge(self)

    def expire(self, moment: int) -> None:
        """Remove the subscriptions that have expired at a timestamp."""
        end = self.now.next_end
        if end is not None and end <= moment:
            with self._merging.lock:
                for id in list(self.now.take_due(moment)):
                    self.remove(id)

    # Matching

    def match(self, event: Event) -> list[SubscriptionId]:
        """Return the ids of the subscriptions that match a canonical event, in the order of their arrival."""
        now = self.now
        return now.ids.of(now.matcher.match(event))

    def match_table(self, events: EventTable, most: int | None = None) -> list[list[SubscriptionId]]:
        """Return `match` of each event of a table; a bad row of the table matches nothing.

        With ``most`` it ends behind the event with which there are that many ids in all.
        """
        now = self.now
        offsets, rows = now.matcher.match_table(events)
        if most is not None:
            offsets = offsets[: np.searchsorted(offsets[1:], most) + 2]
        bounds = offsets.tolist()
        return [now.ids.of(np.sort(rows[start:stop])) for start, stop in pairwise(bounds)]

    def matches_any(self, event: Event) -> bool:
        """Whether any subscription matches a canonical event; needs a `LinkMatcher`."""
        return _link_of(self.now).matches_any(event)

    def matches_any_of(self, events: EventTable) -> npt.NDArray[np.bool_]:
        """Return for each event of a table whether any subscription matches it; a bad row matches nothing."""
        return _link_of(self.now).matches_any_of(events)

    # Merges, as `Mergeable`

    def wants_merge(self) -> bool:
        """Whether the matcher has something to merge, or too much is dead."""
        mergeable = self.now.roles.mergeable
        return self._is_mostly_dead or (mergeable is not None and mergeable.wants_merge())

    def plan_merge(self) -> MergePlan | None:
        """Propose a renewal or a merge of the matcher. A renewal that is not installed lapses."""
        self._renewal = None
        if self._is_mostly_dead:
            self._renewal = _Renewal(self.now, Namespace(self.now.name, self._make_matcher))
            return self._renewal
        return None if self.now.roles.mergeable is None else self.now.roles.mergeable.plan_merge()

    def install(self, plan: MergePlan) -> None:
        """Install the result of a plan that has run."""
        if not isinstance(plan, _Renewal):
            if self.now.roles.mergeable is not None:
                self.now.roles.mergeable.install(plan)
        elif plan is self._renewal:
            plan.catch_up()
            self.now, self._renewal = plan.fresh, None

    def compact(self) -> None:
        """Merge everything now."""
        if self.now.roles.mergeable is not None:
            self.now.roles.mergeable.compact()

    @property
    def _is_mostly_dead(self) -> bool:
        return self.now.n_dead > max(DEAD_ROWS, len(self.now))


def _link_of(space: Namespace) -> LinkMatcher:
    if space.roles.link is None:
        raise TypeError(f"a {type(space.matcher).__name__} cannot test whether any subscription matches")
    return space.roles.link
