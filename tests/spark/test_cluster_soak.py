"""Kills at random moments, over and over, while files arrive and the subscriptions change."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest

from tests.spark.processes import Driver, Family, kill, wait_for
from tests.spark.streams import Streams
from tests.spark.trades import questions

#: How many kills; a kill of the driver costs the start of another.
KILLS = int(os.environ.get("TAMIS_SOAK_KILLS", "60"))
SETTINGS = {"spark_sql_shuffle_partitions": 2}


def wait_until(moment: float) -> None:
    wait_for("the moment", lambda: time.monotonic() >= moment)


class Killer:
    """Kills a process of a family, chosen at random, and counts."""

    def __init__(self, family: Family, chance: random.Random) -> None:
        self._family = family
        self._chance = chance
        self.counts = {"driver": 0, "executor": 0, "worker": 0}

    def choose(self) -> str:
        return self._chance.choices(list(self.counts), weights=[2, 1, 2])[0]

    def strike(self, kind: str, driver: Driver) -> None:
        """Kill one of this kind; when there is none at the moment, nothing."""
        if kind == "driver":
            driver.kill()
        else:
            name = "CoarseGrainedExecutorBackend" if kind == "executor" else "pyspark.daemon"
            if not (found := self._family.members(name)):
                return
            kill(self._chance.choice(found))
        self.counts[kind] += 1


@pytest.mark.soak
@pytest.mark.slow
def test_spark_soak_kills_at_random_moments(tmp_path: Path) -> None:
    chance = random.Random(20260101)
    family, streams = Family(tmp_path / "processes"), Streams(tmp_path / "streams")
    killer = Killer(family, chance)
    streams.publish(questions(200, seed=100))
    streams.add_files(2)
    seed = 100
    while sum(killer.counts.values()) < KILLS:
        with Driver(family, master="local-cluster[2,1,1024]", **SETTINGS) as driver:
            streams.start(driver, "soaked")
            kind = ""
            while kind != "driver" and sum(killer.counts.values()) < KILLS:
                wait_until(time.monotonic() + chance.uniform(0.0, 4.0))
                streams.add_files(chance.randint(0, 3))
                if chance.random() < 0.5:
                    seed += 1
                    streams.publish(questions(200, seed=seed))
                kind = killer.choose()
                killer.strike(kind, driver)
    with Driver(family, master="local-cluster[2,1,1024]", **SETTINGS) as driver:
        streams.start(driver, "soaked")
        driver.call("finish", name="soaked")
        rows = streams.check(driver, "soaked")
    print(f"{killer.counts} kills, {rows:,} rows, versions {len(set(streams.versions_used('soaked').values()))}")
