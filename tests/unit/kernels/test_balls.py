"""Decisions about balls, compiled and plain, against rational arithmetic."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tamis.kernels import balls
from tamis.kernels.vectors import INSIDE, OUTSIDE, UNCERTAIN
from tests import naive_balls

FORMS = pytest.mark.parametrize("plain", [False, True], ids=["compiled", "plain"])


def pick(function, plain):
    return function.py_func if plain else function


def table_of(centers, radii):
    alive = np.ones(len(radii), np.uint8)
    return balls.ball_table(centers, radii, alive, (0, len(radii))), alive


def queries_of(centers, radii):
    return balls.Queries(centers, radii, np.empty((len(radii), 0)), np.empty((len(radii), 0)))


def hits_for(n_queries, room=100_000):
    pairs = np.zeros((2, 2, room), np.int32)
    return balls.Hits(pairs[0], pairs[1], np.zeros(4, np.int64), np.zeros(n_queries, np.uint8))


def pairs_of(hits, what):
    rows = hits.covers if what == balls.COVERS else hits.doubts
    return set(map(tuple, rows[:, : hits.counts[what]].T.tolist()))


def side(plain, outer, inner):
    centers = np.array([outer[0]], np.float64)
    radii = np.array([outer[1]], np.float64)
    table, _alive = table_of(centers, radii)
    return pick(balls.cover_side, plain)(table, 0, np.array(inner[0], np.float64), float(inner[1]))


@FORMS
@pytest.mark.parametrize(
    ("outer", "inner", "expected"),
    [
        (([0.0, 0.0], 5.0), ([3.0, 4.0], 0.0), INSIDE),  # on the rim, and no operation rounds
        (([0.0, 0.0], 10.0), ([3.0, 4.0], 5.0), INSIDE),  # tangent from inside
        (([0.0, 0.0], np.nextafter(5.0, 0)), ([3.0, 4.0], 0.0), UNCERTAIN),  # the square of the radius rounds
        (([0.0, 0.0], 4.9), ([3.0, 4.0], 0.0), OUTSIDE),
        (([0.0, 0.0], 1.0), ([0.0, 0.0], 2.0), OUTSIDE),
        (([0.1, 0.2], 0.3), ([0.1, 0.2], 0.3), INSIDE),  # equal balls cover each other
        (([0.1, 0.2], 0.3), ([0.1, np.nextafter(0.2, 1)], 0.3), OUTSIDE),  # equal radii, other centre
        (([0.0], 0.0), ([0.0], 0.0), INSIDE),
        (([0.0], 1e-200), ([5e-201], 0.0), UNCERTAIN),  # squares underflow
        (([0.0], 1e200), ([5e199], 0.0), UNCERTAIN),  # squares overflow
        (([0.0], 1.0), ([1e-200], 0.0), UNCERTAIN),
    ],
)
def test_sides(plain, outer, inner, expected):
    with np.errstate(over="ignore"):
        verdict = side(plain, outer, inner)
    assert verdict == expected or (expected == UNCERTAIN and verdict == naive_balls.covers(outer, inner))


@FORMS
@pytest.mark.parametrize("d", [1, 2, 5, 17, 40])
def test_a_side_that_is_sure_is_right_near_the_rim(plain, d):
    rng = np.random.default_rng(d)
    unsure = 0
    for _ in range(60):
        center, radius = rng.normal(size=d), 0.0
        direction = rng.normal(size=d)
        point = center + direction / np.linalg.norm(direction) * rng.uniform(0.1, 2)
        gap = float(np.linalg.norm(point - center)) * (1 + rng.integers(-4, 5) * 2.0**-52)
        verdict = side(plain, (center, gap), (point, radius))
        unsure += verdict == UNCERTAIN
        assert verdict == UNCERTAIN or (verdict == INSIDE) == naive_balls.covers((center, gap), (point, radius))
    assert unsure > 0  # the test is about the rim


@FORMS
def test_every_lattice_pair_is_decided_without_rational_arithmetic(plain):
    grid = np.array([(x, y) for x in range(-3, 4) for y in range(-3, 4)], np.float64)
    for r, q in ((5.0, 0.0), (5.0, 2.0), (2.5, 0.25), (3.0, 3.0)):
        for point in grid:
            verdict = side(plain, ((0.0, 0.0), r), (point, q))
            assert verdict == (INSIDE if naive_balls.covers(((0.0, 0.0), r), (point, q)) else OUTSIDE)


@FORMS
@pytest.mark.parametrize("first", [False, True])
def test_a_scan_finds_the_covers_of_the_living(plain, first):
    rng = np.random.default_rng(3)
    centers, radii = rng.integers(0, 5, (30, 2)).astype(np.float64), rng.integers(0, 6, 30).astype(np.float64)
    table, alive = table_of(centers, radii)
    alive[::4] = 0
    outer, inner = rng.integers(0, 5, (9, 2)).astype(np.float64), rng.integers(0, 3, 9).astype(np.float64)
    truth = naive_balls.cover_matrix((centers, radii), (outer, inner)) & (alive[:, None] != 0)
    hits = hits_for(9)
    assert pick(balls.scan_covers, plain)(table, queries_of(outer, inner), 0, first, hits) == 9
    pairs = pairs_of(hits, balls.COVERS)
    assert hits.counts[balls.DOUBTS] == 0
    if first:
        assert sorted(e for e, _ in pairs) == np.flatnonzero(truth.any(axis=0)).tolist()
        assert all(truth[slot, e] for e, slot in pairs)
        assert np.array_equal(hits.done != 0, truth.any(axis=0))
    else:
        assert pairs == {(e, slot) for slot, e in np.argwhere(truth).tolist()}


@FORMS
def test_a_scan_stops_for_want_of_room_and_goes_on(plain):
    centers, radii = np.zeros((10, 2)), np.full(10, 2.0)
    table, _alive = table_of(centers, radii)
    queries, hits = queries_of(np.zeros((3, 2)), np.ones(3)), hits_for(3, room=12)
    done = pick(balls.scan_covers, plain)(table, queries, 0, False, hits)
    assert (done, hits.counts[balls.COVERS]) == (1, 10)
    hits.counts[:2] = 0
    assert pick(balls.scan_covers, plain)(table, queries, done, False, hits) == 2


@FORMS
def test_covered_is_cover_turned_round(plain):
    rng = np.random.default_rng(4)
    centers, radii = rng.integers(0, 4, (40, 3)).astype(np.float64), rng.integers(0, 4, 40).astype(np.float64)
    table, alive = table_of(centers, radii)
    alive[5] = 0
    sides = np.empty(40, np.uint8)
    center = np.array([1.0, 2.0, 1.0])
    pick(balls.scan_covered, plain)(table, center, 3.0, sides)
    truth = naive_balls.cover_matrix((center[None], np.array([3.0])), (centers, radii))[0] & (alive != 0)
    assert np.array_equal(sides == INSIDE, truth)
    assert truth.any()
    assert not truth.all()


@FORMS
def test_blocks_read_the_sign_only(plain):
    centers, radii = np.zeros((300, 1)), np.full(300, 1.0)
    centers[:, 0] = np.arange(300) / 100
    table, _alive = table_of(centers, radii)
    queries = queries_of(np.array([[0.0], [2.9]]), np.array([0.5, 0.5]))
    products = ((centers[:, 0] - queries.centers) ** 2 - 0.25 - 1e-6).astype(np.float32)
    hits = hits_for(2)
    active = np.array([0, 1], np.int32)
    assert pick(balls.block_covers, plain)(products.view(np.int32), active, table, 0, queries, 0, False, hits) == 2
    assert pairs_of(hits, balls.COVERS) | pairs_of(hits, balls.DOUBTS) >= {(0, i) for i in range(50)}
    assert hits.counts[balls.CANDIDATES] < 120


@FORMS
def test_pairs_of_points_and_balls(plain):
    centers, radii = np.array([[0.0, 0.0], [1.0, 1.0], [1.0, 1.0]]), np.array([5.0, 1.0, 1.0])
    negated = np.array([0, 0, 1], np.uint8)
    table = balls.ball_table(centers, radii, negated, (0, 3))
    points = np.array([[3.0, 4.0], [1.0, 2.0], [math.nan, math.nan]])
    entries = np.array([2, 5, 9, 2, 5, 9, 2, 1, 7, 10], np.int32)  # 1, 7 and 10 have no ball
    rows = np.array([0, 0, 0, 1, 1, 1, 2, 1, 1, 1], np.int64)
    verdicts = np.full(10, -1, np.int8)
    pick(balls.decide_pairs, plain)(table, np.array([2, 5, 9], np.int32), entries, points, rows, verdicts)
    assert verdicts.tolist() == [1, 0, 1, 1, 1, 0, -1, -1, -1, -1]


@FORMS
def test_a_pair_that_float64_cannot_decide_keeps_its_verdict(plain):
    centers, radii, negated = np.array([[0.1, 0.2]]), np.array([math.hypot(0.1, 0.2)]), np.zeros(1, np.uint8)
    table = balls.ball_table(centers, radii, negated, (0, 1))
    verdicts = np.full(1, -1, np.int8)
    owners, entries, rows = np.zeros(1, np.int32), np.zeros(1, np.int32), np.zeros(1, np.int64)
    pick(balls.decide_pairs, plain)(table, owners, entries, np.zeros((1, 2)), rows, verdicts)
    assert verdicts.tolist() == [-1]
