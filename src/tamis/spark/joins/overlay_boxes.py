"""Inside the workers: subscriptions and events as boxes and points in the space of a network of peers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tamis.algebra.compiling_texts import TextTemplates
from tamis.curves.hilbert import MAX_BITS, MAX_DIMENSIONS, HilbertCurve
from tamis.errors import ModelError, TableError
from tamis.model.schema import Schema
from tamis.model.tables import EventTable
from tamis.overlay.space import MISSING, Space

__all__ = ["axis_names", "boxes_of_rules", "curve_keys", "points_of_events"]

#: A key is an int64.
_KEY_BITS = 62


def axis_names(space: Space) -> list[str]:
    """Return a name for each axis of a space."""
    return [f"axis{number}" for number in range(len(space))]


def boxes_of_rules(batches: Iterator[pa.RecordBatch], *, schema: str, form: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield (owner, key, low, high) of the subscriptions that something can match."""
    read_schema = Schema.from_json(schema)
    space, templates = Space(read_schema), TextTemplates()
    for batch in batches:
        owners, boxes = [], []
        for id, text in zip(batch.column("id").to_pylist(), batch.column("filter").to_pylist(), strict=True):
            try:
                box = space.box_of(templates.compile(text, read_schema).filters)
            except ModelError as error:
                raise TableError(f"filter of {id!r}: {error}") from error
            if box is not None:
                owners.append(id)
                boxes.append(box)
        stacked = np.array(boxes).reshape(-1, 2, len(space))
        columns = [owners, curve_keys(stacked.mean(axis=1)), list(stacked[:, 0]), list(stacked[:, 1])]
        yield pa.RecordBatch.from_arrays(
            [pa.array(column, field.type) for column, field in zip(columns, form, strict=True)], schema=form
        )


def curve_keys(points: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Return the Hilbert keys of points whose coordinates are -1 to 1; of many axes the first eight count."""
    dimensions = min(points.shape[1], MAX_DIMENSIONS)
    bits = min(MAX_BITS, _KEY_BITS // dimensions)
    shares = (points[:, :dimensions] - MISSING) / (1.0 - MISSING)
    cells = np.minimum((shares * (1 << bits)).astype(np.int64), (1 << bits) - 1)
    keys: npt.NDArray[np.int64] = HilbertCurve(dimensions, bits).keys(cells)
    return keys


def points_of_events(
    batches: Iterator[pa.RecordBatch], *, schema: str, names: Sequence[str], form: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Yield (event_id, coordinates) of events; an event whose values do not fit reaches no peer."""
    read_schema = Schema.from_json(schema)
    space = Space(read_schema)
    for batch in batches:
        values = pa.RecordBatch.from_arrays(batch.columns[1:], names=list(names))
        table = EventTable.of(values, read_schema)
        rows = [row for row in range(batch.num_rows) if row not in table.bad]
        points = np.array([space.box_of_event(table.event(row))[0] for row in rows]).reshape(-1, len(space))
        columns = [batch.column(0).take(pa.array(rows, pa.int64())), *(pa.array(side) for side in points.T)]
        yield pa.RecordBatch.from_arrays(columns, schema=form)
