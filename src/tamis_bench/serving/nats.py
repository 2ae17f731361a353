"""Another ceiling in the benchmarks of brokers: the same events through NATS, by subject, without acknowledgement.

The client is the least that measures: `CONNECT`, `SUB`, `PUB`, `MSG`, `PING` and `PONG` of the text protocol.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tamis.errors import InvariantError
from tamis_bench.rows import Row
from tamis_bench.serving.peer_servers import Passage, Servers, find_program, free_port, percentiles, started
from tamis_bench.workloads.boxes import box_payloads

if TYPE_CHECKING:
    from tamis_bench.serving.serve import Load

__all__ = ["NOT_INSTALLED", "measure_nats", "nats_servers", "pass_nats"]

NOT_INSTALLED = "nats-server is not installed (apt-get install nats-server)"

#: Subjects that the events are spread over, and events written before the wire is looked at.
SUBJECTS, AT_ONCE = 1_000, 256

#: Seconds for what must come, and between two probes of a link.
PATIENCE, PROBE_SECONDS = 300.0, 0.2

#: The number of a probe, which is not an event.
_PROBE = -1


def measure_nats(load: Load, work: str) -> Iterator[Row]:
    """Yield events per second and latencies at half load; a row with the reason where there is no nats-server."""
    program = find_program("nats-server")
    if program is None:
        yield Row(work, load.n, "nats", "serve single", None, note=NOT_INSTALLED)
        return
    payloads = box_payloads(work, load.events)
    with nats_servers(program, linked=False) as servers:
        passage = pass_nats(servers, payloads, load.readers, load.seconds)
    note = "nats: one subject per event, at most once, no disk"
    yield Row(work, load.n, "nats", "serve single", passage.rate, note=note)
    yield Row(work, load.n, "nats", "serve p50", passage.p50)
    yield Row(work, load.n, "nats", "serve p99", passage.p99)


@contextlib.contextmanager
def nats_servers(program: str, *, linked: bool) -> Iterator[Servers]:
    """Run one server, or two: a hub with the readers and a leaf node with the publisher."""
    with contextlib.ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        hub, leaf, between = free_port(), free_port(), free_port()
        command = [program, "-a", "127.0.0.1", "-p"]
        if not linked:
            yield Servers(hub, hub, [stack.enter_context(started([*command, str(hub)], hub))])
            return
        (directory / "hub.conf").write_text(f'leafnodes {{ host: "127.0.0.1", port: {between} }}')
        (directory / "leaf.conf").write_text(f'leafnodes {{ remotes: [{{ url: "nats://127.0.0.1:{between}" }}] }}')
        pids = [
            stack.enter_context(started([*command, str(port), "-c", str(directory / name)], port))
            for port, name in ((hub, "hub.conf"), (leaf, "leaf.conf"))
        ]
        yield Servers(leaf, hub, pids[::-1])


def pass_nats(servers: Servers, payloads: Sequence[bytes], readers: int, seconds: float) -> Passage:
    """Send events through one or two servers, each to one reader, and return how they passed."""
    return asyncio.run(_pass(servers, payloads, readers, seconds))


async def _pass(servers: Servers, payloads: Sequence[bytes], n_readers: int, seconds: float) -> Passage:
    arrivals = _Arrivals()
    readers = [await _Wire.open(servers.reader_port, arrivals.note) for _ in range(n_readers)]
    for number, reader in enumerate(readers):
        await reader.subscribe([f"bench.{subject}.*" for subject in range(number, SUBJECTS, n_readers)])
    publisher = await _Wire.open(servers.publisher_port)
    await _wait_until_linked(publisher, arrivals)
    cpu, start = servers.cpu(), time.perf_counter()
    for first in range(0, len(payloads), AT_ONCE):
        await publisher.publish(first, payloads[first : first + AT_ONCE])
    await arrivals.wait(len(payloads))
    rate = len(payloads) / (time.perf_counter() - start)
    used = servers.cpu_per_event(cpu, len(payloads))
    arrivals.seen.clear()
    moments = await _paced(publisher, payloads, rate / 2, seconds)
    await arrivals.wait(len(moments))
    for wire in (publisher, *readers):
        wire.close()
    return Passage(rate, used, *percentiles(arrivals.seen, moments))


async def _wait_until_linked(publisher: _Wire, arrivals: _Arrivals) -> None:
    """Wait until a probe of every subject reached its reader: a leaf node learns of subscriptions a moment later."""
    async with asyncio.timeout(PATIENCE):
        while len(arrivals.probed) < SUBJECTS:
            await publisher.probe(subject for subject in range(SUBJECTS) if f"bench.{subject}" not in arrivals.probed)
            await asyncio.sleep(PROBE_SECONDS)


async def _paced(publisher: _Wire, payloads: Sequence[bytes], rate: float, seconds: float) -> list[float]:
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
        #: Subjects of which a probe came through.
        self.probed: set[str] = set()
        self._news = asyncio.Event()

    def note(self, subject: str) -> None:
        family, _, number = subject.rpartition(".")
        if int(number) == _PROBE:
            self.probed.add(family)
            return
        self.seen.append((int(number), time.perf_counter()))
        self._news.set()

    async def wait(self, wanted: int) -> None:
        async with asyncio.timeout(PATIENCE):
            while len(self.seen) < wanted:
                self._news.clear()
                await self._news.wait()


class _Wire:
    """One connection to NATS."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, on_message: Callable[[str], None]
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._on_message = on_message
        self._pong = asyncio.Event()
        self._task = asyncio.create_task(self._listen())

    @classmethod
    async def open(cls, port: int, on_message: Callable[[str], None] = lambda subject: None) -> _Wire:
        wire = cls(*await asyncio.open_connection("127.0.0.1", port), on_message)
        wire._writer.write(b'CONNECT {"verbose":false,"pedantic":false,"lang":"python","version":"0"}\r\n')
        await wire._ping()
        return wire

    async def subscribe(self, subjects: list[str]) -> None:
        for number, subject in enumerate(subjects, 1):
            self._writer.write(f"SUB {subject} {number}\r\n".encode())
        await self._ping()

    async def probe(self, subjects: Iterable[int]) -> None:
        self._writer.write(b"".join(b"PUB bench.%d.%d 0\r\n\r\n" % (subject, _PROBE) for subject in subjects))
        await self._writer.drain()

    async def publish(self, first: int, payloads: Sequence[bytes]) -> None:
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
                    self._on_message(rest.split()[0])
                elif word == "PING":
                    self._writer.write(b"PONG\r\n")
                elif word == "PONG":
                    self._pong.set()
                elif word == "-ERR":
                    raise InvariantError(f"nats-server sent the error {rest}")
