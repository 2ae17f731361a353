"""What lives as long as the broker is taken out of the garbage collector's sight.

A hundred thousand subscriptions are millions of objects, and a full collection looks at every one of them while all
clients wait. They are freed by their reference counts when they go; there are no cycles in them to be found.
"""

from __future__ import annotations

import asyncio
import gc

from tamis.runtime.broker.driver import Driver

__all__ = ["keep_frozen"]

#: Seconds between two looks, and by how many subscriptions the table must have moved.
LOOK_SECONDS, MOVED = 1.0, 1_000


async def keep_frozen(driver: Driver) -> None:
    """Freeze what is there at the start, and again whenever many subscriptions came or went."""
    gc.collect()
    gc.freeze()
    known = len(driver.view.asked)
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        n = len(driver.view.asked)
        if abs(n - known) >= MOVED:
            known = n
            gc.freeze()  # without a collection before it: that would be the pause
