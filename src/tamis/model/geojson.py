"""GeoJSON geometry, read position by position: every type of the standard, with or without a third coordinate."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import shapely

from tamis.model.values import UnfitError

__all__ = ["from_geojson", "point_of", "to_geojson"]

_Positions = npt.NDArray[np.float64]


def from_geojson(value: Mapping[str, object]) -> shapely.Geometry:
    """Return the geometry of a GeoJSON object, or raise `UnfitError`; a collection holds no other collection.

    >>> from_geojson({"type": "LineString", "coordinates": [[0, 0], [1, 2]]})
    <LINESTRING (0 0, 1 2)>
    """
    kind = value.get("type")
    if kind == "GeometryCollection":
        return shapely.GeometryCollection([_member(member) for member in _some(value.get("geometries"), "geometries")])
    make = _MAKERS.get(kind) if isinstance(kind, str) else None
    if make is None:
        raise UnfitError(f"expected GeoJSON of type {', '.join(_MAKERS)} or GeometryCollection, not {kind!r}")
    return make(value.get("coordinates"))


def to_geojson(geometry: shapely.Geometry) -> dict[str, object]:
    """Return the GeoJSON object of a geometry, which `from_geojson` turns back to the last bit.

    >>> to_geojson(shapely.Point(1, 2))
    {'type': 'Point', 'coordinates': [1.0, 2.0]}
    """
    if isinstance(geometry, shapely.GeometryCollection):
        return {"type": geometry.geom_type, "geometries": [to_geojson(geom) for geom in geometry.geoms]}
    return {"type": geometry.geom_type, "coordinates": _coordinates(geometry)}


def _coordinates(geometry: shapely.Geometry) -> list[object]:
    if isinstance(geometry, shapely.Polygon):
        return [_coordinates(ring) for ring in (geometry.exterior, *geometry.interiors)]
    if hasattr(geometry, "geoms"):
        return [_coordinates(geom) for geom in geometry.geoms]
    rows: list[object] = shapely.get_coordinates(geometry, include_z=geometry.has_z).tolist()
    return rows[0] if isinstance(geometry, shapely.Point) else rows  # type: ignore[return-value]


def point_of(value: object) -> shapely.Point:
    """Return the point of two or three numbers, or raise `UnfitError`."""
    position = _numbers(value, "a point is a pair of numbers x, y")
    if position.shape not in ((2,), (3,)):
        raise UnfitError("a point is a pair of numbers x, y")
    return shapely.Point(position)


def _points(positions: Sequence[object]) -> shapely.MultiPoint:
    """Return points; in one step where all are lists of two numbers, or all of three."""
    if {len(position) if isinstance(position, list | tuple) else 0 for position in positions} in ({2}, {3}):
        return shapely.multipoints(_numbers(positions, "a point is a pair of numbers x, y"))
    return shapely.MultiPoint([point_of(position) for position in positions])


def _member(value: object) -> shapely.Geometry:
    if not isinstance(value, Mapping) or value.get("type") == "GeometryCollection":
        raise UnfitError("a GeoJSON collection holds geometries, and no other collection")
    return from_geojson(value)


def _some(value: object, what: str) -> Sequence[object]:
    if not isinstance(value, Sequence) or isinstance(value, str) or not value:
        raise UnfitError(f"GeoJSON needs {what}: a list that is not empty")
    return value


def _line(coordinates: object) -> shapely.LineString:
    line = _positions(coordinates, "line", least=2)
    return shapely.LineString(line)


def _ring(coordinates: object) -> _Positions:
    ring = _positions(coordinates, "ring", least=4)
    if not np.array_equal(ring[0], ring[-1]):
        raise UnfitError("a GeoJSON ring has at least four positions, the last equal to the first")
    return ring


def _polygon(coordinates: object) -> shapely.Polygon:
    outer, *holes = (_ring(ring) for ring in _some(coordinates, "a list of rings"))
    return shapely.Polygon(outer, holes)


def _positions(coordinates: object, what: str, least: int) -> _Positions:
    array = _numbers(coordinates, f"a GeoJSON {what} is a list of [x, y]")
    if array.ndim != 2 or array.shape[1] not in (2, 3):
        raise UnfitError(f"a GeoJSON {what} is a list of [x, y]")
    if len(array) < least:
        raise UnfitError(f"a GeoJSON {what} has at least {'four' if least == 4 else 'two'} positions")
    return array


def _numbers(value: object, problem: str) -> npt.NDArray[np.float64]:
    try:
        array = np.asarray(value)
    except ValueError:
        raise UnfitError(problem) from None
    if array.dtype.kind not in "iuf" or np.ma.is_masked(value):
        raise UnfitError(problem)
    numbers = array.astype(np.float64)
    if not np.isfinite(numbers).all():  # shapely would warn, too
        raise UnfitError("NaN and infinity are not coordinates")
    return numbers


_MAKERS: dict[str, Callable[[object], shapely.Geometry]] = {
    "Point": point_of,
    "LineString": _line,
    "Polygon": _polygon,
    "MultiPoint": lambda coordinates: _points(_some(coordinates, "a list of positions")),
    "MultiLineString": lambda coordinates: shapely.MultiLineString(
        [_line(line) for line in _some(coordinates, "a list of lines")]
    ),
    "MultiPolygon": lambda coordinates: shapely.MultiPolygon(
        [_polygon(polygon) for polygon in _some(coordinates, "a list of polygons")]
    ),
}
