"""What the distributed R-tree paper says of its trees, on trees of real peers; D.x number the errors found in it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tamis.lab.drtree.trees import SPLITS, count_events, grow, mean_hits
from tamis.overlay.seat import Seat
from tamis.runtime.overlay_statistics import reach_of, tree_statistics
from tamis.workload.containment import SIDE, containment_boxes

N = 400
LO, HI = containment_boxes("zipf-25:75", N, 3, seed=5)


@pytest.fixture(scope="module", params=SPLITS)
def seats(request: pytest.FixtureRequest) -> list[Seat]:
    return grow(LO, HI, request.param)


def test_d_3_1_the_height_is_a_bound_and_no_equality(seats: list[Seat]) -> None:
    """The paper gives ceil(log_m N) - 1 as the height; for small m trees are lower."""
    assert tree_statistics(seats).height <= 1 + math.log(N / 2, 5)
    assert tree_statistics(grow(LO, HI, "quadratic", (2, 8))).height < math.ceil(math.log(N, 2)) - 1


def test_d_3_4_false_positives_are_a_volume(seats: list[Seat], rng: np.random.Generator) -> None:
    """A peer receives what its topmost MBR contains: no event is needed to know how many do in vain."""
    events = rng.random((4_000, 3))
    wanted, needless = count_events(seats, events).mean(axis=0) / N
    reach = reach_of(seats, events)
    assert wanted == pytest.approx(reach.hits)
    assert needless == pytest.approx(reach.false_positives, abs=1 / N)  # the root, which gets all that is injected
    assert needless == pytest.approx(tree_statistics(seats).false_positive_ratio, rel=0.1)
    assert wanted == pytest.approx(mean_hits(LO, HI, SIDE), rel=0.1)
    assert needless / (wanted + needless) > 3 * needless  # of what is received, far more is in vain than of all peers
