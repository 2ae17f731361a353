"""Tiles: the space of up to two attributes cut into cells, so that no worker needs the whole index.

A subscription goes to every tile its box meets, an event to every tile it lies in (a region may lie in several),
and a pair that meets in several tiles is put out by one of them, its *owner*: the tile with, on each axis, the
larger of the two lowest cells. So each pair comes out once, and nothing is made unique afterwards.

On an axis, cell 0 is for events without a value; the others lie between the cuts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import shapely

from tamis.algebra.evaluate import constraint_holds
from tamis.engine.snapshot.manifest import Part
from tamis.errors import SchemaError
from tamis.model.columns import Column
from tamis.model.schema import Schema
from tamis.model.subscription import Constraint, Filter, Relation, Spatial, Values
from tamis.model.types import Number, Region
from tamis.model.value_set import Cut

__all__ = ["Extents", "TileAxis", "Tiles", "Tiling", "axes_for", "hull"]

Cells = npt.NDArray[np.int32]

#: What a subscription asks of an axis: the least and the greatest value, and whether a missing one will do.
Extent = tuple[float, float, bool]
_EVERYTHING: Extent = (-math.inf, math.inf, True)


class Extents(NamedTuple):
    """What subscriptions ask of axes, [n, axes] each: the least and the greatest value, and whether none will do."""

    lo: npt.NDArray[np.float64]
    hi: npt.NDArray[np.float64]
    missing: npt.NDArray[np.bool_]

    @classmethod
    def everything(cls, n: int, n_axes: int) -> Extents:
        """Return the extents of subscriptions that ask nothing."""
        return cls(np.full((n, n_axes), -np.inf), np.full((n, n_axes), np.inf), np.ones((n, n_axes), np.bool_))


class TileAxis(msgspec.Struct, frozen=True):
    """One axis of the tiles: a number, or one coordinate of a region."""

    attribute: str
    side: Literal["value", "x", "y"]
    cuts: list[float] = []

    def cells(self, values: npt.NDArray[np.float64]) -> Cells:
        """Return the cells of values, none of them missing."""
        return (np.searchsorted(self.cuts, values, side="right") + 1).astype(np.int32)

    @property
    def n(self) -> int:
        """How many cells there are."""
        return len(self.cuts) + 2


class Tiling(msgspec.Struct, frozen=True):
    """The axes; a tile is numbered by its cells."""

    axes: list[TileAxis]

    def number(self, cells: Sequence[Cells]) -> Cells:
        """Return the tiles with these cells, one array of cells per axis."""
        tiles: Cells = np.zeros(len(cells[0]), np.int32)
        for axis, cell in zip(self.axes, cells, strict=True):
            tiles = tiles * np.int32(axis.n) + cell
        return tiles

    def cells(self, tiles: Cells) -> list[Cells]:
        """Return the cells of tiles, an array per axis."""
        numbers = []
        for axis in reversed(self.axes):
            numbers.append(tiles % np.int32(axis.n))
            tiles = tiles // np.int32(axis.n)
        return numbers[::-1]

    def owner(self, a: Cells, b: Cells) -> Cells:
        """Return the tile that owns a pair, given the lowest tile of either."""
        return self.number([np.maximum(x, y) for x, y in zip(self.cells(a), self.cells(b), strict=True)])

    def of_subscriptions(self, extents: Extents) -> tuple[npt.NDArray[np.int64], Cells]:
        """Return (subscription, tile) for every tile that a subscription goes to, ascending, its lowest tile first."""
        rows, cells = np.arange(len(extents.lo)), list[Cells]()
        for number, axis in enumerate(self.axes):
            lo, hi, absent = extents.lo[:, number], extents.hi[:, number], extents.missing[:, number]
            first = axis.cells(lo)
            width = (np.where(lo <= hi, axis.cells(hi) - first + 1, 0) + absent)[rows]
            steps = np.arange(width.sum()) - np.repeat(np.cumsum(width) - width, width)
            rows, cells = np.repeat(rows, width), [np.repeat(cell, width) for cell in cells]
            is_absent = absent[rows]
            cells.append(np.where(is_absent & (steps == 0), 0, first[rows] + steps - is_absent).astype(np.int32))
        return rows, self.number(cells)

    def of_events(self, columns: dict[str, Column], n: int) -> tuple[npt.NDArray[np.int64], Cells, Cells]:
        """Return (event, tile, lowest tile of the event) for every tile an event lies in."""
        spans = [_span(axis, columns.get(axis.attribute), n) for axis in self.axes]
        low = self.number([first for first, _ in spans])
        events, cells = np.arange(n), [first for first, _ in spans]
        for number, (first, last) in enumerate(spans):
            width = (last - first + 1)[events]
            steps = np.arange(width.sum()) - np.repeat(np.cumsum(width) - width, width)
            events = np.repeat(events, width)
            cells = [np.repeat(cell, width) for cell in cells]
            cells[number] = cells[number] + steps.astype(np.int32)
        return events, self.number(cells), low[events]


class Tiles(msgspec.Struct, frozen=True):
    """What the file ``tiles.json`` of a version says: the tiling, and the parts of each tile."""

    tiling: Tiling
    parts: dict[int, list[Part]]
    #: Subscriptions in all tiles together for each one that there is: the price of not needing the whole index.
    replication: float


def axes_for(names: Sequence[str], schema: Schema) -> list[TileAxis]:
    """Return the axes, without cuts, of the attributes to cut by: two numbers at most, or one region."""
    axes = []
    for name in names:
        kind = schema.get(name)
        if isinstance(kind, Region):
            axes += [TileAxis(name, "x"), TileAxis(name, "y")]
        elif isinstance(kind, Number):
            axes.append(TileAxis(name, "value"))
        else:
            raise SchemaError(name, "tiles are cut by a number or a region of the schema")
    if not 1 <= len(axes) <= 2:
        raise SchemaError(", ".join(names), "tiles are cut by one or two numbers, or by one region")
    return axes


def hull(filters: Sequence[Filter], axis: TileAxis) -> Extent:
    """Return the least extent on an axis that holds everything the filters can match."""
    extents = [_filter_extent(filter, axis) for filter in filters]
    if not extents:
        return math.inf, -math.inf, False
    lows, highs, missing = zip(*extents, strict=True)
    return min(lows), max(highs), any(missing)


def _filter_extent(filter: Filter, axis: TileAxis) -> Extent:
    lo, hi, missing = _EVERYTHING
    for constraint in filter.constraints:
        if constraint.attribute == axis.attribute:
            low, high, absent = _extent(constraint, axis)
            lo, hi, missing = max(lo, low), min(hi, high), missing and absent
    return lo, hi, missing


def _extent(constraint: Constraint, axis: TileAxis) -> Extent:
    if isinstance(constraint, Spatial):
        if Relation.DISJOINT in constraint.relations:
            return -math.inf, math.inf, False
        left, bottom, right, top = constraint.region.bounds
        return (left, right, False) if axis.side == "x" else (bottom, top, False)
    absent = constraint_holds({}, constraint)
    if isinstance(constraint, Values) and axis.side == "value" and constraint.allowed.has_values:
        pieces = list(constraint.allowed.intervals())
        return _outward(pieces[0][0], -math.inf), _outward(pieces[-1][1], math.inf), absent
    if isinstance(constraint, Values) and not constraint.allowed.has_values:
        return math.inf, -math.inf, absent
    return -math.inf, math.inf, absent


def _outward(cut: Cut | None, end: float) -> float:
    """Return a float64 at a cut or just outside it: an integer may lie between two of them."""
    if cut is None:
        return end
    return math.nextafter(float(cut[0]), end)


def _span(axis: TileAxis, column: Column | None, n: int) -> tuple[Cells, Cells]:
    """Return the first and the last cell of each event on an axis."""
    first = np.zeros(n, np.int32)
    if column is None:
        return first, first
    rows = np.flatnonzero(column.present)
    low, high = _values(axis, column.values, rows)
    last = first.copy()
    first[rows], last[rows] = axis.cells(low), axis.cells(high)
    return first, last


def _values(axis: TileAxis, values: Any, rows: npt.NDArray[np.intp]) -> tuple[npt.NDArray[np.float64], ...]:
    """Return the least and greatest value of the chosen events, widened by what float64 rounds away."""
    if axis.side == "value":
        exact = np.asarray(values)[rows]
        rounded = exact.astype(np.float64)
        if exact.dtype == np.float64:
            return rounded, rounded
        return np.nextafter(rounded, -np.inf), np.nextafter(rounded, np.inf)
    bounds = shapely.bounds(values[rows]).reshape(-1, 4)
    side = 0 if axis.side == "x" else 1
    return bounds[:, side], bounds[:, side + 2]
