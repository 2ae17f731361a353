"""Long loops of the broker's own process give way to other requests."""

from __future__ import annotations

import asyncio
import time
from typing import Final

__all__ = ["SLICE_SECONDS", "Pace"]

#: Seconds that one request may compute before others are served.
SLICE_SECONDS: Final = 0.01


class Pace:
    """Lets other tasks run once a loop has computed for `SLICE_SECONDS`; call `breathe` after each piece of work."""

    def __init__(self) -> None:
        self._start = time.perf_counter()

    async def breathe(self) -> None:
        """Return at once, or after other tasks had their turn."""
        if time.perf_counter() - self._start > SLICE_SECONDS:
            await asyncio.sleep(0)
            self._start = time.perf_counter()
