"""Inside the workers: prepared rows of subscriptions in, accepted and rejected ones out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tamis.algebra.compiling_texts import TextTemplates
from tamis.errors import ModelError, TableError
from tamis.model.schema import Schema
from tamis.model.tables import checked_id
from tamis.model.values import UnfitError, moment
from tamis.spark.functions.worker_task import WorkerTask
from tamis.spark.subscriptions.typed import TypedColumns, box_problem, boxes_of, texts_of

__all__ = ["Compile", "compile_batches"]

#: Texts that a task remembers: many people ask the same, and parsing is what compiling costs.
_REMEMBERED = 100_000


@dataclass(frozen=True)
class Compile(WorkerTask):
    """What the workers need to know; it travels pickled inside Spark."""

    schema: str
    typed: TypedColumns | None


def compile_batches(batches: Iterator[pa.RecordBatch], *, task: Compile, form: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Compile batches of prepared rows."""
    schema = Schema.from_json(task.schema)
    good, templates = set[str](), TextTemplates()
    for batch in batches:
        if task.typed is None:
            sources: Sequence[Any] = batch.column("filter").to_pylist()
        elif task.typed.is_box(batch, schema):
            yield from _compiled_boxes(batch, task.typed, schema, form)
            continue
        else:
            sources = texts_of(batch, task.typed, schema)
        rows = batch.select(["id", "namespace", "expires", "metadata", "conflict"]).to_pylist()
        compiled = [_compiled(row, source, schema, good, templates) for row, source in zip(rows, sources, strict=True)]
        yield pa.RecordBatch.from_pylist(compiled, schema=form)


def _compiled_boxes(
    batch: pa.RecordBatch, typed: TypedColumns, schema: Schema, form: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Compile rows that are boxes, all at once; those with something to say besides go one by one."""
    lo, hi, wrong = boxes_of(batch, typed, schema)
    plain = batch.column("id").is_valid()
    for name in ("expires", "metadata"):
        plain = pc.and_(plain, batch.column(name).is_null())
    is_plain = np.asarray(pc.and_(plain, pc.invert(batch.column("conflict")))) & ~wrong
    chosen = pa.array(np.flatnonzero(is_plain))
    known = {"id": batch.column("id").take(chosen), "namespace": batch.column("namespace").take(chosen)}
    known |= {"lo": _lists(lo[is_plain]), "hi": _lists(hi[is_plain])}
    yield pa.RecordBatch.from_arrays(
        [known.get(field.name, pa.nulls(len(chosen), field.type)) for field in form], schema=form
    )
    rest = np.flatnonzero(~is_plain).tolist()
    if rest:
        others = batch.take(pa.array(rest))
        written = texts_of(others, typed, schema)  # only text can carry an end and metadata
        sources = [box_problem(lo[row], hi[row], schema) or text for row, text in zip(rest, written, strict=True)]
        rows = others.to_pylist()
        templates = TextTemplates()
        compiled = [_compiled(row, source, schema, set(), templates) for row, source in zip(rows, sources, strict=True)]
        yield pa.RecordBatch.from_pylist(compiled, schema=form)


def _lists(sides: npt.NDArray[np.float64]) -> pa.Array:
    offsets = np.arange(0, sides.size + 1, sides.shape[1], dtype=np.int32)
    return pa.ListArray.from_arrays(offsets, sides.ravel())


def _compiled(
    row: dict[str, Any], source: str | ModelError | None, schema: Schema, good: set[str], templates: TextTemplates
) -> dict[str, Any]:
    """Return one accepted row, or the row with its reason; ``good`` are texts that were read before."""
    kept = {"id": row["id"], "namespace": row["namespace"], "metadata": row["metadata"]}
    kept["filter"] = source if isinstance(source, str) else None
    try:
        if row["conflict"]:
            raise TableError("differing rows have this id; which one is meant?")
        if row["id"] is None:
            raise TableError("there is no id")
        checked_id(row["id"])
        kept["expires"] = _moment(row["expires"])
        if isinstance(source, ModelError):
            raise source
        if source is None:
            raise TableError("there is no filter")
        if source not in good:
            templates.compile(source, schema)
            if len(good) < _REMEMBERED:
                good.add(source)
        return kept
    except ModelError as error:
        return kept | {"reason": str(error), "position": getattr(error, "position", None)}


def _moment(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        return moment(int(text)) if text.lstrip("-").isdecimal() else moment(text)
    except UnfitError as error:
        raise TableError(f"expires: {error}") from None
