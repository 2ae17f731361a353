"""What Spark's workers call, called here without Spark: batches in, deliveries out."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
import shapely

import tamis
from tamis.engine import snapshot
from tamis.model.schema import Schema
from tamis.model.types import Number

pytest.importorskip("pyspark")

from tamis.spark.joins import joining
from tamis.spark.matching import matching
from tamis.spark.matching.matching import EVENT, NAMESPACE, MatchTask, match_batches
from tamis.spark.streaming import batch_log
from tamis.spark.streaming import stream as streaming
from tamis.spark.subscriptions import typed
from tamis.spark.tiles.tile_work import LOW, TILE, TileBuild, build_tiles, match_tiles, read_tile_part, tiled_events
from tamis.spark.tiles.tile_work import tiled_subscriptions as spread
from tamis.spark.tiles.tiling import TileAxis, Tiles, Tiling

SCHEMA = Schema({"x": Number(), "y": Number()})
OUTPUT = pa.schema([("event", pa.string()), ("subscription", pa.string()), ("reason", pa.string())])
BOUNDS = pa.list_(pa.float64())
ACCEPTED = pa.schema(
    [
        *((name, pa.string()) for name in ("id", "namespace", "filter")),
        *((name, BOUNDS) for name in ("lo", "hi")),
        ("expires", pa.int64()),
        ("metadata", pa.map_(pa.string(), pa.string())),
    ]
)
#: Beyond the last cut an integer may lie between two float64, and then it is in the tiles of both.
TILING = Tiling([TileAxis("x", "value", [10.0, 20.0, 2.0**53])])


def task_for(version: Path, *, now: int | None = None) -> MatchTask:
    return MatchTask(str(version), SCHEMA.to_json(), ("x", "y"), now, "default", OUTPUT, rejects=True)


def events(xs: list[Any], namespaces: list[str | None] | None = None, y: float = 0.0) -> pa.RecordBatch:
    beside: dict[str, Any] = {EVENT: [f"e{i}" for i in range(len(xs))]}
    if namespaces is not None:
        beside[NAMESPACE] = namespaces
    return pa.RecordBatch.from_pydict({**beside, "x": xs, "y": [y] * len(xs)})


def pairs(batches: Any) -> list[tuple[str, str | None]]:
    rows = [row for batch in batches for row in batch.to_pylist()]
    return sorted((row["event"], row["subscription"]) for row in rows)


def saved(directory: Path, n: int = 3, **about: Any) -> Path:
    engine = tamis.Engine(SCHEMA)
    for i in range(n):
        engine.subscribe(f"x >= {i}", id=f"s{i}", **about)
    return engine.save(directory)


@pytest.mark.parametrize("block", [1, 2, 4, 5, 100])
def test_matches_come_in_blocks_and_none_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr(matching, "_OUT_ROWS", block)
    batches = list(match_batches(iter([events([0.0, 1.0, 5.0]), events([2.0])]), task=task_for(saved(tmp_path))))
    wanted = [("e0", "s0"), ("e1", "s0"), ("e1", "s1"), *(("e2", f"s{i}") for i in range(3))]
    assert pairs(batches) == sorted(wanted + [("e0", f"s{i}") for i in range(3)])
    assert max(batch.num_rows for batch in batches) <= block


def test_an_event_without_a_namespace_is_of_the_default_one(tmp_path: Path) -> None:
    version = saved(tmp_path, 1)
    batch = events([1.0, 1.0, 1.0], ["default", None, "other"])
    assert pairs(match_batches(iter([batch]), task=task_for(version))) == [("e0", "s0"), ("e1", "s0")]


def test_what_has_ended_is_not_matched(tmp_path: Path) -> None:
    version = saved(tmp_path, 1, expires="2999-01-01T00:00:00Z")
    end = tamis.Engine.load(version).subscription("s0").expires
    assert end is not None
    assert pairs(match_batches(iter([events([1.0])]), task=task_for(version, now=end - 1))) == [("e0", "s0")]
    assert pairs(match_batches(iter([events([1.0])]), task=task_for(version, now=end))) == []


def tiled(directory: Path, texts: dict[str, str]) -> Path:
    """Write a version whose subscriptions are cut into tiles, as `write_snapshot` does."""
    rows = [{"id": id, "namespace": "default", "filter": text} for id, text in texts.items()]
    form = pa.schema([*ACCEPTED, ("tile", pa.int32()), ("low", pa.int32())])
    with snapshot.building(directory) as place:
        build = TileBuild(place.address, SCHEMA.to_json(), msgspec.json.encode(TILING).decode())
        batch = pa.RecordBatch.from_pylist(rows, schema=ACCEPTED)
        copies = pa.Table.from_batches(spread(iter([batch]), task=build, form=form)).sort_by("tile")
        batches = build_tiles(iter(copies.combine_chunks().to_batches()), task=build)
        parts_built = [read_tile_part(line) for batch in batches for line in batch.column("part").to_pylist()]
        parts = {part.tile: [part.part] for part in parts_built}
        (place.staging / "tiles.json").write_bytes(msgspec.json.encode(Tiles(TILING, parts, 1.0)))
        state = snapshot.EngineState(SCHEMA, False, "packed", 0)
        return Path(snapshot.seal(place, state, [part.part for part in parts_built], ["tiles.json"]))


def matched_in_tiles(version: Path, batch: pa.RecordBatch) -> list[tuple[str, str | None]]:
    task = task_for(version)
    form = pa.schema([(TILE, pa.int32()), (LOW, pa.int32()), *batch.schema])
    tiles = tiled_events(iter([batch]), task=task, tiling=msgspec.json.encode(TILING).decode(), form=form)
    in_order = pa.Table.from_batches(tiles).sort_by(TILE).combine_chunks().to_batches()
    return pairs(match_tiles(iter(in_order), task=task))


def test_a_pair_is_delivered_by_one_tile(tmp_path: Path) -> None:
    texts = {"all": "y = 0", "middle": "x BETWEEN 5 AND 15", "low": "x < 1", "none": "x IS NULL"}
    version = tiled(tmp_path, texts)
    batch = events([12, 0, 30, None, 2**53])
    wanted = [*((f"e{i}", "all") for i in range(5)), ("e0", "middle"), ("e1", "low"), ("e3", "none")]
    assert matched_in_tiles(version, batch) == sorted(wanted)


def test_an_event_on_a_cut_is_delivered_once(tmp_path: Path) -> None:
    version = tiled(tmp_path, {"wide": "x BETWEEN 0 AND 30", "on": "x = 10", "below": "x < 10"})
    assert matched_in_tiles(version, events([10, 20])) == [("e0", "on"), ("e0", "wide"), ("e1", "wide")]


def test_a_bad_event_is_told_by_one_tile(tmp_path: Path) -> None:
    version = tiled(tmp_path, {"all": "y = 0"})
    assert matched_in_tiles(version, events([2**53], y=float("nan"))) == [("e0", None)]


def test_a_bound_that_is_null_is_open() -> None:
    batch = pa.RecordBatch.from_pydict({"from": [1.0, None, 5.0], "to": [None, 2.0, 4.0]})
    columns = typed.TypedColumns.of({"x": ("from", "to")}, SCHEMA)
    lo, hi, wrong = typed.boxes_of(batch, columns, SCHEMA)
    infinity = float("inf")
    assert lo[:, 0].tolist() == [1.0, -infinity, 5.0]
    assert hi[:, 0].tolist() == [infinity, 2.0, 4.0]
    assert wrong.tolist() == [False, False, True]


def stream(directory: Path, checkpoint: Path) -> streaming._Stream:
    return streaming._Stream(str(directory), "", str(checkpoint), SCHEMA.to_json(), "event", "default", None, (), None)


def test_a_batch_that_runs_again_keeps_its_version(tmp_path: Path) -> None:
    saved(tmp_path / "snapshots")
    first = stream(tmp_path / "snapshots", tmp_path / "checkpoint")._begin(0)
    saved(tmp_path / "snapshots")
    again = stream(tmp_path / "snapshots", tmp_path / "checkpoint")
    assert again._begin(0) == first
    assert (first.version, again._begin(1).version) == ("v000001", "v000002")


def test_versions_of_open_batches_and_of_the_last_one_are_in_use(tmp_path: Path) -> None:
    for batch, version in enumerate(("v000001", "v000002", "v000003")):
        begun = msgspec.json.encode(batch_log.Begin(batch, version, 0))
        batch_log.log_of(tmp_path).create(f"{batch}.begin.json", begun)
    assert batch_log.versions_in_use(tmp_path) == {"v000001", "v000002", "v000003"}
    for batch in (0, 2):
        report = batch_log.BatchReport(batch, "", 1, 1, 0, 1.0, 1.0, 1.0)
        batch_log.log_of(tmp_path).create(f"{batch}.end.json", msgspec.json.encode(report))
    assert batch_log.versions_in_use(tmp_path) == {"v000002", "v000003"}


def test_a_region_that_meets_every_cell_is_copied_in_small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    regions = [shapely.box(0, 0, 16, 16), shapely.box(3, 3, 3.5, 3.5), None, shapely.Point(1, 1)]
    batch = pa.RecordBatch.from_pydict({"id": ["wide", "small", "none", "point"], "region": shapely.to_wkb(regions)})
    form = pa.schema([*batch.schema, *((name, pa.int64()) for name in ("x", "y", "first_x", "first_y"))])
    spread_in = partial(joining.spread_over_grid, grid=joining.Grid(0, 0, 1), name="region", form=form)
    (whole,) = spread_in(iter([batch]))
    assert whole.num_rows == 17 * 17 + 1 + 1
    monkeypatch.setattr(joining, "_PART_BYTES", 1_000)
    parts = list(spread_in(iter([batch])))
    assert pa.Table.from_batches(parts) == pa.Table.from_batches([whole])
    assert max(sum(map(len, part["region"].to_pylist())) for part in parts) <= 1_000 + 93  # a box has 93 bytes
