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
from tamis.model.types.string import String
from tamis.model.value_set import Cut, ValueSet
from tamis.model.values import UnfitError, Value, words_for

__all__ = ["Mixed"]

_MOMENT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[Tt ][0-9:.]++(?:[Zz]|[-+][0-9]{2}:[0-9]{2}))?")


@dataclass(frozen=True)
class Mixed(ScalarType):
    """A boolean, a number, a string or a moment; values of different types are different. Only equality is asked.

    The canonical value is the kind in one letter and the value as text: ``b1``, ``n1``, ``n0.5``, ``sIBM``, ``t0``.
    JSON has no moments: a string that is a date or a timestamp with a zone is that moment.
    """

    name: ClassVar[str] = "mixed"
    form: ClassVar[Form] = Form.TEXT

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
        """Return the value of which this is the text."""
        literal = self.literal(value)
        return instant_text(literal) if isinstance(literal, Instant) else literal

    def literal(self, value: Value) -> Literal:
        """Return the literal that means a value."""
        kind, text = str(value)[:1], str(value)[1:]
        if kind in ("b", "s"):
            return text == "1" if kind == "b" else text
        if kind == "t":
            return Instant(int(text))
        exact = Fraction(text)
        is_integer = exact.denominator == 1 and values.INT64_MIN <= exact <= values.UINT64_MAX
        return exact.numerator if is_integer else float(exact)

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


def _text(value: bool | int | float | Fraction) -> str:
    """Return the shortest text of a number, the same for equal ones."""
    if isinstance(value, bool):
        return "1" if value else "0"
    exact = Fraction(value)
    return str(exact.numerator) if exact.denominator == 1 else repr(value) if isinstance(value, float) else str(exact)
