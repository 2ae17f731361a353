"""Tables of the session's catalog, partitioned by (query, batch): a batch replaces its own partition."""

from __future__ import annotations

import re
import uuid

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tamis.errors import ModelError, TableError
from tamis.spark.columns import quoted
from tamis.spark.sinks.protocol import BatchKey

__all__ = ["CatalogTables"]

_PARTITION = ["query", "batch"]
_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*){0,2}")


class CatalogTables:
    """The target is the name of a table, which is made when it is absent."""

    def resolve(self, target: str) -> str:
        """Return the name; refuse what cannot be one."""
        if not _NAME.fullmatch(target):
            raise ModelError(f"{target!r} is not the name of a table")
        return target

    def replace(self, frame: DataFrame, target: str) -> None:
        """Create the table again."""
        frame.write.mode("overwrite").saveAsTable(target)

    def write_batch(self, frame: DataFrame, target: str, batch: BatchKey) -> None:
        """Replace the batch's partition of the table."""
        spark = frame.sparkSession
        keyed = frame.withColumn("query", F.lit(batch.query)).withColumn("batch", F.lit(batch.number).cast("long"))
        if not spark.catalog.tableExists(target):
            keyed.limit(0).write.mode("ignore").partitionBy(*_PARTITION).saveAsTable(target)
        table_columns = spark.table(target).columns
        if table_columns[-2:] != _PARTITION or set(table_columns) != set(keyed.columns):
            raise TableError(
                f"the table {target} has the columns {', '.join(table_columns)}, not {', '.join(keyed.columns)}"
            )
        view = f"tamis_{uuid.uuid4().hex}"
        keyed.createTempView(view)
        try:
            # A partition that is named is replaced even by no rows; Spark's dynamic mode would leave it.
            partition = f"PARTITION (query = '{batch.query}', batch = {batch.number})"
            columns = ", ".join(quoted(name) for name in table_columns[:-2])
            spark.sql(f"INSERT OVERWRITE TABLE {target} {partition} SELECT {columns} FROM {view}")
        finally:
            spark.catalog.dropTempView(view)
