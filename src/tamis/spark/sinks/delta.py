"""Delta tables without Spark's Delta jar: executors write Parquet files, the driver commits them with ``deltalake``.

The commit of a batch carries the query as application and the number as its version, as Spark's own Delta sink does.
A batch whose number the table has is not written again.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from tamis.errors import MissingExtraError, ModelError, TableError
from tamis.spark.columns import arrow_form
from tamis.spark.sinks.protocol import BatchKey

__all__ = ["DeltaTables"]


class _Written(msgspec.Struct, frozen=True):
    name: str
    bytes: int
    rows: int


class DeltaTables:
    """The target is the directory of a table, which the driver and all executors see under one path."""

    def resolve(self, target: str) -> str:
        """Return the directory; refuse what is none, and say which extra is missing."""
        _deltalake()
        if not target or ("://" in target and not target.startswith("file://")):
            raise ModelError(f"{target!r}: a Delta table is written to a directory; elsewhere use Spark's own Delta")
        return str(Path(target.removeprefix("file://")).absolute())

    def replace(self, frame: DataFrame, target: str) -> None:
        """Commit the rows in the place of all that the table holds."""
        self._commit(frame, target, "overwrite", None)

    def write_batch(self, frame: DataFrame, target: str, batch: BatchKey) -> None:
        """Commit the rows of a batch, unless the table has it."""
        table = _table(target)
        known = None if table is None else table.transaction_version(batch.query)
        if known is None or known < batch.number:
            self._commit(frame, target, "append", batch)

    def _commit(self, frame: DataFrame, target: str, mode: str, batch: BatchKey | None) -> None:
        deltalake = _deltalake()
        place, form = Path(target), arrow_form(frame.schema, frame)
        place.mkdir(parents=True, exist_ok=True)
        written = frame.mapInArrow(partial(write_parquet, place=str(place)), "file string")
        # A line per file, from the attempts that succeeded.
        files = [msgspec.json.decode(row.file, type=_Written) for row in written.collect()]
        now = int(time.time() * 1000)
        adds = [
            deltalake.transaction.AddAction(one.name, one.bytes, {}, now, True, f'{{"numRecords":{one.rows}}}')
            for one in files
        ]
        keys = [] if batch is None else [deltalake.Transaction(batch.query, batch.number)]
        properties = deltalake.CommitProperties(app_transactions=keys)
        try:
            schema = deltalake.Schema.from_arrow(form)
            table = _table(target)
            if table is None:
                deltalake.transaction.create_table_with_add_actions(
                    str(place), schema, adds, mode="error", commit_properties=properties
                )
            else:
                table.create_write_transaction(adds, mode, schema, commit_properties=properties)
        except deltalake.exceptions.DeltaError as error:
            raise TableError(f"{target}: cannot be written as delta: {str(error).splitlines()[0]}") from error


def write_parquet(batches: Iterator[pa.RecordBatch], *, place: str) -> Iterator[pa.RecordBatch]:
    """Write the rows of a partition as one file, in the worker; a second attempt has another name."""
    name, writer, rows = f"part-{uuid.uuid4().hex}.parquet", None, 0
    for batch in batches:
        if batch.num_rows:
            writer = writer or pq.ParquetWriter(Path(place) / name, batch.schema)
            writer.write_batch(batch)
            rows += batch.num_rows
    if writer is not None:
        writer.close()
        told = _Written(name, (Path(place) / name).stat().st_size, rows)
        yield pa.RecordBatch.from_pydict({"file": [msgspec.json.encode(told).decode()]})


def _table(target: str) -> Any:
    """Return the table, None when there is none yet."""
    deltalake = _deltalake()
    return deltalake.DeltaTable(target) if deltalake.DeltaTable.is_deltatable(target) else None


def _deltalake() -> Any:
    try:
        import deltalake
        import deltalake.exceptions
        import deltalake.transaction
    except ImportError:
        raise MissingExtraError("a Delta table", "delta") from None
    return deltalake
