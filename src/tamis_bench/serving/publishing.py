"""The publisher of a benchmark: events in frames or at a steady rate, and a check of every copy that arrives."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from tamis.errors import InvariantError
from tamis.runtime.client.client import Client
from tamis_bench.serving.clients import Arrivals

__all__ = ["FRAME", "FRAMES", "SINGLES", "Audience", "Latencies", "Run", "paced_frame"]

#: Events of one call, calls under way at once, and calls of single events under way.
FRAME, FRAMES, SINGLES = 256, 8, 64

#: Frames per second of a paced part.
FRAMES_PER_SECOND: Final = 100


@dataclass
class Audience:
    """Readers whose latency is one figure: the copies that reached them, and how many each event has for them."""

    arrivals: Arrivals
    #: Copies by the event's index in the pool.
    copies: Sequence[int]


@dataclass(frozen=True)
class Latencies:
    """Milliseconds from the call of publish to the reader: median and 99th percentile, and the number of copies."""

    p50: float
    p99: float
    n: int


@dataclass
class Run:
    """A publisher with a pool of events; ``events`` returns those at some indices."""

    client: Client
    events: Callable[[range], Sequence[Mapping[str, Any]]]
    audiences: Sequence[Audience]
    #: The pool index of each published event; the first has number 1.
    published: list[int] = field(default_factory=list)
    #: When publish was called, by the same order.
    moments: list[float] = field(default_factory=list)

    async def publish(self, indices: range) -> None:
        """Publish events of the pool; returns when they are durable."""
        events = self.events(indices)
        self.published += indices
        self.moments += [time.perf_counter()] * len(events)
        await self.client.publish(events)

    async def settle(self) -> None:
        """Wait until all copies of all published events have arrived; `InvariantError` when some do not."""
        for audience in self.audiences:
            try:
                await audience.arrivals.wait(sum(audience.copies[index] for index in self.published))
            except TimeoutError:
                self.check()
                raise

    async def together(self, indices: range, tasks: int = FRAMES, frame: int = FRAME) -> float:
        """Publish frames, several under way; return events per second until the last copy has arrived."""
        frames = iter([indices[first : first + frame] for first in range(0, len(indices), frame)])

        async def publish() -> None:
            for part in frames:
                await self.publish(part)

        start = time.perf_counter()
        await asyncio.gather(*(publish() for _ in range(tasks)))
        await self.settle()
        return len(indices) / (time.perf_counter() - start)

    async def paced(self, indices: range, rate: float, frame: int) -> list[Latencies]:
        """Publish at a steady rate, a frame at a time; return the latencies of each audience."""
        starts, waiting = [len(audience.arrivals.seen) for audience in self.audiences], list[asyncio.Task[None]]()
        begin = time.perf_counter()
        for first in range(0, len(indices), frame):
            await asyncio.sleep(max(0.0, begin + first / rate - time.perf_counter()))
            waiting.append(asyncio.create_task(self.publish(indices[first : first + frame])))
        await asyncio.gather(*waiting)
        await self.settle()
        return [self._latencies(audience, start) for audience, start in zip(self.audiences, starts, strict=True)]

    def _latencies(self, audience: Audience, start: int) -> Latencies:
        times = [moment - self.moments[seq - 1] for seq, moment in audience.arrivals.seen[start:]]
        p50, p99 = (np.percentile(np.array(times) * 1e3, (50, 99)) if times else np.zeros(2)).tolist()
        return Latencies(p50, p99, len(times))

    def check(self) -> None:
        """Compare what arrived with what the oracle expects, event by event; `InvariantError` when they differ."""
        missing = extra = 0
        for audience in self.audiences:
            arrived = Counter(seq for seq, _ in audience.arrivals.seen)
            expected = Counter({seq: n for seq, i in enumerate(self.published, 1) if (n := audience.copies[i])})
            missing += (expected - arrived).total()
            extra += (arrived - expected).total()
        if missing or extra:
            raise InvariantError(f"{missing} copies are missing, {extra} are too many")


def paced_frame(rate: float) -> int:
    """Return how many events are due every 10 ms, at most what one call takes.

    >>> paced_frame(30), paced_frame(10_000), paced_frame(1e6)
    (1, 100, 256)
    """
    return max(1, min(FRAME, int(rate / FRAMES_PER_SECOND)))
