"""Algorithm 1 as printed, what it gets wrong and what its repair does; the safe form; Table 1."""

from __future__ import annotations

import numpy as np
import pytest
import shapely

from tamis.errors import ModelError
from tamis.geometry.rcc8 import INVERSE
from tamis.geometry.relations import relation_of
from tamis.model.subscription import Relation
from tamis_lab.regions.find_relation import (
    TABLE_1,
    PointPosition,
    discretize,
    find_relation,
    find_relation_safely,
    point_check,
)
from tests import naive
from tests.region_worlds import cell_regions, mixed_regions

SQUARE = shapely.box(0, 0, 10, 10)
SPIKE = shapely.Polygon([(11, 0), (21, 0), (21, 11), (11, 11), (11, 5.6), (9.9, 5.5), (11, 5.4)])
TIP_ON_EDGE = shapely.Polygon([(11, 0), (21, 0), (21, 11), (11, 11), (11, 5.1), (10, 5.05), (11, 5.0)])
INSCRIBED = shapely.Polygon([(0, 0), (10, 0), (5, 10)])

Rng = np.random.Generator


def test_table_1_on_cells(rng: Rng) -> None:
    """The four intersections of sets of cells are those of the table, for all eight relations."""
    cells, _ = cell_regions(rng, 150)
    again = np.concatenate([cells, cells[:20]])
    held = naive.grid_relations(cells, again)
    (a, a_inner), (b, b_inner) = naive._complex(cells), naive._complex(again)
    a_rim, b_rim = a & ~a_inner, b & ~b_inner
    four = [naive._share(*pair) for pair in ((a_rim, b_rim), (a_rim, b_inner), (a_inner, b_rim), (a_rim, ~b))]
    table = np.array([TABLE_1[Relation(name)] for name in naive.RELATIONS])
    assert (np.stack(four, axis=-1) == table[held]).all()
    assert set(np.unique(held)) == set(range(8))
    assert len(set(TABLE_1.values())) == 8


def test_point_check() -> None:
    assert [point_check(point, SQUARE) for point in ((5, 5), (10, 5), (10, 10), (11, 5))] == [
        PointPosition.IN,
        PointPosition.MEET,
        PointPosition.MEET,
        PointPosition.OUT,
    ]
    assert point_check((np.nextafter(10, 0), 5), SQUARE) is PointPosition.IN
    assert point_check((10.5, 5), SQUARE, halo=0.5) is PointPosition.MEET
    assert point_check((10.6, 10.6), SQUARE, halo=0.8) is PointPosition.OUT


def test_discretize_keeps_the_end_points() -> None:
    polygon = discretize(INSCRIBED, 0.7)
    ends = shapely.get_coordinates(INSCRIBED)[:-1]
    assert all((polygon.xy == end).all(axis=1).any() for end in ends)
    assert len(polygon) == 7 + 7 + 7
    assert discretize(INSCRIBED, 0).xy.tolist() == ends.tolist()
    uneven = shapely.Polygon([(0, 0), (9, 0), (9, 1), (0, 1)])
    assert discretize(uneven, 0.5).halos.tolist() == [0.5, 1.125, 1.125, 1.125, 0.5, 0.5, 1.125, 1.125, 1.125, 0.5]
    assert discretize(uneven, 0.5, longest=True).halos[0] == 1.125
    with pytest.raises(ModelError, match="density"):
        discretize(uneven, -1)


def test_with_enough_samples_it_is_right_on_plain_cases() -> None:
    far, inner = shapely.box(20, 0, 30, 10), shapely.box(3, 3, 7, 7)
    for a, b, want in (
        (SQUARE, far, "disjoint"),
        (SQUARE, shapely.box(10, 0, 20, 10), "meets"),
        (SQUARE, shapely.box(5, 5, 20, 20), "overlaps"),
        (SQUARE, SQUARE, "equals"),
        (inner, SQUARE, "inside"),
        (SQUARE, inner, "contains"),
        (SQUARE, shapely.box(0, 3, 5, 7), "covers"),
        (shapely.box(0, 3, 5, 7), SQUARE, "covered_by"),
    ):
        assert find_relation(a, b, 10) == want
        assert find_relation(b, a, 10) is INVERSE[Relation(want)]


@pytest.mark.parametrize(
    ("a", "b", "density", "halo", "printed", "repaired", "truth"),
    [
        (SQUARE, SPIKE, 1, False, "disjoint", "overlaps", "overlaps"),
        (SQUARE, TIP_ON_EDGE, 1, False, "disjoint", "meets", "meets"),
    ],
)
def test_loop_2_as_printed_and_repaired(
    a: shapely.Polygon, b: shapely.Polygon, density: float, halo: bool, printed: str, repaired: str, truth: str
) -> None:
    """Deviation: erratum S.3.8 a and b."""
    assert relation_of(a, b) == truth
    assert find_relation(a, b, density, halo=halo) == printed
    assert find_relation(a, b, density, halo=halo, repaired=True) == repaired


def test_no_samples_between_end_points_can_mislead() -> None:
    """Erratum S.3.8 c: with density 0 all end points of an inscribed triangle lie on the square's boundary."""
    inscribed = shapely.Polygon([(0, 0), (10, 0), (10, 10)])
    assert relation_of(inscribed, SQUARE) is Relation.COVERED_BY
    assert find_relation(inscribed, SQUARE, 0, halo=False) is Relation.EQUALS
    assert find_relation_safely(inscribed, SQUARE, 0) == (Relation.COVERED_BY, False)


@pytest.mark.parametrize(
    ("b", "with_halo", "truth"),
    [
        (shapely.box(10.3, 0, 20.3, 10), "meets", "disjoint"),
        (shapely.box(9.7, 0, 19.7, 10), "meets", "overlaps"),
        (shapely.box(-0.3, -0.3, 10.3, 10.3), "equals", "inside"),
    ],
)
def test_the_halo_shifts_the_meaning(b: shapely.Polygon, with_halo: str, truth: str) -> None:
    """Erratum S.3.9: a gap, a penetration and a margin smaller than half the spacing."""
    assert relation_of(SQUARE, b) == truth
    assert find_relation(SQUARE, b, 1) == with_halo
    assert find_relation_safely(SQUARE, b, 1)[0] == truth


def test_the_safe_form_is_never_wrong_and_often_quick(rng: Rng) -> None:
    some = np.concatenate([mixed_regions(rng, 60), cell_regions(rng, 60)[1]])
    decided = 0
    for a in some:
        for b in some[rng.integers(len(some), size=40)]:
            relation, by_samples = find_relation_safely(a, b, 3)
            assert relation is relation_of(a, b)
            decided += by_samples
    assert decided > 0.2 * 120 * 40


def test_the_printed_halo_misses_contacts_that_the_longest_does_not() -> None:
    """Deviation: beside a corner where a short edge meets a long one, the printed halo leaves a gap."""
    long = shapely.Polygon([(0, 0), (9.9, 0), (9.9, 0.4), (0, 0.4)])
    touching = shapely.Polygon([(0.4, 0), (0.3, -5), (0.5, -5)])  # between the corner's halo and the next sample's
    assert relation_of(long, touching) is Relation.MEETS
    short, wide = discretize(long, 1), discretize(long, 1, longest=True)
    meets = [
        any(
            point_check(tuple(p), touching, h) is PointPosition.MEET
            for p, h in zip(ring.xy.tolist(), ring.halos, strict=True)
        )
        for ring in (short, wide)
    ]
    assert meets == [False, True]
    assert find_relation_safely(long, touching, 1)[0] is Relation.MEETS
