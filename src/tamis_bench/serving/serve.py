"""The benchmark of a broker over loopback: events per second from publisher to reader, durable, and their latency.

The broker is a process of its own, as users start it; the publisher and all readers share this one. Everything is on:
a publish is confirmed when it is on disk, a delivery is kept until its reader has acknowledged it. What arrives is
compared, copy by copy, with what an engine in this process says.

Half of that load shows the latencies; a quarter of it, with one more reader that takes everything and then stalls, what
one slow reader costs the others (promise G17).

For a sense of scale the same events go through Mosquitto (QoS 1) and NATS (at most once), if they are installed: there
each event has one topic and each reader a share of the topics, so they neither evaluate a filter nor write to a disk: a
ceiling, no rival.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from tamis.engine import Engine
from tamis.errors import InvariantError
from tamis.runtime.client.client import Client
from tamis.runtime.client.connecting import connect
from tamis_bench.rows import Row, find_goal
from tamis_bench.serving.clients import Arrivals, Reader, subscribe_message
from tamis_bench.workloads.boxes import BoxWork, make_boxes

__all__ = ["SYSTEMS", "Load", "measure_serve"]

SYSTEMS: Final = ("ours", "mosquitto", "nats")

#: Events of one call, calls under way at once, and calls of single events under way.
FRAME, FRAMES, SINGLES = 256, 8, 64

_WORK: Final = "uniform4"
_START: Final = "from tamis.cli.main import main; main()"


@dataclass(frozen=True)
class Load:
    """How much: subscriptions, readers that share them, events in frames, single events, seconds at half load."""

    n: int = 100_000
    readers: int = 10
    events: int = 100_000
    singles: int = 10_000
    seconds: float = 10.0


@dataclass
class Run:
    """A publisher and what is known of its events; the first has number 1."""

    client: Client
    work: BoxWork
    arrivals: Arrivals
    matches: Sequence[int]
    published: int = 0
    expected: int = 0
    moments: list[float] = field(default_factory=list)

    async def publish(self, n: int) -> None:
        """Publish the next ``n`` events; returns when they are durable."""
        points = self.work.points[self.published : self.published + n].tolist()
        events = [dict(zip(self.work.names, point, strict=True)) for point in points]
        self.expected += int(sum(self.matches[self.published : self.published + len(events)]))
        self.published += len(events)
        self.moments += [time.perf_counter()] * len(events)
        await self.client.publish(events)


def measure_serve(load: Load, systems: Sequence[str]) -> Iterator[Row]:
    """Yield a row for every number."""
    if "ours" in systems:
        yield from _measure_ours(load)
    if "mosquitto" in systems:
        from tamis_bench.serving.mqtt import measure_mosquitto

        yield from measure_mosquitto(load, _WORK)
    if "nats" in systems:
        from tamis_bench.serving.nats import measure_nats

        yield from measure_nats(load, _WORK)


def _measure_ours(load: Load) -> Iterator[Row]:
    # All subscriptions but the last, which is the greedy reader's: 100,000 is what one principal may have.
    work = make_boxes(_WORK, max(1, load.n - 1), load.events + load.singles + _paced_most(load))
    engine = Engine()
    engine.subscribe_boxes(list(work.names), work.lo, work.hi)
    # One copy per reader however many of its subscriptions match (promise G8).
    found = engine.match_table(work.events)
    owners = found.rows % load.readers
    wanted = [len(set(part.tolist())) for part in np.split(owners, found.offsets[1:-1])]
    with tempfile.TemporaryDirectory() as place:
        process, url = _start_broker(Path(place))
        try:
            yield from asyncio.run(_run(url, process.pid, load, work, wanted))
        finally:
            process.kill()
            process.communicate()  # waits, and closes the pipe


def _start_broker(place: Path) -> tuple[subprocess.Popen[bytes], str]:
    command = [sys.executable, "-c", _START, "serve", "--port", "0", "--data", str(place / "data"), "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    told = b""
    assert process.stdout is not None
    while not told.rstrip().endswith(b"}"):
        line = process.stdout.readline()
        if not line:
            raise InvariantError("the broker did not start; its own words are above")
        told += line
    return process, json.loads(told)["url"]


async def _run(url: str, pid: int, load: Load, work: BoxWork, wanted: Sequence[int]) -> list[Row]:
    arrivals = Arrivals()
    # Written before anybody connects: a broker cuts off who does not answer its pings for that long.
    messages = [subscribe_message(id, text) for id, text in enumerate(_texts(work))]
    readers = [await Reader(url, f"reader-{number}", arrivals).open() for number in range(load.readers)]
    start = time.perf_counter()
    await asyncio.gather(*(one.subscribe(messages[k :: load.readers]) for k, one in enumerate(readers)))
    rows = [Row(_WORK, load.n, "ours", "serve load", load.n / (time.perf_counter() - start))]
    async with connect(url, client="publisher") as client:
        gc.collect()
        gc.freeze()  # a pause of this process is none of the broker's
        run = Run(client, work, arrivals, wanted)
        begun, mine = _cpu_seconds(pid), time.process_time()
        rate = await _together(run, FRAMES, load.events, FRAME)
        rows.append(Row(_WORK, load.n, "ours", "serve", rate, goal=find_goal("serve", _WORK, load.n)))
        rows.append(_cpu_row(load, "serve cpu", begun, pid, load.events))
        spent = (time.process_time() - mine) * 1e6 / load.events
        rows.append(Row(_WORK, load.n, "ours", "serve clients cpu", spent))
        begun = _cpu_seconds(pid)
        rows.append(Row(_WORK, load.n, "ours", "serve single", await _together(run, SINGLES, load.singles, 1)))
        rows.append(_cpu_row(load, "serve single cpu", begun, pid, load.singles))
        p50, p99, note = await _paced(run, rate / 2, load)
        goal = find_goal("serve p99", _WORK, load.n)
        rows.append(Row(_WORK, load.n, "ours", "serve p50", p50, note=note))
        rows.append(Row(_WORK, load.n, "ours", "serve p99", p99, goal=goal, note=note))
        rows += await _with_a_stall(url, run, rate / 4, load)
    rows.append(Row(_WORK, load.n, "ours", "serve memory", _resident_megabytes(pid)))
    _check(run)
    for one in readers:
        await one.close()
    return rows


async def _together(run: Run, tasks: int, n: int, frame: int) -> float:
    """Publish frames, several under way; return events per second until the last copy has arrived."""
    sizes = iter([frame] * (n // frame) + [n % frame] * bool(n % frame))

    async def publish() -> None:
        for size in sizes:
            await run.publish(size)

    start = time.perf_counter()
    await asyncio.gather(*(publish() for _ in range(tasks)))
    await run.arrivals.wait(run.expected)
    return n / (time.perf_counter() - start)


async def _paced(run: Run, rate: float, load: Load) -> tuple[float, float, str]:
    """Publish at a steady rate, every 10 ms what is due; return p50 and p99 in ms from call to arrival, and a note."""
    frame = max(1, min(FRAME, int(rate / 100)))
    count = min(int(rate * load.seconds), _paced_most(load) // 3, len(run.work.points) - run.published) // frame * frame
    first, waiting = len(run.arrivals.seen), list[asyncio.Task[None]]()
    start = time.perf_counter()
    for k in range(0, count, frame):
        await asyncio.sleep(max(0.0, start + k / rate - time.perf_counter()))
        waiting.append(asyncio.create_task(run.publish(frame)))
    await asyncio.gather(*waiting)
    await run.arrivals.wait(run.expected)
    times = [moment - run.moments[seq - 1] for seq, moment in run.arrivals.seen[first:]]
    p50, p99 = (np.percentile(np.array(times) * 1e3, (50, 99)) if times else np.zeros(2)).tolist()
    return p50, p99, f"{rate:,.0f} events/s in frames of {frame}, {len(times):,} copies"


async def _with_a_stall(url: str, run: Run, rate: float, load: Load) -> list[Row]:
    """Return the p99 of the others beside one more reader of everything, while it reads and while it stalls."""
    rows, greedy = list[Row](), await Reader(url, "greedy", Arrivals()).open()
    name = run.work.names[0]
    await greedy.subscribe([subscribe_message(0, f"{name} IS NOT NULL")])
    for what in ("serve p99 beside", "serve p99 stalled"):
        if what.endswith("stalled"):
            greedy.stall()
        _, p99, note = await _paced(run, rate, load)
        rows.append(Row(_WORK, load.n, "ours", what, p99, note=f"{note}, one reader more"))
    await greedy.close()
    return rows


def _check(run: Run) -> None:
    """Compare what arrived with what the engine says, event by event."""
    found = Counter(seq for seq, _ in run.arrivals.seen)
    wanted = Counter({seq: n for seq, n in enumerate(run.matches[: run.published], 1) if n})
    if found != wanted:
        raise InvariantError(f"{(wanted - found).total()} copies are missing, {(found - wanted).total()} are too many")


def _texts(work: BoxWork) -> list[str]:
    return [
        " AND ".join(f"{name} BETWEEN {lo!r} AND {hi!r}" for name, lo, hi in zip(work.names, low, high, strict=True))
        for low, high in zip(work.lo.tolist(), work.hi.tolist(), strict=True)
    ]


def _paced_most(load: Load) -> int:
    """Return how many events the three paced parts take at most."""
    return int(60_000 * load.seconds)


def _cpu_row(load: Load, what: str, begun: float | None, pid: int, events: int) -> Row:
    now = _cpu_seconds(pid)
    return Row(_WORK, load.n, "ours", what, None if now is None or begun is None else (now - begun) * 1e6 / events)


def _cpu_seconds(pid: int) -> float | None:
    """Return the processor time of a process so far, None where the system does not tell."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _resident_megabytes(pid: int) -> float | None:
    try:
        status: Any = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return None
    return int(status.split("VmRSS:")[1].split()[0]) / 1024
