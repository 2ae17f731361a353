"""Delta tables through the ``deltalake`` package: the log tells which files are the table, Spark reads those.

What the log has removed is not read: neither files nor, of a table in a directory, the rows that deletion vectors name.
The version is the newest at the time of the call. Files in an object store are read by the executors with ``obstore``,
so that Spark needs no jar of the store; those of a partitioned table by Spark.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tamis.engine.snapshot.manifest import File
from tamis.engine.snapshot.object_store import is_in_cloud
from tamis.errors import MissingExtraError, TableError
from tamis.model.arrow_types import repeated
from tamis.spark.running.failures import SPARK_ERRORS
from tamis.spark.sinks.objects import Written, read_objects

__all__ = ["read_delta", "store_options"]

#: What Spark's plain Parquet reader says of a row: the name of its file, and its number in the file.
_FILE, _ROW = "__tamis_file", "__tamis_row"


def read_delta(spark: SparkSession, path: str) -> DataFrame:
    """Return the table as its log has it now; `TableError` if its files name the columns otherwise (column mapping)."""
    try:
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError
    except ImportError:
        raise MissingExtraError("a Delta table", "delta") from None
    try:
        table = DeltaTable(path, storage_options=store_options(path))
        described, actions = table.schema().to_json(), pa.table(table.get_add_actions())
        features, metadata = set(table.protocol().reader_features or ()), table.metadata()
    except DeltaError as error:
        raise TableError(f"{path}: cannot be read as delta: {str(error).splitlines()[0]}") from None
    if metadata.configuration.get("delta.columnMapping.mode", "none") != "none":
        hint = "write it to a table without, for example CREATE TABLE ... AS SELECT * FROM the table"
        raise TableError(f"{path}: the table uses column mapping, which is not read; {hint}")
    form = T.StructType.fromJson(json.loads(described))
    names = _names_of(path, actions)
    if not names:
        return spark.createDataFrame([], form)
    # The feature alone says little: where it is the default, most tables have no such rows.
    deleted = _deleted_rows(path, table) if "deletionVectors" in features else None
    is_cut = deleted is not None and deleted.num_rows > 0
    if not is_in_cloud(path):
        rows = _from_files(spark, path, names, form)
        return _without(rows, deleted, names) if is_cut else rows
    if is_cut:
        hint = "REORG TABLE ... APPLY (PURGE) rewrites them"
        raise TableError(f"{path}: files in a store have deletion vectors, which are read in directories only; {hint}")
    if not metadata.partition_columns:
        return _from_store(spark, path, names, actions, form)
    return _partitioned(spark, path, names, form)


def _names_of(path: str, actions: pa.Table) -> list[str]:
    """Return the paths of the files below the table, as they are on disk; `TableError` for a file outside of it."""
    names = [unquote(name) for name in actions["path"].to_pylist()]
    foreign = [name for name in names if "://" in name or name.startswith("/") or ".." in name.split("/")]
    if foreign:
        raise TableError(f"{path}: the table names a file outside of it: {foreign[0]}")
    return names


def _from_files(spark: SparkSession, path: str, names: list[str], form: T.StructType) -> DataFrame:
    """Return the rows of files; values of partitions are in the paths below the root, and the types are the log's."""
    root = path.rstrip("/") if "://" in path else str(Path(path).absolute())
    return spark.read.schema(form).option("basePath", root).parquet(*(f"{root}/{name}" for name in names))


def _partitioned(spark: SparkSession, path: str, names: list[str], form: T.StructType) -> DataFrame:
    """Return the rows of a partitioned table in a store, which only Spark can read."""
    try:
        return _from_files(spark, path, names, form)
    except SPARK_ERRORS as error:
        hint = "add the store's jar to the session (spark.jars.packages)"
        raise TableError(f"{path}: only Spark reads a partitioned table in a store, and it cannot; {hint}") from error


def _deleted_rows(path: str, table: Any) -> pa.Table:
    """Return (file, row) for every row that a deletion vector names: the file's name, and the row's number in it."""
    if not hasattr(table, "deletion_vectors"):
        raise TableError(f"{path}: the table may have deletion vectors; pip install 'deltalake>=1.6' reads them")
    vectors = pa.table(table.deletion_vectors())
    names, rows = list[pa.Array](), list[pa.Array]()
    for file, keeps in zip(vectors["filepath"].to_pylist(), vectors["selection_vector"], strict=True):
        rows.append(pc.indices_nonzero(pc.invert(keeps.values)).cast(pa.int64()))
        names.append(pa.repeat(_base_name(unquote(file)), len(rows[-1])))
    form = pa.schema({_FILE: pa.string(), _ROW: pa.int64()})
    return pa.table([pa.chunked_array(names, pa.string()), pa.chunked_array(rows, pa.int64())], schema=form)


def _without(rows: DataFrame, deleted: pa.Table, names: list[str]) -> DataFrame:
    """Return the rows of files that are not among the deleted ones."""
    twice = repeated(map(_base_name, names))
    if twice is not None:
        raise TableError(f"two files of the table are called {twice}, and one of them has deletion vectors")
    file, row = F.col("_metadata.file_name").alias(_FILE), F.col("_metadata.row_index").alias(_ROW)
    placed = rows.select("*", file, row)
    return placed.join(rows.sparkSession.createDataFrame(deleted), [_FILE, _ROW], "left_anti").drop(_FILE, _ROW)


def _base_name(file: str) -> str:
    return file.rsplit("/", 1)[-1]


def store_options(path: str) -> dict[str, str] | None:
    """Return what ``deltalake`` must be told besides the environment: whether the endpoint may be plain HTTP."""
    is_plain = "://" in path and os.environ.get("AWS_ENDPOINT_URL", "").startswith("http://")
    return {"allow_http": "true"} if is_plain else None


def _from_store(spark: SparkSession, path: str, names: list[str], actions: pa.Table, form: T.StructType) -> DataFrame:
    """Return the rows of a table in an object store, a task for each file."""
    sizes = actions["size_bytes"].to_pylist()
    files = [Written(name, File(size, 0)) for name, size in zip(names, sizes, strict=True)]
    return read_objects(spark, path.rstrip("/"), files, spark.createDataFrame([], form))
