"""The spatial functions of the language; for simple polygons each is a set of the eight relations.

Plain values, points and simple polygons, are compared with simple polygons by these sets alone. For other values and
other operands OGC's definitions hold (`tamis.geometry.predicates`), which agree with the sets but for two functions:
S_OVERLAPS asks for equal dimensions and S_CROSSES for different ones, where the relation *overlaps* asks for neither.
"""

from __future__ import annotations

import shapely

from tamis.model.shapes import Operand, valid
from tamis.model.subscription import Relation
from tamis.model.values import UnfitError

__all__ = ["ALL_RELATIONS", "BY_DIMENSION", "METRES", "SPATIAL_FUNCTIONS", "constant_relation", "holds_between"]

ALL_RELATIONS = frozenset(Relation)

#: Function name -> the relations "event value REL operand" for which it is true.
SPATIAL_FUNCTIONS: dict[str, frozenset[Relation]] = {
    **{f"RCC_{relation.value.upper()}": frozenset({relation}) for relation in Relation},
    "S_INTERSECTS": ALL_RELATIONS - {Relation.DISJOINT},
    "S_DISJOINT": frozenset({Relation.DISJOINT}),
    "S_WITHIN": frozenset({Relation.INSIDE, Relation.COVERED_BY, Relation.EQUALS}),
    "S_CONTAINS": frozenset({Relation.CONTAINS, Relation.COVERS, Relation.EQUALS}),
    "S_TOUCHES": frozenset({Relation.MEETS}),
    "S_OVERLAPS": frozenset({Relation.OVERLAPS}),
    "S_EQUALS": frozenset({Relation.EQUALS}),
    "S_CROSSES": frozenset(),
}

#: The functions that ask for the dimensions of both sides.
BY_DIMENSION = frozenset({"S_OVERLAPS", "S_CROSSES"})

#: The metres of each unit of S_DWITHIN.
METRES = {"m": 1.0, "km": 1000.0, "mi": 1609.344, "nmi": 1852.0, "ft": 0.3048}


def constant_relation(function: str, first: Operand, second: Operand) -> bool:
    """Whether a function holds between two geometries of a subscription; `UnfitError` if either is not valid.

    Neither is compared with an attribute, so no type says that they may be repaired.
    """
    return holds_between(function, valid(first), valid(second))


def holds_between(function: str, first: Operand, second: Operand) -> bool:
    """Whether a function of the OGC holds between two valid geometries; z does not count.

    >>> holds_between("S_TOUCHES", shapely.box(0, 0, 1, 1), shapely.Point(1, 1))
    True
    """
    if not function.startswith("S_"):
        raise UnfitError(f"{function} compares an attribute with polygons; S_* compare two geometries, too")
    return bool(getattr(shapely, function[2:].lower())(first, second))
