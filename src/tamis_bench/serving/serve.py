"""The benchmark of a broker over loopback: events per second from publisher to reader, durable, and their latency.

The broker is a process of its own, as users start it; the publisher and all readers share this one. Everything is on:
a publish is confirmed when it is on disk, a delivery is kept until its reader has acknowledged it. What arrives is
compared, copy by copy, with what an engine in this process says.

Half of that load shows the latencies; a quarter of it, with one more reader that takes everything and then stalls, what
one slow reader costs the others (promise G17).

For a sense of scale the same events go through Mosquitto (QoS 1) and NATS (at most once), if they are installed: there
each event has one topic and each reader a share of the topics, so they neither evaluate a filter nor write to a disk: a
ceiling, no rival.

With the address of a PostgreSQL database the same broker runs a second time, its state there instead of in a file
(system "postgres"); the processor time of the database server is not in its figures.
"""

from __future__ import annotations

import asyncio
import gc
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from tamis.engine import Engine
from tamis.runtime.client.connecting import connect
from tamis_bench.rows import Row, find_goal
from tamis_bench.serving.clients import Arrivals, ReaderClient, subscribe_message
from tamis_bench.serving.processes import BrokerProcess, cpu_seconds, resident_megabytes, start_broker
from tamis_bench.serving.publishing import SINGLES, Audience, Run, paced_frame
from tamis_bench.workloads.boxes import BoxWork, box_events, box_texts, make_boxes

__all__ = ["SYSTEMS", "Load", "measure_serve"]

SYSTEMS: Final = ("ours", "mosquitto", "nats")

_WORK: Final = "uniform4"


@dataclass(frozen=True)
class Load:
    """How much: subscriptions, readers that share them, events in frames, single events, seconds at half load."""

    n: int = 100_000
    readers: int = 10
    events: int = 100_000
    singles: int = 10_000
    seconds: float = 10.0


def measure_serve(load: Load, systems: Sequence[str], store: str = "") -> Iterator[Row]:
    """Yield a row for every number; ``store`` is the address of a PostgreSQL database."""
    if "ours" in systems:
        yield from _measure_ours(load)
    if store:
        yield from _measure_postgres(load, store)
    if "mosquitto" in systems:
        from tamis_bench.serving.mqtt import measure_mosquitto

        yield from measure_mosquitto(load, _WORK)
    if "nats" in systems:
        from tamis_bench.serving.nats import measure_nats

        yield from measure_nats(load, _WORK)


def _measure_postgres(load: Load, store: str) -> Iterator[Row]:
    """Measure a broker in a schema of its own, which is dropped in the end."""
    import psycopg

    name = f"bench_{os.getpid()}"
    try:
        yield from _measure_ours(load, "postgres", "--store", store, "--name", name)
    finally:
        with psycopg.connect(store, autocommit=True) as database:
            database.execute(f"DROP SCHEMA IF EXISTS tamis_{name} CASCADE".encode())


def _measure_ours(load: Load, system: str = "ours", *options: str) -> Iterator[Row]:
    # One less: the last is that of the greedy reader, and a principal may have 100,000 subscriptions in all.
    work = make_boxes(_WORK, max(1, load.n - 1), load.events + load.singles + _paced_most(load))
    engine = Engine()
    engine.subscribe_boxes(list(work.names), work.lo, work.hi)
    # One copy per reader however many of its subscriptions match (promise G8).
    matches = engine.match_table(work.events)
    owners = matches.rows % load.readers
    wanted = [len(set(part.tolist())) for part in np.split(owners, matches.offsets[1:-1])]
    with tempfile.TemporaryDirectory() as directory:
        broker = start_broker("--data", str(Path(directory) / "data"), *options)
        try:
            yield from asyncio.run(_run(broker, system, load, work, wanted))
        finally:
            broker.kill()


