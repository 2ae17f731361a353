"""``write`` and ``writeStream`` of format ``tamis``: every row an event, published once.

A task publishes its rows in numbered chunks under a name of its own: the query and the partition. The broker keeps the
last number of each name, so a micro-batch that runs again after a crash is not published again (promise P2). Spark
runs a batch again with the same rows in the same partitions if its sources give the same rows for the same offsets; a
partition of more than `CHUNK` rows must also come in the same order, which it does unless a shuffle is in between.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from tamis.errors import InvariantError
from tamis.runtime.client.http_calls import HttpCalls
from tamis.spark.broker.rows import event_of

__all__ = ["BrokerStreamWriter", "BrokerWriter"]

#: Rows and bytes of one request: below what a broker takes at once.
CHUNK, CHUNK_BYTES = 5_000, 4 * 1024 * 1024

#: Chunks of one partition of one batch that have a number.
_CHUNKS = 2**20

#: Under which names Spark tells a task whose it is.
_QUERY, _BATCH = "sql.streaming.queryId", "streaming.sql.batchId"


@dataclass(frozen=True)
class TaskCommit(WriterCommitMessage):
    """What one task did: its rows, and how many of them had been published before."""

    rows: int
    again: int


class BrokerWriter(DataSourceArrowWriter):
    """Publishes a table; a task that runs again publishes nothing twice."""

    def __init__(self, calls: HttpCalls) -> None:
        self._calls = calls
        self._job = uuid.uuid4().hex  # made in the driver: the same in all tasks

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskCommit:
        """Publish the rows of one task; called in a worker."""
        return _publish(self._calls, iterator, f"spark-{self._job}-{_context().partitionId()}", 0)


class BrokerStreamWriter(DataSourceStreamArrowWriter):
    """Publishes micro-batches, each once per query, batch and partition."""

    def __init__(self, calls: HttpCalls) -> None:
        self._calls = calls

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskCommit:
        """Publish the rows of one task; called in a worker."""
        context = _context()
        query, batch = context.getLocalProperty(_QUERY), context.getLocalProperty(_BATCH)
        if query is None or batch is None:
            raise InvariantError("Spark does not say which query and batch a task belongs to")
        return _publish(self._calls, iterator, f"spark-{query}-{context.partitionId()}", int(batch) * _CHUNKS)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Do nothing: all is published."""

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Do nothing: the batch will run again, and what was published counts."""


def _publish(calls: HttpCalls, batches: Iterator[pa.RecordBatch], producer: str, first: int) -> TaskCommit:
    rows = repeated = 0
    for number, (count, body) in enumerate(_chunks(batches), first):
        is_new = calls.publish_once(body, producer=producer, number=number)
        rows, repeated = rows + count, repeated + (0 if is_new else count)
    return TaskCommit(rows, repeated)


def _chunks(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, bytes]]:
    """Yield rows as NDJSON in chunks; where a chunk ends depends on the rows alone."""
    lines: list[bytes] = []
    size = 0
    for batch in batches:
        for row in batch.to_pylist():
            line = msgspec.json.encode(event_of(row))
            if lines and (len(lines) == CHUNK or size + len(line) > CHUNK_BYTES):
                yield len(lines), b"\n".join(lines)
                lines, size = [], 0
            lines.append(line)
            size += len(line) + 1
    if lines:
        yield len(lines), b"\n".join(lines)


def _context() -> TaskContext:
    context = TaskContext.get()
    if context is None:
        raise InvariantError("a writer of format tamis runs in a task of Spark")
    return context
