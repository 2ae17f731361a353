"""Tables: many events or subscriptions as columns, without an object per row.

`EventTable` is what `Engine.match_table` and Spark read; `SubscriptionTable` is what bulk loading takes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Self, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tamis.errors import EventError, ModelError, TableError
from tamis.model.arrow_types import repeated, schema_from_arrow
from tamis.model.columns import Column, column_from, joined_column, presence_column, python_values
from tamis.model.schema import ALL_STRINGS, COMPUTED, MAX_ATTRIBUTES, Schema, shown_by_events
from tamis.model.subscription import DEFAULT_NAMESPACE, Ball, Filter, Subscription, SubscriptionId, Values
from tamis.model.types import AttributeType, Many, String, Timestamp, type_of_value
from tamis.model.types.paths import column_at
from tamis.model.value_set import ValueSet
from tamis.model.values import INT64_MAX, INT64_MIN, Value, has_lone_surrogate, is_null

__all__ = ["EventTable", "SubscriptionTable", "checked_id", "learn_from_table", "range_problem", "table_columns"]


#: Values of a column that are looked at for its type.
_TRIED = 10_000


@dataclass(frozen=True)
class EventTable:
    """Many events as canonical columns.

    Examples
    --------
    >>> from tamis.model.types import Number
    >>> table = EventTable.of({"price": np.array([1.0, np.nan])}, Schema({"price": Number()}))
    >>> table.event(0), table.event(1)
    ({'price': 1.0}, {})
    """

    n: int
    columns: Mapping[str, Column]

    @classmethod
    def of(cls, source: Any, schema: Schema, *, presence: bool = False) -> Self:
        """Read a pyarrow table or batch, a pandas frame or a dict of arrays; unknown columns are ignored.

        With ``presence`` an unknown column becomes one of type boolean that is true wherever there is a value.
        """
        data, n = table_columns(source)
        columns = {}
        for name, values in data.items():
            if name in schema and name not in schema.unasked:
                columns[name] = column_from(name, schema[name], values)
            elif (presence or name in schema) and not name.startswith(COMPUTED):
                columns[name] = presence_column(values)
        for name in schema.paths:
            values = None if name in data or name in schema.unasked else column_at(data, name)
            if values is not None:
                columns[name] = column_from(name, schema[name], values)
        if isinstance(schema.get(ALL_STRINGS), String) and ALL_STRINGS not in columns:
            columns[ALL_STRINGS] = joined_column(ALL_STRINGS, [data[name] for name in sorted(data)], n)
        return cls(n, columns)

    def check_types(self, schema: Schema) -> None:
        """Raise `ModelError` unless the columns have the types of a schema, up to their limits."""
        for name, column in self.columns.items():
            kind = None if name in schema.unasked else schema.get(name)
            if kind is not None and _shape(kind) != _shape(column.kind):
                raise ModelError(
                    f"attribute {name!r}: the event table has it as {column.kind}, the engine as {kind}; make it "
                    f"with the schema of the engine: EventTable.of(events, engine.schema)"
                )

    @property
    def bad(self) -> dict[int, EventError]:
        """The rows with a value that does not fit, each with its first reason."""
        errors: dict[int, EventError] = {}
        for column in self.columns.values():
            for row, error in column.bad.items():
                errors.setdefault(row, error)
        return dict(sorted(errors.items()))

    def event(self, row: int) -> dict[str, Value]:
        """Return one row as a canonical event."""
        values = ((name, column.value(row)) for name, column in self.columns.items())
        return {name: value for name, value in values if value is not None}

    def part(self, start: int, stop: int) -> EventTable:
        """Return the events from ``start`` to before ``stop``; they share their values with these."""
        return EventTable(stop - start, {name: column.part(start, stop) for name, column in self.columns.items()})

    def __len__(self) -> int:
        return self.n

    def __iter__(self) -> Iterator[dict[str, Value]]:
        return (self.event(row) for row in range(self.n))


def table_columns(source: Any) -> tuple[dict[str, Any], int]:
    """Return the columns of a table-like object by name, and how many rows it has."""
    if isinstance(source, pa.Table | pa.RecordBatch):
        names, data = source.schema.names, source.columns
        n = source.num_rows
    elif isinstance(source, Mapping):
        names = [str(name) for name in source]
        data = [_sized(name, values) for name, values in source.items()]
        n = len(data[0]) if data else 0
    elif hasattr(source, "columns") and hasattr(source, "iloc"):
        names = [str(name) for name in source.columns]
        data, n = [source.iloc[:, i] for i in range(len(names))], len(source)
    else:
        kind = type(source).__name__
        raise TableError(f"expected a pyarrow table, a pandas frame or a dict of arrays, not {kind}")
    twice = repeated(names)
    if twice is not None:
        raise TableError(f"duplicate column {twice!r}")
    columns = dict(zip(names, data, strict=True))
    for name, values in columns.items():
        if len(values) != n:
            raise TableError(f"column {name!r} has {len(values)} rows, the first column has {n}")
    return columns, n


def learn_from_table(schema: Schema, source: Any) -> Schema:
    """Return the schema extended by the columns of a table that it does not know yet.

    A full schema (`MAX_ATTRIBUTES`) learns no more names, as in `learn_from_event`.
    """
    columns, _ = table_columns(source)
    suggested = schema_from_arrow(source) if isinstance(source, pa.Table | pa.RecordBatch) else {}
    types: dict[str, AttributeType] = {}
    for name, values in columns.items():
        if len(schema) + len(types) >= MAX_ATTRIBUTES:
            break
        if not name or name.startswith(COMPUTED) or name in schema:
            continue
        kind = suggested.get(name) if suggested else _shown_type(values)
        if kind is not None:
            types[name] = kind
    return shown_by_events(schema, types)


def _shown_type(values: Any) -> AttributeType | None:
    """Return the type of a column that is not Arrow, by its first value with a known type."""
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return schema_from_arrow(pa.table({"": values})).get("")
    for value in itertools.islice(values, _TRIED):
        kind = None if is_null(value) else type_of_value(value)
        if kind is not None:
            return kind
    return None


def _sized(name: object, values: Any) -> Any:
    dimensions = getattr(values, "ndim", 1)
    is_frame = dimensions != 1 and not isinstance(values, np.ndarray)
    if isinstance(values, str | bytes | Mapping | Set) or not hasattr(values, "__len__") or is_frame or not dimensions:
        raise TableError(f"column {name!r}: expected an array of values, not {type(values).__name__}")
    return values


def checked_id(value: object, row: int | None = None) -> SubscriptionId:
    """Return a subscription id as str or int, or raise `TableError`: bool and everything else are refused."""
    if isinstance(value, np.integer):
        value = int(value)
    if isinstance(value, str) and not has_lone_surrogate(value):
        return str(value)
    if isinstance(value, int) and not isinstance(value, bool) and INT64_MIN <= value <= INT64_MAX:
        return value
    raise TableError(f"a subscription id is a string or an int64, not {value!r}", row)


@dataclass(frozen=True)
class SubscriptionTable:
    """Many subscriptions as columns: boxes (``from_boxes``), balls (``from_balls``) or texts (``from_arrow``).

    ``ids`` is None when the engine is to number them; among texts a single one may be None as well.
    """

    n: int
    ids: Sequence[Any] | None = None
    names: tuple[str, ...] = ()
    lo: npt.NDArray[np.float64] | None = None
    hi: npt.NDArray[np.float64] | None = None
    texts: Sequence[str] | None = None
    namespaces: Sequence[str | None] | None = None
    expires: Sequence[int | None] | None = None
    metadata: Sequence[Mapping[str, str] | None] | None = None
    #: Of a table of balls on ``names[0]``: float64[n, d] and float64[n].
    centers: npt.NDArray[np.float64] | None = None
    radii: npt.NDArray[np.float64] | None = None

    def __len__(self) -> int:
        return self.n

    @classmethod
    def from_boxes(cls, names: Sequence[str], lo: Any, hi: Any, ids: Sequence[SubscriptionId] | None = None) -> Self:
        """Return a table of closed boxes: float64[n, d], a column per name; an infinite side is unconstrained.

        Raises `TableError` that names the row of a NaN, of a lower bound above its upper bound or of an
        integer that is not a float64.
        """
        low, high = _bounds(lo), _bounds(hi)
        if low.ndim != 2 or low.shape != high.shape or low.shape[1] != len(names):
            raise TableError(f"expected two arrays [n, {len(names)}], got {low.shape} and {high.shape}")
        if len(set(names)) != len(names):
            raise TableError("duplicate attribute")
        for side in (lo, hi):
            _check_exact(names, side)
        wrong = ~(low <= high) | (low == np.inf) | (high == -np.inf)
        if wrong.any():
            row, axis = (int(i) for i in np.argwhere(wrong)[0])
            raise TableError(range_problem(names[axis], low[row, axis], high[row, axis]), row)
        if ids is not None and len(ids) != len(low):
            raise TableError(f"{len(ids)} ids for {len(low)} boxes")
        return cls(len(low), _checked_ids(ids), tuple(names), low + 0.0, high + 0.0)

    @classmethod
    def from_balls(cls, name: str, centers: Any, radii: Any, ids: Sequence[SubscriptionId] | None = None) -> Self:
        """Return a table of closed balls of one vector attribute: centers float64[n, d] and radii float64[n].

        Raises `TableError` that names the row of a center or radius that is not finite or of a negative radius.
        """
        middle, reach = _numbers("centers of balls", centers), _numbers("radii of balls", radii)
        if middle.ndim != 2 or reach.shape != middle.shape[:1] or not middle.shape[1]:
            raise TableError(f"expected centers [n, d] and radii [n], got {middle.shape} and {reach.shape}")
        wrong = ~(np.isfinite(middle).all(axis=1) & np.isfinite(reach) & (reach >= 0))
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            problem = f"a ball has a finite center and a finite radius, not negative; the radius is {reach[row]}"
            raise TableError(problem, row)
        if ids is not None and len(ids) != len(reach):
            raise TableError(f"{len(ids)} ids for {len(reach)} balls")
        return cls(len(reach), _checked_ids(ids), (name,), centers=middle + 0.0, radii=reach + 0.0)

    @classmethod
    def from_arrow(cls, arrow: pa.Table | pa.RecordBatch) -> Self:
        """Return a table of texts from the columns id, filter and, optionally, namespace, expires and metadata."""
        if not isinstance(arrow, pa.Table | pa.RecordBatch):
            raise TableError(f"expected a pyarrow table or record batch, not {type(arrow).__name__}")
        columns, n = table_columns(arrow)
        if "filter" not in columns:
            raise TableError(f"there is no column 'filter' (columns: {', '.join(columns) or 'none'})")
        texts = [_filter_text(text, row) for row, text in enumerate(_texts("filter", columns["filter"]))]
        ids = python_values(columns["id"]) if "id" in columns else None
        for row, id in enumerate(ids or ()):
            if id is not None:
                checked_id(id, row)
        namespaces = _texts("namespace", columns["namespace"]) if "namespace" in columns else None
        expires, metadata = _moments(columns.get("expires")), _maps(columns.get("metadata"))
        return cls(n, ids, texts=texts, namespaces=namespaces, expires=expires, metadata=metadata)

    def namespace(self, row: int) -> str:
        """Return the namespace of a row."""
        namespace = self.namespaces[row] if self.namespaces is not None else None
        return DEFAULT_NAMESPACE if namespace is None else namespace

    def box_subscription(self, row: int, id: SubscriptionId) -> Subscription:
        """Return the subscription of one box or ball."""
        expires = self.expires[row] if self.expires is not None else None
        filter = self._box(row) if self.centers is None else self._ball(row)
        return Subscription(id, (filter,), None, self.namespace(row), expires)

    def balls(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Return the centers and radii of all balls, float64[n, d] and float64[n]."""
        if self.centers is None or self.radii is None:
            raise TableError("expected a table of balls, not of boxes")
        return self.centers, self.radii

    def corners(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Return the lower and upper bounds of all boxes, float64[n, d]."""
        if self.lo is None or self.hi is None:
            raise TableError("expected a table of boxes, not of balls")
        return self.lo, self.hi

    def _box(self, row: int) -> Filter:
        lower, upper = self.corners()
        constraints = []
        for name, lo, hi in sorted(zip(self.names, lower[row].tolist(), upper[row].tolist(), strict=True)):
            start = None if lo == -np.inf else (lo, 0)
            stop = None if hi == np.inf else (hi, 1)
            if start is not None or stop is not None:
                constraints.append(Values(name, ValueSet.between(start, stop)))
        return Filter(tuple(constraints))

    def _ball(self, row: int) -> Filter:
        centers, radii = self.balls()
        return Filter((Ball(self.names[0], tuple(centers[row].tolist()), float(radii[row])),))


def _checked_ids(ids: Sequence[SubscriptionId] | None) -> list[SubscriptionId] | None:
    return None if ids is None else [checked_id(id, row) for row, id in enumerate(ids)]


def _bounds(side: Any) -> npt.NDArray[np.float64]:
    """Return one side of boxes as float64, or raise `TableError` when it is not an array of numbers."""
    array = _numbers("bounds of boxes", side)
    if np.ma.is_masked(side):
        raise TableError("a masked bound; an infinite one leaves a side open")
    return array


def _numbers(what: str, values: Any) -> npt.NDArray[np.float64]:
    try:
        array = np.asarray(values)
    except ValueError:  # rows of different lengths
        raise TableError(f"{what} are numbers, as many in each row") from None
    if array.dtype.kind not in "iuf":
        raise TableError(f"{what} are numbers, not an array of {array.dtype}")
    return np.ascontiguousarray(array, dtype=np.float64)


def _check_exact(names: Sequence[str], side: Any) -> None:
    """Raise `TableError` for an integer that becomes another number as float64."""
    if isinstance(side, np.ndarray):
        if side.dtype.kind == "f":
            return
        column = side
    else:  # a list or a frame may mix int and float, which np.asarray makes float
        column = side.to_numpy(dtype=object) if hasattr(side, "iloc") else np.array(side, dtype=object)
    with np.errstate(invalid="ignore"):  # a NaN among objects; `from_boxes` names it
        large = (column > 2**53) | (column < -(2**53))
    for row, axis in np.argwhere(large).tolist():
        value = column[row, axis]
        if isinstance(value, int | np.integer) and int(float(value)) != int(value):
            raise TableError(f"{names[axis]!r}: {value} is not exact as float64, as bounds of boxes must be", row)


def range_problem(name: str, low: float, high: float) -> str:
    """Return the problem with two bounds that are not a range."""
    if low > high:
        return f"{name!r}: lower bound {low} is above upper bound {high}"
    return f"{name!r}: bounds {low} and {high} are not a range"


def _filter_text(text: str | None, row: int) -> str:
    if text is None:
        raise TableError("the filter is None, not text", row)
    return text


def _texts(name: str, column: Any) -> list[str | None]:
    read = column_from(name, String(), column)
    for row, error in sorted(read.bad.items()):
        raise TableError(f"the {name} is {error.value!r}, not text", row)
    return cast(list[str | None], read.values.to_pylist())


def _moments(column: Any) -> list[int | None] | None:
    if column is None:
        return None
    read = column_from("expires", Timestamp(), column)
    for row, error in read.bad.items():
        raise TableError(error.problem, row)
    return [None if value is None else int(value) for value in map(read.value, range(len(column)))]


def _maps(column: Any) -> list[dict[str, str] | None] | None:
    if column is None:
        return None
    mappings = []
    for row, value in enumerate(python_values(column)):
        try:
            mapping = None if value is None else dict(value)
        except (TypeError, ValueError):
            raise TableError(f"the metadata is {value!r}; expected a map", row) from None
        if mapping is not None and not all(isinstance(word, str) for pair in mapping.items() for word in pair):
            raise TableError(f"metadata must map strings to strings, got {value!r}", row)
        mappings.append(mapping)
    return mappings


def _shape(kind: AttributeType) -> tuple[object, ...]:
    """Return what two types must have in common for their canonical values to be compared."""
    return type(kind), _shape(kind.element) if isinstance(kind, Many) else getattr(kind, "n", None)
