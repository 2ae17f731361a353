"""Group commit: one thread writes what many calls want written, in order, and then says so.

Nobody waits for a timer. While one commit is under way the next ones gather, and go into one transaction together; so
a lonely publish is on disk at once, and a thousand share one flush.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from tamis.errors import DiskFullError
from tamis.node.effects import Persist
from tamis.runtime.broker.store import Store

__all__ = ["Committer"]

#: Changes of one transaction, beyond which the next one begins.
GROUP = 4_096

#: How long to wait before a full disk is tried again, in seconds.
RETRY_SECONDS = 0.25


@dataclass
class _Work:
    """Changes to commit, and what to do when they are durable."""

    changes: list[Persist]
    then: Callable[[], None]


class Committer:
    """Commits to a store in a thread of its own; ``fail`` hears of an error that nobody can recover from."""

    def __init__(self, store: Store, loop: asyncio.AbstractEventLoop, fail: Callable[[BaseException], None]) -> None:
        self._store = store
        self._loop = loop
        self._fail = fail
        self._queue: queue.SimpleQueue[_Work | Callable[[], None] | None] = queue.SimpleQueue()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tamis-commit", daemon=True)
        #: Whether the disk is full now.
        self.is_full = False
        #: Transactions written, changes in them, and the seconds that took.
        self.commits = 0
        self.changes = 0
        self.seconds = 0.0

    def start(self) -> None:
        """Begin to commit."""
        self._thread.start()

    def put(self, changes: list[Persist], then: Callable[[], None]) -> None:
        """Have changes committed after all earlier ones; ``then`` is called in the event loop."""
        self._queue.put(_Work(changes, then))

    def run_between(self, action: Callable[[], None]) -> None:
        """Have something done in the thread, between two commits."""
        self._queue.put(action)

    def stop(self) -> None:
        """Commit what was put, and end."""
        self._stopped.set()
        self._queue.put(None)
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        try:
            while self._take_one_group():
                pass
        except BaseException as error:  # the thread has no caller: whoever runs the broker must hear of it
            self._call(partial(self._fail, error))

    def _take_one_group(self) -> bool:
        group: list[_Work] = []
        count, item = 0, self._queue.get()
        while isinstance(item, _Work):
            group.append(item)
            count += len(item.changes)
            if count >= GROUP or self._queue.empty():
                break
            item = self._queue.get()
        if group:
            self._commit([change for work in group for change in work.changes])
            self._call(lambda: _tell(group))
        if item is None:
            return False
        if not isinstance(item, _Work):
            item()
        return True

    def _commit(self, changes: list[Persist]) -> None:
        start = time.perf_counter()
        while changes:
            try:
                self._store.commit(changes, now=time.time())
                break
            except DiskFullError:
                self.is_full = True
                if self._stopped.wait(RETRY_SECONDS):
                    raise
        self.is_full = False
        self.commits += bool(changes)
        self.changes += len(changes)
        self.seconds += time.perf_counter() - start

    def _call(self, action: Callable[[], object]) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(action)


def _tell(group: list[_Work]) -> None:
    for work in group:
        work.then()
