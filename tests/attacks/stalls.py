"""How long the event loop of a broker computes without giving way, whatever else the machine does.

The broker runs in this process. A heartbeat notes the CPU time of the loop's thread at every turn of the loop: the
longest step between two beats is the longest stall. CPU time of the thread, not of the clock, so that a busy machine
changes no verdict; and in units of `tests.effort`, so that a slow one changes none.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from tamis.runtime.broker.config import BrokerConfig, LinkConfig
from tamis.web.serving import serve
from tests.effort import unit_seconds
from tests.server.processes import Answer, ask


@dataclass
class Watched:
    """A broker in this process, and the longest step of its loop since `reset`, in seconds of CPU time."""

    url: str
    longest: float = 0.0
    last: float = 0.0

    async def ask(self, path: str, method: str = "GET", body: object = None, **headers: str) -> Answer:
        return await asyncio.to_thread(ask, self.url + path, method, body, **headers)  # type: ignore[arg-type]

    def reset(self) -> None:
        self.longest, self.last = 0.0, time.thread_time()

    def beat(self) -> None:
        now = time.thread_time()
        self.longest, self.last = max(self.longest, now - self.last), now
        asyncio.get_running_loop().call_later(0.0005, self.beat)

    def units(self) -> float:
        """Return the longest step in units of work; one is about 5 ms on a machine of 2024."""
        return self.longest / unit_seconds()


@contextlib.asynccontextmanager
async def watched_broker(directory: Path, *neighbours: str, schema: str = "") -> AsyncIterator[Watched]:
    ready = asyncio.get_running_loop().create_future()
    config = BrokerConfig(port=0, data=str(directory), schema=schema, links=tuple(map(LinkConfig, neighbours)))
    task = asyncio.create_task(serve(config, ready.set_result))
    gc.collect()
    gc.freeze()  # what the tests before this one left would be searched again within a step of the broker
    try:
        await asyncio.wait([task, ready], return_when=asyncio.FIRST_COMPLETED)
        watched = Watched(ready.result())
        watched.reset()
        watched.beat()
        yield watched
    finally:
        gc.unfreeze()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
