"""Real clusters of real processes, and kills with -9: nothing is lost, nothing comes twice.

Here: ``local-cluster``, two executors that are JVMs of their own with their Python workers.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tamis
from tests.spark.processes import Driver, Family, children_of, kill, parent_of, wait_for
from tests.spark.trades import (
    EVENTS,
    QUESTIONS,
    SETTINGS,
    Tables,
    bad_events,
    engine,
    expected,
    matches,
    pairs,
    questions,
    trades,
)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def local_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    family = Family(tmp_path_factory.mktemp("local-cluster"))
    with family, Driver(family, master="local-cluster[2,1,1024]", **SETTINGS) as driver:
        yield driver


def hold_command(driver: Driver, command: dict[str, Any], directory: Path) -> int:
    """Send a command and wait until one of its tasks is held; return the process that is."""
    directory.mkdir()
    driver.ask(**command, hold=str(directory))
    [held, *_] = wait_for("a held task", lambda: [int(one.name.split("-")[1]) for one in directory.glob("task-*")])
    assert driver.is_busy()
    return held


def victim(held: int, kind: str) -> int:
    """Return the process to kill: one of the Python workers of the task that is held, or their executor."""
    daemon = parent_of(held)
    if kind == "executor":
        return parent_of(daemon)
    others = [pid for pid in children_of(daemon) if pid != held]  # the matcher, behind the source that is held
    return others[0] if others else held


def test_a_local_cluster_gives_the_rows_of_the_laptop(local_cluster: Driver, tables: Tables) -> None:
    assert local_cluster.call(**tables.write()) == {"version": "v000001", "rejected": 0}
    assert len(list(Path(tables.snapshots, "v000001").glob("*.arrays"))) == 3  # by three tasks
    assert pairs(local_cluster.call(**tables.match())) == expected()
    assert matches(tamis.Engine.load(tables.snapshots), EVENTS) == expected()
    assert len(local_cluster.family.members("CoarseGrainedExecutorBackend")) == 2


@pytest.mark.parametrize("kind", ["worker", "executor"])
def test_a_kill_while_executors_index_leaves_a_whole_version(local_cluster: Driver, tables: Tables, kind: str) -> None:
    go = tables.place / "hold"
    held = hold_command(local_cluster, tables.write(), go)
    [building] = Path(tables.snapshots).glob(".building-*")
    assert list(building.glob("*.arrays"))  # a part is written, and dies with the process that wrote it
    kill(victim(held, kind))
    (go / "go").touch()
    assert local_cluster.answer()["version"] == "v000001"
    assert [one.name for one in Path(tables.snapshots).iterdir()] == ["v000001"]
    found = tamis.Engine.load(tables.snapshots)
    assert len(found) == len(QUESTIONS)
    assert matches(found, EVENTS) == expected()
    assert len(list(Path(tables.snapshots, "v000001").glob("*.arrays"))) == 3  # none of the attempt that died


@pytest.mark.parametrize("kind", ["worker", "executor"])
def test_a_kill_while_executors_match_changes_no_row(local_cluster: Driver, tables: Tables, kind: str) -> None:
    engine(QUESTIONS, "packed").save(tables.snapshots)
    go = tables.place / "hold"
    held = hold_command(local_cluster, tables.match(), go)
    kill(victim(held, kind))
    (go / "go").touch()
    assert pairs(local_cluster.answer()) == expected()


def test_the_tables_are_worth_the_comparison() -> None:
    """Rows match and rows do not, some events are bad, and two sets of questions have different answers."""
    found = expected()
    assert len(found) > 10_000
    assert len({event for event, _ in found}) < len(EVENTS) - len(bad_events(EVENTS))
    assert bad_events(EVENTS)
    few: pa.Table = trades(100, seed=3)
    assert matches(engine(questions(200, seed=10)), few) != matches(engine(questions(200, seed=11)), few)
