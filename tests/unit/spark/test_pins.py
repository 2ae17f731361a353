"""Pins of micro-batches without Spark: one version and one moment for each batch, and what pruning must keep."""

from __future__ import annotations

from pathlib import Path

import pytest

import tamis
from tamis.errors import SnapshotError
from tamis.model.schema import Schema

pytest.importorskip("pyspark")

from tamis.spark import prune_snapshots
from tamis.spark.matching.pins import pin, pinned_versions
from tamis.spark.running.small_files import DirectoryFiles, small_files

QUERY, OTHER = "11111111-aaaa-4bbb-8ccc-000000000001", "11111111-aaaa-4bbb-8ccc-000000000002"


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    publish(tmp_path)
    return tmp_path


def publish(rules: Path) -> None:
    engine = tamis.Engine(Schema({"x": tamis.Number()}))
    engine.subscribe("x < 1", id="a")
    engine.save(rules)


def pinned(rules: Path, query: str, batch: int, now: int | None = None) -> tuple[str, int]:
    """Return the pin that a worker which has just started reads or makes."""
    pin.cache_clear()
    made = pin(str(rules), f"{rules}/pins", query, batch, now)
    return made.version, made.now


def test_the_first_worker_decides_version_and_moment(rules: Path) -> None:
    assert pinned(rules, QUERY, 0, now=5) == ("v000001", 5)
    publish(rules)
    assert pinned(rules, QUERY, 0, now=6) == ("v000001", 5)
    assert pinned(rules, QUERY, 1, now=6) == ("v000002", 6)
    assert pinned(rules, OTHER, 0, now=7) == ("v000002", 7)
    assert pinned(rules, OTHER, 1)[1] > 1_700_000_000_000_000


def test_of_two_workers_at_a_time_one_decides(rules: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one finds no pin either, and the first one's is there when it creates its own."""
    assert pinned(rules, QUERY, 0, now=5) == ("v000001", 5)
    publish(rules)
    monkeypatch.setattr(DirectoryFiles, "read", lambda files, name: None)
    assert pinned(rules, QUERY, 0, now=6) == ("v000001", 5)


def test_pruning_keeps_the_last_pin_of_each_query(rules: Path) -> None:
    pinned(rules, OTHER, 3)  # v000001
    publish(rules)
    pinned(rules, QUERY, 8)  # v000002
    publish(rules)
    pinned(rules, QUERY, 9)  # v000003
    pinned(rules, QUERY, 10)
    publish(rules)
    assert pinned_versions(f"{rules}/pins") == {"v000001", "v000003"}
    assert prune_snapshots(rules, keep=1) == ["v000002"]
    assert pinned(rules, QUERY, 10)[0] == "v000003"
    small_files(rules).delete([f"pins/{OTHER}/3.json"])  # a query that never starts again
    assert prune_snapshots(rules, keep=1) == ["v000001"]


def test_pins_elsewhere_are_named(rules: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("pins")
    pin.cache_clear()
    pin(str(rules), str(elsewhere), QUERY, 0, None)
    publish(rules)
    assert prune_snapshots(rules, keep=1, pins=[elsewhere]) == []
    assert prune_snapshots(rules, keep=1) == ["v000001"]
    pin.cache_clear()
    with pytest.raises(SnapshotError, match=f"v000001 is gone, and batch 0 of the query {QUERY} is pinned to it"):
        pin(str(rules), str(elsewhere), QUERY, 0, None)


def test_pins_are_removed_that_no_checkpoint_can_ask_for(rules: Path) -> None:
    for batch in (0, 49, 50, 150):
        pinned(rules, QUERY, batch)
    small_files(rules).create("pins/readme.txt", b"of another writer")
    assert pinned_versions(f"{rules}/pins") == {"v000001"}
    assert small_files(f"{rules}/pins").names() == [f"{QUERY}/150.json", f"{QUERY}/50.json", "readme.txt"]
