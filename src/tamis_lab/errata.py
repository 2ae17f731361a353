"""Errors found in the papers, each with its counterexample and the test that holds it.

Items are numbered by paper (Z, M, S, R, D) as in the code's ``Deviation:`` lines. What is listed changes answers or
promises; slips of the pen that a reader repairs without a thought are not.
"""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["ERRATA", "Erratum"]

_Z: Final = "papers/test_zcurve.py"
_M: Final = "papers/test_mics.py"
_R: Final = "papers/test_projection.py"
_D: Final = "papers/test_drtree.py"
_RELATION: Final = "lab/test_find_relation.py"
_TREE: Final = "unit/counting/test_cr_tree.py"


class Erratum(NamedTuple):
    """What a paper says, what is the case, and the test below ``tests`` that shows it."""

    item: str
    paper: str
    said: str
    shown: str
    file: str
    test: str


ERRATA: Final = (
    Erratum(
        "R-B",
        "zcurve",
        "A subscription that any known one covers is not forwarded (the projection paper says so, too).",
        "The coverer may have come from the very neighbour that then never hears of either. In a toy network of 7 "
        "brokers 3,739 deliveries were lost. Covering is decided for each outgoing link.",
        "unit/routing/test_broker.py",
        "test_a_cover_from_a_neighbour_suppresses_nothing_toward_it",
    ),
    Erratum(
        "Z.3.1",
        "zcurve",
        "Algorithm 1 enumerates each rectangle of a level once.",
        "For 7 x 5 it gives (2, 2) three times: 67 cells are counted for a region of 35, so that a search stops before "
        "it has seen the share it promises.",
        _Z,
        "test_deviation_z_3_1_the_printed_algorithm_1_counts_cubes_again",
    ),
    Erratum(
        "Z.3.4",
        "zcurve",
        "Equation (1) gives the index of a cube for every side length.",
        "For a side of 2^k, an attribute without a lower bound, the index is 8 of 0..7 (k = 3).",
        _Z,
        "test_deviation_z_3_4_a_side_of_the_whole_universe_stays_inside",
    ),
    Erratum(
        "Z.3.5",
        "zcurve",
        "Observation 3.1: a region has fewer runs than cubes.",
        "A single cell is one run and one cube.",
        _Z,
        "test_observation_3_1_runs_are_not_more_than_cubes",
    ),
    Erratum(
        "Z.3.6",
        "zcurve",
        "Lemma 3.6: fewer than m (2^alpha (2^m - 1))^(d-1) cubes.",
        "66 cubes against a bound of 54 for d = 4, alpha = 0, m = 2. True when multiplied by d.",
        _Z,
        "test_deviation_z_3_6_the_stated_bound_of_lemma_3_6_is_too_small",
    ),
    Erratum(
        "Z.3.10",
        "zcurve",
        "A point found in the region is a cover.",
        "Of cells, not of values: two bounds in one cell compare equal. Every hit is verified on raw values, and a "
        "failed one does not end the search.",
        _Z,
        "test_deviation_z_3_10_a_hit_is_verified_and_the_search_goes_on",
    ),
    Erratum(
        "Z.3.11",
        "zcurve",
        "Unconstrained attributes are ranges like others.",
        "They make a side of one cell, and all cubes cells: 170 million look-ups at 70 % with three attributes, one of "
        "them open. The index keeps open ends apart, and scans when a search would take too long.",
        _Z,
        "test_a_search_that_would_take_too_long_scans",
    ),
    Erratum(
        "M.3.1",
        "mics",
        "Algorithm 1 stores and forwards new ranges.",
        "As printed nothing is inserted: after [0,3] and [2,8] the table is [0,3], and cell 6 is lost.",
        _M,
        "test_m_3_1_the_first_range_is_stored_and_forwarded_and_an_overlap_loses_nothing",
    ),
    Erratum(
        "M.3.2",
        "mics",
        "The left neighbour is extended to the end of the right one.",
        "Also when it does not touch: [0,3], [20,30] and [10,19] become [0,30].",
        _M,
        "test_m_3_2_a_left_neighbour_that_does_not_touch_is_left_alone",
    ),
    Erratum(
        "M.3.3",
        "mics",
        "A range has a left and a right neighbour in the tree.",
        "The first, the last and the only one have not.",
        _M,
        "test_m_3_3_no_neighbour_on_either_side_and_an_empty_tree",
    ),
    Erratum(
        "M.3.4",
        "mics",
        "The new range is forwarded (the text), or the merged one (the algorithm).",
        "With imperfect merging only the merged one is right: with a gap of 5, after [10,20], [24,30] and [21,23], the "
        "neighbour never learns of 21 to 23.",
        _M,
        "test_m_3_4_with_imperfect_merging_the_merged_range_travels",
    ),
    Erratum(
        "M.3.5",
        "mics",
        "A passive list restores what a cancelled subscription covered.",
        "Merged ranges have forgotten their owners: of [10,20] and [15,30] in [10,30], cancelling the second loses or "
        "keeps too much whatever is done. Ranges are counted instead.",
        _M,
        "test_m_3_5_unsubscription_after_merging_is_exact",
    ),
    Erratum(
        "M.3.6",
        "mics",
        "Every publication has a value of every attribute, inside the domain.",
        "One quantiser must serve bounds and values, and a missing value needs a cell of its own.",
        _M,
        "test_m_3_6_open_bounds_edges_and_missing_values",
    ),
    Erratum(
        "M.3.7",
        "mics",
        "Covering may be decided on cells.",
        "[2.4, 5.6] and [2.1, 5.9] have the same cells, and 2.2 is only in the second. Safe only where the neighbour "
        "stores cells as well.",
        _M,
        "test_m_3_7_cells_never_prune_exact_boxes",
    ),
    Erratum(
        "M.3.9",
        "mics",
        "Table 2: with seven attributes of 4 of 256 cells, 58 % or more of the forwarded publications are wanted.",
        "The expected number of true matches is 0.0003 then. The numbers fit a side of 1 % of the domain and mostly "
        "open attributes.",
        _M,
        "test_m_3_9_table_2_contradicts_its_set_up",
    ),
    Erratum(
        "M.3.11",
        "mics",
        "Looking up start cells finds all candidates.",
        "All coverers, but not all that overlap: 14 % of those are missed.",
        _M,
        "test_m_3_11_starts_find_covers_all_ranges_find_those_that_overlap",
    ),
    Erratum(
        "S.3.1",
        "crtree",
        "Table 2: covered-by needs MBR relations covered-by or equals, covers needs covers or equals.",
        "A triangle on the edge of a diamond is covered by it while its MBR lies inside: matches are lost. *inside* "
        "and *contains* are missing from the two rows.",
        _TREE,
        "test_table_2_as_printed_loses_a_triangle_in_a_diamond",
    ),
    Erratum(
        "S.3.2",
        "crtree",
        "A subtree is left out unless its MBR overlaps that of the message.",
        "Touching must count, or constraints with *meets* are lost and *disjoint* is reported wrongly.",
        _TREE,
        "test_boxes_that_touch_intersect",
    ),
    Erratum(
        "S.3.3",
        "crtree",
        "Section 4.2: (x covered-by A) conflicts with (x disjoint B) where A overlaps B.",
        "A = [0,4]^2, B = [3,6]^2, x = [0,1]^2 satisfies both. With *covers* it would be true. The rule deletes live "
        "filters.",
        "unit/geometry/test_rcc8.py",
        "test_the_printed_example_is_no_conflict",
    ),
    Erratum(
        "S.3.6",
        "crtree",
        "Rules 2 and 3 drop what another covers.",
        "Equal ones cover each other: applied at once, both go. One after another, and one of equals stays.",
        "unit/algebra/test_simplify.py",
        "test_of_identical_filters_one_stays",
    ),
    Erratum(
        "S.3.8 a, b",
        "crtree",
        "The second loop of Algorithm 1 may stop at the first point outside.",
        "A spike whose tip lies inside: *disjoint* instead of *overlaps*. A tip on the edge: *disjoint* instead of "
        "*meets*.",
        _RELATION,
        "test_loop_2_as_printed_and_repaired",
    ),
    Erratum(
        "S.3.8 c",
        "crtree",
        "A density of 0 further points is allowed.",
        "A triangle inscribed in a square: *equals* instead of *covered-by*.",
        _RELATION,
        "test_no_samples_between_end_points_can_mislead",
    ),
    Erratum(
        "S.3.9",
        "crtree",
        "A halo around sampled points finds contacts.",
        "And shifts meanings: a gap of 0.3 at spacing 1 *meets*, a margin of 0.3 *equals*. The printed radius also "
        "leaves gaps next to corners.",
        _RELATION,
        "test_the_halo_shifts_the_meaning",
    ),
    Erratum(
        "R.3.1",
        "projection",
        "Dominating points of idx = (a, -b) cover.",
        "A coverer has the smaller such vector. With (-a, b) it has the larger.",
        _R,
        "test_deviation_r_3_1_a_coverer_is_the_larger_vector_with_our_signs_and_the_smaller_with_the_printed",
    ),
    Erratum(
        "R.3.2",
        "projection",
        "Step 2b(i): a candidate covers if the distance is at most r - r'.",
        "The radii are exchanged (Proposition 2.1 has them right): a large ball is withheld because of a small one, "
        "and events are lost.",
        _R,
        "test_deviation_r_3_2_step_2b_exchanges_the_radii",
    ),
    Erratum(
        "R.3.3",
        "projection",
        "The new ball is inserted, then searched for.",
        "It then covers itself, and nothing is ever forwarded.",
        _R,
        "test_deviation_r_3_3_a_ball_that_is_added_first_covers_itself",
    ),
    Erratum(
        "R.3.4",
        "projection",
        "Propositions 2.3 and 2.4: one projection errs with probability at most 2/pi, k of them (2/pi)^k.",
        "0.713 at z = 0.9 already in the plane; in more dimensions the angle is not uniform. At z = 0.6, k = 6, d = 20 "
        "it is 0.976 against 0.067.",
        _R,
        "test_deviation_r_3_4_the_bound_of_proposition_2_4_is_no_bound",
    ),
    Erratum(
        "R.3.6",
        "projection",
        "It is enough to verify one candidate.",
        "A covered ball is then missed in 79 % (d = 4, k = 2) to 99.9 % (d = 20, k = 10) of cases. The index verifies "
        "until one passes.",
        _R,
        "test_deviation_r_3_6_the_one_candidate_of_step_2_is_nearly_always_wrong",
    ),
    Erratum(
        "R.3.7",
        "projection",
        "A cover agrees on every projection.",
        "Not in floating point: of tangent balls one in eleven fails. The filter has a small slack, the exact test "
        "none.",
        _R,
        "test_deviation_r_3_7_tangent_balls_fail_rounded_projections_and_pass_with_slack",
    ),
    Erratum(
        "R.3.9",
        "projection",
        "The inner cube of a ball has side sqrt(2) r, and two cubes leave most pairs open.",
        "True in the plane only (2 r / sqrt(d) in general), and they leave 5 to 17 % open.",
        _R,
        "test_deviation_r_3_9_the_printed_cube_calls_a_pair_covered_that_is_not",
    ),
    Erratum(
        "D.3.1",
        "drtree",
        "The height of the tree is ceil(log_m N) - 1.",
        "That is an upper bound: 13 for 10,000 peers and m = 2, where trees have 7 levels. And m = 1, as in Fig. 3, or "
        "more than half of M cannot be split.",
        _D,
        "test_deviation_d_3_1_the_height_is_a_bound_and_m_is_bounded",
    ),
    Erratum(
        "D.3.3",
        "drtree",
        "An event goes to each child unless it was received by that child.",
        "*From* that child; and a peer that is its own child gets it once.",
        _D,
        "test_deviation_d_3_3_no_echo_and_a_peer_counts_once",
    ),
    Erratum(
        "D.3.4",
        "drtree",
        "Few false positives: less than 5 %.",
        "Of all peers. Of the messages that are received 30 to 50 % are in vain, more than 90 % from 8 attributes on. "
        "The ratio is a sum of volumes and needs no events.",
        _D,
        "test_deviation_d_3_4_the_closed_form_is_what_sampling_finds",
    ),
    Erratum(
        "D.3.8",
        "drtree",
        "A peer that leaves tells the parents of all its occurrences.",
        "Every node that it owned needs a new owner, and orphans may find the tree lower than they are.",
        _D,
        "test_deviation_d_3_8_an_owner_of_several_levels_leaves",
    ),
)
