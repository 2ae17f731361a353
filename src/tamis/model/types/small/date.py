"""Dates: days since 1970-01-01, without a time and without a zone."""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from tamis.model.language.nodes import Instant, Literal
from tamis.model.types.base import DiscreteType
from tamis.model.types.column import Column, Mask
from tamis.model.values import UnfitError, Value

__all__ = ["Date"]

_EPOCH = dt.date(1970, 1, 1)
_DAY = 86_400_000_000
_TEXT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


@dataclass(frozen=True)
class Date(DiscreteType):
    """A day of the calendar, from the year 1 to 9999; compared with ``DATE('2026-01-31')``."""

    name: ClassVar[str] = "date"
    python_types: ClassVar[tuple[type, ...]] = (dt.date,)
    arrow_kinds: ClassVar[frozenset[str] | None] = frozenset({"whole number", "text", "date"})
    first: ClassVar[int] = (dt.date.min - _EPOCH).days
    last: ClassVar[int] = (dt.date.max - _EPOCH).days

    def canonical(self, value: object) -> int:
        """Return the days since 1970-01-01 of a date or of text such as 2026-01-31."""
        if isinstance(value, np.datetime64) and np.datetime_data(value.dtype)[0] == "D" and not np.isnat(value):
            value = value.item()
        if isinstance(value, str) and _TEXT.fullmatch(value):
            try:
                value = dt.date.fromisoformat(value)
            except ValueError as error:
                raise UnfitError(f"there is no such date: {error}") from None
        if isinstance(value, int) and not isinstance(value, bool) and self.first <= value <= self.last:
            return value
        if not isinstance(value, dt.date) or isinstance(value, dt.datetime):
            raise UnfitError("expected a date such as 2026-01-31")
        return (value - _EPOCH).days

    @classmethod
    def of_value(cls, value: object) -> Self | None:
        """Return the type for dates without a time."""
        return cls() if isinstance(value, dt.date) and not isinstance(value, dt.datetime) else None

    @classmethod
    def of_arrow(cls, field: pa.Field, kind: pa.DataType, column: Any) -> Self | None:
        """Return the type for Arrow's dates."""
        return cls() if pat.is_date(kind) else None

    def from_arrow(self, name: str, array: pa.Array, present: Mask) -> Column | None:
        """Return dates as days; those beyond the calendar are refused."""
        if not pat.is_date(array.type):
            return None
        days = np.asarray(array.cast(pa.date32()).cast(pa.int32()).fill_null(0)).astype(np.int64)
        column = Column(self, days, present)
        column.reject(name, present & ((days < self.first) | (days > self.last)), days, "a date beyond the year 9999")
        return column

    def to_json(self, value: Any) -> Any:
        """Return text such as 2026-01-31."""
        return (_EPOCH + dt.timedelta(days=value)).isoformat()

    def literal(self, value: Value) -> Literal:
        """Return the day as a literal at midnight."""
        assert isinstance(value, int)
        return Instant(value * _DAY)

    def from_literal(self, literal: Literal) -> Value:
        """Return the day of a DATE, of the last microsecond of a day, or of text as events have it."""
        if not isinstance(literal, Instant):
            return super().from_literal(literal)
        day, rest = divmod(literal.microseconds, _DAY)
        if rest not in (0, _DAY - 1):
            raise UnfitError("a date cannot be compared with a time of day; write DATE('2026-01-31')")
        return day
