"""The events of one message and one namespace: one by one, or as a table that an index reads at once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from operator import itemgetter
from typing import Any

import numpy as np

from tamis.model.schema import Event, Schema
from tamis.model.tables import EventTable

__all__ = ["SMALL_BATCH", "EventBatch"]

#: Fewer events than this are matched one by one: making a table of them costs more.
SMALL_BATCH = 16


class EventBatch:
    """Canonical events of one namespace. The table is made on first use, once for all its readers."""

    def __init__(self, events: Sequence[Event], namespace: str, schema: Schema) -> None:
        self.events = events
        self.namespace = namespace
        self._schema = schema

    def __len__(self) -> int:
        return len(self.events)

    def head(self, n: int) -> EventBatch:
        """Return the first ``n`` events."""
        return self if n >= len(self.events) else EventBatch(self.events[:n], self.namespace, self._schema)

    @property
    def is_small(self) -> bool:
        """Whether a table of these events does not pay."""
        return len(self.events) < SMALL_BATCH

    @cached_property
    def table(self) -> EventTable:
        """The events as a table; its bad rows are events with a long decimal, which a column cannot hold."""
        return EventTable.of(_columns(self.events, self._schema), self._schema, presence=True)


def _columns(events: Sequence[Event], schema: Schema) -> dict[str, Any]:
    """Return the values of events by name, None where there is none."""
    names = set(schema).union(*events)
    if all(len(event) == len(names) for event in events):  # all have the same names: no look-up can fail
        return {name: _column(list(map(itemgetter(name), events))) for name in sorted(names)}
    return {name: _column([event.get(name) for event in events]) for name in sorted(names)}


def _column(values: list[Any]) -> Any:
    """Return values as a column; floats and missing values become an array, which is read as a whole."""
    kinds = set(map(type, values))
    return np.array(values, dtype=np.float64) if float in kinds and kinds <= {float, type(None)} else values
