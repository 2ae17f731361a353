"""Costly events are matched beside the loop: what changes meanwhile loses no event (promises G4, R1, S26)."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest

from tamis.node.content import Content
from tamis.node.core import LinkUp
from tamis.node.effects import Again, Deliver, Effect, Send
from tamis.routing import messages as m
from tamis.routing.core import ahead
from tamis.routing.core.ahead import Ahead
from tamis.routing.core.broker import BrokerCore
from tamis.routing.core.publications import Publications
from tamis.routing.core.routing_table import RoutingTable
from tamis.routing.policies import find_policy


class Bench:
    """A broker's core with one neighbour and its publications; every event is costly."""

    def __init__(self) -> None:
        self.content = Content()
        self.broker = BrokerCore("here", {"east": find_policy("covering")}, self.content)
        self.publications = Publications(self.broker.events, weight=lambda namespace: 1 << 30)
        self.handle(LinkUp(), "east")
        self.handle(m.Update(1, replace=True), "east")
        self.n_events = 0

    def handle(self, message: Any, sender: str) -> list[Effect]:
        return self.broker.handle(message, sender=sender, now=0.0)

    def subscribe(self, id: str, text: str) -> None:
        message = m.Subscribe(id, self.filter(text), "default")
        self.broker.subscribe([("alice", message)], 0.0)

    def filter(self, text: str) -> bytes:
        space = self.content.of("default")
        return space.write_filter(space.compile(text))

    def publish(self, **values: Any) -> list[Effect]:
        self.n_events += 1
        payload = self.content.of("default").write_event(values)
        event = m.Published(m.EventId("p", 1, self.n_events), "default", payload)
        return self.publications.publish({"bob": [event]}, "bob", 0.0)

    def finish(self) -> list[Effect]:
        """Take the steps that follow when a job is ready."""
        effects: list[Effect] = []
        while self.publications.has_waiting:
            effects += self.publications.advance(0.0)
        return effects


@pytest.fixture
def bench() -> Bench:
    return Bench()


def readers(effects: list[Effect]) -> list[int | str]:
    return [id for effect in effects if isinstance(effect, Deliver) for id in effect.message.subscriptions]


def hops(effects: list[Effect]) -> list[str]:
    return [effect.link for effect in effects if isinstance(effect, Send) and isinstance(effect.message, m.Publish)]


def test_a_costly_event_waits_for_its_job_and_others_do_not(bench: Bench) -> None:
    bench.subscribe("s", "n > 1")
    effects = bench.publish(n=2)
    assert (readers(effects), Again() in effects) == ([], False)
    assert bench.publications.is_waiting("bob")
    assert not bench.publications.has_waiting
    assert bench.publications.advance(0.0) == []  # a tick in between changes nothing
    job = bench.publications.ahead.begin()
    assert job is not None
    assert bench.publications.ahead.begin() is None
    job.run()
    assert bench.publications.ahead.finish(job, 0.5)
    assert readers(bench.finish()) == ["s"]
    assert not bench.publications.is_waiting("bob")


@pytest.mark.parametrize("error", [None, KeyError("x")])
def test_a_subscription_that_is_replaced_while_the_table_is_read_is_matched(
    bench: Bench, error: Exception | None
) -> None:
    """The old filter and the new one match; in the moment between them the index has neither."""
    bench.subscribe("s", "n > 1")
    bench.publish(n=2)
    job = bench.publications.ahead.begin()
    assert job is not None
    drop = RoutingTable.drop

    def drop_and_read(table: RoutingTable, source: str, key: str) -> None:
        drop(table, source, key)
        job.run()

    with mock.patch.object(RoutingTable, "drop", drop_and_read):
        bench.subscribe("s", "n > 0")
    assert not bench.publications.ahead.finish(job, 0.1)
    if error is None:
        job.run()
    assert bench.publications.ahead.finish(job, 0.1, error)
    assert readers(bench.finish()) == ["s"]


