"""Spatial functions of many geometries at once answer as of each."""

from __future__ import annotations

import numpy as np
import pytest
import shapely

from tamis.geometry.matrices import compound_relation
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


@pytest.mark.parametrize("function", ["S_CONTAINS", "S_CROSSES", "S_TOUCHES", "RCC_CONTAINS", "S_DWITHIN"])
def test_coordinates_near_the_largest_number_are_compared_without_a_warning(
    function: str, recwarn: pytest.WarningsRecorder
) -> None:
    """A broker would print each warning of NumPy into its log."""
    huge = shapely.Polygon([(0, 0), (1e308, 0), (1e308, 1e308)])
    two = shapely.MultiPolygon([huge, shapely.box(-3, -3, -2, -2)])
    line = shapely.LineString([(-1e308, 1e308), (1e308, -1e308)])
    for value in (huge, two, line, shapely.Point(1e308, 1e308)):
        test = Geometric("area", function, two, False, 5.0 if function == "S_DWITHIN" else 0.0)
        answers = pass_all(np.array([value], object), test)
        assert answers.tolist() == [passes(value, test)]
        compound_relation(value, two)
    assert not recwarn.list
