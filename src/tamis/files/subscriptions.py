"""A file of subscriptions: rows with ``filter`` and, optionally, ``id``, ``namespace``, ``expires`` and ``metadata``.

JSONL, JSON, CSV and Parquet as for events; in ``.txt`` and ``.cql2`` every line is a filter, and lines that
start with ``#`` are comments. A subscription without an id is called by its line, or by its row in a table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tamis.errors import TableError
from tamis.files.batches import BadRow, Batch
from tamis.files.events import EventFile
from tamis.files.text import decoded, lines, shown_name
from tamis.model.subscription import DEFAULT_NAMESPACE, SubscriptionId
from tamis.model.tables import checked_id
from tamis.model.types import String

__all__ = ["Record", "SubscriptionFile"]

_PLAIN = (".txt", ".cql2")
_TEXTS = {name: String() for name in ("filter", "namespace", "expires")}
_KEYS = ("id", *_TEXTS, "metadata")


@dataclass(frozen=True, slots=True)
class Record:
    """One subscription of a file, and its location."""

    source: str | Mapping[str, Any]
    id: SubscriptionId
    namespace: str
    expires: object
    row: int
    place: str
    #: The author's metadata, such as a title.
    metadata: Mapping[str, str] = field(default_factory=dict)
    #: What else the row has; most commands ignore it.
    others: Mapping[str, Any] = field(default_factory=dict)


class SubscriptionFile:
    """The subscriptions of a file."""

    def __init__(self, path: str, *, skip: bool = False) -> None:
        self.path = path
        self.name = shown_name(path)
        self.skip = skip
        #: Rows that are not valid subscriptions, if they are skipped.
        self.bad: list[BadRow] = []

    def __iter__(self) -> Iterator[Record]:
        if self.path.removesuffix(".gz").lower().endswith(_PLAIN):
            yield from self._plain()
            return
        for batch in EventFile(self.path, skip=self.skip).batches(kinds=_TEXTS):
            self.bad += batch.bad
            for i in range(len(batch)):
                try:
                    yield _record(batch, i)
                except TableError as error:
                    if not self.skip:
                        raise TableError(f"{self.name}, {batch.place(i)}: {error.problem}") from None
                    self.bad.append(BadRow(batch.rows[i], batch.place(i), error.problem))

    def _plain(self) -> Iterator[Record]:
        row = 0
        for number, line in lines(self.path):
            text = decoded(self.path, number, line).strip()
            if text and not text.startswith("#"):
                yield Record(text, number, DEFAULT_NAMESPACE, None, row, f"line {number}")
                row += 1


def _record(batch: Batch, i: int) -> Record:
    row = batch.event(i)
    source = row.get("filter")
    if source is None:
        names = ", ".join(row) or "nothing"
        raise TableError(f"there is no 'filter' (found {names}); a subscription has an id and a filter")
    if not isinstance(source, str | dict):
        raise TableError(f"the filter is {source!r}, not text")
    namespace = row.get("namespace", DEFAULT_NAMESPACE)
    if not isinstance(namespace, str):
        raise TableError(f"the namespace is {namespace!r}, not text")
    id = row.get("id")
    if id is None:
        id = batch.rows[i] if batch.lines is None else batch.lines[i]
    metadata = _metadata(row.get("metadata"))
    others = {key: value for key, value in row.items() if key not in _KEYS}
    return Record(
        source, checked_id(id), namespace, row.get("expires"), batch.rows[i], batch.place(i), metadata, others
    )


def _metadata(column_value: Any) -> dict[str, str]:
    """Return metadata as strings by name; of a table's map, from its pairs."""
    if column_value is None:
        return {}
    pairs = column_value.items() if isinstance(column_value, Mapping) else column_value
    try:
        metadata = {key: value for key, value in pairs if value is not None}
    except (TypeError, ValueError):
        raise TableError(f"the metadata is {column_value!r}; expected a mapping of names to texts") from None
    if not all(isinstance(word, str) for pair in metadata.items() for word in pair):
        raise TableError(f"metadata must map strings to strings, got {column_value!r}")
    return metadata
