"""Reduces millions of boxes: finds boxes that another box covers, and boxes inside the union of several others.

Boxes are rows of arrays. One covers another iff it is at least as wide on every side, and *ends* at least as
late: the expiry is one more axis, from 0 to the end, so that outliving is covering there.

*Covered.* Boxes are numbered so that no box has a larger number than a box it covers: by their lower sides,
ascending, then their upper sides, descending, then by id. So a box stays iff no smaller number covers it, and
of equal boxes the first id stays. The least number that covers a box stays itself: it is the reported reason. Which
boxes stay and which reasons are reported are properties of the set: neither order nor partition matters.

*Subsumed.* `kernels.subtract` subtracts others from a box until nothing is left, within a budget of steps. Boxes
are tried in the order of the tree, because neighbours are compared with the same others; a dropped box is not used
for later proofs. At the end each dropped box is proved again with the remaining boxes only: a proof with a few names
is better than one in which hundreds replace the names that were dropped later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tamis.errors import InvariantError
from tamis.index.dominance.corners import CornerIndex
from tamis.index.packed.boxes.coding import Coding, boxes_from_dense
from tamis.index.packed.boxes.segment import Segment
from tamis.kernels import directory as at
from tamis.kernels.boxes.dominance import Walk
from tamis.kernels.boxes.subtract import Pieces, find_unions

__all__ = ["ClosedBoxes", "Cover", "find_covered_boxes", "find_shared_remainders", "find_subsumed_boxes"]

_IntArray = npt.NDArray[np.int64]
_FloatArray = npt.NDArray[np.float64]

#: Steps of all subtractions together, and of one: many boxes get few steps each.
_STEPS, _FEWEST, _MOST = 8_000_000, 8, 80
#: A box that was dropped gets this many times the steps to be proved by those that remain.
_PATIENCE: Final = 8
#: Chunks in which boxes are tried; after each the tree is built again without those that were dropped.
_CHUNKS: Final = 8


class ClosedBoxes(NamedTuple):
    """Closed boxes ``lo``, ``hi`` float64[n, d] in the order of their ids.

    An axis from -inf to inf is free; a lower side that is open on a constrained axis is `ANY_VALUE`.
    """

    lo: _FloatArray
    hi: _FloatArray

    def __len__(self) -> int:
        return len(self.lo)

    def take(self, places: _IntArray) -> ClosedBoxes:
        """Return the boxes at ``places``, contiguous in memory."""
        return ClosedBoxes(np.ascontiguousarray(self.lo[places]), np.ascontiguousarray(self.hi[places]))

    def question_sides(self) -> tuple[_FloatArray, _FloatArray]:
        """Return the sides as `CornerIndex` takes a question: NaN on free axes."""
        free = np.isneginf(self.lo) & np.isposinf(self.hi)
        return np.where(free, np.nan, self.lo), np.where(free, np.nan, self.hi)


class Cover(NamedTuple):
    """Places of covered boxes, the place of a cover for each, and whether the two are equal."""

    places: _IntArray
    by: _IntArray
    is_equal: npt.NDArray[np.bool_]


class Unions(NamedTuple):
    """Places int32[n] of boxes that others contain together; ``used`` int32[n, steps]: the others, padded with -1."""

    places: npt.NDArray[np.int32]
    used: npt.NDArray[np.int32]

    def proofs(self) -> dict[int, tuple[int, ...]]:
        """Return for each place the boxes that together contain it, ascending, each once."""
        proofs = (tuple(sorted({row for row in by if row >= 0})) for by in self.used.tolist())
        return dict(zip(self.places.tolist(), proofs, strict=True))


def find_covered_boxes(boxes: ClosedBoxes, is_covered: npt.NDArray[np.bool_] | None = None) -> Cover:
    """Return which boxes are covered by others, and a remaining cover for each.

    ``is_covered`` bool[n] marks boxes that are already proved to be covered: they are not used as covers.

    >>> boxes = ClosedBoxes(np.array([[2.0], [0.0], [0.0], [0.0]]), np.array([[3.0], [9.0], [5.0], [9.0]]))
    >>> [part.tolist() for part in find_covered_boxes(boxes)]
    [[0, 2, 3], [1, 1, 1], [False, False, True]]
    """
    order = _widest_first(boxes)
    if is_covered is not None:  # unmarked boxes first: only they are compared with each other
        order = np.concatenate((order[~is_covered[order]], order[is_covered[order]]))
    n = len(boxes) if is_covered is None else int(len(boxes) - is_covered.sum())
    numbers, ordered = np.arange(len(boxes), dtype=np.int32), boxes.take(order)
    if not len(boxes):
        return Cover(order, order, order.astype(bool))
    index = _index(ClosedBoxes(ordered.lo[:n], ordered.hi[:n]), numbers[:n])
    least = index.find_least_covers(*ordered.question_sides(), below=np.minimum(numbers, n))
    if n < len(boxes) and (least[n:] == n).any():
        raise InvariantError("a box is marked as covered, but no box covers it")
    covered = np.flatnonzero(least != numbers)
    by = least[covered]
    equal = ((ordered.lo[by] == ordered.lo[covered]) & (ordered.hi[by] == ordered.hi[covered])).all(axis=1)
    by_place = np.argsort(order[covered])
    return Cover(order[covered][by_place], order[by][by_place], equal[by_place])


def _index(boxes: ClosedBoxes, rows: npt.NDArray[np.int32]) -> CornerIndex:
    index = CornerIndex(boxes.lo.shape[1])
    index.add_boxes(boxes.lo, boxes.hi, rows)
    return index


def _widest_first(boxes: ClosedBoxes) -> _IntArray:
    """Return an order in which no box comes after a box it covers; equal boxes stay in the order of their ids."""
    order = np.argsort(boxes.lo[:, 0], kind="stable")
    first = boxes.lo[order, 0]
    same = np.concatenate(([False], first[1:] == first[:-1]))
    tied = np.flatnonzero(same | np.concatenate((same[1:], [False])))
    if tied.size:  # ties stand together, and sorting them by all sides leaves each group where it is
        keys = [*-boxes.hi.T[::-1], *boxes.lo.T[::-1]]
        order[tied] = order[tied][np.lexsort([key[order[tied]] for key in keys])]
    return order


def find_subsumed_boxes(
    boxes: ClosedBoxes, progress: Callable[[int, int], None] | None = None
) -> dict[int, tuple[int, ...]]:
    """Return which boxes lie in the union of others, with the places of those others, in the order of dropping.

    The others remain, where a second subtraction proves it with them alone. Where it does not within its budget, a
    position may be named that was dropped afterwards because of others; the caller that reports the reason resolves it.
    """
    n = len(boxes)
    if n < 3:
        return {}
    budget = int(np.clip(_STEPS // n, _FEWEST, _MOST))
    alive = np.ones(n, bool)
    unions: list[Unions] = []
    built, tree = n, _tree(boxes, np.arange(n))
    done = 0
    for chunk in np.array_split(tree.rows, _CHUNKS):
        if 2 * np.count_nonzero(alive) < built:
            living = np.flatnonzero(alive)
            built, tree = living.size, _tree(boxes, living)
        unions.append(_unions(tree, boxes, chunk, alive, budget))
        done += chunk.size
        if progress is not None:
            progress(done, n)
    first = Unions(*map(np.concatenate, zip(*unions, strict=True)))
    proofs: dict[int, tuple[int, ...]] = dict.fromkeys(first.places.tolist(), ())
    for union in _unions_of_remaining(boxes, first.places, alive, budget):
        proofs |= union.proofs()
    proved = np.fromiter((bool(proof) for proof in proofs.values()), bool, len(proofs))
    return proofs | Unions(first.places[~proved], first.used[~proved]).proofs()


def _unions_of_remaining(
    boxes: ClosedBoxes, dropped: npt.NDArray[np.int32], alive: npt.NDArray[np.bool_], budget: int
) -> Iterator[Unions]:
    """Yield the remaining boxes whose union contains each dropped box; boxes that need many steps come at the end."""
    if dropped.size:
        tree = _tree(boxes, np.flatnonzero(alive))
        soon = _unions(tree, boxes, dropped, alive.copy(), budget)
        yield soon
        yield _unions(tree, boxes, dropped[~np.isin(dropped, soon.places)], alive.copy(), _PATIENCE * budget)


def _unions(
    tree: Segment, boxes: ClosedBoxes, places: npt.NDArray[np.int32], alive: npt.NDArray[np.bool_], budget: int
) -> Unions:
    """Return the boxes that lie in the union of others in a tree, with those others; marks the boxes as dropped."""
    d = boxes.lo.shape[1]
    room = budget * d + 2
    pieces = Pieces(np.empty((room, d)), np.empty((room, d)), np.empty((room, d), bool))
    used = np.full((places.size, budget), -1, np.int32)
    walk = Walk(np.zeros((4, d), np.int16), np.empty(1_024, np.int64), np.zeros(2, np.int64))
    find_unions(tree.row, (boxes.lo, boxes.hi), places, alive, pieces, used, walk)
    hit = used[:, 0] >= 0
    return Unions(places[hit], used[hit])


def _tree(boxes: ClosedBoxes, places: _IntArray) -> Segment:
    taken = boxes.take(places)
    packed = boxes_from_dense(taken.lo, taken.hi)
    return Segment.build(packed, places.astype(np.int32), Coding.train(packed), at.TREE)


def find_shared_remainders(boxes: ClosedBoxes) -> _IntArray:
    """Return the places of boxes that equal another on all axes but one; only these can have a perfect merge.

    >>> find_shared_remainders(
    ...     ClosedBoxes(np.array([[0.0, 1], [5, 1], [0, 2]]), np.array([[4.0, 9], [6, 9], [3, 8]]))
    ... ).tolist()
    [0, 1]
    """
    sides = np.concatenate((boxes.lo, boxes.hi), axis=1) + 0.0
    weights = np.random.default_rng(0).integers(1, 1 << 63, (sides.shape[1], 2), dtype=np.uint64) | np.uint64(1)
    bits = sides.view(np.uint64)
    mixed = (bits ^ (bits >> np.uint64(29))) * weights[:, 0]
    mixed = (mixed ^ (mixed >> np.uint64(32))) * weights[:, 1]
    total = mixed.sum(axis=1, dtype=np.uint64)
    d = boxes.lo.shape[1]
    shares = np.zeros(len(boxes), bool)
    for k in range(d):  # equal remainders have equal sums; unequal ones nearly never do, and a merge is checked anyway
        rest = total - mixed[:, k] - mixed[:, d + k]
        ordered = np.sort(rest)
        twice = ordered[1:][ordered[1:] == ordered[:-1]]
        if twice.size:
            shares |= np.isin(rest, twice)
    return np.flatnonzero(shares)
