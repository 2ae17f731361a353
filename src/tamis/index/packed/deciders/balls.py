"""Balls with other constraints: the box of such an entry decides everything but the ball.

The balls stand in columns, one set for each attribute and dimension, in the order of their entries; an entry's ball is
found by bisection. So a table of events meets them without a loop in Python, and only a vector within rounding of a rim
is asked on raw values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tamis.index.saved_arrays import Ascending, Declared, Finite, Flags, SavedArrays
from tamis.kernels.balls import ball_table, decide_pairs
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
    n: int
    #: What kernels read of the balls.
    table: npt.NDArray[np.int64]

    @classmethod
    def of(cls, arrays: Iterable[npt.NDArray[Any]], n: int) -> _Columns:
        """Return columns of arrays of which ``n`` rows count."""
        entries, centers, radii, negated = arrays
        return cls(entries, centers, radii, negated, n, ball_table(centers, radii, negated, (0, n)))

    def appended(self, entries: Sequence[int], balls: Sequence[Ball]) -> _Columns:
        """Return the columns with more balls; readers of these keep theirs."""
        arrays: tuple[npt.NDArray[Any], ...] = self[:4]
        stop = self.n + len(balls)
        if stop > len(self.radii):
            room = max(_FIRST_ROOM, 2 * self.n, stop)
            arrays = tuple(np.resize(array, (room, *array.shape[1:])) for array in arrays)
        added = slice(self.n, stop)
        arrays[0][added], arrays[1][added] = entries, [ball.center for ball in balls]
        arrays[2][added], arrays[3][added] = [ball.radius for ball in balls], [ball.negated for ball in balls]
        return _Columns.of(arrays, stop)


class MixedBalls:
    """The ball of an entry; an entry that has none, or several, is not here."""

    def __init__(self) -> None:
        self._columns: dict[tuple[str, int], _Columns] = {}

    def __bool__(self) -> bool:
        return bool(self._columns)

    def add(self, entries: Sequence[int], balls: Sequence[Ball]) -> None:
        """Add the balls of ascending entries above all others."""
        groups: dict[tuple[str, int], tuple[list[int], list[Ball]]] = {}
        for entry, ball in zip(entries, balls, strict=True):
            group = groups.setdefault((ball.attribute, len(ball.center)), ([], []))
            group[0].append(entry)
            group[1].append(ball)
        for key, group in groups.items():
            columns = self._columns.get(key)
            if columns is None:
                shapes = {"balls": 0, "dimension": key[1]}
                arrays = (np.empty([shapes[str(size)] for size in form.shape], form.dtype) for form in _ARRAYS.values())
                columns = _Columns.of(arrays, 0)
            self._columns[key] = columns.appended(*group)

    def decide(
        self,
        verdicts: npt.NDArray[np.int8],
        entries: npt.NDArray[np.int32],
        events: npt.NDArray[np.int64],
        vectors_of: Callable[[str], _FloatArray | None],
    ) -> None:
        """Write the verdict of each pair that its ball decides; the others keep theirs.

        ``vectors_of`` gives the vectors float64[n, d] of the events, which ``events`` numbers; None if they have none.
        """
        for (attribute, dimension), columns in list(self._columns.items()):
            vectors = vectors_of(attribute)
            if vectors is not None and vectors.shape[1:] == (dimension,):
                if not (vectors.flags.carray and vectors.dtype == np.float64):
                    vectors = np.require(vectors, np.float64, ["C", "W"])
                decide_pairs(columns.table, columns.entries, entries, vectors, events, verdicts)

    def dimensions(self) -> list[tuple[str, int]]:
        """Return the attributes and dimensions of the balls."""
        return list(self._columns)

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the columns by name."""
        arrays: dict[str, npt.NDArray[Any]] = {}
        for i, ((attribute, _), columns) in enumerate(self._columns.items()):
            arrays[f"{i}.attribute"] = np.frombuffer(attribute.encode(), np.uint8)
            arrays |= {f"{i}.{name}": getattr(columns, name)[: columns.n] for name in _ARRAYS}
        return arrays

    @classmethod
    def from_arrays(cls, arrays: SavedArrays, n_entries: int) -> MixedBalls:
        """Open columns, checked, that may be read-only; the first ball that is added moves them."""
        balls = cls()
        for i in range(sum(name.endswith(".attribute") for name in arrays)):
            own = arrays.under(f"{i}.")
            arrays_by_name, sizes = own.take(_ARRAYS, entries=n_entries)
            columns = _Columns.of((arrays_by_name[name] for name in _ARRAYS), sizes["balls"])
            balls._columns[own.text("attribute"), sizes["dimension"]] = columns
        return balls
