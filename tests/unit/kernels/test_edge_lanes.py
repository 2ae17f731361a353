"""Eight edges at a time: what is said surely is true in rational arithmetic, and both forms say the same."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest

from tamis.kernels.compile import kernel
from tamis.kernels.polygons.edge_lanes import EDGES, UNSURE, crossing_edges, edges_around, edges_near_box, edges_on_ray

Rng = np.random.Generator
Points = npt.NDArray[np.float64]


@kernel
def _ray(xy: Points, first: int, n: int, x: float, y: float) -> int:
    return edges_on_ray(xy, first, n, x, y)


@kernel
def _around(xy: Points, first: int, n: int, x: float, y: float) -> int:
    return edges_around(xy, first, n, x, y)


@kernel
def _box(xy: Points, first: int, n: int, x: float, y: float, half_x: float, half_y: float) -> int:
    return edges_near_box(xy, first, n, x, y, half_x, half_y)


@kernel
def _crossing(xy: Points, first: int, n: int, px: float, py: float, qx: float, qy: float) -> int:
    return crossing_edges(xy, first, n, px, py, qx, qy)


def some_points(rng: Rng, n: int) -> Points:
    """Points on a small grid, anywhere, or a unit in the last place beside the grid."""
    grid = rng.integers(0, 6, (n, 2)).astype(np.float64)
    kind = rng.integers(4)
    if kind == 0:
        return grid
    if kind == 1:
        return rng.uniform(0, 6, (n, 2))
    if kind == 2:
        return np.nextafter(grid, rng.choice([-np.inf, np.inf], (n, 2)))
    return 0.1 * grid + 1e6


def side(p: Points, q: Points, r: Points) -> int:
    (px, py), (qx, qy), (rx, ry) = ([Fraction(float(coordinate)) for coordinate in point] for point in (p, q, r))
    turn = (px - rx) * (qy - ry) - (py - ry) * (qx - rx)
    return (turn > 0) - (turn < 0)


def touch(p: Points, q: Points, r: Points, s: Points) -> bool:
    """Whether two closed segments have a point in common."""
    beside = [max(p[k], q[k]) < min(r[k], s[k]) or max(r[k], s[k]) < min(p[k], q[k]) for k in (0, 1)]
    return not any(beside) and side(p, q, r) * side(p, q, s) <= 0 and side(r, s, p) * side(r, s, q) <= 0


def each_case(rng: Rng, n: int) -> list[tuple[Points, int, int]]:
    """Arrays with an edge or two that are not asked about, before and behind those that are."""
    cases = []
    for _ in range(n):
        count, first = int(rng.integers(1, EDGES + 1)), int(rng.integers(3))
        cases.append((some_points(rng, first + count + 1 + int(rng.integers(2))), first, count))
    return cases


def check_bits(bits: int, n: int, want: list[bool]) -> int:
    """Check n edges against the truth; return how many are unsure."""
    assert bits >> (UNSURE + n) == 0
    unsure = [bool(bits >> (UNSURE + k) & 1) for k in range(n)]
    assert all(bool(bits >> k & 1) == want[k] for k in range(n) if not unsure[k])
    return sum(unsure)


def test_edges_on_a_ray(rng: Rng) -> None:
    sure = 0
    for xy, first, n in each_case(rng, 400):
        point = some_points(rng, 1)[0]
        bits = _ray(xy, first, n, *point)
        assert bits == edges_on_ray(xy, first, n, *point)
        edges = [(xy[first + k], xy[first + k + 1]) for k in range(n)]
        want = [
            bool((u[1] <= point[1]) != (w[1] <= point[1]) and (side(u, w, point) > 0) == (w[1] > u[1]))
            for u, w in edges
        ]
        on_it = [touch(u, w, point, point) for u, w in edges]
        assert all(bits >> (UNSURE + k) & 1 for k in range(n) if on_it[k])
        sure += n - check_bits(bits, n, want)
    assert sure > 1_000


def test_edges_around_a_point(rng: Rng) -> None:
    sure = 0
    for xy, first, n in each_case(rng, 400):
        point = some_points(rng, 1)[0]
        bits = _around(xy, first, n, *point)
        assert bits == edges_around(xy, first, n, *point)
        for k in range(n):
            sign = (bits >> k & 1) - (bits >> (UNSURE + k) & 1)
            assert sign in (0, side(xy[first + k], xy[first + k + 1], point))
            sure += sign != 0
    assert sure > 1_000


def test_edges_that_cross(rng: Rng) -> None:
    sure, crossed = 0, 0
    for xy, first, n in each_case(rng, 400):
        p, q = some_points(rng, 2)
        bits = _crossing(xy, first, n, *p, *q)
        assert bits == crossing_edges(xy, first, n, *p, *q)
        edges = [(xy[first + k], xy[first + k + 1]) for k in range(n)]
        want = [touch(p, q, u, w) for u, w in edges]
        sure += n - check_bits(bits, n, want)
        crossed += sum(want)
    assert sure > 1_000
    assert crossed > 100


def test_edges_near_a_box(rng: Rng) -> None:
    """An edge that meets the box is never left out; most of the others are."""
    meeting, decided = 0, 0
    for xy, first, n in each_case(rng, 400):
        low, high = np.sort(some_points(rng, 2), axis=0)
        middle = low + (high - low) * 0.5
        half = np.maximum(high - middle, middle - low)
        bits = _box(xy, first, n, *middle, *half)
        assert bits == edges_near_box(xy, first, n, *middle, *half)
        corners = [low, np.array([high[0], low[1]]), high, np.array([low[0], high[1]])]
        for k in range(n):
            u, w = xy[first + k], xy[first + k + 1]
            inside = bool((low <= u).all() and (u <= high).all())
            meets = inside or any(touch(u, w, corners[c], corners[(c + 1) % 4]) for c in range(4))
            assert bits >> k & 1 or not meets
            meeting += meets
        decided += bits.bit_count()
    assert 0 < meeting <= decided < 1.1 * meeting


@pytest.mark.parametrize("scale", [5e-324, 1e-200, 1e300])
def test_extreme_numbers_are_unsure_not_wrong(scale: float) -> None:
    square = np.array([[0.0, 0.0], [4.0, 0.0], [4.0, 4.0], [0.0, 4.0], [0.0, 0.0]]) * scale
    bits = _ray(square, 0, 4, scale, scale)
    assert bits == edges_on_ray(square, 0, 4, scale, scale)
    assert bits & 0b1000 == 0
    assert bits & 0b10 or bits >> UNSURE & 0b10
    assert _box(square, 0, 4, 4 * scale, 2 * scale, scale, scale) & 0b10
