"""Subscriptions in Arrow columns, mapped from a file or in memory; objects are created on access."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tamis.errors import ModelError, SnapshotError
from tamis.model.subscription import Subscription, SubscriptionId

__all__ = [
    "COLUMNS",
    "LazySubscriptions",
    "Record",
    "StoredSubscriptions",
    "find_problem",
    "record_table",
    "text_table",
]

#: One row per subscription that has an id of its own; ``filter`` is null for a box that the index holds.
COLUMNS = pa.schema(
    [
        pa.field("row", pa.int32(), nullable=False),
        pa.field("id_number", pa.int64()),
        pa.field("id_text", pa.string()),
        pa.field("filter", pa.large_string()),
        pa.field("expires", pa.int64()),
        pa.field("metadata", pa.map_(pa.string(), pa.string())),
    ]
)

#: text, id, expires, metadata: the source of a compiled subscription.
Record = tuple[str, SubscriptionId, int | None, dict[str, str]]

#: Compiled subscriptions in the cache; a candidate that needs its raw values is often needed again.
_KEPT = 4096


def record_table(rows: Sequence[tuple[int, SubscriptionId, str | None, int | None, dict[str, str]]]) -> pa.Table:
    """Return the table of (row, id, text, expires, metadata), ascending by row."""
    names = {
        "row": [row[0] for row in rows],
        "id_number": [row[1] if isinstance(row[1], int) else None for row in rows],
        "id_text": [row[1] if isinstance(row[1], str) else None for row in rows],
        "filter": [row[2] for row in rows],
        "expires": [row[3] for row in rows],
        "metadata": [list(row[4].items()) for row in rows],
    }
    return pa.table(names, schema=COLUMNS)


def text_table(
    ids: Sequence[SubscriptionId],
    texts: Sequence[str],
    expires: Sequence[int | None] | None,
    metadata: Sequence[Mapping[str, str] | None] | None,
) -> pa.Table:
    """Return the table of subscriptions that came as texts, in rows from 0 on."""
    n = len(ids)
    numbers, names = (_of_type(ids, kind) for kind in (int, str))
    pairs = (
        [None if pairs_of_row is None else list(pairs_of_row.items()) for pairs_of_row in metadata]
        if metadata is not None
        else [None] * n
    )
    columns = [range(n), numbers, names, texts, [None] * n if expires is None else expires, pairs]
    return pa.Table.from_arrays(
        [pa.array(values, field.type) for values, field in zip(columns, COLUMNS, strict=True)], schema=COLUMNS
    )


def _of_type(ids: Sequence[SubscriptionId], kind: type) -> Sequence[SubscriptionId | None]:
    """Return the ids of one type, with None for the others."""
    if isinstance(ids, range) and kind is int:
        return ids
    return [id if isinstance(id, kind) else None for id in ids]


def find_problem(table: pa.Table, n_rows: int) -> str | None:
    """Return why a table from a file is not a valid table of ``n_rows`` subscriptions; None if it is valid."""
    if table.schema != COLUMNS:
        return "its columns are not those of this format"
    try:
        table.validate(full=True)
    except pa.ArrowInvalid as error:
        return f"not a valid table: {error}"
    if table["row"].null_count:
        return "a row has no number"
    rows = np.asarray(table["row"])
    if len(rows) and not (rows[0] >= 0 and rows[-1] < n_rows and (rows[:-1] < rows[1:]).all()):
        return f"its rows do not ascend inside 0 to {n_rows - 1}"
    if pc.any(pc.equal(table["id_number"].is_valid(), table["id_text"].is_valid())).as_py():
        return "a row has no id, or two"
    return None


class StoredSubscriptions:
    """Reads a table of `COLUMNS`, whose row 0 is row ``first`` here; ``compile`` makes a subscription of a record.

    ``source`` is the file that errors name.
    """

    def __init__(
        self, table: pa.Table, compile: Callable[[Record], Subscription], first: int = 0, source: str = ""
    ) -> None:
        table = table.combine_chunks()
        self._column: dict[str, Any] = {name: table.column(name) for name in COLUMNS.names}
        rows: npt.NDArray[np.int32] = np.asarray(table.column("row"))
        self.rows = rows + np.int32(first) if first else rows
        #: Whether the rows are consecutive, so that a position is known without a search.
        self._is_dense = len(rows) > 0 and int(rows[-1]) - int(rows[0]) == len(rows) - 1
        #: The ids if all are numbers.
        self._numbers = None if table.column("id_number").null_count else np.asarray(table.column("id_number"))
        self._compile = compile
        self._source = source
        self._needed: npt.NDArray[np.int32] | None = None
        self._compiled = lru_cache(maxsize=_KEPT)(self._compile_row)

    def __len__(self) -> int:
        return len(self.rows)

    def demand_filters(self, needed: npt.NDArray[np.int32]) -> None:
        """Require at least ``needed`` filters, int32[n], per subscription: an index refers to them by number."""
        self._needed = needed

    def id(self, row: int) -> SubscriptionId:
        """Return the id of a row."""
        return self._id(self._place(row))

    def ids(self) -> Iterator[tuple[SubscriptionId, int]]:
        """Yield every id with its row."""
        numbers, texts = (self._column[name].to_pylist() for name in ("id_number", "id_text"))
        for number, text, row in zip(numbers, texts, self.rows.tolist(), strict=True):
            yield (text if number is None else number), row

    def to_arrow(self, rows: npt.NDArray[np.int32]) -> pa.Array:
        """Return the ids of rows as an Arrow array, int64 or string; mixed ids become strings."""
        places = self._places(rows)
        if self._numbers is not None:
            return pa.array(self._numbers[places])
        positions = pa.array(places)
        numbers, texts = (self._column[name] for name in ("id_number", "id_text"))
        if numbers.null_count == len(numbers):
            return _one_array(texts.take(positions))
        return _one_array(pc.coalesce(texts.take(positions), numbers.take(positions).cast(pa.string())))

    def ends(self) -> list[tuple[int, int]]:
        """Return (moment, row) of the subscriptions that end."""
        expires = self._column["expires"]
        positions = np.flatnonzero(np.asarray(expires.is_valid()))
        return [(expires[int(i)].as_py(), int(self.rows[i])) for i in positions]

    def find(self, row: int) -> Subscription | None:
        """Return the subscription of a row; None if it is a box or absent."""
        position = self._place(row)
        if (
            not 0 <= position < len(self.rows)
            or self.rows[position] != row
            or not self._column["filter"][position].is_valid
        ):
            return None
        return self._compiled(position)

    def find_record(self, row: int) -> Record | None:
        """Return the source of a subscription; None as in `find`."""
        position = self._place(row)
        if (
            not 0 <= position < len(self.rows)
            or self.rows[position] != row
            or not self._column["filter"][position].is_valid
        ):
            return None
        return self._record(position)

    def find_records(self, rows: Sequence[int]) -> list[Record | None]:
        """Return `find_record` of ascending rows."""
        positions = np.searchsorted(self.rows, rows)
        if not len(self.rows):
            return [None] * len(rows)
        present = np.flatnonzero(self.rows[np.minimum(positions, len(self.rows) - 1)] == rows)
        chosen = pa.array(positions[present])
        columns = ("filter", "id_number", "id_text", "expires", "metadata")
        values = zip(*(self._column[name].take(chosen).to_pylist() for name in columns), strict=True)
        records: list[Record | None] = [None] * len(rows)
        for position, (text, number, name, expires, metadata) in zip(present, values, strict=True):
            if text is not None:
                records[position] = text, name if number is None else number, expires, dict(metadata or ())
        return records

    def _record(self, position: int) -> Record:
        text, expires, metadata = (self._column[name][position].as_py() for name in ("filter", "expires", "metadata"))
        return text, self._id(position), expires, dict(metadata or ())

    def _compile_row(self, position: int) -> Subscription:
        record = self._record(position)
        id = record[1]
        try:
            subscription = self._compile(record)
        except ModelError as error:
            raise SnapshotError(self._source, f"the filter of subscription {id!r} cannot be read: {error}") from error
        if self._needed is not None and len(subscription.filters) < self._needed[position]:
            problem = f"the filter of subscription {id!r} is not the one that was indexed"
            advice = "an earlier version of tamis may have saved it: convert it with: tamis migrate OLD NEW_DIRECTORY"
            raise SnapshotError(self._source, f"{problem}; {advice}")
        return subscription

    def _place(self, row: int) -> int:
        return row - int(self.rows[0]) if self._is_dense else int(np.searchsorted(self.rows, row))

    def _places(self, rows: npt.NDArray[np.int32]) -> npt.NDArray[np.integer[Any]]:
        """Return the positions of rows. A search for each match of a table costs as much as to find the matches."""
        return rows - self.rows[0] if self._is_dense else np.searchsorted(self.rows, rows)

    def _id(self, position: int) -> SubscriptionId:
        if self._numbers is not None:
            return int(self._numbers[position])
        number = self._column["id_number"][position].as_py()
        id: SubscriptionId = self._column["id_text"][position].as_py() if number is None else number
        return id


class LazySubscriptions:
    """Subscriptions in the rows from ``first`` on, each created on access; ``make`` counts from 0."""

    def __init__(self, make: Callable[[int], Subscription], first: int, n: int) -> None:
        self._first = first
        self._n = n
        self._made = lru_cache(maxsize=_KEPT)(make)

    def find(self, row: int) -> Subscription | None:
        """Return the subscription of a row; None if it is absent."""
        position = row - self._first
        return self._made(position) if 0 <= position < self._n else None

    def find_record(self, row: int) -> Record | None:
        """Return None: these subscriptions have no text."""
        return None

    def find_records(self, rows: Sequence[int]) -> list[Record | None]:
        """Return None for each row."""
        return [None] * len(rows)


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)
