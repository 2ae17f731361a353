"""The ball index: exact searches among the balls of one vector attribute, which can be added and removed.

A small *fresh* part takes single additions and is scanned; when it is full it becomes a `BallPart` together with the
parts no larger than it, so a ball is laid out again about log(n) times in its life. Readers take ``_state`` once;
the writer replaces it. Removing clears a byte that all see at once.

Guarantee: EXACT. The filter drops no cover; float64 decides a candidate if rounding cannot matter, and rational
arithmetic decides the rest. Cost: see docs/decisions/0011. When not to use it: for boxes; a box has its own tree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tamis.algebra.proofs.balls import distance_at_most
from tamis.index.balls.arrays import ROOM, Columns, FreshBalls
from tamis.index.balls.part import BallPart
from tamis.index.balls.projections import Projections
from tamis.index.balls.search import Search
from tamis.index.balls.ways import Choice
from tamis.index.saved_arrays import MOST_ROWS, Below, Declared, Finite, SavedArrays
from tamis.kernels.vectors import INSIDE, UNCERTAIN

__all__ = ["BallIndex"]

_FloatArray = npt.NDArray[np.float64]
_Rows = npt.NDArray[np.int32]

#: A part is laid out again when more than this share of it is dead.
_MOST_DEAD: Final = 0.5

_ARRAYS: Final = {
    "vectors": Declared(np.float64, ("vectors", "dimension"), Finite()),
    "rows": Declared(np.int32, ("balls",), Below("rows")),
    "centers": Declared(np.float64, ("balls", "dimension"), Finite()),
    "radii": Declared(np.float64, ("balls",), Finite(least=0.0)),
}
#: How far the length of a saved vector may be from 1.
_ROUNDING: Final = 1e-6


class _State(NamedTuple):
    """The balls as a reader sees them."""

    parts: tuple[BallPart, ...]
    fresh: FreshBalls


class BallIndex:
    """Balls of one dimension, each identified by an int32 row.

    ``points`` means that most questions will be "which balls contain a point": the search method is chosen for them.
    All questions are answered in any case. ``way`` overrides the choice.

    >>> index = BallIndex(Projections.drawn(2))
    >>> index.add_many(np.array([7, 9]), np.array([[0.0, 0.0], [1.0, 0.0]]), np.array([2.0, 1.0]))
    >>> index.find_covers(np.array([[1.0, 0.0]]), np.array([1.0]))  # tangent from inside, and the ball itself
    array([7], dtype=int32)
    >>> index.find_all_covers(np.array([[2.0, 0.0]]), np.zeros(1))[1].tolist()  # on both rims
    [7, 9]
    """

    def __init__(self, projections: Projections, *, points: bool = False, way: str = "auto") -> None:
        self.projections = projections
        self._points, self._way = points, way
        self._state = _State((), FreshBalls(projections.d))
        self._n = 0
        #: The number of questions so far, and their cost: candidates, distances, rational decisions.
        self._costs = np.zeros(4, np.int64)

    def __len__(self) -> int:
        return self._n

    def __contains__(self, row: int) -> bool:
        """Whether a row has a ball."""
        return self._place(row) is not None

    # ---- writing

    def add(self, row: int, center: npt.ArrayLike, radius: float) -> None:
        """Add a ball under a row that is free."""
        if self._state.fresh.is_full:
            self._settle()
        self._state.fresh.append(row, center, radius)
        self._n += 1

    def add_many(self, rows: npt.ArrayLike, centers: _FloatArray, radii: _FloatArray) -> None:
        """Add many balls, float64[n, d] and float64[n], under rows that are free."""
        rows = np.asarray(rows, np.int32)
        if len(rows) <= ROOM // 2:
            for row, center, radius in zip(rows.tolist(), centers, radii.tolist(), strict=True):
                self.add(row, center, radius)
            return
        self._settle((rows, np.asarray(centers, np.float64), np.asarray(radii, np.float64)))
        self._n += len(rows)

    def remove(self, row: int) -> None:
        """Remove a row; raise `KeyError` if it is absent."""
        location = self._place(row)
        if location is None:
            raise KeyError(row)
        balls, slot = location
        balls.remove(slot)
        self._n -= 1
        if isinstance(balls, BallPart) and balls.n_dead > _MOST_DEAD * balls.n_slots:
            others = tuple(part for part in self._state.parts if part is not balls)
            again = (self._lay_out(balls.living()),) if len(balls) else ()
            self._state = self._state._replace(parts=others + again)

    # ---- reading

    def find_covers(self, centers: _FloatArray, radii: _FloatArray) -> _Rows:
        """Return for each ball, float64[m, d] and float64[m], the row of one that covers it; -1 where none does."""
        queries, rows = self._run(centers, radii, first=True)
        covers = np.full(len(radii), -1, np.int32)
        covers[queries] = rows
        return covers

    def find_all_covers(self, centers: _FloatArray, radii: _FloatArray) -> tuple[npt.NDArray[np.int64], _Rows]:
        """Return CSR offsets int64[m + 1] and the rows of all balls that cover each one; a point has radius 0."""
        queries, rows = self.find_pairs(centers, radii)
        offsets = np.zeros(len(radii) + 1, np.int64)
        np.cumsum(np.bincount(queries, minlength=len(radii)), out=offsets[1:])
        return offsets, rows[np.lexsort((rows, queries))]

    def find_pairs(self, centers: _FloatArray, radii: _FloatArray) -> tuple[_Rows, _Rows]:
        """Return the same as pairs, questions int32 and rows int32, in any order; faster for many pairs."""
        return self._run(centers, radii, first=False)

    def find_covered(self, center: _FloatArray, radius: float) -> _Rows:
        """Return the rows of the balls that (center, radius) covers, ascending.

        Implements: [projection] section III, cancellation: the dominated subscriptions.
        Deviation: R.3.11: these are the covered ones, not all that look dominated, verified one by one;
        the caller re-announces those that no other covers.
        """
        center = np.ascontiguousarray(center, np.float64)
        state, covered = self._state, []
        for part in (*state.parts, state.fresh):
            sides = part.find_covered(center, radius)
            for slot in np.flatnonzero(sides == UNCERTAIN).tolist():
                near = distance_at_most(center.tolist(), part.centers[slot].tolist(), radius, -float(part.radii[slot]))
                sides[slot] = INSIDE if near else 0
            covered.append(part.rows[np.flatnonzero(sides == INSIDE)])
        return np.sort(np.concatenate(covered))

    def rows(self) -> _Rows:
        """Return all rows, ascending."""
        return np.sort(self._living()[0])

    def ball(self, row: int) -> tuple[_FloatArray, float] | None:
        """Return the center and radius of a row; None if it is absent."""
        location = self._place(row)
        if location is None:
            return None
        balls, slot = location
        return balls.centers[slot].copy(), float(balls.radii[slot])

    def statistics(self) -> dict[str, int | float | str]:
        """Return the dimension, k, the search method of the largest part with its reason, and the cost so far."""
        state = self._state
        largest = max(state.parts, key=len, default=None)
        choice = largest.choice if largest else Choice("scan", 1.0, f"{len(state.fresh)} balls are few")
        questions, candidates, verified, rational = self._costs.tolist()
        return {
            "dimension": self.projections.d,
            "k": self.projections.k,
            "way": choice.way,
            "why": choice.why,
            "pass_share": choice.pass_share,
            "parts": len(state.parts),
            "asked": questions,
            "candidates": candidates,
            "verified": verified,
            "rational": rational,
            "bytes": sum(part.n_bytes for part in state.parts),
        }

    # ---- saving

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the living balls and the vectors, by name."""
        rows, centers, radii = self._living()
        return {"vectors": self.projections.vectors, "rows": rows, "centers": centers, "radii": radii}

    @classmethod
    def from_arrays(
        cls,
        arrays: Mapping[str, npt.NDArray[Any]],
        *,
        n_rows: int = MOST_ROWS,
        points: bool = False,
        way: str = "auto",
    ) -> BallIndex:
        """Lay saved balls out again, checked, on the vectors they were saved with; rows are below ``n_rows``."""
        saved = SavedArrays.of(arrays)
        kept, _ = saved.take(_ARRAYS, rows=n_rows)
        vectors = np.array(kept["vectors"])
        if not vectors.size or (np.abs(np.einsum("ij,ij->i", vectors, vectors) - 1.0) > _ROUNDING).any():
            saved.refuse("vectors", "must have unit vectors")
        if np.unique(kept["rows"]).size != kept["rows"].size:
            saved.refuse("rows", "names a row twice")
        index = cls(Projections(vectors), points=points, way=way)
        index.add_many(*(np.array(kept[name]) for name in ("rows", "centers", "radii")))
        return index

    # ---- inside

    def _run(self, centers: _FloatArray, radii: _FloatArray, *, first: bool) -> tuple[_Rows, _Rows]:
        centers, radii = (np.array(array, np.float64, order="C") for array in (centers, radii))
        state = self._state
        with np.errstate(over="ignore", invalid="ignore"):  # numbers that overflow are scanned
            search = Search(centers, radii, self.projections, first=first)
            for part in sorted(state.parts, key=len, reverse=True):
                part.search(search)
            if state.fresh.n_slots:
                state.fresh.scan(search)
        pairs = search.finish()
        self._costs += (len(radii), *search.counts())
        return pairs

    def _place(self, row: int) -> tuple[BallPart | FreshBalls, int] | None:
        every: list[BallPart | FreshBalls] = [self._state.fresh, *self._state.parts]
        for balls in every:
            slot = balls.find(row)
            if slot is not None:
                return balls, slot
        return None

    def _living(self) -> Columns:
        parts = [balls.living() for balls in (self._state.fresh, *self._state.parts)]
        return _joined(parts)

    def _settle(self, *more: Columns) -> None:
        """Build a part from the fresh balls, from ``more``, and from parts that are not larger than these."""
        state = self._state
        gathered = [state.fresh.living(), *more]
        total = sum(len(rows) for rows, *_ in gathered)
        kept = []
        for part in sorted(state.parts, key=len):
            if len(part) <= total:
                gathered.append(part.living())
                total += len(part)
            else:
                kept.append(part)
        made = [self._lay_out(_joined(gathered))] if total else []
        self._state = _State((*kept, *made), FreshBalls(self.projections.d))

    def _lay_out(self, columns: Columns) -> BallPart:
        return BallPart.build(columns, self.projections, points=self._points, wanted=self._way)


def _joined(parts: Sequence[Columns]) -> Columns:
    rows, centers, radii = (np.concatenate(column) for column in zip(*parts, strict=True))
    return rows, centers, radii
