"""What users call subscriptions, and the rows the indexes know them by.

Rows are given out in order and never again, so whoever holds this map while a writer goes on reads no wrong
id. Ids that were numbered by the engine in bulk are kept as a range, not as a million objects.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from tamis.errors import DuplicateSubscriptionError, UnknownSubscriptionError
from tamis.model.subscription import SubscriptionId

__all__ = ["Ids", "id_order"]


def id_order(one: SubscriptionId) -> tuple[bool, SubscriptionId]:
    """Sort ids: integers first, then strings by code point.

    >>> sorted(["b", 10, "a", 9], key=id_order)
    [9, 10, 'a', 'b']
    """
    return (isinstance(one, str), one)


class Ids:
    """A growing map from rows to ids and back.

    >>> ids = Ids()
    >>> ids.append("alice"), ids.append_range(range(100, 103))
    (0, 1)
    >>> ids.row(101), ids[2], ids.remove(101), 101 in ids
    (2, 101, 2, False)
    """

    def __init__(self) -> None:
        #: Blocks of consecutive rows: a range of numbers or a list of ids; ``_first[i]`` is the first row of block i.
        self._blocks: list[range | list[SubscriptionId]] = []
        self._first: list[int] = []
        self._n_rows = 0
        #: ``{id: row}`` of living ids that do not stand in a range.
        self._listed: dict[SubscriptionId, int] = {}
        #: (first number, first row, how many) of every range, ascending; and the rows in them that were removed.
        self._ranges: list[tuple[int, int, int]] = []
        self._removed: set[int] = set()

    def __len__(self) -> int:
        """Count the living ids."""
        return len(self._listed) + sum(n for _, _, n in self._ranges) - len(self._removed)

    @property
    def n_rows(self) -> int:
        """Rows given out so far."""
        return self._n_rows

    def __contains__(self, id: object) -> bool:
        return self._find(id) is not None

    def __getitem__(self, row: int) -> SubscriptionId:
        block = bisect_right(self._first, row) - 1
        return self._blocks[block][row - self._first[block]]

    def of(self, rows: npt.NDArray[np.int32]) -> list[SubscriptionId]:
        """Return the ids of rows, in their order."""
        if len(self._blocks) == 1 and isinstance(self._blocks[0], range):
            numbers: list[SubscriptionId] = (rows + np.int64(self._blocks[0].start)).tolist()
            return numbers
        return [self[row] for row in rows.tolist()]

    def live_rows(self) -> Iterator[int]:
        """Yield the rows of the living ids, ascending."""
        listed = set(self._listed.values())
        for first, block in zip(self._first, self._blocks, strict=True):
            for row in range(first, first + len(block)):
                if row in listed if isinstance(block, list) else row not in self._removed:
                    yield row

    def row(self, id: SubscriptionId) -> int:
        """Return the row of a living id."""
        found = self._find(id)
        if found is None:
            raise UnknownSubscriptionError(id)
        return found

    def append(self, id: SubscriptionId) -> int:
        """Give an id, which must be free, the next row."""
        return self.append_many([id])

    def append_many(self, ids: Sequence[SubscriptionId]) -> int:
        """Give ids, which must be free and different, the next rows; return the first."""
        first = self._n_rows
        rows = dict(zip(ids, range(first, first + len(ids)), strict=True))
        for position, id in enumerate(ids):
            if rows[id] != first + position or id in self:
                raise DuplicateSubscriptionError(id)
        if self._blocks and isinstance(self._blocks[-1], list):
            self._blocks[-1].extend(ids)
        else:
            self._open(list(ids))
        self._n_rows += len(ids)
        self._listed |= rows
        return first

    def append_range(self, numbers: range) -> int:
        """Give numbers above all earlier ranges, all free, the next rows; return the first."""
        first = self._n_rows
        if self._ranges and self._ranges[-1][0] + self._ranges[-1][2] == numbers.start and self._continues():
            start, row, n = self._ranges[-1]
            self._ranges[-1] = start, row, n + len(numbers)
            self._blocks[-1] = range(start, numbers.stop)
        else:
            self._open(numbers)
            self._ranges.append((numbers.start, first, len(numbers)))
        self._n_rows += len(numbers)
        return first

    def remove(self, id: SubscriptionId) -> int:
        """Forget a living id and return the row it had; the row keeps its id for those who still read."""
        row = self._listed.pop(id, None)
        if row is None:
            row = self.row(id)
            self._removed.add(row)
        return row

    def last_taken(self, numbers: range) -> int | None:
        """Return the largest of these numbers, all above the ranges, that is a living id; None if all are free."""
        if len(self._listed) < len(numbers):
            return max((id for id in self._listed if isinstance(id, int) and id in numbers), default=None)
        return next((number for number in reversed(numbers) if number in self._listed), None)

    def _find(self, id: object) -> int | None:
        row: int | None = self._listed.get(id)  # type: ignore[call-overload]
        if row is not None or not self._ranges or not isinstance(id, int) or isinstance(id, bool):
            return row
        start, first, n = self._ranges[max(bisect_right(self._ranges, (id, self._n_rows, 0)) - 1, 0)]
        row = first + id - start
        return row if 0 <= id - start < n and row not in self._removed else None

    def _continues(self) -> bool:
        """Whether the last block is a range, so that the next range can join it."""
        return isinstance(self._blocks[-1], range)

    def _open(self, block: range | list[SubscriptionId]) -> None:
        self._first.append(self._n_rows)
        self._blocks.append(block)
