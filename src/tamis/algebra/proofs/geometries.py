"""Compares conditions on geometry other than simple polygons, and on cosines; finds values that satisfy them.

Most conditions on the event's geometry e imply one of five statements about their operand X: e *meets* X, e *holds*
X, e *lies in* X, e lies in the *interior* of X, e is *apart* from X. Two conditions exclude each other if two of their
statements do, given the relation of X and Y. The statements are valid for every kind of geometry, and so are the
proofs; everything else stays unknown, which is safe.

The relation of X and Y is computed by the exact kernel for points and polygons. For lines only bounding boxes are
compared.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import shapely

from tamis.algebra.proofs.balls import balls_conflict
from tamis.algebra.proofs.regions import regions_conflict
from tamis.geometry.balls import in_ball
from tamis.geometry.predicates import passes
from tamis.geometry.relations import relation_of
from tamis.geometry.spaces import EARTH_RADIUS, as_ball, cosine_ball, unit_vector
from tamis.model.shapes import is_polygonal, is_simple, parts_of
from tamis.model.subscription import Ball, Clock, Condition, Cosine, Geometric, Relation, Spatial

__all__ = ["conditions_conflict", "geometry_for", "implied_relations", "vector_for"]

_WITHIN = frozenset({Relation.INSIDE, Relation.COVERED_BY, Relation.EQUALS})
_HOLDING = frozenset({Relation.CONTAINS, Relation.COVERS, Relation.EQUALS})
_OUTSIDE = frozenset({Relation.DISJOINT, Relation.MEETS})

#: Error bound of a distance, relative to the earth's radius.
_SLACK = 1e-12


class _Sentences(NamedTuple):
    """The statements that a condition implies about the event's geometry and its operand."""

    meets: bool = False
    holds: bool = False
    lies_in: bool = False
    in_interior: bool = False
    apart: bool = False


_OF_FUNCTIONS = {
    "S_INTERSECTS": _Sentences(meets=True),
    "S_TOUCHES": _Sentences(meets=True),
    "S_CROSSES": _Sentences(meets=True),
    "S_OVERLAPS": _Sentences(meets=True),
    "RCC_OVERLAPS": _Sentences(meets=True),
    "S_WITHIN": _Sentences(meets=True, lies_in=True),
    "RCC_COVERED_BY": _Sentences(meets=True, lies_in=True),
    "RCC_INSIDE": _Sentences(meets=True, lies_in=True, in_interior=True),
    "S_CONTAINS": _Sentences(meets=True, holds=True),
    "RCC_CONTAINS": _Sentences(meets=True, holds=True),
    "RCC_COVERS": _Sentences(meets=True, holds=True),
    "S_EQUALS": _Sentences(meets=True, holds=True, lies_in=True),
}


def conditions_conflict(a: Condition, b: Condition) -> bool:
    """Whether it is proved that no value satisfies both conditions, of which one is a `Geometric` or a `Cosine`."""
    if isinstance(a, Clock) and isinstance(b, Clock):
        return a.zone == b.zone and not a.allowed & b.allowed
    if isinstance(a, Cosine) or isinstance(b, Cosine):
        return _vectors_conflict(a, b)
    if not isinstance(a, Spatial | Geometric) or not isinstance(b, Spatial | Geometric):
        return False
    if isinstance(a, Geometric) and isinstance(b, Geometric) and a == replace(b, negated=not b.negated):
        return True
    if _distances_conflict(a, b) or _distances_conflict(b, a):
        return True
    first, second = implied_relations(a), implied_relations(b)
    if first is not None and second is not None and regions_conflict(first, second):
        return True
    return _exclude(a, b) or _exclude(b, a)


def _vectors_conflict(a: Condition, b: Condition) -> bool:
    if isinstance(a, Cosine) and isinstance(b, Cosine):
        first, second = as_ball(a), as_ball(b)
        return first is not None and second is not None and balls_conflict(first, second)
    ball = a if isinstance(a, Ball) else b
    # A vector of zeros has no direction. It is written as a ball without extent.
    return isinstance(ball, Ball) and not ball.negated and ball.radius == 0 and not any(ball.center)


