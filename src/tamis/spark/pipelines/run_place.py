"""Where a run puts its output: a directory that is replaced by a rename, or a place in an object store.

In an object store each run has objects of its own, and the output is the run that ``report.json`` names: it is written
last, so readers see the run before or this one::

    URI/report.json                      ``output`` names the run
    URI/run-0123.../deliveries/*.parquet
                    quarantine/...
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pyspark.sql import DataFrame

from tamis.engine.snapshot.object_store import ObjectStore, is_remote, local_path, open_store
from tamis.errors import TableError
from tamis.spark.pipelines.report import Report
from tamis.spark.pipelines.run_directory import REPORT, building, parse_report, read_report
from tamis.spark.sinks.files import PARQUET
from tamis.spark.sinks.objects import read_objects, write_objects

__all__ = ["RunPlace", "run_place"]

_MOST_REPORT = 1 << 26


class RunPlace(Protocol):
    """The output of a run in the making."""

    @property
    def output(self) -> str:
        """Where the output will be found."""

    @property
    def earlier(self) -> dict[str, object]:
        """The report of the run before, empty when there is none."""

    def written(self, frame: DataFrame, name: str) -> DataFrame:
        """Write a frame as Parquet and return what was written: later questions read files, not plans."""

    def finish(self, report: Report) -> None:
        """Write the report, the last file of the run."""


@contextmanager
def run_place(output: str) -> Iterator[RunPlace]:
    """Give a place to write a run into; it takes the place of the run before when the block ends well."""
    if is_remote(output):
        store = open_store(output)
        yield _ObjectRun(store, f"run-{uuid.uuid4().hex}", _earlier(store))
        return
    path = local_path(output)
    with building(path) as place:
        yield _DirectoryRun(place, str(path), read_report(path))


@dataclass(frozen=True)
class _DirectoryRun:
    place: Path
    output: str
    earlier: dict[str, object]

    def written(self, frame: DataFrame, name: str) -> DataFrame:
        path = str(self.place / name)
        PARQUET.replace(frame, path)
        return frame.sparkSession.read.schema(frame.schema).parquet(path)

    def finish(self, report: Report) -> None:
        (self.place / REPORT).write_bytes(report.to_bytes())


@dataclass(frozen=True)
class _ObjectRun:
    store: ObjectStore
    home: str
    earlier: dict[str, object]

    @property
    def output(self) -> str:
        return f"{self.store.uri}/{self.home}"

    def written(self, frame: DataFrame, name: str) -> DataFrame:
        address = f"{self.output}/{name}"
        return read_objects(frame.sparkSession, address, write_objects(frame, address), frame)

    def finish(self, report: Report) -> None:
        self.store.replace(REPORT, report.to_bytes())
        before = str(self.earlier.get("output", ""))
        if before.startswith(f"{self.store.uri}/run-"):  # its objects only: other things below the URI are left alone
            self.store.delete(
                [entry.name for entry in self.store.list(before.removeprefix(f"{self.store.uri}/") + "/")]
            )


def _earlier(store: ObjectStore) -> dict[str, object]:
    """Return the report of the run before; an object of this name that is none may not be replaced."""
    data = store.read(REPORT, _MOST_REPORT)
    report = {} if data is None else parse_report(data)
    if data is not None and "tamis" not in report:
        raise TableError(f"{store.uri}/{REPORT}: not the report of an earlier run; choose another output")
    return report
