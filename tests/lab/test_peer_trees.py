"""Counts of single events in a tree of peers are those of the overlay's own statistics."""

from __future__ import annotations

import numpy as np
import pytest

from tamis_lab.drtree.trees import SPLITS, count_events, grow, mean_hits
from tamis_lab.peers.containment import SIDE, containment_boxes
from tamis_lab.peers.tree_statistics import reach_of, tree_statistics

N = 200


@pytest.mark.parametrize("split", SPLITS)
def test_counts_and_statistics_agree(split: str, rng: np.random.Generator) -> None:
    lo, hi = containment_boxes("zipf-25:75", N, 3, seed=5)
    seats, events = grow(lo, hi, split), rng.random((2_000, 3))
    wanted, needless = count_events(seats, events).mean(axis=0) / N
    reach = reach_of(seats, events)
    assert wanted == pytest.approx(reach.hits)
    assert needless == pytest.approx(reach.false_positives, abs=1 / N)  # the root, which gets all that is injected
    assert needless == pytest.approx(tree_statistics(seats).false_positive_ratio, rel=0.15)
    assert wanted == pytest.approx(mean_hits(lo, hi, SIDE), rel=0.15)
