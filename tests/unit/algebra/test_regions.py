"""Region conditions: exact on one region and on two, safe on more."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
import shapely

from tamis.algebra.covers import compare, covers, equivalent
from tamis.algebra.proofs.regions import (
    complement,
    joined_by_region,
    region_key,
    regions_conflict,
    regions_impossible,
    same_region,
    shape_in,
)
from tamis.algebra.simplify import simplify
from tamis.geometry.relations import relation
from tamis.model.derived.spatial_functions import ALL_RELATIONS
from tamis.model.schema import Schema
from tamis.model.subscription import Filter, Relation, Spatial
from tamis.model.types import Region
from tamis.reduction import reduce
from tests import naive
from tests.effort import effort

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
        assert regions_conflict(complement(a), b) == (second <= first)
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


SHAPES = [SQUARE, TRIANGLE, HOOK, shapely.box(1, 1, 3, 3), shapely.box(9, 9, 10, 10), shapely.box(0, 0, 1, 1)]


def test_different_regions_never_give_a_wrong_yes() -> None:
    """Each "yes" holds for many rectangles, by shapely's relations; each "no" comes with a shape that shows it."""
    sides = list(itertools.combinations(range(12), 2))
    world = [*SHAPES, *(shapely.box(x, y, X, Y) for (x, X), (y, Y) in itertools.product(sides, repeat=2))]
    names = [naive.relations(np.array(world), np.array([shape] * len(world))) for shape in SHAPES]
    answers: Counter[str] = Counter()
    for (p, q), (r, s) in itertools.product(
        itertools.permutations(range(len(SHAPES)), 2), itertools.product(Relation, repeat=2)
    ):
        a, b = spatial(SHAPES[p], r), spatial(SHAPES[q], s)
        answer = compare([Filter((a,))], [Filter((b,))], SCHEMA)
        assert regions_conflict(complement(a), b) == answer.yes
        if answer.yes:
            in_b = names[q] == naive.RELATIONS.index(s.name.lower())
            assert (names[p][in_b] == naive.RELATIONS.index(r.name.lower())).all()
            answers["yes, with shapes to check"] += bool(in_b.any())
        elif answer.witness is not None:
            shape = SCHEMA.event(answer.witness)["area"]
            assert relation(shape, SHAPES[q]) is s
            assert relation(shape, SHAPES[p]) is not r
            answers["no"] += 1
        else:
            assert answer.unknown
            answers["unknown"] += 1
    assert answers["yes, with shapes to check"] >= 35
    assert answers["no"] >= 1_800
    assert answers["unknown"] <= 23


def test_the_wrong_example_of_section_4_2_is_not_used() -> None:
    """[crtree] section 4.2 calls (x covered-by A), (x disjoint B) a conflict when A overlaps B; it is none."""
    a, b, x = shapely.box(0, 0, 4, 4), shapely.box(3, 3, 6, 6), shapely.box(0, 0, 1, 1)
    assert relation(a, b) is Relation.OVERLAPS
    assert relation(x, a) is Relation.COVERED_BY
    assert relation(x, b) is Relation.DISJOINT
    assert not regions_conflict(spatial(a, Relation.COVERED_BY), spatial(b, Relation.DISJOINT))


@pytest.mark.parametrize("seed", range(20))
def test_a_region_has_one_key_however_its_ring_is_written(seed: int) -> None:
    rng = np.random.default_rng(seed)
    angles = (np.arange(7) + rng.uniform(0, 0.9, 7)) * 2 * np.pi / 7
    ring = [(float(x), float(y)) for x, y in np.round(np.c_[np.cos(angles), np.sin(angles)] * 64)]
    region = shapely.Polygon(ring)
    middles = [((a + c) / 2, (b + d) / 2) for (a, b), (c, d) in zip(ring, [*ring[1:], ring[0]], strict=True)]
    longer = [point for pair in zip(ring, middles, strict=True) for point in pair]
    start = int(rng.integers(len(longer)))
    other = shapely.Polygon([*longer[start:], *longer[:start]][:: (-1) ** seed])
    assert relation(region, other) is Relation.EQUALS
    assert region_key(region) == region_key(other)
    moved = shapely.Polygon([(ring[0][0], np.nextafter(ring[0][1], 99.0)), *ring[1:]])
    assert same_region(region, moved) == (relation(region, moved) is Relation.EQUALS)


