"""Snapshots by Spark: parts, updates, compaction, pruning; what fails leaves nothing behind."""

from __future__ import annotations

import gc
import random
from pathlib import Path
from typing import Any

import pytest

import tamis
from tamis.engine.snapshot.local_copy import local_version
from tamis.engine.snapshot.manifest import read_manifest
from tamis.errors import SnapshotError, TableError
from tamis.spark import (
    compact_snapshot,
    match,
    prune_snapshots,
    read_snapshot,
    read_summary,
    reduce_subscriptions,
    update_snapshot,
    write_snapshot,
)
from tamis.spark.snapshots.summary import read_reduction
from tamis.spark.tiles.tiles import read_tiles
from tests.spark.test_match import accepted
from tests.spark.worlds import COLUMNS, SCHEMA, laptop, pairs, rows, texts


def ids(spark: Any, *chosen: str) -> Any:
    return spark.createDataFrame([(id,) for id in chosen], "id string")


@pytest.mark.parametrize("steps", [2, pytest.param(8, marks=pytest.mark.soak)])
def test_a_life_of_updates_gives_the_answers_of_the_live_set(spark: Any, tmp_path: Path, steps: int) -> None:
    rng = random.Random(5)
    supply = iter(texts(1_000, seed=6))
    live = {f"s{i}": next(supply) for i in range(300)}
    write_snapshot(accepted(spark, list(live.items())), tmp_path, schema=SCHEMA, part_size=160)
    events = rows(120, seed=7)
    frame = spark.createDataFrame(events, COLUMNS)
    for step in range(steps):
        leaving_ids = rng.sample(sorted(live), 30)
        changed = {f"s{rng.randrange(400)}": next(supply) for _ in range(40)}
        for id in leaving_ids:
            del live[id]
        live |= changed
        leaving = ids(spark, *leaving_ids, "absent") if step != 1 else None
        if leaving is None:
            live |= dict.fromkeys(leaving_ids, f"price < {step}")
            changed |= dict.fromkeys(leaving_ids, f"price < {step}")
        update_snapshot(tmp_path, add=accepted(spark, list(changed.items())), remove=leaving)
        assert pairs(match(frame, tmp_path)) == sorted(laptop(list(live.items()), events))
        assert {subscription.id for subscription in tamis.Engine.load(tmp_path)} == live.keys()
    engine = tamis.Engine.load(tmp_path)
    engine.subscribe("price < 3", id="own")
    assert len(tamis.Engine.load(engine.save(tmp_path))) == len(live) + 1
    update_snapshot(tmp_path, remove=ids(spark, "own"))
    version = compact_snapshot(spark, tmp_path)
    assert len(read_manifest(version).parts) == 1
    assert pairs(match(frame, tmp_path)) == sorted(laptop(list(live.items()), events))


def test_boxes_survive_compaction(spark: Any, tmp_path: Path) -> None:
    from tamis.spark import compile_subscriptions

    frame = spark.range(500).selectExpr("id", "CAST(id AS DOUBLE) AS low", "IF(id % 3 = 0, NULL, id + 9.5D) AS high")
    boxes = compile_subscriptions(frame, schema=SCHEMA, columns={"price": ("low", "high")})[0]
    write_snapshot(boxes, tmp_path, schema=SCHEMA, part_size=200)
    before = tamis.Engine.load(tmp_path).match({"price": 42.0})
    assert before == [*range(0, 33, 3), *range(33, 43)]
    compact_snapshot(spark, tmp_path)
    assert tamis.Engine.load(tmp_path).match({"price": 42.0}) == before
    assert read_snapshot(spark, tmp_path).where("filter IS NULL").count() == 500


