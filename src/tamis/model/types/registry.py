"""The attribute types by name: one line for each, and `register_type` for a type of a user's own."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from tamis.errors import SchemaError
from tamis.model import values
from tamis.model.types.base import AttributeType, Form
from tamis.model.types.boolean import Boolean
from tamis.model.types.many import Many
from tamis.model.types.number import Number
from tamis.model.types.region import Region
from tamis.model.types.small.date import Date
from tamis.model.types.small.decimal import Decimal
from tamis.model.types.small.ip import Ip
from tamis.model.types.small.mixed import Mixed
from tamis.model.types.small.uuid import Uuid
from tamis.model.types.small.version import Version
from tamis.model.types.string import String
from tamis.model.types.timestamp import Timestamp
from tamis.model.types.vector import Vector
from tamis.model.values import UnfitError

__all__ = [
    "find_type",
    "register_type",
    "type_modules",
    "type_names",
    "type_of_arrow",
    "type_of_cells",
    "type_of_value",
    "wire_value",
]

#: Where installed packages name types of their own: ``name = "module:Class"``.
ENTRY_POINTS = "tamis.types"

#: The types that come with tamis, in the order in which a value is offered to them.
_OWN: tuple[type[AttributeType], ...] = (
    Boolean,
    Number,
    String,
    Timestamp,
    Region,
    Vector,
    Date,
    Ip,
    Uuid,
    Version,
    Decimal,
    Mixed,
    Many,
)

_TYPES: dict[str, type[AttributeType]] = {kind.name: kind for kind in _OWN}
#: Types of users stand before those of tamis, so that they recognise their own values first.
_IN_ORDER: list[type[AttributeType]] = [*_OWN]

Registered = TypeVar("Registered", bound=type[AttributeType])


def register_type(kind: Registered) -> Registered:
    """Add an attribute type of your own; may decorate its class. Registering the same class again changes nothing.

    The type is found by ``kind.name`` in schemas that come as JSON, so a process that reads such a schema (a broker, a
    Spark worker, the command line) must know it, too: name it in the entry-point group ``tamis.types`` of an
    installed package, and it is registered there when its name is first met.
    """
    name = getattr(kind, "name", None)
    if not (isinstance(kind, type) and issubclass(kind, AttributeType)):
        raise SchemaError("", f"expected a class that extends tamis.AttributeType, not {kind!r}")
    if not isinstance(name, str) or not name.isidentifier():
        raise SchemaError("", f"{kind.__name__} needs a name such as name = 'version', not {name!r}")
    if not isinstance(getattr(kind, "form", None), Form):
        raise SchemaError("", f"{kind.__name__} needs the form of its canonical values, such as form = Form.NUMBER")
    registered = _TYPES.setdefault(name, kind)
    if registered is not kind:
        raise SchemaError("", f"type {name!r} exists already: {registered.__module__}.{registered.__qualname__}")
    if kind not in _IN_ORDER:
        _IN_ORDER.insert(0, kind)
    return kind


def find_type(name: str) -> type[AttributeType] | None:
    """Return the type of a name, also one that an installed package brings; None if there is none."""
    if name not in _TYPES:
        for entry in entry_points(group=ENTRY_POINTS, name=name):
            register_type(entry.load())
    return _TYPES.get(name)


def type_modules() -> tuple[str, ...]:
    """Return the modules of types that users registered: importing them registers the types in another process.

    A type of a script or a notebook has no module that another process could import; it is left out.
    """
    return tuple(sorted({kind.__module__ for kind in _IN_ORDER if kind not in _OWN} - {"__main__"}))


def type_names() -> tuple[str, ...]:
    """Return the names of all types that are registered."""
    return tuple(_TYPES)


def type_of_value(value: object) -> AttributeType | None:
    """Guess the type of an attribute from its first value; None when it fits no type.

    >>> type_of_value(4.5), type_of_value([0.1, 0.2]), type_of_value({"nested": "object"})
    (Number(lo=None, hi=None), Vector(n=2), None)
    """
    if isinstance(value, np.ndarray) and not value.ndim:
        try:
            value = values.single(value)
        except UnfitError:
            return None
    for kind in _IN_ORDER:
        guess = kind.of_value(value)
        if guess is not None:
            return guess
    return None


def type_of_arrow(field: pa.Field, kind: pa.DataType, column: Any) -> AttributeType | None:
    """Return the type that an Arrow column suggests, arguments as in `AttributeType.of_arrow`; None: no type."""
    for candidate in _IN_ORDER:
        guess = candidate.of_arrow(field, kind, column)
        if guess is not None:
            return guess
    return None


def type_of_cells(cells: pa.Array) -> AttributeType:
    """Return the type that all cells of a CSV column, without space around them, can be read as."""
    kinds: list[type[AttributeType]] = [*_IN_ORDER, String]
    return next(kind() for kind in kinds if kind.reads_cells(cells))


def wire_value(value: Any) -> Any:
    """Return a value of Python as MessagePack has it; TypeError when no type knows its class."""
    if isinstance(value, np.generic):
        return value.item()
    for kind in _IN_ORDER:
        if isinstance(value, kind.python_types):
            return kind.plain(value)
    raise TypeError(f"a {type(value).__name__} has no form on the wire")
