"""One namespace: its own matcher, which isolates it from others, its ids, and its raw subscriptions. See `shelf`."""

from __future__ import annotations

import heapq
import math
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np

from tamis.engine.ids import Ids, IdsState
from tamis.engine.stored import LazySubscriptions, Record, StoredSubscriptions
from tamis.engine.text_batch import LazyBatch, TextBatch
from tamis.index.parted import PartedMatcher
from tamis.index.protocols import (
    BallMatcher,
    BoxMatcher,
    BulkMatcher,
    ColumnMatcher,
    DirectMatcher,
    EventMatcher,
    LinkMatcher,
    Lookup,
    Mergeable,
)
from tamis.model.subscription import Filter, Subscription, SubscriptionId, Values
from tamis.model.tables import SubscriptionTable
from tamis.model.value_set import ValueSet

__all__ = ["Namespace", "find_records"]


class _Roles(NamedTuple):
    """A matcher in the roles it implements; computed once, because a check of a Protocol takes microseconds."""

    mergeable: Mergeable | None
    boxes: BoxMatcher | None
    balls: BallMatcher | None
    bulk: BulkMatcher | None
    link: LinkMatcher | None
    columns: ColumnMatcher | None
    direct: DirectMatcher | None

    @classmethod
    def of(cls, matcher: EventMatcher) -> _Roles:
        return cls(
            matcher if isinstance(matcher, Mergeable) else None,
            matcher if isinstance(matcher, BoxMatcher) else None,
            matcher if isinstance(matcher, BallMatcher) else None,
            matcher if isinstance(matcher, BulkMatcher) else None,
            matcher if isinstance(matcher, LinkMatcher) else None,
            matcher if isinstance(matcher, ColumnMatcher) else None,
            matcher if isinstance(matcher, DirectMatcher) else None,
        )


