"""The log of a stream: what each micro-batch started with, and what it did."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import msgspec

from tamis.spark.running.small_files import SmallFiles, absolute_location, small_files

__all__ = ["BatchReport", "Begin", "batch_reports", "log_of", "logged", "versions_in_use"]

Entry = TypeVar("Entry", bound=msgspec.Struct)


class Begin(msgspec.Struct, frozen=True):
    """The version and the time that a micro-batch uses; written before it runs."""

    batch: int
    version: str
    now: int


class BatchReport(msgspec.Struct, frozen=True):
    """What a micro-batch did."""

    batch: int
    version: str
    events: int
    deliveries: int
    rejected: int
    seconds: float
    #: When it ended, seconds since 1970.
    ended: float
    #: Seconds that the oldest event of the batch had waited when the batch ended: since the time in the stream's
    #: ``event_time`` or, if none is named, since the batch was first begun.
    lag: float

    @property
    def rate(self) -> float:
        """Events per second."""
        return self.events / self.seconds if self.seconds else 0.0


def log_of(checkpoint: str | Path) -> SmallFiles:
    """Return the files that a stream keeps beside Spark's own in a checkpoint."""
    return small_files(f"{absolute_location(checkpoint)}/tamis")


def logged(checkpoint: str | Path, ending: str, type: type[Entry]) -> list[Entry]:
    """Return what the files with this ending contain."""
    log = log_of(checkpoint)
    contents = (log.read(name) for name in log.names() if name.endswith(ending) and "/" not in name)
    return [msgspec.json.decode(content, type=type) for content in contents if content is not None]


def batch_reports(checkpoint: str | Path) -> list[BatchReport]:
    """Return what the finished micro-batches of a stream did, in their order."""
    return sorted(logged(checkpoint, ".end.json", BatchReport), key=lambda report: report.batch)


def versions_in_use(checkpoint: str | Path) -> set[str]:
    """Return the versions that a stream may need again: those of batches that did not end, and of the last one."""
    begun = logged(checkpoint, ".begin.json", Begin)
    ended = {report.batch for report in batch_reports(checkpoint)}
    last = max((batch.batch for batch in begun), default=-1)
    return {batch.version for batch in begun if batch.batch not in ended or batch.batch == last}
