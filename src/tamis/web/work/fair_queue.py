"""A queue in which principals take turns, however many requests each of them has."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, deque
from collections.abc import AsyncIterator

from tamis.errors import RefusedError
from tamis.routing.edge.limits import MAX_WORK, MAX_WORK_OF_PRINCIPAL

__all__ = ["FairQueue"]


class FairQueue:
    """Gives out a few slots, one per principal at a time, to the principals that wait in turn.

    A principal with many questions does not delay another one's first question by more than the questions that run.
    Beyond the limits a caller is refused at once (503): a queue that only grows answers no question in time.
    """

    def __init__(self, slots: int, of_principal: int = MAX_WORK_OF_PRINCIPAL, in_all: int = MAX_WORK) -> None:
        self._slots = slots
        self._of_principal = of_principal
        self._in_all = in_all
        self._running: set[str] = set()
        #: ``{principal: callers}``, the principal whose turn is next first.
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        #: Callers that wait or run.
        self._count: Counter[str] = Counter()

    @contextlib.asynccontextmanager
    async def turn(self, principal: str) -> AsyncIterator[None]:
        """Within this the caller has a slot; `RefusedError` when too many wait."""
        if self._count[principal] >= self._of_principal:
            raise RefusedError(503, f"{self._of_principal} queries of {principal!r} are running; try again later")
        if self._count.total() >= self._in_all:
            raise RefusedError(503, f"{self._in_all} queries are running; try again later")
        self._count[principal] += 1
        try:
            await self._wait(principal)
            try:
                yield
            finally:
                if principal in self._waiting:
                    self._waiting[principal] = self._waiting.pop(principal)  # behind the others
                self._running.discard(principal)
                self._start_next()
        finally:
            self._count[principal] -= 1
            if not self._count[principal]:
                del self._count[principal]

    async def _wait(self, principal: str) -> None:
        started = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(principal, deque()).append(started)
        self._start_next()
        try:
            await started
        except asyncio.CancelledError:
            if started.done() and not started.cancelled():  # it had its slot already
                self._running.discard(principal)
                self._start_next()
            raise

    def _start_next(self) -> None:
        """Give free slots to the principals that wait and do not run, the one that waits longest for a turn first."""
        for principal in [name for name in self._waiting if name not in self._running]:
            if len(self._running) >= self._slots:
                return
            callers = self._waiting.pop(principal)
            while callers and callers[0].done():  # the caller has left
                callers.popleft()
            if callers:
                callers.popleft().set_result(None)
                self._running.add(principal)
            if callers:
                self._waiting[principal] = callers