def fence(n: int, first: int = 1) -> str:
    """Pickets side by side: no region tells anything of another's inside."""
    corners = (f"{2 * i} 0, {2 * i + 1} 0, {2 * i + 1} 1, {2 * i} 0" for i in range(first, first + n))
    return " OR ".join(f"S_WITHIN(area, POLYGON(({corner})))" for corner in corners)


def nest(n: int) -> str:
    """Regions one in the other."""
    return " OR ".join(f"S_WITHIN(area, POLYGON((0 0, 1 0, 1 {i}, 0 0)))" for i in range(1, n + 1))


def effort_of(ask: Callable[[int], None], n: int) -> float:
    """Return the units of work for ``n`` regions, after 12 regions for which kernels are compiled."""
    ask(12)
    return effort(lambda: ask(n), rounds=1)


def test_a_nest_of_many_regions_is_its_largest() -> None:
    def ask(n: int) -> None:
        assert [filter.constraints[0].region.bounds for filter in simplify(nest(n)).filters] == [(0, 0, 1, n)]
        assert covers(nest(n), nest(n // 2))
        assert covers(nest(n // 2), nest(n)).witness is not None

    assert effort_of(ask, 256) < 2000


def test_a_fence_of_many_regions_is_quick() -> None:
    def ask(n: int) -> None:
        assert len(simplify(fence(n)).filters) == n
        assert covers(fence(n), fence(n // 2, 3))
        assert covers(fence(n), fence(n, 2)).witness is not None
        assert covers(fence(n), "area IS NOT NULL", SCHEMA).witness is not None
        result = reduce({"a": fence(n), "b": fence(n // 4, 2), "c": fence(1, 9)})
        assert result.covered == {"b": "a", "c": "a"}

    assert effort_of(ask, 256) < 2000  # it took minutes


def test_a_fence_with_other_conditions_is_quick() -> None:
    def ask(n: int) -> None:
        regions = [f"POLYGON((0 0, 1 0, 1 {i + 1}, 0 0))" for i in range(n)]
        both = (
            f"S_INTERSECTS(area, {region}) AND x < {i} OR S_DISJOINT(area, {region}) AND x < {i + 1}"
            for i, region in enumerate(regions)
        )
        simple = simplify(" OR ".join(both))
        assert equivalent(simple, f"area IS NOT NULL AND x < {n - 1} OR S_DISJOINT(area, {regions[-1]}) AND x < {n}")

    assert effort_of(ask, 128) < 2000


def test_two_filters_on_another_region_still_prove_something() -> None:
    other = "POLYGON((5 0, 9 0, 9 9, 5 0))"
    union = f"S_INTERSECTS(area, {other}) AND x < 5 OR S_DISJOINT(area, {other}) AND x < 7"
    assert covers(union, f"{fence(1)} AND x < 4")
    answer = covers(union, f"S_WITHIN(area, {other}) AND x < 6")
    assert answer.witness is not None
    assert 5 <= answer.witness["x"] < 6


def test_a_search_for_a_shape_ends() -> None:
    angles = np.linspace(0, 2 * np.pi, 300, endpoint=False)
    ring = np.c_[np.cos(angles), np.sin(angles)]

    def ask(n: int) -> None:
        assert shape_in([spatial(shapely.Polygon(ring + i / 999), Relation.EQUALS) for i in range(n)]) is None

    assert effort_of(ask, 200) < 500


def test_conditions_on_one_region_must_all_hold() -> None:
    """The same region, written in two ways: what two conditions on it leave is what both allow."""
    inside = spatial(SQUARE, Relation.INSIDE, Relation.MEETS)
    touching = spatial(SAME_SQUARE, Relation.MEETS, Relation.OVERLAPS)
    [joined] = joined_by_region([inside, touching])
    assert joined.relations == {Relation.MEETS}
    assert not regions_impossible([inside, touching])
    assert regions_impossible([inside, spatial(SAME_SQUARE, Relation.OVERLAPS)])
    shape = shape_in([inside, touching])
    assert shape is not None
    assert relation(shape, SQUARE) is Relation.MEETS


def test_same_region() -> None:
    assert same_region(SQUARE, SAME_SQUARE)
    assert same_region(SQUARE, shapely.Polygon([(-0.0, -0.0), (2, -0.0), (2, 2), (-0.0, 2)]))
    assert not same_region(SQUARE, shapely.box(0, 0, 2, 2.0000000000000004))
    assert not same_region(SQUARE, shapely.Polygon([(0, 0), (2, 0), (2, 2)]))
