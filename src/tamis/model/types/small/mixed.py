"""Values of several types in one set: what `Many(Mixed())` holds."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from tamis.model import values
from tamis.model.language.literals import instant_text
from tamis.model.language.nodes import Instant, Literal
from tamis.model.types.base import Form, ScalarType
from tamis.model.types.number import Number
from tamis.model.types.string import String
from tamis.model.value_set import Cut, ValueSet
from tamis.model.values import UnfitError, Value, words_for

__all__ = ["Mixed"]

_MOMENT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[Tt ][0-9:.]++(?:[Zz]|[-+][0-9]{2}:[0-9]{2}))?")


@dataclass(frozen=True)
class Mixed(ScalarType):
    """A boolean, a number, a string or a moment; values of different types are different. Only equality can be tested.

    The canonical value is the kind in one letter and the value as text: ``b1``, ``n1``, ``n0.5``, ``sIBM``, ``t0``.
    JSON has no moments: a string that is a date or a timestamp with a zone is that moment.
    """

    name: ClassVar[str] = "mixed"
    form: ClassVar[Form] = Form.TEXT
    arrow_kinds: ClassVar[frozenset[str] | None] = frozenset({"boolean", "whole number", "number", "text", "timestamp"})

    def canonical(self, value: object) -> str:
        """Return the kind and the value as text.

        >>> Mixed().canonical(True), Mixed().canonical(1.0), Mixed().canonical("1970-01-01")
        ('b1', 'n1', 't0')
        """
        if isinstance(value, str):
            text = values.string(value)
            if _MOMENT.fullmatch(text) is None:
                return f"s{text}"
            try:
                return f"t{values.moment(f'{text}T00:00:00Z' if len(text) == 10 else text)}"
            except UnfitError:  # it looks like a moment, but there is no such day or time
                return f"s{text}"
        for letter, read in (("b", values.boolean), ("n", values.number), ("t", values.moment)):
            try:
                return f"{letter}{_text(read(value))}"
            except UnfitError:
                continue
        raise UnfitError(f"expected a boolean, a number, a string or a timestamp, not {words_for(value)}")

    def to_json(self, value: Any) -> Any:
        """Return the value of which this is the text; a long decimal stays a text."""
        return self.wire_to_json(self.to_wire(value))

    def to_wire(self, value: Any) -> Any:
        """Return the value of which this is the text; a moment is RFC 3339, a long decimal as `Number` writes it.

        >>> [Mixed().to_wire(value) for value in ("b1", "n1", "n0.5", "sb1", "t0")]
        [True, 1, 0.5, 'b1', '1970-01-01T00:00:00.000000Z']
        """
        kind, text = str(value)[:1], str(value)[1:]
        if kind == "n":
            return Number().to_wire(_number(text))
        return instant_text(Instant(int(text))) if kind == "t" else self.literal(value)

    def from_wire(self, value: Any) -> Value:
        """Return the kind and the value as text; a long decimal is what `to_wire` made of it."""
        return f"n{_text(Number().from_wire(value))}" if isinstance(value, dict) else self.canonical(value)

    def wire_to_json(self, value: Any) -> Any:
        """Return a long decimal as text, any other value as it is."""
        return Number().wire_to_json(value)

    def literal(self, value: Value) -> Literal:
        """Return the literal that means a value."""
        kind, text = str(value)[:1], str(value)[1:]
        if kind in ("b", "s"):
            return text == "1" if kind == "b" else text
        if kind == "t":
            return Instant(int(text))
        number = _number(text)
        return float(number) if isinstance(number, Fraction) else number

    def from_literal(self, literal: Literal) -> Value:
        """Return the value that a literal means; a moment is one."""
        return f"t{literal.microseconds}" if isinstance(literal, Instant) else self.canonical(literal)

    def before(self, value: Value) -> Cut | None:
        """Return the cut just before a value, in the order of the texts."""
        return String().before(value)

    def after(self, value: Value) -> Cut | None:
        """Return the cut just after a value, in the order of the texts."""
        return String().after(value)

    def lower(self, cut: Cut | None) -> tuple[Literal, str] | None:
        """Return (value, ">=" or ">") for the lower end of an interval; None when it is open."""
        end = String().lower(cut)
        return None if end is None else (self.literal(str(end[0])), end[1])

    def upper(self, cut: Cut | None) -> tuple[Literal, str] | None:
        """Return (value, "<=" or "<") for the upper end of an interval; None when it is open."""
        end = String().upper(cut)
        return None if end is None else (self.literal(str(end[0])), end[1])

    def samples(self, allowed: ValueSet) -> Iterator[str]:
        """Yield the values at the ends of each interval, then a string."""
        for start, stop in allowed.intervals():
            yield from (cut[0].removesuffix("\0") for cut in (start, stop) if cut is not None)
        yield from ("sx", "sa", "s")


def _number(text: str) -> int | float | Fraction:
    """Return the number of which `_text` made a text."""
    if "/" in text:
        return Fraction(text)
    is_integer = text.removeprefix("-").isdigit() and values.INT64_MIN <= int(text) <= values.UINT64_MAX
    return int(text) if is_integer else float(text)


def _text(value: bool | int | float | Fraction) -> str:
    """Return the shortest text of a number, the same for equal ones."""
    if isinstance(value, bool):
        return "1" if value else "0"
    exact = Fraction(value)
    return str(exact.numerator) if exact.denominator == 1 else repr(value) if isinstance(value, float) else str(exact)
