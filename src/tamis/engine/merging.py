"""Runs merges in the background: the index plans and installs a merge, this thread runs it in between.

At most one merge runs at a time. The thread lives only as long as its merge, so an engine without
changes has none (Spark forks its workers), and the interpreter waits for it at exit.
"""

from __future__ import annotations

import ctypes
import threading

from tamis.index.protocols import Mergeable

__all__ = ["BackgroundMerge"]

#: Rows from which on memory is given back after a load, which takes about as long as loading a thousand. This many
#: removed rows also give memory back when merges have left them out.
MANY_ROWS = 20_000


class BackgroundMerge:
    """Runs the merges that indexes propose. ``lock`` is the writer's lock: plans are made and installed under it."""

    def __init__(self, lock: threading.RLock) -> None:
        self.lock = lock
        self._thread: threading.Thread | None = None
        #: Whether memory is given back when the running merge ends: a large load preceded it, or it left out many rows.
        self._gives_back = False
        #: How many removed rows merges have left out since memory was given back for them.
        self._n_left_out = 0

    def nudge(self, index: Mergeable) -> None:
        """Start a merge if an index needs one and none is running. The caller holds the lock."""
        if index.wants_merge() and not (self._thread is not None and self._thread.is_alive()):
            self._thread = threading.Thread(target=self._merge, args=(index,), name="tamis-merge")
            self._thread.start()

    def give_back(self, n_rows: int) -> None:
        """Return freed memory to the system after a load of many rows, now or when the running merge ends.

        The caller holds the lock.
        """
        if n_rows >= MANY_ROWS:
            self._gives_back = self._thread is not None and self._thread.is_alive()
            if not self._gives_back:
                give_back_memory()

    def wait(self) -> None:
        """Wait until no merge is running."""
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _merge(self, index: Mergeable) -> None:
        while True:
            with self.lock:
                plan = index.plan_merge()
                gives_back = plan is None and self._gives_back
                self._gives_back &= plan is not None
            if gives_back:
                give_back_memory()
            if plan is None:
                return
            plan.run()
            with self.lock:
                index.install(plan)
                self._n_left_out += plan.n_dead
                if self._n_left_out >= MANY_ROWS:
                    self._gives_back, self._n_left_out = True, 0


def give_back_memory() -> None:
    """Let the C library return freed memory to the system, if it can (glibc); its allocator would keep most of it."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
