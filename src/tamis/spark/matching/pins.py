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
from tamis.errors import ModelError
from tamis.spark.running.small_files import small_files

__all__ = ["Pin", "pin", "pinned_batch"]

#: Local properties of a task of a streaming query.
_QUERY, _BATCH = "sql.streaming.queryId", "streaming.sql.batchId"

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
def pin(location: str, pins: str, query: str, batch: int) -> Pin:
    """Return the pin of a batch, made now if there is none; ``location`` is where the versions are."""
    files, name = small_files(pins), f"{query}/{batch}.json"
    data = files.read(name)
    if data is None:
        chosen = Pin(snapshot.name_of(snapshot.newest(location)), time.time_ns() // 1000)
        data = files.create(name, msgspec.json.encode(chosen))
    return msgspec.json.decode(data, type=Pin)
