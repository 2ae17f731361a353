"""The table ``state`` on disk: values under keys, each with a CRC, and the table ``books`` with their number.

The books hold the format of the file, the number of the last commit, the number of records and the sum of their CRCs,
so that a record that was lost is noticed as surely as one that was changed (promise G14).
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from pathlib import Path

import msgspec

from tamis.errors import StoreError
from tamis.node import records
from tamis.node.effects import Key
from tamis.runtime.stores.database import Database, Table, TableColumn

__all__ = ["FORMAT", "MANIFEST", "STATE_SCHEMA", "Books", "packed", "unpacked"]

#: The layout of the tables. Older files are migrated by `tamis serve migrate` (`tamis.runtime.disk.migration`).
FORMAT = 3

#: What makes a backup of a directory with the files of a broker.
MANIFEST = "manifest.json"

STATE_SCHEMA = """
CREATE TABLE books (one INTEGER PRIMARY KEY CHECK (one = 1), format INTEGER, number INTEGER, records INTEGER,
                    total INTEGER);
CREATE TABLE state (key BLOB PRIMARY KEY, value BLOB NOT NULL, crc INTEGER NOT NULL) WITHOUT ROWID;
"""

_STATE = Table("state", (TableColumn("key", "bytes"), TableColumn("value", "bytes"), TableColumn("crc", "integer")), 1)


class Books:
    """The CRCs of the records of a store at ``path``, and the number of its commits."""

    def __init__(self, path: str) -> None:
        self._path = path
        #: The number of the last commit.
        self.number = 0
        #: ``{key: crc}``: exactly the records of ``state``.
        self._crcs: dict[bytes, int] = {}
        self._total = 0

    def load(self, db: Database) -> dict[Key, bytes]:
        """Return all records, after checking each of them and the books."""
        self.number, n_records, total = self._read_books(db)
        stored: dict[Key, bytes] = {}
        for key, value, crc in db.execute("SELECT key, value, crc FROM state"):
            if not isinstance(value, bytes) or crc != zlib.crc32(value, zlib.crc32(key)):
                raise StoreError(self._path, f"the record {key!r} is damaged")
            self._crcs[key] = crc
            stored[unpacked(key)] = value
        for parts in stored:
            records.find_kind(parts)
        self._total = sum(self._crcs.values())
        if (len(self._crcs), self._total) != (n_records, total):
            raise StoreError(self._path, f"{n_records:,} records were kept, {len(self._crcs):,} are found")
        return stored

    def write(self, db: Database, state: Mapping[bytes, bytes | None]) -> dict[bytes, int | None]:
        """Write and remove records and count the commit; return the CRCs for `settle`, called when it is durable."""
        crcs = {key: None if value is None else zlib.crc32(value, zlib.crc32(key)) for key, value in state.items()}
        removed = [(key,) for key, value in state.items() if value is None]
        kept = [(key, value, crcs[key]) for key, value in state.items() if value is not None]
        db.executemany("DELETE FROM state WHERE key = ?", removed)
        db.put(_STATE, kept)
        db.execute("UPDATE books SET number = number + 1, records = ?, total = ?", self._after(crcs))
        return crcs

    def settle(self, crcs: Mapping[bytes, int | None]) -> None:
        """Update the CRCs in memory with those of a commit that is durable."""
        _, self._total = self._after(crcs)
        for key, crc in crcs.items():
            if crc is None:
                self._crcs.pop(key, None)
            else:
                self._crcs[key] = crc
        self.number += 1

    def _read_books(self, db: Database) -> tuple[int, int, int]:
        row = db.execute("SELECT format, number, records, total FROM books").fetchone()
        if row is not None and row[0] in range(1, FORMAT):
            is_backup = Path(self._path).with_name(MANIFEST).exists()
            advice = (
                "`tamis serve restore` migrates it" if is_backup else "run `tamis serve migrate --data DIRECTORY` first"
            )
            raise StoreError(self._path, f"format {row[0]} of an earlier release: {advice}")
        if row is None or row[0] != FORMAT:
            raise StoreError(self._path, f"expected format {FORMAT}, found {row}; a later release of tamis may read it")
        return int(row[1]), int(row[2]), int(row[3])

    def _after(self, crcs: Mapping[bytes, int | None]) -> tuple[int, int]:
        """Return how many records there are after some changes, and the sum of their CRCs."""
        n_records, total = len(self._crcs), self._total
        for key, crc in crcs.items():
            old = self._crcs.get(key)
            n_records += (crc is not None) - (old is not None)
            total += (crc or 0) - (old or 0)
        return n_records, total


def packed(key: Key) -> bytes:
    """Return a key as it is on disk."""
    return msgspec.msgpack.encode(key)


def unpacked(data: bytes) -> Key:
    """Return the key that is on disk as these bytes."""
    return msgspec.msgpack.decode(data, type=tuple[str, ...])
