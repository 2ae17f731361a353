"""Points and rings of few and of many edges: the short way gives what GEOS says; what was refused stays so."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import shapely

from tamis.geometry.relations import relation_set, rings_of
from tamis.kernels.polygons.flat_rings import are_points, new_corners
from tamis.kernels.polygons.polygon import relation_of_point
from tamis.kernels.polygons.region_tests import ANY, NO, OPEN, YES, RegionColumns, decide_points, decide_regions
from tamis.model.subscription import Relation

GRID = [shapely.Point(x / 2, y / 2) for x, y in itertools.product(range(-1, 26), repeat=2)]


def comb(teeth: int) -> shapely.Polygon:
    """Return a comb: its teeth are as wide as the gaps between them."""
    top = [(2 * k + dx, dy) for k in range(teeth) for dx, dy in ((0, 9), (1, 9), (1, 3), (2, 3))]
    return shapely.Polygon([(0, 0), *top[:-1], (2 * teeth - 1, 0)])


RINGS = [comb(teeth) for teeth in (1, 3, 4, 6)]


def relation(point: shapely.Point, ring: shapely.Polygon) -> Relation:
    if ring.contains(point):
        return Relation.INSIDE
    return Relation.MEETS if ring.touches(point) else Relation.DISJOINT


def test_rings_are_of_both_kinds() -> None:
    assert sorted(len(ring.exterior.coords) - 1 for ring in RINGS) == [5, 13, 17, 25]


@pytest.mark.parametrize("ring", RINGS)
def test_a_point_has_the_relation_that_geos_finds(ring: shapely.Polygon) -> None:
    points, rings, corners = rings_of(np.array(GRID, object)), rings_of(np.array([ring], object)), new_corners()
    for i, point in enumerate(GRID):
        want = relation_set(frozenset({relation(point, ring)}))
        assert relation_of_point(points, i, rings, 0, corners) == want
        if i % 7 == 0:
            assert relation_of_point.py_func(points, i, rings, 0, corners) == want


@pytest.mark.parametrize("wanted", [set(), {"inside"}, {"meets", "disjoint"}, set(Relation)])
def test_both_loops_give_one_answer(wanted: set[str]) -> None:
    some = frozenset(Relation(name) for name in wanted)
    rings, n = rings_of(np.array(RINGS, object)), len(RINGS)
    numbers = np.arange(n + 1, dtype=np.int32)  # the last entry has no tests
    per_entry = np.array([*[1] * n, 0], np.uint8)
    tests = RegionColumns(numbers, per_entry, np.zeros(n, np.int32), np.full(n, relation_set(some), np.uint8), rings)
    points = rings_of(np.array(GRID, object))
    event, entries = np.repeat(np.arange(len(GRID)), n + 1), np.tile(numbers, len(GRID))
    outcomes = []
    for decide in (decide_points, decide_regions):
        verdicts = np.full(len(entries), YES, np.int8)
        verdicts[::11] = NO  # refused by another test
        assert decide(tests, entries, points, event, ANY, verdicts, new_corners()) == (verdicts == OPEN).sum()
        outcomes.append(verdicts.tolist())
    assert outcomes[0] == outcomes[1]
    for k, verdict in enumerate(outcomes[0]):
        if k % 11 == 0:
            assert verdict == NO
        elif entries[k] == n:
            assert verdict == OPEN
        else:
            assert verdict == (relation(GRID[event[k]], RINGS[entries[k]]) in some)


def test_tables_of_points_are_told_from_others() -> None:
    assert are_points(rings_of(np.array(GRID, object)))
    assert not are_points(rings_of(np.array([GRID[0], RINGS[0]], object)))
    assert not are_points(rings_of(np.array([GRID[0], None], object)))
