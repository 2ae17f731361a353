"""The content of messages as bytes: filters as CQL2-JSON, events as canonical values.

The schema is configuration, the same at every node; it is not sent. Reading a filter is a pure function of its bytes
and the schema, so a `Content` caches what it has read: a filter that passes through a broker is compiled once.
"""

from __future__ import annotations

import itertools
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, NamedTuple, TypeVar

import msgspec

from tamis.algebra.compiling import compile_filters, compile_source
from tamis.errors import EventError, LimitError, SchemaError
from tamis.model.language.cql2_json import from_json, to_json
from tamis.model.language.format import format_node
from tamis.model.language.parse import parse
from tamis.model.language.templates.columns import TextColumns
from tamis.model.language.templates.documents import JsonTemplates
from tamis.model.language.unbind import unbind
from tamis.model.schema import (
    ALL_STRINGS,
    COMPUTED,
    LEARNED_ATTRIBUTES,
    MAX_ATTRIBUTES,
    Event,
    Schema,
    joined_strings,
    learn_from_event,
    presence_of,
)
from tamis.model.subscription import Filter
from tamis.model.types import Boolean, Number, String
from tamis.model.types.paths import MAX_DEPTH, nested

__all__ = [
    "MAX_ATTRIBUTE_NAME",
    "MAX_INNER",
    "Content",
    "ReadDocuments",
    "adopt",
    "alternatives_of",
    "check_nesting",
    "copy_apart",
    "make_room",
    "text_of",
    "unread",
    "written_forms",
]

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")

_FLOATS = {float}

#: Simple values of a type of attributes; see `Content._is_canonical`.
_SIMPLE: dict[type, frozenset[type]] = {
    Number: frozenset({float, int}),
    String: frozenset({str}),
    Boolean: frozenset({bool}),
}

_encoder = msgspec.msgpack.Encoder()

#: Largest number of namespaces with learned types, each of up to 256 attributes, and of those with subscriptions.
MAX_NAMESPACES = 10_000

#: Filters that are cached before all are dropped; and events, which are read again at once or never. Bytes of each, as
#: they are written.
REMEMBERED, REMEMBERED_EVENTS = 100_000, 4_096
REMEMBERED_BYTES, REMEMBERED_EVENT_BYTES = 64 * 1024 * 1024, 16 * 1024 * 1024

#: Objects and lists inside one value of an event: the 10,000 positions and 2,500 rings of a region, with a reserve.
MAX_INNER = 20_000

#: Characters of an attribute's name, dots included, unless the schema of the broker declares it.
MAX_ATTRIBUTE_NAME = 256

#: Types of values that contain no other values.
_PLAIN = frozenset({str, int, float, bool, bytes, type(None)})

#: Schemas whose shapes of documents are remembered.
REMEMBERED_SCHEMAS = 64


class _Remembered(dict[_Key, _Value]):
    """A cache that is bounded in number and in bytes; when either is exceeded, it is cleared.

    >>> memory = _Remembered[str, int](3, 10)
    >>> for word in ("a", "bb", "cccccccc"):
    ...     memory.remember(word, 1, len(word))
    >>> list(memory)
    ['cccccccc']
    """

    def __init__(self, most: int = REMEMBERED, most_bytes: int = REMEMBERED_BYTES) -> None:
        super().__init__()
        self._most = most
        self._most_bytes = most_bytes
        self._bytes = 0

    def remember(self, key: _Key, value: _Value, size: int) -> None:
        """Add a value that was read from ``size`` bytes."""
        if len(self) >= self._most or self._bytes + size > self._most_bytes:
            self.clear()
            self._bytes = 0
        self[key] = value
        self._bytes += size

    def make_room(self, count: int, size: int) -> None:
        """Let ``count`` values be added without clearing the cache in between, unless they are more than it holds."""
        if self and (len(self) + count > self._most or self._bytes + size > self._most_bytes):
            self.clear()
            self._bytes = 0


def _remembered_events() -> _Remembered[tuple[int, bytes], Event]:
    return _Remembered(REMEMBERED_EVENTS, REMEMBERED_EVENT_BYTES)


@dataclass
class _Memory:
    """The caches of filters, texts and events, by the number of the `Content`; all namespaces share their room."""

    filters: _Remembered[tuple[int, bytes], tuple[Filter, ...]] = field(default_factory=_Remembered)
    texts: _Remembered[tuple[int, tuple[Filter, ...]], bytes] = field(default_factory=_Remembered)
    events: _Remembered[tuple[int, bytes], Event] = field(default_factory=_remembered_events)
    templates: dict[int, JsonTemplates] = field(default_factory=dict)


