"""Inside the workers: which version a micro-batch is matched with, written down by the first worker that asks.

Spark tells every task the id of its streaming query and the number of its micro-batch. The first worker of a batch
creates ``PINS/QUERY/BATCH.json``, only if it is absent, with the newest version and the time; all others, and all tasks
of a batch that runs again, read it. So a batch gives the same rows however often it runs, and every sink of Spark that
tells repeated batches apart gives each row once.
"""

from __future__ import annotations

import re
import time
from functools import lru_cache

import msgspec

from tamis.engine import snapshot
from tamis.engine.snapshot.object_store import is_remote, local_path
from tamis.errors import ModelError, SnapshotError
from tamis.spark.running.small_files import small_files

__all__ = ["PINS", "Pin", "pin", "pinned_batch", "pinned_versions"]

#: The folder of pins beside the versions.
PINS = "pins"
#: Local properties of a task of a streaming query.
_QUERY, _BATCH = "sql.streaming.queryId", "streaming.sql.batchId"

#: Batches that Spark keeps in a checkpoint unless told otherwise (``spark.sql.streaming.minBatchesToRetain``).
_RETAINED = 100
_PIN = re.compile(r"(?P<query>[0-9a-fA-F-]{1,64})/(?P<batch>[0-9]{1,18})[.]json")
_QUERY_ID = re.compile(r"[0-9a-fA-F-]{1,64}")


class Pin(msgspec.Struct, frozen=True):
    """What a micro-batch is matched with; ``now`` decides which subscriptions have ended."""

    version: str
    now: int


def pinned_batch() -> tuple[str, int] | None:
    """Return (query id, batch) of the micro-batch that this task belongs to; None outside a streaming query."""
    from pyspark import TaskContext

    task = TaskContext.get()
    query, batch = (None, None) if task is None else (task.getLocalProperty(_QUERY), task.getLocalProperty(_BATCH))
    if query is None or batch is None:
        return None
    if not _QUERY_ID.fullmatch(query):
        raise ModelError(f"{query!r} is not the id of a streaming query")
    return query, int(batch)


@lru_cache(maxsize=64)
def pin(location: str, pins: str, query: str, batch: int, now: int | None) -> Pin:
    """Return the pin of a batch, made now if there is none.

    ``location`` is where the versions are; ``now`` is the moment of a new pin, the present if None.
    """
    files, name = small_files(pins), f"{query}/{batch}.json"
    data = files.read(name)
    if data is None:
        chosen = Pin(snapshot.name_of(snapshot.newest(location)), time.time_ns() // 1000 if now is None else now)
        data = files.create(name, msgspec.json.encode(chosen))
    pinned = msgspec.json.decode(data, type=Pin)
    if not is_remote(location) and not (local_path(location) / pinned.version).is_dir():
        problem = f"{pinned.version} is gone, and batch {batch} of the query {query} is pinned to it ({pins}/{name})"
        raise SnapshotError(
            location, f"{problem}; if no sink has rows of the batch, delete the pin: the newest is used"
        )
    return pinned


def pinned_versions(pins: str) -> set[str]:
    """Return the versions that queries may need again: those of the last batch that each of them pinned.

    Spark begins a batch when the one before has ended. Pins that not even a checkpoint which is set back can ask for
    are removed.
    """
    files = small_files(pins)
    batches: dict[str, list[int]] = {}
    for match in map(_PIN.fullmatch, files.names()):
        if match is not None:
            batches.setdefault(match["query"], []).append(int(match["batch"]))
    versions = set()
    for query, numbers in batches.items():
        last = max(numbers)
        data = files.read(f"{query}/{last}.json")
        versions |= set() if data is None else {msgspec.json.decode(data, type=Pin).version}
        files.delete(f"{query}/{number}.json" for number in numbers if number < last - _RETAINED)
    return versions
