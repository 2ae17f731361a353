"""The spatial functions of the language: each is a set of the eight relations."""

from __future__ import annotations

from tamis.model.subscription import Relation

__all__ = ["ALL_RELATIONS", "SPATIAL_FUNCTIONS"]

ALL_RELATIONS = frozenset(Relation)

#: Function name -> the relations "event value REL operand" for which it is true.
SPATIAL_FUNCTIONS: dict[str, frozenset[Relation]] = {
    **{f"RCC_{one.value.upper()}": frozenset({one}) for one in Relation},
    "S_INTERSECTS": ALL_RELATIONS - {Relation.DISJOINT},
    "S_DISJOINT": frozenset({Relation.DISJOINT}),
    "S_WITHIN": frozenset({Relation.INSIDE, Relation.COVERED_BY, Relation.EQUALS}),
    "S_CONTAINS": frozenset({Relation.CONTAINS, Relation.COVERS, Relation.EQUALS}),
    "S_TOUCHES": frozenset({Relation.MEETS}),
    "S_OVERLAPS": frozenset({Relation.OVERLAPS}),
    "S_EQUALS": frozenset({Relation.EQUALS}),
}
