"""Compares conditions on regions: which cover or exclude each other; finds a region that satisfies several.

A condition is (attribute, set of relations, polygon). Two conditions are compared by the relation of their polygons,
which is exact, and the composition table of the eight relations (`tamis.geometry.rcc8`). That is exact for two
conditions, whatever their regions. A conflict among three conditions that are compatible in pairs is not detected,
which is safe.

`regions_conflict` is the only question that the rest of the algebra asks: ``c1 covers c2`` is the same as
``c2 conflicts with the complement of c1``.

Implements: [crtree] section 4.2, covering and conflict of two constraints.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import shapely

from tamis.geometry.rcc8 import compose, sets_conflict
from tamis.geometry.relations import relation_of
from tamis.model.derived.spatial_functions import ALL_RELATIONS
from tamis.model.shapes import RegionValue
from tamis.model.subscription import Relation, Spatial

__all__ = [
    "complement",
    "joined_by_region",
    "possible_relations",
    "region_key",
    "regions_conflict",
    "regions_impossible",
    "relation_between",
    "same_region",
    "shape_in",
]

#: Relations of a shape to a region that one search may compute, in vertices; each counts `_CALL` more.
_VERTICES, _CALL = 100_000, 50
#: Pairs of regions whose common parts are tried.
_PAIRS = 10

#: Relative rounding error of a cross product, with room for the bound's own.
_ROUNDING = 1e-15


def same_region(a: shapely.Polygon, b: shapely.Polygon) -> bool:
    """Whether two polygons are the same set of points.

    >>> same_region(shapely.box(0, 0, 2, 2), shapely.Polygon([(0, 0), (1, 0), (2, 0), (2, 2), (0, 2)]))
    True
    """
    return a is b or region_key(a) == region_key(b)


@lru_cache(maxsize=4096)
def region_key(region: shapely.Polygon) -> bytes:
    """Return the corners of a region in one order: equal for two rings iff they enclose the same points."""
    ring = shapely.get_coordinates(region.exterior.normalize())[:-1] + 0.0
    ring = ring[(ring != np.roll(ring, 1, axis=0)).any(axis=1)]
    corners = ring[~_between_neighbours(ring)]
    first = int(np.lexsort((corners[:, 1], corners[:, 0]))[0])
    corners = np.roll(corners, -first, axis=0)
    if tuple(corners[-1]) < tuple(corners[1]):  # one direction: of the two neighbours the smaller comes next
        corners = np.concatenate([corners[:1], corners[:0:-1]])
    return bytes(corners.tobytes())


def _between_neighbours(ring: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """Return for each point of a ring, exactly, whether it lies on a straight line with its two neighbours."""
    before, after = np.roll(ring, 1, axis=0), np.roll(ring, -1, axis=0)
    with np.errstate(over="ignore", invalid="ignore"):
        (ux, uy), (vx, vy) = (ring - before).T, (after - ring).T
        left, right = ux * vy, uy * vx
        sure = np.abs(left - right) > _ROUNDING * (np.abs(left) + np.abs(right)) + 1e-290
    straight = np.zeros(len(ring), dtype=bool)
    for i in np.flatnonzero(~sure):
        (ax, ay), (bx, by), (cx, cy) = (tuple(map(Fraction, point)) for point in (before[i], ring[i], after[i]))
        straight[i] = (bx - ax) * (cy - by) == (by - ay) * (cx - bx)
    return straight


def complement(condition: Spatial) -> Spatial:
    """Return the condition that holds for every region that does not satisfy this one."""
    return Spatial(condition.attribute, ALL_RELATIONS - condition.relations, condition.region)


def regions_conflict(c1: Spatial, c2: Spatial) -> bool:
    """Whether no region or point satisfies both; exact.

    >>> inside = Spatial("area", frozenset({Relation.INSIDE, Relation.EQUALS}), shapely.box(0, 0, 1, 1))
    >>> regions_conflict(inside, Spatial("area", frozenset({Relation.OVERLAPS}), shapely.box(0, 0, 3, 3)))
    True
    """
    if not c1.relations or not c2.relations:
        return True
    if c1.region is c2.region:
        return not c1.relations & c2.relations
    return sets_conflict(c1.relations, relation_between(c1.region, c2.region), c2.relations)


@lru_cache(maxsize=1 << 16)
def relation_between(a: shapely.Polygon, b: shapely.Polygon) -> Relation:
    """Return the relation of two operands; cached, because the same operands are compared many times."""
    return relation_of(a, b)


def possible_relations(conditions: Iterable[Spatial], region: shapely.Polygon) -> frozenset[Relation]:
    """Return the relations to a region that each of the conditions leaves possible."""
    possible = ALL_RELATIONS
    for condition in conditions:
        possible &= compose(condition.relations, relation_between(condition.region, region))
    return possible


def regions_impossible(conditions: Sequence[Spatial]) -> bool:
    """Whether two of the conditions exclude each other, or those on one region together do."""
    joined = joined_by_region(conditions)
    if not all(condition.relations for condition in joined):
        return True
    return any(regions_conflict(a, b) for a, b in itertools.combinations(joined, 2))


def joined_by_region(conditions: Sequence[Spatial]) -> list[Spatial]:
    """Return one condition for each region, with the relations that all conditions on it allow."""
    joined: dict[bytes, Spatial] = {}
    for condition in conditions:
        key = region_key(condition.region)
        previous = joined.get(key)
        if previous is not None:
            condition = Spatial(previous.attribute, previous.relations & condition.relations, previous.region)
        joined[key] = condition
    return list(joined.values())


def shape_in(conditions: Sequence[Spatial]) -> RegionValue | None:
    """Return a region or point that satisfies every condition, or None if none was found within the limit."""
    joined = sorted(joined_by_region(conditions), key=lambda condition: len(condition.relations))
    sizes = [_CALL + shapely.get_num_coordinates(condition.region) for condition in joined]
    left = _VERTICES
    for shape in _candidates(joined):
        for condition, size in zip(joined, sizes, strict=True):
            left -= size
            if left < 0:
                return None
            if relation_of(shape, condition.region) not in condition.relations:
                break
        else:
            return shape
    return None


def _candidates(conditions: Sequence[Spatial]) -> Iterator[RegionValue]:
    """Yield valid shapes built for each condition, the strictest first, then for pairs of conditions."""
    for condition in conditions:
        for wanted in Relation:
            if wanted in condition.relations:
                yield from (shape for shape in _shapes(condition.region, wanted) if shape.is_valid)
    for condition, other in itertools.islice(itertools.combinations(conditions, 2), _PAIRS):
        yield from (shape for shape in _shapes_of_two(condition.region, other.region) if shape.is_valid)


def _shapes(region: shapely.Polygon, wanted: Relation) -> Iterator[RegionValue]:
    """Yield shapes that probably have a relation to a polygon; the caller checks."""
    min_x, min_y, max_x, max_y = region.bounds
    pad = max(max_x - min_x, max_y - min_y, abs(max_x) * 1e-9, abs(max_y) * 1e-9)
    ring = shapely.get_coordinates(region)[:-1]
    within = shapely.point_on_surface(region)
    if wanted is Relation.EQUALS:
        yield region
    elif wanted is Relation.DISJOINT:
        yield shapely.box(max_x + pad, max_y + pad, max_x + 2 * pad, max_y + 2 * pad)
        yield shapely.box(min_x - 2 * pad, min_y - 2 * pad, min_x - pad, min_y - pad)
    elif wanted is Relation.MEETS:
        yield shapely.box(max_x, min_y - pad, max_x + pad, max_y + pad)
        yield from (shapely.Point(corner) for corner in ring)
    elif wanted is Relation.OVERLAPS:
        yield shapely.box(min_x - pad, min_y - pad, within.x, max_y + pad)
        yield shapely.box(within.x, min_y - pad, max_x + pad, max_y + pad)
    elif wanted is Relation.CONTAINS:
        yield shapely.box(min_x - pad, min_y - pad, max_x + pad, max_y + pad)
    elif wanted is Relation.COVERS:
        yield shapely.box(min_x, min_y - pad, max_x + pad, max_y + pad)
    elif wanted is Relation.INSIDE:
        yield from _small_shapes(within, pad)
    else:
        yield from _ears(ring, within)


def _shapes_of_two(a: shapely.Polygon, b: shapely.Polygon) -> Iterator[RegionValue]:
    """Yield the intersection and the differences of two polygons, and shapes around and inside these parts."""
    both = shapely.union(a, b)
    for shape in (shapely.intersection(a, b), shapely.difference(a, b), shapely.difference(b, a), both):
        for part in shapely.get_parts(shape):
            if not isinstance(part, shapely.Polygon) or part.is_empty:
                continue
            yield from (part, part.convex_hull, shapely.box(*part.bounds))
            yield from _small_shapes(shapely.point_on_surface(part), min(_extent(part), 1.0))
            yield from _ears(shapely.get_coordinates(part.exterior)[:-1], shapely.point_on_surface(part))
    pad = _extent(both)
    min_x, min_y, max_x, max_y = both.bounds
    for west, south, east, north in itertools.product((0.0, 0.5), repeat=4):
        yield shapely.box(min_x - west * pad, min_y - south * pad, max_x + east * pad, max_y + north * pad)


def _extent(shape: shapely.Polygon) -> float:
    min_x, min_y, max_x, max_y = shape.bounds
    return float(max(max_x - min_x, max_y - min_y))


def _small_shapes(within: shapely.Point, pad: float) -> Iterator[RegionValue]:
    """Yield smaller and smaller squares around an inner point, then the point itself."""
    for share in (0.125, 0.01, 1e-4, 1e-8):
        half = pad * share
        yield shapely.box(within.x - half, within.y - half, within.x + half, within.y + half)
    yield within


def _ears(ring: np.ndarray, within: shapely.Point) -> Iterator[shapely.Polygon]:
    """Yield triangles on an edge of a ring: with an inner point, with the next corner, and flat ones."""
    n, top = len(ring), np.array([within.x, within.y])
    for i in range(n):
        a, b = ring[i], ring[(i + 1) % n]
        yield shapely.Polygon([a, b, top])
        if n > 3:
            yield shapely.Polygon([a, b, ring[(i + 2) % n]])
        for share in (0.05, 1e-4):
            yield shapely.Polygon([a, b, (a + b) / 2 * (1 - share) + top * share])
