"""How long things take: what goes into columns that end in ``_seconds``.

The clock is that of the process, not that on the wall: what else a machine does meanwhile hardly shows in it.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable

__all__ = ["best_seconds", "median_seconds", "seconds"]


def seconds(work: Callable[[], object]) -> float:
    """Return the processor time that a piece of work takes."""
    start = time.process_time()
    work()
    return time.process_time() - start


def best_seconds(work: Callable[[], object], times: int = 3) -> float:
    """Return the least of several times."""
    return min(seconds(work) for _ in range(times))


def median_seconds(calls: Iterable[Callable[[], object]]) -> float:
    """Return the median of the times of single calls."""
    return statistics.median(seconds(call) for call in calls)
