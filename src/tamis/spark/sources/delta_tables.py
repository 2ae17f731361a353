"""Delta tables through the ``deltalake`` package: the log tells which files are the table, Spark reads those.

What the log has removed is not read. The version is the newest at the time of the call.
"""

from __future__ import annotations

import json

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from tamis.errors import MissingExtraError, TableError

__all__ = ["read_delta"]

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
        table = DeltaTable(path)
        described, files = table.schema().to_json(), table.file_uris()
        features = set(table.protocol().reader_features or ())
    except DeltaError as error:
        raise TableError(f"{path}: cannot be read as delta: {str(error).splitlines()[0]}") from None
    unknown = sorted(features & _BEYOND_PARQUET)
    if unknown:
        raise TableError(f"{path}: the table uses {', '.join(unknown)}; rewrite it without first (REORG TABLE, PURGE)")
    form = T.StructType.fromJson(json.loads(described))
    if not files:
        return spark.createDataFrame([], form)
    # The partition values stand in the paths below the root; the types are the log's.
    return spark.read.schema(form).option("basePath", path).parquet(*files)
