"""The few statements that the tables need of an engine, in a dialect that SQLite and PostgreSQL share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

__all__ = ["Database", "QueryResult", "Row", "SqliteDatabase", "Table", "TableColumn"]

Row = tuple[Any, ...]


class TableColumn(NamedTuple):
    """A column: ``text`` (PostgreSQL keeps it as UTF-8 bytes), ``integer`` of 64 bits, or ``bytes``."""

    name: str
    kind: str


class Table(NamedTuple):
    """A table whose rows are written whole; its first ``n_keys`` columns identify a row."""

    name: str
    columns: tuple[TableColumn, ...]
    n_keys: int


class QueryResult(Protocol):
    """The answer to a question."""

    def __iter__(self) -> Iterator[Any]: ...

    def fetchone(self) -> Any:
        """Return the next row, None behind the last."""
        ...

    def fetchall(self) -> list[Any]:
        """Return the rows that are left."""
        ...


class Database(Protocol):
    """A connection: values stand for ``?`` in a statement."""

    def execute(self, statement: str, values: Sequence[Any] = ()) -> QueryResult:
        """Run one statement."""
        ...

    def executemany(self, statement: str, rows: Iterable[Sequence[Any]]) -> Iterable[Row]:
        """Run a statement once for each of some values; the answers of a question come one after another."""
        ...

    def put(self, table: Table, rows: Iterable[Row]) -> None:
        """Write rows in the place of those with the same keys."""
        ...


class SqliteDatabase:
    """A connection of apsw."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def execute(self, statement: str, values: Sequence[Any] = ()) -> QueryResult:
        """Run one statement."""
        cursor: QueryResult = self._connection.execute(statement, values)
        return cursor

    def executemany(self, statement: str, rows: Iterable[Sequence[Any]]) -> Iterable[Row]:
        """Run a statement once for each of some values."""
        answers: Iterable[Row] = self._connection.executemany(statement, rows)
        return answers

    def put(self, table: Table, rows: Iterable[Row]) -> None:
        """Write rows in the place of those with the same keys."""
        places = ", ".join("?" * len(table.columns))
        self._connection.executemany(f"INSERT OR REPLACE INTO {table.name} VALUES ({places})", rows)
