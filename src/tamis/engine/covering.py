"""Finds which subscriptions cover which, by their ids: the public interface to every covering index.

Indexes use rows; here subscriptions have ids, and are passed as text, CQL2-JSON, compiled objects, or as a table.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from tamis.algebra.compiling_texts import compile_texts
from tamis.algebra.sources import Source, as_subscriptions
from tamis.engine.ids import Ids
from tamis.errors import ModelError
from tamis.index.protocols import BatchedCovering, CoveringIndex, Guarantee, demand
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
    Without a schema, types and the scales of a curve are learned from the subscriptions that are added.

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
    used_schema = schema if schema is not None else Schema()
    options = CoveringOptions(
        used_schema, epsilon, k, seed, curve, probes, truncated, draw=draw, pick=pick, axes=axes, groups=groups
    )
    return CoverIndex(maker(options), schema)


class CoverIndex:
    """Subscriptions by id, and which of them cover which. Made by `covering_index`. For one thread.

    Namespaces and expiry are ignored: use an index for each namespace.
    """

    def __init__(self, index: CoveringIndex, schema: Schema | None) -> None:
        demand(Guarantee.SOUND, index.guarantee)
        self._index = index
        self._is_open = schema is None
        self._schema = schema if schema is not None else Schema()
        self._ids = Ids()

    @property
    def guarantee(self) -> Guarantee:
        """SOUND: every reported cover is true; EXACT: and no cover is missed."""
        return self._index.guarantee

    def __len__(self) -> int:
        return len(self._index)

    def __contains__(self, id: object) -> bool:
        return id in self._ids

    def add(self, subscription: Source, id: SubscriptionId | None = None) -> SubscriptionId:
        """Add a subscription; return its id: the argument, that of a compiled subscription, or a number."""
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
        new_ids = list(table.ids) if table.ids is not None else list(range(first, first + len(table)))
        start = self._ids.append_many([checked_id(id, row) for row, id in enumerate(new_ids)])
        self._index.add_boxes(np.arange(start, start + len(table), dtype=np.int32), table)
        return new_ids

    def remove(self, id: SubscriptionId) -> None:
        """Remove a subscription; raise `UnknownSubscriptionError` if there is none with this id."""
        self._index.remove(self._ids.remove(id))

    def find_cover(self, subscription: Source) -> SubscriptionId | None:
        """Return the id of a cover of a subscription, or None; the kind "exact" returns the cover added first."""
        row = self._index.find_cover(self._compiled(subscription, "the subscription"))
        return None if row is None else self._ids[row]

    def find_covers(self, table: SubscriptionTable | Iterable[Source]) -> list[SubscriptionId | None]:
        """Return `find_cover` of each subscription; the kind "exact" answers them together, others boxes of a table."""
        if isinstance(table, SubscriptionTable) and table.texts is None:
            rows = self._index.find_covers(table).tolist()
            return [None if row < 0 else self._ids[row] for row in rows]
        subscriptions = self._compiled_each(table)
        if isinstance(self._index, BatchedCovering):
            rows = self._index.find_cover_many(subscriptions).tolist()
            return [None if row < 0 else self._ids[row] for row in rows]
        return [self.find_cover(subscription) for subscription in subscriptions]

    def find_covered(self, subscription: Source) -> list[SubscriptionId]:
        """Return the sorted ids of the subscriptions that a subscription covers."""
        return self._ids.sorted_of(self._index.find_covered(self._compiled(subscription, "the subscription")))

    def find_covered_each(self, table: SubscriptionTable | Iterable[Source]) -> list[list[SubscriptionId]]:
        """Return `find_covered` of each subscription, together where `find_covers` does so."""
        if isinstance(table, SubscriptionTable) and table.texts is None:
            offsets, rows = self._index.find_covered_each(table)
            return [self._ids.sorted_of(rows[offsets[i] : offsets[i + 1]]) for i in range(len(table))]
        subscriptions = self._compiled_each(table)
        if isinstance(self._index, BatchedCovering):
            return [self._ids.sorted_of(rows) for rows in self._index.find_covered_many(subscriptions)]
        return [self.find_covered(subscription) for subscription in subscriptions]

    def statistics(self) -> dict[str, Any]:
        """Return the contents and the cost of searches so far, as plain values."""
        counts = self._index.statistics()
        return {"kind": counts.kind, "guarantee": str(self.guarantee.name), "size": counts.size, **counts.details}

    def _compiled_each(self, table: SubscriptionTable | Iterable[Source]) -> list[Subscription]:
        """Return compiled subscriptions; texts under a fixed schema are compiled together."""
        sources = list((table.texts or ()) if isinstance(table, SubscriptionTable) else table)
        if self._is_open or not all(isinstance(source, str) for source in sources):
            return [self._compiled(source, "the subscription") for source in sources]
        texts = [str(source) for source in sources]
        compiled = compile_texts(texts, self._schema, columns=False)
        if compiled.bad is not None:
            raise compiled.bad.error
        return [Subscription(row, filters, texts[row]) for row, filters in compiled.others]

    def _compiled(self, subscription: Source, name: SubscriptionId) -> Subscription:
        if isinstance(subscription, Subscription):
            return subscription
        if not self._is_open:
            return as_subscriptions([(name, subscription)], self._schema)[0][0]
        [compiled], learned = as_subscriptions([(name, subscription)], None)
        self._schema = self._schema.extended(learned, f"subscription {name!r}")
        return compiled
