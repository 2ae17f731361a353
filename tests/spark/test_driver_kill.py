"""Streams whose driver is killed with -9: another driver begins where it was, and every event is processed once.

One driver has ten streams. Four of them are held at known places of a batch and one in a task; four go into sinks of
Spark's own, with some rows of a batch written and others not; the last goes through a broker, which is killed as well.
The session that all tests share takes them up: a start of Spark costs ten seconds.
"""

from __future__ import annotations

import os
import signal
import time
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
#: Sinks of Spark: two that list their files, and a function of batches, killed in a task and after it wrote its rows.
OWN_SINKS = ("parquet", "table", "foreach", "kept")
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
        with Driver(Family(place / "processes"), master="local[8]", **SETTINGS) as driver:
            hold_streams(driver, streams, place)
            hold_own_streams(driver, streams, place)
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


def hold_own_streams(driver: Driver, streams: Streams, place: Path) -> None:
    """Start a stream into each sink of Spark's own; wait until some rows of its first batch are out, others not."""
    for sink in OWN_SINKS:
        aside = place / f"hold-{sink}"
        aside.mkdir()
        streams.start_own(driver, sink, hold=str(aside))
        wait_for(f"a hold of {sink}", lambda aside=aside: list(aside.glob("*-*")))
        wait_for(f"a file of {sink}", lambda sink=sink: streams.own_files(sink))


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


@pytest.mark.parametrize("sink", OWN_SINKS)
def test_a_driver_killed_under_a_sink_of_spark(left: Left, heir: Heir, sink: str) -> None:
    left.streams.start_own(heir, sink)
    heir.call("finish", name=sink)
    # The first worker of batch 0 had written down its version before the driver died.
    assert left.streams.check_own(heir, sink) == {0: "v000001", 1: "v000002"}


@pytest.mark.soak
@pytest.mark.parametrize("sink", ["parquet", "table"])
def test_a_driver_killed_between_a_sink_and_the_note_of_spark(heir: Heir, tmp_path: Path, sink: str) -> None:
    """The sink has listed the files of a batch, and Spark has not noted that the batch is done."""
    streams = Streams(tmp_path / "streams")
    streams.publish(questions(200, seed=22))
    streams.add_files(60)
    with Driver(Family(tmp_path / "processes"), master="local[2]", **SETTINGS) as driver:
        streams.start_own(driver, sink, files=1)
        [java] = driver.family.members("SparkSubmit")
        batch = next(batch for batch in range(60) if is_stopped_between(java, streams, sink, batch))
        driver.kill()
    assert streams.logged(sink, batch) == (True, False)
    streams.publish(questions(200, seed=23))
    streams.start_own(heir, sink, files=1)
    heir.call("finish", name=sink)
    used = streams.check_own(heir, sink)
    assert (used[batch], used[max(used)]) == ("v000001", "v000002")


def is_stopped_between(java: int, streams: Streams, sink: str, batch: int) -> bool:
    """Stop the driver when the sink has listed a batch; let it go on if Spark has noted the batch by then."""
    deadline = time.monotonic() + 240
    while not streams.logged(sink, batch)[0]:  # without a pause: the window has a few milliseconds
        assert time.monotonic() < deadline
    os.kill(java, signal.SIGSTOP)
    if not streams.logged(sink, batch)[1]:
        return True
    os.kill(java, signal.SIGCONT)
    return False


def test_every_event_is_processed_once_whichever_process_is_killed(left: Left, heir: Heir) -> None:
    left.kitchen.start(heir)
    left.kitchen.check(heir, COOKED)


@pytest.mark.soak
def test_soak_of_the_broker_under_spark(tmp_path: Path) -> None:
    """Kills of the broker and of the driver in turns, 28 in all."""
    n, publishing = 6_000, None
    with running(BrokerProcess(tmp_path / "broker")) as (broker,), tamis.connect(broker.url, client="eve") as client:
        kitchen = Kitchen(tmp_path, broker, client)
        for start in range(0, 5_600, 400):
            with Driver(Family(tmp_path / f"driver-{start}"), master="local[2]") as driver:
                kitchen.start(driver)
                publishing = publishing or kitchen.publish(n)
                kitchen.hear(start + 200)
                kitchen.restart_broker()
                kitchen.hear(start + 400)
        with Driver(Family(tmp_path / "last"), master="local[2]") as driver:
            kitchen.start(driver)
            kitchen.check(driver, n)
            publishing.join()
