"""A compiled table of texts, still as columns, to be added to namespaces."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tamis.algebra.compiling_texts import CompiledTexts
from tamis.engine.stored import text_table
from tamis.model.language.templates.columns import TextColumns
from tamis.model.subscription import Subscription, SubscriptionId
from tamis.model.tables import SubscriptionTable

__all__ = ["LazyBatch", "TextBatch", "compiled_subscriptions", "text_batches"]


@dataclass(frozen=True)
class TextBatch:
    """The texts of one namespace; rows count from 0.

    ``columns`` and ``others`` together have every row once.
    """

    ids: Sequence[SubscriptionId]
    #: Ids, texts, expiry and metadata, as `tamis.engine.stored.COLUMNS`.
    records: pa.Table
    columns: list[TextColumns]
    others: list[tuple[int, Subscription]]


@dataclass(frozen=True)
class LazyBatch:
    """Subscriptions of one namespace, each created on access; rows count from 0.

    ``columns`` and ``others`` together have every row once. ``make`` returns the subscription of a row.
    """

    ids: Sequence[SubscriptionId]
    columns: list[TextColumns]
    others: list[tuple[int, Subscription]]
    make: Callable[[int], Subscription]


def compiled_subscriptions(
    table: SubscriptionTable, ids: Sequence[SubscriptionId], compiled: CompiledTexts
) -> list[tuple[int, Subscription]]:
    """Return (row, subscription) of the texts that were compiled to filters, ascending."""
    assert table.texts is not None
    subscriptions = []
    for row, filters in compiled.others:
        expires = None if table.expires is None else table.expires[row]
        metadata = None if table.metadata is None else table.metadata[row]
        text, namespace = table.texts[row], table.namespace(row)
        subscriptions.append((row, Subscription(ids[row], filters, text, namespace, expires, dict(metadata or {}))))
    return subscriptions


def text_batches(
    table: SubscriptionTable, ids: Sequence[SubscriptionId], compiled: CompiledTexts
) -> dict[str, TextBatch]:
    """Return the texts of a table by namespace."""
    assert table.texts is not None
    others = compiled_subscriptions(table, ids, compiled)
    names = list(dict.fromkeys(map(table.namespace, range(len(table)))))
    if len(names) == 1:
        records = text_table(ids, table.texts, table.expires, table.metadata)
        return {names[0]: TextBatch(ids, records, compiled.columns, others)}
    numbers = {name: number for number, name in enumerate(names)}
    space = np.array([numbers[table.namespace(row)] for row in range(len(table))])
    return {name: _of_rows(table, ids, compiled, others, np.flatnonzero(space == numbers[name])) for name in names}


def _of_rows(
    table: SubscriptionTable,
    ids: Sequence[SubscriptionId],
    compiled: CompiledTexts,
    others: list[tuple[int, Subscription]],
    rows: np.ndarray[tuple[int], np.dtype[np.intp]],
) -> TextBatch:
    assert table.texts is not None
    position = np.full(len(table), -1, np.int32)
    position[rows] = np.arange(len(rows))
    columns = []
    for column in compiled.columns:
        chosen = np.flatnonzero(position[column.rows] >= 0)
        if len(chosen):
            columns.append(column.take(chosen, position[column.rows[chosen]]))
    kept_rows = rows.tolist()
    chosen_ids = [ids[row] for row in kept_rows]
    records = text_table(
        chosen_ids,
        [table.texts[row] for row in kept_rows],
        _chosen(table.expires, kept_rows),
        _chosen(table.metadata, kept_rows),
    )
    kept = [(int(position[row]), subscription) for row, subscription in others if position[row] >= 0]
    return TextBatch(chosen_ids, records, columns, kept)


def _chosen(values: Sequence[Any] | None, rows: Sequence[int]) -> list[Any] | None:
    return None if values is None else [values[row] for row in rows]
