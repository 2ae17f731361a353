"""Inside the workers: accepted subscriptions in, a part of a snapshot on disk, its description out."""

from __future__ import annotations

import math
import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tamis.engine import Engine
from tamis.engine.snapshot.manifest import Part
from tamis.engine.snapshot.parts import write_parts
from tamis.errors import SnapshotError
from tamis.model.language.format import format_node
from tamis.model.language.nodes import And, Compare, Constant
from tamis.model.schema import Schema
from tamis.model.tables import SubscriptionTable
from tamis.model.values import INT64_MIN
from tamis.spark.typed import number_names

__all__ = ["BUILT", "Build", "build_batches", "read_built"]

#: What a builder reports of each part it wrote.
BUILT = "part string"

_FORM = pa.schema([("part", pa.string())])


@dataclass(frozen=True)
class Build:
    """What the workers need to know; it travels pickled inside Spark."""

    place: str
    schema: str


def build_batches(batches: Iterator[pa.RecordBatch], *, task: Build) -> Iterator[pa.RecordBatch]:
    """Index all rows of a partition and write them; a second attempt writes files of other names."""
    schema = Schema.from_json(task.schema)
    engine = Engine(schema, clock=lambda: INT64_MIN)  # what has an end is kept: the reader knows the time
    for batch in batches:
        is_box = batch.column("lo").is_valid()
        is_plain = pc.and_(batch.column("expires").is_null(), batch.column("metadata").is_null())
        _add_boxes(engine, batch.filter(pc.and_(is_box, is_plain)), number_names(schema))
        told = batch.filter(pc.and_not(is_box, is_plain))
        for texts in (batch.filter(pc.invert(is_box)), _written_out(told, number_names(schema))):
            if texts.num_rows:
                engine.subscribe_table(SubscriptionTable.from_arrow(texts))
    engine.wait()
    described = [msgspec.json.encode(part).decode() for part in _written(engine, Path(task.place), schema)]
    yield pa.RecordBatch.from_pydict({"part": described}, schema=_FORM)


def read_built(described: str) -> Part:
    """Return what a builder reported."""
    return msgspec.json.decode(described, type=Part)


def _written(engine: Engine, place: Path, schema: Schema) -> list[Part]:
    """Write the parts under names that no other attempt has, and return them."""
    prefix = f"p{uuid.uuid4().hex}"
    try:
        return [
            part
            for number, space in enumerate(engine.namespaces())
            for part in write_parts(place, f"{prefix}-{number}", space, schema)
        ]
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        problem = f"an executor cannot write here: {reason}; the driver and all executors must see it"
        raise SnapshotError(str(place.parent), f"{problem} under the same path and be allowed to write") from error


def _add_boxes(engine: Engine, boxes: pa.RecordBatch, names: list[str]) -> None:
    """Add boxes in bulk; they have nothing but an id."""
    for namespace in pc.unique(boxes.column("namespace")).to_pylist():
        chosen = boxes.filter(pc.equal(boxes.column("namespace"), namespace))
        lo, hi = (_sides(chosen, name, len(names)) for name in ("lo", "hi"))
        engine.subscribe_boxes(names, lo, hi, chosen.column("id").to_pylist(), namespace=namespace)


def _written_out(boxes: pa.RecordBatch, names: list[str]) -> pa.RecordBatch:
    """Return boxes as texts, which can have an end and metadata."""
    sides = zip(boxes.column("lo").to_pylist(), boxes.column("hi").to_pylist(), strict=True)
    texts = pa.array([_text(names, lo, hi) for lo, hi in sides], pa.string())
    return boxes.set_column(boxes.schema.get_field_index("filter"), "filter", texts)


def _text(names: list[str], lo: list[float], hi: list[float]) -> str:
    lower = [Compare(name, ">=", side) for name, side in zip(names, lo, strict=True) if math.isfinite(side)]
    upper = [Compare(name, "<=", side) for name, side in zip(names, hi, strict=True) if math.isfinite(side)]
    nodes = (*lower, *upper)
    return format_node(And(nodes) if len(nodes) > 1 else nodes[0] if nodes else Constant(True))


def _sides(boxes: pa.RecordBatch, name: str, width: int) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    return np.asarray(boxes.column(name).flatten()).reshape(-1, width)
