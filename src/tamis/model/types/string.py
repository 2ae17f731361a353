"""Strings, ordered by code point."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pat

from tamis.model import values
from tamis.model.language.nodes import Literal
from tamis.model.types.base import Form, ScalarType
from tamis.model.types.column import Column, Mask, column_of_each, is_text, python_values
from tamis.model.types.value_text import text_of
from tamis.model.value_set import Cut, ValueSet
from tamis.model.values import Value, is_null

__all__ = ["KEY_BYTES", "String", "coerced_column"]

#: Bytes of a string by which axes and curves know it.
KEY_BYTES = 6


@dataclass(frozen=True)
class String(ScalarType):
    """A string, ordered by code point.

    With ``coerce`` a value of any other type is read as its text (`text_of`): the number 4688 as ``'4688'``, true as
    ``'true'``. Otherwise such a value does not fit.
    """

    coerce: bool = False
    name: ClassVar[str] = "string"
    form: ClassVar[Form] = Form.TEXT
    python_types: ClassVar[tuple[type, ...]] = (str,)

    @property
    def arrow_kinds(self) -> frozenset[str] | None:  # type: ignore[override]  # it depends on a field
        """Text; any column if values of other types are read as their text."""
        return None if self.coerce else frozenset({"text"})

    @property
    def domain(self) -> tuple[float, float]:
        """The numbers that the first bytes of strings can be."""
        return 0.0, 2.0 ** (8 * KEY_BYTES)

    def canonical(self, value: object) -> str:
        """Return the string; lone surrogates are refused, or replaced with ``coerce``."""
        return text_of(value) if self.coerce else values.string(value)

    def wire_to_json(self, value: Any) -> Any:
        """Return the wire value; with ``coerce`` that is the published value."""
        return value if self.coerce else super().wire_to_json(value)

    @classmethod
    def of_arrow(cls, field: pa.Field, kind: pa.DataType, column: Any) -> Self | None:
        """Return the type for text in any layout."""
        return cls() if is_text(kind) else None

    @classmethod
    def reads_cells(cls, cells: pa.Array) -> bool:
        """Whether the cells are text, which they always are."""
        return True

    def from_arrow(self, name: str, array: pa.Array, present: Mask) -> Column | None:
        """Return large_string from text in any layout; with ``coerce`` from any scalar values."""
        if not is_text(array.type):
            return self._from_scalars(array, present) if self.coerce and not pat.is_nested(array.type) else None
        try:
            array.validate(full=True)
        except pa.ArrowInvalid:  # a row that is not UTF-8; the others are good
            return column_of_each(name, self, python_values(array))
        return Column(self, array.cast(pa.large_string()), present)

    def _from_scalars(self, array: pa.Array, present: Mask) -> Column | None:
        """Return the texts of scalar values, each different value read once; None: take them value by value."""
        try:
            coded = array.dictionary_encode()
        except pa.ArrowException:
            return None
        texts = [text_of(value) for value in python_values(coded.dictionary)]
        return Column(self, pa.array(texts, pa.large_string()).take(coded.indices), present)

    def from_numpy(self, name: str, data: npt.NDArray[Any]) -> Column | None:
        """Return the texts of numbers, with ``coerce``; what is masked or NaN is missing."""
        if not self.coerce or data.dtype.kind not in "fiub":
            return None
        missing = np.ma.getmaskarray(data)
        if data.dtype.kind == "f":
            missing = missing | np.isnan(np.ma.getdata(data))
        return self.from_arrow(name, pa.array(np.ma.getdata(data), mask=missing), ~missing)

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


def coerced_column(data: Sequence[Any]) -> Column:
    """Return the texts of all values of a list: none is bad."""
    texts = [
        value if type(value) is str and value.isascii() else None if is_null(value) else text_of(value)
        for value in data
    ]
    present = np.array([text is not None for text in texts], np.bool_)
    return Column(String(coerce=True), pa.array(texts, pa.large_string()), present)
