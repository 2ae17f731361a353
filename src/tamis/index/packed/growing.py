"""Arrays that grow at their end, for columns that readers see while a writer appends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Growing"]

_Array = npt.NDArray[Any]


class Growing:
    """An array that grows at its end. It is replaced when it is full, or read-only: readers keep theirs."""

    def __init__(self, values: _Array) -> None:
        self._values, self.n = values, len(values)

    @property
    def values(self) -> _Array:
        """What was added so far."""
        return self._values[: self.n]

    def extend(self, more: Sequence[Any] | _Array) -> None:
        """Add values at the end."""
        stop = self.n + len(more)
        if stop > len(self._values) or not self._values.flags.writeable:
            grown = np.empty(max(stop, 2 * self.n, 64), self._values.dtype)
            grown[: self.n] = self._values[: self.n]
            self._values = grown
        self._values[self.n : stop] = more
        self.n = stop
