"""Matches: which subscriptions each event of a table matches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tamis.index.protocols import Rows
from tamis.model.subscription import SubscriptionId

__all__ = ["Matches", "id_order"]


def id_order(one: SubscriptionId) -> tuple[bool, SubscriptionId]:
    """Sort ids: integers first, then strings by code point.

    >>> sorted(["b", 10, "a", 9], key=id_order)
    [9, 10, 'a', 'b']
    """
    return (isinstance(one, str), one)


@dataclass(frozen=True)
class Matches:
    """The answer of `Engine.match_table`, in compressed rows.

    The matches of event i are ``rows[offsets[i]:offsets[i + 1]]``, in any order; rows are the engine's own
    numbers. What users call them is worked out when asked for.
    """

    offsets: npt.NDArray[np.int64]
    rows: Rows
    #: ``ids[row]`` is the user's id; later changes of the engine do not touch it.
    ids: Sequence[SubscriptionId]

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def event(self) -> npt.NDArray[np.int64]:
        """The row of the event of each match."""
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))

    @property
    def subscription(self) -> list[SubscriptionId]:
        """The id of the subscription of each match."""
        return [self.ids[row] for row in self.rows.tolist()]

    def of(self, event: int) -> list[SubscriptionId]:
        """Return the sorted ids that match one event."""
        n = len(self.offsets) - 1
        if not -n <= event < n:
            raise IndexError(f"there is no event {event} in a table of {n}")
        start, stop = self.offsets[event % n], self.offsets[event % n + 1]
        return sorted((self.ids[row] for row in self.rows[start:stop].tolist()), key=id_order)

    def to_arrow(self) -> pa.Table:
        """Return a table (event, subscription) sorted by event and id; mixed ids become strings."""
        pairs = sorted(
            zip(self.event.tolist(), self.subscription, strict=True), key=lambda pair: (pair[0], id_order(pair[1]))
        )
        ids = [pair[1] for pair in pairs]
        whole = all(isinstance(one, int) for one in ids)
        column = pa.array(ids, pa.int64()) if whole and ids else pa.array([str(one) for one in ids], pa.string())
        return pa.table({"event": pa.array([pair[0] for pair in pairs], pa.int64()), "subscription": column})
