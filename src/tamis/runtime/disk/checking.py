"""A broker's files, checked from end to end: of a broker that runs, of one that does not, and of a backup.

`check_files` reads one state of the file, as of one moment, and changes nothing. What it proves: SQLite finds every
page in order; every record has the checksum it was written with and can be read as what its kind says; no message that
waits is missing; the chain of the audit is whole; every message and every subscription belongs to a link that is there.
It cannot prove that the file is the newest one: an older copy is as sound.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from tamis.errors import StoreError, TamisError
from tamis.model.schema import Schema
from tamis.node import records
from tamis.node.effects import Key
from tamis.routing import messages as m
from tamis.routing.edge.link_names import is_http_link
from tamis.routing.table_parts import StoredEntry
from tamis.routing.webhooks.registration import Webhook
from tamis.runtime.disk.head import HEAD, read_head
from tamis.runtime.disk.lock import LOCK
from tamis.runtime.disk.room import BUSY_MILLISECONDS
from tamis.runtime.extra import demand_server
from tamis.runtime.stores.audit_log import AuditLog
from tamis.runtime.stores.books import Books
from tamis.runtime.stores.messages import MessageTable, stream_ends

__all__ = [
    "DATABASE",
    "TOKENS",
    "Checked",
    "NoFilesError",
    "check_files",
    "demand_database",
    "is_client",
    "open_to_read",
]

#: The files of a data directory that hold what a broker cannot do without.
DATABASE, TOKENS = "broker.sqlite", "tokens.json"

#: Problems of the pages that are named.
_PROBLEMS = 3

#: Records whose link must be there.
_OF_LINKS = (records.FLOOR, records.FORMER, records.GAP, records.HELD, records.INTEREST, records.REFUSED)


@dataclass(frozen=True)
class Checked:
    """What was found in order: the life of the broker, its last commit, where its audit ends, and counts."""

    epoch: int
    commit: int
    audit_last: int
    audit_seal: str
    pages: int
    records: int
    messages: int
    links: int
    tokens: int

    def proofs(self) -> list[str]:
        """Return what is proved, a sentence each."""
        return [
            f"{self.pages:,} pages: SQLite finds each of them in order",
            f"{self.records:,} records: each has its checksum and can be read, none is missing",
            f"{self.messages:,} messages: each has its checksum and can be read, none that waits is missing",
            f"{self.links:,} links: every message and every subscription belongs to one of them",
            f"{self.audit_last:,} deeds of the audit: the chain of those that are kept is whole",
            f"{self.tokens:,} tokens can be read",
            f"the last commit is {self.commit:,}; an older copy would be as sound",
        ]


def check_files(directory: Path) -> Checked:
    """Check the files of a broker as they are at this moment; `StoreError` names the first thing that is wrong."""
    demand_server("a durable store")
    import apsw

    path = demand_database(
        directory,
        "run pg_amcheck for its pages and indexes; the broker itself checks every record when it starts",
    )
    try:
        db = open_to_read(path)
        try:
            db.execute("BEGIN")
            return _Check(directory, db).run()
        finally:
            db.close()
    except apsw.Error as error:
        raise StoreError(str(path), f"{type(error).__name__}: {error}") from error


class NoFilesError(StoreError):
    """A directory has no files of a broker to work on: nothing was found damaged."""


def demand_database(directory: Path, instead: str = "docs/server.md has the commands of PostgreSQL") -> Path:
    """Return the database of a data directory; ``instead`` is the advice when PostgreSQL has the state.

    `NoFilesError`: PostgreSQL has it, or no broker was ever here. `StoreError`: the database is missing.
    """
    path = directory / DATABASE
    if path.exists():
        return path
    if (directory / LOCK).exists():  # a broker with its files here has made it, one with a store in PostgreSQL has not
        raise StoreError(str(path), "the database of this broker is missing")
    if (directory / HEAD).exists():
        raise NoFilesError(str(directory), f"the state of this broker is in PostgreSQL, not in files: {instead}")
    raise NoFilesError(str(directory), "there is no broker here")


def open_to_read(path: Path) -> Any:
    """Return a connection that reads a broker's database beside the broker and leaves its log as it is."""
    import apsw

    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)  # a log cannot be read without
    db.set_busy_timeout(BUSY_MILLISECONDS)
    db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    for pragma in ("trusted_schema=OFF", "cell_size_check=ON", "query_only=ON"):
        db.execute(f"PRAGMA {pragma}").fetchall()
    return db


