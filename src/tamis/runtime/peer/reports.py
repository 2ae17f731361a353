"""Notices for the person who runs a peer; strangers cause most of them, so they are bounded."""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["Reports"]

#: The most notices in one period, and its seconds; each text is shown once in it.
PER_PERIOD, PERIOD_SECONDS = 20, 60.0


class Reports:
    """Passes notices on to ``show``: at most `PER_PERIOD` different ones in a minute, then how many were left out."""

    def __init__(self, show: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._show = show
        self._clock = clock
        self._period = clock()
        self._shown: set[str] = set()
        self._left_out = 0

    def say(self, text: str) -> None:
        """Show a notice, unless it was shown lately or there were too many."""
        now = self._clock()
        if now - self._period >= PERIOD_SECONDS:
            if self._left_out:
                self._show(f"{self._left_out:,} more notices in the last {now - self._period:.0f} s were left out")
            self._period, self._left_out = now, 0
            self._shown.clear()
        if text in self._shown:
            return
        if len(self._shown) >= PER_PERIOD:
            self._left_out += 1
            return
        self._shown.add(text)
        self._show(text)
