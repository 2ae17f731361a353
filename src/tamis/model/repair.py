"""Repairs invalid geometry.

A ring encloses what it winds around, in either direction: both triangles of a figure of eight. Holes are taken out of
the polygon that they meet; a hole that lies outside becomes a polygon. If its holes leave nothing of a polygon, the
rings were written in the wrong order, and the largest one is the outer one. The polygons of a MULTIPOLYGON are joined
where they overlap. What has no area (a spike, a polygon on a line) goes, and so do lines of a single point and empty
parts.

GEOS calls this repair by structure. Roads not taken: its repair by linework, the default of shapely and PostGIS, counts
crossings (a point is inside if they are odd), so that two polygons of a warning that overlap leave a hole, and takes 50
times as long when many edges meet; ``buffer(0)`` loses a triangle of a figure of eight.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import shapely

from tamis.errors import LimitError
from tamis.model.values import UnfitError

__all__ = ["MAX_CONTACTS", "NothingLeftError", "repaired"]

#: Pairs of edges that meet, besides neighbours: GEOS needs 15 ms for 1,000 of them among 10,000 vertices.
MAX_CONTACTS = 1_000

#: Pairs of edges that are compared at most to count contacts: 5 ms.
_MAX_PAIRS = 4_000_000


class NothingLeftError(UnfitError):
    """A repair would leave nothing."""

    def __init__(self) -> None:
        super().__init__("nothing is left of it when it is repaired: it has no area, or no length")


def repaired(geometry: shapely.Geometry) -> shapely.Geometry:
    """Return a valid version of a plane geometry with finite coordinates, of the same dimension.

    `NothingLeftError` when nothing is left, `LimitError` when too many of its edges meet.

    >>> repaired(shapely.Polygon([(0, 0), (2, 2), (2, 0), (0, 2), (0, 0)]))
    <MULTIPOLYGON (((1 1, 2 2, 2 0, 1 1)), ((0 0, 0 2, 1 1, 0 0)))>
    """
    _check_contacts(geometry)
    parts = geometry.geoms if isinstance(geometry, shapely.GeometryCollection) else [geometry]
    try:
        with np.errstate(all="ignore"):  # GEOS overflows on coordinates near the largest float64
            made = [mended for part in parts if not (mended := _mended(part)).is_empty]
    except shapely.errors.GEOSException as error:
        raise UnfitError(f"it cannot be repaired: {str(error).splitlines()[0]}") from None
    if not made:
        raise NothingLeftError
    return shapely.GeometryCollection(made) if isinstance(geometry, shapely.GeometryCollection) else made[0]


def _mended(geometry: shapely.Geometry) -> shapely.Geometry:
    """Return the valid parts of a geometry other than a collection, without those of a lower dimension."""
    if shapely.get_dimensions(geometry) < 2:
        return _by_structure(geometry)
    polygons = [_by_structure(part) for part in shapely.get_parts(geometry)]
    for i, part in enumerate(shapely.get_parts(geometry)):
        if polygons[i].is_empty and not part.is_empty:
            polygons[i] = _by_structure(_largest_first(part))
    return polygons[0] if len(polygons) == 1 else shapely.union_all(polygons)


def _by_structure(geometry: shapely.Geometry) -> shapely.Geometry:
    """Repair a geometry; where a ring winds around neighbours in both directions, GEOS leaves them side by side."""
    made = shapely.make_valid(geometry, method="structure", keep_collapsed=False)
    return made if made.is_valid else shapely.union_all(shapely.get_parts(made))


def _largest_first(polygon: shapely.Polygon) -> shapely.Polygon:
    """Return a polygon whose outer ring is its largest one."""
    rings = shapely.get_rings(polygon)
    areas = [_by_structure(shapely.Polygon(ring)).area for ring in rings]
    outer = int(np.argmax(areas))
    return shapely.Polygon(rings[outer], np.delete(rings, outer))


def _check_contacts(geometry: shapely.Geometry) -> None:
    """Raise `LimitError` when too many edges of a geometry meet to repair it."""
    from tamis.kernels.polygons.contacts import count_contacts  # late: importing tamis must not import numba

    edges = _edges(geometry)
    most = len(edges) + MAX_CONTACTS
    by_x, by_y = _swept(edges), _swept(edges[:, [1, 0, 3, 2]])
    fewest = min((_pairs(by_x), 0), (_pairs(by_y), 1))
    if fewest[0] > _MAX_PAIRS:
        raise LimitError("pairs of edges side by side in a region to repair", fewest[0], _MAX_PAIRS)
    contacts = int(count_contacts(by_y if fewest[1] else by_x, most + 1))
    if contacts > most:
        raise LimitError("pairs of edges that meet in a region to repair", contacts - len(edges), MAX_CONTACTS)


def _edges(geometry: shapely.Geometry) -> npt.NDArray[np.float64]:
    """Return x and y of both ends of all edges."""
    parts = shapely.get_parts(shapely.get_parts(geometry))
    polygons = shapely.get_type_id(parts) == int(shapely.GeometryType.POLYGON)
    lines = np.concatenate([shapely.get_rings(parts[polygons]), parts[~polygons]])
    xy, owner = shapely.get_coordinates(lines, return_index=True)
    is_edge: npt.NDArray[np.bool_] = owner[1:] == owner[:-1]
    edges: npt.NDArray[np.float64] = np.hstack([xy[:-1], xy[1:]])[is_edge]
    return edges


def _swept(edges: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return edges that begin at the end with the smaller first coordinate, sorted by it."""
    turned = np.where((edges[:, 0] > edges[:, 2])[:, None], edges[:, [2, 3, 0, 1]], edges)
    swept: npt.NDArray[np.float64] = turned[np.argsort(turned[:, 0], kind="stable")]
    return swept


def _pairs(edges: npt.NDArray[np.float64]) -> int:
    """Return how many pairs of swept edges overlap in their first coordinate."""
    return int((np.searchsorted(edges[:, 0], edges[:, 2], "right") - np.arange(len(edges)) - 1).sum())
