"""What users could pick from PyPI instead, each used as its documents advise.

The packages come with ``pip install 'tamis-bench[peers]'``; they are imported when a system is made.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import shapely

from tamis_bench.matching.systems import ChangingSystem, IntArray, MatchingSystem, Pairs
from tamis_bench.workloads.boxes import BoxWork, FloatArray

__all__ = ["DuckDb", "Polars", "Rtree", "StrTree"]

#: Stands for an open side where a package does not take infinity; all values of the works are smaller.
_FAR = 1e12


class Rtree(ChangingSystem):
    """libspatialindex through ``rtree``: bulk loaded, queried with many points at once."""

    name = "rtree"
    package = "rtree"

    def __init__(self, work: BoxWork) -> None:
        index = importlib.import_module("rtree.index")
        d = work.lo.shape[1]
        lo, hi = _bounded(work.lo), _bounded(work.hi)
        self._index = index.Index(
            (np.arange(len(work)), lo, hi), properties=index.Property(dimension=d), interleaved=True
        )
        self._next_id = len(work)
        self._boxes: dict[int, FloatArray] = {}

    def prepare(self, work: BoxWork, rows: IntArray) -> FloatArray:
        """Return rows of the matrix."""
        return work.filled[rows]

    def match(self, events: FloatArray) -> Any:
        """Return the ids of all matches, and the number of matches of each point."""
        return self._index.intersection_v(events, events)

    def pairs(self, matches: Any) -> Pairs:
        """Return pairs."""
        ids, counts = matches
        return np.repeat(np.arange(len(counts)), counts.astype(np.int64)), ids.astype(np.int64)

    def insert(self, lo: FloatArray, hi: FloatArray) -> Sequence[int]:
        """Add boxes one by one: there is no other way into an index that exists."""
        ids = range(self._next_id, self._next_id + len(lo))
        self._next_id += len(lo)
        for id, box in zip(ids, np.hstack((_bounded(lo), _bounded(hi))), strict=True):
            self._boxes[id] = box
            self._index.insert(id, box)
        return ids

    def delete(self, ids: Sequence[int]) -> None:
        """Remove boxes, which must be named with their bounds."""
        for id in ids:
            self._index.delete(id, self._boxes.pop(id))


class StrTree(MatchingSystem):
    """shapely's STRtree on two attributes, NumPy for the others.

    The two are those whose sides hold the fewest of the events, which is what a user would choose.
    """

    name = "strtree"

    def __init__(self, work: BoxWork) -> None:
        self._axes = _most_selective(work)
        lo, hi = _bounded(work.lo)[:, self._axes], _bounded(work.hi)[:, self._axes]
        self._tree = shapely.STRtree(shapely.box(lo[:, 0], lo[:, 1], hi[:, 0], hi[:, 1]))
        self._rest = [axis for axis in range(work.lo.shape[1]) if axis not in self._axes]
        self._lo, self._hi = work.lo, work.hi

    def prepare(self, work: BoxWork, rows: IntArray) -> tuple[Any, FloatArray]:
        """Return points on the two attributes, and rows of the matrix."""
        points = work.filled[rows]
        return shapely.points(points[:, self._axes]), points

    def match(self, events: tuple[Any, FloatArray]) -> Pairs:
        """Return pairs: those of the tree, filtered by each further attribute."""
        shapes, points = events
        event, row = self._tree.query(shapes)
        for axis in self._rest:
            value = points[event, axis]
            kept = (self._lo[row, axis] <= value) & (value <= self._hi[row, axis])
            event, row = event[kept], row[kept]
        return event, row

    def pairs(self, matches: Any) -> Pairs:
        """Return pairs."""
        event, row = matches
        return event, row


class DuckDb(MatchingSystem):
    """A range join in DuckDB, as users write it, on all its threads."""

    name = "duckdb"
    package = "duckdb"

    def __init__(self, work: BoxWork) -> None:
        self._connection = importlib.import_module("duckdb").connect()
        self._connection.register("bounds", _bounds_table(work))
        self._connection.execute("CREATE TABLE subscriptions AS SELECT * FROM bounds")
        sides = " AND ".join(f"{name} BETWEEN {name}_lo AND {name}_hi" for name in work.names)
        self._query = f"SELECT event, subscription FROM events JOIN subscriptions ON {sides}"

    def prepare(self, work: BoxWork, rows: IntArray) -> pa.Table:
        """Return numbered rows of the table."""
        events = work.filled_events.take(rows)
        return events.append_column("event", pa.array(np.arange(len(events))))

    def match(self, events: pa.Table) -> Any:
        """Return a table of pairs."""
        self._connection.register("events", events)
        return self._connection.sql(self._query).to_arrow_table()

    def pairs(self, matches: Any) -> Pairs:
        """Return pairs."""
        return matches["event"].to_numpy(), matches["subscription"].to_numpy()


class Polars(MatchingSystem):
    """``join_where`` in Polars, on all its threads."""

    name = "polars"
    package = "polars"

    def __init__(self, work: BoxWork) -> None:
        self._polars = importlib.import_module("polars")
        self._subscriptions = self._polars.from_arrow(_bounds_table(work)).lazy()
        column = self._polars.col
        self._sides = [
            side
            for name in work.names
            for side in (column(name) >= column(f"{name}_lo"), column(name) <= column(f"{name}_hi"))
        ]

    def prepare(self, work: BoxWork, rows: IntArray) -> Any:
        """Return a numbered frame."""
        return self._polars.from_arrow(work.filled_events.take(rows)).with_row_index("event").lazy()

    def match(self, events: Any) -> Any:
        """Return a frame of pairs."""
        return events.join_where(self._subscriptions, *self._sides).select("event", "subscription").collect()

    def pairs(self, matches: Any) -> Pairs:
        """Return pairs."""
        return matches["event"].to_numpy().astype(np.int64), matches["subscription"].to_numpy()


def _bounded(side: FloatArray) -> FloatArray:
    return np.clip(side, -_FAR, _FAR)


def _bounds_table(work: BoxWork) -> pa.Table:
    columns: dict[str, Any] = {"subscription": np.arange(len(work))}
    for i, name in enumerate(work.names):
        columns |= {f"{name}_lo": work.lo[:, i].copy(), f"{name}_hi": work.hi[:, i].copy()}
    return pa.table(columns)


def _most_selective(work: BoxWork, sample: int = 100) -> list[int]:
    """Return the two attributes on which the events fit the fewest boxes."""
    points, boxes = work.filled[:sample, None, :], slice(0, 10 * sample)
    fits = (work.lo[boxes] <= points) & (points <= work.hi[boxes])
    share = fits.mean(axis=(0, 1))
    return sorted(np.argsort(share, kind="stable")[:2].tolist())
