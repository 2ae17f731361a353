"""Inside the workers: subscriptions to their tiles, tiles to disk, events to their tiles, pairs by their owner."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tamis.algebra.compiling_texts import TextReader
from tamis.engine import Engine, Matches, snapshot
from tamis.engine.namespace import Namespace
from tamis.engine.snapshot.array_file import map_arrays, write_arrays
from tamis.engine.snapshot.manifest import Part, measure
from tamis.model.schema import Schema
from tamis.model.tables import EventTable
from tamis.spark.functions.worker_task import WorkerTask
from tamis.spark.matching.matching import (
    MatchingPace,
    MatchTask,
    attributes,
    delivered,
    events_of,
    metadata_of,
    rejected,
)
from tamis.spark.snapshots.building import build_engine
from tamis.spark.subscriptions.rule_texts import reader_of
from tamis.spark.subscriptions.typed import number_names
from tamis.spark.tiles.tiling import Extents, TileAxis, Tiles, Tiling, hull

__all__ = [
    "LOW",
    "TILE",
    "TILED",
    "TILES",
    "TileBuild",
    "TilePart",
    "build_tiles",
    "extents_of",
    "match_tiles",
    "read_tile_part",
    "subscription_extents",
    "tiled_events",
    "tiled_subscriptions",
]

#: The columns that come before an event's own while it is in a tile: the tile, and its lowest one.
TILE, LOW = "__tamis_tile", "__tamis_low"

#: The file of a version that describes its tiles.
TILES = "tiles.json"

#: What `build_tiles` reports.
TILED = "part string"


@dataclass(frozen=True)
class TileBuild(WorkerTask):
    """What the workers need to know; it travels pickled inside Spark."""

    place: str
    schema: str
    tiling: str


class TilePart(msgspec.Struct, frozen=True):
    """A part of a tile."""

    tile: int
    part: Part


def read_tile_part(described: str) -> TilePart:
    """Return what a builder reported."""
    return msgspec.json.decode(described, type=TilePart)


def extents_of(
    batches: Iterator[pa.RecordBatch], *, schema: str, axes: str, form: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Yield the middle of each subscription on each axis; null where a side is open."""
    reader, chosen = reader_of(schema), msgspec.json.decode(axes, type=list[TileAxis])
    for batch in batches:
        lo, hi, _ = subscription_extents(batch, reader, chosen)
        is_closed = np.isfinite(lo) & np.isfinite(hi)
        middles = (np.where(is_closed, lo, 0.0) + np.where(is_closed, hi, 0.0)) / 2
        columns = [pa.array(middles[:, i], mask=~is_closed[:, i]) for i in range(len(chosen))]
        yield pa.RecordBatch.from_arrays(columns, schema=form)


