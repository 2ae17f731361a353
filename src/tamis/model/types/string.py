"""Strings, ordered by code point."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import pyarrow as pa

from tamis.model import values
from tamis.model.language.nodes import Literal
from tamis.model.types.base import Form, ScalarType
from tamis.model.types.column import Column, Mask, column_of_each, is_text, python_values
from tamis.model.value_set import Cut, ValueSet
from tamis.model.values import Value

__all__ = ["KEY_BYTES", "String"]

#: Bytes of a string by which axes and curves know it.
KEY_BYTES = 6


@dataclass(frozen=True)
class String(ScalarType):
    """A string, ordered by code point."""

    name: ClassVar[str] = "string"
    form: ClassVar[Form] = Form.TEXT
    python_types: ClassVar[tuple[type, ...]] = (str,)

    @property
    def domain(self) -> tuple[float, float]:
        """The numbers that the first bytes of strings can be."""
        return 0.0, 2.0 ** (8 * KEY_BYTES)

    def canonical(self, value: object) -> str:
        """Return the string; lone surrogates are refused."""
        return values.string(value)

    @classmethod
    def of_arrow(cls, field: pa.Field, kind: pa.DataType, column: Any) -> Self | None:
        """Return the type for text in any layout."""
        return cls() if is_text(kind) else None

    @classmethod
    def reads_cells(cls, cells: pa.Array) -> bool:
        """Whether the cells are text, which they always are."""
        return True

    def from_arrow(self, name: str, array: pa.Array, present: Mask) -> Column | None:
        """Return large_string from text in any layout."""
        if not is_text(array.type):
            return None
        try:
            array.validate(full=True)
        except pa.ArrowInvalid:  # a row that is not UTF-8; the others are good
            return column_of_each(name, self, python_values(array))
        return Column(self, array.cast(pa.large_string()), present)

    def before(self, value: Value) -> Cut | None:
        """Return the cut just before a string; nothing lies before the empty one."""
        return (value, 0) if value else None

    def after(self, value: Value) -> Cut:
        """Return the cut before the next string, which is the string and a NUL."""
        return (f"{value}\0", 0)

    def lower(self, cut: Cut | None) -> tuple[Literal, str] | None:
        """Return (value, ">=" or ">") for the lower end of an interval; None when it is open."""
        if cut is None:
            return None
        text: str = cut[0]
        return (text[:-1], ">") if text.endswith("\0") else (text, ">=")

    def upper(self, cut: Cut | None) -> tuple[Literal, str] | None:
        """Return (value, "<=" or "<") for the upper end of an interval; None when it is open."""
        if cut is None:
            return None
        text: str = cut[0]
        return (text[:-1], "<=") if text.endswith("\0") else (text, "<")

    def samples(self, allowed: ValueSet) -> Iterator[str]:
        """Yield short strings of each interval."""
        for start, stop in allowed.intervals():
            if start is not None:
                yield from (start[0] + "x", start[0]) if stop is None else (start[0], start[0] + "x")
                continue
            yield from ("x", "a", "A", "0") if stop is None or stop[0] > "x" else ("a", "A", "0")
            yield ""