_numbers = itertools.count()

#: Documents that are read one by one before the others are tried as columns again.
_FIRST = 4


class ReadDocuments(NamedTuple):
    """Compiled documents: rows that are boxes as columns, the filters of the others by row."""

    columns: list[TextColumns]
    others: dict[int, tuple[Filter, ...]]


class Content:
    """Reads and writes filters and events under one schema.

    Without a schema the types are learned from the filters and events that are *written* here. Then each namespace
    learns by itself (`of`): the names and types of one tenant do not affect another.

    >>> content = Content()
    >>> content.read_filter(content.write_filter(content.compile("price < 100"))) == content.compile("price < 100")
    True
    """

    def __init__(self, schema: Schema | None = None, memory: _Memory | None = None) -> None:
        self.learns = schema is None
        self.schema = Schema() if schema is None else schema
        #: The contents of namespaces, if they learn.
        self.spaces: dict[str, Content] = {}
        self._memory = _Memory() if memory is None else memory
        self._number = next(_numbers)
        self._known_schema: Schema | None = None
        self._known_names: frozenset[str] = frozenset()
        #: The names of numbers in the known schema.
        self._numbers: frozenset[str] = frozenset()
        #: The Python types whose values are canonical as they are, for attributes of the known schema.
        self._simple: dict[str, frozenset[type]] = {}

    def compile_json(self, data: bytes) -> tuple[Filter, ...]:
        """Return the filters of CQL2-JSON, as `compile` does for the document."""
        filters = self._find_document(data)
        if filters is None:
            filters = self.compile(msgspec.json.decode(data))
            self._learn_shape(data, filters)
        return filters

    def written_form(self, data: bytes) -> bytes:
        """Return CQL2-JSON in the form in which `write_filter` writes its filters.

        >>> content = Content()
        >>> content.written_form(b'{"op": "<", "args": [{"property": "price"}, 100]}')
        b'{"op":"<","args":[{"property":"price"},100]}'
        """
        written = self._templates().written(data, self.schema)
        return self.write_filter(self.compile_json(data)) if written is None else written

    def of(self, namespace: str) -> Content:
        """Return the content of a namespace: this one under a configured schema, otherwise one that learns by itself.

        >>> content = Content()
        >>> filters = content.of("east").compile("price < 100")
        >>> list(content.of("east").schema), list(content.of("west").schema)
        (['price'], [])
        """
        if not self.learns:
            return self
        space = self.spaces.get(namespace)
        if space is None:
            if len(self.spaces) >= MAX_NAMESPACES:
                self.spaces = {name: content for name, content in self.spaces.items() if content.schema}
            if len(self.spaces) >= MAX_NAMESPACES:
                raise LimitError("namespaces that learn types", len(self.spaces) + 1, MAX_NAMESPACES)
            space = self.spaces[namespace] = Content(None, self._memory)
        return space

    def forget_types(self, kept: Container[str]) -> None:
        """Forget the learned types of all attributes but those in ``kept``."""
        self.schema = Schema({name: kind for name, kind in self.schema.items() if name in kept})
        self._number = next(_numbers)  # entries cached under the old types are no longer found

    def compile(self, source: str | Mapping[str, Any]) -> tuple[Filter, ...]:
        """Return the filters of CQL2 text or JSON."""
        filters, learned, _ = compile_source(source, self.schema, learns=self.learns)
        _check_names(name for filter in filters for name in filter.attributes if name not in self.schema)
        _check_names(name for name in learned if name not in self.schema)
        if self.learns and len(learned) > MAX_ATTRIBUTES:
            raise LimitError(LEARNED_ATTRIBUTES, len(learned), MAX_ATTRIBUTES)
        self.schema = learned
        return filters

    def write_filter(self, filters: tuple[Filter, ...]) -> bytes:
        """Return filters as CQL2-JSON."""
        data = self._memory.texts.get((self._number, filters))
        if data is None:
            data = msgspec.json.encode(to_json(unbind(filters, self.schema)))
            self._remember(filters, data)
        return data

    def read_filter(self, data: bytes) -> tuple[Filter, ...]:
        """Return the filters of CQL2-JSON; raise ModelError if it is not a filter."""
        memory, key = self._memory.filters, (self._number, data)
        filters = memory.get(key)
        if filters is None:
            filters = self._find_document(data)
            if filters is None:
                filters = self._read_document(data)
                self._learn_shape(data, filters)
            memory.remember(key, filters, len(data))
        return filters

    def read_filters(self, documents: Sequence[bytes]) -> ReadDocuments:
        """Return `read_filter` of many documents; those of equal shape become columns, without an object for each."""
        read = ReadDocuments([], {})
        rows, n_tried = list(range(len(documents))), _FIRST
        while rows:
            columns, rows = self._templates().columns(documents, rows, self.schema)
            read.columns.extend(columns)
            read.others.update((row, self.read_filter(documents[row])) for row in rows[:n_tried])
            rows, n_tried = rows[n_tried:], 4 * n_tried
        return read

    def _find_document(self, data: bytes) -> tuple[Filter, ...] | None:
        """Return the filters of a document whose shape was read before; None: its shape is new."""
        document = self._templates().find(data, self.schema)
        if document is None:
            return None
        if document.is_canonical:
            self._remember(document.filters, data)
        return document.filters

    def _templates(self) -> JsonTemplates:
        """Return the shapes of documents that were read under this schema."""
        templates = self._memory.templates
        if self._number not in templates:
            if len(templates) >= REMEMBERED_SCHEMAS:
                templates.clear()
            templates[self._number] = JsonTemplates()
        return templates[self._number]

    def _read_document(self, data: bytes) -> tuple[Filter, ...]:
        try:
            document = msgspec.json.decode(data)
        except Exception as error:  # whatever the parser raises, the sender is at fault
            raise SchemaError("", f"a filter is CQL2-JSON: {error}") from None
        return compile_filters(from_json(document, is_written=True), self.schema, open=self.learns)

    def _learn_shape(self, data: bytes, filters: tuple[Filter, ...]) -> None:
        """Keep the shape of a compiled document, if it was seen before."""
        if self._templates().is_repeated(data, self.schema):
            node = from_json(msgspec.json.decode(data), is_written=True)
            self._templates().add(data, node, open=self.learns, write=self.write_filter)

    def _remember(self, filters: tuple[Filter, ...], data: bytes) -> None:
        """Cache filters and the form in which they are written."""
        memory = self._memory
        memory.texts.remember((self._number, filters), data, len(data))
        memory.filters.remember((self._number, data), filters, len(data))

    def write_event(self, raw: Mapping[str, Any]) -> bytes:
        """Return an event's canonical values as bytes; raise EventError for a value that does not fit."""
        event: Event
        if type(raw) is dict and self._is_canonical(raw):
            event, payload = raw, _encoder.encode(raw)
        else:
            event, payload = self._written(raw)
        self._memory.events.remember((self._number, payload), event, len(payload))
        return payload

    def read_event(self, payload: bytes) -> Event:
        """Return the canonical event of a payload; raise EventError if it is not an event."""
        memory, key = self._memory.events, (self._number, payload)
        event = memory.get(key)
        if event is None:
            try:
                raw = msgspec.msgpack.decode(payload, type=dict[str, Any])
            except Exception as error:  # whatever the parser raises, the sender is at fault
                raise EventError("", payload, f"not an event: {error}") from None
            event = self._canonical(raw)
            memory.remember(key, event, len(payload))
        return event

    def _is_canonical(self, raw: dict[str, Any]) -> bool:
        """Whether an event has only known attributes with simple values, so that these are canonical already.

        This holds for most events of most streams. What is simple and rare takes the slow path, too: a zero, because
        -0.0 equals it and is not canonical, whole numbers beyond int64, and text that is not ASCII.
        """
        self._look_at_schema()
        if raw.keys() <= self._numbers and set(map(type, raw.values())) == _FLOATS:
            return isfinite(sum(raw.values())) and 0.0 not in raw.values()
        simple = self._simple
        for name, value in raw.items():
            kind = type(value)
            if kind not in simple.get(name, ()):
                return False
            if kind is float:
                is_simple = value and isfinite(value)
            elif kind is int:
                is_simple = -(2**63) <= value < 2**63
            else:
                is_simple = kind is bool or value.isascii()
            if not is_simple:
                return False
        return True

    def _written(self, raw: Mapping[str, Any]) -> tuple[Event, bytes]:
        check_nesting(raw)
        _check_names(name for name in raw if name not in self.schema)
        schema, present = self.schema, dict[str, bool]()
        self._look_at_schema()
        if self.learns and not (isinstance(raw, dict) and raw.keys() <= self._known_names):
            schema = learn_from_event(schema, raw)
            _check_names(name for name in schema if name not in self.schema)
            present = presence_of(schema, raw)
        event = schema.event(raw)
        wire = nested(schema.to_wire(event, raw) | present, raw)
        if ALL_STRINGS in event and ALL_STRINGS not in raw:
            others = {name: value for name, value in wire.items() if name != ALL_STRINGS}
            if joined_strings(others) == event[ALL_STRINGS]:  # the next reader derives it from the others
                wire = others
        payload = _encoder.encode(wire)
        self.schema = schema  # an event that is refused teaches nothing
        return event | present, payload

    def _look_at_schema(self) -> None:
        if self._known_schema is not self.schema:
            self._known_schema, self._known_names = self.schema, frozenset(self.schema)
            self._numbers = frozenset(name for name, kind in self.schema.items() if type(kind) is Number)
            self._simple = {} if ALL_STRINGS in self.schema else _simple_types(self.schema)

    def _canonical(self, raw: dict[str, Any]) -> Event:
        event = self.schema.event_from_wire(raw)
        return event | presence_of(self.schema, raw) if self.learns else event


