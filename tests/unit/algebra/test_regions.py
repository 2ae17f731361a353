"""Region conditions: exact on one region, safe on different ones."""

from __future__ import annotations

import itertools

import pytest
import shapely

from tamis.algebra.covers import compare, covers
from tamis.algebra.regions import ALL_RELATIONS, region_covers, regions_conflict, same_region, shape_in
from tamis.geometry.relations import relation
from tamis.model.schema import Schema
from tamis.model.subscription import Filter, Relation, Spatial
from tamis.model.types import Region

SQUARE = shapely.box(0, 0, 2, 2)
SAME_SQUARE = shapely.Polygon([(2, 2), (2, 0), (1, 0), (0, 0), (0, 1), (0, 2)])
TRIANGLE = shapely.Polygon([(0, 0), (5, 1), (1, 4)])
HOOK = shapely.Polygon([(0, 0), (6, 0), (6, 6), (4, 6), (4, 2), (2, 2), (2, 6), (0, 6)])
SCHEMA = Schema({"area": Region()})


def spatial(region: shapely.Polygon, *relations: Relation) -> Spatial:
    return Spatial("area", frozenset(relations), region)


@pytest.mark.parametrize("region", [SQUARE, SAME_SQUARE, TRIANGLE, HOOK], ids=["square", "same", "triangle", "hook"])
@pytest.mark.parametrize("wanted", Relation)
def test_there_is_a_shape_for_every_relation(region: shapely.Polygon, wanted: Relation) -> None:
    shape = shape_in([spatial(region, wanted)])
    assert shape is not None
    assert relation(shape, region) is wanted


def test_sets_of_relations_on_one_region_are_exact_both_ways() -> None:
    some = [set(pair) for n in (1, 2, 7) for pair in itertools.combinations(Relation, n)]
    for first, second in itertools.product(some, repeat=2):
        a, b = spatial(SQUARE, *first), spatial(SAME_SQUARE, *second)
        assert region_covers(a, b) == (second <= first)
        assert regions_conflict(a, b) == (not first & second)
    for first, second in list(itertools.product(some, repeat=2))[::40]:
        a, b = spatial(SQUARE, *first), spatial(SAME_SQUARE, *second)
        answer = compare([Filter((a,))], [Filter((b,))], SCHEMA)
        assert answer.yes == (second <= first)
        assert (answer.witness is None) == answer.yes


def test_all_eight_relations_say_that_there_is_a_region() -> None:
    present = "area IS NOT NULL"
    polygon = "POLYGON((0 0, 2 0, 2 2, 0 2, 0 0))"
    both = f"S_INTERSECTS(area, {polygon}) OR S_DISJOINT(area, {polygon})"
    assert covers(both, present, SCHEMA)
    assert covers(present, f"S_INTERSECTS(area, {polygon})", SCHEMA)
    assert covers(both, "TRUE", SCHEMA).witness == {}
    assert spatial(SQUARE, *Relation).relations == ALL_RELATIONS


def test_different_regions_never_give_a_wrong_yes() -> None:
    shapes = [SQUARE, TRIANGLE, HOOK, shapely.box(1, 1, 3, 3), shapely.box(9, 9, 10, 10), shapely.box(0, 0, 1, 1)]
    for (p, q), (r, s) in itertools.product(itertools.permutations(shapes, 2), itertools.product(Relation, repeat=2)):
        a, b = spatial(p, r), spatial(q, s)
        if region_covers(a, b):
            assert all(relation(x, p) is r for x in shapes if relation(x, q) is s)
        answer = compare([Filter((a,))], [Filter((b,))], SCHEMA)
        assert answer.yes or answer.unknown or answer.witness is not None


def test_the_wrong_example_of_section_4_2_is_not_used() -> None:
    """[crtree] section 4.2 calls (x covered-by A), (x disjoint B) a conflict when A overlaps B; it is none."""
    a, b, x = shapely.box(0, 0, 4, 4), shapely.box(3, 3, 6, 6), shapely.box(0, 0, 1, 1)
    assert relation(a, b) is Relation.OVERLAPS
    assert relation(x, a) is Relation.COVERED_BY
    assert relation(x, b) is Relation.DISJOINT
    assert not regions_conflict(spatial(a, Relation.COVERED_BY), spatial(b, Relation.DISJOINT))


def test_same_region() -> None:
    assert same_region(SQUARE, SAME_SQUARE)
    assert not same_region(SQUARE, shapely.box(0, 0, 2, 2.0000000000000004))
    assert not same_region(SQUARE, shapely.Polygon([(0, 0), (2, 0), (2, 2)]))
