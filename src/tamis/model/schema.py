"""The schema: the attributes that events may have, by name and type.

A schema never changes; `extended` returns a larger one. That is how an engine without a schema learns:
it extends what it knows by the types a subscription's literals or an event's first values show, and two
sources that disagree are named in one `SchemaError`.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from tamis.errors import EventError, LimitError, SchemaError
from tamis.model.types import AttributeType, String, type_of_value
from tamis.model.types.paths import Lookups, leaves_of, value_at
from tamis.model.types.registry import find_type, type_names
from tamis.model.types.value_text import is_plain
from tamis.model.values import UnfitError, Value, has_lone_surrogate, is_null

__all__ = [
    "ALL_STRINGS",
    "COMPUTED",
    "LEARNED_ATTRIBUTES",
    "MAX_ATTRIBUTES",
    "MAX_DECLARED",
    "Event",
    "Schema",
    "asked_by_filter",
    "joined_strings",
    "learn_from_event",
    "presence_of",
    "shown_by_events",
]

#: The attribute that holds all strings of an event: its string values in the order of their names, a line each. An
#: event may carry it itself; a schema that knows it as a string makes it of the others.
ALL_STRINGS = "*"

#: How the names of values begin that expressions compute (`tamis.model.derived.formulas`).
COMPUTED = "="

#: An event as tamis sees it: canonical values by attribute name; a missing attribute is left out.
Event = Mapping[str, Value]

#: Attributes of one event, and names that events teach a schema (promises S7, S14).
MAX_ATTRIBUTES = 256
#: What a `LimitError` says where a broker would have to learn more than that.
LEARNED_ATTRIBUTES = (
    "attributes that a broker learns from filters (start it with a schema that declares them: tamis serve --schema "
    "FILE; tamis import sigma --schema FILE writes such a file)"
)

#: Attributes of one schema: rules about many kinds of events name more than one event has.
MAX_DECLARED = 1_024


class Schema(Mapping[str, AttributeType]):
    """Named, typed attributes.

    Examples
    --------
    >>> from tamis.model.types import Number, String
    >>> schema = Schema({"symbol": String(), "price": Number(0, 10_000)})
    >>> schema.event({"symbol": "IBM", "price": 99.5, "ignored": 1})
    {'symbol': 'IBM', 'price': 99.5}
    """

    def __init__(
        self, attributes: Mapping[str, AttributeType] | None = None, *, unasked: frozenset[str] = frozenset()
    ) -> None:
        self._attributes = dict(attributes or {})
        #: Attributes known from events only, which no filter has named: a value of another type counts as present.
        self.unasked = unasked
        if len(self._attributes) > MAX_DECLARED:
            raise LimitError("attributes of a schema", len(self._attributes), MAX_DECLARED)
        for name, kind in self._attributes.items():
            if not isinstance(name, str) or not name:
                raise SchemaError(repr(name), "a name is a string that is not empty")
            if name.startswith(COMPUTED):
                raise SchemaError(name, f"a name does not begin with {COMPUTED!r}: computed values are called so")
            if not isinstance(kind, AttributeType):
                raise SchemaError(name, f"expected a type such as tamis.Number(), not {kind!r}")
        #: The reader of each attribute, looked up once instead of for every value.
        self._canonical = {name: kind.canonical for name, kind in self._attributes.items()}
        #: The names that may reach into nested objects.
        self._paths = [name for name in self._attributes if "." in name]
        #: The string attributes that accept a value of any type.
        self._coerced = {name for name, kind in self._attributes.items() if type(kind) is String and kind.coerce}
        self._joins_strings = ALL_STRINGS in self._attributes and isinstance(self._attributes[ALL_STRINGS], String)

    def __getitem__(self, name: str) -> AttributeType:
        return self._attributes[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._attributes)

    def __len__(self) -> int:
        return len(self._attributes)

    @functools.cached_property
    def _from_wire(self) -> dict[str, Callable[[Any], Value]]:
        """The reader of each attribute for wire values; created on first use, because learning creates many schemas."""
        return {name: kind.from_wire for name, kind in self._attributes.items()}

    @property
    def paths(self) -> Sequence[str]:
        """The names that may reach into nested objects."""
        return self._paths

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schema) and self._attributes == other._attributes

    def __hash__(self) -> int:
        return hash(frozenset(self._attributes.items()))

    def __repr__(self) -> str:
        inside = ", ".join(f"{name!r}: {kind!r}" for name, kind in self._attributes.items())
        return f"Schema({{{inside}}})"

    def knows_all_of(self, raw: object) -> bool:
        """Whether an event is a flat dict of attributes of this schema: there is nothing to learn from it."""
        return (
            type(raw) is dict
            and self._attributes.keys() >= raw.keys()
            and _SIMPLE.issuperset(map(type, raw.values()))
            and not self._paths
        )

    def event(self, raw: Mapping[str, Any], row: int | None = None) -> dict[str, Value]:
        """Return the canonical event: known attributes only, missing ones left out.

        Raises `EventError` that names the attribute and the value (NaN and infinity are refused).
        """
        if type(raw) is not dict and not isinstance(raw, Mapping):  # a Protocol check is slower than reading
            raise EventError("", raw, "an event must be a mapping from attribute to value", row)
        return self._with_strings(self._read(raw, self._canonical, row), raw)

    def event_from_wire(self, raw: Mapping[str, Any]) -> dict[str, Value]:
        """Return the canonical event of values as `AttributeType.to_wire` wrote them; `EventError` as in `event`."""
        return self._with_strings(self._read(raw, self._from_wire, None), raw)

    def _read(
        self, raw: Mapping[str, Any], readers: Mapping[str, Callable[[Any], Value]], row: int | None
    ) -> dict[str, Value]:
        event: dict[str, Value] = {}
        for name, value in raw.items():
            read = readers.get(name)
            if read is None or value is None:
                continue
            try:
                event[name] = read(value)
            except (UnfitError, LimitError) as error:
                if isinstance(error, LimitError) or name not in self.unasked or not is_plain(value):
                    raise EventError(name, value, str(error), row) from None
                event[name] = True
        if self._paths:
            self._read_paths(raw, readers, event, row)
        return event

    def _with_strings(self, event: dict[str, Value], raw: Mapping[str, Any]) -> dict[str, Value]:
        """Add all strings of a raw event, if the schema has the attribute for them and the event does not."""
        if self._joins_strings and ALL_STRINGS not in event:
            text = joined_strings(raw)
            if text is not None:
                event[ALL_STRINGS] = text
        return event

    def _read_paths(
        self,
        raw: Mapping[str, Any],
        readers: Mapping[str, Callable[[Any], Value]],
        event: dict[str, Value],
        row: int | None,
    ) -> None:
        """Add the values that lie inside nested objects to an event; a key with the whole name went before."""
        lookups = Lookups()
        for name in self._paths:
            value = None if name in event else value_at(raw, name, lookups)
            if value is None:
                continue
            try:
                event[name] = readers[name](value)
            except (UnfitError, LimitError) as error:
                if isinstance(error, LimitError) or name not in self.unasked or not is_plain(value):
                    raise EventError(name, value, str(error), row) from None
                event[name] = True

    def to_wire(self, event: Event, raw: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values of a canonical event as MessagePack has them.

        An attribute that is read as text of whatever value it has (``String(coerce=True)``) keeps the value that the
        raw event has, and so does one that no filter has named and whose value is of another type than before. An
        object that is kept so holds the values of all paths into it.
        """
        wire = {
            name: value if value is True else self._attributes[name].to_wire(value) for name, value in event.items()
        }
        kept = {name for name in self.unasked & wire.keys() if wire[name] is True} | (wire.keys() & self._coerced)
        if ALL_STRINGS not in raw:
            kept.discard(ALL_STRINGS)
        objects: list[str] = []
        for name in kept:
            value = value_at(raw, name)
            if is_plain(value):
                wire[name] = value
                if name in raw and isinstance(value, Mapping | list | tuple):
                    objects.append(f"{name}.")
        if objects:
            wire = {name: value for name, value in wire.items() if name in raw or not name.startswith(tuple(objects))}
        return wire

    def extended(self, types: Mapping[str, AttributeType], source: str) -> Schema:
        """Return this schema extended by the types that ``source`` shows; an error about a conflict names both sides.

        What is asked for the text of any value (``String(coerce=True)``) becomes such a string, if it is a string or
        only events have shown its type.
        """
        added = {}
        for name, kind in types.items():
            known_type = self._attributes.get(name)
            if known_type is None or (known_type != kind and _gives_way(known_type, kind, name in self.unasked)):
                added[name] = kind
            elif not known_type.agrees_with(kind):
                raise SchemaError(name, f"known as {known_type.words}, but {source} uses it as {kind.words}")
        if not added and self.unasked.isdisjoint(types):
            return self
        return Schema(self._attributes | added, unasked=self.unasked - types.keys())

    def to_json(self) -> str:
        """Return the schema as JSON text that `from_json` reads."""
        described = {name: _describe(kind) for name, kind in self._attributes.items()}
        unasked = {"unasked": sorted(self.unasked)} if self.unasked else {}
        return msgspec.json.encode({"attributes": described, **unasked}).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> Schema:
        """Read a schema from JSON such as ``{"attributes": {"price": {"type": "number"}}}``."""
        try:
            read = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise SchemaError("", f"a schema is JSON text: {error}") from None
        except RecursionError:
            raise SchemaError("", "a schema is JSON text: it is nested too deeply") from None
        attributes = read.get("attributes") if isinstance(read, dict) else None
        if not isinstance(attributes, dict):
            raise SchemaError("", 'a schema is {"attributes": {name: {"type": ...}}}')
        unasked = read.get("unasked", [])
        if not isinstance(unasked, list) or not all(isinstance(name, str) and name in attributes for name in unasked):
            raise SchemaError("", "unasked: expected a list of attributes of the schema")
        kinds = {name: _from_description(name, description) for name, description in attributes.items()}
        return cls(kinds, unasked=frozenset(unasked))

    @classmethod
    def from_arrow(cls, source: Any) -> Schema:
        """Return the schema of an Arrow table, record batch or schema; other columns are left out."""
        from tamis.model.arrow_types import schema_from_arrow

        return cls(schema_from_arrow(source))