def _simple_types(schema: Schema) -> dict[str, frozenset[type]]:
    """Return the Python types whose values are canonical as they are, by attribute."""
    return {
        name: _SIMPLE[type(kind)]
        for name, kind in schema.items()
        if type(kind) in _SIMPLE and not (isinstance(kind, String) and kind.coerce)
    }


def written_forms(content: Content, documents: Sequence[bytes]) -> dict[int, bytes]:
    """Return `Content.written_form` of many documents by row, for those whose shape was read before."""
    return content._templates().written_many(documents, content.schema)


def text_of(content: Content, data: bytes) -> str:
    """Return the canonical text of CQL2-JSON that a client wrote; raise `ModelError` if it is not a filter.

    >>> text_of(Content(), b'{"op": "<", "args": [{"property": "price"}, 100]}')
    'price < 100'
    """
    text = content._templates().text(data, content.schema)
    return format_node(parse(msgspec.json.decode(data))) if text is None else text


def unread(content: Content, documents: Sequence[bytes]) -> list[bytes]:
    """Return the documents that `read_filters` would have to compile: of new shapes, and not in the cache."""
    memory = content._memory.filters
    missing = [data for data in documents if (content._number, data) not in memory]
    _, rows = content._templates().columns(missing, range(len(missing)), content.schema)
    return [missing[row] for row in rows]


