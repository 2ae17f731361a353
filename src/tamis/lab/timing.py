"""Clock times: what goes into columns that end in ``_seconds``."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable

__all__ = ["best_seconds", "median_seconds", "seconds"]


def seconds(work: Callable[[], object]) -> float:
    """Return how long a piece of work takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def best_seconds(work: Callable[[], object], times: int = 3) -> float:
    """Return the least of several times."""
    return min(seconds(work) for _ in range(times))


def median_seconds(calls: Iterable[Callable[[], object]]) -> float:
    """Return the median of the times of single calls: what else the machine does meanwhile hardly shows."""
    return statistics.median(seconds(call) for call in calls)
