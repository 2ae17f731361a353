"""What both engines share: the tables of a broker, and the rows of one commit.

A record goes into the table that the `RecordForm` of its kind names (`tamis.node.records`): ``state`` holds values
under keys; ``outbox`` the messages of each stream by number; ``audit`` and ``activity`` sealed logs
(`tamis.runtime.stores.audit_log`).
A message that was acknowledged is not deleted at once: the *floor* of its link moves over it, and `trim` deletes it
when its retention is over. Until then it can be replayed (promise G10). What leaves an overflow is deleted at once.

Nothing is trusted (G14). Each record carries a CRC, ``state`` has books (`tamis.runtime.stores.books`), and what waits
in an outbox has no holes (`tamis.runtime.stores.messages`). Whatever does not agree raises `StoreError`, and nothing is
repaired or cleaned up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

from tamis.node import records
from tamis.node.effects import Key, Link, Persist
from tamis.node.records import RecordForm
from tamis.runtime.stores.audit_log import AuditLog
from tamis.runtime.stores.books import Books, packed
from tamis.runtime.stores.database import Database
from tamis.runtime.stores.messages import OUTBOX, MessageTable, message_crc, stream_ends
from tamis.runtime.stores.retention import Retention

__all__ = ["CommitBatch", "Tables"]

#: Bytes of records that a commit may write into the room of the reserve.
_SMALL_BYTES = 64 * 1024


class Tables:
    """The tables of the store at ``place``, and what is known of them in memory."""

    def __init__(self, place: str) -> None:
        self.books = Books(place)
        self.messages = MessageTable(place)
        self.retention = Retention()
        self.audit = AuditLog(place)

    def load(self, db: Database) -> dict[Key, bytes]:
        """Return all records but messages and the audit, after checking everything."""
        stored = self.books.load(db)
        floors = {link: floor for (link,), floor in records.FLOOR.items(stored)}
        self.messages.load(db, floors, stream_ends(stored))
        self.retention.load(db, floors)
        self.audit.load(db)
        return {key: value for key, value in stored.items() if key[0] != records.FLOOR.name}

    def batch(self, changes: Iterable[Persist], now: float) -> CommitBatch:
        """Return the rows of a commit."""
        batch = CommitBatch(self, round(now * 1e6))
        for change in changes:
            batch.take(change)
        return batch


class CommitBatch:
    """The rows of one commit, worked out before the first is written."""

    def __init__(self, tables: Tables, at: int) -> None:
        self.tables = tables
        self.at = at
        self.state: dict[bytes, bytes | None] = {}
        self.messages: dict[tuple[Link, int], bytes] = {}
        self.floors: dict[Link, int] = {}
        #: Bytes of the messages that the floors move over.
        self.grown: dict[Link, int] = {}
        self.restarted: set[Link] = set()
        #: Streams whose messages are deleted when the floor moves over them.
        self.unretained: set[Link] = set()
        #: Links that are no more, with all that was kept for a replay.
        self.forgotten: set[Link] = set()
        self.crcs: dict[bytes, int | None] = {}
        #: The table, the number and the body of each.
        self.deeds: list[tuple[str, int, bytes]] = []
        self.settle_audit: Callable[[], None] = lambda: None

    def take(self, change: Persist) -> None:
        """Add a change; `ModelError` when there is no such kind of record."""
        kind = records.find_kind(change.key)
        if kind.form is RecordForm.VALUE:
            self.state[packed(change.key)] = change.value
            if kind.stream_end is not None and change.value is None:
                self.forgotten.add(change.key[1])
        elif kind.form is RecordForm.STREAM:
            self._take_message(change)
            if not kind.is_retained:
                self.unretained.add(change.key[1])
        elif change.value is not None:
            self.deeds.append((kind.name, int(change.key[1]), change.value))

    def _take_message(self, change: Persist) -> None:
        link, number = change.key[1], int(change.key[2])
        floor = self.floors.get(link, self.tables.retention.floors.get(link, 0))
        if change.value is None:
            self.floors[link] = max(floor, number)
            self.messages.pop((link, number), None)
        else:
            if number <= floor:  # the stream began again
                self.restarted.add(link)
                self.floors[link] = number - 1
                self.messages = {key: body for key, body in self.messages.items() if key[0] != link}
            self.messages[link, number] = change.value

    def write(self, db: Database) -> None:
        """Write the rows within a transaction; the same batch may be written again when that was rolled back."""
        retained = {link: floor for link, floor in self.floors.items() if link not in self.unretained}
        self.grown = self.tables.retention.measure(db, retained)
        passed = [(link, floor) for link, floor in self.floors.items() if link in self.unretained]
        db.executemany("DELETE FROM outbox WHERE link = ? AND number <= ?", passed)
        self.floors |= dict.fromkeys(self.forgotten, 0)
        for link, floor in self.floors.items():
            record = records.FLOOR.drop(link) if link in self.forgotten else records.FLOOR.put(link, value=floor)
            self.state[packed(record.key)] = record.value
        db.executemany("DELETE FROM outbox WHERE link = ?", [(link,) for link in self.restarted | self.forgotten])
        db.put(OUTBOX, self._message_rows())
        self.crcs = self.tables.books.write(db, self.state)
        self.settle_audit = partial(self.tables.audit.settle, self.tables.audit.write(db, self.deeds, self.at))

    @property
    def is_small(self) -> bool:
        """Whether it makes room or needs next to none: acknowledgements, cursors, withdrawals.

        A withdrawal is announced to neighbours, so that it has messages, too; new events are refused before they come.
        """
        values = sum(len(value) for value in self.state.values() if value is not None)
        messages = sum(map(len, self.messages.values()))
        return values + messages + sum(len(body) for _, _, body in self.deeds) < _SMALL_BYTES

    def settle(self) -> None:
        """Take over into memory what is on the disk now."""
        tables = self.tables
        tables.books.settle(self.crcs)
        tables.retention.move(self.floors, self.grown)
        for link in self.restarted | self.forgotten:
            tables.retention.restart(link, is_gone=link in self.forgotten)
        self.settle_audit()

    def _message_rows(self) -> Iterator[tuple[Link, int, int, bytes, int]]:
        for (link, number), body in self.messages.items():
            yield link, number, self.at, body, message_crc(link, number, self.at, body)
