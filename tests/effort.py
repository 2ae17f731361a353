"""How much work something is, in units of this machine: a slow or busy machine changes no verdict.

One unit is a fixed loop of plain Python, about 5 ms on a machine of 2024. It is timed beside the work, both in CPU time
and both as the best of several rounds, so that what slows the one slows the other. A test asks for several times what
was measured: it finds work that grows with the square of its input, not work that became a little slower.
"""

from __future__ import annotations

import time
from collections.abc import Callable


def effort(work: Callable[[], object], rounds: int = 3, clock: Callable[[], float] = time.process_time) -> float:
    """Units of work, the best of ``rounds``; `time.thread_time` leaves out the other threads of this process."""
    unit = min(_seconds(_one_unit, clock) for _ in range(3))
    return min(_seconds(work, clock) for _ in range(rounds)) / min(
        unit, *(_seconds(_one_unit, clock) for _ in range(3))
    )


def unit_seconds() -> float:
    """Return the CPU time of one unit on this machine, the best of three."""
    return min(_seconds(_one_unit) for _ in range(3))


def _one_unit() -> int:
    total = 0
    for i in range(100_000):
        total += i & 7
    return total


def _seconds(work: Callable[[], object], clock: Callable[[], float] = time.process_time) -> float:
    start = clock()
    work()
    return clock() - start
