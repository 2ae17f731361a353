"""Attack: geometry with empty parts of every kind, beside parts that cross the antimeridian.

An empty part has no first point and no x. A client that sends one gets an error of tamis; no error of NumPy or GEOS
may come out of a match or a subscription.
"""

from __future__ import annotations

import contextlib
import itertools
import json

import pytest
import shapely

import tamis
from tamis.model.types import Region
from tamis.model.values import UnfitError

KINDS = ["POINT", "LINESTRING", "POLYGON", "MULTIPOINT", "MULTILINESTRING", "MULTIPOLYGON", "GEOMETRYCOLLECTION"]

#: Each as the only part of a geometry of several, alone, and in collections of collections.
EMPTY = [
    *(f"{kind} EMPTY" for kind in KINDS),
    *(f"MULTI{kind} (EMPTY)" for kind in KINDS[:3]),
    *(f"GEOMETRYCOLLECTION ({kind} EMPTY)" for kind in KINDS),
    "GEOMETRYCOLLECTION (GEOMETRYCOLLECTION (MULTIPOLYGON (EMPTY), POINT EMPTY))",
]
COMPANIONS = [
    "LINESTRING (170 0, -170 0)",
    "POLYGON ((170 0, -170 0, -170 5, 170 5, 170 0))",
    "POLYGON ((170 0, -170 5, -170 0, 170 5, 170 0))",
    "LINESTRING (5 5, 5 5)",
    "POINT (1 1)",
]
FORMS = [
    *EMPTY,
    *(
        f"GEOMETRYCOLLECTION ({', '.join(parts)})"
        for pair in itertools.product(EMPTY, COMPANIONS)
        for parts in (pair, pair[::-1])
    ),
    "MULTIPOLYGON (EMPTY, ((170 0, -170 0, -170 5, 170 5, 170 0)))",
    "MULTIPOLYGON (((170 0, -170 0, -170 5, 170 5, 170 0)), EMPTY)",
    "MULTILINESTRING (EMPTY, (170 0, -170 0), EMPTY)",
    "MULTIPOINT (EMPTY, (1 1))",
    "POLYGON ((0 0, 9 0, 9 9, 0 9, 0 0), EMPTY)",
]


@pytest.mark.parametrize("invalid", ["refuse", "repair"])
@pytest.mark.parametrize("geodetic", [False, True])
def test_empty_parts_are_refused_or_dropped(geodetic: bool, invalid: str) -> None:
    kind = Region(geodetic=geodetic, invalid=invalid)
    engine = tamis.Engine(tamis.Schema({"area": kind}))
    engine.subscribe("S_INTERSECTS(area, BBOX(-10, -10, 10, 10))", id="near 0")
    n_taken = 0
    for form in FORMS:
        encoded = shapely.from_wkt(form).wkb
        for raw in (form, encoded, shapely.from_wkt(form)):
            with contextlib.suppress(tamis.TamisError):
                engine.match({"area": raw})
        with contextlib.suppress(tamis.TamisError):
            engine.match_json(json.dumps({"area": form}))
        with contextlib.suppress(tamis.TamisError):
            engine.subscribe(f"S_INTERSECTS(area, {form})")
        assert "near 0" in engine.match_table({"area": [encoded, shapely.Point(0, 0).wkb]}, on_bad="skip").of(1)
        try:
            value = kind.canonical(form)
        except UnfitError:
            continue
        n_taken += 1
        assert not any(part.is_empty for part in shapely.get_parts(shapely.get_parts(value)))
        assert kind.to_wire(kind.canonical(kind.to_wire(value))) == kind.to_wire(value)
    assert (n_taken > 0) == (invalid == "repair")
