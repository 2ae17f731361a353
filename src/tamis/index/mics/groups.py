"""Subscriptions by the ranges of their cells, in one space or in several.

With several groups of axes a candidate must be one in every group.

Implements: [mics] section 5, Subscription Indexing; section 8, attribute groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from tamis.curves.runs import Runs
from tamis.index.mics.space import ContentSpace
from tamis.index.mics.subscription_index import SubscriptionIndex
from tamis.model.schema import Event
from tamis.model.subscription import Subscription
from tamis.model.tables import EventTable

__all__ = ["MAX_RANGES", "RangeGroups"]

#: Ranges of one subscription; more are coarsened outward, and more candidates must be verified.
MAX_RANGES = 64

IntArray = npt.NDArray[np.int64]


@dataclass
class RangeGroups:
    """Spaces with the subscriptions indexed in them; replaced as a whole when new spaces are learned."""

    spaces: Sequence[ContentSpace]
    indexes: list[SubscriptionIndex] = field(default_factory=list)
    #: ``{row: its ranges in each space}``, exactly what the indexes hold.
    ranges: dict[int, tuple[Runs, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.indexes = [SubscriptionIndex() for _ in self.spaces]

    def add(self, row: int, subscription: Subscription) -> None:
        """Add a subscription under a row that is free."""
        self.ranges[row] = tuple(space.ranges_of(subscription, MAX_RANGES) for space in self.spaces)
        for index, ranges in zip(self.indexes, self.ranges[row], strict=True):
            index.add(row, ranges)

    def remove(self, row: int) -> None:
        """Remove a row; raise `KeyError` if it is absent."""
        for index, ranges in zip(self.indexes, self.ranges.pop(row), strict=True):
            index.remove(row, ranges)

    def candidates(self, event: Event) -> IntArray:
        """Return the rows that may match, ascending."""
        common: IntArray | None = None
        for space, index in zip(self.spaces, self.indexes, strict=True):
            rows = index.owners_meeting(space.ranges_of_event(event))
            common = rows if common is None else np.intersect1d(common, rows, assume_unique=True)
        return np.empty(0, np.int64) if common is None else common

    def candidates_of_table(self, events: EventTable) -> list[IntArray]:
        """Return the rows that may match each event."""
        common: list[IntArray] = []
        for space, index in zip(self.spaces, self.indexes, strict=True):
            keys, spread = space.keys_of_table(events)
            offsets, owners = index.owners(keys)
            rows = (
                [np.sort(owners_of_event) for owners_of_event in np.split(owners, offsets[1:-1])] if len(keys) else []
            )
            for i, ranges in spread.items():
                rows[i] = index.owners_meeting(ranges)
            together = zip(common, rows, strict=True)
            common = [np.intersect1d(a, b, assume_unique=True) for a, b in together] if common else rows
        return common

    def possible_covers(self, subscription: Subscription) -> list[int]:
        """Return the rows that own two opposite corners of a subscription's cells, ascending."""
        common: IntArray | None = None
        for space, index in zip(self.spaces, self.indexes, strict=True):
            corners = space.corners_of(subscription)
            rows = index.possible_covers(corners)
            common = rows if common is None else np.intersect1d(common, rows, assume_unique=True)
        return [] if common is None else common.tolist()

    def meeting(self, subscription: Subscription) -> list[int]:
        """Return the rows that share a cell with a subscription in each space, ascending."""
        common: IntArray | None = None
        for space, index in zip(self.spaces, self.indexes, strict=True):
            rows = index.owners_meeting(space.ranges_of(subscription, MAX_RANGES))
            common = rows if common is None else np.intersect1d(common, rows, assume_unique=True)
        return [] if common is None else common.tolist()
