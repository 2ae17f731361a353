"""The counts that experiments rest on, against the obvious way."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tamis.curves import zcurve as z
from tamis.curves.hilbert import hilbert_key
from tamis.runtime.simulation.topology import Topology
from tamis_lab.beyond.internet import count_links
from tamis_lab.mics.drawing import draw_boxes, draw_cells
from tamis_lab.peers.containment import DISTRIBUTIONS, containment_boxes, containment_graph
from tamis_lab.uncovered import count_announced, count_uncovered
from tamis_lab.zcurve.counting import count_all_cubes, cubes_needed
from tamis_lab.zcurve.curve_runs import CURVES, count_runs_of_boxes

Rng = np.random.Generator


@pytest.mark.parametrize("lengths", [(7, 5), (8, 8), (3, 6, 7), (1, 4)])
@pytest.mark.parametrize("coverage", [0.3, 0.7, 0.95, 1.0])
def test_cubes_needed_is_the_greedy_search(lengths: tuple[int, ...], coverage: float) -> None:
    sides = [2**i for i, _ in z.greedy_decomposition(lengths, 4)]
    assert sides == sorted(sides, reverse=True)
    volumes = list(itertools.accumulate(side ** len(lengths) for side in sides))
    needed = next(count for count, volume in enumerate(volumes, 1) if volume >= coverage * z.volume(lengths))
    assert cubes_needed(lengths, coverage) == needed
    assert count_all_cubes(lengths) == len(sides)


def covers(a: np.ndarray, b: np.ndarray) -> bool:
    return bool((a[0] <= b[0]).all() and (a[1] >= b[1]).all())


@pytest.mark.parametrize("d", [1, 2, 3])
def test_uncovered_and_announced(d: int, rng: Rng) -> None:
    low = rng.integers(0, 5, (60, d)).astype(float)
    boxes = np.stack([low, low + rng.integers(0, 5, (60, d))], axis=1)  # many equal, many flat
    seen = [i for i in range(60) if not any(covers(boxes[j], boxes[i]) for j in range(i))]
    assert count_announced(boxes) == len(seen)
    distinct = np.unique(boxes, axis=0)
    top = [b for i, b in enumerate(distinct) if not any(j != i and covers(a, b) for j, a in enumerate(distinct))]
    assert count_uncovered(boxes) == len(top)


@pytest.mark.parametrize("brokers", [2, 7, 12, 31])
def test_links_of_a_balanced_tree(brokers: int) -> None:
    tree = Topology.of("balanced", brokers)
    behind = sorted((len(tree.side(child, parent)) for parent, child in tree.edges), reverse=True)
    assert [size for size, count in count_links(brokers) for _ in range(count)] == behind


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_uncovered_are_the_children_of_the_virtual_root(distribution: str) -> None:
    lo, hi = containment_boxes(distribution, 300, 3, seed=4)
    assert count_uncovered(np.stack([lo, hi], axis=1)) == containment_graph(lo, hi).roots


def test_zipf_is_crowded_and_boxes_stay_inside(rng: Rng) -> None:
    cells = draw_cells(20_000, 1, "zipf", rng)
    assert 0.14 < (cells == 0).mean() < 0.18  # 1 / (1 + 1/2 + ... + 1/256)
    boxes = draw_boxes(1_000, 2, "zipf", 8, rng)
    assert (boxes[:, 1] - boxes[:, 0] == 7).all()
    assert boxes.max() <= 255


@pytest.mark.parametrize("curve", CURVES)
@pytest.mark.parametrize("d", [2, 3])
def test_runs_of_boxes_are_those_of_the_keys_of_the_product(curve: str, d: int, rng: Rng) -> None:
    key = {"z": z.z_key, "gray": z.gray_key, "hilbert": hilbert_key}[curve]
    low, sides = rng.integers(0, 5, (6, d)), rng.integers(1, 4, d)
    for box, runs in zip(low.tolist(), count_runs_of_boxes(low, sides, 3, curve).tolist(), strict=True):
        cells = itertools.product(*(range(a, a + side) for a, side in zip(box, sides.tolist(), strict=True)))
        keys = sorted(key(cell, 3) for cell in cells)
        assert runs == 1 + sum(b != a + 1 for a, b in itertools.pairwise(keys))
