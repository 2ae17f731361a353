"""Long soaks of take-overs: brokers and databases die in many ways beneath one stream of events."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import pytest

from tests.server.postgres import PostgresServer, needs_postgres, postgres
from tests.server.processes import HANGS, BrokerProcess, wait_until
from tests.server.test_failover import TAKE_OVER_SECONDS, Pair, Relay, Traffic, demand_once, kill, role_of
from tests.soak import state_of_the_tree

__all__ = ["postgres"]

pytestmark = [needs_postgres, pytest.mark.soak]

ROOT = Path(__file__).parents[2]

SEEDS, PARTS = range(200), range(40)

#: Holders that die in each part: 1,000 in all parts.
KILLS = int(os.environ.get("TAMIS_KILLS", "25"))

#: With this number of pauses the 99th percentile means something.
ENOUGH = 100


@dataclass
class Ledger:
    """The seconds for which publishers waited, by the way in which a holder died; of all tests of this code so far."""

    path: Path = field(default_factory=lambda: ROOT / "build" / "soak" / f"{state_of_the_tree(ROOT)}-pauses.jsonl")

    def add(self, way: str, seconds: float) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as file:
            file.write(json.dumps([way, round(seconds, 3)]) + "\n")

    def pauses(self, *ways: str) -> list[float]:
        """All pauses, or those of some ways, the shortest first."""
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        return sorted(seconds for way, seconds in map(json.loads, lines) if not ways or way in ways)

    def demand_what_is_promised(self) -> None:
        """A take-over ends within five seconds in 99 of 100 cases; fewer than 100 pauses are not judged."""
        pauses = self.pauses(*WAYS)
        print(self)
        assert len(pauses) < ENOUGH or _p99(pauses) <= TAKE_OVER_SECONDS

    def __str__(self) -> str:
        lines = []
        for way in (*WAYS, promote.__name__):
            if pauses := self.pauses(way):
                median, last = pauses[len(pauses) // 2], pauses[-1]
                lines.append(f"{way} {len(pauses)}: median {median:.1f} s, p99 {_p99(pauses):.1f} s, most {last:.1f} s")
        return "; ".join(lines)


def _p99(pauses: list[float]) -> float:
    return pauses[min(len(pauses) - 1, int(0.99 * len(pauses)))]


@dataclass
class Scene:
    """A broker with a standby, their database with a replica or without, and all wires to the databases."""

    pair: Pair
    traffic: Traffic
    primary: PostgresServer
    copy: PostgresServer | None
    #: The wires of each process: to the primary, and to the replica.
    relays: list[list[Relay]]

    def holder(self) -> tuple[BrokerProcess, list[Relay]]:
        """The process that serves, while the other one waits, and its wires."""
        process = self.pair.serving()
        wait_until(lambda: sorted(map(role_of, self.pair.processes)) == ["serving", "standby"], "a standby")
        return process, self.relays[self.pair.processes.index(process)]


def kill_holder(scene: Scene) -> None:
    process, _ = scene.holder()
    kill(process, scene.traffic)
    process.start()


def stop_holder(scene: Scene) -> None:
    process, _ = scene.holder()
    assert process.process is not None
    process.process.send_signal(signal.SIGSTOP)
    scene.traffic.wait_for_more()
    process.process.send_signal(signal.SIGCONT)
    assert process.process.wait(HANGS) != 0
    process.start()


def cut_off_holder(scene: Scene) -> None:
    """What it sent before arrives after another broker has taken over."""
    process, relays = scene.holder()
    for relay in relays:
        relay.cut()
    scene.traffic.wait_for_more()
    for relay in relays:
        relay.mend()
    assert process.process is not None
    assert process.process.wait(HANGS) != 0
    process.start()


def promote(scene: Scene) -> None:
    """The primary dies with its disk; its replica has all that was confirmed."""
    assert scene.copy is not None
    scene.holder()
    scene.primary.kill(signal.SIGKILL)
    shutil.rmtree(scene.primary.directory)
    scene.copy.promote()
    scene.traffic.wait_for_more()
    for process in scene.pair.processes:  # one that gave up before is started again, as by a supervisor
        assert process.process is not None
        if process.process.poll() is not None:
            process.start()


WAYS: dict[str, Callable[[Scene], None]] = {way.__name__: way for way in (kill_holder, stop_holder, cut_off_holder)}


@contextlib.contextmanager
def made_scene(directory: Path, primary: PostgresServer, copy: PostgresServer | None) -> Iterator[Scene]:
    servers = [primary] if copy is None else [primary, copy]
    with contextlib.ExitStack() as stack:
        relays = []
        for _ in range(2):
            wires = []
            for server in servers:
                place = Path(tempfile.mkdtemp(prefix="tamis-relay-", dir="/tmp"))
                stack.callback(shutil.rmtree, place, ignore_errors=True)
                wires.append((place, Relay(place, server)))
                stack.callback(wires[-1][1].close)
            relays.append(wires)
        urls = [
            f"postgresql://tamis@/{primary.database}?host={','.join(str(place) for place, _ in wires)}"
            + ("" if copy is None else "&target_session_attrs=read-write")
            for wires in relays
        ]
        pair = Pair(directory, urls[1])
        stack.callback(pair.stop)
        pair.start(first_url=urls[0])
        yield Scene(pair, Traffic(pair.urls), primary, copy, [[relay for _, relay in wires] for wires in relays])


def demand_nothing_lost(scene: Scene, troubles: list[Callable[[Scene], None]], rng: random.Random) -> None:
    """Let troubles come one after another beneath a stream of events, and note how long it paused each time."""
    ledger, traffic = Ledger(), scene.traffic

    def trouble() -> None:
        for way in troubles:
            scene.holder()
            traffic.wait_for_more()
            time.sleep(rng.uniform(0, 0.3))
            count = len(traffic.moments)
            way(scene)
            moments = traffic.moments[count - 1 :]
            ledger.add(way.__name__, max(after - before for before, after in pairwise(moments)))

    asyncio.run(traffic.run(trouble))
    demand_once(traffic)
    ledger.demand_what_is_promised()


@pytest.mark.parametrize("seed", SEEDS)
def test_soak_failover_seeds(postgres: PostgresServer, tmp_path: Path, seed: int) -> None:
    """Holders are killed, stopped and cut off; in every second seed the replica is promoted, too."""
    rng = random.Random(seed)
    troubles = rng.choices(list(WAYS.values()), k=3)
    if seed % 2:
        with made_scene(tmp_path, postgres, None) as scene:
            demand_nothing_lost(scene, troubles, rng)
        return
    troubles.insert(rng.randrange(4), promote)
    primary, copy = PostgresServer(), None
    try:
        copy = primary.make().start().replica()
        with made_scene(tmp_path, primary, copy) as scene:
            demand_nothing_lost(scene, troubles, rng)
    finally:
        primary.remove()
        if copy is not None:
            copy.remove()


@pytest.mark.parametrize("part", PARTS)
def test_soak_failover_kills(postgres: PostgresServer, tmp_path: Path, part: int) -> None:
    """`TAMIS_KILLS` holders (25) are killed or stopped, one after another; 1,000 in all parts."""
    rng = random.Random(27 + part)
    with made_scene(tmp_path, postgres, None) as scene:
        demand_nothing_lost(scene, rng.choices([kill_holder, stop_holder], k=KILLS), rng)
