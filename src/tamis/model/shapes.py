"""Converts geometry in any input format to valid shapely geometry, or refuses it with a reason.

The values of a region attribute, and what conditions compare them with, may be points, lines, polygons, several of
them, or a collection. Most are *plain*: a point, or a simple polygon, whose ring neither crosses nor touches itself and
which has no holes. Plain values are compared by exact kernels; all others by GEOS (`tamis.geometry.predicates`).

Coordinates are plane x, y; for geographic data that is longitude first, latitude second. In the plane a ring that
crosses the antimeridian has to be split there; a geodetic attribute does it itself (`split_at_antimeridian`).
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import shapely

from tamis.errors import LimitError
from tamis.model.geojson import from_geojson, point_of
from tamis.model.geometry_text import MAX_BYTES, read_wkb, read_wkt
from tamis.model.repair import NothingLeftError, repaired
from tamis.model.values import UnfitError, single, words_for

if TYPE_CHECKING:
    from tamis.kernels.polygons.flat_rings import Rings

__all__ = [
    "MAX_VERTICES",
    "Operand",
    "PolygonPart",
    "RegionValue",
    "are_compound",
    "bbox_polygon",
    "fitted",
    "geometries_of",
    "is_plain",
    "is_polygonal",
    "is_simple",
    "n_rings",
    "operand",
    "parts_of",
    "plain_rings",
    "polygon",
    "region",
    "valid",
]

#: The geometry of a region attribute: a point, a line, a polygon, several of them, or a collection.
RegionValue: TypeAlias = shapely.Geometry

#: What a condition may compare with.
Operand: TypeAlias = shapely.Geometry

#: Vertices of one region (promise S17).
MAX_VERTICES = 10_000

#: Up to this many rows, GEOS decides in 3 ms at worst whether a ring is simple; its time grows with the square.
_ROWS_FOR_GEOS = 1000

#: A ring with no vertex nearer to x = 0 than this may cross the antimeridian.
_NEAR_THE_ANTIMERIDIAN = 120

#: How often a geometry is cut or repaired, and looked at again. Cut pieces do not jump, so few need more than three.
_MAX_ROUNDS = 6

#: Up to this many rows it is faster to compare every pair of edges than to sweep.
_ROWS_TO_COMPARE = 200

_POINT, _POLYGON = int(shapely.GeometryType.POINT), int(shapely.GeometryType.POLYGON)

_Ring = npt.NDArray[np.float64]


def region(value: object, *, drop_z: bool = False, geodetic: bool = False, repair: bool = False) -> RegionValue:
    """Return the valid geometry that ``value`` describes, or raise `UnfitError`.

    Accepts shapely geometry, WKT text, WKB bytes, a GeoJSON dict and a pair ``(x, y)``.

    >>> region((1, 2)), region("POLYGON((0 0, 4 0, 0 4))".replace("0 4))", "0 4, 0 0))"))
    (<POINT (1 2)>, <POLYGON ((0 0, 4 0, 0 4, 0 0))>)
    """
    return fitted(operand(value), drop_z=drop_z, geodetic=geodetic, repair=repair)


def polygon(value: object) -> shapely.Polygon:
    """Return the simple polygon that ``value`` describes, or raise `UnfitError`."""
    geometry = region(value)
    if isinstance(geometry, shapely.Polygon):
        if is_simple(geometry):
            return geometry
        raise UnfitError(_NO_HOLES)
    raise UnfitError(f"expected a polygon, not a {_word(geometry)}")


class PolygonPart(NamedTuple):
    """One part of a geometry of polygons: a simple polygon without the insides of others."""

    outer: shapely.Polygon
    holes: tuple[shapely.Polygon, ...]


def operand(value: object) -> Operand:
    """Return the geometry that ``value`` describes, if it is not larger than accepted, or raise `UnfitError`.

    `fitted` makes it fit a type. What is not valid, a third coordinate and rings across the antimeridian are left to
    it: only the type knows what they mean.
    """
    geometry = _decode(value)
    _check_coordinates(geometry)
    if not isinstance(geometry, shapely.Point):
        _check_size(geometry)
    return shapely.LineString(geometry) if isinstance(geometry, shapely.LinearRing) else geometry


def fitted(geometry: Operand, *, drop_z: bool = False, geodetic: bool = False, repair: bool = False) -> Operand:
    """Return the geometry that `operand` read in the valid form that an attribute stores, or raise `UnfitError`.

    ``drop_z``: without its third coordinate. ``geodetic``: longitude and latitude, split at the antimeridian.
    ``repair``: what is not valid is repaired (`tamis.model.repair`).
    """
    if geometry.has_z or geometry.has_m:
        if not drop_z:
            raise UnfitError(_THIRD)
        geometry = shapely.force_2d(geometry)
    if isinstance(geometry, shapely.Point) and not geodetic:
        return geometry
    geometry = _unwrapped(geometry)
    for _ in range(_MAX_ROUNDS):
        changed = _fitted_once(geometry, geodetic, repair)
        if changed is geometry:
            return geometry
        _check_size(changed)
        geometry = changed
    raise UnfitError(_ENDLESS)


def _fitted_once(geometry: Operand, geodetic: bool, repair: bool) -> Operand:
    """Cut a geometry at the antimeridian, or else repair it; the same object if neither is needed.

    What one of them makes may need the other: a ring may jump over the antimeridian once its spike is gone.
    """
    if geodetic:
        _check_degrees(geometry)
    if isinstance(geometry, shapely.Point) and not geometry.is_empty:
        return geometry
    jump = _first_jump(geometry)
    if jump is None:
        return valid(geometry, repair=repair)
    if not geodetic:
        raise UnfitError(f"an edge from x = {jump[0]:.15g} to {jump[1]:.15g}; {_SPLIT}")
    return _cut(geometry, repair)


def valid(geometry: Operand, *, repair: bool = False) -> Operand:
    """Return a geometry if it is valid, what `repaired` makes of it if that is wanted, or raise `UnfitError`."""
    flaw = _flaw(geometry)
    if flaw is not None and repair:
        geometry = repaired(geometry)
        _check_coordinates(geometry)
        _check_size(geometry)
        flaw = _flaw(geometry)
        if flaw is not None:
            raise UnfitError(f"it cannot be repaired: {flaw}")
    elif flaw is not None:
        raise UnfitError(f"{flaw}; {_REPAIR}")
    return _unwrapped(geometry)


def is_simple(operand: Operand) -> bool:
    """Whether a geometry is one polygon without holes."""
    return isinstance(operand, shapely.Polygon) and not len(operand.interiors)


def is_plain(operand: Operand) -> bool:
    """Whether a geometry is a point or a simple polygon, which exact kernels compare."""
    return isinstance(operand, shapely.Point) or is_simple(operand)


def is_polygonal(operand: Operand) -> bool:
    """Whether a geometry is a polygon or several, with or without holes."""
    return isinstance(operand, shapely.Polygon | shapely.MultiPolygon)


def are_compound(values: npt.NDArray[np.object_]) -> npt.NDArray[np.bool_]:
    """Return for each geometry of an array whether it is neither a point nor a simple polygon; None is neither."""
    kinds = shapely.get_type_id(values)
    compound: npt.NDArray[np.bool_] = (kinds > _POINT) & (kinds != _POLYGON)
    polygons = kinds == _POLYGON
    if polygons.any():
        compound |= polygons & (shapely.get_num_interior_rings(values) > 0)
    return compound


def parts_of(operand: Operand) -> list[PolygonPart]:
    """Return the parts of a geometry of polygons; those of a simple polygon are itself."""
    polygons = [operand] if isinstance(operand, shapely.Polygon) else list(operand.geoms)
    if is_simple(operand):
        return [PolygonPart(polygons[0], ())]
    return [
        PolygonPart(shapely.Polygon(polygon.exterior), tuple(shapely.Polygon(ring) for ring in polygon.interiors))
        for polygon in polygons
    ]


def n_rings(geometry: Operand) -> int:
    """Return how many rings and lines a geometry has.

    >>> n_rings(shapely.box(0, 0, 1, 1)), n_rings(shapely.MultiPoint([(0, 0), (1, 1)]))
    (1, 0)
    """
    return len(_rings(geometry))


def geometries_of(values: npt.NDArray[np.object_]) -> npt.NDArray[np.object_]:
    """Return the values that are shapely geometry, None for the others."""
    geometries = values.copy()
    geometries[~shapely.is_geometry(values)] = None
    return geometries


def plain_rings(values: npt.NDArray[np.object_]) -> tuple[Rings, npt.NDArray[np.bool_]]:
    """Return the values that are surely valid regions, in flat arrays, and which values they are; others have no rows.

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
    """Return the rectangle of a BBOX literal, or raise `UnfitError` when it has no area.

    A BBOX that begins in the east and ends in the west crosses the antimeridian; `fitted` splits or refuses it.
    """
    if _NEAR_THE_ANTIMERIDIAN <= min_x <= 180 and -180 <= max_x <= -_NEAR_THE_ANTIMERIDIAN and min_y < max_y:
        return shapely.Polygon([(min_x, min_y), (max_x, min_y), (max_x, max_y), (min_x, max_y)])
    if not (min_x < max_x and min_y < max_y):
        raise UnfitError("a BBOX is min x, min y, max x, max y, and each min is below its max")
    return shapely.box(min_x, min_y, max_x, max_y)


