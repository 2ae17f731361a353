"""Real clusters of real processes, and kills with -9: nothing is lost, nothing comes twice.

A standalone master with two workers, all on loopback, in every run; ``local-cluster`` and the other kills in a soak.
Executors are JVMs of their own with their Python workers in both.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tamis
from tests.spark.processes import Driver, DriverError, Family, Standalone, children_of, kill, parent_of, wait_for
from tests.spark.streams import Streams
from tests.spark.test_spark_docs import check_one_verb, one_verb
from tests.spark.trades import (
    EVENTS,
    FORMS,
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
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Standalone, Driver]]:
    with Standalone(tmp_path_factory.mktemp("standalone")) as cluster:
        # A task may fail once, by a kill. With Spark's four attempts a job that fails starts dozens of Python workers.
        more = {"spark_executor_memory": "512m", "spark_cores_max": 2, "spark_task_maxFailures": 2, **SETTINGS}
        log = cluster.family.place / "events"
        log.mkdir()
        logged = {
            "spark_eventLog_enabled": "true",
            "spark_eventLog_dir": log.as_uri(),
            "spark_eventLog_compress": "false",
        }
        with Driver(cluster.family, master=cluster.url, **more, **logged) as driver:
            yield cluster, driver


@pytest.fixture(scope="module")
def local_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    family = Family(tmp_path_factory.mktemp("local-cluster"))
    with family, Driver(family, master="local-cluster[2,1,1024]", **SETTINGS) as driver:
        yield driver


@pytest.fixture(params=["standalone", pytest.param("local-cluster", marks=pytest.mark.soak)])
def driver(request: pytest.FixtureRequest) -> Driver:
    """The driver of a cluster with two executors."""
    if request.param == "local-cluster":
        return request.getfixturevalue("local_cluster")
    return request.getfixturevalue("standalone")[1]


def hold_command(driver: Driver, command: dict[str, Any], directory: Path) -> int:
    """Send a command and wait until one of its tasks is held; return the process that is."""
    directory.mkdir()
    driver.ask(**command, hold=str(directory))
    [held, *_] = wait_for("a held task", lambda: [int(path.name.split("-")[1]) for path in directory.glob("task-*")])
    assert driver.is_busy()
    return held


def victim(held: int, kind: str) -> int:
    """Return the process to kill: one of the Python workers of the task that is held, or their executor."""
    daemon = parent_of(held)
    if kind == "executor":
        return parent_of(daemon)
    others = [pid for pid in children_of(daemon) if pid != held]  # the matcher, behind the source that is held
    return others[0] if others else held


def test_a_cluster_gives_the_rows_of_the_laptop(driver: Driver, tables: Tables) -> None:
    assert driver.call(**tables.write()) == {"version": "v000001", "rejected": 0}
    assert len(list(Path(tables.snapshots, "v000001").glob("*.arrays"))) == 3  # by three tasks
    assert pairs(driver.call(**tables.match())) == expected()
    forms = driver.call(**tables.verb())
    assert {name: pairs(rows) == expected() for name, rows in forms.items()} == dict.fromkeys(FORMS, True)
    assert matches(tamis.Engine.load(tables.snapshots), EVENTS) == expected()
    assert len(driver.family.members("CoarseGrainedExecutorBackend")) == 2


def test_the_page_runs_on_a_cluster(standalone: tuple[Standalone, Driver]) -> None:
    check_one_verb(standalone[1].call("page", text=one_verb()))


@pytest.mark.parametrize("kind", ["worker", pytest.param("executor", marks=pytest.mark.soak)])
def test_a_kill_while_executors_index_leaves_a_whole_version(driver: Driver, tables: Tables, kind: str) -> None:
    go = tables.place / "hold"
    held = hold_command(driver, tables.write(), go)
    [building] = Path(tables.snapshots).glob(".building-*")
    assert list(building.glob("*.arrays"))  # a part is written, and dies with the process that wrote it
    kill(victim(held, kind))
    (go / "go").touch()
    assert driver.answer()["version"] == "v000001"
    assert [path.name for path in Path(tables.snapshots).iterdir()] == ["v000001"]
    engine = tamis.Engine.load(tables.snapshots)
    assert len(engine) == len(QUESTIONS)
    assert matches(engine, EVENTS) == expected()
    assert len(list(Path(tables.snapshots, "v000001").glob("*.arrays"))) == 3  # none of the attempt that died


@pytest.mark.parametrize("kind", [pytest.param("worker", marks=pytest.mark.soak), "executor"])
def test_a_kill_while_executors_match_changes_no_row(driver: Driver, tables: Tables, kind: str) -> None:
    engine(QUESTIONS, "packed").save(tables.snapshots)
    go = tables.place / "hold"
    held = hold_command(driver, tables.match(), go)
    kill(victim(held, kind))
    (go / "go").touch()
    assert pairs(driver.answer()) == expected()


def test_a_token_is_not_in_the_event_log(standalone: tuple[Standalone, Driver]) -> None:
    cluster, driver = standalone

    def logged() -> list[str]:
        files = [path for path in (cluster.family.place / "events").rglob("*") if path.is_file()]
        return [line for path in files for line in path.read_text().splitlines()]

    before = sum("SQLExecutionStart" in line for line in logged())
    assert "127.0.0.1:9" in driver.call("confide", token="confidential-0123")
    lines = logged()
    assert sum("SQLExecutionStart" in line for line in lines) > before  # the plan with the token's sink is there
    assert not [line for line in lines if "confidential-0123" in line]


def test_a_directory_that_executors_do_not_see(standalone: tuple[Standalone, Driver], tables: Tables) -> None:
    cluster, driver = standalone
    private = "/proc/self/cwd/private"  # every process has its own: the driver's is the family's place
    with pytest.raises(DriverError) as caught:
        driver.call(**tables.write(private))
    assert "SnapshotError: " in caught.value.message
    assert f"{private}: this process cannot see the directory; every process that writes a part" in caught.value.message
    assert not list((cluster.family.place / "private").iterdir())  # nothing half done
    engine(QUESTIONS, "packed").save(cluster.family.place / "private")
    with pytest.raises(DriverError) as caught:
        driver.call(**tables.match(private))
    assert f"SnapshotError: {private}/v000001/manifest.json: cannot be read: No such file" in caught.value.message


def test_a_worker_killed_under_a_stream(standalone: tuple[Standalone, Driver], tmp_path: Path) -> None:
    cluster, driver = standalone
    streams = Streams(tmp_path)
    streams.publish(questions(200, seed=10))
    streams.add_files(3)
    go = tmp_path / "hold"
    go.mkdir()
    streams.start(driver, "killed", hold=str(go))
    [held, *_] = wait_for("a held task", lambda: [int(path.name.split("-")[1]) for path in go.glob("task-*")])
    streams.publish(questions(200, seed=11))
    worker = parent_of(parent_of(parent_of(held)))  # held, daemon, executor, worker
    assert worker in [process.pid for process in cluster.workers]
    kill(worker)
    (go / "go").touch()
    driver.call("finish", name="killed")
    streams.check(driver, "killed")
    assert streams.versions_used("killed") == {0: "v000001", 1: "v000002", 2: "v000002"}


@pytest.mark.soak
@pytest.mark.parametrize("sink", ["parquet", "table", "foreach"])
def test_an_executor_killed_under_a_sink_of_spark(
    standalone: tuple[Standalone, Driver], tmp_path: Path, sink: str
) -> None:
    _, driver = standalone
    streams = Streams(tmp_path)
    streams.publish(questions(200, seed=12))
    streams.add_files(3)
    go = tmp_path / "hold"
    go.mkdir()
    streams.start_own(driver, sink, hold=str(go))
    [held, *_] = wait_for("a held task", lambda: [int(path.name.split("-")[1]) for path in go.glob("task-*")])
    streams.publish(questions(200, seed=13))
    kill(victim(held, "executor"))
    (go / "go").touch()
    driver.call("finish", name=sink)
    assert streams.check_own(driver, sink) == {0: "v000001", 1: "v000002"}


def test_the_tables_are_worth_the_comparison() -> None:
    """Rows match and rows do not, some events are bad, and two sets of questions have different answers."""
    pairs = expected()
    assert len(pairs) > 10_000
    assert len({event for event, _ in pairs}) < len(EVENTS) - len(bad_events(EVENTS))
    assert bad_events(EVENTS)
    few: pa.Table = trades(100, seed=3)
    assert matches(engine(questions(200, seed=10)), few) != matches(engine(questions(200, seed=11)), few)
