"""A change on a link costs what changes: covers end in slices, late subscriptions say who is missing (promise R14)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tamis import Number, Schema, String
from tamis.index.dominance.index import DominanceIndex
from tamis.index.linear_scan import LinearCovering
from tamis.index.protocols import Guarantee
from tamis.model.language.compiler import compile_text
from tamis.node.content import Content
from tamis.node.core import LinkUp
from tamis.node.effects import Again, Effect, Key, Persist, Send
from tamis.routing import messages as m
from tamis.routing.core import broker
from tamis.routing.core.broker import BrokerCore, client_key
from tamis.routing.core.confirmations import Confirmations
from tamis.routing.core.expiry import Expiry
from tamis.routing.core.summary import SLICE
from tamis.routing.policies import find_policy
from tamis.routing.table_parts import Connected
from tests.effort import effort

CONTENT = Content(Schema({"x": Number(), "y": Number(), "s": String()}))
MEMBERS = 5 * SLICE


def text(source: str) -> bytes:
    return CONTENT.write_filter(CONTENT.compile(source))


class Neighbour:
    """What the other end of the only link holds, and the broker's disk."""

    def __init__(self, policy: str = "covering", **options: Any) -> None:
        self.policy = policy
        self.core = BrokerCore("here", {"east": find_policy(policy)}, CONTENT, **options)
        self.disk: dict[Key, bytes] = {}
        self.held: dict[str, bytes] = {}
        self.again = False
        self.updates: list[m.Update] = []
        self.take(self.core.handle(LinkUp(), sender="east", now=0))
        self.take(self.core.handle(m.Update(1, replace=True), sender="east", now=0))

    def take(self, effects: list[Effect]) -> None:
        self.again = self.again or Again() in effects
        for effect in effects:
            if isinstance(effect, Persist) and effect.value is not None:
                self.disk[effect.key] = effect.value
            elif isinstance(effect, Persist):
                self.disk.pop(effect.key, None)
            elif isinstance(effect, Send) and isinstance(effect.message, m.Update):
                self.apply(effect.message)

    def apply(self, update: m.Update) -> None:
        self.updates.append(update)
        if update.replace:
            self.held.clear()
        self.held |= {entry.key: entry.filter for entry in update.announce}
        for key in update.retract:
            self.held.pop(key, None)

    def ask(self, id: str, source: str) -> None:
        self.take(self.core.handle(m.Subscribe(id, text(source)), sender="alice", now=0))

    def end(self, id: str) -> None:
        self.take(self.core.handle(m.Unsubscribe(id), sender="alice", now=0))

    def go_on(self) -> None:
        self.again = False
        self.take(self.core.handle(m.Tick(), sender="", now=0))

    def finish(self) -> int:
        """Give the core its ticks until it wants none; return how many."""
        ticks = 0
        while self.again:
            self.go_on()
            ticks += 1
        return ticks


def key(id: str) -> str:
    return client_key("alice", "default", id)


def with_a_cover(policy: str = "covering") -> Neighbour:
    """A neighbour that holds one filter for many."""
    neighbour = Neighbour(policy)
    neighbour.ask("all", "x IS NULL OR x IS NOT NULL")
    for i in range(MEMBERS):
        neighbour.ask(f"s{i}", f"x = {i} AND y >= {i}")
    assert list(neighbour.held) == [key("all")]
    return neighbour


@pytest.mark.parametrize("policy", ["covering", "subsumption", "merging", "two-stage"])
def test_a_cover_is_retracted_after_all_that_it_hid_was_announced(policy: str) -> None:
    neighbour = with_a_cover(policy)
    first = len(neighbour.updates)
    neighbour.end("all")
    while neighbour.again:
        assert key("all") in neighbour.held  # so nothing is lost meanwhile
        neighbour.core.check_invariants()
        neighbour.go_on()
    assert sorted(neighbour.held) == sorted(key(f"s{i}") for i in range(MEMBERS))
    updates = neighbour.updates[first:]
    assert len(updates) >= MEMBERS // SLICE
    assert all(len(update.announce) <= SLICE for update in updates)
    assert [update.retract for update in updates if update.retract] == [(key("all"),)]
    assert updates[-1].retract
    neighbour.core.check_invariants()
    for i in range(MEMBERS):
        neighbour.end(f"s{i}")
    assert not neighbour.held


def test_a_crash_between_two_slices_loses_nothing() -> None:
    neighbour = with_a_cover()
    neighbour.end("all")
    neighbour.go_on()
    assert neighbour.again
    again = BrokerCore("here", {"east": find_policy("covering")}, CONTENT)
    neighbour.disk["link", "east"] = b""
    neighbour.core = again
    neighbour.take(again.restore(neighbour.disk, now=1))
    neighbour.take(again.handle(Connected(takes_parts=False), sender="east", now=1))
    neighbour.finish()
    assert sorted(neighbour.held) == sorted(key(f"s{i}") for i in range(MEMBERS))
    again.check_invariants()


