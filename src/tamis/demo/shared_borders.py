"""Regions that share borders: each line is kept once, and two neighbours walk it in opposite directions.

So the counties fit into a third of what their polygons take, and neighbours agree on their border to the bit,
because there is only one. (TopoJSON does the same with its arcs.)
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import shapely

__all__ = ["join_borders"]

#: Steps to a degree, of the whole numbers in which lines are kept.
_STEPS = 100_000


def join_borders(borders: pa.Table, uses: pa.ChunkedArray) -> npt.NDArray[Any]:
    """Return the polygons whose rings are these lines: number n as it is kept, ~n backwards.

    Parameters
    ----------
    borders
        One row for each line. ``lon`` and ``lat`` lead from point to point in steps of 0.00001 degree, 2n for n and
        2n - 1 for -n, which is smaller on disk than a sign. A line starts where the one before it in the table ended,
        plus its first step. A line with ``exact`` (x, y, x, y, ...) has no steps: some of its points lie off that grid.
    uses
        For each polygon its lines, in the order of its ring.
    """
    lines = _lines(borders)
    return np.array([shapely.Polygon(_ring(lines, use)) for use in uses.to_pylist()], dtype=object)


def _lines(borders: pa.Table) -> list[npt.NDArray[np.float64]]:
    lons, lats = borders["lon"].combine_chunks(), borders["lat"].combine_chunks()
    folded = np.column_stack((lons.flatten().to_numpy(), lats.flatten().to_numpy())).astype(np.int64)
    steps = np.where(folded & 1, -(folded + 1) // 2, folded // 2)
    # A whole number divided by 100,000 is the double nearest to the decimal: what its text is read as.
    points = np.cumsum(steps, axis=0, dtype=np.int64) / _STEPS
    lines = np.split(points, lons.offsets.to_numpy()[1:-1])
    for number, exact in enumerate(borders["exact"].to_pylist()):
        if exact is not None:
            lines[number] = np.reshape(exact, (-1, 2))
    return lines


def _ring(lines: list[npt.NDArray[np.float64]], use: list[int]) -> npt.NDArray[np.float64]:
    walked = [lines[number] if number >= 0 else lines[~number][::-1] for number in use]
    # Each line ends where the next begins; the last one ends where the first began, which closes the ring.
    return np.concatenate([line[:-1] for line in walked[:-1]] + walked[-1:])
