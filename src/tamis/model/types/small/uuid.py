"""UUIDs: 128 bits, held as their usual text, whose order is that of the number."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import pyarrow as pa

from tamis.errors import shorten
from tamis.model.types.base import AttributeType, Form
from tamis.model.types.column import Column, Mask
from tamis.model.types.string import String
from tamis.model.value_set import ValueSet
from tamis.model.values import UnfitError

__all__ = ["Uuid"]

_LAST = 2**128 - 1


@dataclass(frozen=True)
class Uuid(String):
    """A UUID, however it is written: upper case, braces and ``urn:uuid:`` make no difference."""

    name: ClassVar[str] = "uuid"
    arrow_kinds: ClassVar[frozenset[str] | None] = frozenset({"text", "binary"})
    form: ClassVar[Form] = Form.TEXT
    python_types: ClassVar[tuple[type, ...]] = (uuid.UUID,)

    def canonical(self, value: object) -> str:
        """Return lower-case digits in groups, as RFC 9562 writes them."""
        if isinstance(value, uuid.UUID):
            return str(value)
        try:
            if isinstance(value, bytes) and len(value) == 16:
                return str(uuid.UUID(bytes=value))
            if isinstance(value, str) and len(value) <= len("urn:uuid:{}") + 36:
                return str(uuid.UUID(value))
        except ValueError:
            pass
        raise UnfitError(f"expected a UUID such as 6ba7b810-9dad-11d1-80b4-00c04fd430c8, not {shorten(value)}")

    @classmethod
    def of_value(cls, value: object) -> Self | None:
        """Return the type for Python's UUIDs; text is a string."""
        return cls() if isinstance(value, uuid.UUID) else None

    @classmethod
    def of_arrow(cls, field: pa.Field, kind: pa.DataType, column: Any) -> Self | None:
        """Return None: a column of text is one of strings."""
        return None

    @classmethod
    def reads_cells(cls, cells: pa.Array) -> bool:
        """Whether cells can only be UUIDs: text is left to strings."""
        return False

    def from_arrow(self, name: str, array: pa.Array, present: Mask) -> Column | None:
        """Return None: each value is brought into one form."""
        return None

    def samples(self, allowed: ValueSet) -> Iterator[str]:
        """Yield the UUIDs beside the ends of each interval, then the first, the last and one in the middle."""
        ends = (uuid.UUID(str(value)[:36]).int for value, _ in allowed.cuts)
        numbers = [end + step for end in ends for step in (0, 1, -1)]
        yield from (str(uuid.UUID(int=number)) for number in (*numbers, 0, _LAST, _LAST // 2) if 0 <= number <= _LAST)

    def agrees_with(self, other: AttributeType) -> bool:
        """Whether the other is a UUID; text that literals show may be one, too."""
        return type(other) in (Uuid, String)
