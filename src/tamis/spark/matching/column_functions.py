"""Inside the workers: functions of columns and tables, made from rules that a `Lookup` names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tamis.engine import Engine
from tamis.errors import EventError, ModelError, UnknownSubscriptionError
from tamis.model.arrow_types import check_columns, column_kind
from tamis.model.schema import ALL_STRINGS, Schema
from tamis.model.tables import EventTable
from tamis.spark.functions.worker_task import WorkerTask
from tamis.spark.matching.matching import by_namespace, events_of, opened
from tamis.spark.matching.pins import pin, pinned_batch

__all__ = ["Lookup", "explained", "matching_ids", "table_function"]


@dataclass(frozen=True)
class Lookup(WorkerTask):
    """Which rules a worker opens; it travels pickled inside Spark."""

    #: Where the versions are, and the version of a batch query; a micro-batch is pinned to one of its own.
    location: str
    version: str
    pins: str | None
    #: The moment of a batch query, and that of a micro-batch; None for the moment at which it is pinned.
    now: int
    pinned_now: int | None
    namespace: str
    namespace_column: str | None
    schema: str | None

    def engine(self) -> Engine:
        """Return the engine for this task."""
        batch = pinned_batch() if self.pins is not None else None
        if self.pins is None or batch is None:
            return opened(self.version, self.now)
        chosen = pin(self.location, self.pins, *batch, self.pinned_now)
        return opened(f"{self.location}/{chosen.version}", chosen.now)

    def events(self, rows: pa.RecordBatch, engine: Engine) -> EventTable:
        """Return the attributes among the columns of rows; an error if there are none, or if one does not fit."""
        schema = self.event_schema(engine)
        names = _attribute_columns(rows.schema, schema)
        if not names:
            raise ModelError(f"no column of the events is in the schema (columns: {', '.join(rows.schema.names)})")
        values = rows.select(names)
        check_columns(values.schema, schema)
        return EventTable.of(values, schema)

    def event_schema(self, engine: Engine) -> Schema:
        """Return the schema of the rules, extended by the attributes that the caller declared."""
        declared = {} if self.schema is None else dict(Schema.from_json(self.schema))
        return engine.schema.extended(declared, "the schema given to matcher")

    def by_namespace(self, rows: pa.RecordBatch) -> Iterator[tuple[str, pa.Array | None]]:
        """Yield each namespace and its rows, None for all of them."""
        return by_namespace(self.namespaces(rows), self.namespace)

    def namespaces(self, rows: pa.RecordBatch) -> pa.Array | None:
        """Return the column with the namespace of each row; None if all have the same."""
        if self.namespace_column is None:
            return None
        if self.namespace_column not in rows.schema.names:
            columns = ", ".join(rows.schema.names)
            raise ModelError(
                f"the events have no column {self.namespace_column!r} (namespace_column); they have {columns}"
            )
        return rows.column(self.namespace_column).cast(pa.string()).fill_null(self.namespace)


def _attribute_columns(columns: pa.Schema, schema: Schema) -> list[str]:
    """Return the columns that a schema names, or into which one of its paths reaches; all text if it asks for that."""
    joins = ALL_STRINGS in schema and ALL_STRINGS not in columns.names
    texts = {field.name for field in columns if joins and column_kind(field.type) == "text"}
    starts = {path[:at] for path in schema for at, character in enumerate(path) if character == "."}
    return [name for name in columns.names if name in schema or name in starts or name in texts]


def matching_ids(lookup: Lookup, kind: str) -> Callable[[pa.Array], pa.Array]:
    """Return a function from rows to the ids that match each of them."""

    def ids(rows: pa.Array) -> pa.Array:
        engine, batch = lookup.engine(), pa.RecordBatch.from_struct_array(rows)
        parts = list(lookup.by_namespace(batch))
        if len(parts) == 1:
            return _ids(lookup, engine, batch, parts[0][0], kind)
        places = pa.concat_arrays([chosen for _, chosen in parts])
        lists = [_ids(lookup, engine, batch.take(chosen), namespace, kind) for namespace, chosen in parts]
        return pa.concat_arrays(lists).take(pc.sort_indices(places))

    return ids


def _ids(lookup: Lookup, engine: Engine, batch: pa.RecordBatch, namespace: str, kind: str) -> pa.Array:
    """Return the ids in one namespace that match each row."""
    events = lookup.events(batch, engine)
    matches = engine.match_table(events, namespace=namespace, on_bad="skip")
    flat = matches.ids.to_arrow(matches.rows[matches.order()]).cast(pa.int64() if kind == "long" else pa.string())
    mask = pa.array([row in events.bad for row in range(batch.num_rows)], pa.bool_()) if events.bad else None
    return pa.ListArray.from_arrays(pa.array(matches.offsets, pa.int32()), flat, mask=mask)


def explained(lookup: Lookup) -> Callable[[pa.Array, pa.Array], pa.Array]:
    """Return a function from rows and ids to the reason why a row matches a subscription or does not."""

    def explain(rows: pa.Array, ids: pa.Array) -> pa.Array:
        engine, batch = lookup.engine(), pa.RecordBatch.from_struct_array(rows)
        column = lookup.namespaces(batch)
        namespaces = [lookup.namespace] * len(rows) if column is None else column.to_pylist()
        values = batch.select(_attribute_columns(batch.schema, lookup.event_schema(engine)))
        questions = zip(values.to_pylist(), ids.to_pylist(), namespaces, strict=True)
        reasons = [_reason(engine, row, id, namespace) for row, id, namespace in questions]
        return pa.array(reasons, pa.string())

    return explain


def _reason(engine: Engine, event: dict[str, Any], id: str | int | None, namespace: str) -> str | None:
    if id is None:
        return None
    try:
        return str(engine.explain(event, id, namespace=namespace))
    except UnknownSubscriptionError:
        return None
    except EventError as error:  # an event that is in quarantine
        return str(error)


def table_function(lookup: Lookup, event_id: str, event_id_type: str, kind: str) -> type:
    """Return a class that Spark runs as a table function: batches of events in, deliveries out."""
    id_type = pa.int64() if kind == "long" else pa.string()

    class Deliveries:
        """Matches batches of events."""

        def eval(self, rows: pa.RecordBatch) -> Iterator[pa.Table]:
            """Yield the deliveries of a batch."""
            if not isinstance(rows, pa.RecordBatch):
                raise ModelError("the table function takes a table: SELECT * FROM alerts(TABLE(events))")
            if event_id not in rows.schema.names:
                columns = ", ".join(rows.schema.names)
                raise ModelError(f"the events have no column {event_id!r} (event_id of matcher); they have {columns}")
            engine = lookup.engine()
            for namespace, chosen in lookup.by_namespace(rows):
                part = rows if chosen is None else rows.take(chosen)
                matches = engine.match_table(lookup.events(part, engine), namespace=namespace, on_bad="skip")
                event_rows = pa.array(events_of(matches.offsets, slice(0, len(matches))))
                ids = matches.ids.to_arrow(matches.rows).cast(id_type)
                named = part.column(event_id).take(event_rows)
                named = named.cast(pa.string()) if event_id_type == "string" else named
                yield pa.table({"event_id": named, "subscription_id": ids})

    return Deliveries
