"""Which subscriptions cover which, by the ids that users give: the public interface to every covering index.

An index knows rows; here they have ids, and subscriptions come as text, CQL2-JSON, compiled, or as a table.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from tamis.algebra.sources import Source, as_subscriptions
from tamis.engine.ids import Ids
from tamis.errors import ModelError
from tamis.index.protocols import CoveringIndex, Guarantee, demand
from tamis.index.registry import COVERING_INDEXES, DEFAULT_COVERING, CoveringOptions
from tamis.model.schema import Schema
from tamis.model.subscription import Subscription, SubscriptionId
from tamis.model.tables import SubscriptionTable, checked_id

__all__ = ["CoverIndex", "covering_index"]


def covering_index(
    schema: Schema | None = None,
    kind: str = DEFAULT_COVERING,
    *,
    epsilon: float = 0.05,
    k: int | None = None,
    seed: int = 0,
    curve: str = "z",
    probes: int | None = None,
    truncated: bool = False,
    draw: str = "orthonormal",
    pick: str = "smallest",
    axes: int = 3,
    groups: int = 1,
) -> CoverIndex:
    """Return an empty index that finds the subscriptions that cover one, and those that it covers.

    ``kind`` is "exact" (the one to use), "zcurve" (leaves out a share ``epsilon`` of the search space; ``k`` bits per
    side; ``curve`` is "z", "hilbert" or "gray"; a search ends after ``probes`` look-ups; ``truncated`` searches a
    rectangle of fewer bits instead of the largest cubes), "projection" (balls; ``k`` vectors drawn by ``seed``, as
    ``draw`` says, "orthonormal", "gaussian" or "cube"; ``pick="largest"`` reports the first cover that is met), "cells"
    (cells of ``k`` bits a side on ``groups`` of ``axes`` attributes propose covers) or "linear" (compares with all).
    Without a schema types, and the scales of a curve, are learned from what is added.

    Examples
    --------
    >>> index = covering_index()
    >>> index.add("price < 100", id="alice")
    'alice'
    >>> index.find_cover("price < 50 AND symbol = 'IBM'"), index.find_cover("price < 200")
    ('alice', None)
    """
    maker = COVERING_INDEXES.get(kind)
    if maker is None:
        raise ModelError(f"unknown covering index {kind!r}; choose from {', '.join(sorted(COVERING_INDEXES))}")
    known = schema if schema is not None else Schema()
    options = CoveringOptions(
        known, epsilon, k, seed, curve, probes, truncated, draw=draw, pick=pick, axes=axes, groups=groups
    )
    return CoverIndex(maker(options), schema)


class CoverIndex:
    """Subscriptions by id, and which of them cover which. Made by `covering_index`. For one thread.

    Namespaces and expiry take no part: keep an index for each namespace.
    """

    def __init__(self, index: CoveringIndex, schema: Schema | None) -> None:
        demand(Guarantee.SOUND, index.guarantee)
        self._index = index
        self._is_open = schema is None
        self._schema = schema if schema is not None else Schema()
        self._ids = Ids()

    @property
    def guarantee(self) -> Guarantee:
        """SOUND: every cover that is found is one; EXACT: and none is missed."""
        return self._index.guarantee

    def __len__(self) -> int:
        return len(self._index)

    def __contains__(self, id: object) -> bool:
        return id in self._ids

    def add(self, subscription: Source, id: SubscriptionId | None = None) -> SubscriptionId:
        """Add a subscription; return its id: the given one, that of a compiled one, or a number."""
        compiled = self._compiled(subscription, "the subscription" if id is None else id)
        if id is None:
            id = compiled.id if isinstance(subscription, Subscription) else self._ids.n_rows
        row = self._ids.append(checked_id(id))
        self._index.add(row, compiled)
        return id

    def add_table(self, table: SubscriptionTable) -> list[SubscriptionId]:
        """Add the boxes or texts of a table; return their ids. Boxes are added without an object for each."""
        if table.texts is not None:
            ids = table.ids if table.ids is not None else [None] * len(table)
            return [self.add(text, id) for text, id in zip(table.texts, ids, strict=True)]
        first = self._ids.n_rows
        given = list(table.ids) if table.ids is not None else list(range(first, first + len(table)))
        start = self._ids.append_many([checked_id(id, row) for row, id in enumerate(given)])
        self._index.add_boxes(np.arange(start, start + len(table), dtype=np.int32), table)
        return given

    def remove(self, id: SubscriptionId) -> None:
        """Remove a subscription; `UnknownSubscriptionError` when it is not there."""
        self._index.remove(self._ids.remove(id))

    def find_cover(self, subscription: Source) -> SubscriptionId | None:
        """Return the id of one that covers a subscription, of the exact ones that which was added first; or None."""
        row = self._index.find_cover(self._compiled(subscription, "the subscription"))
        return None if row is None else self._ids[row]

    def find_covers(self, table: SubscriptionTable | Iterable[Source]) -> list[SubscriptionId | None]:
        """Return `find_cover` of each subscription; a table of boxes is answered at once."""
        if isinstance(table, SubscriptionTable) and table.texts is None:
            found = self._index.find_covers(table).tolist()
            return [None if row < 0 else self._ids[row] for row in found]
        sources = table.texts if isinstance(table, SubscriptionTable) else table
        return [self.find_cover(one) for one in sources or ()]

    def find_covered(self, subscription: Source) -> list[SubscriptionId]:
        """Return the ids of those that a subscription covers, sorted."""
        return self._ids.sorted_of(self._index.find_covered(self._compiled(subscription, "the subscription")))

    def find_covered_each(self, table: SubscriptionTable | Iterable[Source]) -> list[list[SubscriptionId]]:
        """Return `find_covered` of each subscription; a table of boxes is answered at once."""
        if isinstance(table, SubscriptionTable) and table.texts is None:
            offsets, rows = self._index.find_covered_each(table)
            return [self._ids.sorted_of(rows[offsets[i] : offsets[i + 1]]) for i in range(len(table))]
        sources = table.texts if isinstance(table, SubscriptionTable) else table
        return [self.find_covered(one) for one in sources or ()]

    def statistics(self) -> dict[str, Any]:
        """Return what is held and what searches cost so far, as plain values."""
        told = self._index.statistics()
        return {"kind": told.kind, "guarantee": str(self.guarantee.name), "size": told.size, **told.details}

    def _compiled(self, subscription: Source, name: SubscriptionId) -> Subscription:
        if isinstance(subscription, Subscription):
            return subscription
        if not self._is_open:
            return as_subscriptions([(name, subscription)], self._schema)[0][0]
        [compiled], learned = as_subscriptions([(name, subscription)], None)
        self._schema = self._schema.extended(learned, f"subscription {name!r}")
        return compiled
