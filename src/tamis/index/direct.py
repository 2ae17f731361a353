"""The fast path for single events: from plain values to one kernel call, without creating a canonical event.

A `DirectReader` is made for one schema and the axes of one store. It takes events whose attributes are all plain:
numbers on NUMBER axes, strings on CODE axes, and attributes of these types that no filter names. Everything else is
left to the general path, which also raises the errors: a value of another type, NaN, a string that is not valid text,
an attribute that the schema lacks, an integer that float64 cannot represent.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from operator import itemgetter
from types import NoneType
from typing import Any, Final

import msgspec

from tamis.index.packed.axes import AttributePart
from tamis.index.packed.boxes.box_index import match_values
from tamis.index.packed.store import PackedStore
from tamis.model.schema import ALL_STRINGS, MAX_ATTRIBUTES, Schema
from tamis.model.types import Number, String

__all__ = ["DirectReader", "DirectRoads", "find_direct"]

#: Integers up to this size are float64 numbers.
_EXACT: Final = 1 << 53

#: The part of an attribute that an axis shows, by the type of the attribute.
_PARTS: Final = {Number: AttributePart.NUMBER, String: AttributePart.CODE}


def find_direct(store: PackedStore, schema: Schema) -> DirectReader | None:
    """Return the fast path for a schema; None if its attributes, or the axes of the filters, are not all plain."""
    if ALL_STRINGS in schema or schema.paths or not 0 < len(schema) <= MAX_ATTRIBUTES:
        return None
    for kind in schema.values():
        if type(kind) not in _PARTS or (isinstance(kind, String) and kind.coerce):
            return None
    if not all(map(_is_plain_key, schema)):
        return None
    axes = [axis for _, axis in store.axes]
    for axis in axes:
        if axis.attribute not in schema or _PARTS[type(schema[axis.attribute])] is not axis.part:
            return None
    named = [axis.attribute for axis in axes]
    return DirectReader(store, schema, [*named, *(name for name in schema if name not in named)], len(axes))


class DirectRoads:
    """Finds the fast path of a store, and caches the last one."""

    def __init__(self, store: PackedStore) -> None:
        self._store = store
        #: The schema and the number of axes of the last reader, and the reader.
        self._last: tuple[Schema | None, int, DirectReader | None] = (None, 0, None)

    def find(self, schema: Schema) -> DirectReader | None:
        """Return the fast path for single events of a schema; None if there is none now."""
        if not self._store.is_plain:
            return None
        last_schema, n_axes, reader = self._last
        if last_schema is not schema or n_axes != len(self._store.axes):
            n_axes = len(self._store.axes)
            reader = find_direct(self._store, schema)
            self._last = schema, n_axes, reader
        return reader


class DirectReader:
    """Matches events of one schema against a store of plain boxes; ``names`` are those of its axes, then the rest."""

    def __init__(self, store: PackedStore, schema: Schema, names: Sequence[str], n_axes: int) -> None:
        self.schema = schema
        self._store = store
        self._names = names
        self.n_axes = n_axes
        self._types = tuple(float if isinstance(schema[name], Number) else str for name in names)
        #: Where strings are, with the codes of those that filters name.
        self._texts = [
            (i, store.axes.codes.setdefault(name, {}) if i < n_axes else {})
            for i, name in enumerate(names)
            if isinstance(schema[name], String)
        ]
        self._values_of = itemgetter(*names) if len(names) > 1 else lambda event: (event[names[0]],)
        self._decode = msgspec.json.Decoder(_struct(names, self._types)).decode

    def match(self, event: Mapping[str, Any]) -> list[int] | None:
        """Return the rows that match a dict, ascending; None if it needs the general path."""
        if type(event) is not dict:
            return None
        try:
            values = self._values_of(event)
        except KeyError:
            values = tuple(map(event.get, self._names))
        types = tuple(map(type, values))  # an array as a value is not compared with None
        if len(event) + types.count(NoneType) != len(values):
            return None
        numbers = self._numbers(values, types)
        return None if numbers is None else self._match(numbers)

    def match_json(self, data: bytes) -> list[int] | None:
        """Return the rows that match an event in JSON, ascending; None if it needs the general path.

        The reader keeps the last of two equal keys and passes over unknown ones. An object has a colon for each key,
        so one that has as many known values as there are colons has neither.
        """
        try:
            values = msgspec.structs.astuple(self._decode(data))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):  # the general path raises the error
            return None
        types = tuple(map(type, values))
        if data.count(b":") + types.count(NoneType) != len(values):
            return None
        numbers = self._numbers(values, types)
        return None if numbers is None else self._match(numbers)

    def _match(self, numbers: Sequence[float]) -> list[int] | None:
        snapshot = self._store.plain.snapshot
        if snapshot.n_axes != self.n_axes:
            return None
        return match_values(self._store.plain, numbers, snapshot)

    def _numbers(self, values: Sequence[Any], types: tuple[type, ...]) -> Sequence[float] | None:
        """Return the values on the axes, NaN where one is missing; None when a value is not plain."""
        if types != self._types:
            plain = self._converted(values)
        elif self._texts:
            plain = list(values)
        elif math.isfinite(sum(values)):
            return values if len(values) == self.n_axes else values[: self.n_axes]
        else:
            return None
        if plain is None:
            return None
        for i, codes in self._texts:
            text = plain[i]
            if type(text) is str:
                code = codes.get(text)
                if code is None and not text.isascii():  # it may hold what is not text
                    return None
                plain[i] = -1.0 if code is None else float(code)
        is_sound = math.isfinite(sum(value for value in plain if value is not None))
        return [math.nan if value is None else value for value in plain[: self.n_axes]] if is_sound else None

    def _converted(self, values: Sequence[Any]) -> list[Any] | None:
        """Return the values with integers as floats; None when one is of another type or beyond float64."""
        converted: list[Any] = []
        for value, kind in zip(values, self._types, strict=True):
            if type(value) is int and kind is float and -_EXACT <= value <= _EXACT:
                converted.append(float(value))
            elif type(value) is kind or value is None:
                converted.append(value)
            else:
                return None
        return converted


def _is_plain_key(name: str) -> bool:
    """Return whether JSON writes a name as it is: msgspec takes no other names for the fields of a struct."""
    try:
        return msgspec.json.encode(name)[1:-1].decode() == name
    except UnicodeEncodeError:
        return False


def _struct(names: Sequence[str], types: Sequence[type]) -> type[msgspec.Struct]:
    """Return the struct type for decoding events: the names in order, None where a value is missing."""
    fields = [(f"value{i}", int | float | None if kind is float else str | None, None) for i, kind in enumerate(types)]
    renamed = {field[0]: name for field, name in zip(fields, names, strict=True)}
    return msgspec.defstruct("PlainEvent", fields, rename=renamed)
