"""Servers of others that a benchmark starts on this machine, one or a linked pair, and how events pass through."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from tamis.errors import InvariantError
from tamis_bench.serving.processes import cpu_seconds

__all__ = ["Passage", "Servers", "find_program", "free_port", "percentiles", "started"]

#: Seconds until a server must answer.
_PATIENCE: Final = 20.0


@dataclass(frozen=True)
class Servers:
    """Where to publish and where to read; the processes from the publisher's side to the readers'."""

    publisher_port: int
    reader_port: int
    pids: Sequence[int]

    def cpu(self) -> list[float | None]:
        """Return the processor time of each process so far."""
        return [cpu_seconds(pid) for pid in self.pids]

    def cpu_per_event(self, before: Sequence[float | None], n: int) -> list[float | None]:
        """Return the microseconds of each process for one of ``n`` events, since `cpu` returned ``before``."""
        return [
            None if start is None or end is None else (end - start) * 1e6 / n
            for start, end in zip(before, self.cpu(), strict=True)
        ]


@dataclass(frozen=True)
class Passage:
    """How events passed: their rate, the microseconds of each process for one, latencies in ms at half of the rate."""

    rate: float
    cpu: Sequence[float | None]
    p50: float
    p99: float


def percentiles(seen: Sequence[tuple[int, float]], moments: Sequence[float]) -> tuple[float, float]:
    """Return p50 and p99 in ms of events that arrived, by number and moment, since the moments of their publication."""
    p50, p99 = np.percentile(np.array([moment - moments[number] for number, moment in seen]) * 1e3, (50, 99)).tolist()
    return p50, p99


def find_program(name: str) -> str | None:
    """Return the path of a program, also where only an administrator's shell would look."""
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin")


def free_port() -> int:
    """Return a free port of the loopback interface."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@contextlib.contextmanager
def started(command: Sequence[str], port: int) -> Iterator[int]:
    """Start a server and yield the number of its process when it answers at a port; it ends with the block."""
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + _PATIENCE
        while not _answers(port):
            if time.monotonic() > end:
                raise InvariantError(f"{command[0]!r} did not answer within {_PATIENCE:g} s")
            time.sleep(0.02)
        yield process.pid
    finally:
        process.terminate()
        process.wait()


def _answers(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0
