"""Inside the workers: pairs of filters where one covers the other, the grid cells of regions, and their relations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import shapely

from tamis.engine.covering import covering_index
from tamis.errors import ModelError, TableError
from tamis.geometry.relations import relations
from tamis.model.schema import Schema
from tamis.model.subscription import Relation
from tamis.spark.functions.worker_task import WorkerTask

__all__ = ["CoverPairs", "Grid", "bounds_of_regions", "relate", "spread_over_grid"]

_NAMES = [relation.value for relation in Relation]


@dataclass(frozen=True)
class CoverPairs(WorkerTask):
    """Finds the filters of one group that cover filters of another; Spark pickles it for the workers."""

    schema: str
    kind: str

    def __call__(self, outer: pa.Table, inner: pa.Table) -> pa.Table:
        """Return (covering_id, covered_id) for the filters of two groups."""
        schema = Schema.from_json(self.schema)
        index = covering_index(schema, self.kind)
        inner_ids = inner["id"].to_pylist()
        for row, text in enumerate(inner["filter"].to_pylist()):
            self._run(inner_ids[row], partial(index.add, text, row))
        pairs: list[tuple[Any, Any]] = []
        for id, text in zip(outer["id"].to_pylist(), outer["filter"].to_pylist(), strict=True):
            covered = self._run(id, partial(index.find_covered, text))
            pairs.extend((id, inner_ids[row]) for row in covered)
        kinds = outer.schema.field("id").type, inner.schema.field("id").type
        columns = [pa.array([pair[side] for pair in pairs], kinds[side]) for side in (0, 1)]
        return pa.table(columns, names=["covering_id", "covered_id"])

    def _run(self, id: object, act: Any) -> Any:
        """Run an action; an error names the filter that caused it."""
        try:
            return act()
        except ModelError as error:
            raise TableError(f"filter of {id!r}: {error}") from error


@dataclass(frozen=True)
class Grid:
    """Square cells over the plane, counted from the corner (x, y)."""

    x: float
    y: float
    side: float

    def cells(self, low: Any, high: Any) -> tuple[Any, Any]:
        """Return the first and the last cell of boxes, int64[n, 2] each."""
        corner = np.array([self.x, self.y])
        first, last = (np.floor((bound - corner) / self.side).astype(np.int64) for bound in (low, high))
        return first, last


def bounds_of_regions(batches: Iterator[pa.RecordBatch], *, name: str) -> Iterator[pa.RecordBatch]:
    """Yield (xmin, ymin, xmax, ymax) of each region."""
    for batch in batches:
        bounds = shapely.bounds(_shapes(batch.column(name)))
        yield pa.RecordBatch.from_arrays(
            [pa.array(bounds[:, side]) for side in range(4)], names=["xmin", "ymin", "xmax", "ymax"]
        )


def spread_over_grid(
    batches: Iterator[pa.RecordBatch], *, grid: Grid, name: str, form: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Yield each region once per cell that its bounding box meets, with the cell and the first cell of the box."""
    for batch in batches:
        present = batch.filter(batch.column(name).is_valid())
        bounds = shapely.bounds(_shapes(present.column(name)))
        low, high = grid.cells(bounds[:, :2], bounds[:, 2:])
        width, height = (high - low + 1).T
        rows = np.repeat(np.arange(len(low)), width * height)
        offset = np.arange(len(rows)) - np.repeat(np.cumsum(width * height) - width * height, width * height)
        cells = low[rows] + np.column_stack([offset % width[rows], offset // width[rows]])
        coordinates = [*cells.T, *low[rows].T]
        columns = [*present.take(pa.array(rows)).columns, *(pa.array(column) for column in coordinates)]
        yield pa.RecordBatch.from_arrays(columns, schema=form)


def relate(batches: Iterator[pa.RecordBatch], *, wanted: frozenset[str], form: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield (left_id, right_id, relation) of the pairs whose relation is wanted."""
    for batch in batches:
        if not batch.num_rows:
            continue
        codes = relations(batch.column("left_region").to_pylist(), batch.column("right_region").to_pylist())
        names = pa.array([_NAMES[code] for code in codes], pa.string())
        chosen = pc.is_in(names, pa.array(sorted(wanted)))
        columns = [batch.column("left_id"), batch.column("right_id"), names]
        yield pa.RecordBatch.from_arrays([column.filter(chosen) for column in columns], schema=form)


def _shapes(column: pa.Array) -> Any:
    """Return the shapes of a column of WKB or WKT."""
    values = np.array(column.to_pylist(), dtype=object)
    try:
        return shapely.from_wkt(values) if pa.types.is_string(column.type) else shapely.from_wkb(values)
    except shapely.errors.GEOSException as error:
        raise TableError(f"a region cannot be read: {error}") from error
