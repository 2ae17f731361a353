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
SETTINGS = {"master": "local-cluster[2,1,1024]", "spark_sql_shuffle_partitions": 2, "spark_task_maxFailures": 100}


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
            if not (victims := self._family.members(name)):
                return
            kill(self._chance.choice(victims))
        self.counts[kind] += 1


class Soak:
    """A stream that is never left in peace."""

    def __init__(self, place: Path) -> None:
        self._chance = random.Random(20260101)
        self.family, self.streams = Family(place / "processes"), Streams(place / "streams")
        self.killer = Killer(self.family, self._chance)
        self._seed = 100
        self._publish()

    @property
    def is_over(self) -> bool:
        return sum(self.killer.counts.values()) >= KILLS

    def disturb(self, driver: Driver) -> str:
        """Add events and perhaps a version, let the stream come a few steps further, and kill; say what."""
        goal = self.streams.steps("soaked") + self._chance.randint(1, 3)
        self.streams.add_files(self._chance.randint(1, 3))
        if self._chance.random() < 0.5:
            self._publish()
        wait_for("a step of the stream", lambda: self.streams.steps("soaked") >= goal)
        wait_until(time.monotonic() + self._chance.uniform(0.0, 0.5))
        kind = self.killer.choose()
        self.killer.strike(kind, driver)
        return kind

    def _publish(self) -> None:
        self._seed += 1
        self.streams.publish(questions(200, seed=self._seed))


@pytest.mark.soak
@pytest.mark.slow
def test_spark_soak_kills_at_random_moments(tmp_path: Path) -> None:
    soak = Soak(tmp_path)
    while not soak.is_over:
        with Driver(soak.family, **SETTINGS) as driver:
            soak.streams.start(driver, "soaked")
            while not soak.is_over and soak.disturb(driver) != "driver":
                continue
    with Driver(soak.family, **SETTINGS) as driver:
        soak.streams.start(driver, "soaked")
        driver.call("finish", name="soaked")
        rows = soak.streams.check(driver, "soaked")
    used = soak.streams.versions_used("soaked")
    print(f"kills {soak.killer.counts}, {rows:,} rows, {len(used)} batches, {len(set(used.values()))} versions")
