"""Makes an engine from filters and a file of events, with types that suit both.

Without a schema an attribute's type is decided once, from three sources: the literals of the filters
(``TIMESTAMP(...)`` means a moment, ``S_WITHIN`` a region), the types as which the column can be read, and the type that
the file suggests. The literals win if the column can be read as their type, so WKT in a CSV file and RFC 3339 text in
JSON need no schema; otherwise the file wins, and a filter that disagrees is refused with a caret.

Only the columns that filters use are read; with a schema, all of its columns are read, and all must fit.
"""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from tamis.cli.screen import errors
from tamis.engine import Engine, Matches
from tamis.errors import EventError, SubscriptionError, TableError, TamisError
from tamis.files import BadRow, Batch, EventFile, Record
from tamis.model.columns import column_from
from tamis.model.language.bind import learn_from_node
from tamis.model.language.nodes import Constant, Leaf, Node, leaves
from tamis.model.language.parse import parse
from tamis.model.schema import ALL_STRINGS, Schema
from tamis.model.tables import EventTable, SubscriptionTable, learn_from_table
from tamis.model.types import AttributeType, Boolean, Timestamp
from tamis.model.types.paths import column_at, with_roots

__all__ = ["ParsedFilters", "Prepared", "demand_columns", "open_events", "prepare", "warn_of_unseen"]

#: The column of a batch without other columns: rows without attributes still count.
_ROW = "\0row"
#: Values of a column that are tried when its type is decided.
_SAMPLE = 100
#: Names that a message lists.
_NAMED = 20


@dataclass
class ParsedFilters:
    """The filters of a run: as records and syntax trees, and the types of their literals by attribute."""

    name: str
    records: list[tuple[Record, Node]] = field(default_factory=list)
    kinds: dict[str, list[AttributeType]] = field(default_factory=dict)
    bad: list[BadRow] = field(default_factory=list)

    @classmethod
    def of(cls, name: str, records: Iterable[Record], *, skip: bool = False) -> ParsedFilters:
        """Parse records; one that cannot be read raises, or is noted if ``skip`` is set."""
        questions = cls(name)
        for record in records:
            try:
                node = parse(record.source)
            except TamisError as error:
                questions.refuse(record, error, skip)
                continue
            questions.records.append((record, node))
            for leaf in _conditions(node):
                kind = learn_from_node(Schema(), leaf).get(leaf.attribute)
                kinds = questions.kinds.setdefault(leaf.attribute, [])
                if kind is not None and kind not in kinds:
                    kinds.append(kind)
        return questions

    @classmethod
    def single(cls, text: str) -> ParsedFilters:
        """Take one filter from the command line."""
        return cls.of("", [Record(text, "filter", "default", None, 0, "")])

    def refuse(self, record: Record, error: TamisError, skip: bool) -> None:
        """Raise an error with its place in the file, or note it."""
        if not self.name:
            raise error
        if not skip:
            raise TableError(f"{self.name}, {record.place}: subscription {record.id!r}: {error}") from None
        self.bad.append(BadRow(record.row, record.place, f"subscription {record.id!r}: {error}"))


def _conditions(node: Node) -> Iterator[Any]:
    return (leaf for leaf in leaves(node) if not isinstance(leaf, Constant))


@dataclass(frozen=True)
class Prepared:
    """An engine with the subscriptions, and the conversion of batches for it."""

    engine: Engine
    #: The name of the events in messages.
    name: str
    #: Attributes without a type, which filters only test for presence: true where present.
    presence: frozenset[str]

    def match(
        self, batch: Batch, *, namespace: str = "default", skip: bool = False, threads: int = 1
    ) -> tuple[Matches, list[BadRow]]:
        """Match a batch; return the matches and the rows that do not fit (none unless ``skip`` is set)."""
        columns = self.columns(batch)
        try:
            return self.engine.match_table(columns, namespace=namespace, threads=threads), []
        except EventError as error:
            if not skip:
                at = f"{self.name}, {batch.place(error.row)}" if error.row is not None else self.name
                raise TableError(f"{at}: {_without_row(error)}") from None
        bad_rows = EventTable.of(columns, self.engine.schema).bad
        bad = [BadRow(batch.rows[row], batch.place(row), _without_row(error)) for row, error in bad_rows.items()]
        return self.engine.match_table(columns, namespace=namespace, on_bad="skip", threads=threads), bad

    def event(self, raw: Mapping[str, Any]) -> dict[str, Any]:
        """Return one row in the form that the engine reads."""
        return {name: True if name in self.presence and value is not None else value for name, value in raw.items()}

    def columns(self, batch: Batch) -> dict[str, Any]:
        """Return the columns of a batch that filters use, in the form that the engine reads."""
        used = batch.columns if ALL_STRINGS in self.engine.schema else with_roots(self.engine.schema)
        columns = {
            name: _present(column) if name in self.presence else column
            for name, column in batch.columns.items()
            if name in used
        }
        return columns or {_ROW: np.arange(len(batch))}


def _without_row(error: EventError) -> str:
    return str(EventError(error.attribute, error.value, error.problem))


