"""The counting matcher: unique constraints, exact removal, plug-in indexes, agreement with the linear scan."""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule, run_state_machine_as_test

from tamis.algebra.evaluate import matches_subscription
from tamis.errors import InvariantError, WeakGuaranteeError
from tamis.index.counting import DEFAULT_INDEXES, CountingMatcher, ScanIndex
from tamis.index.counting.table import Indexes
from tamis.index.linear_scan import LinearMatcher
from tamis.index.protocols import EventMatcher, Guarantee
from tamis.model.language.nodes import And, Compare, Constant, IsLike, Node, Or
from tamis.model.subscription import EVERYTHING, AnyOf, Filter, Like, Spatial, Subscription, Values
from tamis.model.value_set import ValueSet
from tamis.model.values import Value
from tests.contract.strategies import SCHEMA, compiled, events, nodes
from tests.unit.counting.worlds import World

HELD = ("filters", "constraints", "postings", "interfaces")


def counts(matcher: CountingMatcher) -> tuple[object, ...]:
    details = matcher.statistics().details
    return tuple(details[name] for name in HELD)


def assert_empty(matcher: CountingMatcher) -> None:
    matcher.check_invariants()
    assert len(matcher) == 0
    assert counts(matcher) == (0, 0, 0, 0)
    table = matcher._table
    assert [*table._numbers, *table._constraints, *table.users] == []
    assert not any(table._indexes.values())
    assert matcher._groups == ({}, {})


class CountingLife(RuleBasedStateMachine):
    """Adds behind interfaces, removes, matches, forwards; the model is a dict of subscriptions."""

    rows = Bundle("rows")

    def __init__(self) -> None:
        super().__init__()
        self.matcher = CountingMatcher()
        self.model: dict[int, tuple[Subscription, int | str]] = {}
        self.next_row = 0

    @rule(target=rows, node=nodes, interface=st.sampled_from([None, "east", "west", -1]))
    def add(self, node: Node, interface: int | str | None) -> int:
        row, self.next_row = self.next_row, self.next_row + 1
        self.model[row] = (compiled(node, row), row if interface is None else interface)
        self.matcher.add(row, self.model[row][0], interface)
        return row

    @rule(row=consumes(rows))
    def remove(self, row: int) -> None:
        self.matcher.remove(row)
        del self.model[row]

    @rule(event=events)
    def match(self, event: dict[str, Any]) -> None:
        canonical = SCHEMA.event(event)
        want = [row for row, (subscription, _) in self.model.items() if matches_subscription(canonical, subscription)]
        assert self.matcher.match(canonical).tolist() == want

    @rule(event=events, came_from=st.sampled_from([None, "east", "south"]))
    def forward(self, event: dict[str, Any], came_from: str | None) -> None:
        canonical = SCHEMA.event(event)
        want = {hop for subscription, hop in self.model.values() if matches_subscription(canonical, subscription)} - {
            came_from
        }
        got = self.matcher.next_hops(canonical, came_from)
        assert got == sorted(want, key=lambda hop: (isinstance(hop, str), hop))

    @rule()
    def wrong_rows(self) -> None:
        with pytest.raises(KeyError):
            self.matcher.remove(self.next_row)
        if self.model:
            with pytest.raises(KeyError):
                self.matcher.add(max(self.model), compiled(Constant(True)))

    @invariant()
    def whole(self) -> None:
        assert len(self.matcher) == len(self.model)
        self.matcher.check_invariants()

    def teardown(self) -> None:
        for row in list(self.model):
            self.matcher.remove(row)
        assert_empty(self.matcher)


def test_agrees_with_the_truth_through_random_lives() -> None:
    run_state_machine_as_test(CountingLife, settings=settings(max_examples=60, stateful_step_count=40))


