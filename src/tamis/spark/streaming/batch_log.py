"""The log of a stream: what each micro-batch started with, and what it did."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

import msgspec

__all__ = ["BatchReport", "Begin", "batch_reports", "versions_in_use", "write_once"]


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


def batch_reports(checkpoint: str | Path) -> list[BatchReport]:
    """Return what the finished micro-batches of a stream did, in their order."""
    log = Path(checkpoint) / "tamis"
    reports = [msgspec.json.decode(path.read_bytes(), type=BatchReport) for path in log.glob("*.end.json")]
    return sorted(reports, key=lambda report: report.batch)


def versions_in_use(checkpoint: str | Path) -> set[str]:
    """Return the versions that a stream may need again: those of batches that did not end, and of the last one."""
    log = Path(checkpoint) / "tamis"
    begun = [msgspec.json.decode(path.read_bytes(), type=Begin) for path in log.glob("*.begin.json")]
    ended = {report.batch for report in batch_reports(checkpoint)}
    last = max((batch.batch for batch in begun), default=-1)
    return {batch.version for batch in begun if batch.batch not in ended or batch.batch == last}


def write_once(path: Path, content: bytes) -> None:
    """Write a small file to disk so that it exists as a whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}-{uuid.uuid4().hex}")
    with draft.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, path)
