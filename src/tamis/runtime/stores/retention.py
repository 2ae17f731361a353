"""Which acknowledged messages are deleted: by age, and by bytes when all of them together are too many.

The messages of a link are numbered in the order in which they came, so their moments ascend, and the first one that is
young enough is found by bisection. Nothing is scanned; one call deletes a bounded number of rows (promise R14).
"""

from __future__ import annotations

from tamis.node.effects import Link
from tamis.runtime.stores.database import Database

__all__ = ["TRIM_ROWS", "Retention"]

#: Rows that one call deletes at most.
TRIM_ROWS = 10_000


class Retention:
    """How far each link has acknowledged its messages, and how many bytes are kept of those."""

    def __init__(self) -> None:
        #: ``{link: number}``: everything up to here is acknowledged.
        self.floors: dict[Link, int] = {}
        #: ``{link: bytes}`` of the messages that are acknowledged and still there.
        self.kept_bytes: dict[Link, int] = {}

    def load(self, db: Database, floors: dict[Link, int]) -> None:
        """Take over the floors of a store, and measure what is kept below them."""
        self.floors = floors
        question = "SELECT coalesce(sum(length(body)), 0) FROM outbox WHERE link = ? AND number <= ?"
        for link, (size,) in zip(floors, db.executemany(question, floors.items()), strict=True):
            self.kept_bytes[link] = int(size)

    def measure(self, db: Database, floors: dict[Link, int]) -> dict[Link, int]:
        """Return the bytes of the messages that floors move over."""
        question = "SELECT coalesce(sum(length(body)), 0) FROM outbox WHERE link = ? AND number > ? AND number <= ?"
        ranges = [(link, self.floors.get(link, 0), floor) for link, floor in floors.items()]
        return {link: int(size) for link, (size,) in zip(floors, db.executemany(question, ranges), strict=True)}

    def move(self, floors: dict[Link, int], grown: dict[Link, int]) -> None:
        """Take over floors that are on disk now."""
        self.floors.update(floors)
        for link, size in grown.items():
            self.kept_bytes[link] = self.kept_bytes.get(link, 0) + size

    def restart(self, link: Link, *, is_gone: bool) -> None:
        """Forget the messages of a link, and with ``is_gone`` the link."""
        self.kept_bytes.pop(link, None)
        if is_gone:
            self.floors.pop(link, None)

    def trim(self, db: Database, before: int, max_bytes: int | None) -> int:
        """Delete messages older than a moment in microseconds, and the oldest of the largest links beyond some bytes.

        Returns how many rows were deleted; `TRIM_ROWS` or more means that there may be others.
        """
        kept = dict(self.kept_bytes)
        try:
            return self._trim(db, before, max_bytes)
        except BaseException:  # it is rolled back
            self.kept_bytes = kept
            raise

    def _trim(self, db: Database, before: int, max_bytes: int | None) -> int:
        deleted = 0
        for link in sorted(self.kept_bytes):
            if deleted < TRIM_ROWS and self.kept_bytes[link] > 0:
                deleted += self._delete(db, link, self._last_before(db, link, before), TRIM_ROWS - deleted)
        while max_bytes is not None and sum(self.kept_bytes.values()) > max_bytes and deleted < TRIM_ROWS:
            largest = max(self.kept_bytes, key=lambda link: self.kept_bytes[link])
            done = self._delete(db, largest, self.floors.get(largest, 0), 256)
            deleted += done
            if not done:
                break
        return deleted

    def _last_before(self, db: Database, link: Link, before: int) -> int:
        """Return the number of the last acknowledged message that is older than a moment."""
        row = db.execute("SELECT number, at FROM outbox WHERE link = ? ORDER BY number LIMIT 1", (link,)).fetchone()
        if row is None or row[1] >= before:
            return 0
        low, high = int(row[0]), self.floors.get(link, 0)
        question = "SELECT at FROM outbox WHERE link = ? AND number = ?"
        while low < high:
            middle = (low + high + 1) // 2
            moment = db.execute(question, (link, middle)).fetchone()
            if moment is not None and moment[0] < before:
                low = middle
            else:
                high = middle - 1
        return low

    def _delete(self, db: Database, link: Link, upto: int, most: int) -> int:
        """Delete the oldest acknowledged messages of a link up to a number; return how many."""
        upto = min(upto, self.floors.get(link, 0))
        question = "SELECT number, length(body) FROM outbox WHERE link = ? AND number <= ? ORDER BY number LIMIT ?"
        rows = db.execute(question, (link, upto, most)).fetchall()
        if rows:
            db.execute("DELETE FROM outbox WHERE link = ? AND number <= ?", (link, rows[-1][0]))
            self.kept_bytes[link] -= sum(size for _, size in rows)
        return len(rows)
