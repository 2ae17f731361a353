"""Choices and splits against the obvious versions, with free axes and flat boxes: never a NaN, never an infinity."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tamis.geometry.split import SPLITS, farthest, linear_split, quadratic_split, r_star_split
from tamis.overlay.measures import CHOICES, best_cover, choose_r, choose_r_star, contains, hull, sizes, widths

Side = st.one_of(
    st.just((-1.0, 1.0)),  # free
    st.just((0.0, 1.0)),  # any value
    st.integers(0, 8).map(lambda v: (v / 8, v / 8)),  # flat
    st.tuples(st.integers(0, 8), st.integers(0, 8)).map(lambda pair: (min(pair) / 8, max(pair) / 8)),
)


def boxes(least: int, most: int) -> st.SearchStrategy[np.ndarray]:
    box = st.lists(Side, min_size=2, max_size=2)
    return st.lists(box, min_size=least, max_size=most).map(lambda corners: np.array(corners).transpose(0, 2, 1).copy())


def naive_sizes(box: np.ndarray) -> tuple[float, float]:
    sides = [max(high, 0.0) - max(low, 0.0) for low, high in zip(*box.tolist(), strict=True)]
    return float(np.prod(sides)), float(sum(sides))


def naive_hull(pair: list[np.ndarray]) -> np.ndarray:
    low = [min(box[0][axis] for box in pair) for axis in range(2)]
    high = [max(box[1][axis] for box in pair) for axis in range(2)]
    return np.array([low, high])


def naive_overlap(a: np.ndarray, b: np.ndarray) -> float:
    shared = 1.0
    for axis in range(2):
        low, high = max(a[0][axis], b[0][axis], 0.0), min(a[1][axis], b[1][axis])
        shared *= max(high - low, 0.0)
    return shared


def naive_keys(held: np.ndarray, box: np.ndarray, name: str) -> list[tuple[float, ...]]:
    keys = []
    for i, candidate in enumerate(held):
        grown, size = naive_hull([candidate, box]), naive_sizes(candidate)
        key = (*np.subtract(naive_sizes(grown), size), *size)
        if name == "r*":
            others = [other for j, other in enumerate(held) if j != i]
            more = sum(naive_overlap(grown, other) for other in others) - sum(
                naive_overlap(candidate, o) for o in others
            )
            key = (more, *key)
        keys.append(key)
    return keys


@pytest.mark.parametrize("name", CHOICES)
@given(boxes(1, 6), boxes(1, 1))
def test_the_choice_is_a_least_one(name: str, held: np.ndarray, box: np.ndarray) -> None:
    chosen, keys = CHOICES[name](held, box[0]), naive_keys(held, box[0], name)
    assert np.isfinite(keys).all()
    for column in range(len(keys[0])):  # no other is less in a column while it is as good in all before
        rivals = [key for key in keys if np.allclose(key[:column], keys[chosen][:column])]
        assert keys[chosen][column] <= min(key[column] for key in rivals) + 1e-9


@given(boxes(1, 8))
def test_the_best_cover_is_the_largest_and_a_coverer_if_there_is_one(held: np.ndarray) -> None:
    best = best_cover(held)
    assert naive_sizes(held[best]) == max(map(naive_sizes, held))
    for box in held:
        if all(contains(box, other) for other in held):
            assert naive_sizes(box) == naive_sizes(held[best])
    assert np.array_equal(hull(held), naive_hull(list(held)))
    assert np.allclose(sizes(held), [naive_sizes(box) for box in held])


@pytest.mark.parametrize("name", SPLITS)
@given(boxes(3, 11), st.data())
def test_a_split_makes_two_groups_of_enough(name: str, held: np.ndarray, data: st.DataObject) -> None:
    least = data.draw(st.integers(1, len(held) // 2))
    clamped = np.maximum(held, 0.0)
    first, second = SPLITS[name](clamped[:, 0], clamped[:, 1], least)
    assert sorted(first + second) == list(range(len(held)))
    assert min(len(first), len(second)) >= least


def test_splits_separate_two_clusters() -> None:
    lo = np.array([[0, 0], [9, 9], [1, 0], [8, 9], [0, 1], [9, 8]], float)
    for split in SPLITS.values():
        assert sorted(split(lo, lo + 1, 2)) == [[0, 2, 4], [1, 3, 5]]


@given(boxes(4, 7))
def test_r_star_takes_the_least_overlap_of_its_axis(held: np.ndarray) -> None:
    """Among the cuts of the axis with the least margins none overlaps less."""
    clamped = np.maximum(held, 0.0)
    first, second = r_star_split(clamped[:, 0], clamped[:, 1], 2)
    got = naive_overlap(naive_hull([clamped[i] for i in first]), naive_hull([clamped[i] for i in second]))
    best_axis, best_margin, overlaps = -1, np.inf, []
    for axis in range(2):
        margin, seen = 0.0, []
        for keys in ((0, 1), (1, 0)):
            order = sorted(range(len(clamped)), key=lambda i: tuple(clamped[i][end][axis] for end in keys))
            for cut in range(2, len(order) - 1):
                groups = [naive_hull([clamped[i] for i in part]) for part in (order[:cut], order[cut:])]
                margin += sum(naive_sizes(group)[1] for group in groups)
                seen.append(naive_overlap(*groups))
        if margin < best_margin - 1e-12:
            best_axis, best_margin, overlaps = axis, margin, seen
    assert best_axis >= 0
    assert got <= min(overlaps) + 1e-9


def test_deviation_d_3_2_linear_seeds_are_those_that_lie_apart_most() -> None:
    """The paper describes the seeds of the quadratic split; on these boxes the two rules differ."""
    lo = np.array([[0.0, 0.0], [0.0, 9.0], [10.0, 4.0], [1.0, 4.0]])
    hi = np.array([[12.0, 1.0], [12.0, 10.0], [12.0, 5.0], [2.0, 5.0]])
    waste = {
        pair: float(np.prod(np.maximum(*hi[list(pair)]) - np.minimum(*lo[list(pair)])))
        - sum(float(np.prod(hi[i] - lo[i])) for i in pair)
        for pair in itertools.combinations(range(4), 2)
    }
    assert max(waste, key=lambda pair: waste[pair]) == (0, 1)  # the quadratic seeds: far apart on the second axis
    linear, quadratic = linear_split(lo, hi, 1), quadratic_split(lo, hi, 1)
    together = [any({0, 1} <= set(group) for group in groups) for groups in (linear, quadratic)]
    assert together == [False, False]
    lo[:2, 1] = 4.0, 6.0  # now the first axis separates most, by the width of all boxes; the areas say otherwise
    hi[:2, 1] = 5.0, 7.0
    seeds = linear_split(lo, hi, 2)
    assert [2, 3] not in [sorted(group) for group in seeds]


def test_deviation_d_3_6_unbounded_and_flat_boxes_have_no_nan() -> None:
    """As printed, the area of an unbounded side is infinite and its enlargement infinity minus infinity."""
    infinite = np.array([[0.0, -np.inf], [1.0, np.inf]])
    with np.errstate(invalid="ignore"):
        area = np.prod(infinite[1] - infinite[0])
        assert np.isnan(area - area)
    free = np.array([[[0.0, -1.0], [1.0, 1.0]], [[0.9, 0.5], [0.9, 0.5]], [[0.5, 0.5], [0.5, 0.5]]])
    assert np.isfinite(sizes(free)).all()
    flat = np.array([[0.25, 0.5], [0.25, 0.5]])
    assert choose_r(free[1:], flat) == 1 == choose_r_star(free[1:], flat)  # no areas at all: the margin decides
    assert widths(free)[0].tolist() == [1.0, 1.0]


def test_the_farthest_are_reinserted_the_nearest_of_them_first() -> None:
    lo = np.array([[0.0], [40.0], [50.0], [60.0], [99.0], [10.0]])
    assert farthest(lo, lo + 1, 3) == [5, 4, 0] or farthest(lo, lo + 1, 3) == [5, 0, 4]
