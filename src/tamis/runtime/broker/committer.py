"""Group commit: one thread writes the changes of many calls, in order, and then reports them as durable.

No call waits for a timer. While one commit is under way the next ones gather, and go into one transaction together; so
a single publish is on disk at once, and a thousand share one flush.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from tamis.errors import DiskFullError
from tamis.node.effects import Persist
from tamis.runtime.stores.protocol import Store

__all__ = ["Committer"]

#: Changes of one transaction, beyond which the next one begins.
GROUP = 4_096

#: Changes whose effects are released in one turn of the event loop; the rest wait for the next turn.
RELEASED = 256

#: Waiting changes beyond which the broker is behind: until they are written, no work from the disk is continued.
BEHIND = 4 * GROUP

#: How long to wait before a full disk is tried again, in seconds.
RETRY_SECONDS = 0.25


@dataclass
class _Work:
    """Changes to commit, and what to do when they are durable."""

    changes: list[Persist]
    then: Callable[[], None]


class _Releases:
    """Calls back for durable changes, in order, in the event loop; other callbacks run in between."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._durable: deque[_Work] = deque()
        self._is_running = False

    def add(self, group: list[_Work]) -> None:
        """Call back for a group that is on disk now."""
        self._durable.extend(group)
        if not self._is_running:
            self._run()

    def _run(self) -> None:
        count = 0
        while self._durable and count < RELEASED:
            work = self._durable.popleft()
            count += len(work.changes)
            work.then()
        self._is_running = bool(self._durable)
        if self._is_running:
            self._loop.call_soon(self._run)


class Committer:
    """Commits to a store in a thread of its own; ``fail`` is called with an error that cannot be recovered from."""

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
        self._put = 0
        self._releases = _Releases(loop)

    @property
    def is_behind(self) -> bool:
        """Whether more than `BEHIND` changes wait to be written."""
        return self._put - self.changes > BEHIND

    def start(self) -> None:
        """Begin to commit."""
        self._thread.start()

    def put(self, changes: list[Persist], then: Callable[[], None]) -> None:
        """Commit changes after all earlier ones; then ``then`` is called in the event loop."""
        self._put += len(changes)
        self._queue.put(_Work(changes, then))

    def run_between(self, action: Callable[[], None]) -> None:
        """Call ``action`` in the thread, between two commits."""
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
        except BaseException as error:  # the thread has no caller: report it to the broker
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
            self._commit(group)
        if item is None:
            return False
        if not isinstance(item, _Work):
            item()
        return True

    def _commit(self, group: list[_Work]) -> None:
        """Commit a group; on a full disk one by one, so that what needs no room does not wait behind what does."""
        try:
            self._write(group)
        except DiskFullError:
            for work in group:
                self._insist(work)

    def _insist(self, work: _Work) -> None:
        """Commit something, however long the disk is full; `DiskFullError` when it still is when the broker stops."""
        while True:
            try:
                return self._write([work])
            except DiskFullError:
                if self._stopped.wait(RETRY_SECONDS):
                    raise

    def _write(self, group: list[_Work]) -> None:
        start, changes = time.perf_counter(), [change for work in group for change in work.changes]
        try:
            if changes:
                self._store.commit(changes, now=time.time())
        except DiskFullError:
            self.is_full = True
            raise
        self.is_full = False
        self.commits += bool(changes)
        self.changes += len(changes)
        self.seconds += time.perf_counter() - start
        self._call(lambda: self._releases.add(group))

    def _call(self, action: Callable[[], object]) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(action)
