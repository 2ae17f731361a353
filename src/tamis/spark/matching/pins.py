"""Inside the workers: which version a micro-batch is matched with, written down by the first worker that asks.

Spark tells every task the id of its streaming query and the number of its micro-batch. The first worker of a batch
creates ``PINS/QUERY/BATCH.json``, only if it is absent, with the newest version and the time; all others, and all tasks
of a batch that runs again, read it. So a batch gives the same rows however often it runs, and every sink of Spark that
tells repeated batches apart gives each row once.
"""

from __future__ import annotations

import os
import re
import time
import uuid
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

import msgspec

from tamis.engine import snapshot
from tamis.engine.snapshot.object_store import is_remote, local_path, open_store
from tamis.errors import ModelError

__all__ = ["Pin", "pin", "pinned_batch"]

#: Local properties of a task of a streaming query.
_QUERY, _BATCH = "sql.streaming.queryId", "streaming.sql.batchId"

_QUERY_ID = re.compile(r"[0-9a-fA-F-]{1,64}")
_MOST_BYTES = 4096


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
    name = f"{query}/{batch}.json"
    data = _read(pins, name)
    if data is None:
        chosen = Pin(snapshot.name_of(snapshot.newest(location)), time.time_ns() // 1000)
        _create(pins, name, msgspec.json.encode(chosen))
        data = _read(pins, name)
        assert data is not None
    return msgspec.json.decode(data, type=Pin)


def _read(pins: str, name: str) -> bytes | None:
    if is_remote(pins):
        return open_store(pins).read(name, _MOST_BYTES)
    try:
        with (local_path(pins) / name).open("rb") as file:
            return file.read(_MOST_BYTES)
    except FileNotFoundError:
        return None


def _create(pins: str, name: str, data: bytes) -> None:
    """Create a pin if it is absent, whole or not at all."""
    if is_remote(pins):
        open_store(pins).create(name, data)
        return
    path = local_path(pins) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}-{uuid.uuid4().hex}")
    with aside.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    with suppress(FileExistsError):
        os.link(aside, path)
    Path(aside).unlink()
