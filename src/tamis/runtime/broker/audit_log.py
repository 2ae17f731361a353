"""The audit on disk: a table of deeds, each sealed with a hash over itself and the seal of the one before.

A record that is changed, taken out or put in breaks the chain at its place (promise S24). The last seal stands in
books of its own, so that the end cannot be cut off unseen; when old records are deleted, the seal before the first one
that is kept goes there, too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import msgspec

from tamis.errors import StoreError
from tamis.routing.edge.audit import Deed

__all__ = ["AUDIT_SCHEMA", "AuditLog", "AuditRecord"]

AUDIT_SCHEMA = """
CREATE TABLE audit (number INTEGER PRIMARY KEY, at INTEGER NOT NULL, body BLOB NOT NULL, seal BLOB NOT NULL);
CREATE TABLE audit_books (one INTEGER PRIMARY KEY CHECK (one = 1), first INTEGER, base BLOB, last INTEGER, seal BLOB);
INSERT INTO audit_books VALUES (1, 1, x'', 0, x'');
"""

_decoder = msgspec.msgpack.Decoder(Deed)


class AuditRecord(NamedTuple):
    """A deed and its number."""

    number: int
    deed: Deed


class AuditLog:
    """The audit of one store; all writing happens within the store's transactions."""

    def __init__(self, path: str) -> None:
        self._path = path
        #: The number of the last record and its seal, as they are on disk.
        self.number = 0
        self.seal = b""

    def load(self, db: Any) -> None:
        """Check every record."""
        found = db.execute("SELECT first, base, last, seal FROM audit_books").fetchone()
        if found is None:
            raise StoreError(self._path, "the books of the audit are missing")
        number, seal, self.number, self.seal = found
        for place, at, body, sealed in db.execute("SELECT number, at, body, seal FROM audit ORDER BY number"):
            seal = self._checked(number, place, at, body, seal, sealed)
            number += 1
        if (number - 1, seal) != (self.number, self.seal):
            raise StoreError(self._path, f"the audit ends at {number - 1:,}, {self.number:,} were noted")

    def write(self, db: Any, deeds: Sequence[tuple[int, bytes]], at: int) -> tuple[int, bytes]:
        """Append deeds; return where the audit then ends, to be taken over by `settle` after the commit."""
        number, seal, rows = self.number, self.seal, []
        for given, body in deeds:
            number += 1
            if given != number:
                raise StoreError(self._path, f"deed {given:,} came, {number:,} is next")
            seal = _sealed(number, at, body, seal)
            rows.append((number, at, body, seal))
        if rows:
            db.executemany("INSERT INTO audit VALUES (?, ?, ?, ?)", rows)
            db.execute("UPDATE audit_books SET last = ?, seal = ?", (number, seal))
        return number, seal

    def settle(self, end: tuple[int, bytes]) -> None:
        """Take over where the audit ends."""
        self.number, self.seal = end

    def read(self, db: Any, before: int | None, limit: int) -> list[AuditRecord]:
        """Return the newest records with numbers below ``before``, the newest first, after checking them."""
        top = 2**62 if before is None else before
        question = "SELECT number, at, body, seal FROM audit WHERE number < ? ORDER BY number DESC LIMIT ?"
        rows = db.execute(question, (top, limit + 1)).fetchall()
        for (number, at, body, sealed), (_, _, _, seal) in pairwise(rows):
            self._checked(number, number, at, body, seal, sealed)
        return [AuditRecord(number, _decoder.decode(body)) for number, _, body, _ in rows[:limit]]

    def trim(self, db: Any, *, keep: int, before: float) -> int:
        """Delete records beyond the newest ``keep``, and those older than a moment; return how many."""
        old = "SELECT max(number) FROM audit WHERE number <= ? OR at < ?"
        (upto,) = db.execute(old, (self.number - keep, round(before * 1e6))).fetchone()
        if upto is None:
            return 0
        (base,) = db.execute("SELECT seal FROM audit WHERE number = ?", (upto,)).fetchone()
        (n,) = db.execute("SELECT count(*) FROM audit WHERE number <= ?", (upto,)).fetchone()
        db.execute("DELETE FROM audit WHERE number <= ?", (upto,))
        db.execute("UPDATE audit_books SET first = ?, base = ?", (upto + 1, base))
        return int(n)

    def _checked(self, number: int, place: int, at: int, body: bytes, seal: bytes, sealed: bytes) -> bytes:
        if place != number or sealed != _sealed(number, at, body, seal):
            raise StoreError(self._path, f"record {number:,} of the audit is missing or was changed")
        return sealed


def _sealed(number: int, at: int, body: bytes, seal: bytes) -> bytes:
    return hashlib.sha256(b"%d %d %d " % (number, at, len(body)) + body + seal).digest()
