"""What passes the check before GEOS reads it, and what is refused with which reason."""

from __future__ import annotations

import struct

import pyarrow as pa
import pytest
import shapely

from tamis.errors import LimitError
from tamis.model.geometry_text import MAX_BYTES, read_wkb, read_wkb_column, read_wkt
from tamis.model.values import UnfitError


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (b"", "ends too early"),
        (b"\x01", "ends too early"),
        (b"\x07\x01\x00\x00\x00" + bytes(16), "byte order"),
        (struct.pack("<BII", 1, 3, 2**32 - 1), "4294967295 rings"),
        (struct.pack("<BIII", 1, 3, 1, 2**32 - 1), "ends too early"),
        (struct.pack("<BII", 1, 6, 2**32 - 1), "4294967295 parts"),
        (struct.pack("<BII", 1, 2, 2**31), "ends too early"),
        (struct.pack("<BII", 1, 6, 1) + struct.pack("<BIdd", 1, 1, 0, 0), "inside a MultiPolygon"),
        (struct.pack("<BII", 1, 7, 1) + struct.pack("<BII", 1, 7, 0), "collection inside a collection"),
        (struct.pack("<BII", 1, 4007, 0), "type 4007"),
        (struct.pack("<BII", 1, 99, 0), "type 99"),
        (b"01zz", "hexadecimal"),
    ],
)
def test_bytes_are_refused_with_the_reason(value: bytes, problem: str) -> None:
    with pytest.raises(UnfitError, match=problem):
        read_wkb(value)


@pytest.mark.parametrize("value", ["POINT (" + "1" * MAX_BYTES, b"\x01\x02\x00\x00\x00" + bytes(MAX_BYTES)])
def test_a_value_beyond_the_limit_is_not_read(value: str | bytes) -> None:
    with pytest.raises(LimitError, match=f"{MAX_BYTES}|{MAX_BYTES:,}"):
        read_wkt(value) if isinstance(value, str) else read_wkb(value)


def test_text_with_too_many_parentheses_is_not_read() -> None:
    with pytest.raises(LimitError, match="parentheses"):
        read_wkt("MULTIPOLYGON " + "(" * 100_000)


@pytest.mark.parametrize("flavor", ["iso", "extended"])
@pytest.mark.parametrize("byte_order", [0, 1])
@pytest.mark.parametrize(
    "text",
    [
        "POINT (1 2)",
        "POINT Z (1 2 3)",
        "LINESTRING (0 0, 1 1)",
        "POLYGON ((0 0, 4 0, 0 4, 0 0), (1 1, 2 1, 1 2, 1 1))",
        "MULTIPOINT ((0 0), (1 1))",
        "MULTILINESTRING ((0 0, 1 1), (2 2, 3 3))",
        "MULTIPOLYGON (((0 0, 1 0, 0 1, 0 0)), ((5 5, 6 5, 5 6, 5 5)))",
        "MULTIPOLYGON Z (((0 0 1, 1 0 1, 0 1 1, 0 0 1)))",
        "POLYGON EMPTY",
    ],
)
def test_what_cannot_be_nested_is_read_as_geos_reads_it(text: str, byte_order: int, flavor: str) -> None:
    expected = shapely.set_srid(shapely.from_wkt(text), 4326)
    assert shapely.equals_exact(read_wkt(text), expected)
    data = shapely.to_wkb(expected, byte_order=byte_order, flavor=flavor, include_srid=flavor == "extended")
    assert shapely.equals_exact(read_wkb(data), expected)
    assert shapely.equals_exact(read_wkb(data.hex().upper().encode()), expected)


def test_a_column_is_read_at_once_and_leaves_out_what_may_be_nested() -> None:
    point, ring = shapely.Point(1, 2), shapely.box(0, 0, 1, 1)
    values = [
        b"x",
        *(shapely.to_wkb(shape, byte_order=order) for shape in (point, ring) for order in (0, 1)),
        None,
        b"",
    ]
    nested = [
        shapely.GeometryCollection([point]).wkb,
        shapely.MultiPoint([point]).wkb,
        struct.pack("<BII", 1, 3, 2**31),
    ]
    for kind in (pa.binary(), pa.large_binary()):
        array = pa.array([*values, *nested], kind)[1:]
        encoded, shapes = read_wkb_column(array)
        assert encoded.tolist() == array.to_pylist()
        assert shapely.equals(shapes[:4], [point, point, ring, ring]).all()
        assert not shapely.is_geometry(shapes[4:]).any()
    for empty in (pa.array([], pa.binary()), pa.array([None, None], pa.binary()), pa.array([b""], pa.binary())):
        assert not shapely.is_geometry(read_wkb_column(empty)[1]).any()
