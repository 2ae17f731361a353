"""How times and memory are taken: the best of several calls, percentiles of single events, growth of a process."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np

__all__ = [
    "Effort",
    "Latency",
    "best_of",
    "changing_beside",
    "is_merging",
    "resident_bytes",
    "run_fresh",
    "sustained",
    "time_each",
]

_Event = TypeVar("_Event")

#: The engine's own name for the thread of its merges.
_MERGE_THREAD: Final = "tamis-merge"


@dataclass(frozen=True)
class Effort:
    """How hard to try: repetitions, seconds for each measurement, events in a table."""

    repeat: int = 5
    seconds: float = 2.0
    batch: int = 4_096
    #: Boxes that are added at once.
    chunk: int = 1_000
    #: Whether to start new processes (for memory and the first match).
    fresh: bool = True


@dataclass(frozen=True)
class Latency:
    """Median and 99th percentile in microseconds, and of how many."""

    p50: float
    p99: float
    n: int


def best_of(call: Callable[[], object], effort: Effort) -> float:
    """Return the least wall time of several calls in seconds; a slow call is repeated less often."""
    times: list[float] = []
    while len(times) < effort.repeat and sum(times) < effort.seconds:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def sustained(step: Callable[[], object], between: Callable[[], object], effort: Effort, most: int) -> float:
    """Take at most ``most`` steps until time is up; return the seconds spent in them, not between them."""
    spent, taken = 0.0, 0
    while taken < most and (spent < effort.seconds or not taken):
        start = time.perf_counter()
        step()
        spent += time.perf_counter() - start
        taken += 1
        between()
    return spent


def time_each(
    match: Callable[[_Event], object],
    events: list[_Event],
    effort: Effort,
    between: Callable[[], object] | None = None,
) -> Latency:
    """Time single events, one after the other, until time is up.

    After every 25 of them ``between`` is called, off the clock; if it returns False this is the end.
    """
    times: list[int] = []
    end = time.perf_counter() + effort.seconds
    for event in cycle(events):
        if len(times) % 25 == 0 and (time.perf_counter() > end or (between is not None and between() is False)):
            break
        start = time.perf_counter_ns()
        match(event)
        times.append(time.perf_counter_ns() - start)
    p50, p99 = np.percentile(np.array(times or [0]) / 1e3, (50, 99)).tolist()
    return Latency(p50, p99, len(times))


@contextlib.contextmanager
def changing_beside(change: Callable[[], object], pause: float) -> Iterator[None]:
    """Let another thread call ``change`` over and over, with a rest of ``pause`` seconds between two calls."""
    stop = threading.Event()

    def run() -> None:
        while not stop.wait(pause):
            change()

    thread = threading.Thread(target=run, name="bench-writer")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def is_merging() -> bool:
    """Whether an engine merges in the background now."""
    return any(thread.name == _MERGE_THREAD for thread in threading.enumerate())


def resident_bytes() -> int | None:
    """Return the memory of this process that is in use, None where the system does not tell."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return None
    import resource

    return pages * resource.getpagesize()


def run_fresh(program: str, *arguments: object) -> Any:
    """Run a Python program in a new process; return the JSON it prints."""
    command = [sys.executable, "-c", program, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)
