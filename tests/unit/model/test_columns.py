"""Columns: fast paths agree with one-by-one, and every layout is read."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import shapely

from tamis.errors import TableError
from tamis.model.columns import Column, column_from
from tamis.model.types import AttributeType, Boolean, Number, Region, String, Timestamp, Vector

#: A string array whose bytes were never checked.
NOT_UTF8 = pa.Array.from_buffers(pa.string(), 2, pa.array([None, b"\xff"]).buffers())


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
        (Timestamp(), pa.array([-(2**63), 2**63 - 1], pa.timestamp("us", "UTC")), [-(2**63), 2**63 - 1]),
        (Number(), np.ma.array([1.0, np.inf, np.nan], mask=[0, 1, 0]), [1.0, None, None]),
        (Number(), np.ma.array([1, 2], mask=[1, 0], dtype=np.uint8), [None, 2]),
        (String(), np.ma.array(["a", "b"], mask=[0, 1]), ["a", None]),
        (Boolean(), np.ma.array([True, True], mask=[0, 1]), [True, None]),
        (Timestamp("UTC"), np.ma.array([7000, 0], "datetime64[ns]", mask=[0, 1]), [7, None]),
        (Region(), np.array([[1.0, 2.0]]), [shapely.Point(1, 2)]),
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
        pa.array([[1.0, 2.0], None, [3.0, 4.0]], pa.list_(pa.float64(), 2)).cast(pa.list_(pa.float16(), 2)),
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
        (Timestamp(), pa.array([-(2**63), 0], pa.timestamp("s", "UTC")), [0]),
        (Timestamp(), pa.array([-(2**63), 0], pa.timestamp("ms", "UTC")), [0]),
        (Timestamp("Europe/Berlin"), pa.array([-(2**63), 0, 2**62], pa.timestamp("us")), [0, 2]),
        (Number(), pa.array([2**62, None], pa.timestamp("s", "UTC")), [0]),
        (Number(), NOT_UTF8, [1]),
        (String(), NOT_UTF8, [1]),
        (String(), NOT_UTF8.dictionary_encode(), [1]),
        (String(), pd.Series(["a", "\ud800"]), [1]),
        (Vector(2), np.ma.array([[1.0, 2.0], [3.0, 4.0]], mask=[[0, 0], [0, 1]]), [1]),
        (Region(), pa.array([b"junk", shapely.LineString([(0, 0), (0, 0)]).wkb, None]), [0, 1]),
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


def test_rows_beside_bad_text_are_read() -> None:
    raw = pa.array([b"a", b"\xff", None, "é".encode()])
    for text in (pa.string(), pa.string_view()):
        buffers = (raw if text == pa.string() else raw.cast(pa.binary_view())).buffers()
        column = column_from("a", String(), pa.Array.from_buffers(text, 4, buffers))
        assert values(column) == ["a", None, None, "é"]
        assert column.values.type == pa.large_string()
        assert str(column.bad[1]) == r"row 1, attribute 'a': not text: the bytes are not UTF-8 (got b'\xff')"


def test_integers_of_a_vector_are_rounded_to_float64() -> None:
    data = [[2**53 + 1, 1], None]
    column = column_from("a", Vector(2), pa.array(data, pa.list_(pa.int64(), 2)))
    assert column.values[0].tolist() == [2.0**53, 1.0] == Vector(2).canonical(data[0]).tolist()
    assert column.present.tolist() == [True, False]


def test_a_vector_is_missing_when_all_of_it_is_masked() -> None:
    column = column_from("a", Vector(2), np.ma.array([[1.0, 2.0], [3.0, 4.0]], mask=[[0, 0], [1, 1]]))
    assert column.present.tolist() == [True, False]
    assert not column.bad


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        (Number(), np.ones((2, 2))),
        (Number(), np.ones((2, 2), int)),
        (Number(), np.ma.ones((2, 2))),
        (String(), np.array([["a"]])),
        (Boolean(), np.array([[True]])),
        (Timestamp(), np.ones((2, 2), int)),
        (Region(), np.ones((2, 3))),
        (Vector(2), np.ones((2, 2, 2))),
        (Vector(2), np.array(5)),
        (Number(), np.array(5)),
    ],
)
def test_dimensions(kind: AttributeType, data: object) -> None:
    with pytest.raises(TableError, match="column 'a': an array of . dimensions cannot hold"):
        column_from("a", kind, data)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_an_ambiguous_hour_beside_a_time_far_away(unit: str) -> None:
    kind = Timestamp("Europe/Berlin")
    ambiguous = dt.datetime(2026, 10, 25, 2, 30)
    array = pa.array([ambiguous, None, ambiguous], pa.timestamp(unit))
    far = pa.array([2**60], pa.timestamp("s" if unit == "ns" else unit))
    column = column_from("a", kind, array)
    assert values(column) == [kind.canonical(ambiguous), None, kind.canonical(ambiguous)]
    if unit != "ns":
        column = column_from("a", kind, pa.concat_arrays([array, far]))
        assert values(column) == [kind.canonical(ambiguous), None, kind.canonical(ambiguous), None]
        assert list(column.bad) == [3]


def test_summer_times_after_2037_are_those_of_single_events() -> None:
    kind = Timestamp("America/New_York")
    summer = [dt.datetime(year, 7, 1, 12) for year in (2026, 2037, 2038, 2616, 9999)]
    assert values(column_from("a", kind, pa.array(summer, pa.timestamp("us")))) == [kind.canonical(t) for t in summer]


def test_a_skipped_hour_is_decided_as_for_single_events() -> None:
    kind = Timestamp("Europe/Berlin")
    skipped = dt.datetime(2026, 3, 29, 2, 30)  # the clocks jump from 2 to 3
    column = column_from("a", kind, pa.array([skipped], pa.timestamp("us")))
    assert column.value(0) == kind.canonical(skipped)
