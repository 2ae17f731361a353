"""Batches: consecutive rows of a file as columns, and the rows among them that could not be read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

import pyarrow as pa

from tamis.errors import TableError

__all__ = ["BATCH_BYTES", "BATCH_ROWS", "BadRow", "Batch", "GroupedRows", "TextRow", "grouped", "tight_column"]

#: Rows of one batch, and bytes of text after which a batch ends earlier.
BATCH_ROWS, BATCH_BYTES = 20_000, 16 << 20

T = TypeVar("T")


class BadRow(NamedTuple):
    """A row that is not a valid event: its number in the file (from 0), its location, and the reason."""

    row: int
    place: str
    problem: str


@dataclass(frozen=True)
class Batch:
    """Consecutive rows of a file that could be read."""

    #: ``rows[i]``: the number of row i in the file, from 0; ``lines[i]``: its line, from 1, where lines mean anything.
    rows: Sequence[int]
    lines: Sequence[int] | None
    #: Arrow arrays, or lists where one column holds values of several types; None where a value is missing.
    columns: Mapping[str, Any]
    #: Returns the whole row i, also values that are not in ``columns``.
    event: Callable[[int], dict[str, Any]]
    bad: Sequence[BadRow] = ()

    def __len__(self) -> int:
        return len(self.rows)

    def place(self, i: int) -> str:
        """Return the location of row i: its line in a text file, its row in a table."""
        return f"row {self.rows[i]}" if self.lines is None else f"line {self.lines[i]}"


class TextRow(NamedTuple, Generic[T]):
    """One row of a text file: its line, its size in bytes, its value, or the problem."""

    line: int
    size: int
    value: T | None
    problem: str = ""


@dataclass
class GroupedRows(Generic[T]):
    """The items of one batch, sorted into good and bad."""

    rows: list[int] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    values: list[T] = field(default_factory=list)
    bad: list[BadRow] = field(default_factory=list)
    size: int = 0

    @property
    def is_full(self) -> bool:
        """Whether the batch has to end here."""
        return len(self.rows) + len(self.bad) >= BATCH_ROWS or self.size >= BATCH_BYTES


def grouped(items: Iterable[TextRow[T]], name: str, *, skip: bool) -> Iterator[GroupedRows[T]]:
    """Collect items into groups; a bad item raises `TableError`, or is noted when ``skip`` is set."""
    group: GroupedRows[T] = GroupedRows()
    for row, item in enumerate(items):
        if item.value is None:
            if not skip:
                raise TableError(f"{name}, line {item.line}: {item.problem}")
            group.bad.append(BadRow(row, f"line {item.line}", item.problem))
        else:
            group.rows.append(row)
            group.lines.append(item.line)
            group.values.append(item.value)
        group.size += item.size
        if group.is_full:
            yield group
            group = GroupedRows()
    if group.rows or group.bad:
        yield group


_TIGHT = {int: pa.int64(), float: pa.float64(), bool: pa.bool_(), str: pa.large_string()}


def tight_column(values: list[Any]) -> Any:
    """Return an Arrow array when all values are of one plain type, the list itself otherwise.

    An integer beside floats stays an integer, for a float64 cannot hold each int64.
    """
    kinds = set(map(type, values)) - {type(None)}
    kind = _TIGHT.get(next(iter(kinds))) if len(kinds) == 1 else None
    if kind is None:
        return values
    try:
        return pa.array(values, kind)
    except (OverflowError, UnicodeEncodeError, pa.ArrowInvalid):  # beyond int64, or a lone surrogate
        return values
