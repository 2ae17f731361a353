"""The interfaces of index structures, and the guarantees that they require.

Every index works on *rows*: small integers that the owner of the index assigns, one per subscription. Only the owner
knows the ids of subscriptions. A structure states its `Guarantee`: a matcher must be COMPLETE, or events would be
lost; a covering index must be SOUND, or subscriptions that no other covers would be withheld.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from tamis.errors import WeakGuaranteeError
from tamis.model.language.templates.columns import TextColumns
from tamis.model.schema import Event, Schema
from tamis.model.subscription import Ball, Filter, Subscription
from tamis.model.tables import EventTable, SubscriptionTable

__all__ = [
    "NO_ROWS",
    "BallMatcher",
    "BatchedCovering",
    "BoxMatcher",
    "BulkMatcher",
    "ColumnLoader",
    "ColumnMatcher",
    "CoveringIndex",
    "Direct",
    "DirectFinder",
    "DirectMatcher",
    "EventMatcher",
    "Filtered",
    "Guarantee",
    "IndexStatistics",
    "LinkMatcher",
    "Lookup",
    "MappedMatcher",
    "MatchRows",
    "MergePlan",
    "Mergeable",
    "OneByOne",
    "Rows",
    "SavedRows",
    "demand",
    "match_each",
]

#: Rows of subscriptions: int32, each at most once.
Rows = npt.NDArray[np.int32]


NO_ROWS: Rows = np.empty(0, dtype=np.int32)

#: Returns the raw subscription of a row to a matcher; None if it was removed meanwhile.
Lookup = Callable[[int], Subscription | None]


class Filtered(Protocol):
    """A subscription, or an object that reads its filters on access."""

    @property
    def filters(self) -> tuple[Filter, ...]:
        """The filters of the subscription."""


class Guarantee(enum.Flag):
    """The guarantee of a result."""

    #: Every reported answer is true.
    SOUND = enum.auto()
    #: Every true answer is reported.
    COMPLETE = enum.auto()
    EXACT = SOUND | COMPLETE


class MatchRows(NamedTuple):
    """Matching rows of many events: those of event i are ``rows[offsets[i]:offsets[i + 1]]``, in any order."""

    offsets: npt.NDArray[np.int64]
    rows: Rows

    @classmethod
    def joined(cls, rows_of_events: Sequence[Rows]) -> MatchRows:
        """Join the rows of each event."""
        offsets = np.zeros(len(rows_of_events) + 1, dtype=np.int64)
        np.cumsum([len(rows) for rows in rows_of_events], out=offsets[1:])
        return cls(offsets, np.concatenate([NO_ROWS, *rows_of_events]))


@dataclass(frozen=True, slots=True)
class IndexStatistics:
    """The size of a structure and its counters, in ``details``."""

    kind: str
    size: int
    details: Mapping[str, int | float | str] = field(default_factory=dict)


@runtime_checkable
class EventMatcher(Protocol):
    """Finds the subscriptions an event matches."""

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of the results; a matcher needs COMPLETE."""

    def add(self, row: int, subscription: Subscription) -> None:
        """Add a subscription under a row above all rows added before (rows are never used again)."""

    def remove(self, row: int) -> None:
        """Remove a row; raise `KeyError` if it is absent."""

    def match(self, event: Event) -> Rows:
        """Return the rows that match a canonical event, ascending."""

    def match_table(self, events: EventTable) -> MatchRows:
        """Return the rows that match each event of a table; a bad row of the table matches nothing."""

    def __len__(self) -> int: ...

    def statistics(self) -> IndexStatistics:
        """Return what the structure holds."""


@runtime_checkable
class LinkMatcher(EventMatcher, Protocol):
    """A matcher that decides whether any row matches, faster than finding all rows; links need only that."""

    def matches_any(self, event: Event) -> bool:
        """Whether some row matches a canonical event."""

    def matches_any_of(self, events: EventTable) -> npt.NDArray[np.bool_]:
        """Return for each event of a table whether some row matches it; a bad row of the table matches nothing."""


