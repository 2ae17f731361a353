"""Boxes by arrays: who is covered, what a union contains, and that parts give what the whole gives."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from tamis.algebra.covers import find_cover, is_covered
from tamis.model.language.compiler import compile_text
from tamis.model.subscription import Subscription
from tamis.model.tables import SubscriptionTable
from tamis.reduction import reduce, reduce_partition, reduce_partitions
from tamis.reduction.stages.box_stages import (
    ClosedBoxes,
    find_covered_boxes,
    find_shared_remainders,
    find_subsumed_boxes,
)


def few_boxes(seed: int, n: int, d: int = 2, values: int = 6) -> SubscriptionTable:
    rng = np.random.default_rng(seed)
    ends = np.sort(rng.integers(0, values, (n, d, 2)).astype(float), axis=2)
    lo = np.where(rng.random((n, d)) < 0.15, -np.inf, ends[:, :, 0])
    hi = np.where(rng.random((n, d)) < 0.15, np.inf, ends[:, :, 1])
    return SubscriptionTable.from_boxes([f"a{k}" for k in range(d)], lo, hi)


def boxes(table: SubscriptionTable) -> list[Subscription]:
    return [table.box_subscription(i, i) for i in range(len(table))]


@pytest.mark.parametrize("seed", range(8))
def test_the_subscriptions_that_stay_are_those_without_a_cover(seed: int) -> None:
    table = few_boxes(seed, 60)
    originals, kept = boxes(table), {subscription.id for subscription in reduce_partition(table).kept}
    for subscription in originals:
        covers = [o.id for o in originals if o.id != subscription.id and is_covered(subscription.filters, o.filters)]
        equals = [
            o.id
            for o in originals
            if is_covered(o.filters, subscription.filters) and is_covered(subscription.filters, o.filters)
        ]
        stays = set(covers) <= set(equals) and subscription.id == min(equals)
        assert (subscription.id in kept) == stays


@pytest.mark.parametrize("seed", range(8))
def test_a_union_is_a_proof_and_the_rest_is_no_less(seed: int) -> None:
    originals = boxes(few_boxes(seed, 40, d=2 + seed % 2))
    result = reduce(originals, merge=False)
    remaining = {subscription.id: subscription for subscription in result.subscriptions}
    for id, by in result.subsumed.items():
        assert find_cover(originals[id].filters, [remaining[cover].filters[0] for cover in by]) is not None
    union = [subscription.filters[0] for subscription in result.subscriptions]
    assert all(is_covered(subscription.filters, union) for subscription in originals)
    for (
        subscription
    ) in result.subscriptions:  # with so few boxes no budget ends: what stays is needed, or has a free axis
        others = [other.filters[0] for other in result.subscriptions if other.id != subscription.id]
        if all(len(other.constraints) == 2 + seed % 2 for other in [*others, subscription.filters[0]]):
            assert not is_covered(subscription.filters, others)


def test_tiles_cover_what_they_tile() -> None:
    tiles = {
        f"{x}{y}": f"x BETWEEN {x} AND {x + 1} AND y BETWEEN {y} AND {y + 1}" for x, y in product(range(2), range(2))
    }
    middle = {"middle": "x BETWEEN 0.5 AND 1.5 AND y BETWEEN 0.5 AND 2"}
    assert reduce({**tiles, **middle}, merge=False).subsumed == {"middle": tuple(sorted(tiles))}
    del tiles["11"]
    assert reduce({**tiles, **middle}, merge=False).subsumed == {}
    halves = {"a": "x <= 1", "c": "x >= 1", "d": "x BETWEEN -5 AND 9"}
    assert reduce(halves, merge=False).subsumed == {"d": ("a", "c")}
    assert reduce({**halves, "e": "x IS NOT NULL"}, merge=False).kept == ("e",)


def test_closed_boxes_that_do_not_touch_leave_a_gap() -> None:
    beside = float(np.nextafter(2.0, 3.0))
    table = SubscriptionTable.from_boxes(["x"], [[0.0], [beside], [1.0]], [[2.0], [4.0], [3.0]])
    assert reduce(table, merge=False).kept == (0, 1, 2)
    touching = SubscriptionTable.from_boxes(["x"], [[0.0], [2.0], [1.0]], [[2.0], [4.0], [3.0]])
    assert reduce(touching, merge=False).subsumed == {2: (0, 1)}


def test_subscriptions_that_expire_early_do_not_cover_as_a_union() -> None:
    left, right = compile_text("x BETWEEN 0 AND 5", id="l"), compile_text("x BETWEEN 5 AND 9", id="r", expires=50)
    middle = compile_text("x BETWEEN 2 AND 7", id="m", expires=100)
    assert reduce([left, right, middle], merge=False).subsumed == {}
    assert reduce([left, right, replace(middle, expires=40)], merge=False).subsumed == {"m": ("l", "r")}


@pytest.mark.parametrize("seed", range(4))
def test_the_order_of_a_table_does_not_matter(seed: int) -> None:
    table = few_boxes(seed, 80, d=3)
    ids = [f"s{i:02}" for i in range(80)]
    order = np.random.default_rng(seed).permutation(80)
    lo, hi = table.corners()
    whole = reduce(SubscriptionTable.from_boxes(table.names, lo, hi, ids=ids))
    other = reduce(SubscriptionTable.from_boxes(table.names, lo[order], hi[order], ids=[ids[i] for i in order]))
    assert whole == other


@pytest.mark.parametrize("seed", range(4))
def test_boxes_from_a_table_and_from_texts_are_reduced_alike(seed: int) -> None:
    table = few_boxes(seed, 60)
    assert reduce(table) == reduce(boxes(table))


@pytest.mark.parametrize("seed", range(6))
def test_parts_give_what_the_whole_gives(seed: int) -> None:
    rng = random.Random(seed)
    originals = boxes(few_boxes(seed, 90, d=2))
    originals += [replace(subscription, id=f"n{subscription.id}", namespace="other") for subscription in originals[:30]]
    originals += [compile_text(f"a0 < {i} OR a1 = {i % 3} OR a0 > {9 - i % 2}", id=f"or{i}") for i in range(4)] * (
        seed % 2
    )
    originals.append(compile_text("a0 < 1 AND a0 > 2", id="never"))
    whole = reduce(originals)
    rng.shuffle(originals)
    parts = [reduce_partition(originals[i::3]) for i in range(3)]
    assert reduce_partitions(parts) == whole
    again = reduce_partition([subscription for part in parts for subscription in part.kept])
    rest = [replace(part, kept=()) for part in parts]  # what was dropped before, and is still told about
    assert reduce_partitions([again, *rest]) == whole


def test_a_box_that_only_a_union_of_filters_covers_is_asked_again() -> None:
    wide = compile_text("x < 4 OR x > 4 OR x = 4", id="wide")
    halves = compile_text("x < 4 OR x >= 4 AND y < 3", id="halves")
    box = compile_text("x BETWEEN 1 AND 3", id="box")
    part = reduce_partition([halves, box])
    assert [other.id for other in part.others] == ["box"]
    assert reduce_partitions([part, reduce_partition([wide])]) == reduce([box, halves, wide])


def test_only_shared_remainders_are_looked_at(rng: np.random.Generator) -> None:
    lo = rng.integers(0, 4, (300, 3)).astype(float)
    some = ClosedBoxes(lo, lo + rng.integers(0, 3, (300, 3)))
    remainders = set(find_shared_remainders(some).tolist())
    sides = np.concatenate((some.lo, some.hi), axis=1)
    for i in range(300):
        rests = [np.delete(sides, [k, k + 3], axis=1) for k in range(3)]
        shares = any((np.delete(rest, i, axis=0) == rest[i]).all(axis=1).any() for rest in rests)
        assert shares == (i in remainders)


def test_no_boxes_and_one_box() -> None:
    nothing = ClosedBoxes(np.zeros((0, 2)), np.zeros((0, 2)))
    assert [part.size for part in find_covered_boxes(nothing)] == [0, 0, 0]
    assert find_subsumed_boxes(nothing) == {}
    assert reduce(SubscriptionTable.from_boxes(["x"], [[1.0]], [[2.0]])).kept == (0,)


def test_progress_is_told() -> None:
    progress: list[tuple[str, int, int]] = []
    reduce(few_boxes(1, 50), progress=lambda *step: progress.append(step))
    assert progress
    assert all(stage == "subsume" and 0 <= done <= total for stage, done, total in progress)
