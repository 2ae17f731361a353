"""How large experiments are."""

from __future__ import annotations

import enum
from typing import Any

__all__ = ["Scale"]


class Scale(enum.StrEnum):
    """How large: a look in minutes, the sizes of the paper, or beyond them."""

    SMALL = "small"
    PAPER = "paper"
    BEYOND = "beyond"

    def choose(self, small: Any, paper: Any, beyond: Any = None) -> Any:
        """Return the value for this scale; beyond is as the paper where it is not given.

        >>> Scale.PAPER.choose(1_000, 10_000), Scale.BEYOND.choose(1_000, 10_000)
        (10000, 10000)
        """
        return {"small": small, "paper": paper, "beyond": paper if beyond is None else beyond}[self.value]
