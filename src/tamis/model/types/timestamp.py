"""Moments: microseconds since 1970 UTC."""

from __future__ import annotations

import datetime as dt
import re
import zoneinfo
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from tamis.errors import SchemaError, TamisError
from tamis.model import values
from tamis.model.language.literals import instant_text
from tamis.model.language.nodes import Instant, Literal
from tamis.model.types.base import DiscreteType
from tamis.model.types.column import Column, Mask
from tamis.model.value_set import ValueSet
from tamis.model.values import INT64_MAX, INT64_MIN, UnfitError, Value

__all__ = ["Timestamp"]

_MICROSECONDS = {"s": 1_000_000, "ms": 1_000, "us": 1}
#: Where the years of datetime begin and end, and from where on Arrow has no summer times (zoneinfo has).
_FIRST_YEAR, _AFTER_LAST_YEAR, _ARROW_KNOWS_ZONES_TO = (
    int(np.datetime64(year, "us").astype(np.int64)) for year in ("0001", "10000", "2037")
)
_DAY = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}")


@dataclass(frozen=True)
class Timestamp(DiscreteType):
    """A moment, int64 microseconds UTC. ``zone`` says where times without a zone are meant."""

    zone: str | None = None
    name: ClassVar[str] = "timestamp"
    python_types: ClassVar[tuple[type, ...]] = (dt.datetime, dt.time, np.datetime64, Instant)
    first: ClassVar[int] = INT64_MIN
    last: ClassVar[int] = INT64_MAX

    def __post_init__(self) -> None:
        if self.zone is None:
            return
        try:
            zoneinfo.ZoneInfo(self.zone)
        except (ValueError, OSError, KeyError):
            raise SchemaError("", f"there is no time zone {self.zone!r}") from None

    @property
    def arrow_kinds(self) -> frozenset[str] | None:  # type: ignore[override]  # it depends on a field
        """Moments as timestamps, text or microseconds; times without a zone only if the type has one."""
        kinds = frozenset({"timestamp", "text", "whole number"})
        return kinds if self.zone is None else kinds | {"timestamp without a zone"}

    def canonical(self, value: object) -> int:
        """Return microseconds since 1970 UTC."""
        return values.moment(value, self.zone)

    @classmethod
    def of_arrow(cls, field: pa.Field, kind: pa.DataType, column: Any) -> Self | None:
        """Return the type for Arrow's timestamps."""
        return cls() if pat.is_timestamp(kind) else None

    def from_arrow(self, name: str, array: pa.Array, present: Mask) -> Column | None:
        """Return int64 microseconds from timestamps of any unit, with or without a zone."""
        if not pat.is_timestamp(array.type):
            return None
        raw = np.asarray(array.cast(pa.int64()).fill_null(0))
        if array.type.unit == "ns":
            column = Column(self, raw // 1000, present)
        else:
            factor = _MICROSECONDS[array.type.unit]
            too_far = present & ((raw > INT64_MAX // factor) | (raw < -(2**63 // factor)))
            column = Column(self, np.where(too_far, 0, raw) * factor, present)
            column.reject(name, too_far, raw, "a timestamp outside int64 microseconds")
        if array.type.tz is None:
            self._place_in_zone(name, column)
        return column

    def _place_in_zone(self, name: str, column: Column) -> None:
        """Turn times without a zone into moments, as for single events: there is no zone beyond the year 9999."""
        shown = column.values.astype("datetime64[us]")
        if self.zone is None:
            column.reject(name, column.present, shown, "a time without a zone; declare Timestamp(zone=...)")
        outside = (column.values < _FIRST_YEAR) | (column.values >= _AFTER_LAST_YEAR)
        column.reject(name, column.present & outside, shown, "a time outside the years 1 to 9999")
        column.values = np.where(column.present, column.values, 0)
        if self.zone is None:
            return
        times = pa.array(column.values, pa.timestamp("us"), mask=~column.present)
        alone = column.present & (column.values >= _ARROW_KNOWS_ZONES_TO)
        try:
            placed = pc.assume_timezone(times, self.zone)
            column.values = np.array(placed.cast(pa.int64()).fill_null(0))
        except pa.ArrowInvalid:  # an ambiguous or skipped hour: let zoneinfo decide
            alone = column.present
        for row in np.flatnonzero(alone):
            column.take(name, int(row), times[row].as_py())

    def to_json(self, value: Any) -> Any:
        """Return RFC 3339 in UTC; a moment beyond the calendar stays a number of microseconds."""
        try:
            return instant_text(Instant(value)).replace(".000000Z", "Z")
        except TamisError:
            return value

    def shown(self, value: Any) -> str:
        """Return RFC 3339 in UTC with microseconds, if the calendar has the moment."""
        try:
            return instant_text(Instant(value))
        except TamisError:
            return f"{value} microseconds"

    def wire_to_json(self, value: Any) -> Any:
        """Return a timestamp as text; any other value of an older event is unchanged."""
        return self.to_json(value) if isinstance(value, int) and not isinstance(value, bool) else value

    def literal(self, value: Value) -> Literal:
        """Return the moment as a TIMESTAMP literal."""
        assert isinstance(value, int)
        return Instant(value)

    def from_literal(self, literal: Literal) -> Value:
        """Return the moment of a TIMESTAMP or DATE, or of a text that an event could hold."""
        if isinstance(literal, str) and _DAY.fullmatch(literal):
            raise UnfitError(f"it is a timestamp; a whole day is written DATE('{literal}')")
        return literal.microseconds if isinstance(literal, Instant) else super().from_literal(literal)

    def samples(self, allowed: ValueSet) -> Iterator[int]:
        """Yield moments that have a text, then any others."""
        ends = [*super().samples(allowed), _FIRST_YEAR, _AFTER_LAST_YEAR - 1]
        yield from (moment for moment in ends if _FIRST_YEAR <= moment < _AFTER_LAST_YEAR and moment in allowed)
        yield from ends
