"""Random WKT, WKB and GeoJSON: shapes that are damaged, nested, huge, or empty.

They come as values of an event. Only an `EventError` may refuse one, and what is accepted must be written and read
again as the same shape. GEOS reads what the checks let through, so a process that dies is what this looks for.
"""

from __future__ import annotations

import json
import random
import struct
import sys
from typing import Any

import shapely

from tamis.errors import EventError
from tamis.model.schema import Schema
from tamis.model.types import Region
from tamis.node.content import Content
from tests.fuzz.harness import Area, damaged_bytes, damaged_text, document, main

NUMBERS = ["0", "1", "-1", "4", "1e308", "1e309", "-1e-320", "nan", "inf", "1.5", "1" * 400, "0x1", "", "1 2"]
WORDS = ["POINT", "POLYGON", "MULTIPOLYGON", "LINESTRING", "GEOMETRYCOLLECTION", "MULTIPOINT", "CURVEPOLYGON", "TIN"]
SHAPES = [
    *("POINT(1 2)", "POLYGON((0 0, 4 0, 0 4, 0 0))", "POLYGON((0 0, 9 0, 9 9, 0 9, 0 0), (1 1, 2 1, 1 2, 1 1))"),
    *("MULTIPOLYGON(((0 0, 1 0, 0 1, 0 0)), ((5 5, 6 5, 5 6, 5 5)))", "POLYGON EMPTY", "POINT EMPTY", "POINT Z(1 2 3)"),
    *("GEOMETRYCOLLECTION(POINT(0 0))", "SRID=4326;POINT(1 2)", "POLYGON((0 0, 1 1, 1 0, 0 1, 0 0))"),
]


def wkt(rng: random.Random) -> str:
    """Return a text like WKT."""
    if rng.random() < 0.2:
        depth = rng.choice([1, 5, 200, 20_000])
        opening = rng.choice(["GEOMETRYCOLLECTION(", "(", "MULTIPOLYGON((", "POLYGON(", "COMPOUNDCURVE("])
        return opening * depth + "POINT(0 0)" + ")" * rng.choice([0, depth])
    text = rng.choice(SHAPES)
    if rng.random() < 0.3:
        n = rng.choice([3, 50, 3_000])
        points = ", ".join(f"{rng.choice(NUMBERS)} {rng.choice(NUMBERS)}" for _ in range(n))
        text = f"{rng.choice(WORDS)}(({points}))"
    for _ in range(rng.choice([0, 1, 1, 2])):
        text = damaged_text(rng, text, "(), -e.0Z;=")
    return text


def wkb(rng: random.Random) -> bytes:
    """Return bytes like WKB: counts and type codes are wrong where a reader believes them."""
    shape = shapely.from_wkt(rng.choice(SHAPES[:4]))
    data = bytes(shapely.to_wkb(shape, byte_order=rng.randrange(2), include_srid=True))
    if rng.random() < 0.3:
        kind = rng.choice([*range(18), 0x80000001, 0x20000003, 1001, 3003, 0xFFFFFFFF])
        data = data[:1] + struct.pack(rng.choice("<>") + "I", kind) + data[5:]
    if rng.random() < 0.3:
        count = rng.choice([0, 1, 2**31 - 1, 2**31, 2**32 - 1])
        data = data[:5] + struct.pack(rng.choice("<>") + "I", count) + data[9:]
    if rng.random() < 0.1:
        data = struct.pack("<BII", 1, 7, 1) * rng.choice([1, 50, 20_000]) + data
    return damaged_bytes(rng, data) if rng.random() < 0.4 else data


def geojson(rng: random.Random) -> Any:
    """Return an object like GeoJSON."""
    shape = json.loads(shapely.to_geojson(shapely.from_wkt(rng.choice(SHAPES[:4]))))
    if rng.random() < 0.2:
        shape = {"type": "GeometryCollection", "geometries": [shape] * rng.choice([0, 1, 30])}
    if rng.random() < 0.5:
        shape[rng.choice(list(shape))] = document(rng)
    if rng.random() < 0.1:
        shape = {"type": "Feature", "geometry": shape, "properties": {}}
    return shape


def make(rng: random.Random) -> Any:
    """Return a value of a region."""
    return rng.choice([wkt, wkb, geojson])(rng)


CONTENT = Content(Schema({"g": Region()}))


def treat(value: Any) -> str:
    """Write the value as one of an event, and read it again."""
    kind = "WKT" if isinstance(value, str) else "WKB" if isinstance(value, bytes) else "GeoJSON"
    try:
        payload = CONTENT.write_event({"g": value})
    except EventError:
        return f"{kind}: refused"
    again = Content(CONTENT.schema)
    assert again.write_event(again.read_event(payload)) == payload, "written again it is another shape"
    learning = Content()
    learning.of("x").write_event({"g": value})
    return f"{kind}: taken"


AREA = Area("geometry", make, treat)

if __name__ == "__main__":
    sys.exit(main(AREA))