async def _run(broker: BrokerProcess, system: str, load: Load, work: BoxWork, wanted: Sequence[int]) -> list[Row]:
    url, pid, arrivals = broker.url, broker.pid, Arrivals()
    # Written before any client connects: a broker disconnects clients that do not answer its pings for that long.
    messages = [subscribe_message(id, text) for id, text in enumerate(box_texts(work))]
    readers = [await ReaderClient(url, f"reader-{number}", arrivals).open() for number in range(load.readers)]
    start = time.perf_counter()
    await asyncio.gather(*(reader.subscribe(messages[k :: load.readers]) for k, reader in enumerate(readers)))
    rows = [Row(_WORK, load.n, system, "serve load", load.n / (time.perf_counter() - start))]
    async with connect(url, client="publisher") as client:
        gc.collect()
        gc.freeze()  # pauses of this process must not count as latency of the broker
        run = Run(client, lambda indices: box_events(work, indices), [Audience(arrivals, wanted)])
        begun, mine = cpu_seconds(pid), time.process_time()
        rate = await run.together(range(load.events))
        rows.append(Row(_WORK, load.n, system, "serve", rate, goal=find_goal("serve", _WORK, load.n)))
        rows.append(_cpu_row(load, system, "serve cpu", begun, pid, load.events))
        spent = (time.process_time() - mine) * 1e6 / load.events
        rows.append(Row(_WORK, load.n, system, "serve clients cpu", spent))
        begun = cpu_seconds(pid)
        singles = range(load.events, load.events + load.singles)
        rows.append(Row(_WORK, load.n, system, "serve single", await run.together(singles, SINGLES, 1)))
        rows.append(_cpu_row(load, system, "serve single cpu", begun, pid, load.singles))
        p50, p99, note = await _paced(run, rate / 2, load)
        goal = find_goal("serve p99", _WORK, load.n)
        rows.append(Row(_WORK, load.n, system, "serve p50", p50, note=note))
        rows.append(Row(_WORK, load.n, system, "serve p99", p99, goal=goal, note=note))
        rows += await _with_a_stall(url, system, run, rate / 4, load)
    rows.append(Row(_WORK, load.n, system, "serve memory", resident_megabytes(pid)))
    run.check()
    for reader in readers:
        await reader.close()
    return rows


async def _paced(run: Run, rate: float, load: Load) -> tuple[float, float, str]:
    """Publish at a steady rate, every 10 ms what is due; return p50 and p99 in ms from call to arrival, and a note."""
    frame, first = paced_frame(rate), len(run.published)
    left = len(run.audiences[0].copies) - first
    count = min(int(rate * load.seconds), _paced_most(load) // 3, left) // frame * frame
    (latencies,) = await run.paced(range(first, first + count), rate, frame)
    return latencies.p50, latencies.p99, f"{rate:,.0f} events/s in frames of {frame}, {latencies.n:,} copies"


async def _with_a_stall(url: str, system: str, run: Run, rate: float, load: Load) -> list[Row]:
    """Return the p99 of the others beside one more reader of everything, while it reads and while it stalls."""
    rows, greedy = list[Row](), await ReaderClient(url, "greedy", Arrivals()).open()
    await greedy.subscribe([subscribe_message(0, "a0 IS NOT NULL")])
    for what in ("serve p99 beside", "serve p99 stalled"):
        if what.endswith("stalled"):
            greedy.stall()
        _, p99, note = await _paced(run, rate, load)
        rows.append(Row(_WORK, load.n, system, what, p99, note=f"{note}, one reader more"))
    await greedy.close()
    return rows


def _paced_most(load: Load) -> int:
    """Return how many events the three paced parts take at most."""
    return int(60_000 * load.seconds)


def _cpu_row(load: Load, system: str, what: str, begun: float | None, pid: int, events: int) -> Row:
    now = cpu_seconds(pid)
    return Row(_WORK, load.n, system, what, None if now is None or begun is None else (now - begun) * 1e6 / events)
