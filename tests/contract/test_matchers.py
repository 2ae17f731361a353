"""Every matcher against the naive evaluator, by its guarantee, under random histories."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule, run_state_machine_as_test

from tamis.index.mics.matcher import MicsMatcher
from tamis.index.mics.space import ContentSpace
from tamis.index.packed.core import PackedCore
from tamis.index.packed.matcher import PackedMatcher
from tamis.index.protocols import EventMatcher, Guarantee, LinkMatcher, Lookup, Mergeable
from tamis.index.registry import MATCHERS
from tamis.model.language.nodes import Compare, Constant, Node
from tamis.model.subscription import Subscription
from tamis.model.tables import EventTable
from tests import naive
from tests.contract.strategies import SCHEMA, compiled, events, few, nodes

#: What users choose from, the packed matcher as it is with many subscriptions and on the way there, and MICS on
#: spaces that are not learned from the subscriptions.
EVERY_MATCHER: dict[str, Callable[[Lookup], EventMatcher]] = {
    **MATCHERS,
    "packed core": PackedCore,
    "packed from three on": lambda lookup: PackedMatcher(lookup, few=3),
    "mics in two groups": lambda lookup: MicsMatcher(n_axes=2, n_groups=2),
    "mics of a schema": lambda lookup: MicsMatcher([ContentSpace.from_schema(SCHEMA, bits=2)]),
}


class MatcherMachine(RuleBasedStateMachine):
    """Adds, removes and matches; the model is a dict of syntax trees."""

    name = "linear"
    rows = Bundle("rows")

    def __init__(self) -> None:
        super().__init__()
        self.subscriptions: dict[int, Subscription] = {}
        self.matcher = EVERY_MATCHER[self.name](self.subscriptions.get)
        self.trees: dict[int, Node] = {}
        self.next_row = 0

    @rule(target=rows, node=nodes)
    def add(self, node: Node) -> int:
        row, self.next_row = self.next_row, self.next_row + 1
        self.subscriptions[row] = compiled(node, row)
        self.matcher.add(row, self.subscriptions[row])
        self.trees[row] = node
        return row

    @rule(row=consumes(rows))
    def remove(self, row: int) -> None:
        self.matcher.remove(row)
        del self.trees[row]

    @rule(event=events)
    def match(self, event: dict[str, Any]) -> None:
        canonical = SCHEMA.event(event)
        want = {row for row, tree in self.trees.items() if naive.evaluate(tree, canonical) is True}
        got = self.matcher.match(canonical)
        assert got.dtype == np.int32
        assert got.tolist() == sorted(set(got.tolist()))
        _judge(self.matcher, want, set(got.tolist()))
        if isinstance(self.matcher, LinkMatcher):
            assert self.matcher.matches_any(canonical) is bool(want)

    @rule(some=st.lists(events, max_size=4))
    def match_table(self, some: list[dict[str, Any]]) -> None:
        table = EventTable.of({name: [event.get(name) for event in some] for name in SCHEMA}, SCHEMA)
        offsets, rows = self.matcher.match_table(table)
        assert len(offsets) == len(some) + 1
        for i, event in enumerate(some):
            matching = rows[offsets[i] : offsets[i + 1]].tolist()
            assert len(matching) == len(set(matching))
            want = {r for r, tree in self.trees.items() if naive.evaluate(tree, SCHEMA.event(event)) is True}
            _judge(self.matcher, want, set(matching))
            if isinstance(self.matcher, LinkMatcher):
                assert self.matcher.matches_any_of(table)[i] == bool(want)

    @rule(event=events)
    def match_while_merging(self, event: dict[str, Any]) -> None:
        if not isinstance(self.matcher, Mergeable):
            return
        plan = self.matcher.plan_merge()
        if plan is not None:
            plan.run()
        self.match(event)
        if plan is not None:
            self.matcher.install(plan)
        self.match(event)

    @rule(event=events)
    def match_after_compacting(self, event: dict[str, Any]) -> None:
        if isinstance(self.matcher, Mergeable):
            self.matcher.compact()
        self.match(event)

    @rule()
    def remove_what_is_not_there(self) -> None:
        with pytest.raises(KeyError):
            self.matcher.remove(self.next_row)

    @invariant()
    def counts(self) -> None:
        assert len(self.matcher) == len(self.trees)
        assert self.matcher.statistics().size == len(self.trees)


def _judge(matcher: EventMatcher, want: set[int], got: set[int]) -> None:
    if Guarantee.COMPLETE in matcher.guarantee:
        assert want <= got
    if Guarantee.SOUND in matcher.guarantee:
        assert got <= want


@pytest.mark.parametrize("name", EVERY_MATCHER)
def test_matcher_agrees_with_the_naive_evaluator(name: str) -> None:
    machine = type(f"{name}Machine", (MatcherMachine,), {"name": name})
    run_state_machine_as_test(machine, settings=settings(max_examples=few(100), stateful_step_count=40, deadline=None))


@pytest.mark.soak
@pytest.mark.parametrize("part", range(20))
@pytest.mark.parametrize("name", EVERY_MATCHER)
def test_soak_matcher_agrees_with_the_naive_evaluator(name: str, part: int) -> None:
    machine = seed(part)(type(f"{name}SoakMachine", (MatcherMachine,), {"name": name}))
    run_state_machine_as_test(machine, settings=settings(max_examples=1_000, stateful_step_count=60, deadline=None))


@pytest.mark.parametrize("name", EVERY_MATCHER)
def test_empty_matcher(name: str) -> None:
    matcher = EVERY_MATCHER[name]({}.get)
    assert matcher.match({}).tolist() == []
    offsets, rows = matcher.match_table(EventTable.of(pa.table({"x": pa.array([], pa.float64())}), SCHEMA))
    assert offsets.tolist() == [0]
    assert rows.tolist() == []


@pytest.mark.parametrize("name", EVERY_MATCHER)
def test_everything_and_nothing(name: str) -> None:
    matcher = EVERY_MATCHER[name]({}.get)
    matcher.add(0, compiled(Constant(True)))
    matcher.add(1, compiled(Constant(False)))
    matcher.add(2, compiled(Compare("x", "=", 1)))
    assert matcher.match({}).tolist() == [0]
    assert matcher.match(SCHEMA.event({"x": 1})).tolist() == [0, 2]


@pytest.mark.parametrize("name", EVERY_MATCHER)
def test_a_bad_row_of_a_table_matches_nothing(name: str) -> None:
    matcher = EVERY_MATCHER[name]({}.get)
    matcher.add(0, compiled(Constant(True)))
    table = EventTable.of({"x": [1, "not a number", 2]}, SCHEMA)
    assert matcher.match_table(table).offsets.tolist() == [0, 1, 1, 2]