def _decode(value: object) -> shapely.Geometry:
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = single(value)
    if isinstance(value, shapely.Geometry):
        return value
    if isinstance(value, str):
        return _from_geojson_text(value) if value.lstrip()[:1] == "{" else read_wkt(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return read_wkb(bytes(value))
    if isinstance(value, Mapping):
        return from_geojson(value)
    if isinstance(value, Sequence | np.ndarray) and len(value) in (2, 3):
        return point_of(value)
    raise UnfitError(f"expected a region (WKT, WKB, GeoJSON, shapely or x, y), not {words_for(value)}")


def _from_geojson_text(text: str) -> shapely.Geometry:
    """Return the geometry of GeoJSON that comes as text, as columns of strings hold it."""
    from tamis.model.strict_json import read_object

    if len(text) > MAX_BYTES:
        raise LimitError("characters of a region as GeoJSON", len(text), MAX_BYTES)
    try:
        document = read_object(text)
    except ValueError as error:
        raise UnfitError(f"not GeoJSON: {error}") from None
    return from_geojson(document)


_NO_HOLES = "a region has no holes; give its outer ring"
_SPLIT = (
    "a ring that crosses the antimeridian is refused: split it there and give the parts as a MULTIPOLYGON (if the "
    "plane is meant, add a point in the middle of that edge)"
)


_BEYOND = "a longitude beyond 180 or a latitude beyond 90 degrees; the longitude comes first"
_ENDLESS = "it cannot be repaired: each repair leaves edges that jump over the antimeridian; split it there"
_TORN = "a ring crosses the antimeridian, and another ring of its polygon lies around x = 0; split the polygon at 180"
_REPAIR = "mend it, or declare Region(invalid='repair')"
_THIRD = "a third coordinate is refused: regions lie in the plane; declare Region(z='drop') to leave it out"


def _word(geometry: shapely.Geometry) -> str:
    return "point" if isinstance(geometry, shapely.Point) else str(geometry.geom_type)


def _check_size(geometry: shapely.Geometry) -> None:
    """Raise if a geometry has too many vertices, or a shape that no reader of tamis takes."""
    vertices = int(shapely.get_num_coordinates(geometry)) - is_simple(geometry)
    if vertices > MAX_VERTICES:
        raise LimitError("vertices of a region", vertices, MAX_VERTICES)
    is_collection = isinstance(geometry, shapely.GeometryCollection)
    if is_collection and any(isinstance(part, shapely.GeometryCollection) for part in geometry.geoms):
        raise UnfitError("a collection inside a collection; write its parts into the outer one")


def _unwrapped(geometry: shapely.Geometry) -> shapely.Geometry:
    """Return the only point or polygon of a multi-geometry with one part; any other geometry unchanged."""
    if isinstance(geometry, shapely.MultiPolygon | shapely.MultiPoint) and len(geometry.geoms) == 1:
        return geometry.geoms[0]
    return geometry


def _flaw(geometry: shapely.Geometry) -> str | None:
    """Return why a geometry is not valid; None if it is."""
    if geometry.is_empty:
        return "an empty part of a geometry"
    if isinstance(geometry, shapely.Point):
        return None
    if is_simple(geometry):
        return _ring_flaw(geometry)
    for part in _members(geometry):
        if part.is_empty:
            return "an empty part of a geometry"
        if isinstance(part, shapely.Polygon):
            for outer, holes in parts_of(part):
                flaw = next((flaw for ring in (outer, *holes) if (flaw := _ring_flaw(ring)) is not None), None)
                if flaw is not None:
                    return flaw
    if not geometry.is_valid:
        return f"not a valid {_word(geometry)}: {shapely.is_valid_reason(geometry)}"
    return None


def _ring_flaw(polygon: shapely.Polygon) -> str | None:
    """Return why a polygon without holes is not simple; None if it is."""
    ring = np.ascontiguousarray(shapely.get_coordinates(polygon))
    points = ring.view(np.complex128)[:, 0]  # one comparison for both coordinates
    others = points[points != points[0]] if points.size else points  # a hole may be empty
    if not others.size or (others == others[0]).all():
        return "a polygon needs at least three different points"
    if (points[1:] == points[:-1]).any():
        return "a polygon with a repeated point"
    with np.errstate(all="ignore"):  # GEOS overflows on coordinates near the largest float64
        flaw = _find_flaw(polygon, ring)
    return None if flaw is None else f"not a simple polygon: {flaw}"


def _members(geometry: shapely.Geometry) -> list[shapely.Geometry]:
    """Return the points, lines and polygons of a geometry; an empty part of a collection counts as one."""
    parts = shapely.get_parts(geometry)
    if not isinstance(geometry, shapely.GeometryCollection):
        return list(parts)
    return [member for part in parts for member in ([part] if part.is_empty else shapely.get_parts(part))]


def _rings(geometry: shapely.Geometry) -> list[_Ring]:
    """Return the coordinates of all rings and lines of a geometry."""
    if isinstance(geometry, shapely.Polygon) and not len(geometry.interiors):
        return [shapely.get_coordinates(geometry)]
    rings: list[_Ring] = []
    for part in _members(geometry):
        if isinstance(part, shapely.Polygon):
            rings += [shapely.get_coordinates(ring) for ring in (part.exterior, *part.interiors)]
        elif isinstance(part, shapely.LineString):
            rings.append(shapely.get_coordinates(part))
    return rings


def _first_jump(geometry: shapely.Geometry) -> tuple[float, float] | None:
    """Return the ends of an edge that jumps over the antimeridian, if a ring or line of a geometry has one."""
    return next((jump for ring in _rings(geometry) if (jump := _find_jump(ring)) is not None), None)


def _find_jump(ring: npt.NDArray[np.float64]) -> tuple[float, float] | None:
    """Return the ends of an edge that jumps from one side of the antimeridian to the other, if the ring does that.

    In the plane such a ring spans the whole world, which is not meant when no vertex lies anywhere between.
    """
    x, y = ring.T
    if not ((np.abs(x) <= 180).all() and (np.abs(y) <= 90).all() and (np.abs(x) >= _NEAR_THE_ANTIMERIDIAN).all()):
        return None
    if (np.abs(x) == 180).any() or not (np.abs(np.diff(x)) > 180).any():
        return None  # a world map ends at 180
    at = int(np.argmax(np.abs(np.diff(x))))
    return float(x[at]), float(x[at + 1])


def _find_flaw(polygon: shapely.Polygon, ring: npt.NDArray[np.float64]) -> str | None:
    """Return where a polygon with this ring crosses or touches itself; None if it does not."""
    if len(ring) <= _ROWS_FOR_GEOS:
        return None if polygon.is_valid else str(shapely.is_valid_reason(polygon))
    from tamis.kernels.polygons.ring import find_contact  # late: importing tamis must not import numba

    contact = find_contact(ring)
    if contact is None:
        return None
    starts = " and ".join(f"[{x:.15g} {y:.15g}]" for x, y in ring[list(contact)].tolist())
    return f"Self-intersection of the edges from {starts}"


def _check_coordinates(geometry: shapely.Geometry) -> None:
    if geometry.is_empty:
        raise UnfitError("an empty geometry")
    if isinstance(geometry, shapely.Point):
        is_finite = math.isfinite(geometry.x) and math.isfinite(geometry.y)
    else:
        is_finite = bool(np.isfinite(shapely.get_coordinates(geometry)).all())
    if not is_finite:
        raise UnfitError("NaN and infinity are not coordinates")


def _check_degrees(geometry: Operand) -> None:
    if isinstance(geometry, shapely.Point) and not geometry.is_empty:
        is_on_the_globe = abs(geometry.x) <= 180 and abs(geometry.y) <= 90
    else:
        is_on_the_globe = bool((np.abs(shapely.get_coordinates(geometry)) <= (180, 90)).all())
    if not is_on_the_globe:
        raise UnfitError(_BEYOND)


def _cut(geometry: shapely.Geometry, repair: bool) -> shapely.Geometry:
    """Cut the parts of a geometry that cross the antimeridian; what a repair leaves nothing of is dropped."""
    is_collection = isinstance(geometry, shapely.GeometryCollection)
    pieces: list[shapely.Geometry] = []
    for part in shapely.get_parts(geometry):
        with contextlib.suppress(NothingLeftError):
            if is_collection:
                pieces.append(fitted(part, geodetic=True, repair=repair))
            else:
                pieces += [part] if _first_jump(part) is None else _halves(part, repair)
    if not pieces:
        raise NothingLeftError
    if is_collection:
        return shapely.GeometryCollection(pieces)
    return (shapely.multipolygons if is_polygonal(geometry) else shapely.multilinestrings)(pieces)


def _halves(part: shapely.Geometry, repair: bool) -> list[shapely.Geometry]:
    """Cut a polygon or line at the antimeridian: move its western half 360 degrees east, and what is beyond 180 back.

    Whether it is valid is asked of the moved geometry: in the plane, edges that run the wrong way around may cross.
    """
    if isinstance(part, shapely.Polygon) and _is_torn(part):
        raise UnfitError(_TORN)
    east = shapely.transform(part, lambda xy: xy + (xy[:, :1] < 0) * np.array([360.0, 0.0]))
    east = valid(east, repair=repair)
    near = shapely.intersection(east, shapely.box(-180, -90, 180, 90))
    far = shapely.intersection(east, shapely.box(180, -90, 540, 90))
    back = shapely.transform(far, lambda xy: xy - np.array([360.0, 0.0]))
    dimension = shapely.get_dimensions(part)
    return [piece for piece in shapely.get_parts([near, back]) if shapely.get_dimensions(piece) == dimension]


def _is_torn(polygon: shapely.Polygon) -> bool:
    """Whether a ring of a polygon that is to be moved lies on both sides of x = 0, and not across the antimeridian."""
    outer, *holes = _rings(polygon)
    if _has_both_signs(outer) and _find_jump(outer) is None:
        return True
    return any(_has_both_signs(hole) and np.abs(hole[:, 0]).min() < _NEAR_THE_ANTIMERIDIAN for hole in holes)


def _has_both_signs(ring: _Ring) -> bool:
    return bool(ring[:, 0].min() < 0 <= ring[:, 0].max())
