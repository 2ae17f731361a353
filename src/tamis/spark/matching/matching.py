"""Inside the workers: batches of events in, deliveries out.

One function serves batch, stream and Connect; a worker keeps the snapshots it opened, mapped, so that all
workers of a host share the pages.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tamis.engine import Engine
from tamis.engine.snapshot import mapped, newest
from tamis.errors import EventError, ModelError
from tamis.model.schema import Schema
from tamis.model.tables import EventTable
from tamis.spark.functions.worker_task import WorkerTask
from tamis.spark.matching.pins import pin, pinned_batch

__all__ = [
    "EVENT",
    "NAMESPACE",
    "PAYLOAD",
    "MatchTask",
    "MatchingPace",
    "attributes",
    "by_namespace",
    "check_batches",
    "delivered",
    "engine_of",
    "events_of",
    "match_batches",
    "metadata_of",
    "opened",
    "rejected",
]

#: Names of the columns that travel beside the attributes.
EVENT, NAMESPACE, PAYLOAD = "__tamis_event", "__tamis_namespace", "__tamis_payload_"

#: Matches that are worked out at once: what one event too many may cost in memory is four bytes each.
_AT_ONCE = 8_000_000
#: Deliveries in one batch that goes back to Spark.
_OUT_ROWS = 200_000


@dataclass(frozen=True)
class MatchTask(WorkerTask):
    """What the workers need to know; it travels pickled inside Spark."""

    version: str
    schema: str
    #: The attributes whose values the batches carry, in this order after what is beside them.
    names: tuple[str, ...]
    #: The moment that decides which subscriptions have ended; None when none of the snapshot ever does, and with
    #: ``pins`` for the moment at which a micro-batch is pinned.
    now: int | None
    namespace: str
    output: pa.Schema
    #: Whether rejected events are put out as well, with their reason.
    rejects: bool = False
    #: Where micro-batches write which version they use; then ``version`` is the location of all versions.
    pins: str | None = None
    #: Every column of the events: a version that asks for one that is not among ``names`` is refused.
    columns: tuple[str, ...] = ()
    #: Whether a delivery carries the metadata of its subscription, behind the payload.
    metadata: bool = False


@lru_cache(maxsize=4)
def opened(version: str, now: int | None) -> Engine:
    """Return the engine of a snapshot version as it stands at ``now``."""
    return Engine.load(mapped(version), clock=lambda: now or 0)


def engine_of(task: MatchTask) -> Engine:
    """Return the engine that a task matches with: of its version, or of the one its micro-batch is pinned to."""
    if task.pins is None:
        return opened(task.version, task.now)
    batch = pinned_batch()
    if batch is None:  # the same plan outside a stream: nothing runs again
        return opened(str(newest(task.version)), time.time_ns() // 1000 if task.now is None else task.now)
    chosen = pin(task.version, task.pins, *batch, task.now)
    engine = opened(f"{task.version}/{chosen.version}", chosen.now)
    unread = [name for name in engine.schema if name in task.columns and name not in task.names]
    if unread:
        raise ModelError(
            f"{chosen.version} has subscriptions about {unread[0]!r}, a column that this query did not read when it "
            "was started: start the query again"
        )
    return engine


def match_batches(batches: Iterator[pa.RecordBatch], *, task: MatchTask) -> Iterator[pa.RecordBatch]:
    """Match batches of events; a bad event matches nothing, and is reported if the task says so."""
    engine = engine_of(task)
    schema, pace = Schema.from_json(task.schema), MatchingPace()
    for batch in batches:
        for part in pace.steps(batch):
            column = part.column(NAMESPACE) if NAMESPACE in part.schema.names else None
            for namespace, chosen_rows in by_namespace(column, task.namespace):
                rows = part if chosen_rows is None else part.take(chosen_rows)
                events = EventTable.of(attributes(rows, task.names), schema)
                if task.rejects and events.bad:
                    yield rejected(rows, events.bad, task.output)
                matches = engine.match_table(events, namespace=namespace, on_bad="skip")
                pace.n_matches += len(matches)
                for first in range(0, len(matches), _OUT_ROWS):
                    chosen = slice(first, first + _OUT_ROWS)
                    matched_rows = matches.rows[chosen]
                    metadata = [metadata_of(engine, namespace, matched_rows)] if task.metadata else []
                    ids = matches.ids.to_arrow(matched_rows)
                    yield delivered(rows, events_of(matches.offsets, chosen), ids, task.output, metadata)


class MatchingPace:
    """How many events are matched at once, so that an event with very many matches does not fill the memory.

    The caller adds the number of matches of each step to ``found``.
    """

    def __init__(self) -> None:
        self.n_matches = 0
        #: Matches per event seen so far; unknown at first, so begin with care.
        self._per_event = float(_AT_ONCE)

    def steps(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield a batch in parts, each as long as what the one before had allows."""
        start = 0
        while start < batch.num_rows:
            part = batch.slice(start, max(1, min(batch.num_rows, int(_AT_ONCE / max(self._per_event, 1)))))
            start += part.num_rows
            self.n_matches = 0
            yield part
            self._per_event = max(self.n_matches / part.num_rows, self._per_event / 16)


