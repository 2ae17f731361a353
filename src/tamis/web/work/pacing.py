"""Long loops of the broker's own process give way to other requests, and no principal takes more than its share.

A request that has computed for `SLICE_SECONDS` lets others run. While others are served, its principal then rests
`REST` times as long as it computed, whatever number of requests it has: a principal that sends costly requests without
a pause has a ninth of the event loop, and others wait for one slice of it now and then. Without others it does not
rest.

Neighbours take turns with clients, slice by slice, and neither rests for the other: a link carries the work of many
principals, and most of what a neighbour sends is the answer to what clients do here. Clients that rested for it
subscribed over a link at a seventh of the speed, and a link that rested for clients delivered a quarter of the events.

What cannot be interrupted (a long filter, a long body) is computed in a thread beside the event loop, for one principal
after the other: Python gives way to the loop every 5 ms.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Final, TypeVar

from tamis.routing.edge.limits import MAX_CONNECTIONS
from tamis.web.work.fair_queue import FairQueue

__all__ = ["MOST_REST", "REST", "SLICE_SECONDS", "Pace", "Shares"]

#: Seconds that one request may compute before others are served.
SLICE_SECONDS: Final = 0.01

#: How much longer than it computed a principal rests while others are served.
REST: Final = 8

#: Seconds that a principal rests at most. What takes long once need not be its fault: the first request of all may
#: compile kernels for half a minute.
MOST_REST: Final = 2.0

#: Seconds for which a principal counts as served after its last request.
SERVED_SECONDS: Final = 1.0

#: Principals whose rest is remembered; those that may compute again are forgotten first.
MOST_RESTING: Final = 1_024


_Result = TypeVar("_Result")


class Shares:
    """When each principal may compute again.

    >>> shares = Shares()
    >>> shares.spend("eve", 0.02, now=0.0)  # no other client is active
    >>> shares.rest("eve", now=0.0)
    0.0
    >>> shares.see("alice", now=0.5)
    >>> shares.spend("eve", 0.02, now=1.0)
    >>> round(shares.rest("eve", now=1.1), 2), shares.rest("alice", now=1.1), shares.rest("eve", now=1.2)
    (0.06, 0.0, 0.0)
    """

    def __init__(self) -> None:
        #: The principal that was served last and when, and the last one that was another.
        self._last = ("", float("-inf"))
        self._last_other = ("", float("-inf"))
        self._free_at: dict[str, float] = {}
        #: Who may use the thread beside the loop next.
        self.turns = FairQueue(1, of_principal=MAX_CONNECTIONS, in_all=MAX_CONNECTIONS)

    def see(self, principal: str, now: float) -> None:
        """Take note that a principal is served."""
        if principal != self._last[0]:
            self._last_other = self._last
        self._last = (principal, now)

    def spend(self, principal: str, seconds: float, now: float) -> None:
        """Take note that a principal has computed for ``seconds``: it rests if others are served."""
        self.see(principal, now)
        if now - seconds - self._last_other[1] > SERVED_SECONDS:  # while it computed, no other could be served
            return
        if len(self._free_at) >= MOST_RESTING:
            self._free_at = {name: at for name, at in self._free_at.items() if at > now}
        free_at = max(now, self._free_at.get(principal, now)) + REST * seconds
        self._free_at[principal] = min(free_at, now + MOST_REST)

    def rest(self, principal: str, now: float) -> float:
        """Return for how many seconds a principal is to rest before it computes again."""
        return max(0.0, self._free_at.get(principal, now) - now)


class Pace:
    """Lets other tasks run while something long is computed: call `begin` before it, `breathe` after each piece.

    No principal rests for acknowledgements (`begin_small`): the readers of a client that publishes would slow it down.
    """

    def __init__(self, shares: Shares, principal: str, *, is_neighbour: bool = False) -> None:
        #: None: it never rests.
        self._shares = None if is_neighbour else shares
        self._principal = principal
        self._start = 0.0

    async def begin(self) -> None:
        """Begin to compute: at once, or when the principal has rested. Its other requests may come first."""
        now = time.perf_counter()
        if self._shares is not None:
            while rest := self._shares.rest(self._principal, now):
                await asyncio.sleep(rest)
                now = time.perf_counter()
            self._shares.see(self._principal, now)
        self._start = now

    def begin_small(self) -> None:
        """Begin something that costs next to nothing: it does not wait, and others do not rest for it."""
        self._start = time.perf_counter()

    async def breathe(self) -> None:
        """Return at once, or after other tasks had their turn and the principal its rest."""
        now = time.perf_counter()
        if now - self._start > SLICE_SECONDS:
            if self._shares is not None:
                self._shares.spend(self._principal, now - self._start, now)
            await asyncio.sleep(0)
            await self.begin()

    async def beside(self, work: Callable[[], _Result]) -> _Result:
        """Return what ``work`` returns in another thread; others are served meanwhile. Then the principal rests."""
        assert self._shares is not None  # neighbours are not checked beside the loop
        async with self._shares.turns.turn(self._principal):
            seconds, finish = await asyncio.get_running_loop().run_in_executor(_thread(), _timed, work)
        self._shares.spend(self._principal, seconds, time.perf_counter())
        await self.begin()
        return finish()


@cache
def _thread() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, "tamis-beside")


def _timed(work: Callable[[], _Result]) -> tuple[float, Callable[[], _Result]]:
    """Return the CPU time of some work, and a function that returns its result or raises its exception."""
    start = time.thread_time()
    try:
        result = work()
    except Exception as caught:
        error = caught

        def fail() -> _Result:
            raise error

        return time.thread_time() - start, fail
    return time.thread_time() - start, lambda: result
