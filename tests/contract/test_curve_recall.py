"""What an approximate covering index must find at least: sound answers alone would let an empty one pass."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tamis.index.dominance.index import DominanceIndex
from tamis.index.protocols import CoveringIndex
from tamis.index.registry import COVERING_INDEXES, CoveringOptions
from tamis.model.language.compiler import compile_text
from tamis.model.schema import Schema
from tamis.model.tables import SubscriptionTable
from tamis.model.types import Number
from tamis.routing.policies.policy import find_policy

N = 600
DEFAULT = CoveringOptions()
#: The options of the curve, and the share of covers that it finds at least.
CASES = {
    "as it comes": (DEFAULT, 0.9),
    "with domains": (replace(DEFAULT, schema=Schema({"x": Number(4_000, 7_000), "y": Number(4_000, 7_000)})), 0.9),
    "hilbert": (replace(DEFAULT, curve="hilbert"), 0.9),
    "gray": (replace(DEFAULT, curve="gray"), 0.9),
    "truncated": (replace(DEFAULT, truncated=True), 0.9),
    "a third left out": (replace(DEFAULT, epsilon=0.35), 0.5),
    "few probes": (replace(DEFAULT, probes=400), 0.2),
    "ten bits": (replace(DEFAULT, k=10), 0.9),
}


def boxes(n: int, seed: int) -> SubscriptionTable:
    """Return boxes all of whose ends lie between 4,000 and 7,000: in float64 one binade, and one cell of seven bits."""
    rng = np.random.default_rng(seed)
    centre, half = 5_000 + 1_000 * rng.random((n, 2)), 250 * rng.random((n, 2))
    return SubscriptionTable.from_boxes(["x", "y"], centre - half, centre + half)


def filled(options: CoveringOptions, table: SubscriptionTable, *, at_once: bool) -> CoveringIndex:
    index = COVERING_INDEXES["zcurve"](options)
    if at_once:
        index.add_boxes(np.arange(len(table), dtype=np.int32), table)
    else:
        for i in range(len(table)):
            index.add(i, table.box_subscription(i, i))
    return index


@pytest.mark.parametrize(("case", "at_once"), [*((case, True) for case in CASES), ("as it comes", False)])
def test_a_curve_finds_its_share_of_covers(case: str, at_once: bool) -> None:
    options, floor = CASES[case]
    stored, questions = boxes(N, 1), boxes(50, 2)
    exact = DominanceIndex()
    exact.add_boxes(np.arange(N, dtype=np.int32), stored)
    index = filled(options, stored, at_once=at_once)
    covered, by_curve = exact.find_covers(questions) >= 0, index.find_covers(questions) >= 0
    assert covered.sum() > 15
    assert not (by_curve & ~covered).any()
    assert by_curve.sum() >= floor * covered.sum()
    details = index.statistics().details
    assert details["searches"] == 50
    assert details["hits"] == by_curve.sum()
    assert 0 < float(details["mean_volume"]) <= 1
    assert int(details["verified"]) < 10 * len(questions), "where all ends share a cell every row is a candidate"


@pytest.mark.parametrize("options", [DEFAULT, replace(DEFAULT, axes=1, groups=2, k=5)])
def test_cells_find_every_cover_of_boxes(options: CoveringOptions) -> None:
    stored, questions = boxes(N, 1), boxes(50, 2)
    exact, index = DominanceIndex(), COVERING_INDEXES["cells"](options)
    for strategy in (exact, index):
        strategy.add_boxes(np.arange(N, dtype=np.int32), stored)
    assert index.find_covers(questions).tolist() == exact.find_covers(questions).tolist()
    by_curve, truth = index.find_covered_each(questions), exact.find_covered_each(questions)
    assert (by_curve.offsets.tolist(), by_curve.rows.tolist()) == (truth.offsets.tolist(), truth.rows.tolist())
    details = index.statistics().details
    assert int(details["verified"]) < N * 50 / 4, "cells that propose every row are worth nothing"


@pytest.mark.parametrize("stored", ["x BETWEEN 0 AND 10", "x BETWEEN 4 AND 10", "x BETWEEN 0 AND 5"])
@pytest.mark.parametrize("epsilon", [0.01, 0.05, 0.1, 0.3])
def test_the_only_stored_cover_is_found(stored: str, epsilon: float) -> None:
    index = COVERING_INDEXES["zcurve"](replace(DEFAULT, epsilon=epsilon))
    index.add(3, compile_text(stored))
    assert index.find_cover(compile_text("x BETWEEN 4 AND 5")) == 3
    assert index.find_cover(compile_text("x BETWEEN 4 AND 11")) is None
    assert index.find_covered(compile_text("x BETWEEN 0 AND 10")).tolist() == [3]


def test_covers_that_share_an_end_with_the_question_are_found() -> None:
    """Ends are whole numbers from 0 to 12. A search that skips the cells of a shared end finds two of three covers."""
    rng = np.random.default_rng(5)
    n_covered = n_found = 0
    for _ in range(10):
        ends = np.sort(rng.integers(0, 13, (65, 2)), axis=1).astype(float)
        stored, questions = (
            SubscriptionTable.from_boxes(["x"], part[:, :1], part[:, 1:]) for part in (ends[:5], ends[5:])
        )
        index, exact = filled(replace(DEFAULT, epsilon=0.2), stored, at_once=False), DominanceIndex()
        exact.add_boxes(np.arange(5, dtype=np.int32), stored)
        covered, by_curve = exact.find_covers(questions) >= 0, index.find_covers(questions) >= 0
        assert not (by_curve & ~covered).any()
        n_covered, n_found = n_covered + covered.sum(), n_found + by_curve.sum()
    assert n_covered > 300
    assert n_found >= 0.95 * n_covered


@pytest.mark.parametrize("case", CASES)
def test_a_subscription_that_is_there_already_is_always_seen(case: str) -> None:
    stored = boxes(60, 3)
    index = filled(CASES[case][0], stored, at_once=False)
    assert all(index.find_cover(stored.box_subscription(i, i)) is not None for i in range(60))


def test_scales_are_learned_again_as_the_set_grows() -> None:
    """The first rows lie far from the others: with their scale all others would share two cells."""
    index = COVERING_INDEXES["zcurve"](DEFAULT)
    for row in range(4):
        index.add(row, compile_text(f"x BETWEEN {row} AND {row + 0.5}"))
    before = int(index.statistics().details["scales"])
    for row in range(4, 200):
        index.add(row, compile_text(f"x BETWEEN {5000 + row} AND {6000 - row}"))
    index.remove(2)
    assert int(index.statistics().details["scales"]) > before
    covers = [index.find_cover(compile_text(f"x BETWEEN {5000.5 + row} AND {5999.5 - row}")) for row in range(50, 200)]
    assert sum(cover is not None for cover in covers) > 120


def test_a_link_with_the_policy_zcurve_withholds_what_is_covered() -> None:
    strategy = find_policy("zcurve").make()
    for number in range(40):
        content = compile_text(f"price BETWEEN {100 + number} AND {300 - number}", id=f"s{number}")
        strategy.opened(content)
    equal = compile_text("price BETWEEN 120 AND 280", id="equal")
    assert strategy.find_homes(equal) is not None
    inner = [compile_text(f"price BETWEEN {150 + n} AND {220 + n}", id=f"inner{n}") for n in range(20)]
    assert sum(strategy.find_homes(subscription) is not None for subscription in inner) >= 18
