"""Inside the workers: subscriptions to the tiles of a reduction, covering inside a tile, unions and merges."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tamis.algebra.compiling_texts import TextReader
from tamis.model.language.unbind import format_filters
from tamis.model.schema import Schema
from tamis.model.subscription import Subscription
from tamis.model.tables import SubscriptionTable
from tamis.reduction import Reduction, cover_partition, reduce
from tamis.spark.functions.worker_task import WorkerTask
from tamis.spark.subscriptions.rule_texts import filters_of, reader_of
from tamis.spark.subscriptions.typed import number_names
from tamis.spark.tiles.tile_work import subscription_extents
from tamis.spark.tiles.tiling import Tiling

__all__ = [
    "NEW",
    "Reason",
    "Reduce",
    "cover_tiles",
    "groups_of_rows",
    "reasons_of",
    "spread_to_tiles",
    "subscriptions_of",
    "unite",
]

#: The value of the column ``rule`` for a subscription that a merge made; it was not removed.
NEW = "new"

#: The rule by which a subscription was removed, and the ids of those that cover it.
Reason: TypeAlias = tuple[str, tuple[Any, ...]]


@dataclass(frozen=True)
class Reduce(WorkerTask):
    """What the workers need to know; it travels pickled inside Spark."""

    schema: str
    tiling: str
    merge: bool
    #: Subscriptions of a namespace among which unions and merges are sought; of more none are.
    at_once: int
    form: pa.Schema


def spread_to_tiles(batches: Iterator[pa.RecordBatch], *, task: Reduce) -> Iterator[pa.RecordBatch]:
    """Yield each subscription in every tile it meets, with the tile and ``copies``, how many there are of it.

    ``copies`` is set in the home, the lowest tile, and is 0 elsewhere. A cover of a subscription meets every tile
    that the subscription meets, so it is in its home as well.
    """
    reader, tiling = reader_of(task.schema), msgspec.json.decode(task.tiling, type=Tiling)
    for batch in batches:
        rows, tile = tiling.of_subscriptions(subscription_extents(batch, reader, tiling.axes))
        # What can never match meets no tile, but must be reported once.
        nowhere = np.setdiff1d(np.arange(batch.num_rows), rows)
        rows, tile = np.append(rows, nowhere), np.append(tile, np.zeros(len(nowhere), np.int32))
        _, first, counts = np.unique(rows, return_index=True, return_counts=True)
        copies = np.zeros(len(rows), np.int32)
        copies[first] = counts
        columns = [*batch.take(pa.array(rows)).columns, pa.array(tile), pa.array(copies)]
        yield pa.RecordBatch.from_arrays(columns, schema=task.form)


def cover_tiles(batches: Iterator[pa.RecordBatch], *, task: Reduce) -> Iterator[pa.RecordBatch]:
    """Decide which of the subscriptions at home in each tile stay, and which subscriptions cover the others.

    The rows of a tile of a namespace must come together.
    """
    reader = reader_of(task.schema)
    for rows in groups_of_rows(batches, "namespace", "tile"):
        reduction = cover_partition(subscriptions_of(rows, reader), reader.schema)
        at_home = rows.filter(pc.greater(rows["copies"], 0)).drop_columns(["tile"])
        yield from _with_reasons(at_home, reasons_of(reduction), task.form)


def unite(batches: Iterator[pa.RecordBatch], *, task: Reduce) -> Iterator[pa.RecordBatch]:
    """Say which subscriptions of a namespace several others cover together, and which are merged into one.

    No subscription may cover another. Those of a namespace with more of them than ``at_once`` stay as they are.
    """
    reader = reader_of(task.schema)
    for rows in groups_of_rows(batches, "namespace"):
        if len(rows) > task.at_once:
            yield from _with_reasons(rows, {}, task.form)
            continue
        reduction = reduce(subscriptions_of(rows, reader), reader.schema, merge=task.merge)
        reasons = reasons_of(reduction) | {
            id: ("merged", (new,)) for new, ids in reduction.merged.items() for id in ids
        }
        yield from _with_reasons(rows, reasons, task.form)
        [namespace] = rows["namespace"].unique().to_pylist()
        merged_rows = [
            _merged_row(subscription, reduction, namespace, reader.schema)
            for subscription in reduction.subscriptions
            if subscription.id in reduction.merged
        ]
        yield pa.RecordBatch.from_pylist(merged_rows, schema=task.form)


def groups_of_rows(batches: Iterator[pa.RecordBatch], *keys: str) -> Iterator[pa.Table]:
    """Yield the rows of each combination of keys, which come one after the other."""
    for _, some in itertools.groupby(_runs(batches, keys), key=lambda run: run[0]):
        yield pa.Table.from_batches([batch for _, batch in some])


def _runs(batches: Iterator[pa.RecordBatch], keys: tuple[str, ...]) -> Iterator[tuple[tuple[Any, ...], pa.RecordBatch]]:
    """Yield (keys, rows) for every run of rows with equal keys."""
    for batch in batches:
        values = list(zip(*(batch.column(name).to_pylist() for name in keys), strict=True))
        start = 0
        for key, run in itertools.groupby(values):
            n = sum(1 for _ in run)
            yield key, batch.slice(start, n)
            start += n


def subscriptions_of(rows: pa.Table, reader: TextReader) -> SubscriptionTable | list[Subscription]:
    """Return rows of one namespace as they are reduced: as a table when all are boxes, else one by one."""
    ids, ends, is_box = rows["id"].to_pylist(), rows["expires"].to_pylist(), rows["lo"].is_valid()
    boxes, texts = rows.filter(is_box).combine_chunks(), rows["filter"].to_pylist()
    table = _boxes(boxes, number_names(reader.schema)) if len(boxes) else None
    if table is not None and len(boxes) == len(rows) and not any(end is not None for end in ends):
        return table
    written = [text for text, box in zip(texts, is_box.to_pylist(), strict=True) if not box]
    filters, number = iter(filters_of(written, reader)), itertools.count()
    [space] = rows["namespace"].unique().to_pylist()
    return [
        replace(table.box_subscription(next(number), id), namespace=space, expires=end)
        if table is not None and box
        else Subscription(id, next(filters), text, space, end)
        for id, box, text, end in zip(ids, is_box.to_pylist(), texts, ends, strict=True)
    ]


def _boxes(rows: pa.Table, names: list[str]) -> SubscriptionTable:
    lo, hi = (np.asarray(rows[side].combine_chunks().flatten()).reshape(-1, len(names)) for side in ("lo", "hi"))
    return SubscriptionTable.from_boxes(names, lo, hi, rows["id"].to_pylist())


def reasons_of(reduction: Reduction) -> dict[Any, Reason]:
    """Return the rule by which each subscription was dropped, and the subscriptions that replace it."""
    reasons: dict[Any, Reason] = dict.fromkeys(reduction.impossible, ("impossible", ()))
    for rule, covers in (("covered", reduction.covered), ("equivalent", reduction.equivalent)):
        reasons |= {id: (rule, (by,)) for id, by in covers.items()}
    return reasons | {id: ("subsumed", by) for id, by in reduction.subsumed.items()}


def _with_reasons(rows: pa.Table, reasons_by_id: dict[Any, Reason], form: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows with the rule by which each is gone, null for those that stay."""
    reasons = [reasons_by_id.get(id, (None, None)) for id in rows["id"].to_pylist()]
    rules = pa.array([rule for rule, _ in reasons], pa.string())
    by = pa.array([None if by is None else [str(cover) for cover in by] for _, by in reasons], pa.list_(pa.string()))
    table = rows.append_column("rule", rules).append_column("by", by)
    yield from table.select(form.names).cast(form).to_batches()


def _merged_row(subscription: Subscription, reduction: Reduction, namespace: str, schema: Schema) -> dict[str, Any]:
    """Return a subscription that a merge made, with the ids of those that were merged into it."""
    text = format_filters(subscription.filters, schema)
    about = {"id": str(subscription.id), "namespace": namespace, "filter": text, "expires": subscription.expires}
    return {**about, "rule": NEW, "by": [str(id) for id in reduction.merged[subscription.id]]}
