"""Inside the workers: subscriptions to their tiles, tiles to disk, events to their tiles, pairs by their owner."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tamis.algebra.compiling import compile_source
from tamis.engine import Engine, Matches, snapshot
from tamis.engine.snapshot.array_file import map_arrays, write_arrays
from tamis.engine.snapshot.local_copy import local_version
from tamis.engine.snapshot.manifest import Part, measure
from tamis.model.schema import Schema
from tamis.model.tables import EventTable
from tamis.spark.functions.worker_task import WorkerTask
from tamis.spark.matching.matching import MatchTask, Pace, attributes, delivered, events_of, rejected
from tamis.spark.snapshots.building import build_engine
from tamis.spark.subscriptions.typed import number_names
from tamis.spark.tiles.tiling import Axis, Tiles, Tiling, hull

__all__ = [
    "LOW",
    "TILE",
    "TILED",
    "TileBuild",
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
    known, chosen = Schema.from_json(schema), msgspec.json.decode(axes, type=list[Axis])
    for batch in batches:
        extents = [subscription_extents(row, known, chosen) for row in _askings(batch)]
        middles = [[_middle(one[i]) for one in extents] for i in range(len(chosen))]
        yield pa.RecordBatch.from_arrays([pa.array(one, pa.float64()) for one in middles], schema=form)


def tiled_subscriptions(
    batches: Iterator[pa.RecordBatch], *, task: TileBuild, form: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Yield each subscription once per tile it goes to, with its tile and its lowest tile."""
    schema, tiling = Schema.from_json(task.schema), msgspec.json.decode(task.tiling, type=Tiling)
    for batch in batches:
        tiles = [tiling.of_subscription(subscription_extents(row, schema, tiling.axes)) for row in _askings(batch)]
        counts = np.array([len(one) for one in tiles], np.int64)
        lowest = np.array([one[0] if len(one) else 0 for one in tiles], np.int32)
        places = np.repeat(np.arange(batch.num_rows), counts)
        added = [np.concatenate([np.empty(0, np.int32), *tiles]), lowest[places]]
        columns = [*batch.take(pa.array(places)).columns, *map(pa.array, added)]
        yield pa.RecordBatch.from_arrays(columns, schema=form)


def build_tiles(batches: Iterator[pa.RecordBatch], *, task: TileBuild) -> Iterator[pa.RecordBatch]:
    """Write the tiles of a partition, whose rows come tile by tile; yield a `TilePart` for each part."""
    schema, place = Schema.from_json(task.schema), Path(task.place)  # never an object store
    for tile, rows in groupby(_by_tile(batches, "tile"), key=itemgetter(0)):
        kept = [batch for _, batch in rows]
        built = build_engine(kept, schema)
        low = {(n, i): t for b in kept for n, i, t in zip(*_columns(b, "namespace", "id", "low"), strict=True)}
        for part, space in zip(built.write(task.place), built.engine.namespaces(), strict=True):
            lowest = np.array([low[space.name, space.ids[row]] for row in range(space.ids.n_rows)], np.int32)
            name = f"{part.prefix}.low"
            write_arrays(place / name, {"low": lowest})
            files = {**part.files, name: measure(place / name)}
            described = TilePart(tile, msgspec.structs.replace(part, files=files))
            yield pa.RecordBatch.from_pydict({"part": [msgspec.json.encode(described).decode()]})


def tiled_events(
    batches: Iterator[pa.RecordBatch], *, task: MatchTask, tiling: str, form: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Yield each event once per tile it lies in, with its tile and its lowest tile first."""
    schema, known = Schema.from_json(task.schema), msgspec.json.decode(tiling, type=Tiling)
    for batch in batches:
        events = EventTable.of(attributes(batch, task.names), schema)
        places, tiles, low = known.of_events(dict(events.columns), batch.num_rows)
        columns = [pa.array(tiles), pa.array(low), *batch.take(pa.array(places)).columns]
        yield pa.RecordBatch.from_arrays(columns, schema=form)


def match_tiles(batches: Iterator[pa.RecordBatch], *, task: MatchTask) -> Iterator[pa.RecordBatch]:
    """Match events with the subscriptions of their tiles; a pair comes from its owner alone."""
    schema, pace = Schema.from_json(task.schema), Pace()
    for tile, run in _by_tile(batches, TILE):
        opened = _opened_tile(task.version, task.now, tile)
        for batch in pace.steps(run):
            low = np.asarray(batch.column(LOW))
            events = EventTable.of(attributes(batch, task.names), schema)
            if task.rejects and events.bad:  # told once, by the lowest tile of the event
                bad = {row: error for row, error in events.bad.items() if low[row] == tile}
                yield rejected(batch, bad, task.output)
            if opened is not None:
                matches = opened.engine.match_table(events, namespace=task.namespace, on_bad="skip")
                pace.found = len(matches)
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
    path = local_version(Path(version))
    tiles = msgspec.json.decode((path / "tiles.json").read_bytes(), type=Tiles)
    parts = tiles.parts.get(tile, [])
    if not parts:
        return None
    engine = Engine.open(snapshot.read(path, parts), snapshot.Lease(path), clock=lambda: now or 0)
    low = {part.namespace: map_arrays(path / f"{part.prefix}.low")["low"] for part in parts}
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
        places = events_of(matches.offsets, slice(first, first + step))
        rows = matches.rows[first : first + step]
        owner = opened.tiling.owner(low[places], opened.low[task.namespace][rows])
        chosen = np.flatnonzero(owner == tile)
        if len(chosen):
            yield delivered(batch, places[chosen], matches.ids.to_arrow(rows[chosen]), task.output)


def _by_tile(batches: Iterator[pa.RecordBatch], name: str) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield (tile, rows) for every run of rows with one tile."""
    for batch in batches:
        tiles = np.asarray(batch.column(name))
        ends = [*(np.flatnonzero(np.diff(tiles)) + 1).tolist(), len(tiles)]
        for first, stop in zip([0, *ends], ends, strict=False):
            if first < stop:
                yield int(tiles[first]), batch.slice(first, stop - first)


def _askings(batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    return iter(batch.select(["filter", "lo", "hi"]).to_pylist())


def subscription_extents(row: dict[str, Any], schema: Schema, axes: list[Axis]) -> list[tuple[float, float, bool]]:
    """Return what an accepted subscription asks of each axis."""
    if row["filter"] is not None:
        filters = compile_source(row["filter"], schema).filters
        return [hull(filters, axis) for axis in axes]
    names = number_names(schema)
    found = []
    for axis in axes:
        if axis.side != "value":
            found.append((-math.inf, math.inf, True))
            continue
        lo, hi = (row[side][names.index(axis.attribute)] for side in ("lo", "hi"))
        found.append((lo, hi, lo == -math.inf and hi == math.inf))
    return found


def _middle(extent: tuple[float, float, bool]) -> float | None:
    lo, hi, _ = extent
    return (lo + hi) / 2 if math.isfinite(lo) and math.isfinite(hi) else None


def _columns(batch: pa.RecordBatch, *names: str) -> list[list[Any]]:
    return [batch.column(name).to_pylist() for name in names]
