"""Spatial functions of many geometries at once answer as of each."""

from __future__ import annotations

import numpy as np
import shapely

from tamis.geometry.predicates import pass_all, passes
from tamis.model.subscription import Geometric

HOLES = [[(5, 2), (3, 2), (3, 1), (5, 1)], [(4, 8), (2, 8), (2, 7), (4, 7)]]


def test_a_collection_around_a_hole_is_not_within() -> None:
    operand = shapely.Polygon([(0, 0), (0, 15), (15, 15), (15, 0)], HOLES)
    around = shapely.GeometryCollection([shapely.Point(6, 9), shapely.box(1, 5, 6, 9)])
    beside = shapely.GeometryCollection([shapely.Point(6, 9), shapely.box(1, 9, 6, 12)])
    values = np.array([around, beside, shapely.box(1, 5, 6, 9), shapely.Point(1, 1)])
    test = Geometric("area", "S_WITHIN", operand)
    assert pass_all(values, test).tolist() == [False, True, False, True]
    assert [passes(value, test) for value in values] == [False, True, False, True]
