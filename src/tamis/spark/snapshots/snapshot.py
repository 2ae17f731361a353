"""Snapshots by Spark: executors index and write the parts, the driver writes the manifest and nothing else.

The location is the URI of an object store, or a directory that the driver and all executors see under the same path.
It is what `tamis.Engine.save` writes and `tamis.Engine.load` and brokers open.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from functools import partial, reduce
from pathlib import Path
from typing import TypeAlias, TypeVar

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tamis.engine import snapshot
from tamis.engine.snapshot import Place, Version
from tamis.engine.snapshot.manifest import Manifest, Part, read_manifest
from tamis.errors import SnapshotConflictError, TableError
from tamis.index.registry import DEFAULT_MATCHER
from tamis.model.schema import Schema
from tamis.model.subscription import DEFAULT_NAMESPACE
from tamis.spark.columns import arrow_form, id_kind, id_type, require, require_places
from tamis.spark.matching.pins import PINS, pinned_versions
from tamis.spark.reduction.reduce import Reduced, reduce_subscriptions
from tamis.spark.running.failures import explaining_workers
from tamis.spark.running.small_files import absolute_location
from tamis.spark.snapshots.building import BUILT, Build, build_batches, read_built
from tamis.spark.snapshots.reading import REMOVED, Removal, list_ids, list_subscriptions, note_removed, read_removal
from tamis.spark.snapshots.summary import copy_summary, write_summary
from tamis.spark.streaming.batch_log import versions_in_use
from tamis.spark.subscriptions.compile import ACCEPTED, accepted_form
from tamis.spark.tiles.tiles import TILES, read_tiles, tiling_by, write_tiles
from tamis.spark.tiles.tiling import Tiling

__all__ = [
    "PART_SIZE",
    "compact_snapshot",
    "index_version",
    "new_state",
    "parts_frame",
    "prune_snapshots",
    "publish_changes",
    "read_snapshot",
    "renew_snapshot",
    "state_of",
    "unless_overtaken",
    "update_snapshot",
    "write_snapshot",
]

#: Subscriptions indexed together: large parts match quicker, and one builder holds one part in memory.
PART_SIZE = 1_000_000
#: How often a writer begins again when another one published a version first.
_TRIES = 5

Result = TypeVar("Result")
#: Rows of Spark, or few rows of this process.
Rows: TypeAlias = DataFrame | pa.Table


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
    with snapshot.building(directory) as place:
        tiling = tiling_by(accepted, schema, tile_by, tiles) if tile_by else None
        beside = [] if summary is None else write_summary(summary, place)
        return index_version(accepted, place, new_state(schema), part_size, tiling, beside)


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

    Tiles and a routing summary are of the set they were made of: the new version has none. When another writer
    publishes a version meanwhile, the change is made again upon that one.
    """
    if add is None and remove is None:
        raise TableError("nothing to add and nothing to remove")
    leaving = _leaving(add, remove)

    def update() -> Version:
        base = snapshot.newest(directory)
        manifest = read_manifest(snapshot.opened(base, parts=False))
        return publish_changes(base, _rows_of(leaving, base, manifest), add, part_size)

    return unless_overtaken(update)


def publish_changes(base: Version, leaving: Rows, add: Rows | None, part_size: int = PART_SIZE) -> Version:
    """Publish the version that follows ``base``: without the rows that leave, with accepted ones added.

    ``leaving`` are rows (part, row) of the base. Rows in an Arrow table are handled in this process, without Spark.
    Raises `SnapshotConflictError` when another version follows the base already.
    """
    manifest = read_manifest(snapshot.opened(base, parts=False))
    state = state_of(base, manifest)
    with snapshot.building(str(base).rpartition("/")[0]) as place:
        kept_parts = _kept_parts(base, manifest, leaving, place)
        added = [] if add is None else build_parts(add, place, state.schema, part_size)
        _discard_other_attempts(place, [*kept_parts, *added])
        return snapshot.seal(place, state, [*kept_parts, *added], after=base)


def unless_overtaken(change: Callable[[], Result]) -> Result:
    """Return what ``change`` gives, which begins again when another writer published a version first."""
    for _ in range(_TRIES - 1):
        with suppress(SnapshotConflictError):
            return change()
    return change()


def compact_snapshot(spark: SparkSession, directory: str | Path, *, part_size: int = PART_SIZE) -> Version:
    """Publish a version with the same subscriptions as the newest, indexed again in few parts; return it.

    Tiles and the routing summary of the newest version are kept: they are true of the same subscriptions. When
    another writer publishes a version meanwhile, that one is compacted instead.
    """

    def compact() -> Version:
        base = snapshot.newest(directory)
        local = snapshot.opened(base, parts=False)
        manifest = read_manifest(local)
        tiles = read_tiles(local, manifest)
        tiling = None if tiles is None else tiles.tiling
        with snapshot.building(directory) as place:
            summary = copy_summary(local, place.staging)
            rules = read_snapshot(spark, base)
            return index_version(rules, place, state_of(base, manifest), part_size, tiling, summary, after=base)

    return unless_overtaken(compact)


