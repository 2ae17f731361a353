"""Cells: one side of a grid, and the function that maps both bounds and values to them.

A value's cell is the number of *cuts* at or below it. That is monotone, so ``lo <= x <= hi`` gives
``cell(lo) <= cell(x) <= cell(hi)`` whatever the cuts are, if bounds and values go through the same map: values outside
the domain fall into the edge cells, the top value into the last one, open bounds are taken as closed, -0.0 is 0.0.
(Two roundings, one for bounds and one for values, would lose events at the cuts.)

A missing value has a cell of its own, number 0, which only spans that accept a missing value include; without it
(``null=False``) a missing value falls into the first cell, which loses nothing and forwards more.

Implements: [mics] section 3.2 (equal cells) and 6.3 (variable cells).
Deviation: [mics] knows no missing values; the cell for them is taken from the ``2**bits`` cells.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tamis.errors import ModelError

__all__ = ["DEFAULT_BITS", "Cells", "Span"]

#: 256 cells on each side, as in [mics] section 7.
DEFAULT_BITS = 8

#: The first and the last cell of a stretch of cells.
Span = tuple[int, int]


@dataclass(frozen=True)
class Cells:
    """The cells of one axis: ``cuts`` ascending and finite, at most ``2**bits - 1`` of them (one less with ``null``).

    Examples
    --------
    >>> cells = Cells.equal(0, 100, bits=2)
    >>> cells.cuts
    (33.333333333333336, 66.66666666666667)
    >>> [cells.cell(x) for x in (-5, 0, 40, 100, math.inf, None)], cells.span(10, 50)
    ([1, 1, 2, 3, 3, 0], (1, 2))
    """

    cuts: tuple[float, ...]
    bits: int = DEFAULT_BITS
    null: bool = True

    def __post_init__(self) -> None:
        room = (1 << self.bits) - 1 - self.null
        if len(self.cuts) > room:
            raise ModelError(f"{len(self.cuts)} cuts do not fit into {self.bits} bits (at most {room}); use more bits")
        if not all(math.isfinite(cut) for cut in self.cuts) or list(self.cuts) != sorted(self.cuts):
            raise ModelError("the cuts between cells must be finite numbers in ascending order")

    @classmethod
    def equal(cls, lo: float, hi: float, bits: int = DEFAULT_BITS, *, null: bool = True) -> Cells:
        """Divide a domain into cells of equal width."""
        n = (1 << bits) - null
        return cls(tuple(sorted(lo / n * (n - i) + hi / n * i for i in range(1, n))), bits, null)

    @classmethod
    def from_sample(cls, values: npt.ArrayLike, bits: int = DEFAULT_BITS, *, null: bool = True) -> Cells:
        """Divide by a sample: each cell gets about the same number of values; a few distinct values get one cell each.

        Implements: [mics] section 6.3, space partitioning with variable cells.
        """
        sample: npt.NDArray[Any] = np.asarray(values, dtype=np.float64)
        distinct = np.unique(sample[np.isfinite(sample)])
        n = (1 << bits) - null
        if distinct.size < n:
            return cls(tuple(distinct.tolist()), bits, null)
        # Quantiles of the sample itself, not between its values: a value that is frequent gets a cut of its own.
        ranks = np.sort(sample[np.isfinite(sample)])
        quantile_ranks = (np.arange(1, n) * len(ranks)) // n
        return cls(tuple(np.unique(ranks[quantile_ranks]).tolist()), bits, null)

    @property
    def everything(self) -> Span:
        """All cells; the span of an axis without a constraint."""
        return 0, (1 << self.bits) - 1

    @property
    def present(self) -> Span:
        """The cells of all values, without the one for a missing value."""
        return int(self.null), (1 << self.bits) - 1

    @property
    def missing(self) -> Span:
        """The cell of a missing value."""
        return 0, 0

    @property
    def n_used(self) -> int:
        """The number of cells that values can fall into, including the one for missing values."""
        return len(self.cuts) + 1 + self.null

    def cell(self, value: float | None) -> int:
        """Return the cell of a value; None and NaN are missing."""
        if value is None or value != value:
            return 0
        return self.null + bisect_right(self.cuts, value)

    def cells(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
        """Return the cells of many values, NaN for a missing one."""
        numbers = np.searchsorted(np.array(self.cuts), values, side="right") + int(self.null)
        return np.where(np.isnan(values), 0, numbers).astype(np.int64)

    def span(self, lo: float, hi: float) -> Span:
        """Return the cells of the values from ``lo`` to ``hi``; an infinite end is open.

        Implements: [mics] section 3.3, the augmentation of a subscription to whole cells.
        """
        first, last = self.present
        return first if lo == -math.inf else self.cell(lo), last if hi == math.inf else self.cell(hi)