def implied_relations(condition: Spatial | Geometric) -> Spatial | None:
    """Return relations to a simple polygon of which every value that satisfies the condition has one, if known.

    For an operand of several parts, the polygon is the box around it.

    >>> lot = shapely.box(0, 0, 4, 4)
    >>> [one.value for one in implied_relations(Geometric("a", "S_OVERLAPS", lot)).relations]
    ['overlaps']
    """
    if isinstance(condition, Spatial):
        return condition
    if condition.negated or condition.on_sphere:
        return None
    name, operand, sentences = condition.attribute, condition.geometry, _sentences(condition)
    if is_simple(operand):
        overlaps = condition.function in ("S_OVERLAPS", "S_CROSSES")
        return Spatial(name, frozenset({Relation.OVERLAPS}), operand) if overlaps else None
    box = shapely.box(*operand.bounds)
    if not is_simple(box) or not (sentences.lies_in or sentences.meets):
        return None
    return Spatial(name, _WITHIN if sentences.lies_in else frozenset(Relation) - {Relation.DISJOINT}, box)


def _sentences(condition: Spatial | Geometric) -> _Sentences:
    if isinstance(condition, Geometric):
        if condition.negated:
            return _Sentences(apart=condition.function in ("S_INTERSECTS", "S_DWITHIN"))
        return _OF_FUNCTIONS.get(condition.function, _Sentences())
    relations = condition.relations
    return _Sentences(
        Relation.DISJOINT not in relations,
        relations <= _HOLDING,
        relations <= _WITHIN,
        relations <= {Relation.INSIDE},
        relations <= {Relation.DISJOINT},
    )


def _operand(condition: Spatial | Geometric) -> shapely.Geometry:
    return condition.region if isinstance(condition, Spatial) else condition.geometry


def _exclude(a: Spatial | Geometric, b: Spatial | Geometric) -> bool:
    """Whether a sentence of ``a`` excludes one of ``b``."""
    x, y, a_sentences, b_sentences = _operand(a), _operand(b), _sentences(a), _sentences(b)
    if a_sentences.lies_in and ((b_sentences.meets and _are_apart(x, y)) or (b_sentences.holds and _sticks_out(y, x))):
        return True
    if a_sentences.in_interior and b_sentences.meets and _is_outside_interior(y, x):
        return True
    if a_sentences.apart and (
        (b_sentences.meets and _lies_in(y, x)) or (b_sentences.holds and _have_common_point(x, y))
    ):
        return True
    if not isinstance(b, Geometric) or not b.negated:
        return False
    if b.function == "S_WITHIN" and a_sentences.lies_in and is_polygonal(x) and is_polygonal(y):
        return _lies_in(x, y)
    return b.function == "S_CONTAINS" and a_sentences.holds and is_polygonal(x) and is_polygonal(y) and _lies_in(y, x)


def _distances_conflict(far: Spatial | Geometric, near: Spatial | Geometric) -> bool:
    """Whether two distance conditions exclude each other, because one circle lies in the other."""
    if not isinstance(far, Geometric) or not isinstance(near, Geometric) or not far.negated or near.negated:
        return False
    if far.function != "S_DWITHIN" or near.function != "S_DWITHIN" or far.on_sphere != near.on_sphere:
        return False
    outer, inner = as_ball(far), as_ball(near)
    if outer is None or inner is None:
        return False
    apart = math.dist(outer.center, inner.center)
    if far.on_sphere:
        apart = 2 * EARTH_RADIUS * math.asin(min(apart / 2, 1.0))
    slack = _SLACK * (EARTH_RADIUS if far.on_sphere else abs(far.distance) + max(map(abs, outer.center)))
    return apart + near.distance <= far.distance - slack or (apart == 0 and near.distance <= far.distance)


def _lies_in(inner: shapely.Geometry, outer: shapely.Geometry) -> bool:
    """Whether it is proved that all points of one geometry belong to the other."""
    if inner == outer:
        return True
    if not is_polygonal(outer) or not (is_polygonal(inner) or isinstance(inner, shapely.Point)):
        return False
    return all(any(_part_lies_in(piece, *part) for part in parts_of(outer)) for piece in _pieces(inner))


def _pieces(geometry: shapely.Geometry) -> list[shapely.Geometry]:
    """Return a point itself, and the outer rings of polygons filled."""
    return [geometry] if isinstance(geometry, shapely.Point) else [part.outer for part in parts_of(geometry)]


def _part_lies_in(piece: shapely.Geometry, outer: shapely.Polygon, holes: tuple[shapely.Polygon, ...]) -> bool:
    relation = relation_of(piece, outer)
    on_boundary = isinstance(piece, shapely.Point) and relation is Relation.MEETS
    if relation not in _WITHIN and not on_boundary:
        return False
    return all(relation_of(piece, hole) in _OUTSIDE for hole in holes)


