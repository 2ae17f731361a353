"""The subscriptions that each event of a table matches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tamis.engine.ids import Ids
from tamis.index.protocols import Rows
from tamis.model.subscription import SubscriptionId, id_order

__all__ = ["Matches"]


@dataclass(frozen=True)
class Matches:
    """The answer of `Engine.match_table`, in compressed rows.

    The matches of event i are ``rows[offsets[i]:offsets[i + 1]]``, in any order; rows are the engine's own
    numbers. Their ids are looked up on access.
    """

    offsets: npt.NDArray[np.int64]
    rows: Rows
    #: The ids of the rows; later changes of the engine do not affect these rows.
    ids: Ids

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def event(self) -> npt.NDArray[np.int64]:
        """The row of the event of each match."""
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))

    @property
    def subscription(self) -> list[SubscriptionId]:
        """The id of the subscription of each match."""
        return self.ids.of(self.rows)

    def of(self, event: int) -> list[SubscriptionId]:
        """Return the sorted ids that match one event."""
        n = len(self.offsets) - 1
        if not -n <= event < n:
            raise IndexError(f"event {event} is out of range: the table has {n} events")
        start, stop = self.offsets[event % n], self.offsets[event % n + 1]
        return sorted(self.ids.of(self.rows[start:stop]), key=id_order)

    def order(self) -> npt.NDArray[np.intp]:
        """Return the positions of all matches sorted by event, then by id."""
        distinct, inverse = np.unique(self.rows, return_inverse=True)
        ids = self.ids.of(distinct)
        rank = np.empty(len(ids), np.int64)
        rank[sorted(range(len(ids)), key=lambda i: id_order(ids[i]))] = np.arange(len(ids))
        return np.lexsort((rank[inverse], self.event))

    def to_arrow(self) -> pa.Table:
        """Return a table (event, subscription) sorted by event and id; mixed ids become strings."""
        order = self.order()
        ids = self.ids.of(self.rows[order])
        whole = all(isinstance(id, int) for id in ids)
        column = pa.array(ids, pa.int64()) if whole and ids else pa.array([str(id) for id in ids], pa.string())
        return pa.table({"event": pa.array(self.event[order], pa.int64()), "subscription": column})