class _Check:
    """One check, in one transaction that only reads."""

    def __init__(self, directory: Path, db: Any) -> None:
        self._directory = directory
        self._path = str(directory / DATABASE)
        self._db = db
        self._messages = 0

    def run(self) -> Checked:
        head = read_head(self._directory)  # before the file is looked at: a broker that runs commits on
        pages = self._check_pages()
        books = Books(self._path)
        stored = self._reading(lambda: books.load(self._db))
        if head > books.number:
            raise StoreError(self._path, f"commit {head:,} was confirmed, the file ends at {books.number:,}")
        for key, value in stored.items():
            self._reading(lambda key=key, value=value: _read_record(key, value))  # type: ignore[misc]
        links = {link for (link,), _ in records.LINK.items(stored)}
        # A subscription has a cursor from the first message on.
        resting = {key[1] for key in stored if key[0] == records.INTEREST.name and is_http_link(key[1])}
        overflows = {name for (name,), _ in records.OVERFLOW_END.items(stored)}
        self._check_links(stored, links | resting | overflows)
        self._check_messages(stored, links | overflows)
        audit = AuditLog(self._path)
        self._reading(lambda: audit.load(self._db))
        return Checked(
            records.EPOCH.find(stored) or 0,
            books.number,
            audit.number,
            audit.seal.hex(),
            pages,
            len(stored),
            self._messages,
            len(links | resting),
            self._count_tokens(),
        )

    def _check_pages(self) -> int:
        problems = [row[0] for row in self._db.execute(f"PRAGMA integrity_check({_PROBLEMS})")]
        if problems != ["ok"]:
            raise StoreError(self._path, f"pages are damaged: {'; '.join(problems)}")
        return int(self._db.execute("PRAGMA page_count").fetchone()[0])

    def _check_links(self, stored: Mapping[Key, bytes], links: set[str]) -> None:
        names = {kind.name for kind in _OF_LINKS}
        for key in stored:
            if key[0] in names and key[1] not in links:
                raise StoreError(self._path, f"the record {key!r} is of link {key[1]!r}, which is not there")

    def _check_messages(self, stored: Mapping[Key, bytes], links: set[str]) -> None:
        def look(link: str, number: int, body: bytes) -> None:
            self._messages += 1
            if link not in links:
                raise StoreError(self._path, f"message {number} is of link {link!r}, which is not there")
            self._reading(lambda: m.decode(body, link))

        floors = {link: floor for (link,), floor in records.FLOOR.items(stored)}
        MessageTable(self._path).load(self._db, floors, stream_ends(stored), look)

    def _count_tokens(self) -> int:
        from tamis.runtime.broker.tokens import Tokens

        return len(Tokens(self._directory / TOKENS).all())

    def _reading(self, read: Callable[[], Any]) -> Any:
        try:
            return read()
        except StoreError:
            raise
        except (TamisError, msgspec.MsgspecError, UnicodeDecodeError, ValueError) as error:
            raise StoreError(self._path, f"a record cannot be read: {error}") from error


def is_client(link: str) -> bool:
    """Whether a link leads to a client: names of brokers have no colon (`tamis.runtime.broker.config`).

    >>> is_client("c:alice:laptop"), is_client("north")
    (True, False)
    """
    return ":" in link


def _read_record(key: Key, value: bytes) -> object:
    """Read a record as its owner does; raises what that raises."""
    kind = records.find_kind(key)
    if kind.name == records.INTEREST.name:
        return m.decode(value, key[1]) if is_client(key[1]) else msgspec.msgpack.decode(value, type=StoredEntry)
    if kind.name in (records.SCHEMA.name, records.TYPES.name):
        return Schema.from_json(value)
    if kind.name == records.GAP.name:
        return msgspec.msgpack.decode(value, type=m.Gap)
    if kind.name == records.LINK_GAP.name:
        return msgspec.msgpack.decode(value, type=m.LinkGap)
    if kind.name == records.WEBHOOK.name:
        return msgspec.msgpack.decode(value, type=Webhook)
    if kind.name == records.REFUSED.name:
        return msgspec.msgpack.decode(value, type=list[m.Refusal])
    if kind.name == records.RANGES.name:
        from tamis.index.mics.plan import RangePlan

        return RangePlan.from_bytes(value)
    return kind.layout.decode(value)
