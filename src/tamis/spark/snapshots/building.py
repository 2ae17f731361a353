"""Inside the workers: accepted subscriptions in, a part of a snapshot on disk, its description out."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tamis.algebra.compiling_texts import TextReader
from tamis.engine import Engine
from tamis.engine.namespace import Namespace
from tamis.engine.snapshot.manifest import Part, digested
from tamis.engine.snapshot.object_store import is_remote
from tamis.engine.snapshot.parts import write_parts
from tamis.engine.snapshot.places import Place
from tamis.model.language.arithmetic.writing import name_text
from tamis.model.tables import SubscriptionTable
from tamis.model.values import INT64_MIN
from tamis.spark.functions.worker_task import WorkerTask
from tamis.spark.subscriptions.rule_texts import reader_of
from tamis.spark.subscriptions.typed import joined_conditions, number_names

__all__ = ["BUILT", "Build", "Built", "build_batches", "build_engine", "read_built"]

#: What a builder reports of each part it wrote.
BUILT = "part string"

#: Writes more files of a part into a folder; returns the part with them.
AddFiles = Callable[[Path, Part, Namespace], Part]

_FORM = pa.schema([("part", pa.string())])


@dataclass(frozen=True)
class Build(WorkerTask):
    """What the workers need to know; it travels pickled inside Spark."""

    #: A directory, or the URI of a place in an object store.
    place: str
    schema: str


def build_batches(batches: Iterator[pa.RecordBatch], *, task: Build) -> Iterator[pa.RecordBatch]:
    """Index all rows of a partition and write them; a second attempt writes files of other names."""
    parts = build_engine(batches, reader_of(task.schema)).write(task.place)
    yield pa.RecordBatch.from_pydict({"part": [msgspec.json.encode(part).decode() for part in parts]}, schema=_FORM)


@dataclass(frozen=True)
class Built:
    """An index that can be written as parts of a snapshot."""

    engine: Engine

    def write(self, place: str, add_files: AddFiles = lambda folder, part, space: part) -> list[Part]:
        """Write a part per namespace under names that no other attempt has; ``add_files`` adds files of its own."""
        self.engine.wait()
        prefix = f"p{uuid.uuid4().hex}"
        with Place.folder(place) as folder:
            parts = [
                add_files(folder, part, space)
                for number, space in enumerate(self.engine.namespaces())
                for part in write_parts(folder, f"{prefix}-{number}", space, self.engine.schema)
            ]
            return [digested(part, folder) for part in parts] if is_remote(place) else parts


def build_engine(batches: Iterable[pa.RecordBatch], reader: TextReader) -> Built:
    """Index batches of accepted subscriptions."""
    schema = reader.schema
    engine = Engine(schema, clock=lambda: INT64_MIN)  # what has an end is kept: the reader knows the time
    for batch in batches:
        batch = _with_texts(batch, number_names(schema))
        is_box = batch.column("lo").is_valid()
        _add_boxes(engine, batch.filter(is_box), number_names(schema))
        texts = batch.filter(pc.invert(is_box))
        if texts.num_rows:
            engine.subscribe_table(SubscriptionTable.from_arrow(texts), reader=reader)
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
    has_details = pc.or_(batch.column("expires").is_valid(), batch.column("metadata").is_valid())
    chosen = pc.and_(has_details, batch.column("lo").is_valid())
    rows = np.flatnonzero(np.asarray(chosen))
    if not len(rows):
        return batch
    index_of_row = np.zeros(batch.num_rows, np.int64)
    index_of_row[rows] = np.arange(len(rows))
    texts = _box_texts(batch.take(pa.array(rows)), names).take(pa.array(index_of_row))
    columns = {name: batch.column(name) for name in batch.schema.names}
    columns["filter"] = pc.if_else(chosen, texts, columns["filter"])
    for side in ("lo", "hi"):
        columns[side] = pc.if_else(chosen, pa.scalar(None, columns[side].type), columns[side])
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=batch.schema)


def _box_texts(boxes: pa.RecordBatch, names: list[str]) -> pa.Array:
    """Write boxes over the named attributes as CQL2."""
    conditions = []
    for side, op in (("lo", ">="), ("hi", "<=")):
        values = _sides(boxes, side, len(names))
        for axis, name in enumerate(names):
            column, start = values[:, axis], f"{name_text(name)} {op} "
            mask = ~np.isfinite(column)
            if not mask.all():
                conditions.append(pa.array([start + repr(value) for value in column.tolist()], pa.string(), mask=mask))
    if not conditions:
        return pa.array(["TRUE"] * boxes.num_rows)
    return joined_conditions(conditions)
