"""Computes exactly which of the eight relations holds between two regions, for one pair or for arrays.

The result is exact for the given float64 coordinates, without tolerance: `tamis.kernels.polygons.polygon` computes
exact signs of determinants, in float64 where that is safe and otherwise in integers. GEOS is not used here
(docs/decisions/0009 gives the reason), only for values that are neither points nor simple polygons
(`tamis.geometry.predicates`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import shapely

from tamis.errors import LimitError, ModelError, TableError
from tamis.geometry.matrices import compound_relation
from tamis.model import shapes
from tamis.model.shapes import RegionValue
from tamis.model.subscription import Relation
from tamis.model.values import UnfitError

if TYPE_CHECKING:
    from tamis.kernels.polygons.flat_rings import Rings

__all__ = [
    "CODES",
    "RELATIONS",
    "CheckedRegions",
    "checked_regions",
    "relation",
    "relation_of",
    "relation_set",
    "relations",
    "rings_of",
]

#: The relations in the order of their codes.
RELATIONS: Final = tuple(Relation)
#: The code of each relation.
CODES: Final = {relation: code for code, relation in enumerate(RELATIONS)}
#: The number of a ring that stands alone.
_FIRST: Final = np.zeros(1, np.int64)


def relation(a: object, b: object) -> Relation:
    """Return the relation "a REL b" of a polygon or point to a polygon; exactly one of the eight holds.

    Both may be shapely, WKT, WKB or GeoJSON; `tamis.ModelError` if ``b`` is not a simple polygon. A point ``a`` is
    inside, on the boundary (meets) or disjoint. `tamis.geometry.matrices` has the relations of several parts, holes
    and lines.

    >>> relation("POLYGON((0 0, 1 0, 1 1, 0 1, 0 0))", shapely.box(1, 0, 2, 1)).value
    'meets'
    >>> relation((0.5, 0.5), shapely.box(0, 0, 1, 1)).value
    'inside'
    """
    try:
        return relation_of(shapes.region(a), shapes.polygon(b))
    except UnfitError as error:
        raise ModelError(f"not a region: {error}") from None


def relation_of(a: RegionValue, b: shapely.Polygon) -> Relation:
    """Return the same as `relation` for shapes that `tamis.model.shapes` has checked; ``a`` may be any geometry.

    If the bounding boxes do not meet, as for most pairs, no kernel is called.
    """
    a_bounds, b_bounds = a.bounds, b.bounds
    if a_bounds[2] < b_bounds[0] or b_bounds[2] < a_bounds[0] or a_bounds[3] < b_bounds[1] or b_bounds[3] < a_bounds[1]:
        return Relation.DISJOINT
    if not shapes.is_plain(a):
        return compound_relation(a, b)
    from tamis.kernels.polygons import flat_rings, polygon

    code = np.empty(1, np.uint8)
    polygon.find_relations(_ring_of(a), _FIRST, _ring_of(b), _FIRST, code, flat_rings.new_corners())
    return RELATIONS[int(code[0])]


@lru_cache(maxsize=4096)
def _ring_of(shape: RegionValue) -> Rings:
    return rings_of(np.array([shape], dtype=object))


def relations(a: Any, b: Any) -> npt.NDArray[np.uint8]:
    """Return the code of "a[i] REL b[i]" for every i, as uint8.

    The codes, in the order of `tamis.Relation`: 0 disjoint, 1 meets, 2 overlaps, 3 equals, 4 inside, 5 contains,
    6 covers, 7 covered_by. So ``list(tamis.Relation)[code]`` is the relation.

    Parameters
    ----------
    a, b
        Arrays or lists of the same length, of what `relation` takes; or one such value for all; or what
        `checked_regions` made of either, which avoids checking the same regions again.

    >>> square, far = shapely.box(0, 0, 1, 1), shapely.box(5, 5, 6, 6)
    >>> relations([square, far, square], [square, square, shapely.box(-1, -1, 2, 2)])
    array([3, 0, 4], dtype=uint8)
    """
    a_regions, b_regions = (
        argument if isinstance(argument, CheckedRegions) else checked_regions(argument) for argument in (a, b)
    )
    if b_regions.has_points:
        raise TableError("b contains a point; pass points as a and polygons as b")
    n = max(len(a_regions), len(b_regions)) if min(len(a_regions), len(b_regions)) else 0
    if {len(a_regions), len(b_regions)} - {1, n}:
        raise TableError(f"a has {len(a_regions)} regions and b has {len(b_regions)}: they are taken in pairs")
    from tamis.kernels.polygons import flat_rings, polygon

    codes = np.empty(n, np.uint8)
    i, j = (np.arange(n) if len(regions) == n else np.zeros(n, np.int64) for regions in (a_regions, b_regions))
    polygon.find_relations(a_regions.rings, i, b_regions.rings, j, codes, flat_rings.new_corners())
    return codes


@dataclass(frozen=True)
class CheckedRegions:
    """Valid regions in flat arrays, as `checked_regions` makes them."""

    rings: Rings

    def __len__(self) -> int:
        return len(self.rings.turn)

    @property
    def has_points(self) -> bool:
        """Whether some of the regions are points."""
        return bool((np.diff(self.rings.start) == 1).any())


def checked_regions(values: Any) -> CheckedRegions:
    """Return regions for many calls of `relations`; `tamis.TableError` names the first that is not valid."""
    if not isinstance(values, np.ndarray | Sequence) or isinstance(values, str | bytes):
        values = [values]
    column = np.empty(len(values), dtype=object)
    column[:] = values if isinstance(values, np.ndarray) and values.ndim == 1 else [*values]
    rings, sure = shapes.plain_rings(column)
    if sure.all():
        return CheckedRegions(rings)
    for row in np.flatnonzero(~sure):
        try:
            column[row] = _plain(column[row])
        except (UnfitError, LimitError) as error:
            raise TableError(f"region {row}: {error}", int(row)) from None
    return CheckedRegions(rings_of(column))


def _plain(value: object) -> RegionValue:
    geometry = shapes.region(value)
    if shapes.is_plain(geometry):
        return geometry
    raise UnfitError(f"only points and simple polygons are taken in arrays, not a {geometry.geom_type}")


def rings_of(values: npt.NDArray[Any]) -> Rings:
    """Return polygons and points (None: nothing) in flat arrays."""
    from tamis.kernels.polygons.flat_rings import new_rings

    xy, owner = shapely.get_coordinates(values, return_index=True)
    start = np.zeros(len(values) + 1, np.int64)
    np.cumsum(np.bincount(owner, minlength=len(values)), out=start[1:])
    return new_rings(xy, start)


@lru_cache(maxsize=256)
def relation_set(some: frozenset[Relation]) -> int:
    """Return a set of relations as the byte that kernels take: bit ``code`` for each.

    >>> relation_set(frozenset({Relation.DISJOINT, Relation.OVERLAPS}))
    5
    """
    return sum(1 << CODES[relation] for relation in some)
