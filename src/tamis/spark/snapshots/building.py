"""Inside the workers: accepted subscriptions in, a part of a snapshot on disk, its description out."""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tamis.engine import Engine
from tamis.engine.snapshot.manifest import Part, digested
from tamis.engine.snapshot.object_store import is_remote
from tamis.engine.snapshot.parts import write_parts
from tamis.engine.snapshot.places import Place
from tamis.model.language.format import format_node
from tamis.model.language.nodes import And, Compare, Constant
from tamis.model.schema import Schema
from tamis.model.tables import SubscriptionTable
from tamis.model.values import INT64_MIN
from tamis.spark.functions.worker_task import WorkerTask
from tamis.spark.subscriptions.typed import number_names

__all__ = ["BUILT", "Build", "Built", "build_batches", "build_engine", "read_built"]

#: What a builder reports of each part it wrote.
BUILT = "part string"

_FORM = pa.schema([("part", pa.string())])


@dataclass(frozen=True)
class Build(WorkerTask):
    """What the workers need to know; it travels pickled inside Spark."""

    #: A directory, or the URI of a place in an object store.
    place: str
    schema: str


def build_batches(batches: Iterator[pa.RecordBatch], *, task: Build) -> Iterator[pa.RecordBatch]:
    """Index all rows of a partition and write them; a second attempt writes files of other names."""
    schema = Schema.from_json(task.schema)
    parts = build_engine(batches, schema).write(task.place)
    yield pa.RecordBatch.from_pydict({"part": [msgspec.json.encode(part).decode() for part in parts]}, schema=_FORM)


@dataclass(frozen=True)
class Built:
    """An index that can be written as parts of a snapshot."""

    engine: Engine

    def write(self, place: str) -> list[Part]:
        """Write a part per namespace under names that no other attempt has."""
        self.engine.wait()
        prefix = f"p{uuid.uuid4().hex}"
        with Place.folder(place) as folder:
            parts = [
                part
                for number, space in enumerate(self.engine.namespaces())
                for part in write_parts(folder, f"{prefix}-{number}", space, self.engine.schema)
            ]
            return [digested(part, folder) for part in parts] if is_remote(place) else parts


def build_engine(batches: Iterable[pa.RecordBatch], schema: Schema) -> Built:
    """Index batches of accepted subscriptions."""
    engine = Engine(schema, clock=lambda: INT64_MIN)  # what has an end is kept: the reader knows the time
    for batch in batches:
        batch = _with_texts(batch, number_names(schema))
        is_box = batch.column("lo").is_valid()
        _add_boxes(engine, batch.filter(is_box), number_names(schema))
        texts = batch.filter(pc.invert(is_box))
        if texts.num_rows:
            engine.subscribe_table(SubscriptionTable.from_arrow(texts))
    return Built(engine)


def read_built(described: str) -> Part:
    """Return what a builder reported."""
    return msgspec.json.decode(described, type=Part)


def _add_boxes(engine: Engine, boxes: pa.RecordBatch, names: list[str]) -> None:
    """Add boxes in bulk."""
    for namespace in pc.unique(boxes.column("namespace")).to_pylist():
        chosen = boxes.filter(pc.equal(boxes.column("namespace"), namespace))
        lo, hi = (_sides(chosen, name, len(names)) for name in ("lo", "hi"))
        engine.subscribe_boxes(names, lo, hi, chosen.column("id").to_pylist(), namespace=namespace)


def _sides(boxes: pa.RecordBatch, name: str, width: int) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    return np.asarray(boxes.column(name).flatten()).reshape(-1, width)


def _with_texts(batch: pa.RecordBatch, names: list[str]) -> pa.RecordBatch:
    """Return the rows with each box that has an end or metadata as a text, which can have both."""
    told = pc.or_(batch.column("expires").is_valid(), batch.column("metadata").is_valid())
    chosen = pc.and_(told, batch.column("lo").is_valid()).to_pylist()
    if not any(chosen):
        return batch
    texts, lo, hi = (batch.column(name).to_pylist() for name in ("filter", "lo", "hi"))
    for row, is_chosen in enumerate(chosen):
        if is_chosen:
            texts[row], lo[row], hi[row] = _text(names, lo[row], hi[row]), None, None
    changed = {"filter": texts, "lo": lo, "hi": hi}
    columns = [
        pa.array(changed[field.name], field.type) if field.name in changed else batch.column(field.name)
        for field in batch.schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _text(names: list[str], lo: list[float], hi: list[float]) -> str:
    """Write a box over the named attributes as CQL2."""
    lower = [Compare(name, ">=", side) for name, side in zip(names, lo, strict=True) if math.isfinite(side)]
    upper = [Compare(name, "<=", side) for name, side in zip(names, hi, strict=True) if math.isfinite(side)]
    nodes = (*lower, *upper)
    return format_node(And(nodes) if len(nodes) > 1 else nodes[0] if nodes else Constant(True))
