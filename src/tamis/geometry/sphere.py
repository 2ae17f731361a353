"""Computes distances on the sphere between lines, polygons and points in longitude and latitude.

Edges are straight lines in longitude and latitude, as in all of tamis and in RFC 7946. They are cut into pieces of at
most `_PIECE` degrees, and each piece is replaced by an arc of a great circle, which deviates by less than 1.3 metres.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import shapely

from tamis.geometry.spaces import EARTH_RADIUS, chord, sphere_vectors

__all__ = ["are_within", "bounds_of_circle"]

_Vectors = npt.NDArray[np.float64]
Side = tuple[float, float]

#: Degrees of a piece of an edge, and the largest deviation of its arc, in degrees too.
_PIECE, _BESIDE = 0.1, 1.2e-5

#: Pairs of vertices that are compared at once, and pairs of a vertex and an arc.
_VERTEX_PAIRS, _ARC_PAIRS = 1 << 22, 1 << 16

#: Degrees by which the box of a circle is widened: far more than all rounding together.
_SLACK = 1e-9


def are_within(a: shapely.Geometry, b: shapely.Geometry, metres: float) -> bool:
    """Whether two geometries in longitude and latitude are at most ``distance`` metres apart.

    Only the parts near the other geometry are cut into pieces: an edge around the globe has thousands.
    """
    if shapely.intersects(a, b):
        return True
    near_a = _clipped(_edges(a), bounds_of_circle(b.bounds, metres))
    if near_a.is_empty:
        return False
    near_b = _clipped(_edges(b), bounds_of_circle(near_a.bounds, metres))
    return not near_b.is_empty and _distance(near_a, near_b) <= metres


def _distance(a: shapely.Geometry, b: shapely.Geometry) -> float:
    """Return the least distance in metres of lines and points that have no point in common."""
    first, second = _near_each_other(_arcs(a), _arcs(b))
    least = min(_least_chord(first, second), _least_chord(second, first))
    return 2.0 * EARTH_RADIUS * math.asin(min(least / 2.0, 1.0))


def _edges(geometry: shapely.Geometry) -> shapely.Geometry:
    """Return the points and lines of a geometry, the rings of its polygons among the lines."""
    edges = []
    for part in shapely.get_parts(shapely.get_parts(geometry)):
        edges += [part.exterior, *part.interiors] if isinstance(part, shapely.Polygon) else [part]
    return shapely.GeometryCollection([shapely.LineString(edge) if edge.length else edge for edge in edges])


def _clipped(edges: shapely.Geometry, boxes: list[tuple[Side, Side]]) -> shapely.Geometry:
    """Return the parts of points and lines that lie in boxes of longitude and latitude."""
    margin = _BESIDE  # GEOS leaves out what lies on the border of a box, such as a point of longitude 180
    inside = [shapely.clip_by_rect(edges, x[0] - margin, y[0] - margin, x[1] + margin, y[1] + margin) for x, y in boxes]
    return shapely.GeometryCollection([part for clipped in inside for part in shapely.get_parts(clipped)])


def _arcs(edges: shapely.Geometry) -> _Vectors:
    """Return both ends of all pieces of edges as unit vectors float64[n, 2, 3]; a point is a piece without length."""
    pieces = []
    for part in shapely.get_parts(shapely.get_parts(shapely.segmentize(edges, _PIECE))):
        vectors = sphere_vectors(shapely.get_coordinates(part))
        pieces.append(np.stack((vectors[: max(len(vectors) - 1, 1)], vectors[min(len(vectors) - 1, 1) :]), axis=1))
    return np.concatenate(pieces)


def _near_each_other(a: _Vectors, b: _Vectors) -> tuple[_Vectors, _Vectors]:
    """Return the pieces that may be nearest: their start is not much farther away than the nearest start."""
    longest = math.radians(_PIECE)
    of_a, of_b = np.full(len(a), -1.0), np.full(len(b), -1.0)
    step = max(1, _VERTEX_PAIRS // len(b))
    for begin in range(0, len(a), step):
        cosines = a[begin : begin + step, 0] @ b[:, 0].T
        of_a[begin : begin + step] = cosines.max(axis=1)
        of_b = np.maximum(of_b, cosines.max(axis=0))
    farthest = math.acos(max(min(float(of_a.max()), 1.0), -1.0)) + 2 * longest + 1e-7
    least_cosine = math.cos(min(farthest, math.pi)) - 1e-12
    return a[of_a >= least_cosine], b[of_b >= least_cosine]


def _least_chord(points: _Vectors, arcs: _Vectors) -> float:
    """Return the shortest straight line from an end of the first pieces to a point of the second."""
    vertices = np.unique(points.reshape(-1, 3), axis=0)
    step = max(1, _ARC_PAIRS // len(arcs))
    return min(
        float(_chords(vertices[begin : begin + step], arcs[:, 0], arcs[:, 1]).min())
        for begin in range(0, len(vertices), step)
    )


def _chords(points: _Vectors, starts: _Vectors, ends: _Vectors) -> _Vectors:
    """Return the chord from each point to the nearest point of each arc, float64[points, arcs]."""
    normal = np.cross(starts, ends)
    length = np.linalg.norm(normal, axis=1)
    is_arc = length > 1e-15
    normal = np.where(is_arc[:, None], normal / np.where(is_arc, length, 1.0)[:, None], 0.0)
    to_ends = np.minimum(
        np.linalg.norm(points[:, None] - starts[None], axis=2), np.linalg.norm(points[:, None] - ends[None], axis=2)
    )
    height = points @ normal.T
    foot = points[:, None] - height[:, :, None] * normal[None]  # on the plane of the great circle
    after_start = (np.cross(starts, foot) * normal[None]).sum(axis=2) >= 0
    before_end = (np.cross(foot, ends) * normal[None]).sum(axis=2) >= 0
    beside = is_arc[None] & after_start & before_end
    # 2 sin(h / 2) for the angle h = asin(height): without cancellation for points near the arc.
    across = 2.0 * np.sin(np.arcsin(np.clip(np.abs(height), 0.0, 1.0)) / 2.0)
    chords: _Vectors = np.where(beside, np.minimum(across, to_ends), to_ends)
    return chords


def bounds_of_circle(bounds: tuple[float, float, float, float], metres: float) -> list[tuple[Side, Side]]:
    """Return boxes of longitude and latitude that hold all points at most so far from a box: one, or two at 180.

    >>> [tuple(round(side) for side in x) for x, y in bounds_of_circle((179, 0, 179, 0), 222_390)]
    [(177, 180), (-180, -179)]
    """
    west, south, east, north = bounds
    angle = math.degrees(min(2.0 * math.asin(min(chord(metres) / 2.0, 1.0)), math.pi)) + _SLACK + 2 * _BESIDE
    low, high = max(south - angle, -90.0), min(north + angle, 90.0)
    if low <= -90.0 or high >= 90.0:
        return [((-180.0, 180.0), (low, high))]
    # Where a circle is widest its meridian touches it: sin(width) = sin(angle) / cos(latitude of the centre).
    widest = math.cos(math.radians(max(abs(south), abs(north))))
    width = math.degrees(math.asin(min(math.sin(math.radians(angle)) / widest, 1.0))) + _SLACK
    if east - west + 2 * width >= 360.0:
        return [((-180.0, 180.0), (low, high))]
    left, right = west - width, east + width
    if left < -180.0:
        return [((-180.0, right), (low, high)), ((left + 360.0, 180.0), (low, high))]
    if right > 180.0:
        return [((left, 180.0), (low, high)), ((-180.0, right - 360.0), (low, high))]
    return [((left, right), (low, high))]
