"""A standalone master with two workers, all on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import tamis
from tests.spark.processes import Driver, DriverError, Standalone, kill, parent_of, wait_for
from tests.spark.streams import Streams
from tests.spark.trades import EVENTS, QUESTIONS, SETTINGS, Tables, engine, expected, matches, pairs, questions

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Standalone, Driver]]:
    with Standalone(tmp_path_factory.mktemp("standalone")) as cluster:
        more = {"spark_executor_memory": "512m", "spark_cores_max": 2, **SETTINGS}
        with Driver(cluster.family, master=cluster.url, **more) as driver:
            yield cluster, driver


def test_a_standalone_cluster_gives_the_rows_of_the_laptop(
    standalone: tuple[Standalone, Driver], tables: Tables
) -> None:
    _, driver = standalone
    assert driver.call(**tables.write())["version"] == "v000001"
    assert pairs(driver.call(**tables.match())) == expected()
    assert matches(tamis.Engine.load(tables.snapshots), EVENTS) == expected()


def test_a_directory_that_executors_do_not_see(standalone: tuple[Standalone, Driver], tables: Tables) -> None:
    cluster, driver = standalone
    private = "/proc/self/cwd/private"  # every process has its own: the driver's is the family's place
    with pytest.raises(DriverError) as caught:
        driver.call(**tables.write(private))
    assert "SnapshotError: " in caught.value.message
    assert f"{private}: is not there for this process; whoever writes a part of a snapshot" in caught.value.message
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
    [held, *_] = wait_for("a held task", lambda: [int(one.name.split("-")[1]) for one in go.glob("task-*")])
    streams.publish(questions(200, seed=11))
    worker = parent_of(parent_of(parent_of(held)))  # held, daemon, executor, worker
    assert worker in [one.pid for one in cluster.workers]
    kill(worker)
    (go / "go").touch()
    driver.call("finish", name="killed")
    streams.check(driver, "killed")
    assert streams.versions_used("killed") == {0: "v000001", 1: "v000002", 2: "v000002"}
