"""The six attribute types: what values they accept and how their values are ordered.

The scalar types (number, string, boolean, timestamp) place *cuts* around a value (see `value_set`); a
type whose values have a successor writes "just after v" as "just before the successor of v", and a cut
that nothing lies beyond is None. That makes subset and emptiness of sets of values exact.
"""

from __future__ import annotations

import zoneinfo
from abc import ABC, abstractmethod
from dataclasses import dataclass
from decimal import Decimal
from typing import ClassVar

import numpy as np
import shapely

from tamis.errors import SchemaError
from tamis.model import shapes, values
from tamis.model.value_set import Cut
from tamis.model.values import INT64_MAX, INT64_MIN, UnfitError, Value

__all__ = [
    "MAX_COORDINATES",
    "AttributeType",
    "Boolean",
    "Number",
    "Region",
    "ScalarType",
    "String",
    "Timestamp",
    "Vector",
    "type_of_value",
]

#: Coordinates of one vector.
MAX_COORDINATES = 65_536


class AttributeType(ABC):
    """What an attribute holds. Types are values: two equal declarations are equal."""

    #: The type's name in JSON and in messages.
    name: ClassVar[str]

    @abstractmethod
    def canonical(self, value: object) -> Value:
        """Return the one form of ``value`` that tamis compares, or raise `UnfitError`."""

    def agrees_with(self, other: AttributeType) -> bool:
        """Whether a value of one type is a value of the other (a domain is no difference)."""
        return type(self) is type(other)


class ScalarType(AttributeType):
    """A type whose values are ordered, so that ranges of them make sense."""

    def before(self, value: Value) -> Cut | None:
        """Return the cut just before a value; None when no value lies before it."""
        return (value, 0)

    def after(self, value: Value) -> Cut | None:
        """Return the cut just after a value; None when no value lies after it."""
        return (value, 1)


@dataclass(frozen=True)
class Number(ScalarType):
    """A number: int64, uint64, float64 or decimal, compared exactly.

    ``lo`` and ``hi`` are the domain, which curves and quantisers use; it never rejects a value. They may be
    given as any number and are kept as int or float.
    """

    lo: float | None = None
    hi: float | None = None
    name: ClassVar[str] = "number"

    def __post_init__(self) -> None:
        if (self.lo is None) != (self.hi is None):
            raise SchemaError("", "a domain needs both ends: Number(lo, hi)")
        if self.lo is not None and self.hi is not None:
            try:
                lo, hi = _end(self.lo), _end(self.hi)
            except UnfitError as error:
                raise SchemaError("", f"a domain of numbers: {error}") from None
            if not lo < hi:
                raise SchemaError("", f"an empty domain: {self.lo} is not below {self.hi}")
            object.__setattr__(self, "lo", lo)
            object.__setattr__(self, "hi", hi)

    def canonical(self, value: object) -> values.Number:
        """Return an int, a float or a Fraction; bool is refused."""
        return values.number(value)


@dataclass(frozen=True)
class String(ScalarType):
    """A string, ordered by code point."""

    name: ClassVar[str] = "string"

    def canonical(self, value: object) -> str:
        """Return the string; lone surrogates are refused."""
        return values.string(value)

    def before(self, value: Value) -> Cut | None:
        """Return the cut just before a string; nothing lies before the empty one."""
        return (value, 0) if value else None

    def after(self, value: Value) -> Cut:
        """Return the cut before the next string, which is the string and a NUL."""
        return (f"{value}\0", 0)


@dataclass(frozen=True)
class Boolean(ScalarType):
    """True or false; false comes first."""

    name: ClassVar[str] = "boolean"

    def canonical(self, value: object) -> bool:
        """Return the boolean; 0 and 1 are refused."""
        return values.boolean(value)

    def before(self, value: Value) -> Cut | None:
        """Return the only cut there is, the one between false and true."""
        return (True, 0) if value else None

    def after(self, value: Value) -> Cut | None:
        """Return the only cut there is, the one between false and true."""
        return None if value else (True, 0)


@dataclass(frozen=True)
class Timestamp(ScalarType):
    """A moment, int64 microseconds UTC. ``zone`` says where times without a zone are meant."""

    zone: str | None = None
    name: ClassVar[str] = "timestamp"

    def __post_init__(self) -> None:
        if self.zone is None:
            return
        try:
            zoneinfo.ZoneInfo(self.zone)
        except (ValueError, OSError, KeyError):
            raise SchemaError("", f"there is no time zone {self.zone!r}") from None

    def canonical(self, value: object) -> int:
        """Return microseconds since 1970 UTC."""
        return values.moment(value, self.zone)

    def before(self, value: Value) -> Cut | None:
        """Return the cut just before a microsecond."""
        return None if value == INT64_MIN else (value, 0)

    def after(self, value: Value) -> Cut | None:
        """Return the cut before the next microsecond."""
        assert isinstance(value, int)
        return None if value == INT64_MAX else (value + 1, 0)


@dataclass(frozen=True)
class Region(AttributeType):
    """A simple polygon or a point in the plane (longitude first)."""

    name: ClassVar[str] = "region"

    def canonical(self, value: object) -> shapes.RegionValue:
        """Return valid shapely geometry from WKT, WKB, GeoJSON, shapely or (x, y)."""
        return shapes.region(value)


@dataclass(frozen=True)
class Vector(AttributeType):
    """A point in n-dimensional space."""

    n: int
    name: ClassVar[str] = "vector"

    def __post_init__(self) -> None:
        if isinstance(self.n, bool) or not isinstance(self.n, int) or not 1 <= self.n <= MAX_COORDINATES:
            raise SchemaError("", f"a vector has 1 to {MAX_COORDINATES:,} coordinates, not {self.n!r}")

    def canonical(self, value: object) -> Value:
        """Return a read-only float64 array."""
        return values.vector(value, self.n)

    def agrees_with(self, other: AttributeType) -> bool:
        """Whether both are vectors of one length."""
        return self == other


def _end(value: object) -> int | float:
    """Return an end of a domain; a decimal between two float64 becomes the nearer one."""
    end = values.number(value)
    return end if isinstance(end, int | float) else float(end)


def type_of_value(value: object) -> AttributeType | None:
    """Guess the type of an attribute from its first value; None when it fits no type.

    >>> type_of_value(4.5), type_of_value([0.1, 0.2]), type_of_value({"nested": "object"})
    (Number(lo=None, hi=None), Vector(n=2), None)
    """
    value = _held(value)
    if isinstance(value, bool | np.bool_):
        return Boolean()
    if isinstance(value, int | float | Decimal | np.number):
        return Number()
    if isinstance(value, str):
        return String()
    if isinstance(value, np.datetime64) or hasattr(value, "tzinfo"):
        return Timestamp()
    if isinstance(value, shapely.Geometry) or (isinstance(value, dict) and "coordinates" in value):
        return Region()
    if isinstance(value, list | tuple | np.ndarray) and 1 <= len(value) <= MAX_COORDINATES:
        first = _held(value[0])
        is_number = isinstance(first, int | float | Decimal | np.number) and not isinstance(first, bool)
        return Vector(len(value)) if is_number else None
    return None


def _held(value: object) -> object:
    """Return what an array without dimensions holds (None when it is masked), any other value itself."""
    if not isinstance(value, np.ndarray) or value.ndim:
        return value
    try:
        return values.single(value)
    except UnfitError:
        return None
