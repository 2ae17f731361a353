"""Wrong decisions when sets are made smaller: what ends earlier, namespaces, twins, unions, merges."""

from __future__ import annotations

from tests.planted.bug import Bug

REDUCE = "tests/unit/reduction/test_reduce.py"
BOXES = "tests/unit/reduction/test_box_stages.py"
MERGE = "tests/unit/reduction/test_subsume_merge.py"

BUGS = [
    Bug(
        "a_short_life_covers_a_long_one",
        "reduction/stages/group",
        "The end in time is not an axis, so a box is dropped for one that ends earlier.",
        "    if not wanted:\n        return boxes\n",
        "    return boxes\n",
        (f"{BOXES}::test_subscriptions_that_expire_early_do_not_cover_as_a_union",),
        costly=True,
    ),
    Bug(
        "the_later_of_two_equivalents_stays_too",
        "reduction/stages/item_stages",
        "Of two equivalent subscriptions both fall: each is covered by the other.",
        "            may_stay = row < candidate and outlives(item.subscription, other.subscription)\n",
        "            may_stay = row > candidate and outlives(item.subscription, other.subscription)\n",
        (f"{REDUCE}::test_equivalents_that_are_not_the_same_object",),
        costly=True,
    ),
    Bug(
        "a_witness_is_enough_for_a_union",
        "reduction/subsume",
        "Ids are dropped from a proof without asking whether the others still prove it.",
        "        if find_cover(inner, fewer, pieces) is not None:\n",
        "        if fewer:\n",
        (f"{MERGE}::test_the_ids_named_are_needed_and_enough", f"{MERGE}::test_covered_by_two_together"),
        costly=True,
    ),
    Bug(
        "filters_of_different_lives_are_merged",
        "reduction/stages/perfect_merges",
        "Two filters that join perfectly are merged though one ends earlier.",
        "groups.setdefault((item.expires, remainder), {})",
        "groups.setdefault((None, remainder), {})",
        (f"{REDUCE}::test_filters_that_end_at_different_times_are_not_merged",),
        costly=True,
    ),
    Bug(
        "a_merge_forgets_the_other_attributes",
        "reduction/stages/perfect_merges",
        "The remainder of the filters is not compared, so filters merge that differ in two attributes.",
        "remainder = tuple(constraint for constraint in item.filter.constraints if constraint.attribute != name)",
        "remainder = len(item.filter.constraints)",
        (f"{REDUCE}::test_the_union_stays_the_same_and_reasons_are_proofs",),
        costly=True,
    ),
    Bug(
        "narrow_boxes_come_before_the_wide",
        "reduction/stages/box_stages",
        "Ties of the first lower side are ordered by the narrower box, which cannot cover the wider one.",
        "keys = [*-boxes.hi.T[::-1], *boxes.lo.T[::-1]]",
        "keys = [*boxes.hi.T[::-1], *boxes.lo.T[::-1]]",
        (f"{BOXES}::test_the_subscriptions_that_stay_are_those_without_a_cover",),
        costly=True,
    ),
    Bug(
        "dropped_boxes_still_help_to_prove",
        "kernels/boxes/subtract",
        "A box that was dropped itself is used to prove that another one can be dropped.",
        "        if alive[row]:\n            cuts =",
        "        if row >= 0:\n            cuts =",
        (f"{BOXES}::test_a_union_is_a_proof_and_the_rest_is_no_less",),
        costly=True,
    ),
]
