"""The benchmark of a network: events per second, processor time, subscriptions, bytes, memory and latency by hops.

All subscriptions are at the homes of a topology and events enter elsewhere, so that every delivery crosses links. The
same subscriptions and events go through one broker first: each figure of a network is given with its ratio to that.
What arrives is compared with an oracle, copy by copy, and a run with a wrong copy ends without a figure.

Events per second and processor time are those of *drawn* events, most of which match nothing when there are few
subscriptions; the last of growing rounds counts. Latencies are those of *aimed* events, at a rate that leaves the
brokers idle most of the time: what a hop costs, not how long a queue is.
"""

from __future__ import annotations

import asyncio
import gc
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from tamis.errors import InvariantError
from tamis.routing import messages as m
from tamis.runtime.client.connecting import connect
from tamis_bench.network.brokers import RunningNetwork, running
from tamis_bench.network.topology import ONE_BROKER, TOPOLOGIES, BrokerTree
from tamis_bench.rows import Row, find_goal
from tamis_bench.serving.clients import Arrivals, ReaderClient, subscribe_message
from tamis_bench.serving.publishing import FRAME, FRAMES, Audience, Run
from tamis_bench.workloads.network import NetworkWork, make_network_work

__all__ = ["POLICIES", "NetworkLoad", "measure_network"]

#: The policies that are measured, of those that links may have.
POLICIES: Final = ("covering", "merging", "mics", "two-stage", "flood")

#: Subscriptions of each reader that are loaded before the clock starts: brokers compile and load kernels with them.
_WARM_UP: Final = 32

#: Events of the first round; each round has four times as many as the one before.
_FIRST_ROUND: Final = 64

#: Processor time of a round below which its figures are too coarse: the system counts in steps of 10 ms.
_FINE: Final = 0.2


@dataclass(frozen=True)
class NetworkLoad:
    """How much is measured, and for how long."""

    readers: int = 8
    #: Drawn events at most, and seconds after which no longer round is begun.
    events: int = 20_000
    seconds: float = 2.0
    #: Aimed events per second, at most.
    rate: float = 300.0
    #: Seconds within which the subscriptions must be active.
    patience: float = 120.0

    @property
    def n_aimed(self) -> int:
        """The number of aimed events, at most."""
        return max(1, int(self.rate * self.seconds))


@dataclass(frozen=True)
class Figure:
    """A measured value under the name of its `tamis_bench.rows.Measure`; None with a note that says why."""

    what: str
    value: float | None
    note: str = ""


@dataclass
class Workload:
    """Everything that is the same for all networks of one kind and size."""

    work: NetworkWork
    messages: list[m.Subscribe]
    #: Event and reader of each copy.
    events: np.ndarray[tuple[int], np.dtype[np.int64]]
    readers: np.ndarray[tuple[int], np.dtype[np.int64]]

    @classmethod
    def make(cls, kind: str, n: int, load: NetworkLoad) -> Workload:
        """Make subscriptions and events, and ask the oracle for the copies: one per event and reader (promise G8)."""
        work = make_network_work(kind, n, load.events, load.n_aimed)
        events, rows = work.find_pairs(work.events)
        copies = np.unique(np.stack([events, rows % load.readers], axis=1), axis=0)
        messages = [subscribe_message(id, text) for id, text in enumerate(work.texts)]
        return cls(work, messages, copies[:, 0], copies[:, 1])

    def copies(self, readers: Sequence[int]) -> list[int]:
        """Return how many copies each event of the pool has for some readers together."""
        counts = np.bincount(self.events[np.isin(self.readers, readers)], minlength=len(self.work.events))
        return [int(count) for count in counts]


