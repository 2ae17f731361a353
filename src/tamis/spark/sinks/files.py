"""Files that Spark writes: Parquet, JSONL, CSV.

A batch has a directory of its own, which it replaces::

    TARGET/query=alerts/batch=7/part-*.parquet

The two names become columns when Spark reads the target. Any place that Spark can write will do.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession

from tamis.engine.snapshot.object_store import local_path
from tamis.errors import ModelError
from tamis.spark.running.file_systems import require_file_system
from tamis.spark.sinks.protocol import BatchKey

__all__ = ["CSV", "JSONL", "PARQUET", "SparkFiles"]


@dataclass(frozen=True)
class SparkFiles:
    """A format of files; ``format`` and ``options`` are Spark's."""

    format: str
    options: dict[str, str] = field(default_factory=dict)

    def resolve(self, target: str) -> str:
        """Return a URI as it is and a path made absolute."""
        if not target:
            raise ModelError("the path of a sink is not empty")
        if "://" not in target:
            return str(local_path(target))
        require_file_system(SparkSession.getActiveSession(), target)
        return target

    def replace(self, frame: DataFrame, target: str) -> None:
        """Write the rows as the only files of a directory."""
        frame.write.format(self.format).options(**self.options).mode("overwrite").save(target)

    def write_batch(self, frame: DataFrame, target: str, batch: BatchKey) -> None:
        """Write the rows as the only files of the batch's directory."""
        self.replace(frame, f"{target.rstrip('/')}/query={batch.query}/batch={batch.number}")


PARQUET = SparkFiles("parquet")
JSONL = SparkFiles("json", {"ignoreNullFields": "false"})
CSV = SparkFiles("csv", {"header": "true"})
