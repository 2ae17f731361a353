"""Every covering index by its guarantee: sound against a whole small world, exact where it says so."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule, run_state_machine_as_test

from tamis.algebra.covers import is_covered
from tamis.algebra.evaluate import matches_subscription
from tamis.index.protocols import Guarantee
from tamis.index.registry import COVERING_INDEXES
from tamis.model.language.nodes import Compare, Constant, Node
from tests.contract.strategies import SCHEMA, compiled, scalar_nodes, scalar_world

WORLD = [SCHEMA.event(one) for one in scalar_world()][::7]  # a seventh: the cells repeat along every axis


def _matched(node: Node) -> frozenset[int]:
    subscription = compiled(node)
    return frozenset(i for i, event in enumerate(WORLD) if matches_subscription(event, subscription))


def _covers(outer: Node, inner: Node) -> bool:
    return is_covered(compiled(inner).filters, compiled(outer).filters)


class CoveringMachine(RuleBasedStateMachine):
    """Adds, removes and asks; the model is what each subscription matches in the world."""

    name = "linear"
    rows = Bundle("rows")

    def __init__(self) -> None:
        super().__init__()
        self.index = COVERING_INDEXES[self.name]()
        self.trees: dict[int, Node] = {}
        self.next_row = 0

    @rule(target=rows, node=scalar_nodes)
    def add(self, node: Node) -> int:
        row, self.next_row = self.next_row, self.next_row + 1
        self.index.add(row, compiled(node, row))
        self.trees[row] = node
        return row

    @rule(row=consumes(rows))
    def remove(self, row: int) -> None:
        self.index.remove(row)
        del self.trees[row]

    @rule(node=scalar_nodes)
    def find_cover(self, node: Node) -> None:
        found = self.index.find_cover(compiled(node))
        true_covers = [row for row, tree in self.trees.items() if _covers(tree, node)]
        if found is not None:
            assert _matched(node) <= _matched(self.trees[found])
        if Guarantee.COMPLETE in self.index.guarantee:
            assert found == min(true_covers, default=None)

    @rule(node=scalar_nodes)
    def find_covered(self, node: Node) -> None:
        found = self.index.find_covered(compiled(node)).tolist()
        assert found == sorted(set(found))
        for row in found:
            assert _matched(self.trees[row]) <= _matched(node)
        if Guarantee.COMPLETE in self.index.guarantee:
            assert found == [r for r, t in sorted(self.trees.items()) if _covers(node, t)]

    @rule()
    def remove_what_is_not_there(self) -> None:
        with pytest.raises(KeyError):
            self.index.remove(self.next_row)

    @invariant()
    def counts(self) -> None:
        assert len(self.index) == len(self.trees)


@pytest.mark.parametrize("name", COVERING_INDEXES)
def test_covering_index_keeps_its_guarantee(name: str) -> None:
    machine = type(f"{name}Machine", (CoveringMachine,), {"name": name})
    run_state_machine_as_test(machine, settings=settings(max_examples=60, stateful_step_count=25, deadline=None))


@pytest.mark.soak
@pytest.mark.parametrize("name", COVERING_INDEXES)
def test_soak_covering_index_keeps_its_guarantee(name: str) -> None:
    machine = type(f"{name}SoakMachine", (CoveringMachine,), {"name": name})
    run_state_machine_as_test(machine, settings=settings(max_examples=10_000, stateful_step_count=40, deadline=None))


@pytest.mark.parametrize("name", COVERING_INDEXES)
def test_the_empty_index_covers_nothing(name: str) -> None:
    index = COVERING_INDEXES[name]()
    assert index.find_cover(compiled(Constant(True))) is None
    assert index.find_covered(compiled(Constant(True))).tolist() == []


@pytest.mark.parametrize("name", COVERING_INDEXES)
def test_equal_subscriptions_cover_each_other(name: str) -> None:
    index = COVERING_INDEXES[name]()
    index.add(3, compiled(Compare("x", "<", 2)))
    index.add(5, compiled(Compare("x", "<", 2)))
    assert index.find_cover(compiled(Compare("x", "<", 2))) in (3, 5)
    assert index.find_covered(compiled(Compare("x", "<=", 2))).tolist() == [3, 5]
