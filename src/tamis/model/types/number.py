"""Numbers: int64, uint64, float64 and decimals, compared exactly."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from tamis.errors import SchemaError, shorten
from tamis.model import values
from tamis.model.language.nodes import Literal
from tamis.model.types.base import Form, ScalarType
from tamis.model.types.column import Column, Mask
from tamis.model.types.number_samples import numbers_between
from tamis.model.value_set import ValueSet
from tamis.model.values import UnfitError

__all__ = ["Number"]

_NOT_FINITE = "NaN and infinity are not numbers; leave a missing value out"
_FRACTION = re.compile(r"-?\d{1,400}/[1-9]\d{0,400}", re.ASCII)
_PLAIN_WHOLE = r"^-?(0|[1-9][0-9]{0,18})$"
_PLAIN_NUMBER = r"^-?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?$"
_WHOLE = re.compile(r"[+-]?\d{1,400}", re.ASCII)
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


@dataclass(frozen=True)
class Number(ScalarType):
    """A number: int64, uint64, float64 or decimal, compared exactly.

    ``lo`` and ``hi`` are the domain, which curves and quantisers use; it never rejects a value. They may be
    given as any number and are kept as int or float.
    """

    lo: float | None = None
    hi: float | None = None
    name: ClassVar[str] = "number"
    form: ClassVar[Form] = Form.NUMBER
    python_types: ClassVar[tuple[type, ...]] = (int, float, Decimal, np.number)
    arrow_type: ClassVar[pa.DataType] = pa.float64()
    arrow_kinds: ClassVar[frozenset[str] | None] = frozenset({"whole number", "number"})

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

    @property
    def domain(self) -> tuple[float, float] | None:
        """The two ends, if they were declared."""
        return None if self.lo is None or self.hi is None else (float(self.lo), float(self.hi))

    def canonical(self, value: object) -> values.Number:
        """Return an int, a float or a Fraction; bool is refused."""
        return values.number(value)

    def from_literal(self, literal: Literal) -> values.Number:
        """Return the number; a fraction is one that a division of literals gives."""
        if isinstance(literal, Fraction):
            return literal
        value = super().from_literal(literal)
        assert isinstance(value, int | float | Fraction)
        return value

    @classmethod
    def of_arrow(cls, field: pa.Field, kind: pa.DataType, column: Any) -> Self | None:
        """Return the type for integers, floats and decimals."""
        return cls() if pat.is_integer(kind) or pat.is_floating(kind) or pat.is_decimal(kind) else None

    @classmethod
    def reads_cells(cls, cells: pa.Array) -> bool:
        """Whether all cells are numbers; digits with leading zeros (``00123``) are a code and not a number."""
        return _all(cells, _PLAIN_NUMBER)

    def from_arrow(self, name: str, array: pa.Array, present: Mask) -> Column | None:
        """Return int64, uint64 or float64 from any integers or floats."""
        if pat.is_floating(array.type):
            if array.type == pa.float64() and not array.null_count:  # the usual case: nothing to convert
                return self._floats(name, np.asarray(array), present)
            return self._floats(name, np.asarray(array.cast(pa.float64()).fill_null(0.0)), present)
        if not pat.is_integer(array.type):
            return None
        wide = pa.uint64() if pat.is_uint64(array.type) else pa.int64()
        return Column(self, np.asarray(array.cast(wide).fill_null(0)), present)

    def from_numpy(self, name: str, data: npt.NDArray[Any]) -> Column | None:
        """Return int64, uint64 or float64; what is masked or NaN is missing."""
        if isinstance(data, np.ma.MaskedArray) and data.dtype.kind in "fiu":
            column = self.from_numpy(name, data.filled(0))
            assert column is not None
            column.present = column.present & ~np.ma.getmaskarray(data)
            return column
        if data.dtype.kind == "f":
            wide = data.astype(np.float64)
            return self._floats(name, wide, ~np.isnan(wide))
        if data.dtype.kind not in "iu":
            return None
        wider = np.uint64 if data.dtype == np.uint64 else np.int64
        return Column(self, data.astype(wider), np.ones(len(data), dtype=bool))

    def _floats(self, name: str, numbers: npt.NDArray[np.float64], present: Mask) -> Column:
        column = Column(self, numbers + 0.0, present)  # -0.0 becomes 0.0
        finite = np.isfinite(numbers)
        if not (finite.all() and present.all()):
            column.reject(name, present & ~finite, numbers, _NOT_FINITE)
            column.values[~column.present] = 0.0
        return column

    def to_json(self, value: Any) -> Any:
        """Return a long decimal as a string, any other number as it is."""
        return str(value) if isinstance(value, Fraction) else value

    def shown(self, value: Any) -> str:
        """Return the number."""
        return str(value) if isinstance(value, Fraction) else shorten(value)

    def to_wire(self, value: Any) -> Any:
        """Return a long decimal as ``{"/": "a/b"}``, any other number as it is."""
        return {"/": str(value)} if isinstance(value, Fraction) else value

    def from_wire(self, value: Any) -> values.Number:
        """Return the number; a long decimal is what `to_wire` made of it."""
        if type(value) is dict and value.keys() == {"/"}:
            text = value["/"]
            if isinstance(text, str) and _FRACTION.fullmatch(text):
                return Fraction(text)
        return values.number(value)

    def wire_to_json(self, value: Any) -> Any:
        """Return a long decimal as text, any other number as it is."""
        return value["/"] if isinstance(value, dict) and value.keys() == {"/"} else value

    def literal(self, value: Any) -> int | float | Fraction:
        """Return the number; a long decimal is written as a division."""
        return value  # type: ignore[no-any-return]

    def from_cell(self, text: str) -> object:
        """Return a number, None for an empty cell, the text itself for anything else.

        >>> Number().from_cell(" +4.50"), Number().from_cell("1e999"), Number().from_cell(" ")
        (4.5, '1e999', None)
        """
        trimmed = text.strip()
        if not trimmed:
            return None
        if _WHOLE.fullmatch(trimmed):
            return int(trimmed)
        value = float(trimmed) if _NUMBER.fullmatch(trimmed) else math.inf
        return value if math.isfinite(value) else text

    def from_cells(self, texts: pa.Array) -> Any:
        """Return int64 or float64 where all cells fit, a list otherwise."""
        trimmed = pc.utf8_trim_whitespace(texts)
        try:
            if _all(trimmed, _PLAIN_WHOLE):
                return trimmed.cast(pa.int64())
            # A float64 holds every whole number of fifteen digits.
            if _all(trimmed, _PLAIN_NUMBER) and not _any(trimmed, r"[0-9]{16}"):
                return _finite(trimmed.cast(pa.float64()))
        except pa.ArrowInvalid:
            pass  # a number beyond int64: read it alone
        return [None if text is None else self.from_cell(text) for text in texts.to_pylist()]

    def samples(self, allowed: ValueSet) -> Iterator[Any]:
        """Yield round numbers inside each interval, then its ends."""
        for start, stop in allowed.intervals():
            yield from numbers_between(start, stop)


def _end(value: object) -> int | float:
    """Return an end of a domain; a decimal between two float64 becomes the nearer one."""
    end = values.number(value)
    return end if isinstance(end, int | float) else float(end)


def _finite(numbers: pa.Array) -> pa.Array:
    if pc.any(pc.is_inf(numbers)).as_py():
        raise pa.ArrowInvalid("beyond the range of numbers")
    return numbers


def _all(texts: pa.Array, pattern: str) -> bool:
    return pc.all(pc.match_substring_regex(texts, pattern)).as_py() is not False


def _any(texts: pa.Array, pattern: str) -> bool:
    return pc.any(pc.match_substring_regex(texts, pattern)).as_py() is True