def tiled_subscriptions(
    batches: Iterator[pa.RecordBatch], *, task: TileBuild, form: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Yield each subscription once per tile it goes to, with its tile and its lowest tile."""
    reader, tiling = reader_of(task.schema), msgspec.json.decode(task.tiling, type=Tiling)
    for batch in batches:
        rows, tiles = tiling.of_subscriptions(subscription_extents(batch, reader, tiling.axes))
        lowest = tiles[np.searchsorted(rows, rows)]  # the first of each subscription
        columns = [*batch.take(pa.array(rows)).columns, pa.array(tiles), pa.array(lowest)]
        yield pa.RecordBatch.from_arrays(columns, schema=form)


def build_tiles(batches: Iterator[pa.RecordBatch], *, task: TileBuild) -> Iterator[pa.RecordBatch]:
    """Write the tiles of a partition, whose rows come tile by tile; yield a `TilePart` for each part."""
    reader = reader_of(task.schema)
    for tile, runs in groupby(_by_tile(batches, "tile"), key=itemgetter(0)):
        rows = [batch for _, batch in runs]
        lowest = {(n, i): t for b in rows for n, i, t in zip(*_columns(b, "namespace", "id", "low"), strict=True)}
        for part in build_engine(rows, reader).write(task.place, partial(_with_lowest, lowest=lowest)):
            described = msgspec.json.encode(TilePart(tile, part)).decode()
            yield pa.RecordBatch.from_pydict({"part": [described]})


def _with_lowest(folder: Path, part: Part, space: Namespace, *, lowest: dict[tuple[str, Any], int]) -> Part:
    """Write the lowest tile of each subscription of a part; return the part with that file."""
    name = f"{part.prefix}.low"
    tiles = np.array([lowest[space.name, space.ids[row]] for row in range(space.ids.n_rows)], np.int32)
    write_arrays(folder / name, {"low": tiles})
    return msgspec.structs.replace(part, files={**part.files, name: measure(folder / name)})


def tiled_events(
    batches: Iterator[pa.RecordBatch], *, task: MatchTask, tiling: str, form: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Yield each event once per tile it lies in, with its tile and its lowest tile first."""
    schema, read_tiling = Schema.from_json(task.schema), msgspec.json.decode(tiling, type=Tiling)
    for batch in batches:
        events = EventTable.of(attributes(batch, task.names), schema)
        rows, tiles, low = read_tiling.of_events(dict(events.columns), batch.num_rows)
        columns = [pa.array(tiles), pa.array(low), *batch.take(pa.array(rows)).columns]
        yield pa.RecordBatch.from_arrays(columns, schema=form)


def match_tiles(batches: Iterator[pa.RecordBatch], *, task: MatchTask) -> Iterator[pa.RecordBatch]:
    """Match events with the subscriptions of their tiles; a pair comes from its owner alone."""
    schema, pace = Schema.from_json(task.schema), MatchingPace()
    for tile, run in _by_tile(batches, TILE):
        opened = _opened_tile(task.version, task.now, tile)
        for batch in pace.steps(run):
            low = np.asarray(batch.column(LOW))
            events = EventTable.of(attributes(batch, task.names), schema)
            if task.rejects and events.bad:  # told once, by the lowest tile of the event
                errors = {row: error for row, error in events.bad.items() if low[row] == tile}
                yield rejected(batch, errors, task.output)
            if opened is not None:
                matches = opened.engine.match_table(events, namespace=task.namespace, on_bad="skip")
                pace.n_matches = len(matches)
                yield from _owned(batch, matches, opened, low, tile, task)


@dataclass(frozen=True)
class _Tile:
    """A tile that is open."""

    engine: Engine
    tiling: Tiling
    #: The lowest tile of each row, by namespace.
    low: dict[str, npt.NDArray[np.int32]]


@lru_cache(maxsize=2)
def _opened_tile(version: str, now: int | None, tile: int) -> _Tile | None:
    """Open the parts of a tile; None when it has no subscriptions."""
    tiles = msgspec.json.decode((snapshot.opened(version, parts=False) / TILES).read_bytes(), type=Tiles)
    parts = tiles.parts.get(tile, [])
    if not parts:
        return None
    path = snapshot.mapped_parts(version, parts)
    engine = Engine.open(snapshot.read(path, parts), snapshot.VersionLease(path), clock=lambda: now or 0)
    low = {part.namespace: map_arrays(part.folder(path) / f"{part.prefix}.low")["low"] for part in parts}
    return _Tile(engine, tiles.tiling, low)


def _owned(
    batch: pa.RecordBatch,
    matches: Matches,
    opened: _Tile,
    low: npt.NDArray[np.int32],
    tile: int,
    task: MatchTask,
) -> Iterator[pa.RecordBatch]:
    step = 200_000
    for first in range(0, len(matches), step):
        event_rows = events_of(matches.offsets, slice(first, first + step))
        rows = matches.rows[first : first + step]
        owner = opened.tiling.owner(low[event_rows], opened.low[task.namespace][rows])
        chosen = np.flatnonzero(owner == tile)
        if len(chosen):
            metadata = [metadata_of(opened.engine, task.namespace, rows[chosen])] if task.metadata else []
            yield delivered(batch, event_rows[chosen], matches.ids.to_arrow(rows[chosen]), task.output, metadata)


def _by_tile(batches: Iterator[pa.RecordBatch], name: str) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield (tile, rows) for every run of rows with one tile."""
    for batch in batches:
        tiles = np.asarray(batch.column(name))
        ends = [*(np.flatnonzero(np.diff(tiles)) + 1).tolist(), len(tiles)]
        for first, stop in zip([0, *ends], ends, strict=False):
            if first < stop:
                yield int(tiles[first]), batch.slice(first, stop - first)


def subscription_extents(batch: pa.RecordBatch, reader: TextReader, axes: list[TileAxis]) -> Extents:
    """Return what accepted subscriptions ask of each axis."""
    extents = Extents.everything(batch.num_rows, len(axes))
    is_box = np.asarray(batch.column("lo").is_valid())
    _set_boxes(extents, batch, np.flatnonzero(is_box), number_names(reader.schema), axes)
    rows = np.flatnonzero(~is_box)
    texts = batch.column("filter").take(pa.array(rows)).to_pylist()
    compiled = reader.read(texts, columns=all(axis.side == "value" for axis in axes))
    if compiled.bad is not None:
        raise compiled.bad.error
    for columns in compiled.columns:
        for number, axis in enumerate(axes):
            if axis.attribute in columns.ranges:
                lo, hi = columns.ranges[axis.attribute]
                about = columns.about(axis.attribute)
                bounded = rows[columns.rows[about]]
                # An integer may lie between two float64.
                extents.lo[bounded, number] = np.nextafter(lo[about], -np.inf)
                extents.hi[bounded, number] = np.nextafter(hi[about], np.inf)
                extents.missing[bounded, number] = False
    for row, filters in compiled.others:
        for number, axis in enumerate(axes):
            extents.lo[rows[row], number], extents.hi[rows[row], number], missing = hull(filters, axis)
            extents.missing[rows[row], number] = missing
    return extents


def _set_boxes(
    extents: Extents, batch: pa.RecordBatch, rows: npt.NDArray[np.intp], names: list[str], axes: list[TileAxis]
) -> None:
    """Set the extents of the rows that are boxes over the named attributes."""
    if not len(rows):
        return
    lo, hi = (
        np.asarray(batch.column(name).take(pa.array(rows)).flatten()).reshape(-1, len(names)) for name in ("lo", "hi")
    )
    for number, axis in enumerate(axes):
        if axis.side == "value":
            column = names.index(axis.attribute)
            extents.lo[rows, number], extents.hi[rows, number] = lo[:, column], hi[:, column]
            extents.missing[rows, number] = (lo[:, column] == -np.inf) & (hi[:, column] == np.inf)


def _columns(batch: pa.RecordBatch, *names: str) -> list[list[Any]]:
    return [batch.column(name).to_pylist() for name in names]