def test_what_is_asked_again_while_it_ends_stays() -> None:
    neighbour = with_a_cover()
    neighbour.end("all")
    neighbour.go_on()
    neighbour.ask("all", "x IS NULL OR x IS NOT NULL")
    neighbour.finish()
    assert key("all") in neighbour.held
    neighbour.core.check_invariants()
    neighbour.end("all")
    neighbour.finish()
    assert sorted(neighbour.held) == sorted(key(f"s{i}") for i in range(MEMBERS))


def test_members_may_leave_while_their_cover_ends() -> None:
    neighbour = with_a_cover()
    neighbour.end("all")
    for i in range(0, MEMBERS, 2):
        neighbour.end(f"s{i}")
    neighbour.finish()
    assert sorted(neighbour.held) == sorted(key(f"s{i}") for i in range(1, MEMBERS, 2))
    neighbour.core.check_invariants()


def test_a_new_cover_absorbs_in_slices() -> None:
    neighbour = Neighbour()
    for i in range(MEMBERS):
        neighbour.ask(f"s{i}", f"x = {i} AND y >= {i}")
    first = len(neighbour.updates)
    neighbour.ask("all", "x IS NULL OR x IS NOT NULL")
    assert key("all") in neighbour.held
    assert neighbour.finish() >= MEMBERS // SLICE // 2 - 1
    assert list(neighbour.held) == [key("all")]
    assert all(len(update.retract) <= 2 * SLICE for update in neighbour.updates[first:])
    neighbour.core.check_invariants()


def test_no_step_costs_more_because_more_subscriptions_are_hidden() -> None:
    """Sixteen times as many members, and the longest step costs at most four times as much."""

    def longest(n: int) -> float:
        neighbour = Neighbour()
        neighbour.ask("all", "x IS NULL OR x IS NOT NULL")
        for i in range(n):
            neighbour.ask(f"s{i}", f"x = {i} AND y >= {i}")
        steps = [effort(lambda: neighbour.end("all"), rounds=1)]
        while neighbour.again and len(steps) < 8:
            steps.append(effort(neighbour.go_on, rounds=1))
        return max(steps)

    longest(32 * SLICE)  # compiles what only many subscriptions need
    few, many = longest(2 * SLICE), longest(32 * SLICE)
    assert many <= 4 * few, (few, many)


def test_a_look_for_what_expires_costs_what_has_expired() -> None:
    def cost(n: int) -> float:
        expiry = Expiry()
        for i in range(n):
            expiry.put(("alice", str(i)), 10**15 + i)

        def look() -> None:
            for moment in range(1_000):
                assert not expiry.take(moment)

        return effort(look)

    assert cost(50_000) <= 5 * cost(50)


def test_moments_that_are_put_off_leave_nothing_behind() -> None:
    expiry = Expiry()
    for moment in range(10_000):
        expiry.put(("alice", "a"), moment)
    assert len(expiry._heap) < 200
    assert expiry.take(9_998) == []
    assert expiry.take(9_999) == [("alice", "a")]


def test_a_confirmation_costs_what_it_settles() -> None:
    def cost(n: int) -> float:
        confirmations = Confirmations(["east", "west"])
        for link in ("east", "west"):
            confirmations.number_next(link)
        for i in range(n):
            confirmations.expect("alice", str(i), set())

        def work() -> None:
            for i in range(200):
                confirmations.number_next("east")
                confirmations.confirm("east", 0)
                confirmations.take_settled(10)
                confirmations.early_for("alice", str(i), "east")

        return effort(work)

    assert cost(20_000) <= 5 * cost(20)


def settle(confirmations: Confirmations) -> list[int]:
    """Settle in steps of 1,000; return how many items each step settled."""
    counts = []
    while confirmations.has_settled:
        counts.append(len(confirmations.take_settled(1_000)))
    return counts


@pytest.mark.parametrize(
    "release",
    [
        lambda confirmations: confirmations.confirm("east", 1),
        lambda confirmations: confirmations.excuse("east", True),
        lambda confirmations: confirmations.remove("east"),
    ],
)
def test_what_one_confirmation_settles_is_settled_in_steps(release: Callable[[Confirmations], None]) -> None:
    confirmations = Confirmations(["east"])
    confirmations.number_next("east")
    for i in range(3_500):
        confirmations.expect("alice", str(i), set())
    release(confirmations)
    confirmations.forget("alice", "3400")
    assert confirmations.has_waiting
    assert settle(confirmations) == [1_000, 1_000, 1_000, 499]
    assert not confirmations.has_waiting


