"""Delta tables through the ``deltalake`` package: the log tells which files are the table, Spark reads those.

What the log has removed is not read. The version is the newest at the time of the call. Files in an object store are
read by the executors with ``obstore``, so that Spark needs no jar of the store; those of a partitioned table by Spark.
"""

from __future__ import annotations

import json
import os
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from tamis.engine.snapshot.manifest import File
from tamis.engine.snapshot.object_store import is_in_cloud
from tamis.errors import MissingExtraError, TableError
from tamis.spark.running.failures import SPARK_ERRORS
from tamis.spark.sinks.objects import Written, read_objects

__all__ = ["read_delta", "store_options"]

#: What a reader must know to read a table right, and Spark's plain Parquet reader does not.
_BEYOND_PARQUET = {"deletionVectors", "columnMapping"}


def read_delta(spark: SparkSession, path: str) -> DataFrame:
    """Return the table as its log has it now; `TableError` where rows are deleted inside files."""
    try:
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError
    except ImportError:
        raise MissingExtraError("a Delta table", "delta") from None
    try:
        table = DeltaTable(path, storage_options=store_options(path))
        described, files = table.schema().to_json(), table.file_uris()
        features, metadata = set(table.protocol().reader_features or ()), table.metadata()
    except DeltaError as error:
        raise TableError(f"{path}: cannot be read as delta: {str(error).splitlines()[0]}") from None
    # A table of an older protocol names no features; that its files have other names for the columns is a setting.
    if metadata.configuration.get("delta.columnMapping.mode", "none") != "none":
        features.add("columnMapping")
    unknown = sorted(features & _BEYOND_PARQUET)
    if unknown:
        raise TableError(f"{path}: the table uses {', '.join(unknown)}; rewrite it without first (REORG TABLE, PURGE)")
    form = T.StructType.fromJson(json.loads(described))
    if not files:
        return spark.createDataFrame([], form)
    if is_in_cloud(path) and not metadata.partition_columns:
        return _from_store(spark, path, table, form)
    # The partition values stand in the paths below the root; the types are the log's.
    reader = spark.read.schema(form).option("basePath", path)
    if not is_in_cloud(path):
        return reader.parquet(*files)
    try:
        return reader.parquet(*files)
    except SPARK_ERRORS as error:
        hint = "add the store's jar to the session (spark.jars.packages)"
        raise TableError(f"{path}: only Spark reads a partitioned table in a store, and it cannot; {hint}") from error


def store_options(path: str) -> dict[str, str] | None:
    """Return what ``deltalake`` must be told besides the environment: whether the endpoint may be plain HTTP."""
    is_plain = "://" in path and os.environ.get("AWS_ENDPOINT_URL", "").startswith("http://")
    return {"allow_http": "true"} if is_plain else None


def _from_store(spark: SparkSession, path: str, table: Any, form: T.StructType) -> DataFrame:
    """Return the rows of a table in an object store, a task for each file."""
    actions = pa.table(table.get_add_actions())
    names = [unquote(name) for name in actions["path"].to_pylist()]
    foreign = [name for name in names if "://" in name or name.startswith("/") or ".." in name.split("/")]
    if foreign:
        raise TableError(f"{path}: the table names a file outside of it: {foreign[0]}")
    sizes = actions["size_bytes"].to_pylist()
    files = [Written(name, File(size, 0)) for name, size in zip(names, sizes, strict=True)]
    return read_objects(spark, path.rstrip("/"), files, spark.createDataFrame([], form))
