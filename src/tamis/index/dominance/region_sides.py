"""The relation that bounding boxes must have if one condition on regions covers another.

A condition (R1, A) covers (R2, B) only if A has one of certain relations to B: those under which whatever has a
relation of R2 to B has one of R1 to A. If all of them put B in A, so do the boxes; if all put A in B, the boxes too;
if none is *disjoint*, the boxes meet; otherwise the boxes say nothing. Each set of relations has axes of its own, on
which the boxes of its regions stand, because what is demanded depends on both sets.

Implements: [crtree] section 4.2, covering of two constraints, for many constraints at a time.
Deviation: the paper compares constraints pair by pair; here their boxes are compared first, by an index.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from tamis.geometry.rcc8 import COMPOSITION, INVERSE
from tamis.geometry.relations import CODES, relation_set
from tamis.index.dominance.outline import AxisName, Side
from tamis.model.subscription import Relation, Spatial

__all__ = ["ALL", "Demand", "bounds_of", "cover_table", "demand_of", "places_of", "stored_sides"]

#: Every relation: the condition says that there is a region, and no more.
ALL = relation_set(frozenset(Relation))

_WITHIN = relation_set(frozenset({Relation.INSIDE, Relation.COVERED_BY, Relation.EQUALS}))
_AROUND = relation_set(frozenset({Relation.CONTAINS, Relation.COVERS, Relation.EQUALS}))
_DISJOINT = relation_set(frozenset({Relation.DISJOINT}))


class Demand(enum.Enum):
    """The required relation of the box of a coverer's region to the box of the covered region."""

    AROUND = enum.auto()
    WITHIN = enum.auto()
    MEETING = enum.auto()
    ANY = enum.auto()
    IMPOSSIBLE = enum.auto()


@lru_cache(maxsize=1)
def cover_table() -> npt.NDArray[np.uint8]:
    """Return uint8[256, 256]: for sets R1 and R2 the relations of A to B under which (R1, A) covers (R2, B)."""
    composed = np.zeros((256, 8), np.uint8)
    for (relation, q), possible in COMPOSITION.items():
        has = (np.arange(256) >> CODES[relation] & 1).astype(bool)
        composed[has, CODES[q]] |= relation_set(possible)
    table = np.zeros((256, 256), np.uint8)
    outside = ~np.arange(256, dtype=np.uint8)
    for q, code in CODES.items():
        covers = (composed[None, :, CODES[INVERSE[q]]] & outside[:, None]) == 0
        table[covers] |= np.uint8(1 << code)
    return table


@lru_cache(maxsize=1024)
def demand_of(outer: int, inner: int) -> Demand:
    """Return what sets of relations, as bytes, demand of the boxes if the first is to cover the second.

    >>> inside = relation_set(frozenset({Relation.INSIDE}))
    >>> demand_of(inside, inside), demand_of(255 - inside, 255 - inside)
    (<Demand.AROUND: 1>, <Demand.WITHIN: 2>)
    """
    relations = int(cover_table()[outer, inner])
    if not relations:
        return Demand.IMPOSSIBLE
    if not relations & ~_AROUND:
        return Demand.AROUND
    if not relations & ~_WITHIN:
        return Demand.WITHIN
    return Demand.ANY if relations & _DISJOINT else Demand.MEETING


def places_of(attribute: str, relations: int) -> tuple[AxisName, AxisName]:
    """Return the places of the boxes of a set of relations."""
    return (attribute, f"x{relations}"), (attribute, f"y{relations}")


def bounds_of(condition: Spatial) -> tuple[Side, Side]:
    """Return the sides of the region's bounding box."""
    west, south, east, north = condition.region.bounds
    return (west, east), (south, north)


def stored_sides(conditions: tuple[Spatial, ...]) -> Iterator[tuple[AxisName, Side]]:
    """Yield the sides of the first condition with each set of relations; sets that demand nothing have none."""
    seen: set[tuple[str, int]] = set()
    for condition in conditions:
        relations = relation_set(condition.relations)
        if relations != ALL and (condition.attribute, relations) not in seen:
            seen.add((condition.attribute, relations))
            yield from zip(places_of(condition.attribute, relations), bounds_of(condition), strict=True)
