"""What a pipeline reads: Parquet, GeoParquet, JSONL, CSV, tables of Delta, Iceberg and the catalog, as DataFrames.

A record that cannot become a row is kept with its reason, so that ``records = rows + unreadable`` for every
source. Everything here is a plan: Spark reads when it is asked to, and no row comes to the driver.
"""

from __future__ import annotations

import glob
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from tamis.engine.snapshot.object_store import local_path
from tamis.errors import TableError
from tamis.model.schema import Schema
from tamis.spark.running.failures import SPARK_ERRORS, last_words
from tamis.spark.running.file_systems import require_file_system
from tamis.spark.sources.delta_tables import read_delta
from tamis.spark.sources.geo_metadata import geometry_columns
from tamis.spark.sources.iceberg_tables import read_iceberg
from tamis.spark.sources.text_formats import read_csv, read_jsonl
from tamis.spark.sources.variants import unpack_variant

__all__ = ["FORMATS", "Read", "format_of", "read_events", "read_subscriptions"]

#: By the last suffix of a path (before ``.gz``); a directory is told apart by what lies in it.
_SUFFIXES = {".parquet": "parquet", ".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv", ".geoparquet": "geoparquet"}

FORMATS = ("parquet", "geoparquet", "jsonl", "csv", "delta", "iceberg", "table")


@dataclass(frozen=True)
class Read:
    """What came of a source."""

    #: Every record, readable or not: what a count of the input counts.
    records: DataFrame
    #: The records that can be read, as columns.
    rows: DataFrame
    #: The others: ``record`` (its text) and ``reason``; None where a format has no such thing.
    unreadable: DataFrame | None
    #: What the source itself says of its attributes: the geometry columns of GeoParquet.
    declared: Schema


def read_events(
    spark: SparkSession,
    path: str | Path,
    format: str | None = None,
    schema: Schema | None = None,
    *,
    variant: str | None = None,
    beside: Sequence[str] = (),
) -> Read:
    """Read events from files.

    Parameters
    ----------
    path
        A file, a directory of files, or a pattern (``events/*.jsonl``); what holds ``://`` is left to Spark. The name
        of a table of the session's catalog for the format ``table``, ``catalog.namespace.table`` for ``iceberg``.
    format
        One of `FORMATS`; told by the suffix when not given.
    schema
        The attributes. Text formats need it where a column's values do not show its type; a VARIANT always.
    variant
        A column that holds events as VARIANT or as JSON text: its attributes become columns.
    beside
        Names that are taken out of the VARIANT as text, too: the event's id, its payload.
    """
    schema = schema or Schema()
    read = _read(spark, str(path), format, schema, T.StructType())
    if variant is None:
        return read
    return Read(read.records, *unpack_variant(read.rows, variant, schema, beside, read.unreadable), read.declared)


def read_subscriptions(
    spark: SparkSession,
    path: str | Path,
    format: str | None = None,
    *,
    filter: str = "filter",
    metadata: str = "metadata",
) -> Read:
    """Read subscriptions from files; in JSONL a filter may be text or CQL2-JSON, which is kept as its text."""
    strings = T.MapType(T.StringType(), T.StringType())
    forced = T.StructType([T.StructField(filter, T.StringType()), T.StructField(metadata, strings)])
    return _read(spark, str(path), format, Schema(), forced)


def format_of(path: str) -> str:
    """Return the format that a path shows, or raise `TableError`.

    >>> format_of("events/*.jsonl.gz"), format_of("storms.parquet")
    ('jsonl', 'parquet')
    """
    name = PurePosixPath(path.removesuffix(".gz"))
    if name.suffix in _SUFFIXES:
        return _SUFFIXES[name.suffix]
    if (Path(path) / "_delta_log").is_dir():
        return "delta"
    inside = {_SUFFIXES[file.suffix] for file in Path(path).glob("*") if file.suffix in _SUFFIXES}
    if len(inside) == 1:
        return inside.pop()
    raise TableError(f"{path}: the name does not tell the format; say which: {', '.join(FORMATS)}")


def _read(spark: SparkSession, path: str, format: str | None, schema: Schema, forced: T.StructType) -> Read:
    if format in ("table", "iceberg"):
        with _reading(path, format):
            rows = spark.table(path) if format == "table" else read_iceberg(spark, path)
            return Read(rows, rows, None, Schema())
    _require(path)
    chosen = format or format_of(path)
    if chosen not in FORMATS:
        raise TableError(f"{path}: there is no format {chosen!r}; choose from {', '.join(FORMATS)}")
    location = path if "://" in path else str(local_path(path))
    if chosen != "delta":  # it has a client of its own
        require_file_system(spark, location)
    with _reading(path, chosen):
        if chosen == "jsonl":
            return Read(*read_jsonl(spark, location, schema, forced), Schema())
        if chosen == "csv":
            return Read(*read_csv(spark, location, schema, forced), Schema())
        rows = read_delta(spark, location) if chosen == "delta" else spark.read.parquet(location)
        declared = geometry_columns(location) if chosen == "geoparquet" else Schema()
        return Read(rows, rows, None, declared)


def _require(path: str) -> None:
    if "://" not in path and not glob.glob(str(local_path(path))):
        raise TableError(f"{path}: there is no such file")


@contextmanager
def _reading(path: str, format: str) -> Iterator[None]:
    """Turn Spark's complaint about a source into an error of one line that names the source."""
    try:
        yield
    except SPARK_ERRORS as error:
        raise TableError(f"{path}: cannot be read as {format}: {last_words(error)}") from error
