"""What messages carry, as bytes: filters as CQL2-JSON, events as canonical values.

The schema is configuration, the same at every node; it is not sent. Reading a filter is a pure function of its
bytes and the schema, so a `Content` remembers what it has read: a filter that crosses a broker is compiled once.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from math import isfinite
from typing import Any

import msgspec
import numpy as np
import shapely

from tamis.algebra.compiling import compile_filters, compile_source
from tamis.errors import EventError, LimitError, SchemaError
from tamis.model.language.cql2_json import from_json, to_json
from tamis.model.language.templates.documents import JsonTemplates
from tamis.model.language.unbind import unbind
from tamis.model.schema import Event, Schema, learn_from_event, presence_of
from tamis.model.subscription import Filter
from tamis.model.types import Number
from tamis.model.values import Value

__all__ = ["Content"]

_FRACTION = re.compile(r"-?\d{1,400}/[1-9]\d{0,400}", re.ASCII)

_FLOATS = {float}

_encoder = msgspec.msgpack.Encoder()

_SAID_AS_THEY_ARE = frozenset({float, int, str, bool})

#: Levels of an event, itself included (promise S14).
MAX_DEPTH = 32

#: Namespaces that have learned types, each of up to 256 attributes.
MAX_NAMESPACES = 10_000

#: Filters that are remembered before all are forgotten; and events, which are asked for again at once or never.
REMEMBERED, REMEMBERED_EVENTS = 100_000, 4_096

#: Schemas whose shapes of documents are remembered.
REMEMBERED_SCHEMAS = 64


@dataclass
class _Memory:
    """What was read and written lately, by the number of the `Content` that did it; all namespaces share the room."""

    filters: dict[tuple[int, bytes], tuple[Filter, ...]] = field(default_factory=dict)
    texts: dict[tuple[int, tuple[Filter, ...]], bytes] = field(default_factory=dict)
    events: dict[tuple[int, bytes], Event] = field(default_factory=dict)
    templates: dict[int, JsonTemplates] = field(default_factory=dict)


_numbers = itertools.count()


class Content:
    """Reads and writes filters and events under one schema.

    Without a schema the types are learned from the filters and events that are *written* here. Then each namespace
    learns by itself (`of`): what one tenant writes says nothing about the names and types of another.

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
        #: The names of numbers, as long as the schema is the one that is known.
        self._numbers: frozenset[str] = frozenset()

    def compile_json(self, data: bytes) -> tuple[Filter, ...]:
        """Return the filters that CQL2-JSON means, as `compile` does of the document."""
        found = self._find_document(data)
        if found is None:
            found = self.compile(msgspec.json.decode(data))
            self._learn_shape(data, found)
        return found

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
                self.spaces = {name: other for name, other in self.spaces.items() if other.schema}
            if len(self.spaces) >= MAX_NAMESPACES:
                raise LimitError("namespaces that learn types", len(self.spaces) + 1, MAX_NAMESPACES)
            space = self.spaces[namespace] = Content(None, self._memory)
        return space

    def forget_types(self, kept: Container[str]) -> None:
        """Forget the learned types of all attributes but those in ``kept``."""
        self.schema = Schema({name: kind for name, kind in self.schema.items() if name in kept})
        self._number = next(_numbers)  # what was read under the old types is not found any more

    def compile(self, source: str | Mapping[str, Any]) -> tuple[Filter, ...]:
        """Return the filters that CQL2 text or JSON means."""
        filters, self.schema, _ = compile_source(source, self.schema, learns=self.learns)
        return filters

    def write_filter(self, filters: tuple[Filter, ...]) -> bytes:
        """Return filters as CQL2-JSON."""
        known = self._memory.texts.get((self._number, filters))
        if known is None:
            known = msgspec.json.encode(to_json(unbind(filters, self.schema)))
            self._remember(filters, known)
        return known

    def read_filter(self, data: bytes) -> tuple[Filter, ...]:
        """Return the filters that CQL2-JSON means; ModelError when it means none."""
        memory, key = self._memory.filters, (self._number, data)
        known = memory.get(key)
        if known is None:
            known = self._find_document(data)
            if known is None:
                known = self._read_document(data)
                self._learn_shape(data, known)
            _bound(memory)
            memory[key] = known
        return known

    def _find_document(self, data: bytes) -> tuple[Filter, ...] | None:
        """Return the filters of a document like others that were read; None if there was none like it."""
        found = self._templates().find(data, self.schema)
        if found is None:
            return None
        if found.is_canonical:
            self._remember(found.filters, data)
        return found.filters

    def _templates(self) -> JsonTemplates:
        """Return the shapes of documents that were read under this schema."""
        templates = self._memory.templates
        if self._number not in templates:
            _bound(templates, REMEMBERED_SCHEMAS)
            templates[self._number] = JsonTemplates()
        return templates[self._number]

    def _read_document(self, data: bytes) -> tuple[Filter, ...]:
        try:
            document = msgspec.json.decode(data)
        except Exception as error:  # whatever the parser raises is the sender's doing
            raise SchemaError("", f"a filter is CQL2-JSON: {error}") from None
        return compile_filters(from_json(document), self.schema, open=self.learns)

    def _learn_shape(self, data: bytes, filters: tuple[Filter, ...]) -> None:
        """Keep the shape of a document that was compiled, if it was seen before."""
        if self._templates().is_repeated(data, self.schema):
            node = from_json(msgspec.json.decode(data))
            self._templates().add(data, node, open=self.learns, write=lambda: self.write_filter(filters))

    def _remember(self, filters: tuple[Filter, ...], data: bytes) -> None:
        """Take note of filters and the form in which they are written."""
        memory = self._memory
        _bound(memory.texts)
        memory.texts[self._number, filters] = data
        _bound(memory.filters)
        memory.filters[self._number, data] = filters

    def write_event(self, raw: Mapping[str, Any]) -> bytes:
        """Return an event's canonical values as bytes; EventError names a value that does not fit."""
        if self._is_canonical(raw):
            event, payload = raw, _encoder.encode(raw)
        else:
            event, payload = self._written(raw)
        memory = self._memory.events
        _bound(memory, REMEMBERED_EVENTS)
        memory[self._number, payload] = event
        return payload

    def read_event(self, payload: bytes) -> Event:
        """Return the canonical event of a payload; EventError when there is none."""
        memory, key = self._memory.events, (self._number, payload)
        known = memory.get(key)
        if known is None:
            _bound(memory, REMEMBERED_EVENTS)
            try:
                raw = msgspec.msgpack.decode(payload, type=dict[str, Any])
            except Exception as error:  # whatever the parser raises is the sender's doing
                raise EventError("", payload, f"not an event: {error}") from None
            known = memory[key] = self._canonical(raw)
        return known

    def _is_canonical(self, raw: Mapping[str, Any]) -> bool:
        """Whether an event is known numbers only, each a finite float: then its values are canonical already.

        Most events of most streams are. A zero is left to the long way, for -0.0 equals it and is not canonical.
        """
        self._look_at_schema()
        if type(raw) is not dict or not raw.keys() <= self._numbers:
            return False
        values = raw.values()
        return set(map(type, values)) == _FLOATS and isfinite(sum(values)) and 0.0 not in values

    def _written(self, raw: Mapping[str, Any]) -> tuple[Event, bytes]:
        deep = next((name for name, value in raw.items() if _is_deeper(value, MAX_DEPTH - 1)), None)
        if deep is not None:  # the value itself is not told: to print it would take as many levels
            raise EventError(str(deep), "...", f"nested more than {MAX_DEPTH} deep")
        schema, present = self.schema, dict[str, bool]()
        if self.learns and not self._knows_all(raw):
            schema = learn_from_event(schema, raw)
            present = presence_of(schema, raw)
        event = schema.event(raw)
        payload = _encoder.encode({name: _plain(value) for name, value in event.items()} | present)
        self.schema = schema  # an event that is refused teaches nothing
        return event | present, payload

    def _knows_all(self, raw: Mapping[str, Any]) -> bool:
        """Whether there is nothing to learn from the names of an event."""
        self._look_at_schema()
        return isinstance(raw, dict) and raw.keys() <= self._known_names

    def _look_at_schema(self) -> None:
        if self._known_schema is not self.schema:
            self._known_schema, self._known_names = self.schema, frozenset(self.schema)
            self._numbers = frozenset(name for name, kind in self.schema.items() if type(kind) is Number)

    def _canonical(self, raw: dict[str, Any]) -> Event:
        exact = {name: Fraction(value["/"]) for name, value in raw.items() if _is_fraction(value)}
        event = self.schema.event({name: value for name, value in raw.items() if name not in exact})
        present = presence_of(self.schema, raw) if self.learns else {}
        return event | exact | present


def _bound(memory: dict[Any, Any], most: int = REMEMBERED) -> None:
    if len(memory) >= most:
        memory.clear()


def _is_deeper(value: object, levels: int) -> bool:
    """Whether mappings and lists are nested in more than so many levels."""
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else None
    if inner is None:
        return False
    return levels == 0 or any(_is_deeper(one, levels - 1) for one in inner if isinstance(one, Mapping | list | tuple))


def _plain(value: Value) -> object:
    """Return a canonical value as MessagePack can say it; the types that read it back are the schema's."""
    if type(value) in _SAID_AS_THEY_ARE:
        return value
    if isinstance(value, Fraction):
        return {"/": str(value)}
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, shapely.Geometry):
        return shapely.to_wkb(value)
    return value


def _is_fraction(value: object) -> bool:
    """Whether a value is a long decimal as `_plain` writes it."""
    if not isinstance(value, dict) or value.keys() != {"/"}:
        return False
    return isinstance(value["/"], str) and _FRACTION.fullmatch(value["/"]) is not None
