"""The messages of all streams on disk: checked when the broker starts, and read a page at a time.

The table ``outbox`` has one row for each message: those that wait for an acknowledgement, and before them those that
were acknowledged and are kept for a replay. Each row has a CRC, and the numbers of those that wait have no holes, so
that a missing message is noticed as surely as a changed one (promise G14). Checking goes from row to row and keeps the
sizes alone: a backlog larger than memory can be opened (promise G19).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping

from tamis.errors import StoreError
from tamis.node import records
from tamis.node.effects import Key, Link
from tamis.node.outbox import Backlog
from tamis.runtime.stores.database import Database, Table, TableColumn

__all__ = ["OUTBOX", "OUTBOX_SCHEMA", "PAGE_BYTES", "MessageTable", "message_crc", "stream_ends"]

OUTBOX_SCHEMA = """
CREATE TABLE outbox (link TEXT NOT NULL, number INTEGER NOT NULL, at INTEGER NOT NULL, body BLOB NOT NULL,
                     crc INTEGER NOT NULL, PRIMARY KEY (link, number)) WITHOUT ROWID;
"""

OUTBOX = Table(
    "outbox",
    (
        TableColumn("link", "text"),
        TableColumn("number", "integer"),
        TableColumn("at", "integer"),
        TableColumn("body", "bytes"),
        TableColumn("crc", "integer"),
    ),
    2,
)

#: Bytes of messages that one call of `MessageTable.read` returns; one message may have more.
PAGE_BYTES = 1 << 20


#: Takes the link, the number and the body of a message.
Look = Callable[[Link, int, bytes], object]


class MessageTable:
    """The table ``outbox`` of the store at ``path``."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._backlogs: dict[Link, Backlog] = {}

    def load(
        self, db: Database, floors: Mapping[Link, int], ends: Mapping[Link, int], look: Look = lambda *message: None
    ) -> None:
        """Check every message, and note what waits for each link.

        ``floors`` are the numbers of the last acknowledged messages, ``ends`` those of the last messages. ``look`` is
        called with the link, the number and the body of each message.
        """
        backlogs: dict[Link, Backlog] = {}
        last = dict(floors)
        for link, number, body in self._rows(db):
            look(link, number, body)
            if number > floors.get(link, 0):
                self._demand_next(link, number, last.get(link, 0))
                last[link] = number
                backlogs.setdefault(link, Backlog(number - 1)).sizes.append(len(body))
        for link, end in ends.items():
            if last.get(link, 0) < end:
                raise StoreError(self._path, f"message {end} of link {link!r} is missing")
        self._backlogs = backlogs

    def take_backlogs(self) -> dict[Link, Backlog]:
        """Return what waits for each link, as `load` found it; it is forgotten here."""
        backlogs, self._backlogs = self._backlogs, {}
        return backlogs

    def read(
        self, db: Database, link: Link, after: int, limit: int, floors: Mapping[Link, int]
    ) -> list[tuple[int, bytes]]:
        """Return the oldest messages with numbers above ``after``, at most `PAGE_BYTES` of them."""
        question = "SELECT number, at, body, crc FROM outbox WHERE link = ? AND number > ? ORDER BY number LIMIT ?"
        floor, page, size = floors.get(link, 0), list[tuple[int, bytes]](), 0
        for number, at, body, crc in db.execute(question, (link, after, limit)):
            self._demand_intact(link, number, at, body, crc)
            size += len(body)
            if page and size > PAGE_BYTES:
                break
            page.append((number, body))
        # Another thread commits: the floor may have moved before or after the rows were read.
        last = max(after, floor, floors.get(link, 0))
        for number, _ in page:
            if number > last:
                self._demand_next(link, number, last)
                last = number
        return page

    def _rows(self, db: Database) -> Iterator[tuple[Link, int, bytes]]:
        """Yield the links, numbers and bodies of all messages, after checking each."""
        for name, number, at, body, crc in db.execute(
            "SELECT link, number, at, body, crc FROM outbox ORDER BY link, number"
        ):
            link = str(name, "utf-8") if isinstance(name, bytes) else name  # PostgreSQL keeps text as bytes
            self._demand_intact(link, number, at, body, crc)
            yield link, number, body

    def _demand_next(self, link: Link, number: int, last: int) -> None:
        if number != last + 1:
            raise StoreError(self._path, f"message {last + 1} of link {link!r} is missing")

    def _demand_intact(self, link: Link, number: int, at: int, body: object, crc: int) -> None:
        # A flipped bit may also have made a text of the bytes.
        if not isinstance(body, bytes) or crc != message_crc(link, number, at, body):
            raise StoreError(self._path, f"message {number} of link {link!r} is damaged")


def stream_ends(stored: Mapping[Key, bytes]) -> dict[Link, int]:
    """Return the links whose streams have an end on disk, with the number of the last message."""
    ends: dict[Link, int] = {}
    for key, value in stored.items():
        kind = records.find_kind(key)
        if kind.stream_end is not None:
            ends[key[1]] = kind.stream_end(kind.layout.decode(value))
    return ends


def message_crc(link: Link, number: int, at: int, body: bytes) -> int:
    """Return the checksum that stands beside a message."""
    return zlib.crc32(body, zlib.crc32(f"{number} {at} {link}".encode()))
