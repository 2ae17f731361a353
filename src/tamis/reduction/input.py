"""The input of a reduction: every subscription by its place, in the order of the ids.

A *place* is a position in that order; the stages use places, and only the report uses ids. An id may occur in
several namespaces, which are reduced separately: the report then shows it as ``namespace/id``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import overload

import numpy as np
import numpy.typing as npt

from tamis.algebra.sources import Source, as_subscriptions
from tamis.errors import DuplicateSubscriptionError, ModelError, shorten
from tamis.model.schema import Schema
from tamis.model.subscription import Subscription, SubscriptionId, id_order
from tamis.model.tables import SubscriptionTable, checked_id
from tamis.model.types import Number

__all__ = ["Input", "Subscriptions", "read"]

#: What `reduce` takes.
Subscriptions = Mapping[SubscriptionId, Source] | Iterable[Subscription] | SubscriptionTable

_IntArray = npt.NDArray[np.int64]


class TableRows(Sequence[Subscription]):
    """The subscriptions of a table of boxes, each created on access."""

    def __init__(self, table: SubscriptionTable, ids: Sequence[SubscriptionId], order: _IntArray) -> None:
        self._table, self._ids, self._order = table, ids, order

    def __len__(self) -> int:
        return len(self._order)

    @overload
    def __getitem__(self, place: int) -> Subscription: ...
    @overload
    def __getitem__(self, place: slice) -> list[Subscription]: ...
    def __getitem__(self, place: int | slice) -> Subscription | list[Subscription]:
        if isinstance(place, slice):
            return [self[i] for i in range(*place.indices(len(self)))]
        row = int(self._order[place])
        return self._table.box_subscription(row, self._ids[row])


@dataclass(frozen=True)
class Input:
    """Subscriptions by place, with their names in the report.

    ``table`` and ``order`` are set if the input is a table of boxes: place p is its row ``order[p]``.
    """

    subscriptions: Sequence[Subscription]
    names: Sequence[SubscriptionId]
    namespaces: Sequence[str] | None
    schema: Schema
    table: SubscriptionTable | None = None
    order: _IntArray | None = None

    def __len__(self) -> int:
        return len(self.subscriptions)

    def groups(self) -> Iterator[_IntArray]:
        """Yield the places of each namespace, ascending."""
        if self.namespaces is None:
            yield np.arange(len(self))
            return
        spaces = np.array(self.namespaces, dtype=object)
        for name in sorted(set(self.namespaces)):
            yield np.flatnonzero(spaces == name)


def read(subscriptions: Subscriptions, schema: Schema | None) -> Input:
    """Compile the input, check that ids are unique in their namespace, and sort by id."""
    if isinstance(subscriptions, SubscriptionTable) and subscriptions.texts is None:
        return _table(subscriptions, schema)
    if isinstance(subscriptions, SubscriptionTable):
        compiled_subscriptions, used_schema = _texts(subscriptions, schema)
    elif isinstance(subscriptions, Mapping):
        named = [(checked_id(id), source) for id, source in subscriptions.items()]
        compiled, used_schema = as_subscriptions(named, schema)
        compiled_subscriptions = [
            replace(subscription, id=id) for (id, _), subscription in zip(named, compiled, strict=True)
        ]
    else:
        compiled_subscriptions, used_schema = as_subscriptions(_listed(subscriptions), schema)
    compiled_subscriptions.sort(key=lambda subscription: (id_order(subscription.id), subscription.namespace))
    spaces = [subscription.namespace for subscription in compiled_subscriptions]
    return Input(
        compiled_subscriptions,
        _names([subscription.id for subscription in compiled_subscriptions], spaces),
        _several(spaces),
        used_schema,
    )


def _table(table: SubscriptionTable, schema: Schema | None) -> Input:
    ids = _row_ids(table)
    spaces = None if table.namespaces is None else [table.namespace(row) for row in range(len(table))]
    order = np.arange(len(table))
    if table.ids is not None or spaces is not None:
        keys = spaces or [""] * len(table)
        order = np.array(sorted(range(len(table)), key=lambda row: (id_order(ids[row]), keys[row])), np.int64)
    sorted_ids = ids if table.ids is None and spaces is None else [ids[row] for row in order.tolist()]
    sorted_spaces = None if spaces is None else [spaces[row] for row in order.tolist()]
    used_schema = schema if schema is not None else Schema({name: Number() for name in table.names})
    names = _names(sorted_ids, sorted_spaces)
    return Input(TableRows(table, ids, order), names, _several(sorted_spaces), used_schema, table, order)


def _several(spaces: list[str] | None) -> list[str] | None:
    return spaces if spaces is not None and len(set(spaces)) > 1 else None


def _names(ids: Sequence[SubscriptionId], spaces: list[str] | None) -> Sequence[SubscriptionId]:
    """Return the name of each subscription in the report; a duplicate id in a namespace is an error."""
    taken = set(ids)
    if len(taken) == len(ids):
        return ids
    often = Counter(ids)
    seen: set[tuple[SubscriptionId, str]] = set()
    names: list[SubscriptionId] = []
    for id, space in zip(ids, spaces or [""] * len(ids), strict=True):
        if (id, space) in seen:
            raise DuplicateSubscriptionError(id)
        seen.add((id, space))
        name: SubscriptionId = id
        while often[id] > 1 and name in taken:
            name = f"{space}/{id}" if name == id else f"{name}'"
        taken.add(name)
        names.append(name)
    return names


def _listed(subscriptions: Iterable[Subscription]) -> Iterator[tuple[SubscriptionId, Subscription]]:
    """Yield compiled subscriptions with their ids, or raise a `ModelError` that describes the expected input."""
    expected = "expected a mapping of ids to subscriptions, compiled subscriptions or a table"
    if isinstance(subscriptions, str | bytes | Subscription) or not isinstance(subscriptions, Iterable):
        raise ModelError(f"{expected}, not {type(subscriptions).__name__}")
    for subscription in subscriptions:
        if not isinstance(subscription, Subscription):
            raise ModelError(f"{expected}; {shorten(subscription)} has no id")
        checked_id(subscription.id)
        yield subscription.id, subscription


def _row_ids(table: SubscriptionTable) -> Sequence[SubscriptionId]:
    """Return the ids of a table; a row without an id gets its number, or a free number if that is taken."""
    if table.ids is None:
        return range(len(table))
    taken = {id for id in table.ids if id is not None}
    ids: list[SubscriptionId] = []
    for row, id in enumerate(table.ids):
        number = row
        while id is None and number in taken:
            number += len(table)
        ids.append(number if id is None else id)
        taken.add(ids[-1])
    return ids


def _texts(table: SubscriptionTable, schema: Schema | None) -> tuple[list[Subscription], Schema]:
    """Compile the rows of a table of texts, each with its namespace and end."""
    assert table.texts is not None
    compiled, used_schema = as_subscriptions(zip(_row_ids(table), table.texts, strict=True), schema)
    ends = table.expires if table.expires is not None else [None] * len(table)
    return [
        replace(subscription, namespace=table.namespace(row), expires=ends[row])
        for row, subscription in enumerate(compiled)
    ], used_schema
