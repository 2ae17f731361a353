"""What one hostile tenant costs the others: ``python -m tests.attacks.load --idle 5000 --active 500 --tenants 1000``.

A broker that demands tokens serves idle connections and active ones, each of a tenant. An active client publishes an
event and waits for its delivery; the time between is its latency. Rounds without and with the hostile tenant alternate.
The hostile one sends batches of costly subscriptions, trials, explanations, batches of events, long pages and frames
that are none. Printed: the 99th percentiles of both kinds of rounds, the median of their ratios, and how each kind of
attack was answered. The goal is a ratio below 1.2.

The idle clients and the attacker have a process of their own: an active client that waits for the interpreter of the
attacker, or for the garbage collection of thousands of idle ones, would blame the broker. With ``--niceness 19`` they
leave the cores to the others, as if they were other machines.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import gc
import itertools
import multiprocessing
import os
import random
import resource
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

from websockets.exceptions import WebSocketException
from websockets.sync.client import connect as connect_socket

import tamis
from tamis.runtime.broker.tokens import Tokens
from tests.attacks.callers import Guarded, guarded_broker
from tests.server.processes import HANGS, ask

COSTLY = " AND ".join(f"(V_WITHIN(w{i}, (1, 2), 1) OR b{i} = 2)" for i in range(8))

LIMITS = "max_connections = 20000\nmax_connections_of_address = 20000\n"


@dataclasses.dataclass(frozen=True)
class Size:
    """How many connections and tenants there are, how many rounds of each kind, and how long a round is.

    The idle clients and the attacker run with ``niceness``.
    """

    idle: int = 50
    active: int = 20
    tenants: int = 20
    rounds: int = 10
    seconds: float = 3.0
    niceness: int = 0


@dataclasses.dataclass
class Figures:
    """The 99th percentiles of the rounds in seconds, without and with the hostile tenant, and what was counted."""

    quiet: list[float] = dataclasses.field(default_factory=list)
    hostile: list[float] = dataclasses.field(default_factory=list)
    events: int = 0
    #: How often each kind of attack was answered with which status; -1: the connection was closed.
    answers: Counter[tuple[str, int]] = dataclasses.field(default_factory=Counter)

    @property
    def ratio(self) -> float:
        """The median of the ratios of neighbouring rounds."""
        return statistics.median(bad / good for good, bad in zip(self.quiet, self.hostile, strict=True))


class Attacker:
    """What one hostile tenant does; a broker makes its next request wait."""

    def __init__(self, url: str, token: str) -> None:
        self._url, self._token = url, token

    def attack_while(self, is_active: Event, ends: Event) -> Counter[tuple[str, int]]:
        """Attack, with pauses, until ``ends``; return how often each kind was answered with which status."""
        answers: Counter[tuple[str, int]] = Counter()
        kinds = [self._subscribe, self._try, self._publish, self._explain, self._list, self._send_frames]
        for number in itertools.count():
            is_active.wait()
            if ends.is_set():
                break
            attack = kinds[number % len(kinds)]
            try:
                status = attack(number)
            except (OSError, WebSocketException):
                status = -1
            answers[attack.__name__.strip("_"), status] += 1
        return answers

    def _ask(self, path: str, *request: Any, **headers: str) -> int:
        return ask(self._url + path, *request, Authorization=f"Bearer {self._token}", **headers).status

    def _subscribe(self, number: int) -> int:
        batch = [{"filter": f"{COSTLY} OR n = {k}", "namespace": "eve", "id": f"{number}-{k}"} for k in range(10)]
        return self._ask("/v1/subscriptions", "POST", batch)

    def _try(self, number: int) -> int:
        return self._ask("/v1/trial", "POST", {"filter": COSTLY, "namespace": "eve"})

    def _publish(self, number: int) -> int:
        lines = b"".join(b'{"n": %d, "w%d": [1, 2]}\n' % (k % 10, k % 8) for k in range(10_000))
        return self._ask("/v1/events?namespace=eve", "POST", lines, Content_Type="application/x-ndjson")

    def _explain(self, number: int) -> int:
        return self._ask("/v1/explain", "POST", {"filter": COSTLY, "event": {"b1": 2}, "namespace": "eve"})

    def _list(self, number: int) -> int:
        return self._ask("/v1/subscriptions?namespace=eve&limit=1000")

    def _send_frames(self, number: int) -> int:
        address = f"{self._url.replace('http', 'ws', 1)}/v1/connect?client=eve{number % 3}"
        with connect_socket(address, additional_headers={"Authorization": f"Bearer {self._token}"}) as connection:
            connection.send(random.Random(number).randbytes(50_000))
            connection.recv(HANGS)
        return -1


class Surroundings:
    """The process beside the active clients: idle connections, and the attacker in a thread."""

    def __init__(self, url: str, secrets: Mapping[str, str], size: Size) -> None:
        spawning = multiprocessing.get_context("spawn")
        self.is_active, self._ends = spawning.Event(), spawning.Event()
        self._answers, answers = spawning.Pipe()
        tokens = [secrets[f"t{number % size.tenants}"] for number in range(size.idle)]
        arguments = (size.niceness, url, tokens, secrets["eve"], self.is_active, self._ends, answers)
        self._process = spawning.Process(target=_surround, args=arguments, daemon=True)
        self._process.start()
        answers.close()
        self._answers.recv()  # all are connected; EOFError: the process failed, and has said why

    def stop(self) -> Counter[tuple[str, int]]:
        """End the process; return how the attacks were answered."""
        self._ends.set()
        self.is_active.set()
        answers: Counter[tuple[str, int]] = self._answers.recv()
        self._process.join(HANGS)
        return answers


def _surround(
    niceness: int, url: str, idle: list[str], hostile: str, is_active: Event, ends: Event, answers: Connection
) -> None:
    os.nice(niceness)
    asyncio.run(_surround_until(Attacker(url, hostile), url, idle, is_active, ends, answers))


async def _surround_until(
    attacker: Attacker, url: str, idle: list[str], is_active: Event, ends: Event, answers: Connection
) -> None:
    async with contextlib.AsyncExitStack() as stack:
        for number, token in enumerate(idle):
            await stack.enter_async_context(tamis.connect(url, token=token, client=f"idle{number}"))
        gc.freeze()
        answers.send(None)
        answers.send(await asyncio.to_thread(attacker.attack_while, is_active, ends))


async def measure(guarded: Guarded, size: Size) -> Figures:
    """Connect everything, and take rounds of both kinds in turn."""
    figures, url = Figures(), guarded.broker.url
    surroundings = await asyncio.to_thread(Surroundings, url, guarded.secrets, size)
    async with contextlib.AsyncExitStack() as stack:
        clients = []
        for number in range(size.active):
            tenant = f"t{number % size.tenants}"
            client = await stack.enter_async_context(
                tamis.connect(url, token=guarded.secrets[tenant], client=f"active{number}")
            )
            matches = await client.subscribe(f"to = {number}", namespace=tenant)
            clients.append((client, matches, tenant, number))
        gc.freeze()
        for _ in range(size.rounds):
            for is_hostile, figure in ((False, figures.quiet), (True, figures.hostile)):
                (surroundings.is_active.set if is_hostile else surroundings.is_active.clear)()
                end = time.monotonic() + size.seconds
                latencies = [
                    latency for many in await asyncio.gather(*(_active(*c, end) for c in clients)) for latency in many
                ]
                figures.events += len(latencies)
                figure.append(statistics.quantiles(latencies, n=100, method="inclusive")[98])
    figures.answers = await asyncio.to_thread(surroundings.stop)
    return figures


async def _active(
    client: tamis.Client, matches: tamis.ClientSubscription, tenant: str, number: int, end: float
) -> list[float]:
    """Publish and receive until the round ends; return the latencies. At least two events are sent."""
    latencies: list[float] = []
    await asyncio.sleep(number % 100 / 100)
    while time.monotonic() < end or len(latencies) < 2:
        start = time.perf_counter()
        await client.publish({"to": number}, namespace=tenant)
        delivery = await anext(matches)
        latencies.append(time.perf_counter() - start)
        await delivery.ack()
        await asyncio.sleep(1.0)
    return latencies


@contextlib.contextmanager
def crowded_broker(directory: Path, size: Size) -> Iterator[Guarded]:
    """Run a broker with a token for each tenant, and one for the hostile tenant."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with guarded_broker(directory, LIMITS) as guarded:
        assert isinstance(guarded.tokens, Tokens)
        for name in ("eve", *(f"t{number}" for number in range(size.tenants))):
            guarded.add(name, namespaces=(name,))
        yield guarded


def main() -> int:
    """Run from the command line; return the exit code."""
    parser = argparse.ArgumentParser(description="What one hostile tenant costs the others.")
    for field in dataclasses.fields(Size):
        parser.add_argument(f"--{field.name}", type=type(field.default), default=field.default)
    size = Size(**vars(parser.parse_args()))
    with tempfile.TemporaryDirectory() as directory, crowded_broker(Path(directory), size) as guarded:
        figures = asyncio.run(measure(guarded, size))
    print(f"{size.idle} idle, {size.active} active, {size.tenants} tenants: {figures.events} events")
    print(f"p99 quiet   {statistics.median(figures.quiet) * 1e3:.1f} ms")
    print(f"p99 hostile {statistics.median(figures.hostile) * 1e3:.1f} ms, {figures.answers.total()} attacks")
    for (kind, status), count in sorted(figures.answers.items()):
        print(f"  {kind}: {count} times {status}")
    print(f"ratio       {figures.ratio:.2f}, the goal is below 1.2")
    return 0


if __name__ == "__main__":
    sys.exit(main())
