"""A part of a snapshot on disk: the subscriptions of one namespace that were indexed together.

::

    PREFIX.subscriptions.arrow   row, id, filter (CQL2 text), expires, metadata
    PREFIX.arrays                the packed index, mapped when it is opened
    PREFIX.axes.json             what its axes mean

An engine writes one part per namespace; a cluster writes as many as it has builders.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tamis.engine.namespace import Namespace
from tamis.engine.snapshot.array_file import map_arrays, write_arrays
from tamis.engine.snapshot.manifest import IdKind, Part, measure
from tamis.engine.stored import COLUMNS, find_problem, record_table
from tamis.errors import SnapshotError
from tamis.index.protocols import EventMatcher, MappedMatcher, SavedRows
from tamis.index.saved_arrays import Ascending, Declared, SavedArrays
from tamis.model.language.unbind import format_filters
from tamis.model.schema import Schema
from tamis.model.subscription import SubscriptionId

__all__ = ["SavedPart", "read_part", "read_removed", "write_parts", "write_removed"]


_REMOVED = {"removed": Declared(np.int32, ("removed",), Ascending("rows"))}


@dataclass(frozen=True, slots=True)
class SavedPart:
    """A part that was read."""

    part: Part
    #: The directory of its files, with the prefix of their names.
    path: Path
    table: pa.Table
    arrays: SavedArrays
    #: The description of the matcher's arrays; None if there are none.
    description: Any
    rows: SavedRows
    #: Rows of ranges that were removed before it was written, and rows that later versions took away.
    lacking: npt.NDArray[np.int32]
    removed: npt.NDArray[np.int32]


def write_parts(place: Path, prefix: str, space: Namespace, schema: Schema) -> Iterator[Part]:
    """Write a namespace part by part; raise `SnapshotError` if a part cannot be written."""
    try:
        for number, (first, stop, matcher) in enumerate(space.parts()):
            yield _Writer(place, f"{prefix}.{number}" if number else prefix, space, schema).write(first, stop, matcher)
    except FileNotFoundError as error:
        hint = "every process that writes a part of a snapshot needs its directory under the same path"
        raise SnapshotError(str(place.parent), f"this process cannot see the directory; {hint}") from error
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise SnapshotError(str(place.parent), f"cannot be written: {reason}") from error


def write_removed(place: Path, name: str, rows: npt.NDArray[np.int32]) -> None:
    """Write the rows that leave a part of an earlier version."""
    write_arrays(place / name, {"removed": np.unique(rows).astype(np.int32)})


def read_part(version: Path, part: Part, schema: Schema) -> SavedPart:
    """Map the files of a part and check them, except for what only the matcher can check in its arrays.

    Sizes and checksums of the files were checked before.
    """
    path = part.folder(version) / part.prefix
    table = _read_table(Path(f"{path}.subscriptions.arrow"), part)
    arrays = SavedArrays(map_arrays(Path(f"{path}.arrays")) if part.packed else {}, f"{path}.arrays")
    lacking = arrays.take(_REMOVED, rows=part.n_rows)[0]["removed"] if part.packed else np.empty(0, np.int32)
    rows = _saved_rows(Path(f"{path}.subscriptions.arrow"), part, table, lacking, schema)
    removed = _living_removed(version, part, rows)
    description = _read_description(Path(f"{path}.axes.json")) if part.packed else None
    return SavedPart(part, path, table, arrays, description, rows, lacking, removed)


def _read_table(path: Path, part: Part) -> pa.Table:
    try:
        table = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
    except (pa.ArrowException, OSError) as error:
        raise SnapshotError(str(path), f"not an Arrow file: {error}") from error
    problem = find_problem(table, part.n_rows)
    if problem is None and len(table) != part.listed:
        problem = f"has {len(table)} subscriptions; the manifest says {part.listed}"
    if problem is None and not part.packed and table["filter"].null_count:
        problem = "a subscription has no filter, and there is no index that holds it"
    if problem is not None:
        raise SnapshotError(str(path), problem)
    return table


def _saved_rows(path: Path, part: Part, table: pa.Table, lacking: npt.NDArray[np.int32], schema: Schema) -> SavedRows:
    """Return which rows live: those of ranges that were not removed, and those of the table."""
    living, written = np.zeros(part.n_rows, np.bool_), np.zeros(part.n_rows, np.bool_)
    first = 0
    for start, n in part.blocks:
        living[first : first + n] = start is not None
        first += n
    listed = np.asarray(table["row"])
    if living[listed].any() or not living[lacking].all():
        raise SnapshotError(str(path), "its rows are not those that the manifest says")
    living[lacking] = False
    living[listed] = True
    written[listed] = np.asarray(table["filter"].is_valid())
    return SavedRows(living, written, schema)


def read_removed(version: Path, part: Part) -> npt.NDArray[np.int32]:
    """Return the rows that left a part after it was written; the files of the part are not read."""
    removed = [np.empty(0, np.int32)]
    for name in part.removed:
        arrays = SavedArrays(map_arrays(version / name), str(version / name))
        removed.append(arrays.take(_REMOVED, rows=part.n_rows)[0]["removed"])
    return np.unique(np.concatenate(removed))


def _living_removed(version: Path, part: Part, rows: SavedRows) -> npt.NDArray[np.int32]:
    """Return the rows that left a part, all of which it must have."""
    removed = read_removed(version, part)
    if not rows.living[removed].all():
        raise SnapshotError(str(version), f"the rows that left {part.prefix}: one is named that the part does not have")
    return removed


def _read_description(path: Path) -> Any:
    try:
        return msgspec.json.decode(path.read_bytes())
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise SnapshotError(str(path), f"not a description of axes: {error}") from error


@dataclass(frozen=True, slots=True)
class _Writer:
    """Writes one part; its rows count from 0."""

    place: Path
    prefix: str
    space: Namespace
    schema: Schema

    def write(self, first: int, stop: int, matcher: EventMatcher) -> Part:
        blocks, removed = self.space.ids.to_state(first, stop)
        packed = matcher.to_arrays() if isinstance(matcher, MappedMatcher) else None
        listed = self.space.ids.listed_rows()
        if packed is None:  # without an index that holds boxes every subscription is written out
            blocks, listed = [(None, stop - first)], list(self.space.ids.live_rows())
        else:
            description, arrays = packed
            write_arrays(self.place / f"{self.prefix}.arrays", {"removed": removed, **arrays})
            (self.place / f"{self.prefix}.axes.json").write_bytes(msgspec.json.encode(description))
        rows = listed[bisect_left(listed, first) : bisect_left(listed, stop)]
        records = [self._record(row, first, keep_text=packed is None) for row in rows]
        table = record_table(records)
        path = self.place / f"{self.prefix}.subscriptions.arrow"
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, COLUMNS) as out:
            out.write_table(table)
        files = {file.name: measure(file) for file in self._files(packed is not None)}
        kind = _id_kind(table, any(start is not None for start, n in blocks if n))
        expires = table["expires"].null_count < len(table)
        return Part(self.space.name, self.prefix, blocks, len(rows), packed is not None, kind, files, expires)

    def _files(self, packed: bool) -> list[Path]:
        endings = ["subscriptions.arrow", *(["arrays", "axes.json"] if packed else [])]
        return [self.place / f"{self.prefix}.{ending}" for ending in endings]

    def _record(
        self, row: int, first: int, *, keep_text: bool
    ) -> tuple[int, SubscriptionId, str | None, int | None, dict[str, str]]:
        record = self.space.find_record(row)
        if record is not None:
            text, id, expires, metadata = record
            return row - first, id, text, expires, metadata
        subscription = self.space.find_written(row)
        if subscription is None and keep_text:
            subscription = self.space.find(row)
        if subscription is None:  # a box that the index holds
            return row - first, self.space.ids[row], None, None, {}
        text = subscription.text if subscription.text is not None else format_filters(subscription.filters, self.schema)
        return row - first, subscription.id, text, subscription.expires, dict(subscription.metadata)


def _id_kind(table: pa.Table, ranges: bool) -> IdKind:
    numbers = ranges or table["id_number"].null_count < len(table)
    texts = table["id_text"].null_count < len(table)
    if numbers and texts:
        return "mixed"
    return "number" if numbers else "text" if texts else "none"
