"""Evaluates the spatial functions of OGC for any two geometries: one pair, or one geometry and an array.

Points and simple polygons that only have to intersect are compared by the exact kernel; distances between points too.
Everything else is decided by GEOS, which computes signs with about 106 bits, or, on the sphere, by
`tamis.geometry.sphere`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import shapely

from tamis.geometry.balls import in_ball
from tamis.geometry.matrices import compound_relation
from tamis.geometry.relations import relation_of
from tamis.geometry.spaces import as_ball, vector_of
from tamis.geometry.sphere import are_within
from tamis.model.shapes import RegionValue, is_plain, is_polygonal, is_simple, parts_of
from tamis.model.subscription import Geometric, Relation

__all__ = ["pass_all", "passes"]

_Bools = npt.NDArray[np.bool_]
_COLLECTION = int(shapely.GeometryType.GEOMETRYCOLLECTION)

#: Function -> what GEOS computes of the operand, which may be prepared, and the event's geometry.
_GEOS: dict[str, Callable[[Any, Any], Any]] = {
    "S_INTERSECTS": shapely.intersects,
    "S_EQUALS": shapely.equals,
    "S_TOUCHES": shapely.touches,
    "S_CROSSES": shapely.crosses,
    "S_OVERLAPS": shapely.overlaps,
    "S_WITHIN": shapely.contains,
    "S_CONTAINS": shapely.within,
}


def passes(value: RegionValue, test: Geometric) -> bool:
    """Whether an event's geometry passes a spatial function; ``negated`` is ignored.

    >>> passes(shapely.LineString([(0, 0), (2, 2)]), Geometric("road", "S_CROSSES", shapely.box(1, 1, 3, 3)))
    True
    """
    if test.function == "S_DWITHIN":
        return _is_near(value, test)
    exactly = _exactly(value, test)
    if exactly is not None:
        return exactly
    if test.function in _GEOS:
        return bool(_by_geos(test.function, test.geometry, value))
    return compound_relation(value, test.geometry).value == test.function[4:].lower()


def pass_all(values: npt.NDArray[np.object_], test: Geometric) -> _Bools:
    """Return which geometries of an array pass a spatial function; the same as `passes` for each."""
    if test.function in _GEOS:
        operand = shapely.force_2d(test.geometry)  # a copy: no other thread may use it while GEOS prepares it
        shapely.prepare(operand)
        passed = np.asarray(_by_geos(test.function, operand, values), bool)
        # GEOS 3.14 overlooks holes of a prepared polygon when it compares it with a collection.
        several = shapely.get_type_id(values) == _COLLECTION
        if several.any():
            passed[several] = _by_geos(test.function, test.geometry, values[several])
        for row, value in enumerate(values):
            exactly = _exactly(value, test) if is_plain(value) else None
            if exactly is not None:
                passed[row] = exactly
        return passed
    return np.array([passes(value, test) for value in values], bool)


def _by_geos(function: str, operand: Any, values: Any) -> Any:
    """Return what GEOS computes, without a warning: it overflows on coordinates near the largest float64."""
    with np.errstate(over="ignore", invalid="ignore"):
        return _GEOS[function](operand, values)


def _exactly(value: RegionValue, test: Geometric) -> bool | None:
    """Return the result of a function by the exact kernel; None if the kernel does not cover this case."""
    other = test.geometry
    if not is_plain(value):
        return None
    if test.function == "S_OVERLAPS" and is_simple(other):
        return relation_of(value, other) is Relation.OVERLAPS
    if test.function != "S_INTERSECTS":
        return None
    if is_polygonal(other):
        return any(_meets_part(value, outer, holes) for outer, holes in parts_of(other))
    if isinstance(other, shapely.Point) and is_simple(value):
        return relation_of(other, value) is not Relation.DISJOINT
    return None


def _meets_part(value: RegionValue, outer: shapely.Polygon, holes: tuple[shapely.Polygon, ...]) -> bool:
    """Whether a point or a simple polygon meets a polygon with holes.

    The shape is connected, so it meets the polygon iff it meets the inside of the outer ring and does not lie
    completely inside a hole; the boundary of a hole belongs to the polygon.
    """
    if relation_of(value, outer) is Relation.DISJOINT:
        return False
    return all(relation_of(value, hole) is not Relation.INSIDE for hole in holes)


def _is_near(value: RegionValue, test: Geometric) -> bool:
    ball = as_ball(test)
    if ball is not None and isinstance(value, shapely.Point):
        point = vector_of({test.attribute: value}, ball.attribute)
        assert point is not None
        return in_ball(point, ball.center, ball.radius)
    if test.on_sphere:
        return are_within(value, test.geometry, test.distance)
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(shapely.dwithin(value, test.geometry, test.distance))
