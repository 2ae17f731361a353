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
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from tamis.engine.snapshot.object_store import CLOUD_STORES, is_in_cloud, local_path, open_store
from tamis.errors import MissingExtraError, ModelError, TableError
from tamis.spark.sinks.objects import write_objects
from tamis.spark.sinks.protocol import BatchKey
from tamis.spark.sinks.stored_form import stored_form
from tamis.spark.sources.delta_tables import store_options

__all__ = ["DeltaTables"]


class _Written(msgspec.Struct, frozen=True):
    name: str
    bytes: int
    rows: int


class DeltaTables:
    """The target is the URI of a table, or its directory, which the driver and all executors see under one path."""

    def resolve(self, target: str) -> str:
        """Return the directory or URI; say which extra is missing."""
        _deltalake()
        if not target:
            raise ModelError("the path of a sink is not empty")
        if is_in_cloud(target):
            return open_store(target).uri
        if "://" in target and not target.startswith(("file:///", "file://localhost/")):
            hint = f"a Delta table is written to a directory, {CLOUD_STORES}; elsewhere use Spark's own Delta"
            raise ModelError(f"{target!r}: {hint}")
        return str(local_path(target))

    def replace(self, frame: DataFrame, target: str) -> None:
        """Commit the rows in the place of all that the table holds."""
        commit = _Commit(target, stored_form(frame), _write_files(frame, target), "overwrite", None)
        commit.on(_table(target))

    def write_batch(self, frame: DataFrame, target: str, batch: BatchKey) -> None:
        """Commit the rows of a batch, unless the table has it.

        The commit is made on the table that was asked, so that it is refused if another driver, which took this one for
        dead, has committed the batch meanwhile.
        """
        table = _table(target)
        if _has_batch(table, batch):
            return
        form = stored_form(frame)
        _check_columns(table, form, target)
        commit = _Commit(target, form, _write_files(frame, target), "append", batch)
        try:
            commit.on(table)
        except TableError:
            newest = _table(target)
            if not _has_batch(newest, batch):
                _check_columns(newest, form, target)
                commit.on(newest)


class _Commit(NamedTuple):
    """Files that become part of a table, with the batch that they are."""

    target: str
    form: pa.Schema
    files: list[_Written]
    mode: str
    batch: BatchKey | None

    def on(self, table: Any) -> None:
        """Commit after the state of the table that was loaded, None for one that is made; `TableError` if refused."""
        deltalake, now = _deltalake(), int(time.time() * 1000)
        adds = [
            deltalake.transaction.AddAction(file.name, file.bytes, {}, now, True, f'{{"numRecords":{file.rows}}}')
            for file in self.files
        ]
        keys = [] if self.batch is None else [deltalake.Transaction(self.batch.query, self.batch.number)]
        properties = deltalake.CommitProperties(app_transactions=keys)
        try:
            schema = deltalake.Schema.from_arrow(self.form)
            if table is None:
                options = {"storage_options": store_options(self.target), "commit_properties": properties}
                deltalake.transaction.create_table_with_add_actions(self.target, schema, adds, mode="error", **options)
            else:
                table.create_write_transaction(adds, self.mode, schema, commit_properties=properties)
        except deltalake.exceptions.DeltaError as error:
            raise TableError(f"{self.target}: cannot be written as delta: {str(error).splitlines()[0]}") from error


def _check_columns(table: Any, form: pa.Schema, target: str) -> None:
    """Raise `TableError` unless a table has these columns and no others: the log takes files of any columns."""
    if table is None:
        return
    columns = {field.name: field for field in table.schema().fields}
    types = {field.name: field.type for field in _deltalake().Schema.from_arrow(form).fields}
    if columns.keys() != types.keys():
        raise TableError(f"the table {target} has the columns {', '.join(columns)}, not {', '.join(types)}")
    for name, kind in types.items():
        if not columns[name].nullable:
            raise TableError(f"the column {name!r} of the table {target} is required; make it optional first")
        if kind != columns[name].type:
            raise TableError(f"the column {name!r} of the table {target} is {columns[name].type}, not {kind}")


def _has_batch(table: Any, batch: BatchKey) -> bool:
    last_batch = None if table is None else table.transaction_version(batch.query)
    return last_batch is not None and last_batch >= batch.number


def _write_files(frame: DataFrame, target: str) -> list[_Written]:
    """Have the executors write the rows as files of the table, which its log does not name yet."""
    if is_in_cloud(target):
        return [_Written(file.name, file.file.bytes, file.rows) for file in write_objects(frame, target)]
    Path(target).mkdir(parents=True, exist_ok=True)
    written = frame.mapInArrow(partial(write_parquet, place=target), "file string")
    # A line per file, from the attempts that succeeded.
    return [msgspec.json.decode(row.file, type=_Written) for row in written.collect()]


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
        written = _Written(name, (Path(place) / name).stat().st_size, rows)
        yield pa.RecordBatch.from_pydict({"file": [msgspec.json.encode(written).decode()]})


def _table(target: str) -> Any:
    """Return the table, None when there is none yet."""
    deltalake = _deltalake()
    options = store_options(target)
    if not deltalake.DeltaTable.is_deltatable(target, options):
        return None
    return deltalake.DeltaTable(target, storage_options=options)


def _deltalake() -> Any:
    try:
        import deltalake
        import deltalake.exceptions
        import deltalake.transaction
    except ImportError:
        raise MissingExtraError("a Delta table", "delta") from None
    return deltalake
