"""What the distributed R-tree paper says of its trees, on trees of real peers; D.x number the errors found in it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tamis.lab.drtree.drawing import draw_containment_boxes
from tamis.lab.drtree.tree import SPLITS, Tree, count_hits, grow_tree

N = 400


@pytest.fixture(scope="module", params=SPLITS)
def tree(request: pytest.FixtureRequest) -> Tree:
    return grow_tree(draw_containment_boxes(N, 3, "zipf-25:75", np.random.default_rng(5)), request.param)


def test_d_3_1_the_height_is_a_bound_and_no_equality(tree: Tree) -> None:
    """The paper gives ceil(log_m N) - 1 as the height; for small m trees are lower."""
    low = grow_tree(draw_containment_boxes(N, 3, "zipf-25:75", np.random.default_rng(5)), "quadratic", (2, 8))
    assert low.height < math.ceil(math.log(N, 2)) - 1
    assert tree.height <= 1 + math.log(N / 2, 5)


def test_d_3_4_false_positives_are_a_volume(tree: Tree, rng: np.random.Generator) -> None:
    """A peer receives what its topmost MBR contains: no event is needed to know how many do in vain."""
    wanted, needless = count_hits(tree, rng.random((4_000, 3))).mean(axis=0) / N
    assert needless == pytest.approx(tree.false_positives, rel=0.1)
    assert wanted == pytest.approx(tree.hits, rel=0.1)
    assert needless / (wanted + needless) > 3 * needless  # of what is received, far more is in vain than of all peers


def test_d_3_10_the_degree_has_a_bound(tree: Tree) -> None:
    inner = tree.is_inner
    assert (tree.degrees[inner] <= tree.tops[inner] * (10 - 1) + 1).all()
    assert (tree.degrees[~inner] == 1).all()
    assert (tree.outer[~inner] == tree.boxes[~inner]).all()
    assert (tree.outer[:, 0] <= tree.boxes[:, 0]).all()
    assert (tree.outer[:, 1] >= tree.boxes[:, 1]).all()
