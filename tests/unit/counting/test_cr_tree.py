"""The CR-tree through random lives against the one truth; Table 2 on all pairs of a small world; its deviations."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import shapely

from tamis.algebra.evaluate import constraint_holds
from tamis.errors import InvariantError
from tamis.geometry.relations import relation_of, relations
from tamis.index.counting import CountingMatcher, ScanIndex
from tamis.index.counting.cr_tree import TABLE_2, CRTree, box_relation
from tamis.model.derived.spatial_functions import ALL_RELATIONS
from tamis.model.subscription import Filter, Relation, Spatial, Subscription
from tests.region_worlds import cell_regions, mixed_regions, points

DIAMOND = shapely.Polygon([(0, 4), (4, 0), (8, 4), (4, 8)])
TRIANGLE = shapely.Polygon([(2, 2), (3, 2.5), (2.5, 3)])

#: Two triangles that make a square: they meet, and have one MBR.
HALVES = [shapely.Polygon([(0, 0), (3, 0), (3, 3)]), shapely.Polygon([(0, 0), (3, 3), (0, 3)])]

#: The table as printed, to show what it loses.
PRINTED = TABLE_2 | {
    Relation.COVERED_BY: frozenset({Relation.COVERED_BY, Relation.EQUALS}),
    Relation.COVERS: frozenset({Relation.COVERS, Relation.EQUALS}),
}

Rng = np.random.Generator


def random_constraint(rng: Rng, region: shapely.Polygon) -> Spatial:
    n = int(rng.choice([1, 1, 1, 2, 3, 7]))
    some = rng.choice(list(Relation), n, replace=False)
    return Spatial("area", frozenset(Relation(str(name)) for name in some), region)


def agree(tree: CRTree, held: dict[int, Spatial], values: list[Any]) -> None:
    tree.check_invariants()
    assert len(tree) == len(held)
    for value in values:
        want = [number for number, constraint in held.items() if constraint_holds({"area": value}, constraint)]
        assert sorted(tree.satisfied(value)) == sorted(want)
    assert list(tree.satisfied(None)) == []


@pytest.mark.parametrize("seed", range(4))
def test_a_life_agrees_with_the_truth(seed: int) -> None:
    rng = np.random.default_rng(seed)
    regions = [*cell_regions(rng, 40)[1], *mixed_regions(rng, 40)]
    values = [*rng.choice(np.array(regions), 5), *points(rng, 5)]
    tree, held = CRTree(), dict[int, Spatial]()
    for number in range(300):
        held[number] = random_constraint(rng, regions[rng.integers(len(regions))])
        tree.add(number, held[number])
        if number % 3 == 2:
            removed = int(rng.choice(list(held)))
            tree.remove(removed, held.pop(removed))
        if number % 60 == 59:
            agree(tree, held, values)
    for removed in rng.permutation(list(held)).tolist():
        tree.remove(removed, held.pop(removed))
        if len(held) % 50 == 0:
            agree(tree, held, values)
    assert len(tree) == 0
    with pytest.raises(KeyError):
        tree.remove(0, random_constraint(rng, DIAMOND))


def test_far_away_constraints_are_reported_without_a_look() -> None:
    tree = CRTree()
    for number in range(200):
        square = shapely.box(3 * number, 0, 3 * number + 2, 2)
        tree.add(number, Spatial("area", frozenset({Relation.DISJOINT}), square))
    assert sorted(tree.satisfied(shapely.box(0.5, 0.5, 1, 1))) == list(range(1, 200))
    assert tree.evaluations == 1


def test_only_what_is_wanted_is_asked() -> None:
    tree = CRTree()
    for number, relation in itertools.product(range(20), [Relation.OVERLAPS, Relation.DISJOINT]):
        tree.add(
            2 * number + (relation is Relation.DISJOINT),
            Spatial("area", frozenset({relation}), shapely.box(0, 0, 2, 2)),
        )
    assert list(tree.satisfied(shapely.box(1, 1, 3, 3), lambda number: number == 6)) == [6]
    assert tree.evaluations == 1
    assert list(tree.satisfied(shapely.box(7, 7, 8, 8), lambda number: number == 7)) == [7]
    assert tree.evaluations == 1


def test_table_2_holds_and_is_tight(rng: Rng) -> None:
    """Every pair of regions has MBRs that the table allows, and every entry of the table is needed."""
    some = np.concatenate([cell_regions(rng, 300)[1], mixed_regions(rng, 150), HALVES, [DIAMOND, TRIANGLE]])
    a, b = (grid.ravel() for grid in np.meshgrid(some, some))
    codes, bounds = relations(a, b), [tuple(row) for row in shapely.bounds(some)]
    seen: dict[Relation, set[Relation]] = {relation: set() for relation in Relation}
    for (q, p), code in zip(itertools.product(bounds, repeat=2), codes.tolist(), strict=True):
        seen[list(Relation)[code]].add(box_relation(p, q))
    assert seen == TABLE_2


def test_table_2_as_printed_loses_a_triangle_in_a_diamond() -> None:
    """Deviation: X covered-by A although MBR(X) lies inside MBR(A)."""
    assert relation_of(TRIANGLE, DIAMOND) is Relation.COVERED_BY
    boxes = box_relation(TRIANGLE.bounds, DIAMOND.bounds)
    assert boxes is Relation.INSIDE
    assert boxes not in PRINTED[Relation.COVERED_BY]
    assert box_relation(DIAMOND.bounds, TRIANGLE.bounds) not in PRINTED[Relation.COVERS]
    tree = CRTree()
    tree.add(1, Spatial("area", frozenset({Relation.COVERED_BY}), DIAMOND))
    tree.add(2, Spatial("area", frozenset({Relation.COVERS}), TRIANGLE))
    assert list(tree.satisfied(TRIANGLE)) == [1]
    assert list(tree.satisfied(DIAMOND)) == [2]


def test_boxes_that_touch_intersect() -> None:
    """Deviation: with "overlaps" at inner nodes this *meets* is lost, and *disjoint* is reported."""
    tree = CRTree()
    for number in range(40):
        relation = Relation.MEETS if number % 2 else Relation.DISJOINT
        tree.add(number, Spatial("area", frozenset({relation}), shapely.box(0, 0, 1, 1)))
    assert tree._root is not None
    assert tree._root.height > 0
    assert sorted(tree.satisfied(shapely.box(1, 1, 2, 2))) == list(range(1, 40, 2))


def test_the_counting_matcher_with_and_without_it(rng: Rng) -> None:
    regions = mixed_regions(rng, 60)
    plain, tree = CountingMatcher({**_indexes(), Spatial: ScanIndex}), CountingMatcher()
    for row in range(150):
        constraints = tuple(random_constraint(rng, regions[rng.integers(60)]) for _ in range(rng.integers(1, 3)))
        for matcher in (plain, tree):
            matcher.add(row, Subscription(row, (Filter(constraints),)))
    for value in [*regions[:20], *points(rng, 20)]:
        assert tree.match({"area": value}).tolist() == plain.match({"area": value}).tolist()
    counts = [index.statistics().details["evaluations"] for index in (tree, plain)]
    assert counts[0] < counts[1]


def _indexes() -> dict[Any, Any]:
    from tamis.index.counting import DEFAULT_INDEXES

    return dict(DEFAULT_INDEXES)


def test_a_broken_tree_is_noticed() -> None:
    tree = CRTree()
    for number in range(30):
        tree.add(number, Spatial("area", ALL_RELATIONS, shapely.box(number, 0, number + 1, 1)))
    tree.check_invariants()
    assert tree._root is not None
    tree._root.bounds = (0.0, 0.0, 1.0, 1.0)
    with pytest.raises(InvariantError, match="box"):
        tree.check_invariants()
    tree._root.bounds = (0.0, 0.0, 30.0, 1.0)
    tree._n = 31
    with pytest.raises(InvariantError, match="31 added"):
        tree.check_invariants()
