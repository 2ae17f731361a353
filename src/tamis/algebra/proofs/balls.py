"""Compares balls: which cover or exclude each other; finds a point that is in some balls and not in others.

Everything is decided for the given float64 numbers as real numbers: a float is a rational number, and squared
distances and radii are compared in rational arithmetic; a bound on the rounding error avoids it in the clear
cases. Everything else follows from four statements about two closed balls (s, r) and (s', r')::

    in both        is empty    iff  ||s - s'|| >  r + r'
    in one, not in the other   is empty    iff  ||s - s'|| <= r_other - r_one     (Proposition 2.1)
    in neither     is never empty: space is unbounded
    a ball of radius 0 is a point

Implements: [projection] Proposition 2.1, section II.
Deviation: section III step 2b(i) verifies a coverer (s', r') of (s, r) by ``||s - s'|| <= r - r'``, with
the radii exchanged: it would withhold a large ball because it covers a small one. Here it is r' - r.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from tamis.geometry.balls import in_ball, squared_distance
from tamis.model.subscription import Ball

__all__ = ["ball_covers", "balls_conflict", "balls_disjoint", "balls_impossible", "distance_at_most", "point_in"]

#: Relative error of a distance in n dimensions is below (n + _EXTRA) * _UNIT, with room for the bound's own.
_UNIT, _EXTRA = 2.3e-16, 12

#: Outside these bits may be lost to underflow or overflow, and rational arithmetic decides.
_SAFE_LOW, _SAFE_HIGH = 1e-290, 1e290

#: Coordinate axes along which rims are tried, and the dimension up to which float neighbours are.
_AXES, _NEIGHBOURS = 8, 3

_Point = npt.NDArray[np.float64]


def distance_at_most(a: Sequence[float], b: Sequence[float], *terms: float) -> bool:
    """Whether two points are at most the sum of ``terms`` apart, exactly.

    >>> distance_at_most((0.0, 0.0), (3.0, 4.0), 5.0), distance_at_most((0.0,), (0.3,), 0.1, 0.2)
    (True, True)
    """
    if max(map(abs, terms)) >= _SAFE_HIGH:  # the sum may overflow
        exact = sum(map(Fraction, terms))
        return exact >= 0 and squared_distance(a, b) <= exact**2
    bound = math.fsum(terms)  # rounded once, so its sign is exact
    if bound < 0:
        return False
    distance = math.dist(a, b)
    if _SAFE_LOW < distance < _SAFE_HIGH and _SAFE_LOW < bound < _SAFE_HIGH:
        slack = (len(a) + _EXTRA) * _UNIT
        if distance * (1 + slack) < bound:
            return True
        if distance * (1 - slack) > bound:
            return False
    return squared_distance(a, b) <= sum(map(Fraction, terms)) ** 2


def ball_covers(outer: Ball, inner: Ball) -> bool:
    """Whether the ball ``inner`` lies in the ball ``outer``; negation is ignored.

    Implements: [projection] Proposition 2.1.

    >>> ball_covers(Ball("look", (0.0, 0.0), 2.0), Ball("look", (1.0, 0.0), 1.0))  # tangent from inside
    True
    >>> ball_covers(Ball("look", (1.0, 0.0), 1.0), Ball("look", (0.0, 0.0), 2.0))
    False
    """
    return distance_at_most(outer.center, inner.center, outer.radius, -inner.radius)


def balls_disjoint(a: Ball, b: Ball) -> bool:
    """Whether two balls have no point in common; touching balls have one."""
    return not distance_at_most(a.center, b.center, a.radius, b.radius)


def balls_impossible(balls: Sequence[Ball]) -> bool:
    """Whether two of these conditions exclude each other; a conflict among three is not detected."""
    return any(balls_conflict(a, b) for a, b in itertools.combinations(balls, 2))


def balls_conflict(a: Ball, b: Ball) -> bool:
    """Whether no point satisfies both conditions, exactly.

    >>> balls_conflict(Ball("v", (0.0,), 1.0), Ball("v", (0.0,), 2.0, negated=True))
    True
    """
    if a.negated and b.negated:
        return False
    if a.negated:
        return ball_covers(a, b)
    return ball_covers(b, a) if b.negated else balls_disjoint(a, b)


def point_in(balls: Sequence[Ball]) -> _Point | None:
    """Return a float64 point that satisfies every condition, or None when none was found.

    The search tries centres, rims along the axes, and the middle of the crescent or lens that each pair of
    balls leaves; what it returns was verified exactly.
    """
    for point in _candidates(balls):
        with np.errstate(over="ignore", invalid="ignore"):
            point = np.asarray(point, dtype=np.float64) + 0.0
        if np.isfinite(point).all() and all(in_ball(point, ball.center, ball.radius) != ball.negated for ball in balls):
            point.setflags(write=False)
            return point
    return None


def _float(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf")


def _candidates(balls: Sequence[Ball]) -> Iterator[_Point]:
    inside = [ball for ball in balls if not ball.negated]
    if not inside:
        yield from _far_points(balls)
        return
    smallest = min(inside, key=lambda ball: ball.radius)
    center, radius = np.array(smallest.center), smallest.radius
    yield center
    for other in balls:
        if other is not smallest:
            yield from _along_the_line(smallest, other)
    for axis in range(min(len(center), _AXES)):
        for sign in (1.0, -1.0):
            point = center.copy()
            point[axis] += sign * radius
            yield from _with_neighbours(point)
    yield from (np.array(ball.center) for ball in inside)


def _far_points(balls: Sequence[Ball]) -> Iterator[_Point]:
    """Yield points beyond every ball along the first axis, round ones if possible."""
    starts = np.array([ball.center for ball in balls])
    with np.errstate(over="ignore"):
        reach = float(max(starts[:, 0] + [ball.radius for ball in balls]))
    largest = np.finfo(np.float64).max
    for first in (np.ceil(reach) + 1.0, reach * (1 + 1e-9) + 1.0, np.nextafter(reach, np.inf), largest):
        point = starts[0].copy()
        point[0] = first
        yield point


def _along_the_line(ball: Ball, other: Ball) -> Iterator[_Point]:
    """Yield points of ``ball`` on the line through both centres: away from ``other``, or towards it."""
    center, radius = np.array(ball.center), ball.radius
    with np.errstate(all="ignore"):
        line = center - np.array(other.center) if other.negated else np.array(other.center) - center
        distance = float(np.linalg.norm(line))
    if not 0 < distance < np.inf:
        return
    nearest = max(other.radius - distance if other.negated else distance - other.radius, 0.0)
    if not other.negated:  # where touching balls touch, exactly if float64 has the point
        share = Fraction(radius) / (Fraction(radius) + Fraction(other.radius) or Fraction(1))
        pairs = zip(map(Fraction, ball.center), map(Fraction, other.center), strict=True)
        yield np.array([_float(s + (t - s) * share) for s, t in pairs])
    for length in (nearest / 2 + radius / 2, radius, np.nextafter(radius, 0), nearest, radius * (1 - 1e-12)):
        with np.errstate(all="ignore"):
            yield from _with_neighbours(center + line * (length / distance))


def _with_neighbours(point: _Point) -> Iterator[_Point]:
    """Yield a point and, in few dimensions, the float64 points around it."""
    yield point
    if len(point) <= _NEIGHBOURS:
        around = [(x, np.nextafter(x, np.inf), np.nextafter(x, -np.inf)) for x in point]
        yield from (np.array(point) for point in itertools.product(*around))
