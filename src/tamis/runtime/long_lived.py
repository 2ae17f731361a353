"""Objects that live as long as the broker are frozen: the garbage collector skips them.

A hundred thousand subscriptions are millions of objects, and a full collection visits every one of them while all
clients wait. They have no cycles: their reference counts free them when they end.
"""

from __future__ import annotations

import asyncio
import gc

from tamis.runtime.broker.driver import Driver

__all__ = ["keep_frozen"]

#: Seconds between two checks, and by how many subscriptions the table must have grown or shrunk.
LOOK_SECONDS, MOVED = 1.0, 1_000


async def keep_frozen(driver: Driver) -> None:
    """Freeze all objects at the start, and again whenever many subscriptions were added or ended."""
    gc.collect()
    gc.freeze()
    frozen_at = len(driver.view.subscriptions)
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        n = len(driver.view.subscriptions)
        if abs(n - frozen_at) >= MOVED:
            frozen_at = n
            gc.freeze()  # without a collection before it: that would be the pause
