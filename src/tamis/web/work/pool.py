"""A few processes that compute for the broker, and can be killed.

Whatever a question costs, the event loop only writes it to a pipe and waits for the answer. A question has a budget of
CPU time, which the kernel enforces, and a deadline; a process that exceeds either is killed, and another is started.
Processes are started by exec when they are needed first, so that no lock or thread of the broker is copied into them.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from tamis import errors
from tamis.errors import InvariantError, RefusedError, SubscriptionError, SubscriptionSyntaxError, TamisError
from tamis.web.work.fair_queue import FairQueue
from tamis.web.work.pipes import HEADER, WorkerAnswer, WorkerQuestion, frame

__all__ = ["COMPARISON", "QUESTION", "Pool", "TimeBudget"]

#: Worker processes of a broker.
WORKERS: Final = 2

#: Seconds in which a worker that closed its pipe ends.
END_SECONDS: Final = 10.0

_PROGRAM: Final = (sys.executable, "-m", "tamis.web.work.worker")


class TimeBudget(msgspec.Struct, frozen=True):
    """What one question may take: seconds of CPU time, and seconds until its answer."""

    cpu_seconds: int
    deadline: float


#: A filter or an event that is tried or explained; the networks of a comparison.
QUESTION: Final = TimeBudget(cpu_seconds=5, deadline=60.0)
COMPARISON: Final = TimeBudget(cpu_seconds=60, deadline=300.0)


class Pool:
    """Answers questions in processes of their own, for principals in turn."""

    def __init__(self, workers: int = WORKERS) -> None:
        self._queue = FairQueue(workers)
        self._idle: list[asyncio.subprocess.Process] = []
        self._all: set[asyncio.subprocess.Process] = set()

    async def run(
        self, principal: str, job: str, arguments: object, blobs: Sequence[bytes] = (), *, budget: TimeBudget = QUESTION
    ) -> Any:
        """Return the value of a job of `tamis.web.work.jobs`, or raise the `TamisError` that it raised.

        `RefusedError`: 413 when it needs more CPU time than its budget, 503 when it cannot be answered now.
        """
        async with self._queue.turn(principal):
            question = frame(WorkerQuestion(job, budget.cpu_seconds, json.dumps(arguments), tuple(blobs)))
            worker = self._idle.pop() if self._idle else await self._start()
            try:
                async with asyncio.timeout(budget.deadline):
                    answer = await _ask(worker, question)
            except (asyncio.IncompleteReadError, ConnectionError):
                raise await self._ended(worker, budget) from None
            except TimeoutError:
                await self._kill(worker)
                raise RefusedError(503, f"no answer within {budget.deadline:g} s; try again later") from None
            except BaseException:
                await self._kill(worker)
                raise
            self._idle.append(worker)
        return _value(answer)

    async def close(self) -> None:
        """End all processes."""
        for worker in list(self._all):
            await self._kill(worker)

    async def _start(self) -> asyncio.subprocess.Process:
        pipe = asyncio.subprocess.PIPE
        environment = {**os.environ, "NUMBA_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        worker = await asyncio.create_subprocess_exec(
            *_PROGRAM, stdin=pipe, stdout=pipe, env=environment, start_new_session=True
        )
        self._all.add(worker)
        return worker

    async def _ended(self, worker: asyncio.subprocess.Process, budget: TimeBudget) -> RefusedError:
        """Return why a process ended before it had answered.

        `kill` looks for the status first, and the loop then reports 255: so the status is waited for.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(END_SECONDS):
                await worker.wait()
        await self._kill(worker)
        if worker.returncode == -signal.SIGXCPU:
            return RefusedError(
                413, f"this needs more than {budget.cpu_seconds} s of CPU time: use a shorter filter or fewer events"
            )
        return RefusedError(503, f"the worker process ended (exit code {worker.returncode}); try again")

    async def _kill(self, worker: asyncio.subprocess.Process) -> None:
        with contextlib.suppress(ProcessLookupError):
            worker.kill()
        await worker.wait()
        self._all.discard(worker)


async def _ask(worker: asyncio.subprocess.Process, question: bytes) -> WorkerAnswer:
    if worker.stdin is None or worker.stdout is None:
        raise InvariantError("a worker process has no pipes")
    worker.stdin.write(question)
    await worker.stdin.drain()
    (size,) = HEADER.unpack(await worker.stdout.readexactly(HEADER.size))
    return msgspec.msgpack.decode(await worker.stdout.readexactly(size), type=WorkerAnswer)


def _value(answer: WorkerAnswer) -> Any:
    if answer.defect:
        raise InvariantError(f"a worker process failed: {answer.defect}")
    if answer.error:
        kind = getattr(errors, answer.error)
        if not issubclass(kind, TamisError):
            raise InvariantError(f"a worker process answered {answer.error}")
        error = kind(*json.loads(answer.arguments))
        if isinstance(error, SubscriptionError | SubscriptionSyntaxError):
            error.corrected = answer.corrected
        raise error
    return json.loads(answer.value)
