"""Covering of balls, alone and mixed with other constraints, against the algebra: nothing missed, nothing wrong."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule, run_state_machine_as_test

from tamis.algebra.covers import is_covered
from tamis.index.linear_scan import LinearCovering
from tamis.index.projection import ProjectionIndex
from tamis.index.protocols import CoveringIndex, Guarantee
from tamis.model.language.compiler import compile_node
from tamis.model.language.nodes import And, Compare, Constant, IsNull, Node, Not, Or, WithinBall
from tamis.model.schema import Schema
from tamis.model.subscription import Subscription
from tamis.model.types import Number, Vector
from tests.contract.strategies import few

SCHEMA = Schema({"x": Number(), "look": Vector(2), "sound": Vector(1)})

#: What is registered, the paper's find-one, and other vectors and ways.
INDEXES: dict[str, Callable[[], CoveringIndex]] = {
    "linear": LinearCovering,
    "smallest": ProjectionIndex,
    "largest": lambda: ProjectionIndex(pick="largest"),
    "one gaussian": lambda: ProjectionIndex(k=1, kind="gaussian", seed=4),
    "cube": lambda: ProjectionIndex(kind="cube", way="tree"),
}

centers = st.tuples(st.integers(0, 4).map(float), st.integers(0, 4).map(float))
radii = st.sampled_from([0.0, 1.0, 2.0, 5.0, 0.5])
looks = st.builds(WithinBall, st.just("look"), centers, radii)
sounds = st.builds(WithinBall, st.just("sound"), st.integers(0, 3).map(lambda x: (float(x),)), radii)
numbers = st.builds(Compare, st.just("x"), st.sampled_from(["<", "<=", ">", "="]), st.sampled_from([1, 2, 3]))
mixed = st.one_of(
    looks,
    looks,
    st.builds(lambda a, b: And((a, b)), looks, numbers),
    st.builds(lambda a, b: And((a, b)), looks, sounds),
    st.builds(lambda a, b: And((a, b)), looks, looks),
    st.builds(lambda a, b: Or((a, b)), looks, st.one_of(looks, numbers)),
    st.builds(lambda a, b: And((a, Not(b))), looks, looks),
    sounds,
    numbers,
    st.builds(Not, looks),
    st.builds(IsNull, st.just("look"), st.booleans()),
    st.builds(lambda a: And((a, IsNull("look", False))), looks),
    st.builds(Constant, st.booleans()),
)


def compiled(node: Node) -> Subscription:
    return Subscription(0, compile_node(node, SCHEMA))


class BallCoveringMachine(RuleBasedStateMachine):
    """Adds, removes and asks; the model is a dict, the algebra the judge."""

    name = "linear"
    rows = Bundle("rows")

    def __init__(self) -> None:
        super().__init__()
        self.index = INDEXES[self.name]()
        self.stored: dict[int, Subscription] = {}
        self.next_row = 0

    @rule(target=rows, node=mixed)
    def add(self, node: Node) -> int:
        row, self.next_row = self.next_row, self.next_row + 1
        self.index.add(row, compiled(node))
        self.stored[row] = compiled(node)
        return row

    @rule(row=consumes(rows))
    def remove(self, row: int) -> None:
        self.index.remove(row)
        del self.stored[row]
        with pytest.raises(KeyError):
            self.index.remove(row)

    @rule(node=mixed)
    def find_cover(self, node: Node) -> None:
        question = compiled(node)
        covers = [
            row for row, subscription in self.stored.items() if is_covered(question.filters, subscription.filters)
        ]
        cover = self.index.find_cover(question)
        assert (cover in covers) if covers else cover is None
        if Guarantee.COMPLETE in self.index.guarantee:
            assert cover == min(covers, default=None)

    @rule(node=mixed)
    def find_covered(self, node: Node) -> None:
        question = compiled(node)
        covered = [
            row
            for row, subscription in sorted(self.stored.items())
            if is_covered(subscription.filters, question.filters)
        ]
        assert self.index.find_covered(question).tolist() == covered

    @invariant()
    def counts(self) -> None:
        assert len(self.index) == len(self.stored) == self.index.statistics().size


@pytest.mark.parametrize("name", INDEXES)
def test_no_cover_of_balls_is_missed_and_none_is_wrong(name: str) -> None:
    machine = type(f"{name}Machine", (BallCoveringMachine,), {"name": name})
    run_state_machine_as_test(machine, settings=settings(max_examples=few(40), stateful_step_count=30, deadline=None))


@pytest.mark.soak
@pytest.mark.parametrize("part", range(10))
@pytest.mark.parametrize("name", INDEXES)
def test_soak_covering_of_balls_misses_none(name: str, part: int) -> None:
    machine = seed(part)(type(f"{name}SoakMachine", (BallCoveringMachine,), {"name": name}))
    run_state_machine_as_test(machine, settings=settings(max_examples=500, stateful_step_count=50, deadline=None))


def test_many_are_asked_together_as_one_by_one() -> None:
    nodes = [WithinBall("look", (float(x), float(y)), r) for x in range(4) for y in range(4) for r in (1.0, 2.0)]
    questions = [compiled(node) for node in [*nodes, And((nodes[0], Compare("x", "<", 1))), Compare("x", "<", 1)]]
    for pick in ("smallest", "largest"):
        index = ProjectionIndex(pick=pick)
        for row, question in enumerate(questions[::3]):
            index.add(row, question)
        assert index.find_covers_of(questions) == [index.find_cover(question) for question in questions]


def test_statistics_tell_the_way() -> None:
    index = ProjectionIndex()
    index.add(1, compiled(WithinBall("look", (0.0, 0.0), 1.0)))
    index.add(2, compiled(And((WithinBall("look", (0.0, 0.0), 1.0), Compare("x", "<", 1)))))
    index.add(3, compiled(Compare("x", "<", 1)))
    index.find_cover(compiled(WithinBall("look", (0.0, 0.0), 1.0)))
    details = index.statistics().details
    assert (details["keyed"], details["mixed"], details["loose"]) == (2, 1, 1)
    assert (details["look.way"], details["look.dimension"], details["look.k"]) == ("scan", 2, 2)
    assert details["look.verified"] == 2
    with pytest.raises(KeyError, match="row 3 is taken"):
        index.add(3, compiled(Constant(True)))
