"""A type of a user, in a module that Spark's workers can import."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import tamis


@tamis.register_type
@dataclass(frozen=True)
class Percent(tamis.DiscreteType):
    """A share such as '12 %'."""

    name: ClassVar[str] = "percent"
    first: ClassVar[int] = 0
    last: ClassVar[int] = 100

    def canonical(self, value: object) -> int:
        """Return the whole number."""
        if isinstance(value, str) and value.endswith(" %") and value[:-2].isdigit():
            return int(value[:-2])
        raise tamis.UnfitError("expected a share such as '12 %'")

    def to_json(self, value: Any) -> str:
        """Return the share as text."""
        return f"{value} %"

    def to_wire(self, value: Any) -> str:
        """Return the share as text."""
        return self.to_json(value)