def measure_network(
    kinds: Sequence[str],
    sizes: Sequence[int],
    topologies: Sequence[str],
    policies: Sequence[str],
    load: NetworkLoad,
    say: Callable[[str], None] = lambda text: None,
) -> Iterator[Row]:
    """Yield a row for every number: one broker first, then each topology with each policy; ``say`` reports progress."""
    too_slow = set[tuple[str, str]]()
    for kind in kinds:
        for n in sizes:
            say(f"{kind}, {n:,} subscriptions: asking the oracle")
            workload = Workload.make(kind, n, load)
            base: dict[str, float] = {}
            for topology, policy in _networks(topologies, policies):
                system = f"{topology.name} {policy}".strip()
                if (kind, system) in too_slow:
                    yield Row(kind, n, system, "network load", None, note="left out: too slow with fewer subscriptions")
                    continue
                say(f"{kind}, {n:,} subscriptions: {system}")
                figures = _measure(workload, topology, policy or "covering", load)
                if figures[0].value is None:
                    too_slow.add((kind, system))
                if topology is ONE_BROKER:
                    base = {figure.what: figure.value for figure in figures if figure.value}
                yield from (_row(kind, n, system, figure, base) for figure in figures)


def _networks(topologies: Sequence[str], policies: Sequence[str]) -> Iterator[tuple[BrokerTree, str]]:
    yield ONE_BROKER, ""
    for name in topologies:
        for policy in policies:
            yield TOPOLOGIES[name], policy


def _row(kind: str, n: int, system: str, figure: Figure, base: dict[str, float]) -> Row:
    reference = base.get(_base_of(figure.what))
    ratio = None if reference is None or figure.value is None else figure.value / reference
    return Row(kind, n, system, figure.what, figure.value, ratio, find_goal(figure.what, kind, n), figure.note)


def _base_of(what: str) -> str:
    """Return the measure of one broker that a measure of a network is compared with.

    >>> [_base_of(what) for what in ("network", "network cpu home", "network p99 3 hops")]
    ['network', 'network cpu', 'network p99 0 hops']
    """
    name, *words = what.split()
    if words[-1:] == ["hops"]:
        return f"{name} {words[0]} 0 hops"
    return " ".join([name, *words[:1]])


def _measure(workload: Workload, topology: BrokerTree, policy: str, load: NetworkLoad) -> list[Figure]:
    with running(topology, policy, workload.work.schema, len(workload.messages)) as network:
        try:
            return asyncio.run(_run(network, workload, load))
        finally:
            gc.unfreeze()


async def _run(network: RunningNetwork, workload: Workload, load: NetworkLoad) -> list[Figure]:
    topology = network.topology
    homes = [topology.homes[reader % len(topology.homes)] for reader in range(load.readers)]
    arrivals = {topology.hops(home): Arrivals() for home in homes}
    readers = [
        ReaderClient(network.brokers[home].url, f"reader-{number}", arrivals[topology.hops(home)], network.tokens[home])
        for number, home in enumerate(homes)
    ]
    for reader in readers:
        await reader.open()
    figures = await _subscribe(network, readers, workload.messages, load)
    if figures[0].value is None:
        return figures
    audiences = [
        Audience(arrivals[hops], workload.copies([k for k, home in enumerate(homes) if topology.hops(home) == hops]))
        for hops in arrivals
    ]
    async with connect(network.brokers[topology.entry].url, client="publisher") as client:
        gc.collect()
        gc.freeze()  # a pause of this process is not the brokers'
        events = workload.work.events
        run = Run(client, lambda indices: events[indices.start : indices.stop], audiences)
        rate, more = await _publish_drawn(network, run, workload.work.n_drawn, load)
        figures += more
        figures += await _publish_aimed(run, list(arrivals), min(load.rate, rate / 2), workload.work.n_drawn, load)
        run.check()
    figures += _by_role(topology, "network memory", network.memory())
    for reader in readers:
        await reader.close()
    return figures


