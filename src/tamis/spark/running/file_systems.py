"""Which URIs Spark itself can read and write: those for which it has a file system of Hadoop."""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from tamis.errors import TableError

__all__ = ["require_file_system"]


def require_file_system(spark: SparkSession | None, location: str) -> None:
    """Raise `TableError` if Spark has no file system for a URI; a path always has one.

    A session of Spark Connect cannot be asked: its server answers when the location is used.
    """
    scheme, separator, _ = location.partition("://")
    java_session = getattr(spark, "_jsparkSession", None)
    if not separator or spark is None or java_session is None:
        return
    java: Any = spark.sparkContext._jvm
    files = java.org.apache.hadoop.fs.FileSystem
    try:
        files.getFileSystemClass(scheme, java_session.sessionState().newHadoopConf())
    except Py4JError:
        hint = "use a path, or add the store's jar to spark.jars.packages (for S3 hadoop-aws, which serves s3a://)"
        raise TableError(f"{location}: Spark has no file system for {scheme}://; {hint}") from None
