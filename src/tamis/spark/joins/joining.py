"""Inside the workers: pairs of filters where one covers the other, the grid cells of regions, and their relations."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import shapely

from tamis.engine.covering import covering_index
from tamis.errors import TableError
from tamis.geometry.relations import CheckedRegions, checked_regions, relations
from tamis.model.columns import column_from
from tamis.model.schema import Schema
from tamis.model.subscription import Relation, Subscription
from tamis.model.types import Region
from tamis.spark.functions.worker_task import WorkerTask
from tamis.spark.subscriptions.rule_texts import reader_of

__all__ = ["CoverPairs", "Grid", "bounds_of_regions", "relate", "spread_over_grid"]

_NAMES = [relation.value for relation in Relation]

#: Bytes of regions in one batch of copies.
_PART_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True)
class CoverPairs(WorkerTask):
    """Finds the filters of one part that cover filters of another; Spark pickles it for the workers."""

    schema: str
    kind: str
    options: dict[str, Any]

    def __call__(self, outer: pa.Table, inner: pa.Table) -> pa.Table:
        """Return (covering_id, covered_id) for the filters of two parts."""
        index = covering_index(Schema.from_json(self.schema), self.kind, **self.options)
        for row, subscription in enumerate(self._compiled(inner)):
            index.add(subscription, row)
        covered = index.find_covered_each(self._compiled(outer))
        rows = np.fromiter(itertools.chain.from_iterable(covered), np.int64)
        pairs = np.repeat(np.arange(len(outer)), [len(each) for each in covered]), rows
        columns = [table["id"].take(pa.array(chosen)) for table, chosen in zip((outer, inner), pairs, strict=True)]
        return pa.table(columns, names=["covering_id", "covered_id"])

    def _compiled(self, table: pa.Table) -> list[Subscription]:
        """Return the filters of a part as subscriptions; an error names the filter that cannot be compiled."""
        texts = table["filter"].to_pylist()
        unnamed = next((row for row, id in enumerate(table["id"].to_pylist()) if id is None), None)
        if unnamed is not None:
            raise TableError(f"a row has no id (its filter: {texts[unnamed]!r}); give every row an id, or leave it out")
        missing = next((row for row, text in enumerate(texts) if text is None), None)
        if missing is not None:
            raise TableError(f"filter of {table['id'][missing].as_py()!r}: it is missing")
        compiled = reader_of(self.schema).read(texts, columns=False)
        if compiled.bad is not None:
            error = compiled.bad.error
            raise TableError(f"filter of {table['id'][compiled.bad.row].as_py()!r}: {error}") from error
        return [Subscription(row, filters, texts[row]) for row, filters in compiled.others]


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
        bounds = _bounds(batch, name)
        yield pa.RecordBatch.from_arrays(
            [pa.array(bounds[:, side]) for side in range(4)], names=["xmin", "ymin", "xmax", "ymax"]
        )


def spread_over_grid(
    batches: Iterator[pa.RecordBatch], *, grid: Grid, name: str, form: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Yield each region once per cell that its bounding box meets, with the cell and the first cell of the box."""
    for batch in batches:
        present = batch.filter(batch.column(name).is_valid())
        bounds = _bounds(present, name)
        low, high = grid.cells(bounds[:, :2], bounds[:, 2:])
        width, height = (high - low + 1).T
        rows = np.repeat(np.arange(len(low)), width * height)
        offset = np.arange(len(rows)) - np.repeat(np.cumsum(width * height) - width * height, width * height)
        cells = low[rows] + np.column_stack([offset % width[rows], offset // width[rows]])
        coordinates = [*cells.T, *low[rows].T]
        for part in _parts(present.column(name), rows):
            copies = present.take(pa.array(rows[part])).columns
            columns = [*copies, *(pa.array(column[part]) for column in coordinates)]
            yield pa.RecordBatch.from_arrays(columns, schema=form)


def relate(batches: Iterator[pa.RecordBatch], *, wanted: frozenset[str], form: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield (left_id, right_id, relation) of the pairs whose relation is wanted."""
    for batch in batches:
        if not batch.num_rows:
            continue
        codes = relations(*(_checked(batch, side) for side in ("left", "right")))
        names = pa.array([_NAMES[code] for code in codes], pa.string())
        chosen = pc.is_in(names, pa.array(sorted(wanted)))
        columns = [batch.column("left_id"), batch.column("right_id"), names]
        yield pa.RecordBatch.from_arrays([column.filter(chosen) for column in columns], schema=form)


def _bounds(batch: pa.RecordBatch, name: str) -> npt.NDArray[np.float64]:
    """Return the bounding boxes of a column of WKB or WKT, NaN where it is null; an error names the region's id."""
    column = column_from(name, Region(), batch.column(name))
    for row, error in sorted(column.bad.items()):
        raise TableError(f"{name} of {batch['id'][row].as_py()!r}: {error.problem}")
    bounds: npt.NDArray[np.float64] = shapely.bounds(column.values).reshape(-1, 4)
    return bounds


def _checked(batch: pa.RecordBatch, side: str) -> CheckedRegions:
    """Return the regions on one side of pairs; an error names the region's id."""
    try:
        return checked_regions(batch.column(f"{side}_region").to_pylist())
    except TableError as error:
        raise TableError(f"region of {batch[f'{side}_id'][error.row].as_py()!r}: {error.problem}") from error


def _parts(regions: pa.Array, rows: npt.NDArray[np.int64]) -> Iterator[slice]:
    """Yield the parts of ``rows`` whose regions have about `_PART_BYTES`: one region may be copied to every cell."""
    total = np.cumsum(pc.binary_length(regions).to_numpy()[rows], dtype=np.int64)
    ends = np.flatnonzero(np.diff(total // _PART_BYTES)) + 1
    for start, stop in itertools.pairwise([0, *ends.tolist(), len(rows)]):
        yield slice(start, stop)
