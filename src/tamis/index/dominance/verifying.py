"""Verifies the covering candidates that boxes leave undecided, on raw filters and within a budget."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from tamis.algebra.covers import Prover
from tamis.index.dominance.rows import RowStore
from tamis.model.subscription import Filter

__all__ = ["Patience", "Verifier"]


class Patience:
    """Yields candidates while ``go_on`` says True and the budget lasts; ``lasted`` is False when it stopped early."""

    def __init__(self, go_on: Callable[[], bool], pieces: int | None = None) -> None:
        self._go_on = go_on
        self.prover = Prover(pieces)
        self.lasted = True

    def each(self, candidates: Iterable[int]) -> Iterator[int]:
        """Yield candidates until the proofs have used their budget."""
        for row in candidates:
            if self.prover.is_exhausted or not self._go_on():
                self.lasted = False
                return
            yield row


class Verifier:
    """Proves that rows cover filters, or that filters cover rows.

    ``pieces`` is what all proofs of one question may cost together; None: each as much as it needs.
    """

    def __init__(self, rows: RowStore, pieces: int | None = None) -> None:
        self._rows = rows
        self._pieces = pieces
        self.n_verified = 0

    def patience(self) -> Patience:
        """Return the budget of one question."""
        return Patience(_always, self._pieces)

    def first(self, candidates: Iterable[int], filters: tuple[Filter, ...], otherwise: int, patience: Patience) -> int:
        """Return the first candidate that covers on raw values: one that fails does not end the search."""
        for row in patience.each(candidates):
            self.n_verified += 1
            if patience.prover.is_covered(filters, self._rows.filters(row)):
                return row
        return otherwise

    def covered(self, candidates: Iterable[int], filters: tuple[Filter, ...], patience: Patience) -> Iterator[int]:
        """Yield the candidates that filters cover on raw values."""
        for row in patience.each(candidates):
            self.n_verified += 1
            if patience.prover.is_covered(self._rows.filters(row), filters):
                yield row


def _always() -> bool:
    return True
