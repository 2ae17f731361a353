"""Merging in the background: the index plans and installs, this thread runs what lies between.

At most one merge runs at a time. The thread lives only as long as its merge, so an engine that nobody
changes has none (Spark forks its workers), and the interpreter waits for it at exit.
"""

from __future__ import annotations

import threading

from tamis.index.protocols import Mergeable

__all__ = ["BULK", "TIDY_EVERY", "BackgroundMerge"]

#: Subscriptions that come at once from which on it pays to merge them at once.
BULK = 4_096
#: Removals after which it is asked again whether a merge would pay: asking each time is a quarter of a removal.
TIDY_EVERY = 64


class BackgroundMerge:
    """Runs the merges that an index proposes. ``lock`` is the writer's: plans are made and installed under it."""

    def __init__(self, lock: threading.RLock) -> None:
        self._lock = lock
        self._thread: threading.Thread | None = None

    def nudge(self, index: Mergeable | None, *, now: bool = False) -> None:
        """Start a merge if there is an index that wants one and none is running. The caller holds the lock.

        ``now``: merge everything before returning; after a bulk that is most of the index nobody gains by waiting.
        """
        if index is not None and now:
            index.compact()
        elif index is not None and index.wants_merge() and not (self._thread is not None and self._thread.is_alive()):
            self._thread = threading.Thread(target=self._merge, args=(index,), name="tamis-merge")
            self._thread.start()

    def wait(self) -> None:
        """Wait until no merge is running."""
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _merge(self, index: Mergeable) -> None:
        while True:
            with self._lock:
                plan = index.plan_merge()
            if plan is None:
                return
            plan.run()
            with self._lock:
                index.install(plan)