class Namespace:
    """The subscriptions of one namespace. ``make_matcher`` gets the way to look a raw subscription up by row.

    A raw subscription is in one of three places: an object that was added; a row of Arrow columns, of a saved engine's
    file or of a table of texts; or, for a box or ball that came in bulk, the matcher itself.
    """

    def __init__(self, name: str, make_matcher: Callable[[Lookup], EventMatcher]) -> None:
        self.name = name
        self._make_matcher = make_matcher
        self.ids = Ids()
        self._use(make_matcher(self.find))
        self._single: dict[int, Subscription] = {}
        #: The parts of a saved engine and the tables of texts, by their first row.
        self._stored: list[StoredSubscriptions | LazySubscriptions] = []
        self._stored_from: list[int] = []
        #: (timestamp, row) of each expiry; rows that are gone are skipped.
        self._ends: list[tuple[int, int]] = []

    def _use(self, matcher: EventMatcher) -> None:
        self.matcher = matcher
        self.roles = _Roles.of(matcher)

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[Subscription]:
        subscriptions = (self.find(row) for row in self.ids.live_rows())
        return (subscription for subscription in subscriptions if subscription is not None)

    def add_many(self, subscriptions: Sequence[Subscription]) -> None:
        """Add subscriptions, whose ids must be free and different: all or, if it raises, none."""
        first = self.ids.append_many([subscription.id for subscription in subscriptions])
        rows = range(first, first + len(subscriptions))
        self._single.update(zip(rows, subscriptions, strict=True))
        try:
            _hand_over(self, rows, subscriptions)
        except BaseException:
            for row, subscription in zip(rows, subscriptions, strict=True):
                del self._single[row]
                self.ids.remove(subscription.id)
            raise
        for row, subscription in zip(rows, subscriptions, strict=True):
            if subscription.expires is not None:
                heapq.heappush(self._ends, (subscription.expires, row))

    def add_boxes(self, table: SubscriptionTable, ids: Sequence[SubscriptionId] | range) -> None:
        """Add a table of boxes or balls, all at once where the matcher can; the ids must be free."""
        first = self.ids.append_range(ids) if isinstance(ids, range) else self.ids.append_many(ids)
        rows = np.arange(first, first + len(table), dtype=np.int32)
        if table.radii is not None and self.roles.balls is not None:
            self.roles.balls.add_balls(rows, table)
            return
        if table.radii is None and self.roles.boxes is not None:
            self.roles.boxes.add_boxes(rows, table)
            return
        for position, id in enumerate(ids):
            subscription = table.box_subscription(position, id)
            self._single[first + position] = subscription
            self.matcher.add(first + position, subscription)

    def add_texts(self, batch: TextBatch, compile: Callable[[Record], Subscription]) -> None:
        """Add texts, whose ids must be free and different: all or, if it raises, none.

        Needs the role ``columns``. ``compile`` makes a subscription of a text on access.
        """
        first = self.ids.n_rows
        stored = StoredSubscriptions(batch.records, compile, first)
        self.ids.append_stored(batch.ids, stored)
        self._add_columns(batch, first, stored)
        self._ends += stored.ends()
        heapq.heapify(self._ends)

    def add_lazy(self, batch: LazyBatch) -> None:
        """Add subscriptions that are created on access, as `add_texts` does; they do not expire here."""
        first = self.ids.append_many(batch.ids)
        self._add_columns(batch, first, LazySubscriptions(batch.make, first, len(batch.ids)))

    def _add_columns(
        self, batch: TextBatch | LazyBatch, first: int, stored: StoredSubscriptions | LazySubscriptions
    ) -> None:
        """Add the rows of a batch to the matcher; if it raises, they are removed."""
        index = self.roles.columns
        assert index is not None, "the matcher takes no columns"
        self._stored.append(stored)
        self._stored_from.append(first)
        try:
            others = {first + row: subscription for row, subscription in batch.others}
            self._single.update(others)  # the matcher may look them up at once
            rows = np.array(list(others), np.int32)
            decided = index.columns.add(
                [column._replace(rows=column.rows + np.int32(first)) for column in batch.columns],
                rows,
                list(others.values()),
            )
        except BaseException:
            del self._stored[-1], self._stored_from[-1]
            for row in range(first, first + len(batch.ids)):
                self._single.pop(row, None)
                self.ids.remove_row(row)
            raise
        for row in decided:  # compiled from its text again when it is needed
            del self._single[row]

    def open_part(self, blocks: IdsState, removed: Sequence[int], stored: StoredSubscriptions) -> EventMatcher:
        """Add the ids and subscriptions of a part of a saved engine, before anything else is added.

        Return the part's matcher, to be filled by the caller; its rows count from 0.
        """
        first = self.ids.append_saved(blocks, removed, stored)
        self._stored.append(stored)
        self._stored_from.append(first)
        self._ends += stored.ends()
        heapq.heapify(self._ends)
        if len(self._stored) == 1:
            return self.matcher
        if not isinstance(self.matcher, PartedMatcher):
            self._use(PartedMatcher(self.matcher))
        part = self._make_matcher(lambda row: self.find(first + row))
        assert isinstance(self.matcher, PartedMatcher)
        self.matcher.append(first, part)
        return part

    def parts(self) -> list[tuple[int, int, EventMatcher]]:
        """Return (first row, row after the last, matcher) of every part."""
        if isinstance(self.matcher, PartedMatcher):
            return self.matcher.parts(self.ids.n_rows)
        return [(0, self.ids.n_rows, self.matcher)]

    def remove(self, id: SubscriptionId) -> None:
        """Remove a subscription."""
        row = self.ids.remove(id)
        self.matcher.remove(row)
        self._single.pop(row, None)

    def remove_row(self, row: int) -> None:
        """Remove a subscription of a saved engine by its row."""
        self.ids.remove_row(row)
        self.matcher.remove(row)

    def subscription(self, id: SubscriptionId) -> Subscription:
        """Return a subscription by its id."""
        subscription = self.find(self.ids.row(id))
        assert subscription is not None
        return subscription

    def find(self, row: int) -> Subscription | None:
        """Return the subscription of a row; None if it was removed meanwhile."""
        subscription = self.find_written(row)
        if subscription is None and self.roles.balls is not None:
            ball = self.roles.balls.find_ball(row)
            subscription = None if ball is None else Subscription(self.ids[row], (Filter((ball,)),), None, self.name)
        return subscription if subscription is not None else _find_box(self, row)

    def find_written(self, row: int) -> Subscription | None:
        """Return the subscription of a row; None if it was removed or is a box that only the matcher stores."""
        subscription = self._single.get(row)
        if subscription is None and self._stored:
            number = bisect_right(self._stored_from, row) - 1
            return self._stored[number].find(row)
        return subscription

    def find_record(self, row: int) -> Record | None:
        """Return text, id, expiry and metadata of a row whose text is stored; None for any other row."""
        if row in self._single or not self._stored:
            return None
        return self._stored[bisect_right(self._stored_from, row) - 1].find_record(row)

    def take_due(self, moment: int) -> Iterator[SubscriptionId]:
        """Yield the ids that have expired at a timestamp, once; the caller removes them."""
        while self._ends and self._ends[0][0] <= moment:
            end, row = heapq.heappop(self._ends)
            subscription = self.find(row)
            if (
                subscription is not None
                and subscription.expires == end
                and subscription.id in self.ids
                and self.ids.row(subscription.id) == row
            ):
                yield subscription.id

    @property
    def next_end(self) -> int | None:
        """The earliest expiry, if there is one."""
        return self._ends[0][0] if self._ends else None

    @property
    def n_dead(self) -> int:
        """The number of rows whose subscription was removed."""
        return self.ids.n_rows - len(self.ids)


def find_records(space: Namespace, rows: Sequence[int]) -> list[Record | None]:
    """Return `Namespace.find_record` of ascending rows."""
    if not space._stored:
        return [None] * len(rows)
    records: list[Record | None] = []
    for part, several in groupby(rows, lambda row: bisect_right(space._stored_from, row) - 1):
        part_rows = list(several)
        part_records = space._stored[part].find_records(part_rows)
        records += (
            None if row in space._single else record for row, record in zip(part_rows, part_records, strict=True)
        )
    return records


def _hand_over(space: Namespace, rows: range, subscriptions: Sequence[Subscription]) -> None:
    """Add subscriptions to the matcher, all or none."""
    if len(rows) > 1 and space.roles.bulk is not None:
        space.roles.bulk.add_many(np.arange(rows.start, rows.stop, dtype=np.int32), subscriptions)
        return
    for row, subscription in zip(rows, subscriptions, strict=True):
        try:
            space.matcher.add(row, subscription)
        except BaseException:
            for earlier in range(rows.start, row):
                space.matcher.remove(earlier)
            raise


def _find_box(space: Namespace, row: int) -> Subscription | None:
    """Return the subscription of a box that was added in bulk; None if the row is absent."""
    sides = None if space.roles.boxes is None else space.roles.boxes.find_sides(row)
    if sides is None:
        return None
    constraints = [
        Values(name, ValueSet.between(None if lo == -math.inf else (lo, 0), None if hi == math.inf else (hi, 1)))
        for name, (lo, hi) in sorted(sides.items())
    ]
    return Subscription(space.ids[row], (Filter(tuple(constraints)),), None, space.name)
