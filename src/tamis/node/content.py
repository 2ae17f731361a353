"""What messages carry, as bytes: filters as CQL2-JSON, events as canonical values.

The schema is configuration, the same at every node; it is not sent. Reading a filter is a pure function of its
bytes and the schema, so a `Content` remembers what it has read: a filter that crosses a broker is compiled once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from math import isfinite
from typing import Any

import msgspec
import numpy as np
import shapely

from tamis.algebra.compiling import compile_filters, compile_source
from tamis.errors import EventError, SchemaError
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

#: Filters that are remembered before all are forgotten; and events, which are asked for again at once or never.
REMEMBERED, REMEMBERED_EVENTS = 100_000, 4_096


class Content:
    """Reads and writes filters and events under one schema.

    Without a schema the types are learned from the filters and events that are *written* here.

    >>> content = Content()
    >>> content.read_filter(content.write_filter(content.compile("price < 100"))) == content.compile("price < 100")
    True
    """

    def __init__(self, schema: Schema | None = None) -> None:
        self.learns = schema is None
        self.schema = Schema() if schema is None else schema
        self._filters: dict[bytes, tuple[Filter, ...]] = {}
        self._texts: dict[tuple[Filter, ...], bytes] = {}
        self._templates = JsonTemplates()
        self._events: dict[bytes, Event] = {}
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

    def compile(self, source: str | Mapping[str, Any]) -> tuple[Filter, ...]:
        """Return the filters that CQL2 text or JSON means."""
        filters, self.schema, _ = compile_source(source, self.schema, learns=self.learns)
        return filters

    def write_filter(self, filters: tuple[Filter, ...]) -> bytes:
        """Return filters as CQL2-JSON."""
        known = self._texts.get(filters)
        if known is None:
            known = msgspec.json.encode(to_json(unbind(filters, self.schema)))
            self._remember(filters, known)
        return known

    def read_filter(self, data: bytes) -> tuple[Filter, ...]:
        """Return the filters that CQL2-JSON means; ModelError when it means none."""
        known = self._filters.get(data)
        if known is None:
            known = self._find_document(data)
            if known is None:
                known = self._read_document(data)
                self._learn_shape(data, known)
            _bound(self._filters)
            self._filters[data] = known
        return known

    def _find_document(self, data: bytes) -> tuple[Filter, ...] | None:
        """Return the filters of a document like others that were read; None if there was none like it."""
        found = self._templates.find(data, self.schema)
        if found is None:
            return None
        if found.is_canonical:
            self._remember(found.filters, data)
        return found.filters

    def _read_document(self, data: bytes) -> tuple[Filter, ...]:
        try:
            document = msgspec.json.decode(data)
        except Exception as error:  # whatever the parser raises is the sender's doing
            raise SchemaError("", f"a filter is CQL2-JSON: {error}") from None
        return compile_filters(from_json(document), self.schema, open=self.learns)

    def _learn_shape(self, data: bytes, filters: tuple[Filter, ...]) -> None:
        """Keep the shape of a document that was compiled, if it was seen before."""
        if self._templates.is_repeated(data, self.schema):
            node = from_json(msgspec.json.decode(data))
            self._templates.add(data, node, open=self.learns, write=lambda: self.write_filter(filters))

    def _remember(self, filters: tuple[Filter, ...], data: bytes) -> None:
        """Take note of filters and the form in which they are written."""
        _bound(self._texts)
        self._texts[filters] = data
        _bound(self._filters)
        self._filters[data] = filters

    def write_event(self, raw: Mapping[str, Any]) -> bytes:
        """Return an event's canonical values as bytes; EventError names a value that does not fit."""
        if self._is_canonical(raw):
            event, payload = raw, _encoder.encode(raw)
        else:
            event, payload = self._written(raw)
        _bound(self._events, REMEMBERED_EVENTS)
        self._events[payload] = event
        return payload

    def read_event(self, payload: bytes) -> Event:
        """Return the canonical event of a payload; EventError when there is none."""
        known = self._events.get(payload)
        if known is None:
            _bound(self._events, REMEMBERED_EVENTS)
            try:
                raw = msgspec.msgpack.decode(payload, type=dict[str, Any])
            except Exception as error:  # whatever the parser raises is the sender's doing
                raise EventError("", payload, f"not an event: {error}") from None
            known = self._events[payload] = self._canonical(raw)
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
