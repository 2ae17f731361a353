"""A running search among balls: the balls in question, the results so far, and what float64 left undecided."""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from tamis.algebra.proofs.balls import distance_at_most
from tamis.index.balls.projections import Projections
from tamis.kernels.balls import CANDIDATES, COVERS, DOUBTS, VERIFIED, BallScratch, Hits, Queries

__all__ = ["Search", "SearchCounts"]

_FloatArray = npt.NDArray[np.float64]
_IntArray = npt.NDArray[np.int32]

_STACK: Final = 1_024


class SearchCounts(NamedTuple):
    """The cost of a search: candidates of the filter, distances computed, decisions in rational arithmetic."""

    candidates: int
    verified: int
    rational: int


class _Balls(Protocol):
    """The arrays of balls that a search reads for its hits."""

    rows: _IntArray
    centers: _FloatArray
    radii: _FloatArray


class Search:
    """A search for covers of balls, float64[m, d] and float64[m]; ``first``: one cover of each is enough.

    Parts of an index run their kernels on ``queries`` and ``hits``, and call `drain` before slots mean others.
    """

    def __init__(self, centers: _FloatArray, radii: _FloatArray, projections: Projections, *, first: bool) -> None:
        low, high = projections.rectangles(centers, radii, inner=True)
        self.queries = Queries(centers, radii, low, high)
        self.first = first
        self.scratch = BallScratch(np.empty((2, projections.k), np.int16), np.empty(_STACK, np.int64))
        self.n_rational = 0
        self._done = np.zeros(len(radii), np.uint8)
        self._counts = np.zeros(4, np.int64)
        self._pairs: list[tuple[_IntArray, _IntArray]] = []
        self._doubts: list[tuple[int, int, _Balls]] = []
        self.enlarge(max(4_096, 2 * len(radii)))

    def __len__(self) -> int:
        return len(self._done)

    @property
    def room(self) -> int:
        """The number of pairs that the kernels can store before they are drained."""
        return int(self.hits.covers.shape[1])

    def enlarge(self, room: int) -> None:
        """Make room for ``room`` pairs; all earlier pairs must have been drained."""
        pairs = np.empty((2, 2, room), np.int32)
        self.hits = Hits(pairs[0], pairs[1], self._counts, self._done)

    def waiting(self, begin: int, stop: int) -> _IntArray:
        """Return the queries of a range that are not settled."""
        if not self.first:
            return np.arange(begin, stop, dtype=np.int32)
        return (begin + np.flatnonzero(self._done[begin:stop] == 0)).astype(np.int32)

    def drain(self, balls: _Balls) -> None:
        """Read the pairs that the kernels stored for these balls."""
        n_covers, n_doubts = int(self._counts[COVERS]), int(self._counts[DOUBTS])
        if n_covers:
            queries, slots = self.hits.covers[:, :n_covers]
            self._pairs.append((queries.copy(), balls.rows[slots]))
        if n_doubts:
            self._doubts += [(query, slot, balls) for query, slot in self.hits.doubts[:, :n_doubts].T.tolist()]
        self._counts[COVERS] = self._counts[DOUBTS] = 0

    def finish(self) -> tuple[_IntArray, _IntArray]:
        """Decide the open pairs exactly; return queries and rows of all pairs, in any order."""
        # The largest ball first: it is the most likely cover, if one cover is enough (R.3.6).
        for query, slot, balls in sorted(self._doubts, key=lambda doubt: (doubt[0], -doubt[2].radii[doubt[1]])):
            if self.first and self._done[query]:
                continue
            self.n_rational += 1
            center, radius = self.queries.centers[query].tolist(), float(self.queries.radii[query])
            if distance_at_most(balls.centers[slot].tolist(), center, float(balls.radii[slot]), -radius):
                self._done[query] = 1
                self._pairs.append((np.array([query], np.int32), balls.rows[slot : slot + 1]))
        nothing = np.empty(0, np.int32)
        queries, rows = (np.concatenate([nothing, *(pair[i] for pair in self._pairs)]) for i in (0, 1))
        return queries, rows

    def counts(self) -> SearchCounts:
        """Return the cost so far."""
        return SearchCounts(int(self._counts[CANDIDATES]), int(self._counts[VERIFIED]), self.n_rational)
