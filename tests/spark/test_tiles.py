"""Tiles: the partitioned path gives the same rows, each once, whatever lies across tiles."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any

import msgspec
import pytest

import tamis
from tamis.engine import snapshot
from tamis.engine.snapshot.manifest import File, read_manifest
from tamis.errors import SchemaError, SnapshotError
from tamis.spark import check_events, compile_subscriptions, match, write_snapshot
from tamis.spark.tiles.tiles import read_tiles
from tests.spark.test_match import accepted
from tests.spark.worlds import COLUMNS, SCHEMA, laptop, pairs, rows, texts


@pytest.mark.parametrize("tile_by", [["price"], ["area"], ["price", "volume"]])
def test_the_same_rows_each_once(spark: Any, tmp_path: Path, tile_by: list[str]) -> None:
    filters = [(f"s{i}", text) for i, text in enumerate(texts(250, seed=21))]
    version = write_snapshot(accepted(spark, filters), tmp_path, schema=SCHEMA, tile_by=tile_by, tiles=9)
    tiles = read_tiles(version, read_manifest(version))
    assert tiles is not None
    assert len(tiles.parts) >= 5
    assert tiles.replication > 1
    events = rows(300, seed=22)
    wanted = sorted(laptop(filters, events))
    frame = spark.createDataFrame(events, COLUMNS).repartition(3)
    assert pairs(match(frame, tmp_path)) == wanted
    assert len(tamis.Engine.load(tmp_path)) == 250


def test_boxes_in_tiles_and_a_hot_one(spark: Any, tmp_path: Path) -> None:
    frame = spark.range(2_000).selectExpr("id", "id % 50 + 0.0D AS low", "IF(id % 7 = 0, NULL, id % 50 + 2.0D) AS high")
    boxes, _ = compile_subscriptions(frame, schema=SCHEMA, columns={"price": ("low", "high")})
    version = write_snapshot(boxes, tmp_path, schema=SCHEMA, tile_by=["price"], tiles=6)
    events = spark.range(400).selectExpr(
        "id AS event_id", "CASE WHEN id < 390 THEN 20.5D WHEN id < 395 THEN id END AS price"
    )
    engine = tamis.Engine.load(version)
    wanted = [(row["event_id"], id) for row in events.collect() for id in engine.match({"price": row["price"]})]
    assert pairs(match(events, tmp_path)) == sorted(wanted)


def test_bad_events_are_told_once(spark: Any, tmp_path: Path) -> None:
    write_snapshot(accepted(spark, [("all", "TRUE")]), tmp_path, schema=SCHEMA, tile_by=["area"], tiles=4)
    events = spark.createDataFrame([(1, 5.0), (2, float("nan"))], "event_id long, price double")
    assert pairs(match(events, tmp_path)) == [(1, "all")]
    assert check_events(events, schema=SCHEMA).count() == 1


def test_tiles_that_another_machine_wrote(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The manifest names the machine that wrote it; all others copy the tiles that they need, and map the copies."""
    filters = [(f"s{i}", text) for i, text in enumerate(texts(60, seed=23))]
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(platform, "node", lambda: "elsewhere")
        version = write_snapshot(accepted(spark, filters), tmp_path / "rules", schema=SCHEMA, tile_by=["price"])
    assert read_manifest(version).host == "elsewhere"
    cache = tmp_path / "cache"
    monkeypatch.setitem(spark.sparkContext.environment, "TAMIS_SNAPSHOT_CACHE", str(cache))
    events = rows(40, seed=24)
    assert pairs(match(spark.createDataFrame(events, COLUMNS), version)) == sorted(laptop(filters, events))
    [copy] = cache.iterdir()
    tiles = read_tiles(version, read_manifest(version))
    assert tiles is not None
    copied = {path.name for path in (copy / version.name).iterdir()} - {"manifest.json"}
    named = {name for parts in tiles.parts.values() for part in parts for name in part.files}
    assert copied
    assert copied < named, "only the tiles of these events"


@pytest.mark.parametrize("change", [{"prefix": "../x"}, {"home": "../other"}, {"files": {"../x.low": File(1, 1)}}])
def test_tiles_that_lead_out_of_the_version_are_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    """``tiles.json`` names files of its own, which no manifest has checked."""
    engine = tamis.Engine(SCHEMA)
    engine.subscribe("price < 1", id="a")
    version = Path(engine.save(tmp_path))
    [part] = read_manifest(version).parts
    with pytest.raises(SnapshotError, match="is a file outside the version|is not a version"):
        snapshot.mapped_parts(version, [msgspec.structs.replace(part, **change)])
    with pytest.raises(SnapshotError, match="is a file outside the version|is not a version"):
        snapshot.read(version, [msgspec.structs.replace(part, **change)])


def test_what_tiles_can_be_cut_by(spark: Any, tmp_path: Path) -> None:
    compiled = accepted(spark, [("a", "price < 1")])
    for wrong in (["symbol"], ["nothing"], ["price", "volume", "area"]):
        with pytest.raises(SchemaError, match="tiles are cut by"):
            write_snapshot(compiled, tmp_path, schema=SCHEMA, tile_by=wrong)
    assert list(tmp_path.iterdir()) == []
