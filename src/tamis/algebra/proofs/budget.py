"""Limits the work for one question; an answer that would need more is unknown, which counts as "no".

The unit is a *piece*: one conjunction looked at, about 50 microseconds. Comparing it with filters and
conditions, and the walks over LIKE patterns, are charged in the same unit by the code that does them.
"""

from __future__ import annotations

__all__ = ["MAX_PIECES", "Budget"]

#: Pieces that one question may cost.
MAX_PIECES = 10_000


class Budget:
    """A number of pieces to spend; once it is spent, every answer that needs another piece is unknown.

    >>> budget = Budget(3)
    >>> budget.spend(2), budget.spend(2), budget.exhausted
    (True, False, True)
    """

    def __init__(self, pieces: int = MAX_PIECES) -> None:
        self.left = pieces

    @property
    def exhausted(self) -> bool:
        """Whether more pieces were requested than the budget had."""
        return self.left < 0

    def spend(self, pieces: int = 1) -> bool:
        """Spend pieces; return whether the budget had enough."""
        self.left -= pieces
        return self.left >= 0

    def share(self, pieces: int) -> Budget:
        """Return a budget for a part of the question: no more than ``pieces`` of what is left."""
        return Budget(max(0, min(pieces, self.left)))
