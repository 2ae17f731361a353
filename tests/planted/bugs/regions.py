"""Wrong decisions about regions: the direction of a relation, contact, boxes that touch, corners on a line."""

from __future__ import annotations

from tests.planted.bug import Bug

GEOMETRY = "tests/unit/geometry"
ALGEBRA = "tests/unit/algebra/test_regions.py"

BUGS = [
    Bug(
        "regions_conflict_turned_round",
        "algebra/proofs/regions",
        "The relation of the second region to the first is used for that of the first to the second.",
        "return sets_conflict(c1.relations, relation_between(c1.region, c2.region), c2.relations)",
        "return sets_conflict(c1.relations, relation_between(c2.region, c1.region), c2.relations)",
        (f"{ALGEBRA}::test_different_regions_never_give_a_wrong_yes",),
        costly=True,
    ),
    Bug(
        "the_complement_of_a_region_keeps_its_relations",
        "algebra/proofs/regions",
        "NOT on a condition on a region changes nothing.",
        "return Spatial(condition.attribute, ALL_RELATIONS - condition.relations, condition.region)",
        "return Spatial(condition.attribute, ALL_RELATIONS & condition.relations, condition.region)",
        (f"{ALGEBRA}::test_sets_of_relations_on_one_region_are_exact_both_ways",),
        costly=True,
    ),
    Bug(
        "conditions_on_one_region_are_joined_by_or",
        "algebra/proofs/regions",
        "Of two conditions on the same region one is enough.",
        "previous.relations & condition.relations, previous.region)\n        joined[key] = condition",
        "previous.relations | condition.relations, previous.region)\n        joined[key] = condition",
        (f"{ALGEBRA}::test_conditions_on_one_region_must_all_hold",),
        costly=True,
    ),
    Bug(
        "minus_zero_makes_another_region",
        "algebra/proofs/regions",
        "A ring with the coordinate -0.0 gets another key than the same ring with 0.0.",
        "ring = shapely.get_coordinates(region.exterior.normalize())[:-1] + 0.0",
        "ring = shapely.get_coordinates(region.exterior.normalize())[:-1]",
        (f"{ALGEBRA}::test_same_region",),
    ),
    Bug(
        "corners_on_a_line_count",
        "algebra/proofs/regions",
        "A corner in the middle of a straight side makes another region of it.",
        "straight[i] = (bx - ax) * (cy - by) == (by - ay) * (cx - bx)",
        "straight[i] = False",
        (f"{ALGEBRA}::test_same_region",),
    ),
    Bug(
        "boxes_that_touch_are_disjoint",
        "geometry/relations",
        "Regions whose boxes share an edge are disjoint without a look at the regions.",
        "if a_bounds[2] < b_bounds[0] or",
        "if a_bounds[2] <= b_bounds[0] or",
        (f"{GEOMETRY}/test_relations.py::test_both_ways",),
        costly=True,
    ),
    Bug(
        "the_inverse_of_covers_is_contains",
        "geometry/rcc8",
        "COVERS turned round becomes INSIDE, which does not touch.",
        "    Relation.COVERS: Relation.COVERED_BY,",
        "    Relation.COVERS: Relation.INSIDE,",
        (f"{GEOMETRY}/test_rcc8.py::test_covers_are_the_list",),
    ),
    Bug(
        "one_cell_of_the_composition_is_too_small",
        "geometry/rcc8",
        "x meets A and A meets B no longer allows that x equals B.",
        "M     D M O Ct Cv  | D M O E Cv cB |",
        "M     D M O Ct Cv  | D M O Cv cB   |",
        (f"{GEOMETRY}/test_rcc8.py::test_the_table_is_that_of_small_regions",),
        costly=True,
    ),
    Bug(
        "the_rim_does_not_belong_to_the_ball",
        "geometry/balls",
        "A point on the rim of a ball is outside.",
        "return squared_distance(point, center) <= Fraction(radius) ** 2",
        "return squared_distance(point, center) < Fraction(radius) ** 2",
        (f"{GEOMETRY}/test_relations.py::test_the_rim_belongs_to_the_ball",),
    ),
    Bug(
        "a_crossing_counts_as_contact",
        "kernels/polygons/polygon",
        "Rings without contact are left with the relations that need one.",
        "return possible & _O if crossing else possible & ~_TOUCHING",
        "return possible & _O if crossing else possible & _TOUCHING",
        (f"{GEOMETRY}/test_relations.py::test_both_ways",),
        costly=True,
    ),
    Bug(
        "a_point_on_the_boundary_is_inside",
        "kernels/polygons/polygon",
        "A point on the boundary of a region is inside it.",
        "return np.int64(_D if place == OUTSIDE else (_M if place == ON else _I))",
        "return np.int64(_D if place == OUTSIDE else _I)",
        ("tests/unit/kernels/test_region_tests.py::test_a_point_has_the_relation_that_geos_finds",),
        costly=True,
    ),
    Bug(
        "what_touches_the_boundary_is_inside",
        "geometry/matrices",
        "What touches the boundary of a region with its own boundary counts as inside the region.",
        "return Relation.COVERED_BY if ib or bb else Relation.INSIDE",
        "return Relation.COVERED_BY if ib else Relation.INSIDE",
        ("tests/unit/geometry/test_relations.py::test_the_eight_relations_of_holes_lines_and_points",),
    ),
]
