"""The base classes of attribute types: everything that a type defines about its values.

The canonical values of a type have one of five *forms*, and indexes, curves and proofs ask for the form only:

========= ==================================================================================
NUMBER    bool, int, float or Fraction, ordered as numbers
TEXT      str, ordered by code point
REGION    shapely geometry
VECTOR    float64 arrays
MANY      tuples of numbers or of text
========= ==================================================================================

So a type of your own chooses the form in which its values keep their order (an IP address is a whole number), says how
values are read and written, and every structure of tamis holds it. A method that is not overridden does what its
docstring says; `canonical`, `to_json` and `literal` are enough for most scalar types.

A scalar type places *cuts* around a value (see `value_set`). A type whose values have a successor writes "just after v"
as "just before the successor of v", and a cut that nothing lies beyond is None. That makes subset and emptiness of sets
of values exact.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tamis.errors import SubscriptionError, shorten
from tamis.model.language.nodes import Instant, Literal
from tamis.model.types.column import Column, Mask
from tamis.model.value_set import Cut, ValueSet
from tamis.model.values import UnfitError, Value

__all__ = ["AttributeType", "DiscreteType", "Form", "ScalarType"]


class Form(enum.Enum):
    """The form of a type's canonical values (see the module's text)."""

    NUMBER = "number"
    TEXT = "text"
    REGION = "region"
    VECTOR = "vector"
    MANY = "many"


class AttributeType(ABC):
    """The type of an attribute. Types compare by value, and their fields are plain JSON."""

    #: The type's name in JSON and in messages.
    name: ClassVar[str]
    #: The form of its canonical values.
    form: ClassVar[Form]
    #: The classes of Python values that are of this type and no other; `of_value` and clients use them.
    python_types: ClassVar[tuple[type, ...]] = ()
    #: The Arrow type in which text formats (JSON, CSV) hold a value.
    arrow_type: ClassVar[pa.DataType] = pa.string()
    #: The kinds of Arrow columns (`model.arrow_types.column_kind`) in which a value of this type can be; None: any. A
    #: class that does not name them itself has None, whatever it inherits.
    arrow_kinds: ClassVar[frozenset[str] | None] = None

    @abstractmethod
    def canonical(self, value: object) -> Value:
        """Return the one form of ``value`` that tamis compares, or raise `UnfitError`."""

    @classmethod
    def of_value(cls, value: object) -> Self | None:
        """Return the type of an attribute whose first value is this one; None when it is not of this type."""
        return cls() if cls.python_types and isinstance(value, cls.python_types) else None

    @classmethod
    def of_arrow(cls, field: pa.Field, kind: pa.DataType, column: Any) -> Self | None:
        """Return the type that an Arrow column suggests; None when it suggests another.

        ``kind`` is the type of its values (of a dictionary its value type); ``column`` is None when only a schema is
        there.
        """
        return None

    @classmethod
    def reads_cells(cls, cells: pa.Array) -> bool:
        """Whether all cells of a CSV column, without space around them, can only be meant as this type."""
        return False

    @property
    def words(self) -> str:
        """The type in a sentence: "a number"."""
        return f"a {self.name}"

    @property
    def element(self) -> AttributeType:
        """The type of a single value: of the elements, if the attribute is repeated, else the type itself."""
        return self

    @property
    def domain(self) -> tuple[float, float] | None:
        """The least and greatest value that curves divide into cells; None: not known."""
        return None

    def agrees_with(self, other: AttributeType) -> bool:
        """Whether a value of one type is a value of the other (a domain makes no difference)."""
        return type(self) is type(other)

    def from_arrow(self, name: str, array: pa.Array, present: Mask) -> Column | None:
        """Return the column of an Arrow array at once; None: take it value by value."""
        return None

    def from_numpy(self, name: str, data: npt.NDArray[Any]) -> Column | None:
        """Return the column of a NumPy array at once; None: take it value by value."""
        return None

    def pack(self, values: npt.NDArray[Any]) -> Any:
        """Return canonical values (None where there is none) as the array in which a column holds them."""
        return pa.array(values.tolist(), pa.large_string()) if self.form is Form.TEXT else values

    def to_json(self, value: Any) -> Any:
        """Return a canonical value as JSON has it, and as `canonical` reads it again."""
        return value

    def shown(self, value: Any) -> str:
        """Return a canonical value as explanations show it."""
        return shorten(self.to_json(value))

    def to_wire(self, value: Any) -> Any:
        """Return a canonical value as MessagePack has it."""
        return value

    def from_wire(self, value: Any) -> Value:
        """Return the canonical value of what `to_wire` or a client wrote, or raise `UnfitError`."""
        return self.canonical(value)

    def wire_to_json(self, value: Any) -> Any:
        """Return what `to_wire` wrote as JSON has it."""
        return self.to_json(self.from_wire(value))

    @classmethod
    def plain(cls, value: Any) -> Any:
        """Return a value of ``python_types`` as MessagePack has it, for a client that knows no schema."""
        return str(value)

    def from_cell(self, text: str) -> object:
        """Return the value of a CSV cell for `canonical`; the text itself when it does not fit."""
        return text

    def from_cells(self, texts: pa.Array) -> Any:
        """Return the cells of a CSV column as an Arrow array or a list."""
        return texts

    def samples(self, allowed: ValueSet) -> Iterator[Any]:
        """Yield canonical values that may lie in a set, the most readable first; a number may be a decimal."""
        return iter(())


class ScalarType(AttributeType):
    """A type whose values are ordered, so that ranges of them make sense."""

    def before(self, value: Value) -> Cut | None:
        """Return the cut just before a value; None when no value lies before it."""
        return (value, 0)

    def after(self, value: Value) -> Cut | None:
        """Return the cut just after a value; None when no value lies after it."""
        return (value, 1)

    def literal(self, value: Value) -> Literal:
        """Return the literal of the language that means a value, or raise `SubscriptionError`."""
        plain = self.to_json(value)
        if isinstance(plain, bool | int | float | str):
            return plain
        raise SubscriptionError(f"{shorten(value)} cannot be written as a literal")

    def from_literal(self, literal: Literal) -> Value:
        """Return the value that a literal of the language means, or raise `UnfitError`."""
        if isinstance(literal, Instant):
            raise UnfitError(f"it is {self.words}, and a timestamp is compared with it")
        try:
            return self.canonical(literal)
        except UnfitError as error:
            raise UnfitError(f"it is {self.words}, and {shorten(literal)} does not fit: {error}") from None

    def lower(self, cut: Cut | None) -> tuple[Literal, str] | None:
        """Return (value, ">=" or ">") for the lower end of an interval; None when it is open."""
        return None if cut is None else (self.literal(cut[0]), ">" if cut[1] else ">=")

    def upper(self, cut: Cut | None) -> tuple[Literal, str] | None:
        """Return (value, "<=" or "<") for the upper end of an interval; None when it is open."""
        return None if cut is None else (self.literal(cut[0]), "<=" if cut[1] else "<")


class DiscreteType(ScalarType):
    """A scalar type whose canonical values are the whole numbers from ``first`` to ``last``."""

    form = Form.NUMBER
    first: ClassVar[int]
    last: ClassVar[int]

    def before(self, value: Value) -> Cut | None:
        """Return the cut just before a value; nothing lies before the first."""
        return None if value == self.first else (value, 0)

    def after(self, value: Value) -> Cut | None:
        """Return the cut before the next value; nothing lies after the last."""
        assert isinstance(value, int)
        return None if value == self.last else (value + 1, 0)

    def upper(self, cut: Cut | None) -> tuple[Literal, str] | None:
        """Return (value, "<=") for the upper end of an interval, which is the last value inside."""
        return None if cut is None else (self.literal(cut[0] - 1), "<=")

    def pack(self, values: npt.NDArray[Any]) -> Any:
        """Return int64 where all values fit, Python's integers otherwise."""
        if self.first < -(2**63) or self.last >= 2**63:
            return values
        return np.array([0 if value is None else value for value in values], np.int64)

    def samples(self, allowed: ValueSet) -> Iterator[int]:
        """Yield the values at the ends of each interval, then the first and the last value of all."""
        for start, stop in allowed.intervals():
            if start is not None:
                yield start[0] + start[1]
            if stop is not None:
                yield stop[0] - 1 + stop[1]
        yield from (0, self.first, self.last)
