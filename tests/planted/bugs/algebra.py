"""Wrong decisions in the algebra: the missing value, equal bounds, the budget, the sign of a radius."""

from __future__ import annotations

from tests.planted.bug import Bug

UNIT = "tests/unit/algebra"

BUGS = [
    Bug(
        "minus_forgets_the_missing_value",
        "algebra/proofs/facts",
        "What a condition leaves when it is taken away has values only: events without the attribute are forgotten.",
        "        if self.allowed.missing and not isinstance(constraint, Values):\n"
        "            ways.append(Facts(MISSING))\n",
        "",
        (f"{UNIT}/test_covers.py::test_every_pair_of_unions_on_one_attribute[strings]",),
    ),
    Bug(
        "a_condition_is_implied_by_a_missing_value",
        "algebra/proofs/facts",
        "What may be missing is taken to satisfy a condition that all its values satisfy.",
        "return not self.allowed.missing and all(self.excludes(failure, budget) for failure in failures(constraint))",
        "return all(self.excludes(failure, budget) for failure in failures(constraint))",
        (f"{UNIT}/test_covers.py::test_every_pair_of_unions_on_one_attribute[strings]",),
    ),
    Bug(
        "a_proof_beyond_the_budget_counts",
        "algebra/covers",
        "A question that used up its budget is answered with yes.",
        "return None if budget.exhausted else frozenset(subtraction.used)",
        "return frozenset(subtraction.used)",
        (f"{UNIT}/test_covers.py::test_a_true_yes_beyond_the_budget_is_no",),
    ),
    Bug(
        "only_the_first_filter_must_be_covered",
        "algebra/covers",
        "Of a disjunction that may be covered, only the first filter is looked at.",
        "rest = (piece for filter in left for piece",
        "rest = (piece for filter in left[:1] for piece",
        (f"{UNIT}/test_covers.py::test_any_combination_on_two_attributes",),
    ),
    Bug(
        "the_last_part_of_a_choice_is_not_expanded",
        "algebra/proofs/pieces",
        "The last alternative of a tree is left out, so that too little has to be covered.",
        "waiting.extend((grown, (part, *later)) for part in reversed(first.parts))",
        "waiting.extend((grown, (part, *later)) for part in reversed(first.parts[:-1]))",
        (f"{UNIT}/test_covers.py::test_trees_that_were_not_expanded",),
    ),
    Bug(
        "the_opposite_of_a_disjunction_is_a_disjunction",
        "algebra/proofs/pieces",
        "De Morgan is forgotten for OR: NOT (a OR b) becomes NOT a OR NOT b.",
        "        return AllOf(tuple(opposite(part) for part in predicate.parts))",
        "        return AnyOf(tuple(opposite(part) for part in predicate.parts))",
        (f"{UNIT}/test_covers.py::test_trees_that_were_not_expanded",),
    ),
    Bug(
        "balls_that_touch_are_disjoint",
        "algebra/proofs/balls",
        "A distance that equals the bound is taken for greater.",
        "return squared_distance(a, b) <= sum(map(Fraction, terms)) ** 2",
        "return squared_distance(a, b) < sum(map(Fraction, terms)) ** 2",
        (f"{UNIT}/test_balls.py::test_tangent_balls",),
    ),
    Bug(
        "the_radii_of_a_cover_are_exchanged",
        "algebra/proofs/balls",
        "A small ball covers a large one: the step that [projection] prints wrongly.",
        "outer.center, inner.center, outer.radius, -inner.radius)",
        "outer.center, inner.center, inner.radius, -outer.radius)",
        (f"{UNIT}/test_balls.py::test_proposition_2_1_with_the_radii_of_the_proof_not_of_step_2b",),
    ),
    Bug(
        "two_negated_balls_conflict",
        "algebra/proofs/balls",
        "Two conditions to be outside of balls are taken for a conflict if the balls are apart.",
        "    if a.negated and b.negated:\n        return False\n",
        "    if a.negated and b.negated:\n        return balls_disjoint(a, b)\n",
        (f"{UNIT}/test_balls.py::test_every_small_conflict",),
    ),
    Bug(
        "filters_that_conflict_are_compared_with_the_first_only",
        "algebra/conflicts",
        "Whether two subscriptions conflict is asked of the first filter of the second only.",
        "for other in b):",
        "for other in b[:1]):",
        (f"{UNIT}/test_covers.py::test_any_combination_on_two_attributes",),
    ),
    Bug(
        "a_union_forgets_the_missing_value",
        "model/value_set",
        "The union of many sets has no missing value although one of them has.",
        "missing = any(value_set.missing for value_set in sets)",
        "missing = all(value_set.missing for value_set in sets)",
        ("tests/unit/model/test_value_set.py::test_many_at_once_equal_one_by_one",),
    ),
]
