"""Threads beside the event loop, in which costly events are matched (`tamis.routing.core.ahead`).

Compiled kernels run without Python's lock; everything else gives way to the loop after `SWITCH_SECONDS`. Threads are
daemons: a broker that stops does not wait for them, and takes the events again from its disk when it starts.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from tamis.routing.core.ahead import Job

__all__ = ["finish_beside", "run_beside"]

_log = logging.getLogger("tamis")

#: Seconds that a thread computes while the event loop waits for Python's lock. The usual 5 ms would be added to every
#: request, several times.
SWITCH_SECONDS = 0.0005

_Result = TypeVar("_Result")


async def run_beside(work: Callable[[], _Result]) -> _Result:
    """Return what ``work`` returns in a thread of its own; it goes on when the caller is cancelled."""
    done: asyncio.Future[_Result] = asyncio.get_running_loop().create_future()

    def settle(result: _Result | None, error: Exception | None) -> None:
        if not done.done() and error is not None:
            done.set_exception(error)
        elif not done.done():
            done.set_result(result)  # type: ignore[arg-type]  # None only if it is the result

    def compute() -> tuple[_Result | None, Exception | None]:
        try:
            return work(), None
        except Exception as error:
            return None, error

    _start(compute, lambda answer: settle(*answer))
    return await done


def finish_beside(job: Job, finish: Callable[[Job, float, Exception | None], None]) -> None:
    """Run a job in a thread, and then call ``finish`` in the event loop with its CPU time and its error."""

    def run() -> tuple[float, Exception | None]:
        start = time.thread_time()
        try:
            job.run()
        except Exception as error:  # the loop matches these events itself
            _log.warning("matching beside the event loop failed: %r", error)
            return time.thread_time() - start, error
        return time.thread_time() - start, None

    _start(run, lambda answer: finish(job, *answer))


def _start(work: Callable[[], _Result], then: Callable[[_Result], None]) -> None:
    sys.setswitchinterval(SWITCH_SECONDS)
    loop = asyncio.get_running_loop()

    def run() -> None:
        result = work()
        with contextlib.suppress(RuntimeError):  # the loop was closed: the broker has stopped
            loop.call_soon_threadsafe(then, result)

    threading.Thread(target=run, name="tamis-matching", daemon=True).start()