def test_a_broker_settles_a_restored_table_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ticks go on where the message of the neighbour stopped; each subscription becomes active once."""
    monkeypatch.setattr(broker, "SETTLED_AT_ONCE", 100)
    core = BrokerCore("here", {"east": find_policy("every")}, CONTENT)
    core.subscribe([("alice", m.Subscribe(i, text(f"x > {i}"))) for i in range(350)], now=0)
    for message in (Connected(takes_parts=False), LinkUp(), m.Update(1, replace=True)):
        core.handle(message, sender="east", now=0)
    steps = [core.handle(m.Confirm(1), sender="east", now=1)]
    while Again() in steps[-1]:
        steps.append(core.handle(m.Tick(), sender="", now=1))
    words = [[effect.message for effect in step if isinstance(effect, Send)] for step in steps]
    active = [[word.id for word in step if isinstance(word, m.Status)] for step in words]
    assert {word.state for step in words for word in step} == {m.State.ACTIVE}
    assert active == [[*range(i, min(i + 100, 350))] for i in range(0, 350, 100)]


def test_late_subscriptions_are_reported_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker, "SETTLED_AT_ONCE", 100)
    core = BrokerCore("here", {"east": find_policy("every")}, CONTENT, patience=10.0)
    core.subscribe([("alice", m.Subscribe(i, text(f"x > {i}"))) for i in range(250)], now=0)
    steps = [core.handle(m.Tick(), sender="", now=11)]
    while Again() in steps[-1]:
        steps.append(core.handle(m.Tick(), sender="", now=11))
    late = [[word.message for word in step if isinstance(word, Send)] for step in steps]
    assert [len(messages) for messages in late] == [100, 100, 50]
    assert [message.id for messages in late for message in messages] == [*range(250)]


def test_forgotten_waits_do_not_pile_up_while_a_link_is_cut() -> None:
    confirmations = Confirmations(["east"])
    confirmations.number_next("east")
    for i in range(10_000):
        confirmations.expect("alice", str(i), set())
        confirmations.forget("alice", str(i))
    assert not confirmations.has_waiting
    assert len(confirmations._queues["east"]) < 200
    assert len(confirmations._by_age) < 200


def test_a_late_subscription_says_once_who_has_not_confirmed_it() -> None:
    policy = find_policy("every")
    core = BrokerCore("here", {"east": policy, "west": policy}, CONTENT, patience=10.0)
    for link in ("east", "west"):
        core.handle(LinkUp(), sender=link, now=0)
        core.handle(m.Update(1, replace=True), sender=link, now=0)
    core.handle(m.Subscribe("a", text("x > 1")), sender="alice", now=100.0)
    assert core.missing("alice", key("a")) == ["east", "west"]
    core.handle(m.Confirm(2), sender="east", now=101.0)
    assert core.handle(m.Tick(), sender="", now=109.0) == []
    assert core.handle(m.Tick(), sender="", now=110.0) == [Send("alice", m.Delayed("a", "default", ("west",)))]
    assert core.handle(m.Tick(), sender="", now=120.0) == []
    settled = core.handle(m.Confirm(2), sender="west", now=121.0)
    assert Send("alice", m.Status("a", "default", m.State.ACTIVE)) in settled
    assert core.missing("alice", key("a")) == []


@pytest.mark.parametrize("make", [DominanceIndex, LinearCovering])
def test_a_question_with_too_many_proofs_is_answered_by_no(make: Any) -> None:
    """Patterns are proved one by one: ten that accept some, but not all, cost more than a budget of five pieces."""
    schema = Schema({"s": String()})
    likes = ("x%", "xx%", "%xy", "x%y", "_xy", "x_y", "xx_", "%y", "xxy%", "__y")
    patterns = [compile_text(f"s LIKE '{like}'", schema, id=i) for i, like in enumerate(likes)]
    whole, bounded = make(), make(pieces=5)
    assert bounded.guarantee is Guarantee.SOUND
    for row, pattern in enumerate([*patterns, compile_text("s LIKE '%x%'", schema, id=99)]):
        whole.add(row, pattern)
        bounded.add(row, pattern)
    question = compile_text("s LIKE '%x%x%y%'", schema, id="q")
    assert whole.find_cover(question) == 10
    assert bounded.find_cover(question) is None
    every = compile_text("s IS NOT NULL", schema, id="e")
    assert set(bounded.find_covered(every).tolist()) <= set(whole.find_covered(every).tolist())