def compare(rng: np.random.Generator, n_rows: int, n_events: int) -> int:
    """Compare with the linear scan through arrivals and departures; return the number of decisions."""
    world, decisions, next_row = World(rng), 0, 0
    counting, linear = CountingMatcher(), LinearMatcher()
    live: dict[int, Subscription] = {}
    for _ in range(4):
        for row in range(next_row, next_row + n_rows - len(live)):
            live[row] = compiled(world.node(), row)
            counting.add(row, live[row], f"link {row % 5}")
            linear.add(row, live[row])
        next_row = max(live) + 1
        for _ in range(n_events // 4):
            event = world.event()
            want = linear.match(event).tolist()
            assert counting.match(event).tolist() == want
            assert counting.next_hops(event) == sorted({f"link {row % 5}" for row in want})
            decisions += sum(len(subscription.filters) for subscription in live.values())
        for row in rng.choice(list(live), n_rows // 2, replace=False).tolist():
            for matcher in (counting, linear):
                matcher.remove(row)
            del live[row]
        counting.check_invariants()
    for row in live:
        counting.remove(row)
    assert_empty(counting)
    return decisions


def test_agrees_with_the_linear_scan(rng: np.random.Generator) -> None:
    assert compare(rng, n_rows=150, n_events=200) >= 30_000


@pytest.mark.soak
def test_soak_one_million_decisions_agree_with_the_linear_scan(rng: np.random.Generator) -> None:
    assert compare(rng, n_rows=1_000, n_events=1_000) >= 1_000_000


def test_equal_constraints_are_stored_once() -> None:
    matcher = CountingMatcher()
    cheap, near = Compare("x", "<", 5), Compare("y", "=", 1)
    matcher.add(0, compiled(cheap))
    matcher.add(1, compiled(And((cheap, near))))
    matcher.add(2, compiled(And((Compare("x", "<", 5.0), IsLike("name", "%b", False)))))
    matcher.add(3, compiled(Or((cheap, IsLike("name", "%b", False)))))
    assert counts(matcher) == (5, 3, 7, 4)
    matcher.remove(0)
    assert counts(matcher) == (4, 3, 6, 3)
    assert matcher.match(SCHEMA.event({"x": 1, "y": 1})).tolist() == [1, 3]
    matcher.remove(1)
    assert counts(matcher) == (3, 2, 4, 2)
    for row in (2, 3):
        matcher.remove(row)
    assert_empty(matcher)


def test_a_constraint_given_twice_counts_once() -> None:
    matcher = CountingMatcher()
    like = Like("name", "%b")
    matcher.add(0, Subscription(0, (Filter((like, like)),)))
    assert counts(matcher) == (1, 1, 1, 1)
    assert matcher.match({"name": "ab"}).tolist() == [0]
    assert matcher.match({"name": "ba"}).tolist() == []
    matcher.remove(0)
    assert_empty(matcher)


def test_a_filter_without_constraints_matches_everything() -> None:
    matcher = CountingMatcher()
    matcher.add(0, Subscription(0, (EVERYTHING,)), "east")
    matcher.add(1, Subscription(1, (EVERYTHING, EVERYTHING)), "west")
    matcher.add(2, Subscription(2, ()), "nowhere")
    assert matcher.match({}).tolist() == matcher.match({"x": 1}).tolist() == [0, 1]
    assert matcher.next_hops({}) == ["east", "west"]


def test_a_hull_is_confirmed_by_its_rest() -> None:
    [hull] = compiled(Compare("x", "<", 5)).filters
    tree = AnyOf((Like("name", "%b"), Values("y", ValueSet.between((1, 0), (2, 1)))))
    matcher = CountingMatcher()
    matcher.add(0, Subscription(0, (Filter(hull.constraints, tree),)))
    matcher.add(1, Subscription(1, (Filter((), tree),)))
    for event, want in [
        ({"x": 1, "y": 2}, [0, 1]),
        ({"x": 1, "name": "ab"}, [0, 1]),
        ({"x": 9, "y": 2}, [1]),
        ({"x": 1, "y": 3}, []),
    ]:
        assert matcher.match(SCHEMA.event(event)).tolist() == want
    assert matcher.statistics().details["verified"] == 7


class Rumour(ScanIndex):
    """Proposes everything."""

    guarantee = Guarantee.COMPLETE

    def satisfied(self, value: Value | None, wanted: object = None) -> list[int]:
        return list(self._constraints)


class Silence(ScanIndex):
    """Promises too little."""

    guarantee = Guarantee.SOUND


@pytest.mark.parametrize(
    "indexes", [{Spatial: Rumour, Like: Rumour}, {Values: ScanIndex}, {Values: Rumour}], ids=["costly", "scan", "cheap"]
)
def test_plugged_in_indexes_give_the_same_answers(indexes: Indexes, rng: np.random.Generator) -> None:
    world = World(rng)
    matcher = CountingMatcher({**DEFAULT_INDEXES, **indexes})
    held = {row: compiled(world.node(), row) for row in range(150)}
    for row, subscription in held.items():
        matcher.add(row, subscription)
    for _ in range(50):
        event = world.event()
        want = [row for row, subscription in held.items() if matches_subscription(event, subscription)]
        assert matcher.match(event).tolist() == want
    assert bool(matcher.statistics().details["verified"]) == (Rumour in indexes.values())


def test_an_index_that_would_lose_events_is_refused() -> None:
    with pytest.raises(WeakGuaranteeError):
        CountingMatcher({**DEFAULT_INDEXES, Like: Silence})


def test_evaluations_outlive_the_index_that_made_them() -> None:
    matcher = CountingMatcher()
    matcher.add(0, compiled(IsLike("name", "%b", False)))
    matcher.match({"name": "ab"})
    matcher.remove(0)
    assert matcher.statistics().details["evaluations"] == 1


def test_it_is_an_exact_matcher() -> None:
    matcher = CountingMatcher()
    assert isinstance(matcher, EventMatcher)
    assert matcher.guarantee is Guarantee.EXACT


def test_invariants_can_fail() -> None:
    def filled() -> CountingMatcher:
        matcher = CountingMatcher()
        matcher.add(0, compiled(Compare("x", "<", 5)), "east")
        matcher.add(1, compiled(And((Compare("x", "<", 5), Compare("y", "=", 1)))), "west")
        matcher.check_invariants()
        return matcher

    for damage in (
        lambda m: m._groups[1].pop("east"),
        lambda m: m._table.users[0].popitem(),
        lambda m: m._rows.pop(0),
        lambda m: m._table._constraints.pop(0),
        lambda m: next(iter(m._table._indexes.values())).pop("x"),
        lambda m: m._table._index(m._table._constraints[0]).remove(0, m._table._constraints[0]),
    ):
        matcher = filled()
        damage(matcher)
        with pytest.raises(InvariantError):
            matcher.check_invariants()


@pytest.fixture
def _restless() -> Iterator[None]:
    """Let threads take turns as often as the interpreter allows."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


@pytest.mark.usefixtures("_restless")
def test_readers_while_one_writer_works(rng: np.random.Generator) -> None:
    """Settled rows and links are always answered, and nothing is answered that could not match."""
    world = World(rng)
    held = {row: compiled(world.node(), row) for row in range(400)}
    probes = [world.event() for _ in range(20)]
    possible = [
        {row for row, subscription in held.items() if matches_subscription(event, subscription)} for event in probes
    ]
    settled = 40
    matcher = CountingMatcher()
    for row in range(settled):
        matcher.add(row, held[row], "settled" if row % 2 else f"link {row}")
    stop, faults, rounds = threading.Event(), [], [0, 0]

    def read(reader: int) -> None:
        try:
            while not stop.is_set():
                for event, rows in zip(probes, possible, strict=True):
                    got = set(matcher.match(event).tolist())
                    # A row that moved is given a new number above all others, the old one plus a multiple of 400.
                    if {row for row in got if row < settled} != {row for row in rows if row < settled}:
                        faults.append((event, got))
                    if not {row % 400 for row in got} <= rows:
                        faults.append((event, got))
                    hops = {hop for hop in matcher.next_hops(event) if hop != "moving"}
                    if hops != {"settled" if row % 2 else f"link {row}" for row in rows if row < settled}:
                        faults.append((event, hops))
                rounds[reader] += 1
        except Exception as error:
            faults.append(error)

    readers = [threading.Thread(target=read, args=(reader,)) for reader in range(2)]
    for reader in readers:
        reader.start()
    try:
        for lap in itertools.takewhile(lambda lap: not faults and (lap < 4 or min(rounds) < 20), range(200)):
            moved = [row + 400 * lap for row in range(settled, 400)]
            for row in moved:
                matcher.add(row, held[row % 400], "moving")
            for row in rng.permutation(moved).tolist():
                matcher.remove(row)
    finally:
        stop.set()
        for reader in readers:
            reader.join()
    assert faults == []
    assert min(rounds) > 0
    matcher.check_invariants()