def renew_snapshot(
    spark: SparkSession,
    base: Version,
    *,
    merge: Sequence[int] = (),
    tiling: Tiling | None = None,
    summary: bool = False,
) -> Version:
    """Publish the version that follows ``base`` with the same subscriptions and other files beside or in it.

    The parts numbered in ``merge`` become one; ``tiling`` and ``summary`` make tiles and a routing summary. Raises
    `SnapshotConflictError` when another version follows the base already.
    """
    manifest = read_manifest(snapshot.opened(base, parts=False))
    state, merged_parts = state_of(base, manifest), set(merge)
    with snapshot.building(str(base).rpartition("/")[0]) as place:
        others = [part for number, part in enumerate(manifest.parts) if number not in merged_parts]
        parts = [_kept_part(base, part, None, place) for part in others]
        if merged_parts:
            parts += build_parts(read_snapshot(spark, base, sorted(merged_parts)), place, state.schema, PART_SIZE)
        rules, beside, tile_parts = read_snapshot(spark, base), list[str](), list[Part]()
        if summary:
            reduced = reduce_subscriptions(rules, schema=state.schema)
            beside += write_summary(reduced, place)
            reduced.release()
        if tiling is not None:
            tile_parts = write_tiles(rules, place, state.schema, tiling)
            beside.append(TILES)
        _discard_other_attempts(place, [*parts, *tile_parts], beside)
        return snapshot.seal(place, state, parts, beside, after=base)


def read_snapshot(spark: SparkSession, directory: str | Path, parts: Sequence[int] | None = None) -> DataFrame:
    """Return every living subscription of a snapshot, or of some of its parts, as `write_snapshot` takes them."""
    version = snapshot.version_at(directory)
    manifest = read_manifest(snapshot.opened(version, parts=False))
    form = accepted_form(id_kind(manifest, version))
    numbers = parts_frame(spark, len(manifest.parts))
    chosen = numbers if parts is None else numbers.where(F.col("part").isin(list(parts)))
    task = partial(list_subscriptions, version=str(version), form=arrow_form(form, numbers))
    return chosen.mapInArrow(task, form)


def prune_snapshots(
    directory: str | Path,
    *,
    keep: int = 2,
    checkpoints: Sequence[str | Path] = (),
    pins: Sequence[str | Path] = (),
    grace: float | None = None,
) -> list[str]:
    """Remove old versions and return their names.

    Kept are the newest ``keep``, those that a stream may need again, those a kept version builds upon, and those that
    may have readers: in a directory readers hold a lock, in an object store a version stays for ``grace`` seconds (a
    day) after the next one was written.

    A stream of `match_stream` is found by its checkpoint. A stream of `matcher` may need the version to which its last
    micro-batch is pinned: the pins beside the versions are read, and those in the places of ``pins``. A query that
    will never start again keeps its version until its folder of pins is deleted.
    """
    for name, places in (("checkpoints", checkpoints), ("pins", pins)):
        if isinstance(places, str) or not isinstance(places, Collection):
            raise TableError(f"{name}: expected a list of directories or URIs, got {places!r}")
        for place in places:
            require_places(**{name: place})
    needed = {name for checkpoint in checkpoints for name in versions_in_use(checkpoint)}
    for place in (f"{absolute_location(directory)}/{PINS}", *pins):
        needed |= pinned_versions(absolute_location(place))
    return snapshot.prune(directory, keep=keep, needed=needed, grace=grace)


def index_version(
    accepted: DataFrame,
    place: Place,
    state: snapshot.EngineState,
    part_size: int = PART_SIZE,
    tiling: Tiling | None = None,
    summary: Sequence[str] = (),
    after: Version | None = None,
) -> Version:
    """Index accepted subscriptions in a version in the making, in tiles as well if asked to, and publish it.

    ``summary`` are the files of the routing summary, which lie there already.
    """
    parts = build_parts(accepted, place, state.schema, part_size)
    tile_parts = [] if tiling is None else write_tiles(accepted, place, state.schema, tiling)
    beside = [*summary] if tiling is None else [TILES, *summary]
    _discard_other_attempts(place, [*parts, *tile_parts], beside)
    return snapshot.seal(place, state, parts, beside, after=after)


