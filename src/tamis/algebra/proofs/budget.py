"""How much work one question may cost; whatever needs more is unknown, which counts as "no".

The unit is a *piece*: one conjunction looked at, about 50 microseconds. Comparing it with filters and
conditions, and the walks over LIKE patterns, are charged in the same unit by the code that does them.
"""

from __future__ import annotations

__all__ = ["MAX_PIECES", "Budget"]

#: Pieces that one question may cost.
MAX_PIECES = 10_000


class Budget:
    """A number of pieces to spend; once it is gone, every answer that still needs one is unknown.

    >>> budget = Budget(3)
    >>> budget.spend(2), budget.spend(2), budget.exhausted
    (True, False, True)
    """

    def __init__(self, pieces: int = MAX_PIECES) -> None:
        self.left = pieces

    @property
    def exhausted(self) -> bool:
        """Whether more was asked than there is."""
        return self.left < 0

    def spend(self, pieces: int = 1) -> bool:
        """Take pieces away; say whether there were as many."""
        self.left -= pieces
        return self.left >= 0

    def share(self, pieces: int) -> Budget:
        """Return a budget for a part of the question: no more than ``pieces`` of what is left."""
        return Budget(max(0, min(pieces, self.left)))
