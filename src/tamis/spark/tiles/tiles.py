"""Tiled snapshots: an index in pieces, for one that is larger than a worker's memory.

The tiles lie beside the parts of a version and are described by its file ``tiles.json``. Events are shuffled to
their tiles; a worker opens one tile after the other. A hot tile is spread over several tasks.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import msgspec
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tamis.engine.snapshot.manifest import Manifest, Part
from tamis.engine.snapshot.places import Place
from tamis.errors import TableError
from tamis.model.schema import Schema
from tamis.spark.columns import arrow_form, partitions_of
from tamis.spark.matching.matching import MatchTask
from tamis.spark.tiles.tile_work import (
    LOW,
    TILE,
    TILED,
    TILES,
    TileBuild,
    TilePart,
    build_tiles,
    extents_of,
    match_tiles,
    read_tile_part,
    tiled_events,
    tiled_subscriptions,
)
from tamis.spark.tiles.tiling import TileAxis, Tiles, Tiling, axes_for

__all__ = ["TILES", "cut_tiles", "middles_of", "read_tiles", "tiled_deliveries", "tiling_by", "write_tiles"]

#: Pieces into which the events of one tile are spread, so that a hot one does not hold everything up.
_SPREAD = 4


def tiling_by(accepted: DataFrame, schema: Schema, names: Sequence[str], n: int) -> Tiling:
    """Cut the space of one or two attributes into about ``n`` tiles."""
    if n < 2:
        raise TableError(f"{n} tiles; at least two are needed")
    return cut_tiles(accepted, axes_for(names, schema), schema, n)


def write_tiles(accepted: DataFrame, place: Place, schema: Schema, tiling: Tiling) -> list[Part]:
    """Have the executors index accepted subscriptions in tiles, and describe them in `TILES`; return the parts."""
    task = TileBuild(place.address, schema.to_json(), msgspec.json.encode(tiling).decode())
    form = T.StructType(
        [*accepted.schema, T.StructField("tile", T.IntegerType()), T.StructField("low", T.IntegerType())]
    )
    spread = partial(tiled_subscriptions, task=task, form=arrow_form(form, accepted))
    rows = accepted.mapInArrow(spread, form).repartition(partitions_of(accepted), "tile").sortWithinPartitions("tile")
    # A line per part of a tile, from the attempts that succeeded.
    built = [read_tile_part(row.part) for row in rows.mapInArrow(partial(build_tiles, task=task), TILED).collect()]
    if place.is_remote:
        built = [
            TilePart(tile_part.tile, msgspec.structs.replace(tile_part.part, home=place.home)) for tile_part in built
        ]
    parts = {
        tile: [tile_part.part for tile_part in built if tile_part.tile == tile]
        for tile in sorted({tile_part.tile for tile_part in built})
    }
    copies = sum(tile_part.part.n_rows for tile_part in built)
    tiles = Tiles(tiling, parts, copies / max(accepted.count(), 1))
    (place.staging / TILES).write_bytes(msgspec.json.encode(tiles))
    return [tile_part.part for tile_part in built]


def read_tiles(version: Path, manifest: Manifest) -> Tiles | None:
    """Return what a version says of its tiles; None when it has none."""
    if TILES not in manifest.beside:
        return None
    return msgspec.json.decode((version / TILES).read_bytes(), type=Tiles)


def tiled_deliveries(values: DataFrame, tiles: Tiles, task: MatchTask, form: T.StructType) -> DataFrame:
    """Send events to their tiles and match them there."""
    numbers = [T.StructField(name, T.IntegerType()) for name in (TILE, LOW)]
    wide = T.StructType([*numbers, *values.schema])
    tiling = msgspec.json.encode(tiles.tiling).decode()
    tiled = values.mapInArrow(partial(tiled_events, task=task, tiling=tiling, form=arrow_form(wide, values)), wide)
    piece = F.pmod(F.monotonically_increasing_id(), F.lit(_SPREAD))
    spread = tiled.repartition(partitions_of(values), F.col(TILE), piece).sortWithinPartitions(TILE)
    return spread.mapInArrow(partial(match_tiles, task=task), form)


def cut_tiles(accepted: DataFrame, axes: list[TileAxis], schema: Schema, n: int) -> Tiling:
    """Cut each axis where subscriptions have their middle, so that tiles hold about as many."""
    per_axis = max(2, round(n ** (1 / len(axes))))
    middles = middles_of(accepted, axes, schema)
    steps = [i / per_axis for i in range(1, per_axis)]
    cuts = middles.approxQuantile(middles.columns, steps, 0.5 / per_axis)
    return Tiling(
        [
            TileAxis(axis.attribute, axis.side, sorted(set(axis_cuts)))
            for axis, axis_cuts in zip(axes, cuts, strict=True)
        ]
    )


def middles_of(accepted: DataFrame, axes: list[TileAxis], schema: Schema) -> DataFrame:
    """Return the middle of each subscription, a column per axis; null where a side is open."""
    form = T.StructType([T.StructField(f"middle{i}", T.DoubleType()) for i in range(len(axes))])
    axes_json = msgspec.json.encode(axes).decode()
    task = partial(extents_of, schema=schema.to_json(), axes=axes_json, form=arrow_form(form, accepted))
    return accepted.mapInArrow(task, form)
