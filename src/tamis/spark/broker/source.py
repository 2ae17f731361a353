"""``spark.read`` and ``spark.readStream`` of format ``tamis``: a broker's durable log as a table or as a stream.

The log of a durable subscription numbers what it got without holes, and keeps it: its cursors are Spark's offsets, the
same offsets give the same rows (promise P1), and with Spark's checkpoint every message is processed exactly once,
whichever side is killed. What Spark has committed is acknowledged to the broker, which keeps it for its retention.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import types as T
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from tamis.errors import ModelError
from tamis.node.cursor import Cursor
from tamis.runtime.client.http_calls import HttpCalls
from tamis.spark.broker.options import calls_of, whole_number
from tamis.spark.broker.rows import batch_of, check_columns

__all__ = ["BrokerReader", "BrokerStreamReader", "LogOptions"]

#: Default number of messages of one partition, and of one page.
EVENTS_PER_PARTITION, PAGE = 10_000, 1_000

_STARTS = ("unread", "earliest", "latest")

Offset = dict[str, Any]


@dataclass(frozen=True)
class MessageRange(InputPartition):
    """The messages of one task: behind ``after``, up to ``upto``."""

    epoch: int
    after: int
    upto: int


@dataclass(frozen=True)
class LogOptions:
    """A subscription's log, as the options of a reader name it."""

    calls: HttpCalls
    subscription: str
    filter: str
    start: str
    per_partition: int
    per_trigger: int | None
    fail_on_data_loss: bool

    @classmethod
    def of(cls, options: Mapping[str, str]) -> LogOptions:
        """Read the options; `ModelError` names the one that is wrong."""
        subscription, start = options.get("subscription", ""), options.get("startingOffsets", "unread")
        if not subscription:
            raise ModelError("option subscription: the id of a durable subscription is needed")
        if start not in _STARTS:
            raise ModelError(f"option startingOffsets: expected {', '.join(_STARTS)}, got {start!r}")
        limit = options.get("maxEventsPerTrigger")
        return cls(
            calls_of(options),
            subscription,
            options.get("filter", ""),
            start,
            whole_number(options, "eventsPerPartition", EVENTS_PER_PARTITION),
            None if limit is None else whole_number(options, "maxEventsPerTrigger", 1),
            options.get("failOnDataLoss", "true").lower() != "false",
        )

    def open(self) -> None:
        """Make the subscription if a filter says what it asks and it is not there."""
        if self.filter:
            self.calls.subscribe(self.subscription, self.filter)

    def places(self) -> dict[str, Offset]:
        """Return where the log stands: first, acknowledged, last."""
        page = self.calls.read_log(self.subscription, limit=0)
        return {name: _offset(getattr(page, name)) for name in ("first", "acknowledged", "last")}

    def spans(self, start: Offset, end: Offset) -> list[MessageRange]:
        """Return the parts of a range; a start in another life of the broker than its end is an error."""
        if start["epoch"] != end["epoch"]:
            raise ModelError(
                f"subscription {self.subscription!r}: the broker lost its disk since this stream was checkpointed; "
                "start a new checkpoint"
            )
        if end["number"] < start["number"]:
            raise ModelError(
                f"subscription {self.subscription!r}: its log ends at {end['number']}, before the checkpoint "
                f"({start['number']}): it was withdrawn and created again; start a new checkpoint"
            )
        edges = [*range(start["number"], end["number"], self.per_partition), end["number"]]
        return [MessageRange(end["epoch"], *pair) for pair in itertools.pairwise(edges)]

    def read(self, span: MessageRange, columns: T.StructType) -> Iterator[pa.RecordBatch]:
        """Yield the messages of a span as batches, all of them or an error."""
        number, upto = span.after, Cursor(span.epoch, span.upto)
        while number < span.upto:
            page = self.calls.read_log(
                self.subscription, after=str(Cursor(span.epoch, number)), upto=str(upto), limit=PAGE
            )
            if not page.messages:
                raise ModelError(f"subscription {self.subscription!r}: the log ends before {upto}")
            yield batch_of([message for message in page.messages if self._is_event(message)], columns)
            number = _offset(page.next)["number"]

    def _is_event(self, message: Mapping[str, Any]) -> bool:
        if "gap" not in message:
            return True
        if self.fail_on_data_loss:
            gap = message["gap"]
            raise ModelError(
                f"subscription {self.subscription!r} was read too slowly: {gap['count']} events from {gap['first']} on "
                "were not kept; failOnDataLoss=false goes on without them"
            )
        return False


class BrokerReader(DataSourceReader):
    """Reads everything that a log holds now; it acknowledges nothing."""

    def __init__(self, log: LogOptions, columns: T.StructType) -> None:
        check_columns(columns)
        self._log = log
        self._columns = columns

    def partitions(self) -> Sequence[InputPartition]:
        """Divide what is there; called once, in the driver."""
        self._log.open()
        places = self._log.places()
        return self._log.spans(places["acknowledged" if self._log.start == "unread" else "first"], places["last"])

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one part; called in a worker for each."""
        assert isinstance(partition, MessageRange)
        return self._log.read(partition, self._columns)


class BrokerStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows a log; all methods but ``read`` are called in one process beside the driver."""

    def __init__(self, log: LogOptions, columns: T.StructType) -> None:
        check_columns(columns)
        self._log = log
        self._columns = columns
        #: With ``availableNow``: where the log ended when the query began.
        self._target: Offset | None = None

    def initialOffset(self) -> Offset:
        """Return where a new query begins; one with a checkpoint goes on from there instead."""
        self._log.open()
        names = {"unread": "acknowledged", "earliest": "first", "latest": "last"}
        return self._log.places()[names[self._log.start]]

    def prepareForTriggerAvailableNow(self) -> None:
        """Take note of where the log ends."""
        self._log.open()
        self._target = self._log.places()["last"]

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return how much a micro-batch takes, by the option ``maxEventsPerTrigger``."""
        most = self._log.per_trigger
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        """Return where the next micro-batch ends."""
        end = self._target or self._log.places()["last"]
        if isinstance(limit, ReadMaxRows) and start["epoch"] == end["epoch"]:
            return {"epoch": end["epoch"], "number": min(end["number"], start["number"] + limit.max_rows)}
        return end

    def reportLatestOffset(self) -> Offset | None:
        """Return where the log ends, for the query's status."""
        return self._log.places()["last"]

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Divide a micro-batch into tasks."""
        return self._log.spans(start, end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one part; called in a worker for each."""
        assert isinstance(partition, MessageRange)
        return self._log.read(partition, self._columns)

    def commit(self, end: Offset) -> None:
        """Acknowledge what Spark has in its checkpoint."""
        self._log.calls.acknowledge(self._log.subscription, str(Cursor(end["epoch"], end["number"])))


def _offset(cursor: str) -> Offset:
    parsed = Cursor.parse(cursor)
    return {"epoch": parsed.epoch, "number": parsed.number}