class Direct(Protocol):
    """The fast path for single events, from plain values of one schema to rows in any order; None: not applicable."""

    def match(self, event: Mapping[str, Any]) -> list[int] | None:
        """Return the rows that match a dict."""

    def match_json(self, data: bytes) -> list[int] | None:
        """Return the rows that match a JSON object."""


class DirectFinder(Protocol):
    """Finds fast paths."""

    def find(self, schema: Schema) -> Direct | None:
        """Return the fast path for events of a schema; None if there is none now."""


@runtime_checkable
class DirectMatcher(EventMatcher, Protocol):
    """A matcher that has a fast path for some schemas and subscriptions."""

    @property
    def direct(self) -> DirectFinder:
        """The finder of fast paths."""


@runtime_checkable
class BulkMatcher(EventMatcher, Protocol):
    """A matcher that adds many subscriptions at once faster than one at a time."""

    def add_many(self, rows: Rows, subscriptions: Sequence[Subscription]) -> None:
        """Add subscriptions under ascending rows above all rows added before: all or, if it raises, none."""


@runtime_checkable
class BoxMatcher(EventMatcher, Protocol):
    """A matcher that takes a table of boxes at once."""

    def add_boxes(self, rows: Rows, table: SubscriptionTable) -> None:
        """Add the boxes of a table under rows above all rows added before, ascending."""

    def find_sides(self, row: int) -> dict[str, tuple[float, float]] | None:
        """Return the closed sides, by attribute, of a box that was added as a box; None if the row is absent."""


class ColumnLoader(Protocol):
    """Adds texts to a matcher as columns of bounds."""

    def add(self, columns: Sequence[TextColumns], rows: Rows, others: Sequence[Subscription]) -> list[int]:
        """Add texts as columns, and ``others`` under ``rows``, ascending: all or, if it raises, none.

        All rows lie above the rows added before. Return those of others that are decided without a look at the
        subscription.
        """


@runtime_checkable
class ColumnMatcher(BoxMatcher, Protocol):
    """A matcher that takes the bounds of texts as columns; `find_sides` finds every row that is one exact box."""

    @property
    def columns(self) -> ColumnLoader:
        """The loader of columns."""


@runtime_checkable
class BallMatcher(EventMatcher, Protocol):
    """A matcher that takes a table of balls at once."""

    def add_balls(self, rows: Rows, table: SubscriptionTable) -> None:
        """Add the balls of a table under rows above all rows added before, ascending."""

    def find_ball(self, row: int) -> Ball | None:
        """Return the ball of a row that consists of one ball; None if it is absent."""


class SavedRows(NamedTuple):
    """The state of the rows of a saved matcher.

    Attributes
    ----------
    living, written
        bool[n]; which rows live, and of which the filter is stored besides.
    schema
        The types of attributes.
    """

    living: npt.NDArray[np.bool_]
    written: npt.NDArray[np.bool_]
    schema: Schema


@runtime_checkable
class MappedMatcher(EventMatcher, Protocol):
    """A matcher that can be saved as arrays and opened on them again, mapped."""

    def to_arrays(self) -> tuple[Any, dict[str, npt.NDArray[Any]]] | None:
        """Return a description of plain values and named arrays; None if adding everything again is as good."""

    def open_arrays(
        self, description: Any, arrays: Mapping[str, npt.NDArray[Any]], rows: SavedRows
    ) -> npt.NDArray[np.int32]:
        """Open the arrays of `to_arrays`; the matcher must be empty. Return how many filters each row must have.

        Arrays from a file may say anything: those that are not what `to_arrays` could have given for these rows raise
        `SnapshotError`, and no kernel sees them before.
        """


class MergePlan(Protocol):
    """Work that can run while other threads match and update."""

    @property
    def n_dead(self) -> int:
        """How many removed rows the result leaves out."""

    def run(self) -> None:
        """Compute the result; changes nothing that other threads see."""