def check_batches(batches: Iterator[pa.RecordBatch], *, task: MatchTask) -> Iterator[pa.RecordBatch]:
    """Put out the events that do not fit the schema, each with its reason."""
    schema = Schema.from_json(task.schema)
    for batch in batches:
        events = EventTable.of(attributes(batch, task.names), schema)
        if events.bad:
            yield rejected(batch, events.bad, task.output)


def attributes(batch: pa.RecordBatch, names: tuple[str, ...]) -> pa.RecordBatch:
    """Return the columns of the attributes under their names."""
    return pa.RecordBatch.from_arrays(batch.columns[-len(names) :], names=list(names))


def by_namespace(column: pa.Array | None, default: str) -> Iterator[tuple[str, pa.Array | None]]:
    """Yield each namespace of a column and its rows, None for all of them; without a column all have the default."""
    if column is None or not len(column):
        yield default, None
        return
    column = column.cast(pa.string()).fill_null(default)
    distinct = sorted(pc.unique(column).to_pylist())
    for namespace in distinct:
        yield namespace, None if len(distinct) == 1 else pc.indices_nonzero(pc.equal(column, namespace))


def events_of(offsets: npt.NDArray[np.int64], chosen: slice) -> npt.NDArray[np.int64]:
    """Return the event of each of the chosen matches."""
    bounds: npt.NDArray[np.int64] = np.clip(offsets, chosen.start, chosen.stop)
    return np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))


def metadata_of(engine: Engine, namespace: str, rows: npt.NDArray[np.int32]) -> pa.Array:
    """Return the metadata of the subscriptions in these rows of a namespace; empty for one that has none."""
    [space] = [space for space in engine.namespaces() if space.name == namespace]
    distinct, inverse = np.unique(rows, return_inverse=True)
    distinct_metadata: list[list[tuple[str, str]]] = []
    for row in distinct.tolist():
        record = space.find_record(row)
        subscription = space.find_written(row) if record is None else None
        pairs = record[3] if record is not None else {} if subscription is None else subscription.metadata
        distinct_metadata.append(list(pairs.items()))
    return pa.array(distinct_metadata, pa.map_(pa.string(), pa.string())).take(pa.array(inverse))


def delivered(
    events: pa.RecordBatch,
    event_rows: npt.NDArray[np.int64],
    ids: pa.Array,
    form: pa.Schema,
    beside_payload: Sequence[pa.Array] = (),
) -> pa.RecordBatch:
    """Return the deliveries of the events at these places to subscriptions of these ids."""
    beside = [name for name in events.schema.names if name == EVENT or name.startswith(PAYLOAD)]
    event_columns = events.select(beside).take(pa.array(event_rows)).columns
    columns = [event_columns[0], ids, *event_columns[1:], *beside_payload]
    columns += [pa.nulls(len(ids), field.type) for field in form][len(columns) :]
    return _fitted(columns, form)


def rejected(events: pa.RecordBatch, errors: Mapping[int, EventError], form: pa.Schema) -> pa.RecordBatch:
    """Return the bad rows: everything a delivery has but the subscription, and the reason in the last column."""
    beside = [name for name in events.schema.names if name == EVENT or name.startswith(PAYLOAD)]
    event_columns = events.select(beside).take(pa.array(list(errors), pa.int64())).columns  # typed: there may be none
    reasons = pa.array([_reason(error) for error in errors.values()], pa.string())
    nulls = pa.nulls(len(errors), form.field(1).type)
    columns = [event_columns[0], nulls, *event_columns[1:]]
    columns += [pa.nulls(len(errors), field.type) for field in form][len(columns) : -1]
    return _fitted([*columns, reasons], form)


def _reason(error: EventError) -> str:
    """Say what is wrong; the row inside an Arrow batch would mean nothing to the reader."""
    value = error.value.item() if isinstance(error.value, np.generic) else error.value
    return str(EventError(error.attribute, value, error.problem))


def _fitted(columns: list[pa.Array], form: pa.Schema) -> pa.RecordBatch:
    arrays = [
        array if array.type == field.type else array.cast(field.type)
        for array, field in zip(columns, form, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=form)
