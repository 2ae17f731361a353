"""The eight relations on polygons that touch, nest and cut each other; points; balls."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st

from tamis.geometry.balls import in_ball, squared_distance
from tamis.geometry.matrices import compound_relation
from tamis.geometry.relations import relation
from tamis.kernels import vectors

BIG = shapely.box(0, 0, 10, 10)
NOTCHED = shapely.Polygon([(0, 0), (10, 0), (10, 10), (5, 2), (0, 10)])
INVERSE = {"inside": "contains", "contains": "inside", "covers": "covered_by", "covered_by": "covers"}


@pytest.mark.parametrize(
    ("a", "b", "want"),
    [
        (shapely.box(20, 0, 30, 10), BIG, "disjoint"),
        (shapely.box(10, 0, 20, 10), BIG, "meets"),
        (shapely.box(10, 10, 20, 20), BIG, "meets"),
        (shapely.Polygon([(10, 5), (12, 4), (12, 6)]), BIG, "meets"),
        (shapely.box(5, 5, 20, 20), BIG, "overlaps"),
        (shapely.Polygon([(9.9, 5.5), (20, 0), (20, 10)]), BIG, "overlaps"),
        (BIG, BIG, "equals"),
        (shapely.Polygon([(10, 0), (10, 10), (0, 10), (0, 5), (0, 0)]), BIG, "equals"),
        (shapely.box(2, 2, 8, 8), BIG, "inside"),
        (shapely.box(0, 2, 8, 8), BIG, "covered_by"),
        (shapely.Polygon([(0, 5), (2, 4), (2, 6)]), BIG, "covered_by"),
        (shapely.Polygon([(4, 9), (6, 9), (5, 5)]), NOTCHED, "disjoint"),
        (shapely.Polygon([(4, 9), (6, 9), (5, 2)]), NOTCHED, "meets"),
        (shapely.Polygon([(4, 9), (6, 9), (5, 1.9)]), NOTCHED, "overlaps"),
        (NOTCHED, BIG, "covered_by"),
    ],
)
def test_both_ways(a: shapely.Polygon, b: shapely.Polygon, want: str) -> None:
    assert relation(a, b) == want
    assert relation(b, a) == INVERSE.get(want, want)


@pytest.mark.parametrize(
    ("x", "y", "want"), [(5, 5, "inside"), (10, 5, "meets"), (10, 10, "meets"), (11, 5, "disjoint")]
)
def test_points(x: float, y: float, want: str) -> None:
    assert relation(shapely.Point(x, y), BIG) == want


coordinates = (
    st.floats(-10, 10) | st.integers(-3, 3).map(float) | st.sampled_from([0.1, 0.2, 0.3, 1e-200, 1e200, -1e200, 1e-310])
)


@given(st.lists(st.tuples(coordinates, coordinates), min_size=1, max_size=4), st.floats(0, 20) | coordinates.map(abs))
def test_balls_are_decided_exactly(pairs: list[tuple[float, float]], radius: float) -> None:
    point, center = np.array([p[0] for p in pairs]), [p[1] for p in pairs]
    want = squared_distance(point, center) <= Fraction(radius) ** 2
    assert in_ball(point, center, radius) == want
    with np.errstate(over="ignore", under="ignore"):
        side = vectors.ball_side.py_func(point, np.array(center), radius)
    assert side in (vectors.UNCERTAIN, vectors.INSIDE if want else vectors.OUTSIDE)


def test_the_rim_belongs_to_the_ball() -> None:
    assert in_ball(np.array([3.0, 4.0]), (0, 0), 5)
    assert not in_ball(np.array([3.0, np.nextafter(4.0, 5)]), (0, 0), 5)
    assert in_ball(np.array([0.0]), (0.0,), 0.0)
    assert not in_ball(np.array([5e-324]), (0.0,), 0.0)


def framed(*box: float, hole: tuple[float, float, float, float]) -> shapely.Polygon:
    return shapely.Polygon(shapely.box(*box).exterior, [shapely.box(*hole).exterior])


FRAME = framed(0, 0, 10, 10, hole=(3, 3, 7, 7))


@pytest.mark.parametrize(
    ("a", "b", "want"),
    [
        (FRAME, shapely.box(4, 4, 6, 6), "disjoint"),
        (FRAME, shapely.box(3, 3, 7, 7), "meets"),
        (FRAME, shapely.box(3, 4, 6, 6), "meets"),
        (FRAME, shapely.box(2, 2, 8, 8), "overlaps"),
        (FRAME, shapely.box(1, 1, 2, 2), "contains"),
        (FRAME, shapely.box(0, 1, 2, 2), "covers"),
        (FRAME, shapely.box(1, 1, 3, 3), "covers"),
        (FRAME, FRAME, "equals"),
        (FRAME, BIG, "covered_by"),
        (FRAME, shapely.box(-1, -1, 11, 11), "inside"),
        (framed(0, 2, 8, 8, hole=(4, 4, 5, 5)), BIG, "covered_by"),
        (framed(1, 2, 8, 8, hole=(4, 4, 5, 5)), BIG, "inside"),
        (shapely.MultiPoint([(0, 5), (5, 5)]), BIG, "covered_by"),
        (shapely.MultiPoint([(1, 5), (5, 5)]), BIG, "inside"),
        (shapely.LineString([(1, 1), (9, 9)]), BIG, "inside"),
        (shapely.LineString([(1, 1), (10, 9)]), BIG, "covered_by"),
        (shapely.LineString([(0, 0), (10, 0)]), BIG, "meets"),
    ],
)
def test_the_eight_relations_of_holes_lines_and_points(a: shapely.Geometry, b: shapely.Geometry, want: str) -> None:
    assert compound_relation(a, b).value == want
