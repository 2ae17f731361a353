"""Inside the workers: the subscriptions and ids that a snapshot holds, part by part."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tamis.engine import snapshot
from tamis.engine.namespace import Namespace
from tamis.engine.snapshot.manifest import File, Part, measure, read_manifest
from tamis.engine.snapshot.object_store import is_remote
from tamis.engine.snapshot.parts import SavedPart, read_removed, write_removed
from tamis.engine.snapshot.signing import sha256_of
from tamis.engine.stored import Record
from tamis.index.protocols import BoxMatcher
from tamis.index.registry import DEFAULT_MATCHER, MATCHERS
from tamis.model.subscription import Subscription
from tamis.spark.subscriptions.typed import number_names

__all__ = [
    "REMOVED",
    "Removal",
    "list_ids",
    "list_subscriptions",
    "note_removed",
    "read_part_of",
    "read_removal",
    "repeated",
]

#: What `note_removed` reports.
REMOVED = "removal string"

#: Rows of one batch that goes back to Spark.
_OUT_ROWS = 50_000


class Removal(msgspec.Struct, frozen=True):
    """A file with the rows that left a part."""

    part: int
    name: str
    file: File


@dataclass(frozen=True)
class _Open:
    """A part that is read: its place in the manifest, its files and its ids."""

    number: int
    saved: SavedPart
    space: Namespace

    @property
    def part(self) -> Part:
        return self.saved.part


def list_ids(batches: Iterator[pa.RecordBatch], *, version: str, form: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield (part, row, namespace, id) of every living subscription of the parts numbered in the batches."""
    for part in _parts(batches, version):
        rows = np.fromiter(part.space.ids.live_rows(), np.int32)
        for start in range(0, len(rows), _OUT_ROWS):
            some = rows[start : start + _OUT_ROWS]
            n = len(some)
            ids = part.space.ids.to_arrow(some).cast(form.field("id").type)
            columns = [
                pa.array(np.full(n, part.number, np.int32)),
                pa.array(some),
                repeated(part.part.namespace, n),
                ids,
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=form)


def list_subscriptions(batches: Iterator[pa.RecordBatch], *, version: str, form: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield every living subscription of the parts numbered in the batches, as `write_snapshot` takes them."""
    names = number_names(read_manifest(snapshot.opened(version, parts=False)).read_schema(version))
    for part in _parts(batches, version):
        texts = {row["row"]: row for row in part.saved.table.to_pylist() if row["filter"] is not None}
        rows = [_row(part, row, texts.get(row), names) for row in part.space.ids.live_rows()]
        for start in range(0, len(rows), _OUT_ROWS):
            yield pa.RecordBatch.from_pylist(rows[start : start + _OUT_ROWS], schema=form)


def note_removed(batches: Iterator[pa.RecordBatch], *, version: str, place: str) -> Iterator[pa.RecordBatch]:
    """Write the rows that leave the parts in the batches, with those that left before; yield a `Removal` for each.

    All rows of a part must be in one partition.
    """
    leaving = pa.Table.from_batches(batches, pa.schema([("part", pa.int32()), ("row", pa.int32())]))
    parts, rows = np.asarray(leaving["part"]), np.asarray(leaving["row"])
    local = snapshot.opened(version, parts=False)
    manifest = read_manifest(local)
    for number in np.unique(parts).tolist():
        left = read_removed(local, manifest.parts[number])
        name = f"r{uuid.uuid4().hex}.removed"
        with snapshot.Place.folder(place) as folder:
            write_removed(folder, name, np.concatenate([left, rows[parts == number]]))
            file = measure(folder / name)
            file = msgspec.structs.replace(file, sha256=sha256_of(folder / name)) if is_remote(place) else file
        removal = Removal(number, name, file)
        yield pa.RecordBatch.from_pydict({"removal": [msgspec.json.encode(removal).decode()]})


def read_removal(described: str) -> Removal:
    """Return what `note_removed` reported."""
    return msgspec.json.decode(described, type=Removal)


def _parts(batches: Iterator[pa.RecordBatch], version: str) -> Iterator[_Open]:
    for batch in batches:
        for number in batch.column(0).to_pylist():
            saved = read_part_of(version, number)
            space = Namespace(saved.part.namespace, MATCHERS[DEFAULT_MATCHER])
            snapshot.restore([saved], space, _never_compiled)
            yield _Open(number, saved, space)


def read_part_of(version: str, number: int) -> SavedPart:
    """Return a part of a version, whose files are checked."""
    local = snapshot.opened(version)
    return snapshot.read(local, [read_manifest(local).parts[number]]).parts[0]


def _never_compiled(record: Record) -> Subscription:
    # Few subscriptions are saved without an index, and restoring them adds them again; their filters are not read.
    return Subscription(record[1], (), record[0], expires=record[2], metadata=record[3])


def _row(part: _Open, row: int, text: dict[str, Any] | None, names: list[str]) -> dict[str, Any]:
    id = part.space.ids[row]
    if text is not None:
        texts = {name: text[name] for name in ("filter", "expires", "metadata")}
        return {"id": id, "namespace": part.part.namespace, **texts}
    matcher = part.space.matcher
    sides = matcher.find_sides(row) if isinstance(matcher, BoxMatcher) else None
    assert sides is not None, f"row {row} of part {part.number} is neither text nor box"
    lo, hi = zip(*(sides.get(name, (-np.inf, np.inf)) for name in names), strict=True)
    return {"id": id, "namespace": part.part.namespace, "lo": list(lo), "hi": list(hi)}


def repeated(text: str, n: int) -> pa.Array:
    """Return a column that says the same in every row."""
    repeated: npt.NDArray[Any] = np.full(n, text, dtype=object)
    return pa.array(repeated, pa.string())