def open_events(
    questions: ParsedFilters,
    file: EventFile,
    schema: Schema | None,
    zone: str | None,
    *,
    skip: bool = False,
    extra: Collection[str] = (),
    whole: bool = False,
) -> tuple[Prepared, Iterator[Batch]]:
    """Prepare an engine for the events of a file; return it and all batches of the file.

    ``extra`` are columns to read besides those that filters use; ``whole`` is that of `EventFile.batches`.
    """
    kinds = (
        {name: kinds_of_name[0] for name, kinds_of_name in questions.kinds.items() if len(kinds_of_name) == 1}
        if schema is None
        else schema
    )
    names = {*(questions.kinds if schema is None else schema), *extra}
    batches = file.batches(None if ALL_STRINGS in names else with_roots(names), kinds, whole=whole)
    first = next(batches, None)
    prepared = prepare(questions, first, file.name, schema, zone, skip=skip)
    return prepared, itertools.chain([] if first is None else [first], batches)


def prepare(
    questions: ParsedFilters,
    first: Batch | None,
    name: str,
    schema: Schema | None,
    zone: str | None,
    *,
    skip: bool = False,
) -> Prepared:
    """Decide the types with the first batch, and compile the subscriptions under them."""
    presence: set[str] = set()
    if schema is None:
        settled: dict[str, AttributeType] = {}
        for attribute, kinds in questions.kinds.items():
            kind = _settled(attribute, kinds, None if first is None else _column(first, attribute), zone)
            if kind is None:
                presence.add(attribute)
            settled[attribute] = kind or Boolean()
        schema = Schema(settled)
    engine = Engine(schema)
    for record, _ in () if _subscribe_table(engine, questions) else questions.records:
        try:
            engine.subscribe(
                record.source,
                id=record.id,
                namespace=record.namespace,
                expires=record.expires,
                metadata=record.metadata,
            )
        except TamisError as error:
            questions.refuse(record, error, skip)
    return Prepared(engine, name, frozenset(presence))


def _column(batch: Batch, name: str) -> Any:
    column = batch.columns.get(name)
    return column_at(batch.columns, name) if column is None else column


def _subscribe_table(engine: Engine, questions: ParsedFilters) -> bool:
    """Add all subscriptions at once; if that fails, add none and return False: one by one shows which is wrong."""
    records = [record for record, _ in questions.records]
    texts = [record.source for record in records if isinstance(record.source, str) and record.expires is None]
    if len(texts) < len(records):
        return False
    ids, namespaces = [record.id for record in records], [record.namespace for record in records]
    about = [record.metadata for record in records]
    try:
        engine.subscribe_table(SubscriptionTable(len(records), ids, texts=texts, namespaces=namespaces, metadata=about))
    except TamisError:
        return False
    return True


def demand_columns(questions: ParsedFilters, file: EventFile) -> None:
    """Raise if a filter names a column that the file does not have; files without a header are not checked."""
    if not file.has_header:
        return
    for record, node in questions.records:
        for leaf in _conditions(node):
            if leaf.attribute != ALL_STRINGS and with_roots([leaf.attribute]).isdisjoint(file.names):
                raise _no_column(leaf, record, file)


def _no_column(leaf: Leaf, record: Record, file: EventFile) -> SubscriptionError:
    assert not isinstance(leaf, Constant)
    problem = f"{file.name} has no column {leaf.attribute!r}{_nearest(leaf.attribute, file.names)}"
    text = record.source if isinstance(record.source, str) else None
    return SubscriptionError(problem, leaf.attribute, None, text, leaf.span[0] if leaf.span else None)


def warn_of_unseen(questions: ParsedFilters, file: EventFile) -> None:
    """Report, after all events were read, which attributes of the filters no event had."""
    unseen = [name for name in questions.kinds if name != ALL_STRINGS and with_roots([name]).isdisjoint(file.names)]
    if len(unseen) == 1:
        errors().say(f"note: no event of {file.name} has {unseen[0]!r}{_nearest(unseen[0], file.names)}")
    elif unseen:
        errors().say(f"note: no event of {file.name} has any of {_few(unseen)}")


def _nearest(name: str, available: Iterable[str]) -> str:
    names = list(available)
    near = [candidate for candidate in names if len(candidate) > 2 and name.lower().startswith(candidate.lower())]
    near = near or difflib.get_close_matches(name, names, n=1)
    if near:
        return f" (did you mean {near[0]!r}?)"
    return f" (there are {_few(names)})" if names else ""


def _few(names: list[str]) -> str:
    return ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")


def _settled(name: str, kinds: list[AttributeType], column: Any, zone: str | None) -> AttributeType | None:
    """Return the type of an attribute; None if neither literals nor values show one."""
    shown = None if column is None else learn_from_table(Schema(), {name: column}).get(name)
    kind = next(
        (kind_of_literal for kind_of_literal in kinds if shown is not None and shown.agrees_with(kind_of_literal)), None
    )
    if kind is None:
        kind = next(
            (
                kind_of_literal
                for kind_of_literal in kinds
                if column is None or _is_readable(name, kind_of_literal, column)
            ),
            shown,
        )
    return Timestamp(zone) if isinstance(kind, Timestamp) else kind


def _is_readable(name: str, kind: AttributeType, column: Any) -> bool:
    """Whether some value of a column can be read as a type, or there is no value yet."""
    if isinstance(column, pa.Array):
        sample = column.drop_null().slice(0, _SAMPLE)
    else:
        sample = list(itertools.islice((value for value in column if value is not None), _SAMPLE))
    tried = Timestamp("UTC") if isinstance(kind, Timestamp) else kind  # a missing zone is another complaint
    return not len(sample) or bool(column_from(name, tried, sample).present.any())


def _present(column: Any) -> pa.Array:
    values = column.to_pylist() if isinstance(column, pa.Array) else column
    return pa.array([None if value is None else True for value in values], pa.bool_())
