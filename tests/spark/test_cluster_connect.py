"""Spark Connect: a server in another process, and the same rows."""

from __future__ import annotations

from pathlib import Path

import pytest

import tamis
from tests.spark.processes import Driver, Family
from tests.spark.streams import Streams
from tests.spark.trades import EVENTS, SETTINGS, Tables, expected, matches, pairs, questions

pytestmark = pytest.mark.slow


def test_connect_gives_the_rows_of_the_laptop(tmp_path: Path, tables: Tables) -> None:
    streams = Streams(tmp_path / "streams")
    streams.publish(questions(200, seed=30))
    streams.add_files(2)
    family = Family(tmp_path / "processes")
    with family, Driver(family, remote="local[2]", **SETTINGS) as driver:
        assert driver.call(**tables.write()) == {"version": "v000001", "rejected": 0}
        assert pairs(driver.call(**tables.match())) == expected()
        streams.start(driver, "remote")
        driver.call("finish", name="remote")
        streams.check(driver, "remote")
    assert matches(tamis.Engine.load(tables.snapshots), EVENTS) == expected()
