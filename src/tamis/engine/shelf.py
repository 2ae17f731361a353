"""A shelf: the subscriptions of one namespace, and all that keeps them quick to match and small in memory.

`Namespace` has rows, ids and a matcher; a shelf is what may change it. It hands merges of the matcher to a
collaborator, `Merging`: a thread in an engine or a real broker (`tamis.engine.merging`), the caller itself in a
simulated one, where a seed must give the same again (`MergeAtOnce`).

Rows are never used again, so what was removed leaves traces: an id, a place in the maps of rows, a polygon, a LIKE
pattern, the code of a string. When there are more dead rows than living ones, the shelf is *renewed*: the living
subscriptions move to a new `Namespace`, which is built beside the old one like a merge, catches up with what has
changed meanwhile, and takes its place. A removal pays for moving about one subscription.

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
from tamis.index.protocols import LinkMatcher, Lookup, Matcher, Mergeable, MergePlan
from tamis.model.schema import Event
from tamis.model.subscription import Subscription, SubscriptionId
from tamis.model.tables import EventTable, SubscriptionTable

__all__ = ["MergeAtOnce", "Merging", "Shelf"]

#: Subscriptions that come at once from which on it pays to merge them at once.
BULK = 4_096
#: Removals after which it is asked again whether a merge would pay: asking each time is a quarter of a removal.
TIDY_EVERY = 64
#: Dead rows that are always tolerated. One costs at most 170 bytes if it was a range, 380 if it was a LIKE pattern; the
#: corners of a polygon come on top.
DEAD_ROWS = 1 << 14


class Merging(Protocol):
    """Runs what an index proposes, now or later."""

    @property
    def lock(self) -> AbstractContextManager[object]:
        """The lock that every writer holds; plans are made and installed under it."""

    def nudge(self, index: Mergeable) -> None:
        """Look whether an index wants a merge, and see to it. The caller holds the lock."""


class MergeAtOnce:
    """Merges before the caller goes on: the same calls give the same index. For one thread."""

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
    """The living subscriptions of a namespace on their way to a new one."""

    def __init__(self, old: Namespace, fresh: Namespace) -> None:
        self._old = old
        self._rows = list(old.ids.live_rows())
        self.fresh = fresh
        #: What was added to the old namespace, and the ids that left it, since the rows were noted; in order.
        self.changes: list[Subscription | SubscriptionId] = []

    def run(self) -> None:
        """Move what is there; changes nothing that others see."""
        found = (self._old.find(row) for row in self._rows)
        self.fresh.add_many([one for one in found if one is not None])

    def catch_up(self) -> None:
        """Do again what was done to the old namespace since; something may have left before it was moved."""
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

    def __init__(self, name: str, make_matcher: Callable[[Lookup], Matcher], merging: Merging) -> None:
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
        """Remove a subscription; `UnknownSubscriptionError` when there is none."""
        with self._merging.lock:
            self.now.remove(id)
            if self._renewal is not None:
                self._renewal.changes.append(id)
            if self.now.n_dead % TIDY_EVERY == 0:
                self._merging.nudge(self)

    def expire(self, moment: int) -> None:
        """Remove what is due at a moment."""
        end = self.now.next_end
        if end is not None and end <= moment:
            with self._merging.lock:
                for id in list(self.now.take_due(moment)):
                    self.remove(id)

    # Matching

    def match(self, event: Event) -> list[SubscriptionId]:
        """Return the ids of the subscriptions that match a canonical event, in the order in which they came."""
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
        """Whether a subscription matches a canonical event; for a matcher that can tell (`LinkMatcher`)."""
        return _link_of(self.now).matches_any(event)

    def matches_any_of(self, events: EventTable) -> npt.NDArray[np.bool_]:
        """Say for each event of a table whether a subscription matches it; a bad row matches nothing."""
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
        """Put a plan that has run into use."""
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
