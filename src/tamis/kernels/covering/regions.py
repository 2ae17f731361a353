"""Whether conditions on regions imply each other, for many pairs of components.

A condition (R1, A) covers (R2, B) if the relation of A to B is in the set ``table[R1, R2]``, from the composition table
(`tamis.geometry.rcc8`). So one call of the exact kernel for two polygons decides a pair; it stops as soon as
the relation is known to be in the set, or outside it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tamis.kernels.compile import Int, hot_kernel, inline_kernel
from tamis.kernels.polygons.flat_rings import Corners
from tamis.kernels.polygons.polygon import ALL, narrow
from tamis.kernels.polygons.region_tests import RegionColumns

__all__ = ["decide_region_covers"]


@inline_kernel
def _is_implied(
    outer: RegionColumns,
    test: Int,
    inner: RegionColumns,
    component: Int,
    table: npt.NDArray[np.uint8],
    corners: Corners,
) -> bool:
    """Return whether a condition of a component implies the condition ``test`` of another."""
    if outer.wanted[test] == ALL:
        return True
    first = np.int64(inner.first[component])
    for inner_test in range(first, first + inner.n_tests[component]):
        if inner.axis[inner_test] != outer.axis[test]:
            continue
        relations = np.int64(table[outer.wanted[test], inner.wanted[inner_test]])
        if relations == ALL:
            return True
        if relations != 0 and narrow(outer.rings, test, inner.rings, inner_test, relations, corners) & relations != 0:
            return True
    return False


@hot_kernel
def decide_region_covers(
    outer: RegionColumns,
    coverers: npt.NDArray[np.int32],
    inner: RegionColumns,
    covered: npt.NDArray[np.int32],
    table: npt.NDArray[np.uint8],
    verdicts: npt.NDArray[np.bool_],
    corners: Corners,
) -> None:
    """Write for each k whether component ``covered[k]`` implies all conditions on regions of ``coverers[k]``.

    Parameters
    ----------
    outer, inner
        The conditions of components, as `RegionColumns` has them; ``axis`` is the number of the attribute.
    table
        uint8[256, 256]; for two sets of relations, the relations of the two regions for which the first condition
        covers.
    verdicts
        bool[k], the results.
    """
    for k in range(coverers.size):
        first = np.int64(outer.first[coverers[k]])
        holds = True
        for test in range(first, first + outer.n_tests[coverers[k]]):
            if not _is_implied(outer, test, inner, np.int64(covered[k]), table, corners):
                holds = False
                break
        verdicts[k] = holds
