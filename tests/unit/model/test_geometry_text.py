"""What passes the check before GEOS reads it, and what is refused with which reason."""

from __future__ import annotations

import struct

import numpy as np
import pyarrow as pa
import pytest
import shapely

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
        (struct.pack("<BII", 1, 7, 0), "GeometryCollection"),
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
    with pytest.raises(UnfitError, match=f"{MAX_BYTES:,}"):
        read_wkt(value) if isinstance(value, str) else read_wkb(value)


def test_text_with_too_many_parentheses_is_not_read() -> None:
    with pytest.raises(UnfitError, match="parentheses"):
        read_wkt("MULTIPOLYGON " + "(" * 100_000)
