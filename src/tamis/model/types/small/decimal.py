"""Decimals with a scale, such as amounts of money: whole numbers of the smallest unit."""

from __future__ import annotations

import decimal
from dataclasses import dataclass
from typing import Any, ClassVar

from tamis.errors import SchemaError, shorten
from tamis.model.language.nodes import Literal
from tamis.model.types.base import DiscreteType
from tamis.model.values import UnfitError, Value

__all__ = ["Decimal"]

_MOST = 10**38
#: Digits of which every decimal is the shortest text of a float64.
_DIGITS_OF_FLOAT = 15


@dataclass(frozen=True)
class Decimal(DiscreteType):
    """A decimal number with ``scale`` digits after the point and up to 38 in all; more digits are refused."""

    scale: int = 2
    name: ClassVar[str] = "decimal"
    arrow_kinds: ClassVar[frozenset[str] | None] = frozenset({"whole number", "number", "text"})
    first: ClassVar[int] = -_MOST
    last: ClassVar[int] = _MOST

    def __post_init__(self) -> None:
        if isinstance(self.scale, bool) or not isinstance(self.scale, int) or not 0 <= self.scale <= 38:
            raise SchemaError("", f"a scale is a whole number from 0 to 38, not {self.scale!r}")

    def canonical(self, value: object) -> int:
        """Return the number of smallest units; float64 counts as the decimal it prints as."""
        if isinstance(value, bool) or not isinstance(value, int | float | str | decimal.Decimal):
            raise UnfitError(f"expected a decimal such as 9.95, not {shorten(value)}")
        try:
            exact = decimal.Decimal(repr(value) if isinstance(value, float) else value)
        except (decimal.InvalidOperation, ValueError):
            raise UnfitError(f"expected a decimal such as 9.95, not {shorten(value)}") from None
        if not exact.is_finite() or exact.adjusted() > 38:
            raise UnfitError("a decimal of more than 38 digits")
        units = exact.scaleb(self.scale, _CONTEXT)
        if units != units.to_integral_value():
            raise UnfitError(f"more than {self.scale} digits after the point")
        if abs(units) > _MOST:
            raise UnfitError("a decimal of more than 38 digits")
        return int(units)

    def to_json(self, value: Any) -> Any:
        """Return a number where float64 has it, otherwise text."""
        exact = decimal.Decimal(value).scaleb(-self.scale, _CONTEXT)
        if len(exact.as_tuple().digits) > _DIGITS_OF_FLOAT:
            return str(exact)
        return int(exact) if exact == exact.to_integral_value() else float(exact)

    def to_wire(self, value: Any) -> Any:
        """Return the decimal as text."""
        return str(decimal.Decimal(value).scaleb(-self.scale, _CONTEXT))

    def literal(self, value: Value) -> Literal:
        """Return a number where float64 has it, otherwise text."""
        plain: int | float | str = self.to_json(value)
        return plain


_CONTEXT = decimal.Context(prec=100)