def new_state(schema: Schema) -> snapshot.EngineState:
    """Return what the engine of a new version is besides its subscriptions."""
    return snapshot.EngineState(schema, False, DEFAULT_MATCHER, 0)


def state_of(version: Version, manifest: Manifest) -> snapshot.EngineState:
    """Return what the engine of a version is besides its subscriptions."""
    return snapshot.EngineState(manifest.read_schema(version), manifest.learns, manifest.matcher, manifest.next_id)


def _leaving(add: DataFrame | None, remove: DataFrame | None) -> DataFrame:
    """Return (namespace, id) of whatever leaves: what is removed and what is replaced."""
    frames = []
    if remove is not None:
        require(remove, ["id"], "the table of ids to remove")
        namespaces = F.col("namespace") if "namespace" in remove.columns else F.lit(None).cast("string")
        frames.append(remove.select(F.coalesce(namespaces, F.lit(DEFAULT_NAMESPACE)).alias("namespace"), "id"))
    if add is not None:
        require(add, ACCEPTED, "the table of accepted subscriptions (see compile_subscriptions)")
        frames.append(add.select("namespace", "id"))
    return reduce(DataFrame.union, frames).distinct()


def _rows_of(leaving: DataFrame, base: Version, manifest: Manifest) -> DataFrame:
    """Return (part, row) of the living subscriptions whose (namespace, id) leaves."""
    kind = id_type(leaving, "id")
    saved_kind = id_kind(manifest, base)
    if manifest.parts and kind != saved_kind:
        raise TableError(f"ids of type {kind}, but those of {base} are of type {saved_kind}")
    form = T.StructType().add("part", "integer").add("row", "integer").add("namespace", "string").add("id", kind)
    task = partial(list_ids, version=str(base), form=arrow_form(form, leaving))
    ids = parts_frame(leaving.sparkSession, len(manifest.parts)).mapInArrow(task, form)
    return ids.join(leaving, ["namespace", "id"], "left_semi").select("part", "row")


def _kept_parts(base: Version, manifest: Manifest, leaving: Rows, place: Place) -> list[Part]:
    """Return the parts of the base as the new version names them, without the rows that leave."""
    note = partial(note_removed, version=str(base), place=place.address)
    rows = leaving if isinstance(leaving, pa.Table) else leaving.repartition("part")
    # A line per part that loses rows, from the attempts that succeeded.
    removals = [read_removal(line) for line in _lines(rows, note, REMOVED)]
    by_part = {removal.part: removal for removal in removals}
    return [_kept_part(base, part, by_part.get(number), place) for number, part in enumerate(manifest.parts)]


def _kept_part(base: Version, part: Part, removal: Removal | None, place: Place) -> Part:
    """Return a part of the base as a part of the version that builds upon it."""
    home = part.home or snapshot.name_of(base)
    if removal is not None:
        return msgspec.structs.replace(part, home=home, removed={removal.name: removal.file})
    local = snapshot.opened(base, parts=False) if part.removed else Path()
    for name in part.removed:
        shutil.copyfile(local / name, place.staging / name)
    return msgspec.structs.replace(part, home=home)


def parts_frame(spark: SparkSession, n: int) -> DataFrame:
    """Return the numbers of the parts, a task for each."""
    return spark.range(n).select(F.col("id").cast("int").alias("part")).repartition(max(n, 1), "part")


def build_parts(accepted: Rows, place: Place, schema: Schema, part_size: int) -> list[Part]:
    """Have the executors write the parts of accepted subscriptions; return their descriptions."""
    build = partial(build_batches, task=Build(place.address, schema.to_json()))
    if not isinstance(accepted, pa.Table):
        with explaining_workers():
            n_parts = max(1, math.ceil(accepted.count() / part_size))
        accepted = accepted.repartition(n_parts, "namespace", "id")
    return [read_built(line) for line in _lines(accepted, build, BUILT)]


def _lines(rows: Rows, task: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]], form: str) -> list[str]:
    """Return the lines that a task reports of rows: by the executors, from the attempts that succeeded, or here.

    They are the only thing that comes to the driver, a line per part.
    """
    if isinstance(rows, pa.Table):
        return [line for batch in task(iter(rows.to_batches())) for line in batch.column(0).to_pylist()]
    return [row[0] for row in rows.mapInArrow(task, form).collect()]


def _discard_other_attempts(place: Place, parts: Sequence[Part], beside: Sequence[str] = ()) -> None:
    """Remove the files of tasks that were killed or repeated; in an object store they stay until the parts go."""
    named = {*beside, *(name for part in parts for name in (*part.files, *part.removed))}
    for file in place.staging.iterdir():
        if file.name not in named:
            file.unlink()
