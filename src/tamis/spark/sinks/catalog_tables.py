"""Tables of the session's catalog, partitioned by (query, batch): a batch replaces its own partition."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tamis.errors import ModelError, TableError
from tamis.spark.sinks.protocol import BatchKey

__all__ = ["CatalogTables"]

_PARTITION = ["query", "batch"]


class CatalogTables:
    """The target is the name of a table, which is made when it is absent."""

    def resolve(self, target: str) -> str:
        """Return the name; refuse what cannot be one."""
        if not target or "/" in target:
            raise ModelError(f"{target!r} is not the name of a table")
        return target

    def replace(self, frame: DataFrame, target: str) -> None:
        """Make the table anew."""
        frame.write.mode("overwrite").saveAsTable(target)

    def write_batch(self, frame: DataFrame, target: str, batch: BatchKey) -> None:
        """Replace the batch's partition of the table."""
        spark = frame.sparkSession
        keyed = frame.withColumn("query", F.lit(batch.query)).withColumn("batch", F.lit(batch.number).cast("long"))
        if not spark.catalog.tableExists(target):
            keyed.limit(0).write.mode("ignore").partitionBy(*_PARTITION).saveAsTable(target)
        known = spark.table(target).columns
        if known[-2:] != _PARTITION or set(known) != set(keyed.columns):
            raise TableError(f"the table {target} has the columns {', '.join(known)}, not {', '.join(keyed.columns)}")
        writer = keyed.select(*known).write.mode("overwrite").option("partitionOverwriteMode", "dynamic")
        writer.insertInto(target)
