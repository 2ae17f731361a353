"""Snapshots by Spark: executors index and write the parts, the driver writes the manifest and nothing else.

The location is the URI of an object store, or a directory that the driver and all executors see under the same path.
It is what `tamis.Engine.save` writes and `tamis.Engine.load` and brokers open.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Sequence
from functools import partial, reduce
from pathlib import Path

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tamis.engine import snapshot
from tamis.engine.snapshot import Place, Version
from tamis.engine.snapshot.manifest import Manifest, Part, read_manifest
from tamis.engine.snapshot.object_store import is_remote
from tamis.errors import TableError
from tamis.index.registry import DEFAULT_MATCHER
from tamis.model.schema import Schema
from tamis.model.subscription import DEFAULT_NAMESPACE
from tamis.spark.columns import arrow_form, id_kind, id_type, require
from tamis.spark.reduction.reduce import Reduced
from tamis.spark.snapshots.building import BUILT, Build, build_batches, read_built
from tamis.spark.snapshots.reading import REMOVED, Removal, list_ids, list_subscriptions, note_removed, read_removal
from tamis.spark.snapshots.summary import copy_summary, write_summary
from tamis.spark.streaming.batch_log import versions_in_use
from tamis.spark.subscriptions.compile import ACCEPTED, accepted_form
from tamis.spark.tiles.tiles import TILES, read_tiles, tiling_by, write_tiles
from tamis.spark.tiles.tiling import Tiling

__all__ = ["compact_snapshot", "prune_snapshots", "read_snapshot", "update_snapshot", "write_snapshot"]

#: Subscriptions indexed together: large parts match quicker, and one builder holds one part in memory.
PART_SIZE = 1_000_000


def write_snapshot(
    accepted: DataFrame,
    directory: str | Path,
    *,
    schema: Schema,
    part_size: int = PART_SIZE,
    tile_by: Sequence[str] = (),
    tiles: int = 64,
    summary: Reduced | None = None,
) -> Version:
    """Index accepted subscriptions and publish them as a new version of a directory or object store; return it.

    A version appears whole or not at all, and nothing that is there changes. ``part_size`` subscriptions are
    indexed together by one task. ``summary`` is what `reduce_subscriptions` made of the same subscriptions: it is
    kept beside them for links, and takes part in no match.

    For an index larger than a worker's memory name one or two numbers, or a region, in ``tile_by``: the index is
    then also written in about ``tiles`` tiles, and `match` sends each event to its own.
    """
    require(accepted, ACCEPTED, "the table of accepted subscriptions (see compile_subscriptions)")
    if part_size < 1:
        raise TableError(f"part_size is {part_size}; a part holds at least one subscription")
    if is_remote(directory) and (tile_by or summary is not None):
        raise TableError(f"{directory}: tiles and a routing summary need a directory; leave out tile_by and summary")
    with snapshot.building(directory) as place:
        tiling = tiling_by(accepted, schema, tile_by, tiles) if tile_by else None
        beside = [] if summary is None else write_summary(summary, place.staging)
        return _index(accepted, place, snapshot.State(schema, False, DEFAULT_MATCHER, 0), part_size, tiling, beside)


def update_snapshot(
    directory: str | Path,
    *,
    add: DataFrame | None = None,
    remove: DataFrame | None = None,
    part_size: int = PART_SIZE,
) -> Version:
    """Publish a version that differs from the newest one only by what is added and removed; return it.

    ``add`` are accepted subscriptions; one whose id is there takes the place of the old one. ``remove`` has the
    columns ``id`` and, optionally, ``namespace``; an id that is not there asks for nothing. The files of the
    newest version are named again, not written again. After many updates `compact_snapshot` makes one again.

    Tiles and a routing summary are of the set they were made of: the new version has none.
    """
    given = add if add is not None else remove
    if given is None:
        raise TableError("nothing to add and nothing to remove")
    base = snapshot.newest(directory)
    manifest = read_manifest(snapshot.opened(base, parts=False))
    state = _state_of(base, manifest)
    with snapshot.building(directory) as place:
        kept = _kept_parts(base, manifest, _leaving(add, remove), place)
        added = [] if add is None else build_parts(add, place, state.schema, part_size)
        _discard_other_attempts(place, [*kept, *added])
        return snapshot.seal(place, state, [*kept, *added])


def compact_snapshot(spark: SparkSession, directory: str | Path, *, part_size: int = PART_SIZE) -> Version:
    """Publish a version with the same subscriptions as the newest, indexed again in few parts; return it.

    Tiles and the routing summary of the newest version are kept: they are true of the same subscriptions.
    """
    base = snapshot.newest(directory)
    local = snapshot.opened(base, parts=False)
    manifest = read_manifest(local)
    state = _state_of(base, manifest)
    tiles = read_tiles(local, manifest)
    tiling = None if tiles is None else tiles.tiling
    with snapshot.building(directory) as place:
        return _index(read_snapshot(spark, base), place, state, part_size, tiling, copy_summary(local, place.staging))


def read_snapshot(spark: SparkSession, directory: str | Path) -> DataFrame:
    """Return every living subscription of a snapshot, as `write_snapshot` takes them."""
    version = snapshot.version_at(directory)
    manifest = read_manifest(snapshot.opened(version, parts=False))
    form = accepted_form(id_kind(manifest, version))
    parts = _parts_frame(spark, len(manifest.parts))
    task = partial(list_subscriptions, version=str(version), form=arrow_form(form, parts))
    return parts.mapInArrow(task, form)


def prune_snapshots(
    directory: str | Path,
    *,
    keep: int = 2,
    checkpoints: Sequence[str | Path] = (),
    grace: float | None = None,
) -> list[str]:
    """Remove old versions and return their names.

    Kept are the newest ``keep``, those that the streams of the given checkpoints may need again, those a kept
    version builds upon, and those that may have readers: in a directory readers hold a lock, in an object store a
    version stays for ``grace`` seconds (a day) after the next one was written.
    """
    needed = {name for checkpoint in checkpoints for name in versions_in_use(checkpoint)}
    return snapshot.prune(directory, keep=keep, needed=needed, grace=grace)


def _index(
    accepted: DataFrame,
    place: Place,
    state: snapshot.State,
    part_size: int,
    tiling: Tiling | None,
    summary: Sequence[str],
) -> Version:
    """Index accepted subscriptions in a version in the making, in tiles as well if asked to, and publish it.

    ``summary`` are the files of the routing summary, which lie there already.
    """
    parts = build_parts(accepted, place, state.schema, part_size)
    tile_parts = [] if tiling is None else write_tiles(accepted, place.staging, state.schema, tiling)
    beside = [*summary] if tiling is None else [TILES, *summary]
    _discard_other_attempts(place, [*parts, *tile_parts], beside)
    return snapshot.seal(place, state, parts, beside)


def _state_of(version: Version, manifest: Manifest) -> snapshot.State:
    """Return what the engine of a version is besides its subscriptions."""
    return snapshot.State(manifest.read_schema(version), manifest.learns, manifest.matcher, manifest.next_id)


def _leaving(add: DataFrame | None, remove: DataFrame | None) -> DataFrame:
    """Return (namespace, id) of whatever leaves: what is removed and what is replaced."""
    frames = []
    if remove is not None:
        require(remove, ["id"], "the table of ids to remove")
        given = F.col("namespace") if "namespace" in remove.columns else F.lit(None).cast("string")
        frames.append(remove.select(F.coalesce(given, F.lit(DEFAULT_NAMESPACE)).alias("namespace"), "id"))
    if add is not None:
        require(add, ACCEPTED, "the table of accepted subscriptions (see compile_subscriptions)")
        frames.append(add.select("namespace", "id"))
    return reduce(DataFrame.union, frames).distinct()


def _kept_parts(base: Version, manifest: Manifest, leaving: DataFrame, place: Place) -> list[Part]:
    """Return the parts of the base as the new version names them, without the rows that leave."""
    kind = id_type(leaving, "id")
    known = id_kind(manifest, base)
    if manifest.parts and kind != known:
        raise TableError(f"ids of type {kind}, but those of {base} are of type {known}")
    form = T.StructType().add("part", "integer").add("row", "integer").add("namespace", "string").add("id", kind)
    task = partial(list_ids, version=str(base), form=arrow_form(form, leaving))
    ids = _parts_frame(leaving.sparkSession, len(manifest.parts)).mapInArrow(task, form)
    found = ids.join(leaving, ["namespace", "id"], "left_semi").select("part", "row")
    note = partial(note_removed, version=str(base), place=place.address)
    # A line per part that loses rows, from the attempts that succeeded.
    removals = [read_removal(row.removal) for row in found.repartition("part").mapInArrow(note, REMOVED).collect()]
    by_part = {removal.part: removal for removal in removals}
    return [_kept(base, part, by_part.get(number), place) for number, part in enumerate(manifest.parts)]


def _kept(base: Version, part: Part, removal: Removal | None, place: Place) -> Part:
    """Return a part of the base as a part of the version that builds upon it."""
    home = part.home or snapshot.name_of(base)
    if removal is not None:
        return msgspec.structs.replace(part, home=home, removed={removal.name: removal.file})
    local = snapshot.opened(base) if part.removed else Path()
    for name in part.removed:
        shutil.copyfile(local / name, place.staging / name)
    return msgspec.structs.replace(part, home=home)


def _parts_frame(spark: SparkSession, n: int) -> DataFrame:
    """Return the numbers of the parts, a task for each."""
    return spark.range(n).select(F.col("id").cast("int").alias("part")).repartition(max(n, 1), "part")


def build_parts(accepted: DataFrame, place: Place, schema: Schema, part_size: int) -> list[Part]:
    """Have the executors write the parts of accepted subscriptions; return their descriptions."""
    n_parts = max(1, math.ceil(accepted.count() / part_size))
    task = Build(place.address, schema.to_json())
    built = accepted.repartition(n_parts, "namespace", "id").mapInArrow(partial(build_batches, task=task), BUILT)
    # The only thing that ever comes to the driver: a line per part, from the attempts that succeeded.
    return [read_built(row.part) for row in built.collect()]


def _discard_other_attempts(place: Place, parts: Sequence[Part], beside: Sequence[str] = ()) -> None:
    """Remove the files of tasks that were killed or repeated; in an object store they stay until the parts go."""
    named = {*beside, *(name for part in parts for name in (*part.files, *part.removed))}
    for file in place.staging.iterdir():
        if file.name not in named:
            file.unlink()
