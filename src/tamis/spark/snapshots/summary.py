"""The routing summary beside a snapshot: what links have to carry of its subscriptions, and how that came about.

``summary.json`` of a version names the files, which executors wrote as Parquet, and tells the counts of the
reduction. A version without it has no summary: who needs one carries every subscription.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from tamis.engine import snapshot
from tamis.engine.snapshot import Place
from tamis.engine.snapshot.manifest import read_manifest
from tamis.engine.snapshot.object_store import is_remote, open_store
from tamis.errors import SnapshotError
from tamis.spark.reduction.reduce import Reduced, ReductionCounts
from tamis.spark.sinks.objects import Written, read_objects, write_objects
from tamis.spark.subscriptions.compile import accepted_form

__all__ = ["SUMMARY", "copy_summary", "read_reduction", "read_summary", "write_summary"]

#: The file of a version that describes its summary.
SUMMARY = "summary.json"


class _Summary(msgspec.Struct, frozen=True):
    counts: ReductionCounts
    files: list[str]


def write_summary(reduced: Reduced, place: Place) -> list[str]:
    """Have the executors write a summary into a version in the making; return the names of its files."""
    if place.is_remote:
        objects = write_objects(reduced.summary, place.address, ".summary.parquet")
        files = [written.name for written in objects]
        for written in objects:  # the driver measures and lists the files of a version
            open_store(place.address).download(written.name, place.staging / written.name, written.file.bytes)
    else:
        rows = reduced.summary.mapInArrow(partial(_write, place=place.address), "file string")
        files = [row.file for row in rows.collect()]  # a name per task, from the attempts that succeeded
    (place.staging / SUMMARY).write_bytes(msgspec.json.encode(_Summary(reduced.counts, files)))
    return [SUMMARY, *files]


def copy_summary(version: Path, place: Path) -> list[str]:
    """Copy the summary of a version, if it has one, into another in the making; return the names of its files."""
    summary = _read(version)
    names = [] if summary is None else [SUMMARY, *summary.files]
    for name in names:
        shutil.copyfile(version / name, place / name)
    return names


def read_reduction(version: Path) -> ReductionCounts | None:
    """Return the counts of the reduction that a version carries; None when it has no summary."""
    summary = _read(version)
    return None if summary is None else summary.counts


def read_summary(spark: SparkSession, directory: str | Path) -> DataFrame:
    """Return the routing summary of a snapshot, as `write_snapshot` takes subscriptions."""
    location = snapshot.version_at(directory)
    version = snapshot.opened(location, parts=False)
    summary = _read(version)
    if summary is None:
        raise SnapshotError(
            str(version),
            "has no routing summary: it was written without one, or by an update, which leaves it out; "
            "reduce the subscriptions and give write_snapshot the summary",
        )
    form = accepted_form("string")
    if not summary.files:
        return spark.createDataFrame([], form)
    if is_remote(location):
        manifest, root = read_manifest(version), str(location).rpartition("/")[0]
        objects = [Written(name, manifest.beside[name]) for name in summary.files]
        return read_objects(spark, f"{root}/{manifest.home}", objects, spark.createDataFrame([], form))
    return spark.read.schema(form).parquet(*(str(version / name) for name in summary.files))


def _read(version: Path) -> _Summary | None:
    if SUMMARY not in read_manifest(version).beside:
        return None
    return msgspec.json.decode((version / SUMMARY).read_bytes(), type=_Summary)


def _write(batches: Iterator[pa.RecordBatch], *, place: str) -> Iterator[pa.RecordBatch]:
    """Write the rows of a partition as one file; a second attempt has another name."""
    name, writer = f"s{uuid.uuid4().hex}.summary.parquet", None
    for batch in batches:
        if batch.num_rows:
            writer = writer or pq.ParquetWriter(Path(place) / name, batch.schema)
            writer.write_batch(batch)
    if writer is not None:
        writer.close()
        yield pa.RecordBatch.from_pydict({"file": [name]})