def asked_by_filter(schema: Schema, names: Iterable[str]) -> Schema:
    """Return a schema after a filter has named attributes: their types are kept, and values must fit them."""
    left = schema.unasked.difference(names) if schema.unasked else schema.unasked
    return schema if len(left) == len(schema.unasked) else Schema(schema, unasked=left)


def shown_by_events(schema: Schema, types: Mapping[str, AttributeType]) -> Schema:
    """Return a schema with the types that events show of attributes that it does not know."""
    return Schema({**schema, **types}, unasked=schema.unasked | types.keys()) if types else schema


def _gives_way(known_type: AttributeType, kind: AttributeType, is_unasked: bool) -> bool:
    """Whether an attribute whose values are compared as text becomes a string that accepts any value."""
    return isinstance(kind, String) and kind.coerce and (isinstance(known_type, String) or is_unasked)


#: Types of values that have nothing inside.
_SIMPLE = frozenset({float, int, str, bool, type(None)})


def joined_strings(raw: Mapping[str, Any]) -> str | None:
    r"""Return the string values of an event in the order of their names, a line each; None when it has none.

    >>> joined_strings({"user": "root", "port": 22, "command": "ls -l"})
    'ls -l\nroot'
    """
    texts = [value for name, value in sorted(raw.items()) if isinstance(value, str) and not has_lone_surrogate(value)]
    return "\n".join(texts) if texts else None


