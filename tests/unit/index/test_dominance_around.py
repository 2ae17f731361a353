"""Who covers a filter and whom it covers, as far as there is patience: never wrong, and mostly without raw values."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tamis.algebra.covers import is_covered
from tamis.index.dominance.index import DominanceIndex
from tamis.index.linear_scan import LinearCovering
from tamis.model.language.compiler import compile_text
from tamis.model.language.nodes import Node
from tamis.model.subscription import Subscription
from tests.contract.strategies import compiled, nodes


def always() -> bool:
    return True


def verified(index: DominanceIndex) -> int:
    """Return how many candidates were compared on raw values so far."""
    return int(index.statistics().details["verified"])


def boxes(n: int) -> list[Subscription]:
    rng = np.random.default_rng(5)
    lows = rng.integers(0, 900, (n, 2)).tolist()
    return [
        compile_text(f"x BETWEEN {x} AND {x + 100} AND y BETWEEN {y} AND {y + 100}", id=row)
        for row, (x, y) in enumerate(lows)
    ]


def filled(subscriptions: list[Subscription]) -> tuple[DominanceIndex, LinearCovering]:
    index, oracle = DominanceIndex(), LinearCovering()
    index.add_many(range(len(subscriptions)), subscriptions)
    for row, subscription in enumerate(subscriptions):
        oracle.add(row, subscription)
    return index, oracle


@settings(max_examples=settings.default.max_examples // 2)
@given(st.lists(nodes, min_size=1, max_size=8), nodes, st.integers(0, 4))
def test_what_is_named_is_true_and_all_of_it_with_patience(trees: list[Node], question: Node, steps: int) -> None:
    index, oracle = filled([compiled(node, row) for row, node in enumerate(trees)])
    wanted = oracle.find_cover(compiled(question)), oracle.find_covered(compiled(question)).tolist()
    cover, covered, is_complete = index.find_around(compiled(question), always)
    assert (cover, covered.tolist(), is_complete) == (*wanted, True)
    before = verified(index)
    patience = itertools.repeat(True, steps)
    cover, covered, is_complete = index.find_around(compiled(question), lambda: next(patience, False))
    assert verified(index) - before <= steps
    assert set(covered.tolist()) <= set(wanted[1])
    assert cover is None or is_covered(compiled(question).filters, compiled(trees[cover]).filters)
    if is_complete:
        assert (cover, covered.tolist()) == wanted
    index.check_invariants()


@pytest.mark.parametrize(
    "text", ["x > 100", "x < 500.5 AND y > 3", "x <> 50", "x > 100 OR y > 850", "NOT (x > 850 AND y > 850)"]
)
def test_a_wide_filter_of_ranges_needs_few_raw_values(text: str) -> None:
    index, oracle = filled(boxes(400))
    question = compile_text(text)
    covered = index.find_covered(question).tolist()
    assert covered == oracle.find_covered(question).tolist()
    assert len(covered) > 30
    assert verified(index) < 60, "those at an edge, and those that only a union may cover"


def test_open_ends_do_not_make_a_question_visit_every_row() -> None:
    index, oracle = filled([compile_text(f"x > {n} AND y < {n % 7}", id=n) for n in range(300)])
    question = compile_text("x > 100")
    assert index.find_covered(question).tolist() == oracle.find_covered(question).tolist() == list(range(100, 300))
    assert verified(index) == 1, "the one at the edge"


def test_many_at_once_are_as_one_by_one() -> None:
    texts = [
        "x > 1",
        "x >= 1 AND name = 'a'",
        "name LIKE '%a%'",
        "x > 1 AND x < 1",
        "name IN ('a', 'b')",
        "y = 2 OR x = 3",
    ]
    ours = [compile_text(text, id=row) for row, text in enumerate(texts)]
    together, _ = filled(ours)
    apart = DominanceIndex()
    for row, subscription in enumerate(ours):
        apart.add(row, subscription)
    for subscription in ours:
        assert together.find_cover(subscription) == apart.find_cover(subscription)
        assert together.find_covered(subscription).tolist() == apart.find_covered(subscription).tolist()
    with pytest.raises(KeyError, match="row 2 is taken"):
        together.add_many([9, 2], ours[:2])
    assert len(together) == len(apart) == len(texts)


def test_what_meets_a_filter_is_proposed() -> None:
    """Boxes that share a point with the question, also where neither lies in the other; of the others most are not."""
    subscriptions = boxes(60)
    index, _ = filled(subscriptions)
    proposed = 0
    for x, y, size in [(450, 450, 100), (0, 0, 300), (500, 100, 10), (900, 900, 99), (200, 700, 1)]:
        question = compile_text(f"x BETWEEN {x} AND {x + size} AND y BETWEEN {y} AND {y + size}")
        bounds = zip(*(np.random.default_rng(5).integers(0, 900, (60, 2)).T), strict=True)
        meeting = {
            row
            for row, (low_x, low_y) in enumerate(bounds)
            if low_x <= x + size and x <= low_x + 100 and low_y <= y + size and y <= low_y + 100
        }
        rows = set(index.propose_meeting(question).tolist())
        assert meeting <= rows
        proposed += len(rows)
    assert 0 < proposed < 60