def test_compaction_keeps_tiles_and_summary_and_an_update_leaves_them_out(spark: Any, tmp_path: Path) -> None:
    filters = [(f"s{i}", f"price BETWEEN {i} AND {i + 1 + i % 4}") for i in range(12)]
    subscriptions = accepted(spark, filters)
    reduced = reduce_subscriptions(subscriptions, schema=SCHEMA)
    first = write_snapshot(subscriptions, tmp_path, schema=SCHEMA, tile_by=["price"], tiles=3, summary=reduced)
    second = compact_snapshot(spark, tmp_path)
    cuts = [read_tiles(version, read_manifest(version)) for version in (first, second)]
    assert cuts[0] is not None
    assert cuts[1] is not None
    assert cuts[1].tiling == cuts[0].tiling
    assert read_reduction(second) == reduced.counts
    carried = [sorted(read_summary(spark, version).select("id", "filter").collect()) for version in (first, second)]
    assert carried[0] == carried[1] != []
    frame = spark.createDataFrame([(i, i + 0.5) for i in range(14)], "event_id long, price double")
    assert pairs(match(frame, second)) == pairs(match(frame, first)) != []
    third = update_snapshot(tmp_path, remove=ids(spark, "s1"))
    assert read_manifest(third).beside == {}
    with pytest.raises(SnapshotError, match="or by an update, which leaves it out; reduce the subscriptions and"):
        read_summary(spark, third)
    reduced.release()


def test_versions_that_a_reader_needs_are_not_pruned(spark: Any, tmp_path: Path) -> None:
    write_snapshot(accepted(spark, [("a", "price < 1")]), tmp_path, schema=SCHEMA)
    update_snapshot(tmp_path, add=accepted(spark, [("b", "price < 2")]))
    assert prune_snapshots(tmp_path, keep=1) == []  # the second builds upon the first
    compact_snapshot(spark, tmp_path)
    reader = tamis.Engine.load(tmp_path / "v000002")
    assert prune_snapshots(tmp_path, keep=1) == []  # a reader holds the second
    del reader
    gc.collect()
    assert prune_snapshots(tmp_path, keep=1) == ["v000001", "v000002"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["v000003"]
    with pytest.raises(SnapshotError, match="keep=1 or more"):
        prune_snapshots(tmp_path, keep=0)


def test_a_snapshot_of_another_machine_is_copied(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_snapshot(accepted(spark, [("a", "price < 1")]), tmp_path / "far", schema=SCHEMA)
    version = update_snapshot(tmp_path / "far", add=accepted(spark, [("b", "price < 2")]), remove=ids(spark, "a"))
    assert local_version(version) == version
    monkeypatch.setenv("TAMIS_SNAPSHOT_CACHE", str(tmp_path / "near"))
    monkeypatch.setattr("platform.node", lambda: "elsewhere")
    copy = local_version(version)
    assert copy.is_relative_to(tmp_path / "near")
    assert local_version(version) == copy
    assert tamis.Engine.load(copy).match({"price": 0.5}) == ["b"]


def test_an_update_needs_something_and_ids_of_the_same_kind(spark: Any, tmp_path: Path) -> None:
    write_snapshot(accepted(spark, [("a", "price < 1")]), tmp_path, schema=SCHEMA)
    with pytest.raises(TableError, match="nothing to add and nothing to remove"):
        update_snapshot(tmp_path)
    with pytest.raises(TableError, match="ids of type long, but those of .* are of type string"):
        update_snapshot(tmp_path, remove=spark.range(3))
    with pytest.raises(TableError, match="has no column 'namespace'"):
        write_snapshot(spark.createDataFrame([("a", "price < 1")], "id string, filter string"), tmp_path, schema=SCHEMA)
    assert [path.name for path in tmp_path.iterdir()] == ["v000001"]


def test_a_failed_build_leaves_nothing(spark: Any, tmp_path: Path) -> None:
    broken = accepted(spark, [("a", "price < 1")]).selectExpr(
        "id", "namespace", "'price <' AS filter", "expires", "metadata", "lo", "hi"
    )
    with pytest.raises(Exception, match="subscription 'a': expected a value"):
        write_snapshot(broken, tmp_path, schema=SCHEMA)
    assert list(tmp_path.iterdir()) == []
