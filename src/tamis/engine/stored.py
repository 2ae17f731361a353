"""Subscriptions that lie in Arrow columns, mapped from a file or in memory: made into objects when asked for."""

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

#: text, id, expires, metadata: what a subscription is compiled from.
Record = tuple[str, SubscriptionId, int | None, dict[str, str]]

#: Compiled subscriptions that are kept; a candidate that needs its raw values is often asked again.
_KEPT = 4096


def record_table(rows: Sequence[tuple[int, SubscriptionId, str | None, int | None, dict[str, str]]]) -> pa.Table:
    """Return the table of (row, id, text, expires, metadata), ascending by row."""
    names = {
        "row": [one[0] for one in rows],
        "id_number": [one[1] if isinstance(one[1], int) else None for one in rows],
        "id_text": [one[1] if isinstance(one[1], str) else None for one in rows],
        "filter": [one[2] for one in rows],
        "expires": [one[3] for one in rows],
        "metadata": [list(one[4].items()) for one in rows],
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
    pairs = [None if one is None else list(one.items()) for one in metadata] if metadata is not None else [None] * n
    columns = [range(n), numbers, names, texts, [None] * n if expires is None else expires, pairs]
    return pa.Table.from_arrays(
        [pa.array(values, field.type) for values, field in zip(columns, COLUMNS, strict=True)], schema=COLUMNS
    )


def _of_type(ids: Sequence[SubscriptionId], kind: type) -> Sequence[SubscriptionId | None]:
    """Return the ids of one type, None in the place of the others."""
    if isinstance(ids, range) and kind is int:
        return ids
    return [id if isinstance(id, kind) else None for id in ids]


def find_problem(table: pa.Table, n_rows: int) -> str | None:
    """Return why a table from a file cannot be one of the subscriptions of ``n_rows`` rows; None when it can."""
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
        #: Whether each row is followed by the next one, so that its place is known without a search.
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
        places = pa.array(np.searchsorted(self.rows, rows))
        numbers, texts = (self._column[name] for name in ("id_number", "id_text"))
        if texts.null_count == len(texts):
            return _one_array(numbers.take(places))
        if numbers.null_count == len(numbers):
            return _one_array(texts.take(places))
        return _one_array(pc.coalesce(texts.take(places), numbers.take(places).cast(pa.string())))

    def ends(self) -> list[tuple[int, int]]:
        """Return (moment, row) of the subscriptions that end."""
        expires = self._column["expires"]
        places = np.flatnonzero(np.asarray(expires.is_valid()))
        return [(expires[int(i)].as_py(), int(self.rows[i])) for i in places]

    def find(self, row: int) -> Subscription | None:
        """Return the subscription of a row; None when it is a box or not here."""
        place = self._place(row)
        if not 0 <= place < len(self.rows) or self.rows[place] != row or not self._column["filter"][place].is_valid:
            return None
        return self._compiled(place)

    def find_record(self, row: int) -> Record | None:
        """Return what a subscription is compiled from; None as in `find`."""
        place = self._place(row)
        if not 0 <= place < len(self.rows) or self.rows[place] != row or not self._column["filter"][place].is_valid:
            return None
        return self._record(place)

    def find_records(self, rows: Sequence[int]) -> list[Record | None]:
        """Return `find_record` of ascending rows."""
        places = np.searchsorted(self.rows, rows)
        if not len(self.rows):
            return [None] * len(rows)
        here = np.flatnonzero(self.rows[np.minimum(places, len(self.rows) - 1)] == rows)
        chosen = pa.array(places[here])
        columns = ("filter", "id_number", "id_text", "expires", "metadata")
        values = zip(*(self._column[name].take(chosen).to_pylist() for name in columns), strict=True)
        found: list[Record | None] = [None] * len(rows)
        for position, (text, number, name, expires, metadata) in zip(here, values, strict=True):
            if text is not None:
                found[position] = text, name if number is None else number, expires, dict(metadata or ())
        return found

    def _record(self, place: int) -> Record:
        text, expires, metadata = (self._column[name][place].as_py() for name in ("filter", "expires", "metadata"))
        return text, self._id(place), expires, dict(metadata or ())

    def _compile_row(self, place: int) -> Subscription:
        record = self._record(place)
        id = record[1]
        try:
            subscription = self._compile(record)
        except ModelError as error:
            raise SnapshotError(self._source, f"the filter of subscription {id!r} cannot be read: {error}") from error
        if self._needed is not None and len(subscription.filters) < self._needed[place]:
            problem = f"the filter of subscription {id!r} is not the one that was indexed"
            advice = "an earlier version of tamis may have saved it: convert it with: tamis migrate OLD NEW_DIRECTORY"
            raise SnapshotError(self._source, f"{problem}; {advice}")
        return subscription

    def _place(self, row: int) -> int:
        return row - int(self.rows[0]) if self._is_dense else int(np.searchsorted(self.rows, row))

    def _id(self, place: int) -> SubscriptionId:
        if self._numbers is not None:
            return int(self._numbers[place])
        number = self._column["id_number"][place].as_py()
        found: SubscriptionId = self._column["id_text"][place].as_py() if number is None else number
        return found


class LazySubscriptions:
    """Subscriptions in the rows from ``first`` on, each made when it is asked for; ``make`` counts from 0."""

    def __init__(self, make: Callable[[int], Subscription], first: int, n: int) -> None:
        self._first = first
        self._n = n
        self._made = lru_cache(maxsize=_KEPT)(make)

    def find(self, row: int) -> Subscription | None:
        """Return the subscription of a row; None when it is not here."""
        position = row - self._first
        return self._made(position) if 0 <= position < self._n else None

    def find_record(self, row: int) -> Record | None:
        """Return None: what is here has no text."""
        return None

    def find_records(self, rows: Sequence[int]) -> list[Record | None]:
        """Return None for each row."""
        return [None] * len(rows)


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)
