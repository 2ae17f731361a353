"""Computes the eight relations of any geometry from the matrix of the nine intersections (DE-9IM).

Plain is a point or a simple polygon; for these `tamis.geometry.relations` has an exact kernel. A geometry of several
parts, with holes, of lines or of points is one closed set of points with an interior, a boundary and an exterior, and
its relation to a region is

========== ==================================================================================
disjoint   no common point
meets      common points, but none of both interiors
inside     all of it in the interior of the region
covered_by all of it in the region, the boundary touched
equals     the same points
contains   the region in its interior
covers     the region in it, the boundary touched
overlaps   common points of both interiors, and neither lies in the other
========== ==================================================================================

Exactly one of them holds for every pair. For regions these are the relations of RCC-8. Their composition table
(`tamis.geometry.rcc8`) asks for regular closed sets, not for connected ones, so that the algebra of filters holds for
several parts and for holes. A line or points in a region behave like a region without area: they never contain or
equal one.

GEOS computes the matrix from signs with about 106 bits.
"""

from __future__ import annotations

import numpy as np
import shapely

from tamis.model.subscription import Relation

__all__ = ["compound_relation", "relation_of_matrix"]


def compound_relation(a: shapely.Geometry, b: shapely.Geometry) -> Relation:
    """Return the relation "a REL b" of any two geometries of which ``b`` is one or more polygons.

    >>> two = shapely.MultiPolygon([shapely.box(0, 0, 1, 1), shapely.box(2, 0, 3, 1)])
    >>> compound_relation(two, shapely.box(-1, -1, 4, 2)).value, compound_relation(two, shapely.box(0, 0, 1, 1)).value
    ('inside', 'covers')
    """
    with np.errstate(over="ignore", invalid="ignore"):  # GEOS overflows on coordinates near the largest float64
        matrix = shapely.relate(a, b)
    return relation_of_matrix(matrix)


def relation_of_matrix(matrix: str) -> Relation:
    """Return the relation for a matrix of nine intersections, in the order of `shapely.relate`.

    >>> relation_of_matrix("FF2FF1212").value, relation_of_matrix("212101212").value
    ('disjoint', 'overlaps')
    """
    ii, ib, ie, bi, bb, be, ei, eb = (cell != "F" for cell in matrix[:8])
    if not ii:
        return Relation.MEETS if ib or bi or bb else Relation.DISJOINT
    lies_in, holds = not (ie or be), not (ei or eb)
    if lies_in and holds:
        return Relation.EQUALS
    if lies_in:
        return Relation.COVERED_BY if ib or bb else Relation.INSIDE
    if holds:
        return Relation.COVERS if bi or bb else Relation.CONTAINS
    return Relation.OVERLAPS