def _are_apart(a: shapely.Geometry, b: shapely.Geometry) -> bool:
    """Whether it is proved that two geometries have no point in common."""
    (ax, ay, az, aw), (bx, by, bz, bw) = a.bounds, b.bounds
    if az < bx or bz < ax or aw < by or bw < ay:
        return True
    if is_polygonal(b) and (is_polygonal(a) or isinstance(a, shapely.Point)):
        return not any(passes(piece, Geometric("", "S_INTERSECTS", b)) for piece in _pieces(a))
    return isinstance(b, shapely.Point) and is_polygonal(a) and _are_apart(b, a)


def _have_common_point(a: shapely.Geometry, b: shapely.Geometry) -> bool:
    """Whether it is proved that two geometries have a point in common."""
    for area, other in ((a, b), (b, a)):
        if is_polygonal(area) and (is_simple(other) or isinstance(other, shapely.Point)):
            return passes(other, Geometric("", "S_INTERSECTS", area))
    return bool(a == b)


def _sticks_out(piece: shapely.Geometry, outer: shapely.Geometry) -> bool:
    """Whether it is proved that some point of one geometry does not belong to the other."""
    if is_simple(piece) and is_simple(outer):
        return relation_of(piece, outer) not in _WITHIN
    return _are_apart(piece, outer)


def _is_outside_interior(piece: shapely.Geometry, of: shapely.Geometry) -> bool:
    """Whether it is proved that no point of one geometry lies in the interior of the other."""
    if is_simple(of) and isinstance(piece, shapely.Point):
        return relation_of(piece, of) in _OUTSIDE
    if is_simple(of) and is_polygonal(piece):
        return all(
            relation_of(of, part.outer) in _OUTSIDE or any(relation_of(of, hole) in _WITHIN for hole in part.holes)
            for part in parts_of(piece)
        )
    return _are_apart(piece, of)


def geometry_for(conditions: Sequence[Condition]) -> shapely.Geometry | None:
    """Return a geometry that satisfies every condition on it, or None when none of those tried does."""
    for shape in itertools.islice(_shapes(conditions), _MOST_SHAPES):
        if not shape.is_empty and shape.is_valid and all(_satisfies(shape, condition) for condition in conditions):
            return shape
    return None


#: Shapes that are tried.
_MOST_SHAPES = 400


def _satisfies(shape: shapely.Geometry, condition: Condition) -> bool:
    if isinstance(condition, Spatial):
        return relation_of(shape, condition.region) in condition.relations
    return isinstance(condition, Geometric) and passes(shape, condition) != condition.negated


def _shapes(conditions: Sequence[Condition]) -> Iterator[shapely.Geometry]:
    """Yield points of the operands, the operands themselves, lines through and boxes around them."""
    operands = [_operand(condition) for condition in conditions if isinstance(condition, Spatial | Geometric)]
    inner = [shapely.point_on_surface(part) for operand in operands for part in shapely.get_parts(operand)]
    yield from inner
    for operand in operands:
        yield from (operand, *shapely.get_parts(operand))
        holes = [hole for part in parts_of(operand) for hole in part.holes] if is_polygonal(operand) else []
        yield from map(shapely.point_on_surface, holes)
        if len(holes) > 1:
            yield shapely.MultiPoint([shapely.point_on_surface(hole) for hole in holes])
        west, south, east, north = operand.bounds
        pad = max(east - west, north - south) or 1.0
        yield shapely.LineString([(west - pad, south - pad), (east + pad, north + pad)])
        yield shapely.LineString([(inner[0].x, inner[0].y), (east + pad, north + pad)])
        yield shapely.box(west - pad, south - pad, east + pad, north + pad)
        yield shapely.box(west - pad, south - pad, inner[0].x, north + pad)
        yield from (shapely.Point(east + pad, north + pad), shapely.Point(west - 100 * pad, south - 100 * pad))
        yield from (shapely.Point(0, 0), shapely.Point(180, 0), shapely.Point(0, 90), shapely.Point(0, -90))


def vector_for(conditions: Sequence[Condition]) -> npt.NDArray[np.float64] | None:
    """Return a vector that satisfies every condition on it, or None when none of those tried does."""
    centers = [condition.direction for condition in conditions if isinstance(condition, Cosine)]
    centers += [condition.center for condition in conditions if isinstance(condition, Ball)]
    for center in centers:
        for vector in (np.array(center), -np.array(center), np.roll(center, 1), np.zeros(len(center))):
            if all(_vector_satisfies(vector, condition) for condition in conditions):
                vector.setflags(write=False)
                return vector
    return None


def _vector_satisfies(vector: npt.NDArray[np.float64], condition: Condition) -> bool:
    if isinstance(condition, Cosine):
        unit = unit_vector(vector)
        return unit is not None and in_ball(unit, *cosine_ball(condition)) != condition.negated
    return isinstance(condition, Ball) and in_ball(vector, condition.center, condition.radius) != condition.negated
