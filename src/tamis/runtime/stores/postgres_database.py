"""A connection to PostgreSQL: how it is made, what it is asked, and what its errors mean for a broker.

Statements of one transaction are pipelined: they are sent without waiting for answers, so a commit costs one round
trip, and one more when it must read before it writes.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from tamis.errors import DiskFullError, LeaseLostError, MissingExtraError, ModelError, StoreError
from tamis.runtime.stores.database import QueryResult, Row, Table

if TYPE_CHECKING:
    import psycopg

__all__ = [
    "SCHEMA_PREFIX",
    "DatabaseAddress",
    "PostgresDatabase",
    "first_line",
    "is_lost",
    "no_answer",
    "telling",
    "with_patience",
]

#: The name of a broker's schema begins with it; the name of the broker follows.
SCHEMA_PREFIX = "tamis_"

#: How long a lost server is waited for, in seconds: a restart, or the promotion of a replica.
PATIENCE = 10.0

#: Seconds between two attempts to connect.
_PAUSE = 0.1

#: Rows that a large answer brings at a time.
_PAGE_ROWS = 2_000

_ARRAYS = {"text": "bytea[]", "bytes": "bytea[]", "integer": "int8[]"}

#: Codes of a server that shuts down, has crashed or starts, and of a row that another connection locks for too long.
_UNAVAILABLE = frozenset({"57P01", "57P02", "57P03", "55P03"})

T = TypeVar("T")


class DatabaseAddress:
    """Where a database is: a URL of libpq and a schema. Its text has no password."""

    def __init__(self, url: str, schema: str) -> None:
        try:
            import psycopg
            from psycopg import conninfo
        except ImportError:
            raise MissingExtraError("a store in PostgreSQL", "postgres") from None
        self.schema = schema
        try:
            parts = conninfo.conninfo_to_dict(url)
        except psycopg.Error as error:
            raise ModelError(f"store: not the address of a PostgreSQL database: {first_line(error)}") from None
        if parts.get("password"):
            raise ModelError("store: name no password in the address; set PGPASSWORD or PGPASSFILE")
        self._url = url
        hosts = parts.get("host") or parts.get("hostaddr") or "localhost"
        self.place = f"postgresql://{hosts}/{parts.get('dbname') or ''} schema {schema}"

    def connect(self, role: str) -> psycopg.Connection[Any]:
        """Return a new connection; ``role`` is what PostgreSQL calls it, cut at 63 bytes."""
        import psycopg
        from psycopg import sql

        connection = psycopg.connect(
            self._url,
            autocommit=True,
            connect_timeout=3,
            keepalives_idle=5,
            keepalives_interval=2,
            keepalives_count=3,
            tcp_user_timeout=10_000,
            application_name=role,
            client_encoding="UTF8",
            fallback_application_name="tamis",
        )
        connection.execute(sql.SQL("SET search_path = {}").format(sql.Identifier(self.schema)))
        return connection


class PostgresDatabase:
    """The statements of the tables on one connection; ``is_large``: answers are brought a page at a time."""

    def __init__(self, connection: psycopg.Connection[Any], *, is_large: bool = False) -> None:
        self._connection = connection
        self._is_large = is_large

    def execute(self, statement: str, values: Sequence[Any] = ()) -> QueryResult:
        """Run one statement."""
        if self._is_large:
            return _LargeAnswer(self._connection, _dialect(statement), _as_bytes(values))
        return self._connection.cursor(binary=True).execute(_dialect(statement), _as_bytes(values))

    def executemany(self, statement: str, rows: Iterable[Sequence[Any]]) -> Iterable[Row]:
        """Run a statement once for each of some values, without waiting in between."""
        all_values = [_as_bytes(values) for values in rows]
        if not all_values:
            return []
        is_question = statement.startswith("SELECT")
        with self._connection.cursor(binary=True) as cursor:
            cursor.executemany(_dialect(statement), all_values, returning=is_question)
            answers = cursor.fetchall() if is_question else []
            while is_question and cursor.nextset():
                answers += cursor.fetchall()
        return answers

    def put(self, table: Table, rows: Iterable[Row]) -> None:
        """Write rows in the place of those with the same keys: one statement with an array for each column."""
        columns = [list(column) for column in zip(*map(_as_bytes, rows), strict=True)]
        if columns:
            self._connection.execute(_upsert(table), columns)


class _LargeAnswer:
    """The answer to a question as the server keeps it, one page of it in memory; it is read once."""

    def __init__(self, connection: psycopg.Connection[Any], question: str, values: tuple[Any, ...]) -> None:
        self._cursor = connection.cursor("answer", binary=True)
        self._cursor.itersize = _PAGE_ROWS
        self._cursor.execute(question, values)

    def __iter__(self) -> Iterator[Any]:
        with self._cursor:
            yield from self._cursor

    def fetchone(self) -> Any:
        """Return the first row, None when there is none."""
        return next(iter(self.fetchall()), None)

    def fetchall(self) -> list[Any]:
        """Return all rows."""
        with self._cursor:
            return self._cursor.fetchall()


@contextlib.contextmanager
def telling(place: str) -> Iterator[None]:
    """Turn what PostgreSQL raises into what a broker can act upon; a lost connection passes (`is_lost`)."""
    import psycopg

    try:
        yield
    except psycopg.errors.CheckViolation as error:
        raise LeaseLostError(place, "another broker has taken over; this one stops and has written nothing") from error
    except psycopg.errors.DiskFull as error:
        raise DiskFullError(place) from error
    except psycopg.Error as error:
        if is_lost(error):
            raise
        raise StoreError(place, f"{type(error).__name__}: {first_line(error)}") from error
    except (msgspec.MsgspecError, UnicodeDecodeError, ModelError) as error:
        raise StoreError(place, f"a record cannot be read: {error}") from error


def is_lost(error: BaseException) -> bool:
    """Whether an error says that the server or the way to it is gone, so that another connection may succeed."""
    import psycopg

    if not isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return False
    state = error.sqlstate  # None: the socket is closed, or nothing listens
    return state is None or state[:2] == "08" or state in _UNAVAILABLE


def with_patience(place: str, attempt: Callable[[], T], patience: float) -> T:
    """Return what ``attempt`` returns, trying again while the server is gone; `StoreError` after some seconds."""
    import psycopg

    end = time.monotonic() + patience
    while True:
        try:
            return attempt()
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            if not is_lost(error):
                raise StoreError(place, f"{type(error).__name__}: {first_line(error)}") from error
            if time.monotonic() > end:
                raise StoreError(
                    place,
                    f"PostgreSQL has not answered for {patience:g} s ({first_line(error)}). "
                    "What was confirmed is in it: start the broker again when PostgreSQL runs, or have it wait "
                    "with --standby",
                ) from error
        time.sleep(_PAUSE)


@cache
def _dialect(statement: str) -> str:
    return statement.replace("?", "%b")


@cache
def _upsert(table: Table) -> str:
    names = [column.name for column in table.columns]
    arrays = ", ".join(f"%b::{_ARRAYS[column.kind]}" for column in table.columns)
    keys, others = ", ".join(names[: table.n_keys]), names[table.n_keys :]
    news = ", ".join(f"{name} = excluded.{name}" for name in others)
    return f"INSERT INTO {table.name} SELECT * FROM unnest({arrays}) ON CONFLICT ({keys}) DO UPDATE SET {news}"


def _as_bytes(values: Sequence[Any]) -> tuple[Any, ...]:
    """Return values with text as UTF-8 bytes: text of PostgreSQL has no NUL, and systems disagree on its order."""
    return tuple(value.encode() if isinstance(value, str) else value for value in values)


def first_line(error: Exception) -> str:
    """Return the first line of what PostgreSQL says."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def no_answer(error: Exception) -> str:
    """Return why there is no connection: a server that refuses one did answer.

    >>> no_answer(Exception('connection failed: ... failed: FATAL:  database "nodb" does not exist'))
    'PostgreSQL refuses the connection: database "nodb" does not exist'
    >>> no_answer(Exception("connection failed: ... failed: fe_sendauth: no password supplied"))
    'PostgreSQL asks for a password: PGPASSWORD, or a file that PGPASSFILE names, has to contain it'
    """
    if "no password supplied" in str(error):
        return "PostgreSQL asks for a password: PGPASSWORD, or a file that PGPASSFILE names, has to contain it"
    _, refuses, reason = first_line(error).partition("FATAL:")
    if refuses:
        return f"PostgreSQL refuses the connection: {reason.strip()}"
    return f"PostgreSQL does not answer: {first_line(error)}"