def test_a_neighbour_that_changes_its_filters_while_they_are_read_gets_the_event(bench: Bench) -> None:
    """A reader may pass the place of the new filter before it is added, and that of the old one after it is gone."""
    bench.handle(m.Update(2, announce=(m.Entry("a", "default", bench.filter("n > 1")),)), "east")
    bench.publish(n=2)
    job = bench.publications.ahead.begin()
    assert job is not None
    with mock.patch.object(RoutingTable, "next_hops", return_value=[]):
        job.run()
    update = m.Update(3, announce=(m.Entry("b", "default", bench.filter("n > 5")),), retract=("a",))
    bench.handle(update, "east")
    assert bench.publications.ahead.finish(job, 0.1)
    assert hops(bench.finish()) == ["east"]


def test_a_subscription_that_ends_meanwhile_gets_nothing(bench: Bench) -> None:
    bench.subscribe("s", "n > 1")
    bench.publish(n=2)
    job = bench.publications.ahead.begin()
    assert job is not None
    job.run()
    bench.handle(m.Unsubscribe("s", "default"), "alice")
    assert bench.publications.ahead.finish(job, 0.1)
    assert readers(bench.finish()) == []


def test_after_an_error_the_loop_matches_the_event(bench: Bench) -> None:
    bench.subscribe("s", "n > 1")
    bench.publish(n=2)
    job = bench.publications.ahead.begin()
    assert job is not None
    assert bench.publications.ahead.finish(job, 0.1, KeyError("x"))
    assert readers(bench.finish()) == ["s"]
    assert bench.broker.table.watches == []


def test_a_namespace_is_measured_once_and_stays_as_heavy_as_it_was_twice(bench: Bench) -> None:
    event = m.Published(m.EventId("p", 1, 1), "default", b"x" * 100)
    long = m.Published(m.EventId("p", 1, 2), "default", b"x" * ahead.LONG_EVENT)
    weights = {"default": 1 << 20}
    chooser = Ahead(bench.broker.events, lambda name: weights[name])
    assert chooser.is_costly(event)  # unknown
    chooser.learn("default", 0.001)
    assert not chooser.is_costly(event)
    assert chooser.is_costly(long)
    chooser.learn("default", 5.0)
    assert not chooser.is_costly(event)  # a kernel may have been loaded
    chooser.learn("default", 0.5)
    for _ in range(50):
        chooser.learn("default", 0.0001)
    assert chooser.is_costly(event)
    weights["default"] = 3 << 20
    chooser.learn("default", 0.001)
    assert not chooser.is_costly(event)  # there are other subscriptions now
    weights["default"] = 100
    assert not chooser.is_costly(long)


def test_events_of_several_sources_are_matched_at_the_same_time(bench: Bench) -> None:
    for name in ("bob", "carol"):
        payload = bench.content.of("default").write_event({"n": 1})
        event = m.Published(m.EventId(name, 1, 1), "default", payload)
        bench.publications.publish({name: [event, event]}, name, 0.0)
    jobs = [bench.publications.ahead.begin() for _ in range(3)]
    assert [job is None for job in jobs] == [False, False, True]


def test_events_of_one_id_have_routes_of_their_own(bench: Bench) -> None:
    """A neighbour sends events of two namespaces under one id: readers of one namespace get none of the other."""
    bench.subscribe("low", "n < 5")
    id, content = m.EventId("p", 1, 1), bench.content
    everything = content.of("other").write_filter(content.of("other").compile("n > 0"))
    bench.broker.subscribe([("mallory", m.Subscribe("spy", everything, "other"))], 0.0)
    for name in ("other", "default"):
        bench.publications.ahead.learn(name, 0.02)
        bench.publications.ahead.learn(name, 0.02)
    events = [
        m.Published(id, "other", content.of("other").write_event({"n": 1})),
        m.Published(id, "default", content.of("default").write_event({"n": 2})),
        m.Published(id, "default", content.of("default").write_event({"n": 8})),
    ]
    effects = bench.publications.publish({"bob": events}, "bob", 0.0)
    while bench.publications.is_waiting("bob"):
        job = bench.publications.ahead.begin()
        assert job is not None
        assert len(job.events) == len(events)
        job.run()
        assert bench.publications.ahead.finish(job, 0.5)
        effects += bench.finish()
    copies = [(effect.link, effect.message.event) for effect in effects if isinstance(effect, Deliver)]
    assert copies == [("mallory", events[0]), ("alice", events[1])]
