"""Every covering index by its guarantee: sound against a whole small world, exact where it says so."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import seed, settings
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule, run_state_machine_as_test

from tamis.algebra.covers import is_covered
from tamis.algebra.evaluate import matches_subscription
from tamis.index.linear_scan import LinearCovering
from tamis.index.protocols import CoveringIndex, Guarantee
from tamis.index.registry import COVERING_INDEXES, CoveringOptions
from tamis.model.language.compiler import compile_text
from tamis.model.language.nodes import Compare, Constant, Node
from tamis.model.schema import Schema
from tamis.model.tables import SubscriptionTable
from tamis.model.types import Number, String
from tests.contract.strategies import SCHEMA, compiled, few, nodes, scalar_world

WORLD = [SCHEMA.event(values) for values in scalar_world()][::7]  # a seventh: the cells repeat along every axis

#: Every registered index as it comes, and those that can be told more.
MAKERS = {name: CoveringOptions(SCHEMA) for name in COVERING_INDEXES}
CASES = [
    *MAKERS.items(),
    ("zcurve", CoveringOptions(SCHEMA, epsilon=0.0, k=3)),
    ("zcurve", CoveringOptions(SCHEMA, epsilon=0.0, k=3, curve="hilbert")),
]
NAMES = [name if options == MAKERS[name] else f"{name}-{options.curve}-{options.epsilon:g}" for name, options in CASES]
each_index = pytest.mark.parametrize(("name", "options"), CASES, ids=NAMES)


def make(name: str, options: CoveringOptions) -> CoveringIndex:
    return COVERING_INDEXES[name](options)


def _matched(node: Node) -> frozenset[int]:
    subscription = compiled(node)
    return frozenset(i for i, event in enumerate(WORLD) if matches_subscription(event, subscription))


def _covers(outer: Node, inner: Node) -> bool:
    return is_covered(compiled(inner).filters, compiled(outer).filters)


class CoveringMachine(RuleBasedStateMachine):
    """Adds, removes and asks; the model is what each subscription matches in the world."""

    case = CASES[0]
    rows = Bundle("rows")

    def __init__(self) -> None:
        super().__init__()
        self.index = make(*self.case)
        self.trees: dict[int, Node] = {}
        self.next_row = 0

    @rule(target=rows, node=nodes)
    def add(self, node: Node) -> int:
        row, self.next_row = self.next_row, self.next_row + 1
        self.index.add(row, compiled(node, row))
        self.trees[row] = node
        return row

    @rule(row=consumes(rows))
    def remove(self, row: int) -> None:
        self.index.remove(row)
        del self.trees[row]

    @rule(row=rows)
    def add_what_is_there(self, row: int) -> None:
        if row in self.trees:
            with pytest.raises(KeyError):
                self.index.add(row, compiled(self.trees[row], row))

    @rule(node=nodes)
    def find_cover(self, node: Node) -> None:
        cover = self.index.find_cover(compiled(node))
        true_covers = [row for row, tree in self.trees.items() if _covers(tree, node)]
        if cover is not None:
            assert _matched(node) <= _matched(self.trees[cover])
            assert cover in true_covers
        if Guarantee.COMPLETE in self.index.guarantee:
            assert cover == min(true_covers, default=None)

    @rule(node=nodes)
    def find_covered(self, node: Node) -> None:
        covered = self.index.find_covered(compiled(node)).tolist()
        assert covered == sorted(set(covered))
        for row in covered:
            assert _matched(self.trees[row]) <= _matched(node)
        if Guarantee.COMPLETE in self.index.guarantee:
            assert covered == [r for r, t in sorted(self.trees.items()) if _covers(node, t)]

    @rule()
    def remove_what_is_not_there(self) -> None:
        with pytest.raises(KeyError):
            self.index.remove(self.next_row)

    @invariant()
    def counts(self) -> None:
        assert len(self.index) == len(self.trees) == self.index.statistics().size


@each_index
def test_covering_index_keeps_its_guarantee(name: str, options: CoveringOptions) -> None:
    machine = type(f"{name}Machine", (CoveringMachine,), {"case": (name, options)})
    run_state_machine_as_test(machine, settings=settings(max_examples=few(40), stateful_step_count=25, deadline=None))


@pytest.mark.soak
@pytest.mark.parametrize("part", range(10))
@each_index
def test_soak_covering_index_keeps_its_guarantee(name: str, options: CoveringOptions, part: int) -> None:
    machine = seed(part)(type(f"{name}SoakMachine", (CoveringMachine,), {"case": (name, options)}))
    run_state_machine_as_test(machine, settings=settings(max_examples=300, stateful_step_count=40, deadline=None))


@each_index
def test_what_is_covered_though_its_box_says_less(name: str, options: CoveringOptions) -> None:
    """A pattern has a box of all strings, so no box of a range holds it; only its filters show that it is covered."""
    schema = Schema({"s": String(), "x": Number(0, 10)})
    index = make(name, replace(options, schema=schema))
    texts = ["s LIKE 'a_%z'", "x = 1 AND s LIKE 'a_%z'", "s LIKE 'a_%z' OR s = 'ab'", "s LIKE '_b%'", "s > 'c'"]
    for row, text in enumerate(texts):
        index.add(row, compile_text(text, schema, id=row))
    question = compile_text("s >= 'a' AND s < 'b'", schema)
    covered = index.find_covered(question).tolist()
    assert covered == [0, 1, 2] or (Guarantee.COMPLETE not in index.guarantee and set(covered) <= {0, 1, 2})


@each_index
def test_the_empty_index_covers_nothing(name: str, options: CoveringOptions) -> None:
    index = make(name, options)
    assert index.find_cover(compiled(Constant(True))) is None
    assert index.find_covered(compiled(Constant(True))).tolist() == []


@each_index
def test_equal_subscriptions_cover_each_other(name: str, options: CoveringOptions) -> None:
    index = make(name, options)
    index.add(3, compiled(Compare("x", "<", 2)))
    index.add(5, compiled(Compare("x", "<", 2)))
    expected = (3,) if Guarantee.COMPLETE in index.guarantee else (3, 5, None)
    assert index.find_cover(compiled(Compare("x", "<", 2))) in expected
    assert index.find_covered(compiled(Compare("x", "<=", 2))).tolist() == [3, 5]


def few_boxes(rng: np.random.Generator, n: int) -> SubscriptionTable:
    """Boxes on few values, so that they meet, touch and equal each other; a third of the ends are open."""
    ends = np.sort(rng.integers(0, 6, (n, 3, 2)).astype(float), axis=2)
    lo = np.where(rng.random((n, 3)) < 0.3, -np.inf, ends[:, :, 0])
    hi = np.where(rng.random((n, 3)) < 0.3, np.inf, ends[:, :, 1])
    return SubscriptionTable.from_boxes(["x", "y", "z"], lo, hi)


@each_index
@pytest.mark.parametrize("seed", range(3))
def test_tables_of_boxes_are_answered_as_one_by_one(name: str, options: CoveringOptions, seed: int) -> None:
    rng = np.random.default_rng(seed)
    stored, questions = few_boxes(rng, 60), few_boxes(rng, 40)
    index, oracle = make(name, options), LinearCovering()
    for strategy in (index, oracle):
        strategy.add(1, compiled(Compare("x", "<", 3)))
        strategy.add_boxes(np.arange(2, 122, 2).astype(np.int32), stored)
        strategy.remove(20)
    cover, truth = index.find_covers(questions), oracle.find_covers(questions)
    inside, true_inside = index.find_covered_each(questions), oracle.find_covered_each(questions)
    for i in range(len(questions)):
        covers = {r for r, s in oracle.items() if is_covered(questions.box_subscription(i, i).filters, s.filters)}
        assert cover[i] == -1 or cover[i] in covers
        mine, true = (runs.rows[runs.offsets[i] : runs.offsets[i + 1]].tolist() for runs in (inside, true_inside))
        assert mine == sorted(mine)
        assert set(mine) <= set(true)
    if Guarantee.COMPLETE in index.guarantee:
        assert np.array_equal(cover, truth)
        assert np.array_equal(inside.offsets, true_inside.offsets)
        assert np.array_equal(inside.rows, true_inside.rows)


@pytest.mark.soak
@pytest.mark.parametrize("part", range(10))
@pytest.mark.parametrize("name", ["exact", "zcurve"])
def test_soak_covering_a_million_random_boxes(name: str, part: int) -> None:
    """A million questions against a plain comparison of arrays: no false cover, and none missed by an exact index."""
    rng = np.random.default_rng(part)
    wrong = missed = 0
    for _ in range(10):
        stored, questions = few_boxes(rng, 400), few_boxes(rng, 10_000)
        index = make(name, CoveringOptions(SCHEMA, epsilon=0.05))
        index.add_boxes(np.arange(400, dtype=np.int32), stored)
        homes = index.find_covers(questions)
        (lo, hi), (low, high) = stored.corners(), questions.corners()
        covers = ((lo[None] <= low[:, None]) & (hi[None] >= high[:, None])).all(axis=2)
        wrong += int((homes >= 0).sum()) - int(covers[np.flatnonzero(homes >= 0), homes[homes >= 0]].sum())
        least = np.where(covers.any(axis=1), covers.argmax(axis=1), -1)
        missed += int((homes != least).sum())
    assert wrong == 0
    assert name != "exact" or missed == 0
