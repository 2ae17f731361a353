"""Whole lives of an engine: subscribe, unsubscribe, bulk boxes and texts, match, merge, save and load, in any order.

A dict of syntax trees is the model, the naive evaluator the judge. The engine starts with enough boxes that
the packed core is in use from the first step.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from tamis import Engine, SubscriptionTable
from tamis.algebra import compiling_texts
from tamis.engine import engine as engine_module
from tamis.index.packed.matcher import FEW
from tamis.index.registry import MATCHERS
from tamis.model.language.format import format_node
from tamis.model.language.nodes import And, Between, Compare, Node
from tests import naive
from tests.contract.strategies import SCHEMA, events, few, nodes

sides = st.tuples(st.sampled_from([0.0, 1.0, 2.5]), st.sampled_from([0.0, 0.5, np.inf]))


#: Matchers that take longer to change than others live fewer lives.
SLOW = {"mics": 7}


class EngineLife(RuleBasedStateMachine):
    matcher = "packed"
    n_boxes = FEW + 1

    def __init__(self) -> None:
        super().__init__()
        self.engine = Engine(SCHEMA, self.matcher)
        self.trees: dict[int | str, Node] = {}
        self.next_name = 0

    @initialize()
    def start_with_boxes(self) -> None:
        self.add_boxes([((float(i % 7), 0.5), (0.0, np.inf)) for i in range(self.n_boxes)])

    @rule(node=nodes, many=st.integers(1, 40))
    def subscribe(self, node: Node, many: int) -> None:
        for _ in range(many):  # copies fill the delta, so that it is flushed and segments merge
            id, self.next_name = f"text {self.next_name}", self.next_name + 1
            self.engine.subscribe(format_node(node), id=id)
            self.trees[id] = node

    @rule(some=st.lists(st.tuples(sides, sides), min_size=1, max_size=30))
    def add_boxes(self, some: list[tuple[tuple[float, float], tuple[float, float]]]) -> None:
        lo = np.array([[x[0], y[0]] for x, y in some])
        hi = lo + np.array([[x[1], y[1]] for x, y in some])
        ids = self.engine.subscribe_boxes(["x", "y"], lo, hi)
        for id, low, high in zip(ids, lo.tolist(), hi.tolist(), strict=True):
            parts = [
                Compare(name, ">=", a) if b == np.inf else Between(name, a, b)
                for name, a, b in zip("xy", low, high, strict=True)
            ]
            self.trees[id] = And(tuple(parts))

    @rule(some=st.lists(st.tuples(sides, sides), min_size=1, max_size=30), others=st.lists(nodes, max_size=4))
    def add_texts(self, some: list[tuple[tuple[float, float], tuple[float, float]]], others: list[Node]) -> None:
        trees: list[Node] = [
            And((Between("x", a, 2.5), Compare("y", ">", b), Compare("name", "=", "ab"[: int(a)])))
            for (a, _), (b, _) in some
        ]
        trees += [tree for tree in others for _ in range(3)]
        names = [f"text {self.next_name + i}" for i in range(len(trees))]
        self.next_name += len(trees)
        table = pa.table({"id": names, "filter": [format_node(tree) for tree in trees]})
        with patch.object(engine_module, "FEW_TEXTS", 0), patch.object(compiling_texts, "_COLUMN", 1):
            self.engine.subscribe_table(SubscriptionTable.from_arrow(table))
        self.trees |= dict(zip(names, trees, strict=True))

    @rule(data=st.data(), share=st.sampled_from([0.02, 0.5]))
    def unsubscribe(self, data: st.DataObject, share: float) -> None:
        start = data.draw(st.integers(0, 10))
        for id in list(self.trees)[start :: max(1, int(1 / share))]:
            self.engine.unsubscribe(id)
            del self.trees[id]

    @rule(event=events)
    def match(self, event: dict[str, Any]) -> None:
        assert self.engine.match(event) == self.wanted(event)

    @rule(some=st.lists(events, min_size=1, max_size=6))
    def match_table(self, some: list[dict[str, Any]]) -> None:
        matches = self.engine.match_table({name: [event.get(name) for event in some] for name in SCHEMA})
        assert [matches.of(i) for i in range(len(some))] == [self.wanted(event) for event in some]

    @rule()
    def save_and_load(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            self.engine.save(Path(folder))
            self.engine = Engine.load(Path(folder))

    @rule()
    def wait_for_merges(self) -> None:
        self.engine.wait()

    @invariant()
    def counts(self) -> None:
        assert len(self.engine) == len(self.trees)

    def wanted(self, event: dict[str, Any]) -> list[int | str]:
        canonical = SCHEMA.event(event)
        matching = [id for id, tree in self.trees.items() if naive.evaluate(tree, canonical) is True]
        return sorted(matching, key=lambda id: (isinstance(id, str), id))


@pytest.mark.parametrize("matcher", MATCHERS)
def test_a_life_gives_the_naive_answers(matcher: str) -> None:
    life = type(f"{matcher}Life", (EngineLife,), {"matcher": matcher})
    examples = few(SLOW.get(matcher, 15))
    run_state_machine_as_test(life, settings=settings(max_examples=examples, stateful_step_count=25, deadline=None))


@pytest.mark.soak
@pytest.mark.parametrize("part", range(10))
@pytest.mark.parametrize("matcher", ["packed", "counting"])
def test_soak_ten_million_decisions(matcher: str, part: int) -> None:
    """About 300 subscriptions meet 70 events in each of these 1,500 lives."""
    life = seed(part)(type(f"{matcher}SoakLife", (EngineLife,), {"matcher": matcher}))
    run_state_machine_as_test(life, settings=settings(max_examples=150, stateful_step_count=50, deadline=None))
