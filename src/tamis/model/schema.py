"""Schema: the attributes events may carry, by name and type.

A schema never changes; `extended` returns a larger one. That is how an engine without a schema learns:
it extends what it knows by the types a subscription's literals or an event's first values show, and two
sources that disagree are named in one `SchemaError`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import numpy as np

from tamis.errors import EventError, LimitError, SchemaError
from tamis.model.types import AttributeType, Boolean, Number, Region, String, Timestamp, Vector, type_of_value
from tamis.model.values import UnfitError, Value, is_null

__all__ = ["MAX_ATTRIBUTES", "Event", "Schema", "learn_from_event", "presence_of"]

#: An event as tamis sees it: canonical values by attribute name; a missing attribute is left out.
Event = Mapping[str, Value]

#: Attributes of one schema or event (promise S14).
MAX_ATTRIBUTES = 256

_TYPES: dict[str, type[AttributeType]] = {
    kind.name: kind for kind in (Number, String, Boolean, Timestamp, Region, Vector)
}


class Schema(Mapping[str, AttributeType]):
    """Named, typed attributes.

    Examples
    --------
    >>> schema = Schema({"symbol": String(), "price": Number(0, 10_000)})
    >>> schema.event({"symbol": "IBM", "price": 99.5, "ignored": 1})
    {'symbol': 'IBM', 'price': 99.5}
    """

    def __init__(self, attributes: Mapping[str, AttributeType] | None = None) -> None:
        self._attributes = dict(attributes or {})
        if len(self._attributes) > MAX_ATTRIBUTES:
            raise LimitError("attributes of a schema", len(self._attributes), MAX_ATTRIBUTES)
        for name, kind in self._attributes.items():
            if not isinstance(name, str) or not name:
                raise SchemaError(repr(name), "a name is a string that is not empty")
            if not isinstance(kind, AttributeType):
                raise SchemaError(name, f"expected a type such as tamis.Number(), not {kind!r}")
        #: How each attribute is read, found once instead of for every value.
        self._canonical = {name: kind.canonical for name, kind in self._attributes.items()}

    def __getitem__(self, name: str) -> AttributeType:
        return self._attributes[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._attributes)

    def __len__(self) -> int:
        return len(self._attributes)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schema) and self._attributes == other._attributes

    def __hash__(self) -> int:
        return hash(frozenset(self._attributes.items()))

    def __repr__(self) -> str:
        inside = ", ".join(f"{name!r}: {kind!r}" for name, kind in self._attributes.items())
        return f"Schema({{{inside}}})"

    def event(self, raw: Mapping[str, Any], row: int | None = None) -> dict[str, Value]:
        """Return the canonical event: known attributes only, missing ones left out.

        Raises `EventError` that names the attribute and the value (NaN and infinity are refused).
        """
        if not isinstance(raw, Mapping):
            raise EventError("", raw, "an event is a mapping from attribute to value", row)
        canonical = self._canonical
        event: dict[str, Value] = {}
        for name, value in raw.items():
            read = canonical.get(name)
            if read is None or value is None:
                continue
            try:
                event[name] = read(value)
            except (UnfitError, LimitError) as error:
                raise EventError(name, value, str(error), row) from None
        return event

    def extended(self, found: Mapping[str, AttributeType], source: str) -> Schema:
        """Return this schema with what ``source`` shows added; a conflict names both sides."""
        added = {}
        for name, kind in found.items():
            known = self._attributes.get(name)
            if known is None:
                added[name] = kind
            elif not known.agrees_with(kind):
                raise SchemaError(name, f"known as {_words(known)}, but {source} uses it as {_words(kind)}")
        return Schema(self._attributes | added) if added else self

    def to_json(self) -> str:
        """Return the schema as JSON text that `from_json` reads."""
        described = {name: _describe(kind) for name, kind in self._attributes.items()}
        return msgspec.json.encode({"attributes": described}).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> Schema:
        """Read a schema from JSON such as ``{"attributes": {"price": {"type": "number"}}}``."""
        try:
            read = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise SchemaError("", f"a schema is JSON text: {error}") from None
        attributes = read.get("attributes") if isinstance(read, dict) else None
        if not isinstance(attributes, dict):
            raise SchemaError("", 'a schema is {"attributes": {name: {"type": ...}}}')
        return cls({name: _from_description(name, one) for name, one in attributes.items()})

    @classmethod
    def from_arrow(cls, source: Any) -> Schema:
        """Return the schema of an Arrow table, record batch or schema; other columns are left out."""
        from tamis.model.arrow_types import schema_from_arrow

        return cls(schema_from_arrow(source))


def learn_from_event(schema: Schema, raw: Mapping[str, Any]) -> Schema:
    """Return the schema extended by the types of an event's values; what fits no type is left out.

    A full schema (`MAX_ATTRIBUTES`) learns no more names: an event never fails for the names it carries.
    """
    if not isinstance(raw, Mapping):
        raise EventError("", raw, "an event is a mapping from attribute to value")
    found: dict[str, AttributeType] = {}
    for name, value in raw.items():
        if len(schema) + len(found) >= MAX_ATTRIBUTES:
            break
        if not isinstance(name, str) or not name or name in schema or _is_missing(value):
            continue
        kind = type_of_value(value)
        if kind is not None:
            found[name] = kind
    return schema.extended(found, "the event")


def presence_of(schema: Schema, raw: Mapping[str, Any]) -> dict[str, bool]:
    """Return True by name for each value of an event that the schema does not know.

    That is all ``IS NULL`` asks about a value of no known type.

    >>> presence_of(Schema({"a": Number()}), {"a": 1, "b": {"nested": "object"}, "c": None})
    {'b': True}
    """
    if not isinstance(raw, Mapping):
        raise EventError("", raw, "an event is a mapping from attribute to value")
    unknown = (name for name, value in raw.items() if value is not None and name not in schema)
    return {name: True for name in unknown if isinstance(name, str)}


def _is_missing(value: object) -> bool:
    return is_null(value) or (isinstance(value, float | np.floating) and bool(np.isnan(value)))


def _words(kind: AttributeType) -> str:
    return f"a {kind.name} of {kind.n}" if isinstance(kind, Vector) else f"a {kind.name}"


def _describe(kind: AttributeType) -> dict[str, object]:
    fields = {key: value for key, value in vars(kind).items() if value is not None}
    return {"type": kind.name, **fields}


def _from_description(name: str, one: object) -> AttributeType:
    given = one.get("type") if isinstance(one, dict) else None
    if not isinstance(one, dict) or not isinstance(given, str) or given not in _TYPES:
        raise SchemaError(name, f'expected {{"type": one of {", ".join(_TYPES)}}}, not {one!r}')
    fields = {key: value for key, value in one.items() if key != "type"}
    try:
        return _TYPES[given](**fields)
    except TypeError:
        raise SchemaError(name, f"a {given} does not take {', '.join(fields) or 'nothing'}") from None
    except SchemaError as error:
        raise SchemaError(name, error.problem) from None