async def _subscribe(
    network: RunningNetwork, readers: Sequence[ReaderClient], messages: Sequence[m.Subscribe], load: NetworkLoad
) -> list[Figure]:
    """Load all subscriptions in batches; return their rate until all are active, and the bytes of one on the links."""
    # An eighth is warm-up when there are few.
    split = min(_WARM_UP, len(messages) // len(readers) // 8)
    parts = [messages[number :: len(readers)] for number in range(len(readers))]
    try:
        async with asyncio.timeout(load.patience):
            await asyncio.gather(*(reader.subscribe(part[:split]) for reader, part in zip(readers, parts, strict=True)))
            cpu, before, start = network.cpu(), network.bytes_on_links(), time.perf_counter()
            await asyncio.gather(*(reader.subscribe(part[split:]) for reader, part in zip(readers, parts, strict=True)))
    except TimeoutError:
        active = sum(reader.active for reader in readers)
        note = f"left out: {active:,} of {len(messages):,} subscriptions were active after {load.patience:g} s"
        return [Figure("network load", None, note)]
    n = len(messages) - split * len(readers)
    rate = n / (time.perf_counter() - start)
    used = _by_role(network.topology, "network subscribing", _used(network, cpu, n))
    return [Figure("network load", rate), *used, *_bytes_since(network, before, "subscription", n)]


async def _publish_drawn(network: RunningNetwork, run: Run, n: int, load: NetworkLoad) -> tuple[float, list[Figure]]:
    """Publish drawn events in growing rounds; return events per second of the last round, and all its figures.

    Where other programs slow the rounds down, they grow until the processor time of a round can be measured. The time
    of the first round does not count: brokers load kernels in it.
    """
    first, last, size, spent = 0, 0, _FIRST_ROUND, 0.0
    used: list[float | None] = []
    while first < n and (spent < load.seconds or _is_coarse(used[network.topology.entry], last)):
        size = n - first if n - first < 2 * size else size
        cpu, sent = network.cpu(), network.bytes_on_links()
        rate = await run.together(range(first, first + size), FRAMES, max(1, min(FRAME, size // FRAMES)))
        spent, first, last, size = spent + (size / rate if first else 0.0), first + size, size, 4 * size
        used = _used(network, cpu, last)
    figures = [Figure("network", rate, f"the last {last:,} events"), *_by_role(network.topology, "network cpu", used)]
    return rate, figures + _bytes_since(network, sent, "event", last)


async def _publish_aimed(run: Run, hops: Sequence[int], rate: float, first: int, load: NetworkLoad) -> list[Figure]:
    """Publish aimed events one by one at a steady rate; return p50 and p99 by the number of links crossed."""
    count = min(load.n_aimed, max(1, int(rate * load.seconds)))
    figures = []
    for distance, latencies in zip(hops, await run.paced(range(first, first + count), rate, 1), strict=True):
        if not latencies.n:
            raise InvariantError(f"no aimed event had to cross {distance} links: measure for more seconds")
        note = f"{rate:,.0f} events/s, {latencies.n:,} copies"
        figures += [
            Figure(f"network p50 {distance} hops", latencies.p50, note),
            Figure(f"network p99 {distance} hops", latencies.p99, note),
        ]
    return figures


def _used(network: RunningNetwork, before: Sequence[float | None], n: int) -> list[float | None]:
    """Return the microseconds of processor time of each broker since a count, for each of ``n``."""
    return [
        None if after is None or first is None else (after - first) * 1e6 / n
        for after, first in zip(network.cpu(), before, strict=True)
    ]


def _is_coarse(used: float | None, n: int) -> bool:
    """Whether ``used`` microseconds for each of ``n`` events are too few steps of the system's count to tell.

    >>> _is_coarse(50.0, 1_000), _is_coarse(50.0, 4_096), _is_coarse(None, 10)
    (True, False, False)
    """
    return used is not None and used * n < _FINE * 1e6


def _bytes_since(network: RunningNetwork, before: int | None, per: str, n: int) -> list[Figure]:
    """Return the bytes on all links together since a count, by event or subscription; nothing without links."""
    if not network.topology.links:
        return []
    after = network.bytes_on_links()
    if before is None or after is None:
        return [Figure(f"network bytes {per}", None, "left out: this system does not count the bytes of a connection")]
    return [Figure(f"network bytes {per}", (after - before) / n)]


def _by_role(topology: BrokerTree, what: str, values: Sequence[float | None]) -> list[Figure]:
    """Return the mean of each role's brokers, the entry's first."""
    figures = []
    for role in ("entry", "inner", "home"):
        reported = [value for broker, value in enumerate(values) if value is not None and topology.role(broker) == role]
        if reported:
            figures.append(Figure(f"{what} {role}".removesuffix(" entry"), statistics.mean(reported)))
    return figures
