"""Regions from every form people write, and a reason for each refusal."""

from __future__ import annotations

import numpy as np
import pytest
import shapely

from tamis.errors import LimitError
from tamis.model.shapes import MAX_VERTICES, bbox_polygon, polygon, region
from tamis.model.types import Region
from tamis.model.values import UnfitError
from tests.effort import effort

SQUARE = shapely.box(0, 0, 1, 1)


@pytest.mark.parametrize(
    "form",
    [
        SQUARE,
        SQUARE.wkt,
        SQUARE.wkb,
        bytearray(SQUARE.wkb),
        {"type": "Polygon", "coordinates": [[[1, 0], [1, 1], [0, 1], [0, 0], [1, 0]]]},
    ],
)
def test_polygons(form: object) -> None:
    assert region(form).equals(SQUARE)


@pytest.mark.parametrize(
    "form", [(1, 2), [1.0, 2.0], np.array([1, 2]), "POINT (1 2)", {"type": "Point", "coordinates": [1, 2]}]
)
def test_points(form: object) -> None:
    assert region(form) == shapely.Point(1, 2)


@pytest.mark.parametrize(
    ("form", "problem"),
    [
        ("POLYGON((0 0, 1 1, 1 0, 0 1, 0 0))", "not a simple polygon: Self-intersection"),
        ("POLYGON((0 0, 2 0, 2 0, 0 2, 0 0))", "a repeated point"),
        ("POLYGON((0 0, 1 1, 0 0, 0 0))", "at least three different points"),
        ("POLYGON((0 0, 1 1, 2 2, 0 0))", "not a simple polygon"),
        ("POLYGON((0 0, 4 0, 4 4, 0 4, 0 0), (1 1, 9 1, 9 2, 1 1))", "not a valid Polygon"),
        ("POLYGON Z((0 0 1, 4 0 1, 4 4 1, 0 0 1))", "third coordinate"),
        ("POLYGON EMPTY", "empty geometry"),
        ("POLYGON((0 0, 1 1", "not WKT"),
        ("LINESTRING (0 0, 0 0)", "not a valid LineString"),
        ("MULTIPOLYGON (((0 0, 1 0, 0 1, 0 0)), ((0 0, 1 0, 0 1, 0 0)))", "not a valid MultiPolygon"),
        ("GEOMETRYCOLLECTION (GEOMETRYCOLLECTION (POINT (1 1)))", "collection inside a collection"),
        ("MULTIPOINT ((1 1), EMPTY)", "empty part"),
        ("POLYGON((0 0, inf 0, 0 1, 0 0))", "NaN and infinity|not WKT|not a simple"),
        (b"\x00junk", "not WKB"),
        ({"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [1, 1]]]}, "at least four positions"),
        ({"type": "Polygon", "coordinates": [[[0, 0, 1], [1, 0, 1], [1, 1, 1], [0, 0, 1]]]}, "third coordinate"),
        ({"type": "Polygon", "coordinates": [[["a", 0]]]}, "list of"),
        ({"type": "Polygon", "coordinates": []}, "needs a list of rings"),
        ({"type": "Polygon"}, "needs a list of rings"),
        ({"type": "Circle"}, "not 'Circle'"),
        ({"type": "Point", "coordinates": [1]}, "pair of numbers"),
        ((1, "x"), "pair of numbers"),
        (5, "expected a region"),
        ((1, 2, 3), "third coordinate"),
        (None, "expected a region"),
    ],
)
def test_refused(form: object, problem: str) -> None:
    with pytest.raises(UnfitError, match=problem):
        region(form)


def test_an_operand_is_a_polygon() -> None:
    with pytest.raises(UnfitError, match="expected a polygon, not a point"):
        polygon((1, 2))


def test_boxes() -> None:
    assert bbox_polygon(0, 0, 1, 1).equals(SQUARE)
    for wrong in ((1, 0, 0, 1), (0, 0, 0, 1)):
        with pytest.raises(UnfitError, match="each min is below its max"):
            bbox_polygon(*wrong)


@pytest.mark.parametrize("n", [MAX_VERTICES, MAX_VERTICES + 1, 100 * MAX_VERTICES])
def test_vertices_are_limited(n: int) -> None:
    angles = np.linspace(0, 2 * np.pi, n, endpoint=False)
    ring = shapely.Polygon(np.column_stack([np.cos(angles), np.sin(angles)]))
    if n <= MAX_VERTICES:
        assert region(ring) == ring
    else:
        with pytest.raises(LimitError, match="vertices of a region"):
            region(ring)


def _star(n: int) -> np.ndarray:
    angles = np.linspace(0, 2 * np.pi, n, endpoint=False)
    radii = np.where(np.arange(n) % 2, 1.0, 0.01)
    return np.column_stack([np.cos(angles) * radii, np.sin(angles) * radii])


@pytest.mark.parametrize("n", [998, 999, 1000, 1002, MAX_VERTICES])
def test_large_polygons_are_judged_quickly(n: int) -> None:
    ring = _star(n - n % 2)
    assert region(shapely.Polygon(ring))
    ring[[3, 40]] = ring[[40, 3]]
    with pytest.raises(UnfitError, match="not a simple polygon: Self-intersection"):
        region(shapely.Polygon(ring))
    assert effort(lambda: region(shapely.Polygon(_star(MAX_VERTICES)))) < 15  # 1.5 were measured


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"type": "Point", "coordinates": [1]}', "a pair of numbers"),
        ('{"type": ', "not GeoJSON: not JSON"),
        ('{"type": "Point", "coordinates": [1e999, 2]}', "not GeoJSON: 1e999 is beyond"),
    ],
)
def test_geojson_as_text_is_read_like_geojson(text: str, problem: str) -> None:
    assert Region().canonical(' {"type": "Point", "coordinates": [1, 2]}').equals(shapely.Point(1, 2))
    with pytest.raises(UnfitError, match=problem):
        Region().canonical(text)


@pytest.mark.parametrize("place", [(180, 90), (-180, -90), (0, 0)])
def test_places_of_the_globe(place: tuple[float, float]) -> None:
    assert region(place, geodetic=True) == shapely.Point(place)


@pytest.mark.parametrize(("x", "y"), [(180.1, 0), (-181, 0), (0, 90.1), (0, -91)])
@pytest.mark.parametrize("form", ["POINT({0} {1})", "LINESTRING(0 0, {0} {1})"])
def test_places_beyond_the_globe_are_refused(form: str, x: float, y: float) -> None:
    with pytest.raises(UnfitError, match="a longitude beyond 180 or a latitude beyond 90 degrees"):
        region(form.format(x, y), geodetic=True)
    region(form.format(x, y))  # of the plane
