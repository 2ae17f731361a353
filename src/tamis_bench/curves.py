"""The benchmark of curves: Hilbert keys, boxes as ranges, the range table, and whether insertion stays flat.

Numbers of dimensions and sides are those of the MICS paper and of the project's goals. For ranges there is a second
system, ``cells``: the key of every cell of the box, sorted and clustered, which is how the paper describes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tamis.curves.hilbert import MAX_RANGES, HilbertCurve
from tamis.curves.runs import merged
from tamis.errors import InvariantError
from tamis.index.mics.table import RangeTable
from tamis_bench.rows import Row
from tamis_bench.timing import Effort, best_of

__all__ = ["INSERT_SIZES", "clustered", "measure_curves"]

IntArray = npt.NDArray[np.int64]

#: Subscriptions in the table when the next ones are timed.
INSERT_SIZES: Final = (1_000, 10_000, 100_000, 1_000_000)

_POINTS: Final = 1_000_000
_DIMENSIONS: Final = (2, 3, 4)
_SIDES: Final = (4, 16, 64, 256)
#: Ranges that the boxes of one size may have in all, so that each takes about as long.
_RANGES: Final = 400_000
#: Cells that are enumerated for one box.
_MOST_CELLS: Final = 70_000

#: Rates of the project's prototypes at ten bits; ours are to be within a factor of two.
_KEYS_GOAL, _ADD_GOAL, _REMOVE_GOAL, _LOOK_UP_GOAL = 24e6, 1.1e6, 1.0e6, 5.5e6
_RANGES_GOALS: Final = {
    (2, 4): 1.38e6,
    (2, 16): 517e3,
    (2, 64): 166e3,
    (2, 256): 46e3,
    (3, 4): 327e3,
    (3, 16): 36e3,
    (3, 64): 3e3,
    (4, 4): 77e3,
    (4, 16): 2.3e3,
}


def measure_curves(effort: Effort, scale: float = 1.0, seed: int = 1) -> Iterator[Row]:
    """Yield a row for every number, as soon as it is known; a ``scale`` below 1 makes everything smaller."""
    rng = np.random.default_rng(seed)
    for d in _DIMENSIONS:
        yield from _keys(rng, d, max(int(_POINTS * scale), 1_000), effort)
        for side in _SIDES:
            if side ** (d - 1) <= MAX_RANGES:
                yield from _ranges(rng, d, side, scale, effort)
    yield from _table(rng, max(int(20_000 * scale), 200), effort)
    for d in _DIMENSIONS:
        for name in ("uniform", "zipf"):
            yield from _insertion(rng, name, d, [n for n in INSERT_SIZES if n <= INSERT_SIZES[-1] * scale], effort)


def _keys(rng: np.random.Generator, d: int, n: int, effort: Effort) -> Iterator[Row]:
    curve = HilbertCurve(d, 10)
    cells = rng.integers(0, 1 << 10, (n, d))
    keys = curve.keys(cells)
    if not np.array_equal(curve.cells(keys), cells):
        raise InvariantError(f"the inverse of {curve!r} is wrong")
    yield Row(f"{d}-d", n, "ours", "keys", n / best_of(lambda: curve.keys(cells), effort), None, _KEYS_GOAL)
    yield Row(f"{d}-d", n, "ours", "cells", n / best_of(lambda: curve.cells(keys), effort))


def _ranges(rng: np.random.Generator, d: int, side: int, scale: float, effort: Effort) -> Iterator[Row]:
    curve = HilbertCurve(d, 10)
    n = max(int(_RANGES * scale) // side ** (d - 1), 3)
    low = rng.integers(0, 1024 - side + 1, (n, d))
    boxes = np.stack([low, low + side - 1], axis=1)
    rate = n / best_of(lambda: curve.ranges_of(boxes), effort)
    work = f"{d}-d, side {side}"
    goal = _RANGES_GOALS.get((d, side))
    note = f"coarsened to {MAX_RANGES:,} ranges" if side ** (d - 1) >= MAX_RANGES else ""
    if side**d > _MOST_CELLS:
        yield Row(work, n, "ours", "ranges", rate, None, goal, note)
        return
    few = boxes[: max(1, min(n, _MOST_CELLS // side**d))]
    slow = len(few) / best_of(lambda: [clustered(curve, box) for box in few], effort)
    offsets, ranges = curve.ranges_of(few[:1])
    if not note and ranges.tolist() != clustered(curve, few[0]).tolist():
        raise InvariantError(f"the ranges of {few[0].tolist()} on {curve!r} are not those of its {offsets[-1]} cells")
    yield Row(work, n, "ours", "ranges", rate, rate / slow, goal, note)
    yield Row(work, len(few), "cells", "ranges", slow, 1.0)


def clustered(curve: HilbertCurve, box: IntArray) -> IntArray:
    """Return the ranges of a box by way of all its cells."""
    sides = [np.arange(lo, hi + 1) for lo, hi in box.T]
    cells = np.stack(np.meshgrid(*sides, indexing="ij"), axis=-1).reshape(-1, box.shape[1])
    keys = curve.keys(cells)
    return merged(np.column_stack([keys, keys]))


def _table(rng: np.random.Generator, n: int, effort: Effort) -> Iterator[Row]:
    """Time the table on the ranges of boxes of up to 24 cells a side, in random order."""
    curve = HilbertCurve(2, 10)
    low = rng.integers(0, 1000, (n, 2))
    high = np.minimum(low + rng.integers(1, 24, (n, 2)), 1023)
    ranges = curve.ranges_of(np.stack([low, high], axis=1))[1]
    held: list[RangeTable] = []

    def add() -> None:
        held.append(RangeTable(curve.n_keys))
        held[-1].add(ranges)

    add()
    seconds = best_of(add, effort)
    yield Row("2-d, boxes to 24", len(ranges), "ours", "table add", len(ranges) / seconds, None, _ADD_GOAL)
    keys = rng.integers(0, curve.n_keys, _POINTS)
    table = held[-1]
    look_ups = len(keys) / best_of(lambda: table.counts(keys), effort)
    yield Row("2-d, boxes to 24", len(ranges), "ours", "table look-up", look_ups, None, _LOOK_UP_GOAL)
    removals = len(ranges) / best_of(lambda: held.pop().remove(ranges), Effort(min(effort.repeat, len(held))))
    if not table.is_empty:
        raise InvariantError("a table is not empty after all ranges were removed")
    yield Row("2-d, boxes to 24", len(ranges), "ours", "table remove", removals, None, _REMOVE_GOAL)


def _insertion(rng: np.random.Generator, name: str, d: int, sizes: list[int], effort: Effort) -> Iterator[Row]:
    """Time the insertion of single subscriptions, two cells a side of 256, into tables of growing size."""
    curve = HilbertCurve(d, 8)
    table, held = RangeTable(curve.n_keys), 0
    for n in sizes:
        table.add(curve.ranges_of(_cubes(rng, name, d, n - held))[1])
        held = n
        seconds = best_of(_inserting(table, curve, _cubes(rng, name, d, effort.chunk)), Effort(1))
        held += effort.chunk
        yield Row(f"{name}, {d}-d, side 2", n, "ours", "insertion", seconds / effort.chunk * 1e6)


def _inserting(table: RangeTable, curve: HilbertCurve, cubes: IntArray) -> Callable[[], object]:
    """Return a function that adds the ranges of each cube to ``table``, a cube at a time."""
    return lambda: [table.add(curve.ranges_of(cube[None])[1]) for cube in cubes]


def _cubes(rng: np.random.Generator, name: str, d: int, n: int) -> IntArray:
    """Make cubes of two cells a side, uniform or crowded near the origin."""
    if name == "zipf":
        low = np.minimum(rng.zipf(1.3, (n, d)) - 1, 254)
    else:
        low = rng.integers(0, 255, (n, d))
    cubes: npt.NDArray[Any] = np.stack([low, low + 1], axis=1)
    return cubes
