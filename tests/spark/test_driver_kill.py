"""The driver of a stream, killed at every place and started again from its checkpoint."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spark.processes import Driver, Family, wait_for
from tests.spark.streams import Streams
from tests.spark.trades import SETTINGS, questions

pytestmark = pytest.mark.slow


def test_a_driver_killed_at_every_place_begins_again_where_it_was(tmp_path: Path) -> None:
    """Five streams, each held at another place when the driver is killed; then another driver takes over."""
    streams, go, torn = Streams(tmp_path / "streams"), tmp_path / "hold", tmp_path / "torn"
    go.mkdir()
    torn.mkdir()
    streams.publish(questions(200, seed=20))
    streams.add_files(3)
    places = ["begun", "written", "placed", "reported"]
    with Family(tmp_path / "processes") as family:
        with Driver(family, master="local[3]", **SETTINGS) as driver:
            driver.call("hold_stream", batch=1, directory=str(go))
            for name in places:
                streams.start(driver, name)
            for name in places:
                wait_for(name, lambda name=name: list(go.glob(f"{name}-*")))
            streams.start(driver, "torn", hold=str(torn))
            wait_for("a held task", lambda: list(torn.glob("task-*")))
            streams.check_held()
            driver.kill()
        streams.publish(questions(200, seed=21))
        with Driver(family, master="local[3]", **SETTINGS) as driver:
            for name in [*places, "torn"]:
                streams.start(driver, name)
                driver.call("finish", name=name)
                used = {0: "v000001", 1: "v000002" if name == "torn" else "v000001", 2: "v000002"}
                assert streams.versions_used(name) == used
                streams.check(driver, name)
