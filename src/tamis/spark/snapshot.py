"""Snapshots by Spark: executors index and write the parts, the driver writes the manifest and nothing else.

The directory must be one that the driver and all executors see under the same path. It is the directory that
`tamis.Engine.save` writes and `tamis.Engine.load` and brokers open.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame

from tamis.engine import snapshot
from tamis.engine.snapshot.manifest import Part
from tamis.errors import TableError
from tamis.index.registry import DEFAULT_MATCHER
from tamis.model.schema import Schema
from tamis.spark.building import BUILT, Build, build_batches, read_built
from tamis.spark.columns import require
from tamis.spark.compile import ACCEPTED

__all__ = ["write_snapshot"]

#: Subscriptions indexed together: large parts match quicker, and one builder holds one part in memory.
PART_SIZE = 1_000_000


def write_snapshot(accepted: DataFrame, directory: str | Path, *, schema: Schema, part_size: int = PART_SIZE) -> Path:
    """Index accepted subscriptions and publish them as a new version of ``directory``; return its path.

    A version appears whole or not at all, and nothing that is there changes. ``part_size`` subscriptions are
    indexed together by one task.
    """
    require(accepted, ACCEPTED, "the table of accepted subscriptions (see compile_subscriptions)")
    if part_size < 1:
        raise TableError(f"part_size is {part_size}; a part holds at least one subscription")
    with snapshot.building(Path(directory).absolute()) as place:
        parts = build_parts(accepted, place, schema, part_size)
        return snapshot.seal(place, snapshot.State(schema, False, DEFAULT_MATCHER, 0), parts)


def build_parts(accepted: DataFrame, place: Path, schema: Schema, part_size: int) -> list[Part]:
    """Have the executors write the parts of accepted subscriptions; return their descriptions."""
    n_parts = max(1, math.ceil(accepted.count() / part_size))
    task = Build(str(place), schema.to_json())
    built = accepted.repartition(n_parts, "namespace", "id").mapInArrow(partial(build_batches, task=task), BUILT)
    # The only thing that ever comes to the driver: a line per part, from the attempts that succeeded.
    parts = [read_built(row.part) for row in built.collect()]
    _discard_other_attempts(place, parts)
    return parts


def _discard_other_attempts(place: Path, parts: Sequence[Part]) -> None:
    """Remove the files of tasks that were killed or repeated."""
    named = {name for part in parts for name in (*part.files, *part.removed)}
    for file in place.iterdir():
        if file.name not in named:
            file.unlink()