@runtime_checkable
class Mergeable(Protocol):
    """A structure that merges its parts to stay small; its owner provides the thread."""

    def wants_merge(self) -> bool:
        """Whether `plan_merge` would return a plan."""

    def plan_merge(self) -> MergePlan | None:
        """Propose a merge; an earlier plan that was not installed lapses."""

    def install(self, plan: MergePlan) -> None:
        """Install the result of a plan that has run; a lapsed plan is dropped."""

    def compact(self) -> None:
        """Merge everything now, for example after bulk loading; the caller is a writer that can wait."""


@runtime_checkable
class CoveringIndex(Protocol):
    """Finds the added subscriptions that cover a given one, and those that it covers; ignores namespaces and expiry."""

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of the results; a covering index needs SOUND."""

    def add(self, row: int, subscription: Subscription) -> None:
        """Add a subscription under a row that is free; raise `KeyError` if the row is taken."""

    def add_boxes(self, rows: Rows, table: SubscriptionTable) -> None:
        """Add the boxes of a table under rows that are free."""

    def remove(self, row: int) -> None:
        """Remove a row; raise `KeyError` if it is absent."""

    def find_cover(self, subscription: Subscription) -> int | None:
        """Return the row of one subscription that covers the given one, the smallest if EXACT."""

    def find_covers(self, table: SubscriptionTable) -> Rows:
        """Return `find_cover` of each box of a table, -1 where it found none."""

    def find_covered(self, subscription: Subscription) -> Rows:
        """Return the rows the given subscription covers, ascending."""

    def find_covered_each(self, table: SubscriptionTable) -> MatchRows:
        """Return `find_covered` of each box of a table."""

    def __len__(self) -> int: ...

    def statistics(self) -> IndexStatistics:
        """Return what the structure holds, and what its searches cost so far."""


@runtime_checkable
class BatchedCovering(Protocol):
    """A covering index that answers many questions of any kind at once for less than one by one."""

    def find_cover_many(self, subscriptions: Sequence[Subscription]) -> Rows:
        """Return `find_cover` of each subscription, -1 where there is none."""

    def find_covered_many(self, subscriptions: Sequence[Subscription]) -> list[Rows]:
        """Return `find_covered` of each subscription."""


class OneByOne(ABC):
    """Batch methods for a covering index that handles one box at a time."""

    @abstractmethod
    def add(self, row: int, subscription: Subscription) -> None:
        """Add a subscription under a row that is free."""

    @abstractmethod
    def find_cover(self, subscription: Subscription) -> int | None:
        """Return the row of one subscription that covers the given one."""

    @abstractmethod
    def find_covered(self, subscription: Subscription) -> Rows:
        """Return the rows the given subscription covers, ascending."""

    def add_boxes(self, rows: Rows, table: SubscriptionTable) -> None:
        """Add the boxes of a table under rows that are free."""
        for i, row in enumerate(rows.tolist()):
            self.add(row, table.box_subscription(i, row))

    def find_covers(self, table: SubscriptionTable) -> Rows:
        """Return `find_cover` of each box of a table, -1 where it found none."""
        covers = (self.find_cover(table.box_subscription(i, i)) for i in range(len(table)))
        return np.array([-1 if row is None else row for row in covers], np.int32)

    def find_covered_each(self, table: SubscriptionTable) -> MatchRows:
        """Return `find_covered` of each box of a table."""
        return MatchRows.joined([self.find_covered(table.box_subscription(i, i)) for i in range(len(table))])


def match_each(match: Callable[[Event], Rows], events: EventTable) -> MatchRows:
    """Match a table event by event, for matchers without a batch method; a bad row matches nothing."""
    bad = events.bad
    return MatchRows.joined([NO_ROWS if i in bad else match(events.event(i)) for i in range(len(events))])


def demand(needed: Guarantee, actual: Guarantee) -> None:
    """Raise `WeakGuaranteeError` unless a structure has the needed guarantee."""
    if needed not in actual:
        raise WeakGuaranteeError(str(needed.name), str(actual.name))
