"""The paper's way to the relation of two regions: sample the boundaries, check the points.

`find_relation` is Algorithm 1 as printed, for the lab; it may be wrong, more rarely with a higher density.
`find_relation_safely` takes its idea as a filter that never errs: where no sample of one boundary comes near the
other, the boundaries do not touch, and one point of each decides; everywhere else the exact relation is asked. tamis
itself matches by the exact relation alone (`tamis.geometry.relations`), which is quicker than both.

Implements: [crtree] section 3: the new 4-intersection model (Table 1), Algorithm 1 (FINDRELATION, DISCRETIZE),
POINTCHECK, the halo, and the shorter boundary first.
Deviation: ``repaired=True`` looks for in *and* out in loop 2 and notes *meet* there. As printed the loop stops at the
first out, so a spike whose tip is inside is called disjoint, and it never sees that a vertex of B touches A.
Deviation: in `find_relation_safely` the halo is half the *longest* adjacent spacing. The printed one, half the
shortest, leaves gaps next to vertices, and contacts in them are missed.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import shapely

from tamis.errors import ModelError
from tamis.geometry.rcc8 import INVERSE
from tamis.geometry.relations import relation_of, rings_of
from tamis.model.subscription import Relation

__all__ = ["TABLE_1", "PointPosition", "Samples", "discretize", "find_relation", "find_relation_safely", "point_check"]

#: The new 4-intersection model: whether A's boundary meets B's boundary, B's inside, B's boundary A's inside, and A's
#: boundary B's outside.
TABLE_1: Final[dict[Relation, tuple[bool, bool, bool, bool]]] = {
    Relation.DISJOINT: (False, False, False, True),
    Relation.MEETS: (True, False, False, True),
    Relation.OVERLAPS: (True, True, True, True),
    Relation.EQUALS: (True, False, False, False),
    Relation.INSIDE: (False, True, False, False),
    Relation.CONTAINS: (False, False, True, True),
    Relation.COVERS: (True, False, True, True),
    Relation.COVERED_BY: (True, True, False, False),
}

#: Room for rounding in a halo that must not miss a contact, relative to the coordinates.
_SLACK: Final = 1e-12


class PointPosition(enum.StrEnum):
    """Where a point lies in a region."""

    IN = "in"
    OUT = "out"
    MEET = "meet"


@dataclass(frozen=True)
class Samples:
    """Points on a boundary, float64[n, 2], and the halo of each."""

    xy: npt.NDArray[np.float64]
    halos: npt.NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.halos)


def point_check(point: tuple[float, float], region: shapely.Polygon, halo: float = 0.0) -> PointPosition:
    """Return whether a point is in a region, out of it, or meets its boundary; exactly, unless it has a halo.

    >>> point_check((0.5, 0.5), shapely.box(0, 0, 1, 1)), point_check((1.2, 0.5), shapely.box(0, 0, 1, 1), halo=0.25)
    (<PointPosition.IN: 'in'>, <PointPosition.MEET: 'meet'>)
    """
    from tamis.kernels.polygons import flat_rings
    from tamis_lab.regions import samples

    rings = rings_of(np.array([region], dtype=object))
    position = samples.place(np.array([point], np.float64), 0, float(halo), rings, 0, flat_rings.new_corners())
    return {samples.MEET: PointPosition.MEET, samples.IN: PointPosition.IN, samples.OUT: PointPosition.OUT}[
        int(position)
    ]


def discretize(region: shapely.Polygon, density: float, *, longest: bool = False) -> Samples:
    """Return the end points of a region's boundary and equally spaced points between, ``density`` per unit of length.

    An edge of length s is cut into floor(s * density) equal parts, at least one; so a density of 0 gives the end
    points alone, and one of D about D per unit of length in all. (The paper has three definitions that differ by the
    number of end points.) Halos are half the shortest adjacent spacing, or the longest.

    >>> len(discretize(shapely.box(0, 0, 1, 1), 10)), len(discretize(shapely.box(0, 0, 1, 1), 0))
    (40, 4)
    """
    from tamis_lab.regions import samples

    if not 0 <= density < np.inf:
        raise ModelError(f"a density is a finite number of points per unit of length, not {density}")
    ring = shapely.get_coordinates(region.exterior)
    lengths = np.hypot(*np.diff(ring, axis=0).T)
    parts = np.maximum(np.floor(lengths * density), 1).astype(np.int64)
    result = Samples(np.empty((parts.sum(), 2)), np.empty(parts.sum()))
    samples.spread_samples(ring, parts, longest, result.xy, result.halos)
    return result


def find_relation(
    a: shapely.Polygon,
    b: shapely.Polygon,
    density: float,
    *,
    halo: bool = True,
    repaired: bool = False,
    checks: npt.NDArray[np.int64] | None = None,
) -> Relation:
    """Return the relation "a REL b" as Algorithm 1 finds it, right or wrong; ``repaired`` with a better loop 2.

    ``checks[0]`` grows by the number of points that were checked.

    The samples are those of the shorter boundary; if that is b's, the answer is inverted.

    >>> find_relation(shapely.box(0, 0, 4, 4), shapely.box(1, 1, 2, 2), density=10).value
    'contains'
    """
    counter = np.zeros(1, np.int64) if checks is None else checks
    if b.length < a.length:
        return INVERSE[_find_relation(b, a, density, halo, repaired, counter)]
    return _find_relation(a, b, density, halo, repaired, counter)


def _find_relation(
    a: shapely.Polygon, b: shapely.Polygon, density: float, halo: bool, repaired: bool, checks: npt.NDArray[np.int64]
) -> Relation:
    """Follow Algorithm 1 line by line; ``i1`` to ``i4`` are its witnesses."""
    from tamis_lab.regions import samples

    seen = _scan(discretize(a, density), b, halo, samples.ALL_PLACES, checks)  # lines 6 to 18
    i1, i2, i4 = (bool(seen & bit) for bit in (samples.MEET, samples.IN, samples.OUT))
    if i2 and i4:
        return Relation.OVERLAPS
    if not i4:  # lines 19 to 25
        return Relation.EQUALS if not i2 else (Relation.COVERED_BY if i1 else Relation.INSIDE)
    seen = _scan(discretize(b, density), a, halo, -1 if repaired else samples.EITHER, checks)  # lines 26 to 34
    i3 = bool(seen & samples.IN)
    if repaired:
        i1 |= bool(seen & samples.MEET)
        if i3 and seen & samples.OUT:
            return Relation.OVERLAPS
    if i3:  # lines 35 to 43
        return Relation.COVERS if i1 else Relation.CONTAINS
    return Relation.MEETS if i1 else Relation.DISJOINT


def _scan(points: Samples, region: shapely.Polygon, halo: bool, enough: int, checks: npt.NDArray[np.int64]) -> int:
    """Return where samples lie in a region, as bits of `tamis_lab.regions.samples`; ``checks[0]`` counts them."""
    from tamis.kernels.polygons import flat_rings
    from tamis_lab.regions import samples

    halos = points.halos if halo else np.zeros(len(points))
    rings = rings_of(np.array([region], dtype=object))
    return int(samples.place_samples(points.xy, halos, rings, 0, enough, checks, flat_rings.new_corners()))


def find_relation_safely(a: shapely.Polygon, b: shapely.Polygon, density: float) -> tuple[Relation, bool]:
    """Return the relation "a REL b", never wrong, and whether the samples alone decided.

    >>> find_relation_safely(shapely.box(0, 0, 4, 4), shapely.box(1, 1, 2, 2), density=10)
    (<Relation.CONTAINS: 'contains'>, True)
    >>> find_relation_safely(shapely.box(0, 0, 4, 4), shapely.box(0, 1, 2, 2), density=10)
    (<Relation.COVERS: 'covers'>, False)
    """
    from tamis_lab.regions import samples

    short, long = (a, b) if a.length <= b.length else (b, a)
    points = discretize(short, density, longest=True)
    size = max(np.abs(shapely.bounds(short)).max(), np.abs(shapely.bounds(long)).max())
    wide = Samples(points.xy, points.halos * (1 + _SLACK) + size * _SLACK)
    seen = _scan(wide, long, True, -1, np.zeros(1, np.int64))
    if seen & samples.MEET:
        return relation_of(a, b), False
    if seen & samples.IN:  # all of them are: the boundaries do not touch
        answer = Relation.INSIDE
    else:
        corner = tuple(shapely.get_coordinates(long)[0].tolist())
        answer = Relation.CONTAINS if point_check(corner, short) is PointPosition.IN else Relation.DISJOINT
    return (answer if short is a else INVERSE[answer]), True
