"""Streams whose driver is killed with -9: another driver begins where it was, and every event is processed once.

One driver has six streams. Four of them are held at known places of a batch and one in a task; the sixth goes through
a broker, which is killed as well. The session that all tests share takes them up: a start of Spark costs ten seconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import tamis
from tests.server.processes import BrokerProcess, running
from tests.spark.driver import PLACES, Commands
from tests.spark.kitchen import Kitchen
from tests.spark.processes import Driver, Family, wait_for
from tests.spark.streams import Streams
from tests.spark.trades import SETTINGS, questions

pytestmark = pytest.mark.slow

#: Events through the broker; the broker is killed when 60 came out, the driver when 160 did.
COOKED = 280
#: The setting that commands change.
BATCH_SIZE = "spark.sql.execution.arrow.maxRecordsPerBatch"


@dataclass(frozen=True)
class Left:
    """What a driver that was killed leaves behind."""

    streams: Streams
    kitchen: Kitchen


class Heir:
    """The shared session behind the commands of a driver process."""

    def __init__(self, spark: Any) -> None:
        self._commands = Commands(spark)

    def call(self, do: str, **arguments: Any) -> Any:
        """Do a command and return its answer."""
        return getattr(self._commands, do)(**arguments)


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Left]:
    place = tmp_path_factory.mktemp("killed")
    streams = Streams(place / "streams")
    streams.publish(questions(200, seed=20))
    streams.add_files(3)
    with running(BrokerProcess(place / "broker")) as (broker,), tamis.connect(broker.url, client="eve") as client:
        kitchen = Kitchen(place, broker, client)
        with Driver(Family(place / "processes"), master="local[4]", **SETTINGS) as driver:
            hold_streams(driver, streams, place)
            kitchen.start(driver)
            publishing = kitchen.publish(COOKED)
            kitchen.hear(60)
            kitchen.restart_broker()
            kitchen.hear(160)
            streams.check_held()
            driver.kill()
        publishing.join()
        streams.publish(questions(200, seed=21))
        yield Left(streams, kitchen)


def hold_streams(driver: Driver, streams: Streams, place: Path) -> None:
    """Start five streams and wait until each of them is held at the place it is named after."""
    go, torn = place / "hold", place / "torn"
    go.mkdir()
    torn.mkdir()
    driver.call("hold_stream", batch=1, directory=str(go))
    for name in PLACES:
        streams.start(driver, name)
    for name in PLACES:
        wait_for(name, lambda name=name: list(go.glob(f"{name}-*")))
    streams.start(driver, "torn", hold=str(torn))
    wait_for("a held task", lambda: list(torn.glob("task-*")))


@pytest.fixture(scope="module")
def heir(spark: Any) -> Iterator[Heir]:
    size = spark.conf.get(BATCH_SIZE)
    yield Heir(spark)
    spark.conf.set(BATCH_SIZE, size)


@pytest.mark.parametrize("name", [*PLACES, "torn"])
def test_a_driver_killed_at_every_place_begins_again_where_it_was(left: Left, heir: Heir, name: str) -> None:
    left.streams.start(heir, name)
    heir.call("finish", name=name)
    used = {0: "v000001", 1: "v000002" if name == "torn" else "v000001", 2: "v000002"}
    assert left.streams.versions_used(name) == used
    left.streams.check(heir, name)


@pytest.mark.soak
def test_a_driver_killed_under_a_sink_of_spark(heir: Heir, tmp_path: Path) -> None:
    streams, own = Streams(tmp_path / "streams"), tmp_path / "hold"
    streams.publish(questions(200, seed=22))
    streams.add_files(2)
    own.mkdir()
    with Driver(Family(tmp_path / "processes"), master="local[2]", **SETTINGS) as driver:
        streams.start_own(driver, "own", hold=str(own))
        wait_for("a held task", lambda: list(own.glob("task-*")))
        driver.kill()
    streams.publish(questions(200, seed=23))
    streams.start_own(heir, "own")
    heir.call("finish", name="own")
    # The first worker of batch 0 had written down its version before the driver died.
    assert streams.check_own(heir, "own") == {0: "v000001", 1: "v000002"}


def test_every_event_is_processed_once_whoever_is_killed(left: Left, heir: Heir) -> None:
    left.kitchen.start(heir)
    left.kitchen.check(heir, COOKED)


@pytest.mark.soak
def test_soak_of_the_broker_under_spark(tmp_path: Path) -> None:
    """Kills of the broker and of the driver in turns, 28 in all."""
    n, publishing = 6_000, None
    with running(BrokerProcess(tmp_path / "broker")) as (broker,), tamis.connect(broker.url, client="eve") as client:
        kitchen = Kitchen(tmp_path, broker, client)
        for heard in range(0, 5_600, 400):
            with Driver(Family(tmp_path / f"driver-{heard}"), master="local[2]") as driver:
                kitchen.start(driver)
                publishing = publishing or kitchen.publish(n)
                kitchen.hear(heard + 200)
                kitchen.restart_broker()
                kitchen.hear(heard + 400)
        with Driver(Family(tmp_path / "last"), master="local[2]") as driver:
            kitchen.start(driver)
            kitchen.check(driver, n)
            publishing.join()
