"""Wrong decisions in the covering indexes: dominance, the Z curve and the ranges of MICS."""

from __future__ import annotations

from tests.planted.bug import Bug

LOOSE = "tests/contract/test_covering.py::test_what_is_covered_though_its_box_says_less"
CONTRACT = "tests/contract/test_covering.py::test_covering_index_keeps_its_guarantee"
KINDS = "tests/contract/test_covering_kinds.py::test_every_kind_is_answered_as_a_scan_answers"
BATCHES = "tests/contract/test_covering_batches.py::test_batches_are_answered_as_a_scan_answers"
AROUND = "tests/unit/index/test_dominance_around.py"
ZCURVE = "tests/papers/test_zcurve.py"
MICS = "tests/unit/index_mics"

BUGS = [
    Bug(
        "a_row_around_one_component_is_a_cover",
        "kernels/covering/joining",
        "A subscription that is around the last component of a question is taken for one that is around all of them.",
        "if verdicts[k] == YES and (first or marks.sure[head] == at):",
        "if verdicts[k] == YES:",
        (f"{BATCHES}[sets]", f"{BATCHES}[alternatives]"),
        costly=True,
    ),
    Bug(
        "large_integers_of_a_shape_are_rounded",
        "index/dominance/splitting/shapes",
        "Integers that float64 rounds are compared as what they were rounded to.",
        "    if large.any():\n",
        "    if large.any() and not large.any():\n",
        (f"{BATCHES}[large]",),
        costly=True,
    ),
    Bug(
        "a_candidate_counts_without_a_proof",
        "index/dominance/verifying",
        "A row whose box is around the question is taken for a cover without a look at its raw filters.",
        "            if patience.prover.is_covered(filters, self._rows.filters(row)):\n"
        "                return row\n        return otherwise",
        "            return row\n        return otherwise",
        (f"{KINDS}[ranges]",),
        costly=True,
    ),
    Bug(
        "what_never_matches_is_not_covered",
        "index/dominance/batches",
        "Subscriptions that can never match are missing among those that are covered.",
        "sorted([*self._rows.never, *sure.tolist(), *proved])",
        "sorted([*sure.tolist(), *proved])",
        (f"{CONTRACT}[exact]",),
        costly=True,
    ),
    Bug(
        "patterns_are_not_found_by_their_witness",
        "index/dominance/sides",
        "A pattern whose hull is not inside is not looked at, though every string that it matches may be.",
        '        options.append({(name, "w"): _inside(side)})\n',
        "        pass\n",
        (f"{LOOSE}[exact]",),
        costly=True,
    ),
    Bug(
        "meeting_is_asked_as_covering",
        "index/dominance/corners",
        "The two sides of a box are exchanged, so that only boxes around it meet it.",
        "return self.match_point(np.where(np.isnan(lo), ANY_VALUE, lo), np.where(np.isnan(hi), np.inf, hi))",
        "return self.match_point(np.where(np.isnan(hi), np.inf, hi), np.where(np.isnan(lo), ANY_VALUE, lo))",
        (f"{AROUND}::test_what_meets_a_filter_is_proposed",),
    ),
    Bug(
        "least_covers_of_a_large_batch_stay_in_curve_order",
        "index/dominance/corners",
        "A large batch is put in the order of the curve, and its answers are not put back.",
        "        best[order] = ordered\n",
        "        best[:] = ordered\n",
        ("tests/unit/kernels/test_dominance.py::test_a_large_batch_is_answered_in_its_own_order",),
        costly=True,
    ),
    Bug(
        "zcurve_does_not_mirror_lower_ends",
        "index/zcurve/index",
        "A lower end is compared like an upper one: larger counts as farther.",
        "        return cell if end[1] else 2**self._settings.k - 1 - cell",
        "        return cell",
        (f"{ZCURVE}::test_epsilon_zero_is_exhaustive_on_any_curve",),
        costly=True,
    ),
    Bug(
        "zcurve_deletes_the_first_of_equal_keys",
        "index/zcurve/sfc_array",
        "Of several points with one key the first is deleted, whatever its row.",
        "        at = start + int(positions[0])\n",
        "        at = start\n",
        (f"{ZCURVE}::test_points_come_and_go",),
        costly=True,
    ),
    Bug(
        "zcurve_searches_one_cell_too_few",
        "index/zcurve/sfc_array",
        "The number of cells that must be searched is rounded down instead of up.",
        "needed = -(-(denominator - numerator) * volume(lengths) // denominator)",
        "needed = (denominator - numerator) * volume(lengths) // denominator",
        (f"{ZCURVE}::test_the_search_sees_all_but_epsilon_and_only_dominating_points",),
        costly=True,
    ),
    Bug(
        "zcurve_skips_keys_that_begin_a_cube",
        "kernels/bisection",
        "A point whose key is the first of a cube is not found in the cube.",
        "        if numbers[middle] < number:\n",
        "        if numbers[middle] <= number:\n",
        (f"{ZCURVE}::test_the_search_sees_all_but_epsilon_and_only_dominating_points",),
        costly=True,
    ),
    Bug(
        "mics_receiver_stays_silent_when_it_is_lost",
        "index/mics/link",
        "A plan of another space is ignored, and events are held back by ranges that mean something else.",
        "            self.is_lost = True\n            return tuple(",
        "            return tuple(",
        (f"{MICS}/test_link.py::test_another_space_means_forward_until_a_snapshot_comes",),
        costly=True,
    ),
    Bug(
        "mics_snapshot_is_added_to_the_old_ranges",
        "index/mics/link",
        "A receiver that gets a whole table keeps what it knew before.",
        "        self._tables = [RangeTable(space.n_keys) for space in self.spaces]\n        self.is_lost = False\n",
        "        self.is_lost = False\n",
        (f"{MICS}/test_link.py::test_a_snapshot_replaces_what_was_known",),
        costly=True,
    ),
    Bug(
        "mics_forgets_the_cell_of_missing_values",
        "index/mics/spans",
        "IS NULL asks for no cell, so events without the attribute are held back.",
        "    if constraint.allowed.missing:\n        spans.append(cells.missing)\n",
        "",
        (f"{MICS}/test_space.py::test_what_matches_lies_in_the_ranges",),
        costly=True,
    ),
    Bug(
        "mics_ball_without_room_for_rounding",
        "index/mics/spans",
        "The lower side of a ball is the rounded difference, which may lie inside the ball.",
        "lo = math.nextafter(middle - constraint.radius, -math.inf)",
        "lo = middle - constraint.radius",
        (f"{MICS}/test_space.py::test_the_side_of_a_ball_holds_its_rim",),
        costly=True,
    ),
]
