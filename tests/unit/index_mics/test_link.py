"""Both ends of a link: the receiver always equals the union, loses no event, and ends empty."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule, run_state_machine_as_test

from tamis.curves.cells import Cells
from tamis.curves.runs import NO_RUNS
from tamis.errors import InvariantError
from tamis.index.mics.link import RangeReceiver
from tamis.index.mics.plan import RangeDelta, RangePlan
from tamis.index.mics.space import ContentSpace
from tamis.index.packed.axes import AttributePart, Axis
from tamis.model.language.compiler import compile_text
from tamis.model.language.nodes import Node
from tamis.model.schema import Schema
from tamis.model.subscription import Filter, Subscription, Values
from tamis.model.tables import EventTable
from tamis.model.types import Number
from tamis.model.value_set import ValueSet
from tests import naive
from tests.contract.strategies import SCHEMA, compiled, events, nodes
from tests.link_sender import LinkSender
from tests.unit.curves.naive_curves import keys_of, runs_of

GROUPS = [
    ContentSpace.from_schema(SCHEMA, ["x", "name"], bits=3),
    ContentSpace(
        [
            (Axis("area", AttributePart.X), Cells.equal(0, 4, 2)),
            (Axis("on", AttributePart.NUMBER), Cells.equal(0, 1, 2)),
        ]
    ),
]
PLANE = Schema({"x": Number(0, 64), "y": Number(0, 64)})


def matches_table(receiver: RangeReceiver, events: EventTable) -> npt.NDArray[np.bool_]:
    return receiver.matches_keys_of_table([space.keys_of_table(events) for space in receiver.spaces], len(events))


class LinkMachine(RuleBasedStateMachine):
    """Subscribes, unsubscribes, replaces and publishes; plans travel as bytes."""

    gap = 0
    ids = Bundle("ids")

    def __init__(self) -> None:
        super().__init__()
        self.table = LinkSender(GROUPS, gap=self.gap, max_ranges=6)
        self.receiver = RangeReceiver([ContentSpace.from_json(space.to_json()) for space in GROUPS])
        self.trees: dict[int, Node] = {}
        self.next_id = 0

    def send(self, plan: RangePlan) -> None:
        if not plan.is_empty:
            self.receiver.apply(RangePlan.from_bytes(plan.to_bytes()))

    @rule(target=ids, node=nodes)
    def subscribe(self, node: Node) -> int:
        id, self.next_id = self.next_id, self.next_id + 1
        subscription = compiled(node, id)
        before = [array.tolist() for array in self.receiver.ranges()]
        plan = self.table.add(subscription)
        self.send(plan)
        assert plan.is_empty == (before == [array.tolist() for array in self.receiver.ranges()])
        self.trees[id] = node
        return id

    @rule(id=consumes(ids))
    def unsubscribe(self, id: int) -> None:
        self.send(self.table.remove(id))
        del self.trees[id]

    @rule(target=ids, id=consumes(ids), node=nodes)
    def replace(self, id: int, node: Node) -> int:
        """Subscribe the new one, then unsubscribe the old one, in one message."""
        new, self.next_id = self.next_id, self.next_id + 1
        plan = self.table.add(compiled(node, new)).then(self.table.remove(id))
        self.send(plan)
        self.receiver.apply(plan)  # once more does no harm
        del self.trees[id]
        self.trees[new] = node
        return new

    @rule(event=events)
    def publish(self, event: dict[str, Any]) -> None:
        canonical = SCHEMA.event(event)
        table = EventTable.of({name: [event.get(name)] for name in SCHEMA}, SCHEMA)
        assert matches_table(self.receiver, table).tolist() == [self.receiver.matches(canonical)]
        if any(naive.evaluate(tree, canonical) is True for tree in self.trees.values()):
            assert self.receiver.matches(canonical)

    @invariant()
    def receiver_is_the_union(self) -> None:
        raw = list(self.table.ranges.values())
        for i, runs in enumerate(self.receiver.ranges()):
            assert runs.tolist() == runs_of(set().union(*(keys_of(ranges[i]) for ranges in raw)), self.gap)
            assert runs.tolist() == self.table.summary.ranges()[i].tolist()

    def teardown(self) -> None:
        self.table.summary.check_invariants()
        self.receiver.check_invariants()
        for id in list(self.trees):
            self.send(self.table.remove(id))
        self.table.summary.check_invariants()
        assert self.receiver.n_ranges == 0
        assert all(table.is_empty for table in (*self.table.summary._tables, *self.receiver._tables))


@pytest.mark.parametrize("gap", [0, 3])
def test_a_receiver_always_equals_the_union(gap: int) -> None:
    machine = type("Machine", (LinkMachine,), {"gap": gap})
    run_state_machine_as_test(machine, settings=settings(max_examples=25, stateful_step_count=30, deadline=None))


@pytest.mark.soak
@pytest.mark.parametrize("part", range(20))
@pytest.mark.parametrize("gap", [0, 3])
def test_soak_mics_a_receiver_always_equals_the_union(gap: int, part: int) -> None:
    """A million operations with every kind of condition, each part with conditions of its own."""
    some = st.sampled_from(drawn_nodes(300, part))

    @seed(part)
    class SoakMachine(LinkMachine):
        @rule(target=LinkMachine.ids, node=some)
        def subscribe(self, node: Node) -> int:
            return super().subscribe(node)

        @rule(target=LinkMachine.ids, id=consumes(LinkMachine.ids), node=some)
        def replace(self, id: int, node: Node) -> int:
            return super().replace(id, node)

    SoakMachine.gap = gap
    run_state_machine_as_test(SoakMachine, settings=settings(max_examples=500, stateful_step_count=50, deadline=None))


def drawn_nodes(n: int, part: int) -> list[Node]:
    """Return conditions that Hypothesis thought of: to think of one takes longer than all that is tested with it."""
    drawn: list[Node] = []

    @seed(part)
    @settings(max_examples=n, phases=[Phase.generate])
    @given(nodes)
    def draw(node: Node) -> None:
        drawn.append(node)

    draw()
    return drawn


def random_box(rng: np.random.Generator, id: int) -> Subscription:
    constraints = []
    for name in ("x", "y"):
        if rng.random() < 0.9:
            lo = float(rng.integers(-4, 66)) + float(rng.choice([0.0, 0.5]))
            hi = lo + float(rng.integers(0, 9))
            constraints.append(Values(name, ValueSet.between((lo, 0), (hi, int(rng.integers(2)) or int(lo == hi)))))
    return Subscription(id, (Filter(tuple(constraints)),))


def run_history(n_operations: int, gap: int, seed: int) -> int:
    """Subscribe, unsubscribe and publish; return how many events passed. The union is counted key by key."""
    rng = np.random.default_rng(seed)
    space = ContentSpace.from_schema(PLANE, bits=6)
    table, receiver = LinkSender([space], gap), RangeReceiver([space])
    counts, live, passed = np.zeros(space.n_keys, np.int64), dict[int, Subscription](), 0

    def change(id: int, plan: RangePlan, by: int, ranges: Any) -> None:
        receiver.apply(plan)
        for first, last in ranges.tolist():
            counts[first : last + 1] += by
        edges = np.flatnonzero(np.diff(np.concatenate([[0], counts > 0, [0]]))).reshape(-1, 2) - [0, 1]
        closed = edges
        if gap and len(edges):
            opens = np.concatenate([[True], edges[1:, 0] - edges[:-1, 1] > 1 + gap])
            closed = np.column_stack([edges[opens, 0], edges[np.concatenate([opens[1:], [True]]), 1]])
        assert receiver.ranges()[0].tolist() == closed.tolist(), id

    for step in range(n_operations):
        what = rng.random()
        if what < 0.4:
            live[step] = random_box(rng, step)
            change(step, table.add(live[step]), 1, table.ranges[step][0])
        elif what < 0.75 and (len(live) > 40 or rng.random() < 0.9) and live:
            id = list(live)[int(rng.integers(len(live)))]
            ranges = table.ranges[id][0]
            change(id, table.remove(id), -1, ranges)
            del live[id]
        else:
            event = {"x": float(rng.integers(-4, 68)), "y": float(rng.integers(-8, 136)) / 2}
            passes = receiver.matches(event)
            passed += passes
            wanted = any(
                all(event[c.attribute] in c.allowed for c in subscription.filters[0].constraints)
                for subscription in live.values()
            )
            assert passes or not wanted, (step, event)
    for id in list(live):
        receiver.apply(table.remove(id))
    table.summary.check_invariants()
    assert receiver.n_ranges == 0
    assert receiver._tables[0].is_empty
    return passed


@pytest.mark.parametrize(("gap", "seed"), [(0, 1), (5, 2), (200, 3)])
def test_history_of_boxes(gap: int, seed: int) -> None:
    assert run_history(1_500, gap, seed) > 50


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(10, 20))
@pytest.mark.parametrize("gap", [0, 4])
def test_soak_mics_history_of_a_million_operations(gap: int, seed: int) -> None:
    """A million for each gap, in ten parts."""
    assert run_history(100_000, gap, seed) > 1_000


def sub(text: str, id: int | str) -> Subscription:
    return compile_text(text, PLANE, id=id)


def test_equal_subscriptions_are_counted() -> None:
    space = ContentSpace.from_schema(PLANE)
    table, receiver = LinkSender([space]), RangeReceiver([space])
    receiver.apply(table.add(sub("x < 5", 1)))
    assert table.add(sub("x < 5", 2)).is_empty
    assert table.remove(1).is_empty
    assert receiver.matches({"x": 1.0, "y": 1.0})
    receiver.apply(table.remove(2))
    assert not receiver.matches({"x": 1.0, "y": 1.0})


def test_another_space_means_forward_until_a_snapshot_comes() -> None:
    space, other = ContentSpace.from_schema(PLANE), ContentSpace.from_schema(PLANE, bits=4)
    table, receiver = LinkSender([space]), RangeReceiver([space])
    receiver.apply(table.add(sub("x < 5", 1)))
    assert not receiver.matches({"x": 60.0})
    receiver.apply(LinkSender([other]).add(sub("x > 50", 2)))
    assert receiver.is_lost
    assert receiver.matches({"x": 60.0})
    assert receiver.matches_keys([np.array([[5, 5]])])
    assert matches_table(receiver, EventTable.of({"x": [60.0, 1.0]}, PLANE)).tolist() == [True, True]
    receiver.apply(table.snapshot())
    assert not receiver.is_lost
    assert matches_table(receiver, EventTable.of({"x": [60.0, 1.0]}, PLANE)).tolist() == [False, True]
    assert not receiver.matches({"x": 60.0})
    assert receiver.ranges()[0].tolist() == table.summary.ranges()[0].tolist()


def test_a_snapshot_replaces_what_was_known() -> None:
    """What ended while a receiver was not told of it is gone after a snapshot."""
    space = ContentSpace.from_schema(PLANE)
    table, receiver = LinkSender([space]), RangeReceiver([space])
    receiver.apply(table.add(sub("x < 5", 1)))
    table.add(sub("x > 50", 2))
    table.remove(1)
    receiver.apply(table.snapshot())
    assert not receiver.matches({"x": 1.0, "y": 1.0})
    assert receiver.matches({"x": 60.0, "y": 1.0})
    assert receiver.ranges()[0].tolist() == table.summary.ranges()[0].tolist()
    receiver.check_invariants()


def test_ranges_that_a_client_computed_are_ignored() -> None:
    space = ContentSpace.from_schema(PLANE)
    honest = compile_text("x < 5", PLANE, id="a")
    boastful = compile_text("x < 5", PLANE, id="a", metadata={"ranges": "[[0, 4000000000]]", "hilbert": "0"})
    plans = [LinkSender([space]).add(subscription) for subscription in (honest, boastful)]
    assert plans[0].to_bytes() == plans[1].to_bytes()
    receiver = RangeReceiver([space])
    receiver.apply(plans[0])
    assert not receiver.matches(PLANE.event({"x": 60.0, "hilbert": 0, "key": 0}))


def test_groups_are_asked_one_and_all() -> None:
    groups = [ContentSpace.from_schema(PLANE, ["x"]), ContentSpace.from_schema(PLANE, ["y"])]
    table, receiver = LinkSender(groups), RangeReceiver(groups)
    receiver.apply(table.add(sub("x < 5 AND y < 5", 1)))
    assert receiver.matches({"x": 1.0, "y": 1.0})
    assert not receiver.matches({"x": 1.0, "y": 60.0})
    receiver.apply(table.add(sub("x > 50 AND y > 50", 2)))
    assert receiver.matches({"x": 1.0, "y": 60.0})  # each group alone says yes: forwarded, and nothing is lost
    assert sum(map(len, table.summary.ranges())) == 4


def test_imperfect_merging_makes_tables_smaller_and_forwards_more() -> None:
    rng = np.random.default_rng(4)
    space = ContentSpace.from_schema(PLANE, bits=6)
    subscriptions = [random_box(rng, id) for id in range(30)]
    sizes, keys = [], []
    for gap in (0, 8, 64):
        table = LinkSender([space], gap)
        for subscription in subscriptions:
            table.add(subscription)
        table.summary.check_invariants()
        sizes.append(len(table.summary.ranges()[0]))
        keys.append(len(keys_of(table.summary.ranges()[0].tolist())))
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > sizes[-1]
    assert keys == sorted(keys)
    assert keys[0] < keys[-1]


def test_a_wrong_table_is_noticed() -> None:
    space = ContentSpace.from_schema(PLANE)
    table = LinkSender([space])
    table.add(sub("x < 5", 1))
    table.summary._tables[0].remove(table.ranges[1][0])
    with pytest.raises(InvariantError, match="union"):
        table.summary.check_invariants()
    receiver = RangeReceiver([space])
    receiver.apply(RangePlan(space.version, (RangeDelta(np.array([[3, 9]]), NO_RUNS),)))
    receiver._tables[0].add(np.array([[4, 5]]))
    with pytest.raises(InvariantError, match="twice"):
        receiver.check_invariants()
