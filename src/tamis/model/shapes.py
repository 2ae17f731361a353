"""Regions as people write them, turned into valid shapely geometry or refused with a reason.

A region is a simple polygon: a closed ring without holes that neither crosses nor touches itself. A
region attribute may also carry a point. The operand of a condition may have holes and several parts, where the
condition can be put together from simple polygons (`Part`). Coordinates are plane x, y; for geographic data that is
longitude first, latitude second, and a ring that crosses the antimeridian has to be split there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import shapely

from tamis.errors import LimitError
from tamis.model.geometry_text import read_wkb, read_wkt
from tamis.model.values import UnfitError, single

if TYPE_CHECKING:
    from tamis.kernels.polygons.flat_rings import Rings

__all__ = [
    "MAX_VERTICES",
    "Operand",
    "Part",
    "RegionValue",
    "bbox_polygon",
    "geometries_of",
    "is_simple",
    "operand",
    "parts_of",
    "plain_rings",
    "polygon",
    "region",
]

#: What a region attribute of an event may carry.
RegionValue: TypeAlias = shapely.Polygon | shapely.Point

#: What a condition may compare with.
Operand: TypeAlias = shapely.Polygon | shapely.MultiPolygon

#: Vertices of one region (promise S17).
MAX_VERTICES = 10_000

#: Up to so many rows of a ring GEOS says in 3 ms at worst whether it is simple; its time grows with the square.
_ROWS_FOR_GEOS = 1000

#: A ring with no vertex nearer to x = 0 than this may cross the antimeridian.
_NEAR_THE_ANTIMERIDIAN = 120

#: Up to so many rows it is quicker to compare every pair of edges than to sweep.
_ROWS_TO_COMPARE = 200

_POINT, _POLYGON = int(shapely.GeometryType.POINT), int(shapely.GeometryType.POLYGON)


def region(value: object) -> RegionValue:
    """Return the polygon or point that ``value`` describes, or raise `UnfitError`.

    Accepts shapely geometry, WKT text, WKB bytes, a GeoJSON dict and a pair ``(x, y)``.

    >>> region((1, 2)), region("POLYGON((0 0, 4 0, 0 4))".replace("0 4))", "0 4, 0 0))"))
    (<POINT (1 2)>, <POLYGON ((0 0, 4 0, 0 4, 0 0))>)
    """
    geometry = _decode(value)
    if isinstance(geometry, shapely.Point):
        return _checked_point(geometry)
    if isinstance(geometry, shapely.Polygon):
        return _checked_polygon(geometry)
    raise UnfitError(f"expected a polygon or a point, not a {geometry.geom_type}")


def polygon(value: object) -> shapely.Polygon:
    """Return the polygon that ``value`` describes, or raise `UnfitError`; a point is refused."""
    found = region(value)
    if isinstance(found, shapely.Polygon):
        return found
    raise UnfitError("expected a polygon, not a point")


class Part(NamedTuple):
    """One part of an operand: a simple polygon without the insides of others."""

    outer: shapely.Polygon
    holes: tuple[shapely.Polygon, ...]


def operand(value: object) -> Operand:
    """Return the polygon or multipolygon that ``value`` describes, holes allowed, or raise `UnfitError`."""
    geometry = _decode(value, several=True)
    if isinstance(geometry, shapely.Point):
        raise UnfitError("expected a polygon, not a point")
    if not isinstance(geometry, shapely.Polygon | shapely.MultiPolygon):
        raise UnfitError(f"expected a polygon, not a {geometry.geom_type}")
    if is_simple(geometry):
        return _checked_polygon(geometry)
    _check_coordinates(geometry)
    vertices = int(shapely.get_num_coordinates(geometry))
    if vertices > MAX_VERTICES:
        raise LimitError("vertices of a region", vertices, MAX_VERTICES)
    for part in parts_of(geometry):
        for ring in (part.outer, *part.holes):
            _checked_polygon(ring)
    if not geometry.is_valid:
        raise UnfitError(f"not a valid polygon: {shapely.is_valid_reason(geometry)}")
    return geometry


def is_simple(found: Operand) -> bool:
    """Whether an operand is one polygon without holes."""
    return isinstance(found, shapely.Polygon) and not len(found.interiors)


def parts_of(found: Operand) -> list[Part]:
    """Return the parts of an operand; those of a simple polygon are itself."""
    some = [found] if isinstance(found, shapely.Polygon) else list(found.geoms)
    if is_simple(found):
        return [Part(some[0], ())]
    return [Part(shapely.Polygon(one.exterior), tuple(shapely.Polygon(ring) for ring in one.interiors)) for one in some]


def geometries_of(values: npt.NDArray[np.object_]) -> npt.NDArray[np.object_]:
    """Return the values that are shapely geometry, None for the others."""
    found = values.copy()
    found[~shapely.is_geometry(values)] = None
    return found


def plain_rings(values: npt.NDArray[np.object_]) -> tuple[Rings, npt.NDArray[np.bool_]]:
    """Return what is sure to be a valid region in flat arrays, and which values are; others have no rows.

    Sure are shapely points, and polygons of up to `_ROWS_TO_COMPARE` rows that are simple; all are judged at once.
    What is not sure may still be a region: ask `region`.
    """
    from tamis.kernels.polygons import flat_rings, simple_rings

    shapes = geometries_of(values)
    kind, rows = shapely.get_type_id(shapes), shapely.get_num_coordinates(shapes)
    one_ring = (kind == _POLYGON) & (shapely.get_num_interior_rings(shapes) == 0)
    sure = ((kind == _POINT) & (rows == 1)) | (one_ring & (rows > 3) & (rows <= _ROWS_TO_COMPARE))
    sure &= ~(shapely.has_z(shapes) | shapely.has_m(shapes))
    xy, owner = shapely.get_coordinates(shapes, return_index=True)
    if not np.isfinite(xy).all():
        sure[owner[~np.isfinite(xy).all(axis=1)]] = False
    if not sure.all():
        xy, rows = xy[sure[owner]], np.where(sure, rows, 0)
    start = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(rows, out=start[1:])
    rings = flat_rings.new_rings(xy, start)
    simple = np.empty(len(rows), np.bool_)
    simple_rings.check_simple(rings, simple, flat_rings.new_corners())
    may_jump = (rings.bounds[:, 0] <= -_NEAR_THE_ANTIMERIDIAN) & (rings.bounds[:, 2] >= _NEAR_THE_ANTIMERIDIAN)
    return rings, simple & ~may_jump


def bbox_polygon(min_x: float, min_y: float, max_x: float, max_y: float) -> shapely.Polygon:
    """Return the rectangle of a BBOX literal, or raise `UnfitError` when it has no area."""
    if _NEAR_THE_ANTIMERIDIAN <= min_x <= 180 and -180 <= max_x <= -_NEAR_THE_ANTIMERIDIAN:
        raise UnfitError(f"a BBOX from x = {min_x:.15g} to {max_x:.15g}; {_SPLIT}")
    if not (min_x < max_x and min_y < max_y):
        raise UnfitError("a BBOX is min x, min y, max x, max y, and each min is below its max")
    return shapely.box(min_x, min_y, max_x, max_y)


def _decode(value: object, *, several: bool = False) -> shapely.Geometry:
    """Read any form; GeoJSON of ``several`` rings only where they are asked for."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = single(value)
    if isinstance(value, shapely.Geometry):
        return value
    if isinstance(value, str):
        return read_wkt(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return read_wkb(bytes(value))
    if isinstance(value, Mapping):
        return _from_geojson(value, several)
    if isinstance(value, Sequence | np.ndarray) and len(value) == 2:
        return _point(value)
    raise UnfitError(f"expected a region (WKT, WKB, GeoJSON, shapely or x, y), not {type(value).__name__}")


def _from_geojson(value: Mapping[str, object], several: bool) -> shapely.Geometry:
    kind, coordinates = value.get("type"), value.get("coordinates")
    if kind == "Point":
        return _point(coordinates)
    if kind == "MultiPolygon" and several:
        return shapely.MultiPolygon(
            [_geojson_polygon(one, several) for one in _some(coordinates, "a list of polygons")]
        )
    if kind != "Polygon":
        raise UnfitError(f"expected GeoJSON of type Polygon or Point, not {kind!r}")
    return _geojson_polygon(coordinates, several)


def _some(value: object, what: str) -> Sequence[object]:
    if not isinstance(value, Sequence) or isinstance(value, str) or not value:
        raise UnfitError(f"a GeoJSON Polygon needs coordinates: {what}")
    return value


def _geojson_polygon(coordinates: object, several: bool) -> shapely.Polygon:
    rings = _some(coordinates, "a list of rings")
    if len(rings) > 1 and not several:
        raise UnfitError(_NO_HOLES)
    outer, *holes = (_geojson_ring(ring) for ring in rings)
    return shapely.Polygon(outer, holes)


def _geojson_ring(given: object) -> npt.NDArray[np.float64]:
    ring = _numbers(given, "a GeoJSON ring is a list of [x, y]")
    if ring.ndim != 2 or ring.shape[1] != 2:
        raise UnfitError("a GeoJSON ring is a list of [x, y]; a third coordinate is refused")
    if len(ring) < 4 or not np.array_equal(ring[0], ring[-1]):
        raise UnfitError("a GeoJSON ring has at least four positions, the last equal to the first")
    return ring


def _point(value: object) -> shapely.Point:
    pair = _numbers(value, "a point is a pair of numbers x, y")
    if pair.shape != (2,):
        raise UnfitError("a point is a pair of numbers x, y; a third coordinate is refused")
    return shapely.Point(pair)


def _numbers(value: object, problem: str) -> npt.NDArray[np.float64]:
    try:
        array = np.asarray(value)
    except ValueError:
        raise UnfitError(problem) from None
    if array.dtype.kind not in "iuf" or np.ma.is_masked(value):
        raise UnfitError(problem)
    return array.astype(np.float64)


_NO_HOLES = "a region has no holes; give its outer ring"
_SPLIT = (
    "a ring that crosses the antimeridian is refused: split it there and give the parts as a MULTIPOLYGON (if the "
    "plane is meant, add a point in the middle of that edge)"
)


def _checked_point(point: shapely.Point) -> shapely.Point:
    _check_coordinates(point)
    return point


def _checked_polygon(found: shapely.Polygon) -> shapely.Polygon:
    _check_coordinates(found)
    if len(found.interiors):
        raise UnfitError(_NO_HOLES)
    ring = shapely.get_coordinates(found)
    if len(ring) - 1 > MAX_VERTICES:
        raise LimitError("vertices of a region", len(ring) - 1, MAX_VERTICES)
    points = ring.view(np.complex128)[:, 0]  # one comparison for both coordinates
    others = points[points != points[0]]
    if not others.size or (others == others[0]).all():
        raise UnfitError("a polygon needs at least three different points")
    if (points[1:] == points[:-1]).any():
        raise UnfitError("a polygon with a repeated point")
    jump = _find_jump(ring)
    if jump is not None:
        raise UnfitError(f"an edge from x = {jump[0]:.15g} to {jump[1]:.15g}; {_SPLIT}")
    flaw = _find_flaw(found, ring)
    if flaw is not None:
        raise UnfitError(f"not a simple polygon: {flaw}")
    return found


def _find_jump(ring: npt.NDArray[np.float64]) -> tuple[float, float] | None:
    """Return the ends of an edge that jumps from one side of the antimeridian to the other, if the ring does that.

    In the plane such a ring spans the whole world, which nobody means who has no vertex anywhere between.
    """
    x, y = ring.T
    if not ((np.abs(x) <= 180).all() and (np.abs(y) <= 90).all() and (np.abs(x) >= _NEAR_THE_ANTIMERIDIAN).all()):
        return None
    if (np.abs(x) == 180).any() or not (np.abs(np.diff(x)) > 180).any():
        return None  # a world map ends at 180
    at = int(np.argmax(np.abs(np.diff(x))))
    return float(x[at]), float(x[at + 1])


def _find_flaw(found: shapely.Polygon, ring: npt.NDArray[np.float64]) -> str | None:
    """Say where a polygon, whose ring this is, crosses or touches itself; None if it does not."""
    if len(ring) <= _ROWS_FOR_GEOS:
        return None if found.is_valid else str(shapely.is_valid_reason(found))
    from tamis.kernels.polygons.ring import find_contact  # late: importing tamis must not import numba

    contact = find_contact(ring)
    if contact is None:
        return None
    starts = " and ".join(f"[{x:.15g} {y:.15g}]" for x, y in ring[list(contact)].tolist())
    return f"Self-intersection of the edges from {starts}"


def _check_coordinates(geometry: shapely.Geometry) -> None:
    if geometry.is_empty:
        raise UnfitError("an empty geometry")
    if geometry.has_z or geometry.has_m:
        raise UnfitError("a third coordinate is refused: regions lie in the plane")
    if not np.isfinite(shapely.get_coordinates(geometry)).all():
        raise UnfitError("NaN and infinity are not coordinates")
