"""Every sink by its name: in `write_rows`, in `match_stream`, and as ``deliveries.format`` of a pipeline."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame

from tamis.errors import ModelError
from tamis.spark.sinks.catalog_tables import CatalogTables
from tamis.spark.sinks.console import Console
from tamis.spark.sinks.delta import DeltaTables
from tamis.spark.sinks.files import CSV, JSONL, PARQUET
from tamis.spark.sinks.iceberg import IcebergTables
from tamis.spark.sinks.kafka import Kafka
from tamis.spark.sinks.protocol import BatchKey, Sink

__all__ = ["SINKS", "sink_of", "write_rows"]

SINKS: dict[str, Sink] = {
    "parquet": PARQUET,
    "jsonl": JSONL,
    "csv": CSV,
    "delta": DeltaTables(),
    "iceberg": IcebergTables(),
    "table": CatalogTables(),
    "kafka": Kafka(),
    "console": Console(),
}


#: Formats that people ask for, and what serves them.
_INSTEAD = {
    "json": "lines of JSON are 'jsonl'",
}


def sink_of(format: str, target: str) -> tuple[Sink, str]:
    """Return a sink by its name, and the target as every process sees it."""
    if format not in SINKS:
        hint = "; " + _INSTEAD[format] if format in _INSTEAD else ""
        raise ModelError(f"there is no sink {format!r}; choose from {', '.join(SINKS)}{hint}")
    return SINKS[format], SINKS[format].resolve(target)


def write_rows(
    rows: DataFrame, format: str, target: str | Path, *, query: str | None = None, batch: int | None = None
) -> None:
    """Write rows to a sink: ``parquet``, ``jsonl``, ``csv``, ``delta``, ``iceberg``, ``table``, ``kafka``, ``console``.

    Without ``query`` and ``batch`` the rows replace what the target holds. With both they are added as that micro-batch
    of that query, once, however often it is written (Kafka: at least once), as in
    ``writeStream.foreachBatch(lambda rows, batch: write_rows(rows, "delta", path, query="alerts", batch=batch))``.
    """
    sink, location = sink_of(format, str(target))
    if query is None and batch is None:
        sink.replace(rows, location)
    elif query is None or batch is None:
        raise ModelError("a micro-batch has a query and a batch; give both or neither")
    else:
        sink.write_batch(rows, location, BatchKey(query, batch))
