"""The relation of two regions: which of the eight holds.

Read off GEOS's DE-9IM matrix, whose first letter says whether the interiors meet, the third and seventh
whether a part of one lies outside the other, and the fifth whether the boundaries touch.
"""

from __future__ import annotations

import shapely

from tamis.model.shapes import RegionValue
from tamis.model.subscription import Relation

__all__ = ["relation"]


def relation(a: RegionValue, b: shapely.Polygon) -> Relation:
    """Return the relation "a REL b" of a polygon or point to a polygon; exactly one holds.

    A point is inside, on the boundary (meets) or disjoint. Both must be valid (`tamis.model.shapes`).

    >>> relation(shapely.box(0, 0, 1, 1), shapely.box(1, 0, 2, 1)).value
    'meets'
    """
    matrix = shapely.relate(a, b)
    if isinstance(a, shapely.Point):
        if matrix[0] != "F":
            return Relation.INSIDE
        return Relation.DISJOINT if matrix[1] == "F" else Relation.MEETS
    touching = matrix[4] != "F"
    if matrix[0] == "F":
        return Relation.MEETS if touching else Relation.DISJOINT
    a_within, b_within = matrix[2] == "F", matrix[6] == "F"
    if a_within and b_within:
        return Relation.EQUALS
    if a_within:
        return Relation.COVERED_BY if touching else Relation.INSIDE
    if b_within:
        return Relation.COVERS if touching else Relation.CONTAINS
    return Relation.OVERLAPS
