"""The quadratic split: groups large enough, seeds far apart, boxes without an area."""

from __future__ import annotations

import numpy as np
import pytest

from tamis.geometry.split import area_and_margin, quadratic_split


@pytest.mark.parametrize("d", [1, 2, 4])
@pytest.mark.parametrize("seed", range(5))
def test_two_groups_of_at_least_the_minimum(d: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    lo = rng.random((11, d)) * 10
    hi = lo + rng.random((11, d)) * (seed != 0)  # in the first round boxes are points
    for least in (1, 4, 5):
        a, b = quadratic_split(lo, hi, least)
        assert sorted(a + b) == list(range(11))
        assert min(len(a), len(b)) >= least


def test_clusters_are_parted() -> None:
    near, far = np.random.default_rng(1).random((2, 6, 2))
    lo = np.concatenate([near, far + 100])
    a, b = quadratic_split(lo, lo + 1, 2)
    assert {tuple(a), tuple(b)} == {tuple(range(6)), tuple(range(6, 12))}


def test_flat_boxes_are_parted_by_margin() -> None:
    """Boxes on one line have no area; their margins tell them apart."""
    lo = np.array([[0.0, 0], [1, 0], [50, 0], [51, 0]])
    a, b = quadratic_split(lo, lo + np.array([0.5, 0]), 1)
    assert {tuple(a), tuple(b)} == {(0, 1), (2, 3)}
    assert area_and_margin(lo, lo + np.array([0.5, 0])).tolist() == [[0, 0.5]] * 4
