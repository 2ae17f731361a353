"""Balls in exact arithmetic: every small case against the real numbers, tangent ones included."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tamis.algebra.conflicts import are_disjoint
from tamis.algebra.covers import compare, covers
from tamis.algebra.evaluate import matches
from tamis.algebra.proofs.balls import ball_covers, balls_disjoint, distance_at_most, point_in
from tamis.model.schema import Schema
from tamis.model.subscription import Ball, Filter
from tamis.model.types import Vector


def ball(*center: float, radius: float, negated: bool = False) -> Ball:
    return Ball("v", tuple(float(x) for x in center), float(radius), negated)


def truth_covers(a: Ball, b: Ball) -> bool:
    """All points of b are points of a, by the four cases, in integers (squares of distances)."""
    squared = sum((int(x) - int(y)) ** 2 for x, y in zip(a.center, b.center, strict=True))
    r, s = int(a.radius), int(b.radius)
    if not a.negated and not b.negated:
        return r >= s and squared <= (r - s) ** 2
    if a.negated and b.negated:  # outside a covers outside b: ball b covers ball a
        return s >= r and squared <= (s - r) ** 2
    return a.negated and squared > (r + s) ** 2  # a ball never covers the outside of another


def small_balls(d: int, reach: int, radii: range) -> list[Ball]:
    centers = itertools.product(range(-reach, reach + 1), repeat=d)
    return [ball(*c, radius=r, negated=n) for c in centers for r in radii for n in (False, True)]


@pytest.mark.parametrize(("d", "reach", "radii"), [(1, 4, range(6)), (2, 1, range(4)), (3, 0, range(4))])
def test_every_small_pair(d: int, reach: int, radii: range) -> None:
    schema = Schema({"v": Vector(d)})
    for a, b in itertools.product(small_balls(d, reach, radii), repeat=2):
        answer = compare([Filter((a,))], [Filter((b,))], schema)
        assert answer.yes == truth_covers(a, b), (a, b)
        if not answer.yes:
            assert answer.witness is not None, (a, b)
            assert matches(answer.witness, Filter((b,)))
            assert not matches(answer.witness, Filter((a,)))


def test_every_small_conflict() -> None:
    for a, b in itertools.product(small_balls(2, 2, range(3)), repeat=2):
        opposite = Ball("v", a.center, a.radius, not a.negated)
        assert are_disjoint([Filter((a,))], [Filter((b,))]) == truth_covers(opposite, b)


def test_tangent_balls() -> None:
    assert covers("V_WITHIN(v, (0, 0), 2)", "V_WITHIN(v, (1, 0), 1)")
    assert not covers("V_WITHIN(v, (0, 0), 2)", "V_WITHIN(v, (1, 0), 1.0000000000000002)")
    assert covers("V_WITHIN(v, (0, 0), 10)", "V_WITHIN(v, (3, 4), 5)")
    assert not covers("NOT V_WITHIN(v, (0, 0), 2)", "V_WITHIN(v, (3, 0), 1)")  # they touch at (2, 0)
    assert not balls_disjoint(ball(0, 0, radius=2), ball(3, 4, radius=3))
    assert balls_disjoint(ball(0, 0, radius=2), ball(3, 4, radius=math.nextafter(3, 0)))


def test_proposition_2_1_with_the_radii_of_the_proof_not_of_step_2b() -> None:
    """[projection] section III step 2b(i) prints ||s - s'|| <= r - r' for a coverer (s', r') of (s, r)."""
    new, old = ball(0, 0, radius=5), ball(1, 0, radius=1)
    printed = distance_at_most(new.center, old.center, new.radius, -old.radius)
    assert printed  # step 2b(i) would withhold the large new ball for the small old one
    assert not ball_covers(old, new)
    assert ball_covers(new, old)


def test_equal_balls_and_points() -> None:
    assert ball_covers(ball(1, 2, radius=3), ball(1, 2, radius=3))
    assert ball_covers(ball(1, 2, radius=0), ball(1, 2, radius=0))
    assert not ball_covers(ball(1, 2, radius=0), ball(1, 2, radius=5e-324))
    assert ball_covers(ball(0, 0, radius=5e-324), ball(5e-324, 0, radius=0))


coordinate = st.floats(-4, 4).map(lambda x: float(np.float32(x)))
radius = st.floats(0, 4).map(lambda x: float(np.float32(x)))


@given(st.lists(st.tuples(coordinate, coordinate, coordinate), min_size=2, max_size=2), radius, radius)
def test_the_quick_way_agrees_with_fractions(centers: list[tuple[float, ...]], r: float, s: float) -> None:
    first, second = centers
    squared = sum((Fraction(x) - Fraction(y)) ** 2 for x, y in zip(first, second, strict=True))
    a, b = ball(*first, radius=r), ball(*second, radius=s)
    difference = Fraction(r) - Fraction(s)
    assert ball_covers(a, b) == (difference >= 0 and squared <= difference**2)
    assert balls_disjoint(a, b) == (squared > (Fraction(r) + Fraction(s)) ** 2)


@given(coordinate, coordinate, radius, st.integers(-3, 3))
def test_a_ball_one_step_of_float64_from_tangent(x: float, y: float, r: float, steps: int) -> None:
    distance = math.hypot(x, y)
    outer = r + distance
    for _ in range(abs(steps)):
        outer = math.nextafter(outer, math.inf if steps > 0 else 0)
    squared, difference = Fraction(x) ** 2 + Fraction(y) ** 2, Fraction(outer) - Fraction(r)
    expected = difference >= 0 and squared <= difference**2
    assert ball_covers(ball(0, 0, radius=outer), ball(x, y, radius=r)) == expected


def test_far_and_tiny_numbers() -> None:
    huge, tiny = 1e200, 1e-200
    assert ball_covers(ball(0, 0, radius=huge), ball(huge, 0, radius=0))
    assert not ball_covers(ball(0, 0, radius=huge), ball(huge, tiny, radius=0))
    assert ball_covers(ball(0, 0, radius=tiny), ball(tiny, 0, radius=0))
    assert not ball_covers(ball(0, 0, radius=tiny), ball(tiny, tiny, radius=0))


def test_radii_whose_sum_is_beyond_float64() -> None:
    """A sum beyond float64 is not an error: a filter may say V_WITHIN(v, (0), 1e308)."""
    assert distance_at_most((-1e308,), (1e308,), 1e308, 1e308)
    assert not balls_disjoint(ball(0, radius=1e308), ball(1e300, radius=1e308))
    assert distance_at_most((0.0,), (0.0,), 1e308, -1e308)
    assert not distance_at_most((0.0,), (1.0,), 1e308, -1e308)
    assert not distance_at_most((0.0,), (0.0,), -1.7e308, 1.0)


@pytest.mark.parametrize("hole", [(1, 0), (0, 0), (2, 0)], ids=str)
def test_a_point_in_many_conditions(hole: tuple[int, int]) -> None:
    """Two balls less two others; (1, -1) is always left."""
    conditions = [
        ball(0, 0, radius=2),
        ball(2, 0, radius=2),
        ball(*hole, radius=0.5, negated=True),
        ball(1, 5, radius=4, negated=True),
    ]
    assert all(matches({"v": np.array([1.0, -1.0])}, Filter((condition,))) for condition in conditions)
    point = point_in(conditions)
    assert point is not None
    assert all(matches({"v": point}, Filter((condition,))) for condition in conditions)


def test_high_dimensions() -> None:
    d = 384
    outer, inner = ball(*[0.0] * d, radius=3), ball(*[0.1] * d, radius=1)
    assert ball_covers(outer, inner) == (d * Fraction(0.1) ** 2 <= 4)
    answer = compare([Filter((inner,))], [Filter((outer,))], Schema({"v": Vector(d)}))
    assert answer.witness is not None