def learn_from_event(schema: Schema, raw: Mapping[str, Any]) -> Schema:
    """Return the schema extended by the types of an event's values; what fits no type is left out.

    A full schema (`MAX_ATTRIBUTES`) learns no more names: an event never fails for the names it carries.
    """
    if not isinstance(raw, Mapping):
        raise EventError("", raw, "an event must be a mapping from attribute to value")
    types: dict[str, AttributeType] = {}
    for name, value in itertools.chain(raw.items(), leaves_of(raw)):
        if len(schema) + len(types) >= MAX_ATTRIBUTES:
            break
        if not isinstance(name, str) or not name or name[0] == COMPUTED or name in schema or _is_missing(value):
            continue
        kind = type_of_value(value)
        if kind is not None:
            types[name] = kind
    return shown_by_events(schema, types)


def presence_of(schema: Schema, raw: Mapping[str, Any]) -> dict[str, bool]:
    """Return True by name for each value of an event that the schema does not know.

    That is all ``IS NULL`` asks about a value of no known type.

    >>> from tamis.model.types import Number
    >>> presence_of(Schema({"a": Number()}), {"a": 1, "b": {"nested": "object"}, "c": None})
    {'b': True}
    """
    if not isinstance(raw, Mapping):
        raise EventError("", raw, "an event must be a mapping from attribute to value")
    unknown = (name for name, value in raw.items() if value is not None and name not in schema)
    return {name: True for name in unknown if isinstance(name, str) and not name.startswith(COMPUTED)}


def _is_missing(value: object) -> bool:
    return is_null(value) or (isinstance(value, float | np.floating) and bool(np.isnan(value)))


def _describe(kind: AttributeType) -> dict[str, object]:
    fields = {
        key: _describe(value) if isinstance(value, AttributeType) else value
        for key, value in vars(kind).items()
        if value is not None and value is not False
    }
    return {"type": kind.name, **fields}


def _from_description(name: str, description: object) -> AttributeType:
    type_name = description.get("type") if isinstance(description, dict) else None
    kind = find_type(type_name) if isinstance(type_name, str) else None
    if not isinstance(description, dict) or kind is None:
        raise SchemaError(name, f'expected {{"type": one of {", ".join(type_names())}}}, not {description!r}')
    fields = {
        key: _from_description(name, value) if isinstance(value, dict) else value
        for key, value in description.items()
        if key != "type"
    }
    try:
        return kind(**fields)
    except TypeError:
        raise SchemaError(name, f"a {type_name} does not take {', '.join(fields) or 'nothing'}") from None
    except SchemaError as error:
        raise SchemaError(name, error.problem) from None
