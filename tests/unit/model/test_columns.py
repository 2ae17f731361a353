"""Columns: fast paths agree with one-by-one, and every layout is read."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import shapely

from tamis.model.columns import Column, column_from
from tamis.model.types import AttributeType, Boolean, Number, Region, String, Timestamp, Vector


def values(column: Column) -> list[object]:
    return [column.value(i) for i in range(len(column.present))]


@pytest.mark.parametrize(
    ("kind", "data", "want"),
    [
        (Number(), pa.array([1, None, 3], pa.int8()), [1, None, 3]),
        (Number(), pa.array([2**64 - 1], pa.uint64()), [2**64 - 1]),
        (Number(), pa.array([2**53 + 1], pa.int64()), [2**53 + 1]),
        (Number(), pa.array([1.5, None], pa.float32()), [1.5, None]),
        (Number(), pa.array([Decimal("99.95"), Decimal("1.00"), None]), [99.95, 1, None]),
        (Number(), np.array([1.0, np.nan]), [1.0, None]),
        (Number(), np.array([1, 2], np.uint8), [1, 2]),
        (Number(), pd.Series([1, None], dtype="Int64"), [1, None]),
        (Number(), [1, None, Decimal("0.1")], [1, None, 0.1]),
        (String(), pa.array(["a", None]).dictionary_encode(), ["a", None]),
        (String(), pd.Series(["a", None], dtype="category"), ["a", None]),
        (String(), pd.Series(["a", None], dtype="string"), ["a", None]),
        (String(), pd.Series(["a", float("nan")]), ["a", None]),
        (Region(), pd.Series([shapely.Point(1, 2), None]), [shapely.Point(1, 2), None]),
        (String(), np.array(["a", "b"]), ["a", "b"]),
        (Boolean(), pa.array([True, None, False]), [True, None, False]),
        (Boolean(), np.array([True, False]), [True, False]),
        (Timestamp(), pa.array([1, None], pa.timestamp("s", "Europe/Berlin")), [1_000_000, None]),
        (Timestamp(), pa.array([1999, -1], pa.timestamp("ns", "UTC")), [1, -1]),
        (Timestamp(), pa.array([7], pa.int64()), [7]),
        (Timestamp(), pa.array(["1970-01-01T00:00:01Z"]), [1_000_000]),
        (Timestamp("UTC"), pa.array([5], pa.timestamp("ms")), [5000]),
        (Timestamp("UTC"), np.array(["1970-01-01T00:00:01", "NaT"], "datetime64[s]"), [1_000_000, None]),
        (Timestamp(), pd.Series([dt.datetime(1970, 1, 1, tzinfo=dt.UTC), pd.NaT]), [0, None]),
        (Region(), pa.array(["POINT (1 2)", None]), [shapely.Point(1, 2), None]),
        (Region(), pa.array([shapely.Point(1, 2).wkb, None]), [shapely.Point(1, 2), None]),
        (Region(), pa.array([shapely.box(0, 0, 1, 1).wkb], pa.large_binary()), [shapely.box(0, 0, 1, 1)]),
    ],
)
def test_read(kind: AttributeType, data: object, want: list[object]) -> None:
    column = column_from("a", kind, data)
    assert values(column) == want
    assert not column.bad


def test_vectors_in_every_layout() -> None:
    for data in (
        pa.array([[1.0, 2.0], None, [3.0, 4.0]], pa.list_(pa.float32(), 2)),
        pa.array([[9.0, 9.0], [1.0, 2.0], None, [3.0, 4.0]], pa.list_(pa.float64(), 2)).slice(1),
        pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int16())),
        [[1, 2], None, (3, 4)],
    ):
        column = column_from("a", Vector(2), data)
        assert column.values.shape == (3, 2)
        assert column.present.tolist() == [True, False, True]
        assert column.values[2].tolist() == [3.0, 4.0]
    assert column_from("a", Vector(2), np.ones((4, 2), np.float32)).present.all()


@pytest.mark.parametrize(
    ("kind", "data", "bad"),
    [
        (Number(), pa.array([1.0, float("nan"), float("inf")]), [1, 2]),
        (Number(), np.array([np.nan, -np.inf]), [1]),
        (Number(), pa.array(["1", None]), [0]),
        (Number(), pa.array([True]), [0]),
        (Number(), [1, True, "x", float("nan")], [1, 2, 3]),
        (String(), pa.array([1, None]), [0]),
        (Boolean(), pa.array([1]), [0]),
        (Timestamp(), pa.array([0, None], pa.timestamp("us")), [0]),
        (Timestamp(), pa.array([2**62], pa.timestamp("s", "UTC")), [0]),
        (Timestamp(), pa.array(["soon"]), [0]),
        (Region(), pa.array([b"junk", shapely.LineString([(0, 0), (1, 1)]).wkb, None]), [0, 1]),
        (Region(), pa.array([shapely.Point(1, 2, 3).wkb]), [0]),
        (Vector(2), pa.array([[1.0, float("nan")], [1.0, 2.0]], pa.list_(pa.float64(), 2)), [0]),
        (Vector(2), pa.array([[1.0, None]], pa.list_(pa.float64(), 2)), [0]),
        (Vector(2), pa.array([[1.0], [1.0, 2.0]]), [0]),
        (Vector(3), np.ones((1, 2)), [0]),
    ],
)
def test_bad_rows_are_named(kind: AttributeType, data: object, bad: list[int]) -> None:
    column = column_from("a", kind, data)
    assert sorted(column.bad) == bad
    assert not column.present[bad].any()
    assert all(error.row == row and error.attribute == "a" for row, error in column.bad.items())


def test_a_skipped_hour_is_decided_as_for_single_events() -> None:
    kind = Timestamp("Europe/Berlin")
    skipped = dt.datetime(2026, 3, 29, 2, 30)  # the clocks jump from 2 to 3
    column = column_from("a", kind, pa.array([skipped], pa.timestamp("us")))
    assert column.value(0) == kind.canonical(skipped)