def alternatives_of(content: Content, data: bytes) -> int | None:
    """Return the number of filters of a document that was compiled; None for any other, as one read as columns."""
    filters = content._memory.filters.get((content._number, data))
    return None if filters is None else len(filters)


def make_room(content: Content, documents: Sequence[bytes]) -> None:
    """Let these documents be cached together, unless they are more than the cache holds."""
    content._memory.filters.make_room(len(documents), sum(map(len, documents)))


def copy_apart(content: Content) -> Content:
    """Return a copy for another thread, with its own caches; `adopt` takes over what it has compiled."""
    copy = Content(None if content.learns else content.schema)
    copy.schema, copy._number = content.schema, content._number
    copy._memory.templates[copy._number] = content._templates().copy()
    return copy


def adopt(content: Content, apart: Content) -> None:
    """Take over the filters and shapes that a copy has compiled, unless types were forgotten meanwhile."""
    if apart._number == content._number:
        for (_, filters), data in apart._memory.texts.items():
            content._remember(filters, data)
        read = {} if content.learns else apart._memory.filters  # of learned types only what was written is certain
        for (_, data), filters in read.items():
            content._memory.filters.remember((content._number, data), filters, len(data))
        content._templates().adopt(apart._templates())


def _check_names(names: Iterable[str]) -> None:
    """Raise `LimitError` when the name of an attribute is too long; those of computed values are not counted."""
    for name in names:
        if len(name) > MAX_ATTRIBUTE_NAME and not name.startswith(COMPUTED):
            raise LimitError("characters of an attribute's name", len(name), MAX_ATTRIBUTE_NAME)


def check_nesting(raw: Mapping[str, Any]) -> None:
    """Raise unless the values of an event nest at most `MAX_DEPTH` deep and hold at most `MAX_INNER` objects and lists.

    The error does not show the value: printing it would take as many levels.
    """
    for name, value in raw.items():
        level, count = [value], 0
        for _ in range(MAX_DEPTH - 1 if type(value) not in _PLAIN else 0):
            level = list(itertools.islice((inner for outer in level for inner in _nested_in(outer)), MAX_INNER + 1))
            count += len(level)
            if not level:
                break
            if count > MAX_INNER:
                raise LimitError("objects and lists inside a value of an event", count, MAX_INNER)
        else:
            if type(value) not in _PLAIN:
                raise EventError(str(name), "...", f"nested more than {MAX_DEPTH} deep")


def _nested_in(value: object) -> Iterable[object]:
    """Return the mappings and lists directly inside a value; quick for a list of plain values."""
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    if set(map(type, inner)) <= _PLAIN:
        return ()
    return (item for item in inner if isinstance(item, dict | list | tuple | Mapping))
