"""Another ceiling in the benchmark of a broker: the same events through NATS, by subject, without acknowledgement.

The client is the least that measures: `CONNECT`, `SUB`, `PUB`, `MSG`, `PING` and `PONG` of the text protocol.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from tamis.errors import InvariantError
from tamis_bench.rows import Row
from tamis_bench.serving.peer_servers import free_port, started
from tamis_bench.workloads.boxes import make_boxes

if TYPE_CHECKING:
    from tamis_bench.serving.serve import Load

__all__ = ["measure_nats"]

#: Subjects that the events are spread over, and events written before the wire is looked at.
SUBJECTS, AT_ONCE = 1_000, 256

#: Seconds for what must come.
PATIENCE = 300.0


def measure_nats(load: Load, work: str) -> Iterator[Row]:
    """Yield events per second and latencies at half load; a row with the reason where there is no nats-server."""
    program = shutil.which("nats-server") or shutil.which("nats-server", path="/usr/sbin:/usr/local/sbin")
    if program is None:
        yield Row(
            work,
            load.n,
            "nats",
            "serve single",
            None,
            note="nats-server is not installed (apt-get install nats-server)",
        )
        return
    points = make_boxes(work, 1, load.events).points.tolist()
    payloads = [json.dumps({f"a{axis}": value for axis, value in enumerate(point)}).encode() for point in points]
    process, port = _start(program)
    try:
        yield from asyncio.run(_measure(load, work, port, payloads))
    finally:
        process.terminate()
        process.wait()


async def _measure(load: Load, work: str, port: int, payloads: list[bytes]) -> list[Row]:
    arrivals = _Arrivals()
    readers = [await _Wire.open(port, arrivals.note) for _ in range(load.readers)]
    for number, one in enumerate(readers):
        await one.subscribe([f"bench.{subject}.*" for subject in range(number, SUBJECTS, load.readers)])
    publisher = await _Wire.open(port)
    start = time.perf_counter()
    for first in range(0, len(payloads), AT_ONCE):
        await publisher.publish(first, payloads[first : first + AT_ONCE])
    await arrivals.wait(len(payloads))
    rate = len(payloads) / (time.perf_counter() - start)
    arrivals.seen.clear()
    moments = await _paced(publisher, payloads, rate / 2, load.seconds)
    await arrivals.wait(len(moments))
    times = np.array([moment - moments[number] for number, moment in arrivals.seen]) * 1e3
    p50, p99 = np.percentile(times, (50, 99)).tolist()
    for one in (publisher, *readers):
        one.close()
    note = "nats: one subject per event, at most once, no disk"
    return [
        Row(work, load.n, "nats", "serve single", rate, note=note),
        Row(work, load.n, "nats", "serve p50", p50),
        Row(work, load.n, "nats", "serve p99", p99),
    ]


async def _paced(publisher: _Wire, payloads: list[bytes], rate: float, seconds: float) -> list[float]:
    """Publish at a steady rate; return when each event was."""
    count, frame, moments = min(int(rate * seconds), len(payloads)), max(1, int(rate / 100)), list[float]()
    start = time.perf_counter()
    for first in range(0, count, frame):
        await asyncio.sleep(max(0.0, start + first / rate - time.perf_counter()))
        due = payloads[first : min(first + frame, count)]
        moments += [time.perf_counter()] * len(due)
        await publisher.publish(first, due)
    return moments


class _Arrivals:
    """Numbers of events and when they came."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, float]] = []
        self._news = asyncio.Event()

    def note(self, subject: str) -> None:
        self.seen.append((int(subject.rpartition(".")[2]), time.perf_counter()))
        self._news.set()

    async def wait(self, wanted: int) -> None:
        async with asyncio.timeout(PATIENCE):
            while len(self.seen) < wanted:
                self._news.clear()
                await self._news.wait()


class _Wire:
    """One connection to NATS."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, heard: Callable[[str], None]
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._heard = heard
        self._pong = asyncio.Event()
        self._task = asyncio.create_task(self._listen())

    @classmethod
    async def open(cls, port: int, heard: Callable[[str], None] = lambda subject: None) -> _Wire:
        wire = cls(*await asyncio.open_connection("127.0.0.1", port), heard)
        wire._writer.write(b'CONNECT {"verbose":false,"pedantic":false,"lang":"python","version":"0"}\r\n')
        await wire._ping()
        return wire

    async def subscribe(self, subjects: list[str]) -> None:
        for number, subject in enumerate(subjects, 1):
            self._writer.write(f"SUB {subject} {number}\r\n".encode())
        await self._ping()

    async def publish(self, first: int, payloads: list[bytes]) -> None:
        parts = [
            b"PUB bench.%d.%d %d\r\n%b\r\n" % (number % SUBJECTS, number, len(payload), payload)
            for number, payload in enumerate(payloads, first)
        ]
        self._writer.write(b"".join(parts))
        await self._writer.drain()

    def close(self) -> None:
        self._task.cancel()
        self._writer.close()

    async def _ping(self) -> None:
        self._pong.clear()
        self._writer.write(b"PING\r\n")
        await self._writer.drain()
        async with asyncio.timeout(PATIENCE):
            await self._pong.wait()

    async def _listen(self) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while line := await self._reader.readline():
                word, _, rest = line.decode().strip().partition(" ")
                if word == "MSG":  # MSG subject number [reply] size
                    await self._reader.readexactly(int(rest.split()[-1]) + 2)
                    self._heard(rest.split()[0])
                elif word == "PING":
                    self._writer.write(b"PONG\r\n")
                elif word == "PONG":
                    self._pong.set()
                elif word == "-ERR":
                    raise InvariantError(f"NATS says {rest}")


def _start(program: str) -> tuple[subprocess.Popen[bytes], int]:
    port = free_port()
    command = [program, "-a", "127.0.0.1", "-p", str(port)]
    return started(subprocess.Popen(command, stderr=subprocess.DEVNULL), port), port
