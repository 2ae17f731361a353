"""Iceberg tables without Spark's own jar: executors write Parquet files, the driver commits them with ``pyiceberg``.

The commit of a batch adds its files and sets the property ``tamis.batch.QUERY`` of the table to the number. A batch
whose number the table has is not written again.
"""

from __future__ import annotations

import uuid
import warnings
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from tamis.errors import TableError
from tamis.spark.sinks.protocol import BatchKey
from tamis.spark.sinks.stored_form import stored_form
from tamis.spark.sources.iceberg_tables import IcebergCatalog, catalog_of, explained, file_settings

__all__ = ["IcebergTables"]

#: How often a commit is tried when other writers commit first.
_TRIES = 10


class IcebergTables:
    """The target is ``catalog.namespace.table``; the table is made when it is absent, its namespace must be there."""

    def resolve(self, target: str) -> str:
        """Return the name; say which extra or which setting is missing."""
        catalog_of(target)
        return target

    def replace(self, frame: DataFrame, target: str) -> None:
        """Commit the rows in the place of all that the table holds."""
        self._write(frame, catalog_of(target), None)

    def write_batch(self, frame: DataFrame, target: str, batch: BatchKey) -> None:
        """Commit the rows of a batch, unless the table has it."""
        self._write(frame, catalog_of(target), batch)

    def _write(self, frame: DataFrame, home: IcebergCatalog, batch: BatchKey | None) -> None:
        form = stored_form(frame)
        table = home.find() or _created(home, form)
        if _has_batch(table, batch):
            return
        _check_columns(table, form, home.target)
        location = table.properties.get("write.data.path", f"{table.location().rstrip('/')}/data")
        commit = _Commit(_write_files(frame, location, file_settings(table), form), batch)
        for _ in range(_TRIES):
            if commit.on(table, home.target):
                return
            table = home.find()
            if table is None:
                raise TableError(f"{home.target}: another process removed the table")
            if _has_batch(table, batch):  # by a driver that took this one for dead
                return
        raise TableError(f"{home.target}: other writers committed first, {_TRIES} times; write again")


class _Commit(NamedTuple):
    """Files that become part of a table, with the batch that they are; without a batch they replace what is there."""

    files: list[str]
    batch: BatchKey | None

    def on(self, table: Any, target: str) -> bool:
        """Commit after the state of the table that was loaded; return False if there is a newer one."""
        from pyiceberg.exceptions import CommitFailedException
        from pyiceberg.expressions import AlwaysTrue

        # The retry of pyiceberg looks whether a commit landed that was reported as failed; without one it would delete
        # the files of such a commit. Then it would commit upon a newer state, which may have the batch: `_stop_retry`.
        alone = {**table.properties, "commit.retry.num-retries": "1", "commit.retry.min-wait-ms": "0"}
        table.metadata = table.metadata.model_copy(update={"properties": alone})
        with explained(target), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about a table that holds no rows to replace
            try:
                with table.transaction() as transaction:
                    transaction._rebuild_snapshot_updates = _stop_retry
                    if self.batch is not None:
                        transaction.set_properties({_property(self.batch): str(self.batch.number)})
                    elif table.current_snapshot() is not None:
                        transaction.delete(AlwaysTrue())
                    transaction.add_files(self.files, check_duplicate_files=False)
            except CommitFailedException:
                return False
        return True


def _stop_retry() -> None:
    """Take the place of what pyiceberg calls before it commits once more, when the first commit did not land."""
    from pyiceberg.exceptions import CommitFailedException

    raise CommitFailedException("another writer committed first")


def _property(batch: BatchKey) -> str:
    return f"tamis.batch.{batch.query}"


def _has_batch(table: Any, batch: BatchKey | None) -> bool:
    return batch is not None and int(table.properties.get(_property(batch), -1)) >= batch.number


def _created(home: IcebergCatalog, form: pa.Schema) -> Any:
    """Return a new table, or that of another writer who made it first."""
    from pyiceberg.exceptions import NoSuchNamespaceError, TableAlreadyExistsError

    with explained(home.target):
        try:
            return home.catalog.create_table(home.name, form)
        except TableAlreadyExistsError:
            return home.catalog.load_table(home.name)
        except NoSuchNamespaceError:
            raise TableError(f"{home.target}: there is no namespace {home.namespace!r}; create it first") from None


def _check_columns(table: Any, form: pa.Schema, target: str) -> None:
    """Raise `TableError` unless a table has these columns, no others, and no partitions."""
    from pyiceberg.io.pyarrow import pyarrow_to_schema

    if not table.spec().is_unpartitioned():
        names = ", ".join(field.name for field in table.spec().fields)
        raise TableError(f"{target}: the table is partitioned by {names}; only tables without partitions are written")
    table_columns = list(table.schema().column_names)
    if {name for name in table_columns if "." not in name} != set(form.names):
        columns = ", ".join(name for name in table_columns if "." not in name)
        raise TableError(f"the table {target} has the columns {columns}, not {', '.join(form.names)}")
    with explained(target):
        wanted = pyarrow_to_schema(form, name_mapping=table.schema().name_mapping)
    for field in wanted.fields:
        column = table.schema().find_field(field.name)
        if column.required:
            raise TableError(f"the column {field.name!r} of the table {target} is required; make it optional first")
        kind = column.field_type
        if kind != field.field_type:
            raise TableError(f"the column {field.name!r} of the table {target} is {kind}, not {field.field_type}")


def _write_files(frame: DataFrame, place: str, settings: Mapping[str, str], form: pa.Schema) -> list[str]:
    """Have the executors write the rows as files, which no version of the table names yet; return their addresses."""
    written = frame.mapInArrow(partial(write_files, place=place, settings=dict(settings), form=form), "file string")
    # A line per file, from the attempts that succeeded.
    return [row.file for row in written.collect()]


def write_files(
    batches: Iterator[pa.RecordBatch], *, place: str, settings: dict[str, str], form: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Write the rows of a partition as one file, in the worker; a second attempt has another name."""
    from pyiceberg.io import load_file_io

    name, writer = f"{place}/part-{uuid.uuid4().hex}.parquet", None
    for batch in batches:
        if batch.num_rows:
            if writer is None:
                stream = load_file_io(settings, place).new_output(name).create()
                writer = pq.ParquetWriter(stream, form)
            columns = [column.cast(field.type) for column, field in zip(batch.columns, form, strict=True)]
            writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=form))
    if writer is not None:
        writer.close()
        stream.close()
        yield pa.RecordBatch.from_pydict({"file": [name]})
