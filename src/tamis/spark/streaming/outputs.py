"""Where `match_stream` puts the rows of its micro-batches, each batch whole or not at all.

In a directory a batch is written aside and renamed. In an object store it is there once ``_batch.json`` was created,
which names its objects; of two drivers only the first creates it::

    DIRECTORY/batch=0/outcome=delivered/*.parquet     event_id, subscription_id, payload
                      outcome=rejected/*.parquet      event_id, reason
                      _batch.json                     stream, columns, report
                      _SUCCESS
    URI/batch=0/p*.parquet                            event_id, subscription_id, payload, reason, batch
                _batch.json                           stream, columns, report, objects
"""

from __future__ import annotations

import contextlib
import os
import shutil
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tamis.engine.snapshot.object_store import ObjectStore, is_remote, local_path, open_store
from tamis.errors import ModelError, TableError
from tamis.spark.sinks.objects import Written, read_objects, write_objects
from tamis.spark.streaming.batch_log import BatchReport

__all__ = ["BatchFile", "Describe", "StreamOutput", "output_at"]

_BATCH_FILE = "_batch.json"
_MOST_BYTES = 1 << 26
_DELIVERED, _REJECTED = "delivered", "rejected"


class BatchFile(msgspec.Struct, frozen=True):
    """What a batch of the output belongs to, and its columns, for a batch without a row has no file."""

    stream: str
    columns: str
    #: Goes into the log when the rows are in place; it is here as well, so that no kill comes between the two.
    report: BatchReport
    #: The objects with the rows, relative to the output; empty in a directory.
    objects: list[Written] = []


#: Describes a batch whose rows are written.
Describe = Callable[[], BatchFile]


class StreamOutput(Protocol):
    """The output of a stream."""

    def find(self, batch: int) -> BatchFile | None:
        """Return what is known of a finished batch; None if it is not finished."""

    def write(self, rows: DataFrame, batch: int, describe: Describe) -> None:
        """Put the rows of a batch in place, unless another driver did that meanwhile: its rows are the same."""

    def clean(self, batch: int) -> None:
        """Remove what drivers that were killed left of a finished batch."""

    def read(self, spark: SparkSession, *, rejected: bool) -> DataFrame:
        """Return the deliveries or the rejected events of all finished batches, with ``reason`` and ``batch``."""


def output_at(location: str) -> StreamOutput:
    """Return the output at a directory or URI."""
    return _ObjectOutput(open_store(location)) if is_remote(location) else _DirectoryOutput(local_path(location))


@dataclass(frozen=True)
class _DirectoryOutput:
    directory: Path

    def find(self, batch: int) -> BatchFile | None:
        target = self._target(batch)
        if not (target / "_SUCCESS").exists():
            return None
        return msgspec.json.decode((target / _BATCH_FILE).read_bytes(), type=BatchFile)

    def write(self, rows: DataFrame, batch: int, describe: Describe) -> None:
        target = self._target(batch)
        aside = target.with_name(f".{target.name}-{uuid.uuid4().hex}")
        outcome = F.when(F.col("reason").isNotNull(), _REJECTED).otherwise(_DELIVERED).alias("outcome")
        try:
            rows.select("*", outcome).write.partitionBy("outcome").parquet(str(aside))
            (aside / _BATCH_FILE).write_bytes(msgspec.json.encode(describe()))
            with contextlib.suppress(FileExistsError, OSError):  # another driver was quicker
                os.rename(aside, target)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
        if not (target / "_SUCCESS").exists():
            raise ModelError(f"{target} could not be put in place; is it a directory of something else?")

    def clean(self, batch: int) -> None:
        for left in self.directory.glob(f".{self._target(batch).name}-*"):
            shutil.rmtree(left, ignore_errors=True)

    def read(self, spark: SparkSession, *, rejected: bool) -> DataFrame:
        if not self.directory.is_dir():
            raise TableError(f"there is no directory {self.directory}")
        finished = sorted(path.parent for path in self.directory.glob("batch=*/_SUCCESS"))
        if not finished:
            raise _nothing_finished(str(self.directory))
        last = msgspec.json.decode((finished[-1] / _BATCH_FILE).read_bytes(), type=BatchFile)
        outcome, columns = _REJECTED if rejected else _DELIVERED, _columns_of(last)
        parts = [str(part) for batch in finished for part in [batch / f"outcome={outcome}"] if part.is_dir()]
        if not parts:
            return spark.createDataFrame([], columns)
        form = T.StructType([*columns, T.StructField("outcome", T.StringType())])
        return spark.read.option("basePath", str(self.directory)).schema(form).parquet(*parts).drop("outcome")

    def _target(self, batch: int) -> Path:
        return self.directory / f"batch={batch}"


@dataclass(frozen=True)
class _ObjectOutput:
    store: ObjectStore

    def find(self, batch: int) -> BatchFile | None:
        data = self.store.read(f"batch={batch}/{_BATCH_FILE}", _MOST_BYTES)
        return None if data is None else msgspec.json.decode(data, type=BatchFile)

    def write(self, rows: DataFrame, batch: int, describe: Describe) -> None:
        home = f"batch={batch}"
        numbered = rows.withColumn("batch", F.lit(batch))
        written = write_objects(numbered, f"{self.store.uri}/{home}")
        objects = [msgspec.structs.replace(entry, name=f"{home}/{entry.name}") for entry in written]
        batch_file = msgspec.structs.replace(describe(), objects=objects)
        self.store.create(f"{home}/{_BATCH_FILE}", msgspec.json.encode(batch_file))

    def clean(self, batch: int) -> None:
        batch_file = self.find(batch)
        if batch_file is not None:
            named = {f"batch={batch}/{_BATCH_FILE}", *(entry.name for entry in batch_file.objects)}
            listed = self.store.list(f"batch={batch}/")
            self.store.delete([entry.name for entry in listed if entry.name not in named])

    def read(self, spark: SparkSession, *, rejected: bool) -> DataFrame:
        names = (entry.name for entry in self.store.list() if entry.name.endswith(f"/{_BATCH_FILE}"))
        numbers = sorted(int(name.partition("/")[0].removeprefix("batch=")) for name in names)
        finished = [batch_file for number in numbers if (batch_file := self.find(number)) is not None]
        if not finished:
            raise _nothing_finished(self.store.uri)
        objects = [entry for batch_file in finished for entry in batch_file.objects]
        empty = spark.createDataFrame([], _columns_of(finished[-1]))
        rows = read_objects(spark, self.store.uri, objects, empty)
        return rows.where(F.col("reason").isNotNull() if rejected else F.col("reason").isNull())


def _columns_of(batch_file: BatchFile) -> T.StructType:
    """Return the columns of the rows, with the number of their batch."""
    return T.StructType.fromJson(msgspec.json.decode(batch_file.columns)).add("batch", T.IntegerType())


def _nothing_finished(location: str) -> TableError:
    return TableError(f"there is no finished batch in {location} yet")
