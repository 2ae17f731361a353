"""Parquet files in an object store, written and read by executors with ``obstore``: Spark's own jars are not needed."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from tamis.engine.snapshot.manifest import File, measure
from tamis.engine.snapshot.object_store import open_store
from tamis.engine.snapshot.signing import sha256_of
from tamis.errors import TableError
from tamis.spark.columns import arrow_form

__all__ = ["Written", "read_objects", "write_objects"]


class Written(msgspec.Struct, frozen=True):
    """An object that a task wrote: its name below the address, what it must be, and how many rows it has."""

    name: str
    file: File
    rows: int = 0


def write_objects(frame: DataFrame, address: str, ending: str = ".parquet") -> list[Written]:
    """Have the executors write the rows as objects below a URI; return what they wrote."""
    written = frame.mapInArrow(partial(_upload, address=address, ending=ending), "object string")
    # A line per object, from the attempts that succeeded.
    return [msgspec.json.decode(row.object, type=Written) for row in written.collect()]


def read_objects(spark: SparkSession, address: str, written: Sequence[Written], like: DataFrame) -> DataFrame:
    """Return the rows of objects below a URI, a task for each; they have the columns of ``like``."""
    lines = [(msgspec.json.encode(entry).decode(),) for entry in written]
    if not lines:
        return spark.createDataFrame([], like.schema)
    objects = spark.createDataFrame(lines, "object string").repartition(len(lines), "object")
    form = arrow_form(like.schema, like)
    return objects.mapInArrow(partial(_download, address=address, form=form), like.schema)


def _upload(batches: Iterator[pa.RecordBatch], *, address: str, ending: str) -> Iterator[pa.RecordBatch]:
    """Write the rows of a partition as one object; a second attempt has another name."""
    name = f"p{uuid.uuid4().hex}{ending}"
    with tempfile.TemporaryDirectory(prefix="tamis-rows-") as folder:
        path, writer, rows = Path(folder) / name, None, 0
        for batch in batches:
            if batch.num_rows:
                writer = writer or pq.ParquetWriter(path, batch.schema)
                writer.write_batch(batch)
                rows += batch.num_rows
        if writer is None:
            return
        writer.close()
        open_store(address).upload(path, name)
        entry = Written(name, msgspec.structs.replace(measure(path), sha256=sha256_of(path)), rows)
        yield pa.RecordBatch.from_pydict({"object": [msgspec.json.encode(entry).decode()]})


def _download(batches: Iterator[pa.RecordBatch], *, address: str, form: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the objects that the batches name, after checking that they are what was written."""
    for batch in batches:
        for line in batch.column(0).to_pylist():
            written = msgspec.json.decode(line, type=Written)
            if ".." in written.name.split("/"):
                raise TableError(f"{address}: the table names a file outside of it: {written.name}")
            with tempfile.TemporaryDirectory(prefix="tamis-rows-") as folder:
                path = Path(folder) / "rows.parquet"
                open_store(address).download(written.name, path, written.file.bytes)
                digest = written.file.sha256  # another writer's log has sizes alone
                is_whole = path.stat().st_size == written.file.bytes
                if not is_whole or (digest is not None and digest != sha256_of(path)):
                    raise TableError(f"{address}/{written.name}: changed since it was written")
                yield from _rows_of(path, form, f"{address}/{written.name}")


def _rows_of(path: Path, form: pa.Schema, name: str) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file in the table's columns; `TableError` for one that has none of these."""
    with pq.ParquetFile(path) as file:
        if not set(file.schema_arrow.names) & set(form.names):
            raise TableError(f"{name}: no column of the table is in the file, which has other names for them")
        for part in file.iter_batches():
            yield pa.RecordBatch.from_arrays([_column(part, field) for field in form], schema=form)


def _column(part: pa.RecordBatch, field: pa.Field) -> pa.Array:
    """Return a column in its type; null throughout where the file is older than the column."""
    if field.name not in part.schema.names:
        return pa.nulls(part.num_rows, field.type)
    return part.column(field.name).cast(field.type)
