"""Maps the ids of subscriptions to the rows that indexes use, and back.

Rows are assigned in order and never reused, so a reader that holds this map while a writer continues sees no wrong
id. Ids that the engine numbered in bulk are kept as a range, and those of a saved engine stay in its mapped
file or in Arrow columns, not as a million objects; the map from such an id to its row is built on first use.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tamis.errors import DuplicateSubscriptionError, UnknownSubscriptionError
from tamis.model.subscription import SubscriptionId, id_order

__all__ = ["Ids", "IdsState", "SavedIds", "sorted_ids"]


class SavedIds(Protocol):
    """The ids of rows that lie in a saved engine, or that came as a table of texts."""

    def id(self, row: int) -> SubscriptionId:
        """Return the id of a living row."""

    def ids(self) -> Iterator[tuple[SubscriptionId, int]]:
        """Yield every id with its row."""

    def to_arrow(self, rows: npt.NDArray[np.int32]) -> pa.Array:
        """Return the ids of living rows as an Arrow array, int64 or string; mixed ids become strings."""

    def __len__(self) -> int: ...


#: The blocks of rows in order: (first number, how many) of a range, (None, how many) of listed ids.
IdsState = list[tuple[int | None, int]]


class _ListedIds:
    """``{id: row}`` of living ids; ids that are stored elsewhere are added on first use."""

    def __init__(self) -> None:
        self._rows: dict[SubscriptionId, int] = {}
        self.waiting: list[SavedIds] = []
        self._lock = threading.Lock()

    def has(self, block: object) -> bool:
        """Whether the ids of a block are in the map."""
        return not any(stored is block for stored in self.waiting)

    def rows(self, removed: set[int]) -> dict[SubscriptionId, int]:
        """Return the map, with all ids but those of removed rows."""
        if self.waiting:
            with self._lock:  # a reader that adds an id while the writer removes it would bring it back
                while self.waiting:
                    self._rows.update((name, row) for name, row in self.waiting[0].ids() if row not in removed)
                    del self.waiting[0]
        return self._rows


#: Number of rows up to which a loop is faster than NumPy.
_FEW_ROWS = 32


class Ids:
    """A growing map from rows to ids and back.

    >>> ids = Ids()
    >>> ids.append("alice"), ids.append_range(range(100, 103))
    (0, 1)
    >>> ids.row(101), ids[2], ids.remove(101), 101 in ids
    (2, 101, 2, False)
    """

    def __init__(self) -> None:
        #: Blocks of consecutive rows: a range of numbers, a list of ids, or rows of a saved engine. ``_first[i]`` is
        #: the first row of block i.
        self._blocks: list[range | list[SubscriptionId] | SavedIds] = []
        self._first: list[int] = []
        self.n_rows = 0
        #: Living ids.
        self._n_live = 0
        #: The living ids that are not in a range.
        self._listed = _ListedIds()
        #: (first number, first row, how many) of every range, ascending.
        self._ranges: list[tuple[int, int, int]] = []
        #: Removed rows of ranges, and of saved ids that left before ``_listed`` was built.
        self._removed: set[int] = set()

    def __len__(self) -> int:
        """Count the living ids."""
        return self._n_live

    def __contains__(self, id: object) -> bool:
        return self._find(id) is not None

    def __getitem__(self, row: int) -> SubscriptionId:
        number = bisect_right(self._first, row) - 1
        block = self._blocks[number]
        return block[row - self._first[number]] if isinstance(block, range | list) else block.id(row)

    def of(self, rows: npt.NDArray[np.int32]) -> list[SubscriptionId]:
        """Return the ids of rows, in their order."""
        if len(self._blocks) == 1 and isinstance(block := self._blocks[0], range | list):
            if isinstance(block, range) and len(rows) > _FEW_ROWS:
                numbers: list[SubscriptionId] = (rows + np.int64(block.start)).tolist()
                return numbers
            return [block[row] for row in rows.tolist()]
        return [self[row] for row in rows.tolist()]

    def to_arrow(self, rows: npt.NDArray[np.int32]) -> pa.Array:
        """Return the ids of rows as one Arrow array, int64 or string; mixed ids become strings."""
        if len(self._blocks) == 1:
            return _block_array(self._blocks[0], self._first[0], rows)
        numbers = np.searchsorted(self._first, rows, side="right") - 1
        pieces, where = [], []
        for number, (block, first) in enumerate(zip(self._blocks, self._first, strict=True)):
            chosen = np.flatnonzero(numbers == number)
            if len(chosen):
                pieces.append(_block_array(block, first, rows[chosen]))
                where.append(chosen)
        if not pieces:
            return pa.array([], pa.int64())
        if len({piece.type for piece in pieces}) > 1:
            pieces = [piece.cast(pa.string()) for piece in pieces]
        back = np.empty(len(rows), np.int64)
        back[np.concatenate(where)] = np.arange(len(rows))
        return pieces[0] if len(pieces) == 1 else pa.concat_arrays(pieces).take(pa.array(back))

    def sorted_of(self, rows: npt.NDArray[np.int32]) -> list[SubscriptionId]:
        """Return the ids of ascending rows in the order of ids."""
        ids = self.of(rows)
        if len(self._blocks) == 1 and isinstance(self._blocks[0], range):
            return ids
        try:
            ids.sort()  # all numbers or all strings
        except TypeError:
            ids.sort(key=id_order)
        return ids

    def live_rows(self) -> Iterator[int]:
        """Yield the rows of the living ids, ascending."""
        ranged = (row for _, first, n in self._ranges for row in range(first, first + n) if row not in self._removed)
        return iter(sorted([*self._listed.rows(self._removed).values(), *ranged]))

    def listed_rows(self) -> list[int]:
        """Return the rows of the living ids that are not in a range, ascending."""
        return sorted(self._listed.rows(self._removed).values())

    def row(self, id: SubscriptionId) -> int:
        """Return the row of a living id."""
        row = self._find(id)
        if row is None:
            raise UnknownSubscriptionError(id)
        return row

    def append(self, id: SubscriptionId) -> int:
        """Assign the next row to an id, which must be free."""
        return self.append_many([id])

    def append_many(self, ids: Sequence[SubscriptionId]) -> int:
        """Assign the next rows to ids, which must be free and distinct; return the first row."""
        first = self.n_rows
        rows = dict(zip(ids, range(first, first + len(ids)), strict=True))
        for position, id in enumerate(ids):
            if rows[id] != first + position or id in self:
                raise DuplicateSubscriptionError(id)
        last = self._blocks[-1] if self._blocks else None
        if isinstance(last, list):
            last.extend(ids)
        else:
            self._open(list(ids))
        self._listed.rows(self._removed).update(rows)
        self._count(len(ids))
        return first

    def append_range(self, numbers: range) -> int:
        """Assign the next rows to free numbers above all earlier ranges; return the first row."""
        first = self.n_rows
        if self._ranges and isinstance(self._blocks[-1], range) and self._blocks[-1].stop == numbers.start:
            start, row, n = self._ranges[-1]
            self._ranges[-1] = start, row, n + len(numbers)
            self._blocks[-1] = range(start, numbers.stop)
        else:
            self._open(numbers)
            self._ranges.append((numbers.start, first, len(numbers)))
        self._count(len(numbers))
        return first

    def remove(self, id: SubscriptionId) -> int:
        """Remove a living id and return its row; the row keeps its id for readers that still use it."""
        row = self._listed.rows(self._removed).pop(id, None)
        if row is None:
            row = self.row(id)
            self._removed.add(row)
        self._n_live -= 1
        return row

    def remove_row(self, row: int) -> None:
        """Forget the living id of a row of a range or a saved engine, without building the map of all ids."""
        block = self._blocks[bisect_right(self._first, row) - 1]
        if not isinstance(block, range) and self._listed.has(block):
            del self._listed.rows(self._removed)[self[row]]
        self._removed.add(row)
        self._n_live -= 1

    def last_taken(self, numbers: range) -> int | None:
        """Return the largest of these numbers, all above the ranges, that is a living id; None if all are free."""
        listed = self._listed.rows(self._removed)
        if len(listed) < len(numbers):
            return max((id for id in listed if isinstance(id, int) and id in numbers), default=None)
        return next((number for number in reversed(numbers) if number in listed), None)

    def to_state(self, first: int, stop: int) -> tuple[IdsState, npt.NDArray[np.int32]]:
        """Return the blocks of the rows from ``first`` to ``stop``, and which of them were removed from ranges.

        Rows of the answer count from 0.
        """
        ends = [*self._first[1:], self.n_rows]
        blocks: IdsState = []
        removed: list[int] = []
        for block, start, end in zip(self._blocks, self._first, ends, strict=True):
            low, high = max(start, first), min(end, stop)
            if low < high:
                blocks.append((block.start + low - start if isinstance(block, range) else None, high - low))
                if isinstance(block, range):
                    removed += [row - first for row in self._removed if low <= row < high]
        return blocks, np.array(sorted(removed), np.int32)

    def append_saved(self, blocks: IdsState, removed: Sequence[int], saved: SavedIds) -> int:
        """Add the rows of a saved engine, whose listed ids are in ``saved``; return the first row.

        Rows in ``removed`` count from 0.
        """
        first = self.n_rows
        for start, n in blocks:
            if start is not None:
                self.append_range(range(start, start + n))
            else:
                self._open(saved)
                self.n_rows += n
        self._removed.update(first + row for row in removed)
        self._n_live += len(saved) - len(removed)
        self._listed.waiting.append(saved)
        return first

    def append_stored(self, ids: Sequence[SubscriptionId] | range, stored: SavedIds) -> int:
        """Assign the next rows to ids, which must be free and distinct and are in ``stored``; return the first row."""
        if not isinstance(ids, range) and len(set(ids)) < len(ids):
            raise DuplicateSubscriptionError(Counter(ids).most_common(1)[0][0])
        if len(self):
            for id in ids:
                if id in self:
                    raise DuplicateSubscriptionError(id)
        first = self.n_rows
        self._open(stored)
        self._listed.waiting.append(stored)
        self._count(len(ids))
        return first

    def _find(self, id: object) -> int | None:
        row: int | None = self._listed.rows(self._removed).get(id)  # type: ignore[call-overload]
        if row is not None or not self._ranges or not isinstance(id, int) or isinstance(id, bool):
            return row
        start, first, n = self._ranges[max(bisect_right(self._ranges, (id, self.n_rows, 0)) - 1, 0)]
        row = first + id - start
        return row if 0 <= id - start < n and row not in self._removed else None

    def _open(self, block: range | list[SubscriptionId] | SavedIds) -> None:
        self._first.append(self.n_rows)
        self._blocks.append(block)

    def _count(self, n: int) -> None:
        self.n_rows += n
        self._n_live += n


def sorted_ids(ids: Ids, rows: list[int]) -> list[SubscriptionId]:
    """Return the ids of ascending rows in the order of ids."""
    if len(ids._blocks) == 1 and isinstance(block := ids._blocks[0], range):
        start = block.start
        return [start + row for row in rows] if start else [*rows]
    return ids.sorted_of(np.array(rows, np.int32))


def _block_array(block: range | list[SubscriptionId] | SavedIds, first: int, rows: npt.NDArray[np.int32]) -> pa.Array:
    """Return the ids of rows that all lie in one block."""
    if isinstance(block, range):
        return pa.array(rows + np.int64(block.start - first))
    if not isinstance(block, list):
        return block.to_arrow(rows)
    ids = [block[row - first] for row in rows.tolist()]
    whole = all(isinstance(id, int) for id in ids)
    return pa.array(ids, pa.int64()) if whole else pa.array([str(id) for id in ids], pa.string())
