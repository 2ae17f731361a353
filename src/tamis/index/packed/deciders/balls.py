"""Balls that come with other constraints: the box of such an entry proposes, and decides all but the ball.

The balls stand in columns, one set for each attribute and dimension, in the order of their entries; an entry's ball is
found by bisection. So a table of events meets them without a loop in Python, and only a vector within rounding of a rim
is asked on raw values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tamis.index.saved_arrays import Ascending, Declared, Finite, Flags, SavedArrays
from tamis.kernels.balls import ball_table, pair_sides
from tamis.kernels.vectors import UNCERTAIN
from tamis.model.subscription import Ball

__all__ = ["MixedBalls"]

_FloatArray = npt.NDArray[np.float64]
_FIRST_ROOM = 64

_ARRAYS: Final = {
    "entries": Declared(np.int32, ("balls",), Ascending("entries")),
    "centers": Declared(np.float64, ("balls", "dimension"), Finite()),
    "radii": Declared(np.float64, ("balls",), Finite(least=0.0)),
    "negated": Declared(np.uint8, ("balls",), Flags()),
}


class _Columns(NamedTuple):
    """The balls of one attribute: entry int32, center float64[, d], radius float64, negated uint8; n of each count."""

    entries: npt.NDArray[np.int32]
    centers: _FloatArray
    radii: _FloatArray
    negated: npt.NDArray[np.uint8]
    n: int = 0

    def appended(self, entry: int, ball: Ball) -> _Columns:
        """Return the columns with one more ball; readers of these keep theirs."""
        grown = self
        if self.n == len(self.radii):
            room = max(_FIRST_ROOM, 2 * self.n)
            old = (self.entries, self.centers, self.radii, self.negated)
            grown = _Columns._make([*(np.resize(one, (room, *one.shape[1:])) for one in old), self.n])
        grown.entries[self.n], grown.centers[self.n], grown.radii[self.n] = entry, ball.center, ball.radius
        grown.negated[self.n] = ball.negated
        return grown._replace(n=self.n + 1)

    def sides(
        self, entries: npt.NDArray[np.int32], events: npt.NDArray[np.int64], vectors: _FloatArray
    ) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.uint8]]:
        """Return which of the pairs (entry, event) are about these balls, and on which side the events' vectors are."""
        slots = np.minimum(np.searchsorted(self.entries[: self.n], entries), self.n - 1)
        mine = self.entries[slots] == entries
        slots = slots[mine].astype(np.int32)
        found = np.empty(len(slots), np.uint8)
        table = ball_table(self.centers, self.radii, self.negated, (0, self.n))
        pair_sides(table, slots, vectors, events[mine], found)
        found[np.isnan(vectors[events[mine], 0])] = UNCERTAIN  # no vector: raw values know why
        return mine, np.where(found == UNCERTAIN, found, found ^ self.negated[slots])


class MixedBalls:
    """The ball of an entry; an entry that has none, or several, is not here."""

    def __init__(self) -> None:
        self._columns: dict[tuple[str, int], _Columns] = {}

    def __len__(self) -> int:
        return sum(one.n for one in self._columns.values())

    def add(self, entry: int, ball: Ball) -> None:
        """Add the ball of an entry above all others."""
        key = ball.attribute, len(ball.center)
        known = self._columns.get(key) or _Columns(
            np.empty(0, np.int32), np.empty((0, key[1])), np.empty(0), np.empty(0, np.uint8)
        )
        self._columns[key] = known.appended(entry, ball)

    def sides(
        self,
        entries: npt.NDArray[np.int32],
        events: npt.NDArray[np.int64],
        vectors_of: Callable[[str], _FloatArray | None],
    ) -> npt.NDArray[np.uint8]:
        """Return for each pair whether the ball holds; UNCERTAIN where raw values must be asked.

        ``vectors_of`` gives the vectors float64[n, d] of the events, which ``events`` numbers; None if they have none.
        """
        found = np.full(len(entries), UNCERTAIN, np.uint8)
        for (attribute, dimension), columns in list(self._columns.items()):
            vectors = vectors_of(attribute)
            if vectors is None or vectors.shape[1:] != (dimension,) or not columns.n:
                continue
            mine, sides = columns.sides(entries, events, np.require(vectors, np.float64, ["C", "W"]))
            found[mine] = sides
        return found

    def dimensions(self) -> list[tuple[str, int]]:
        """Return the attributes and dimensions of the balls."""
        return list(self._columns)

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the columns by name."""
        arrays: dict[str, npt.NDArray[Any]] = {}
        for i, ((attribute, _), columns) in enumerate(self._columns.items()):
            arrays[f"{i}.attribute"] = np.frombuffer(attribute.encode(), np.uint8)
            own = {name: array for name, array in columns._asdict().items() if name != "n"}
            arrays |= {f"{i}.{name}": array[: columns.n] for name, array in own.items()}
        return arrays

    @classmethod
    def from_arrays(cls, arrays: SavedArrays, n_entries: int) -> MixedBalls:
        """Open columns, checked, that may be read-only; the first ball that is added moves them."""
        balls = cls()
        for i in range(sum(name.endswith(".attribute") for name in arrays)):
            own = arrays.under(f"{i}.")
            columns, sizes = own.take(_ARRAYS, entries=n_entries)
            balls._columns[own.text("attribute"), sizes["dimension"]] = _Columns(**columns, n=sizes["balls"])
        return balls
