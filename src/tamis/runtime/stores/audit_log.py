"""The audit on disk: two tables of deeds, each deed sealed with a hash over itself and the seal of the one before.

The table ``audit`` holds what concerns security, ``activity`` what clients do all day; a deed says by its kind where it
belongs (`tamis.routing.edge.audit`). Numbers run through both tables. Each table is a chain of its own and is trimmed
by itself, so that activity never displaces a record about security.

A record that is changed, taken out or put in breaks its chain at that place (promise S24). The last seal stands in
books of its own, so that the end cannot be cut off unseen; when old records are deleted, the seal before the first one
that is kept goes there, too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from itertools import pairwise
from operator import attrgetter
from typing import NamedTuple

import msgspec

from tamis.errors import StoreError
from tamis.node import records
from tamis.routing.edge.audit import Deed
from tamis.runtime.stores.database import Database

__all__ = ["ACTIVITY_SCHEMA", "AUDIT_SCHEMA", "AuditLog", "AuditRecord"]

AUDIT_SCHEMA = """
CREATE TABLE audit (number INTEGER PRIMARY KEY, at INTEGER NOT NULL, body BLOB NOT NULL, seal BLOB NOT NULL);
CREATE TABLE audit_books (one INTEGER PRIMARY KEY CHECK (one = 1), first INTEGER, base BLOB, last INTEGER, seal BLOB);
INSERT INTO audit_books VALUES (1, 1, x'', 0, x'');
"""

ACTIVITY_SCHEMA = AUDIT_SCHEMA.replace("audit", "activity")

_decoder = msgspec.msgpack.Decoder(Deed)


class AuditRecord(NamedTuple):
    """A deed and its number."""

    number: int
    deed: Deed


class _End(NamedTuple):
    """Where a chain ends: the number of its last record, the seal of that, and how many records are kept."""

    number: int = 0
    seal: bytes = b""
    kept: int = 0


class _Chain:
    """One table of deeds; all writing happens within the store's transactions."""

    def __init__(self, path: str, table: str) -> None:
        self._path = path
        self._table = table
        #: As it is on disk.
        self.end = _End()

    def load(self, db: Database) -> None:
        """Check every record."""
        books = db.execute(f"SELECT base, last, seal FROM {self._table}_books").fetchone()
        if books is None:
            raise StoreError(self._path, f"the books of the audit ({self._table}) are missing")
        seal, last, last_seal = books
        number = count = 0
        for number, at, body, sealed in db.execute(f"SELECT number, at, body, seal FROM {self._table} ORDER BY number"):
            seal = self._checked(number, at, body, seal, sealed)
            count += 1
        if seal != last_seal or (count and number != last):
            raise StoreError(self._path, f"the audit ({self._table}) ends at {number:,}, {last:,} were noted")
        self.end = _End(last, seal, count)

    def write(self, db: Database, deeds: Sequence[tuple[int, bytes]], at: int) -> _End:
        """Append deeds; return where the chain then ends."""
        number, seal, count = self.end
        rows = []
        for number, body in deeds:
            seal = _sealed(number, at, body, seal)
            rows.append((number, at, body, seal))
        if rows:
            db.executemany(f"INSERT INTO {self._table} VALUES (?, ?, ?, ?)", rows)
            db.execute(f"UPDATE {self._table}_books SET last = ?, seal = ?", (number, seal))
        return _End(number, seal, count + len(rows))

    def read(self, db: Database, before: int, limit: int) -> list[AuditRecord]:
        """Return the newest records with numbers below ``before``, the newest first, after checking them."""
        question = f"SELECT number, at, body, seal FROM {self._table} WHERE number < ? ORDER BY number DESC LIMIT ?"
        rows = db.execute(question, (before, limit + 1)).fetchall()
        for (number, at, body, sealed), (_, _, _, seal) in pairwise(rows):
            self._checked(number, at, body, seal, sealed)
        return [AuditRecord(number, _decoder.decode(body)) for number, _, body, _ in rows[:limit]]

    def trim(self, db: Database, *, keep: int, before: int) -> int:
        """Delete the oldest records, those beyond ``keep`` and those before a moment; return how many.

        It reads what goes and one record more, however many stay.
        """
        beyond = max(0, self.end.kept - keep)
        question = f"SELECT number, at, seal FROM {self._table} ORDER BY number"
        n, last = 0, None
        for row in db.execute(question):
            if n >= beyond and row[1] >= before:
                break
            n, last = n + 1, row
        if last is not None:
            db.execute(f"DELETE FROM {self._table} WHERE number <= ?", (last[0],))
            db.execute(f"UPDATE {self._table}_books SET first = ?, base = ?", (last[0] + 1, last[2]))
        return n

    def _checked(self, number: int, at: int, body: bytes, seal: bytes, sealed: bytes) -> bytes:
        if sealed != _sealed(number, at, body, seal):
            raise StoreError(self._path, f"record {number:,} of the audit was changed, or the one before it is missing")
        return sealed


class AuditLog:
    """The audit of one store: both chains, numbered together."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._chains = {kind.name: _Chain(path, kind.name) for kind in (records.AUDIT, records.ACTIVITY)}

    @property
    def number(self) -> int:
        """The number of the last record on disk."""
        return max(chain.end.number for chain in self._chains.values())

    @property
    def seal(self) -> bytes:
        """The last seals of both chains."""
        return b"".join(chain.end.seal for chain in self._chains.values())

    def load(self, db: Database) -> None:
        """Check every record."""
        for chain in self._chains.values():
            chain.load(db)

    def write(self, db: Database, deeds: Sequence[tuple[str, int, bytes]], at: int) -> Mapping[str, _End]:
        """Append deeds, each with its table; return where the chains then end, for `settle` after the commit."""
        for expected, (_, number, _) in enumerate(deeds, self.number + 1):
            if number != expected:
                raise StoreError(self._path, f"deed {number:,} came, {expected:,} is next")
        return {
            table: chain.write(db, [(number, body) for name, number, body in deeds if name == table], at)
            for table, chain in self._chains.items()
        }

    def settle(self, ends: Mapping[str, _End]) -> None:
        """Take over where the chains end."""
        for table, end in ends.items():
            self._chains[table].end = end

    def read(self, db: Database, before: int | None, limit: int) -> list[AuditRecord]:
        """Return the newest records with numbers below ``before``, the newest first, after checking them."""
        top = 2**62 if before is None else before
        pages = [record for chain in self._chains.values() for record in chain.read(db, top, limit)]
        return sorted(pages, key=attrgetter("number"), reverse=True)[:limit]

    def trim(self, db: Database, *, keep: int, before: float) -> Mapping[str, int]:
        """Delete records of each table beyond the newest ``keep``, and those older than a moment; return how many."""
        return {table: chain.trim(db, keep=keep, before=round(before * 1e6)) for table, chain in self._chains.items()}

    def settle_trim(self, deleted: Mapping[str, int]) -> None:
        """Take over how many records were deleted."""
        for table, n in deleted.items():
            end = self._chains[table].end
            self._chains[table].end = end._replace(kept=end.kept - n)


def _sealed(number: int, at: int, body: bytes, seal: bytes) -> bytes:
    return hashlib.sha256(b"%d %d %d " % (number, at, len(body)) + body + seal).digest()
