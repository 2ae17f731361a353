"""Pairs (event, subscription) of a batch, in the sort order that all of tamis uses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tamis.cli.filters.prepare import Prepared
from tamis.cli.screen import jsonable
from tamis.errors import TableError, shorten
from tamis.files import BadRow, Batch
from tamis.model.subscription import SubscriptionId

__all__ = ["Pairs"]


class Pairs:
    """Turns batches into two lists, the events and the ids of the subscriptions they match."""

    def __init__(
        self, prepared: Prepared, namespace: str, event_id: str | None, *, skip: bool, threads: int = 1
    ) -> None:
        self._prepared = prepared
        self._threads = threads
        self._namespace = namespace
        self._event_id = event_id
        self._skip = skip
        self._is_first = True
        #: Pairs found so far.
        self.count = 0

    @property
    def column_types(self) -> dict[str, pa.DataType]:
        """The column types of a table of pairs: numbers if all are numbers, text otherwise."""
        ids = [subscription.id for subscription in self._prepared.engine if subscription.namespace == self._namespace]
        are_ints = bool(ids) and all(isinstance(subscription, int) for subscription in ids)
        event = pa.int64() if self._event_id is None else pa.string()
        return {"event": event, "subscription": pa.int64() if are_ints else pa.string()}

    def of(self, batch: Batch) -> tuple[tuple[Sequence[Any], list[SubscriptionId]], list[BadRow]]:
        """Return the pairs of a batch and its bad rows."""
        matches, bad = self._prepared.match(batch, namespace=self._namespace, skip=self._skip, threads=self._threads)
        names, unnamed = self._names(batch)
        order = matches.order()
        if unnamed:
            order = order[~np.isin(matches.event[order], list(unnamed))]
        events = [names[i] for i in matches.event[order].tolist()]
        ids = matches.ids.of(matches.rows[order])
        self.count += len(ids)
        return (events, ids), [*bad, *unnamed.values()]

    def _names(self, batch: Batch) -> tuple[Sequence[Any], dict[int, BadRow]]:
        """Return the name of each event of a batch, and the rows without a usable name."""
        if self._event_id is None:
            return batch.rows, {}
        if self._event_id not in batch.columns and len(batch) and self._is_first:
            raise TableError(f"{self._prepared.name} has no {self._event_id!r}; choose another --event-id")
        self._is_first = False
        column = batch.columns.get(self._event_id, [None] * len(batch))
        names = [jsonable(name) for name in (column.to_pylist() if isinstance(column, pa.Array) else column)]
        bad = {}
        for i, name in enumerate(names):
            if not _is_name(name):
                problem = "is missing" if name is None else f"is {shorten(name)}, not text or an int64"
                bad[i] = BadRow(batch.rows[i], batch.place(i), f"the event id {self._event_id!r} {problem}")
        if bad and not self._skip:
            first = next(iter(bad.values()))
            raise TableError(f"{self._prepared.name}, {first.place}: {first.problem}; choose another --event-id")
        return names, bad


def _is_name(value: object) -> bool:
    """Whether a value can name an event: text that can be written, or an int64."""
    if isinstance(value, str):
        return value.isascii() or not any("\ud800" <= character <= "\udfff" for character in value)
    return isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63
