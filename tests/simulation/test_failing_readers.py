"""Readers that fail on some events: those go to the dead letters, once, after as many attempts as are allowed."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any
from unittest import mock

import msgspec
import pytest

from tamis import Number, Schema
from tamis.errors import InvariantError
from tamis.node.content import Content
from tamis.node.stream import StreamEnd
from tamis.routing import messages as m
from tamis.routing.core.broker import BrokerCore
from tamis.routing.edge.core import EdgeCore
from tamis.routing.edge.link_names import client_link, dead_letters_link, http_link
from tamis.routing.edge.requests import Accepted, Post, Posts, SubscribeFor
from tamis.routing.edge.rights import Rights
from tamis.runtime.broker.failing import ALONE_SECONDS, FailedDeliveries
from tamis.runtime.broker.machine import BrokerMachine
from tamis.runtime.client.session import Reader
from tamis.runtime.simulation.brokers import BrokerSimulator
from tamis.runtime.simulation.hosts import ClientHost
from tamis.runtime.simulation.inbox import take_waiting
from tamis.runtime.simulation.simulator import NO_FAULTS, Faults

CONTENT = Content(Schema({"n": Number(0, 10_000)}))
RIGHTS = Rights("local")
MOST, SECONDS, EVENTS = 3, 30.0, 24


class Failing:
    """One seed: a broker that crashes, and a client that crashes whenever it gets an event that it cannot handle."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        #: What was written to a wire that breaks counts, though it never arrived.
        self.wires_break = seed % 2 == 1
        self.sim = BrokerSimulator(seed=seed, faults=NO_FAULTS)
        self.host = self.sim.add_broker("b", self._edge, ())
        self.poison = {n for n in range(1, EVENTS + 1) if self.rng.random() < 0.15}
        self.link = client_link("local", "reader")
        self.attempts: Counter[int] = Counter()
        self.handled: Counter[int] = Counter()
        self.client = self.sim.add_client("reader", "b", RIGHTS)
        self.client.on_news = self._read

    def _edge(self, ends: dict[str, StreamEnd], audited: int) -> EdgeCore:
        return EdgeCore(BrokerCore("b", {}, CONTENT), CONTENT, ends, audited=audited)

    @property
    def message(self) -> m.Subscribe:
        about = msgspec.json.encode(m.About("", "n >= 0", max_deliveries=MOST))
        return m.Subscribe("all", CONTENT.write_filter(CONTENT.compile("n >= 0")), about=about)

    def _follow(self) -> None:
        self.client.session.follow(Reader(self.message))
        self.client.session.say(self.message)
        self.sim.pump(self.client)

    def run(self) -> None:
        self._follow()
        self.sim.run()
        self.sim.faults = Faults(crash=0.01, drop=0.02 if self.wires_break else 0.0, downtime=1.0)
        for n in range(1, EVENTS + 1):
            self.sim.call_later(self.rng.uniform(0, SECONDS), self._publish, n)
        self.sim.run(until=SECONDS)
        self.sim.faults = NO_FAULTS
        self.sim.start(self.host)
        self.sim.run(until=self.sim.now + 60.0)
        self._judge()

    def _publish(self, n: int) -> None:
        """Send a numbered event until it is taken: the broker may have died."""
        answers: list[Any] = []
        if self.host.machine is not None:
            post = Post(({"n": n},), "default", RIGHTS, f"p{n}@b", 1, producer=f"p{n}")
            self.host.machine.submit(Posts((post,)), done=answers.extend)
        self.sim.call_later(0.5, lambda: None if answers else self._publish(n))
        assert all(isinstance(answer, Accepted) for answer in answers)

    def _read(self, host: ClientHost) -> None:
        for cursor, delivery, readers in take_waiting(host.session):
            n = int(CONTENT.read_event(delivery.event.payload)["n"])
            self.attempts[n] += 1
            if n in self.poison:  # it dies, and is started again
                self.sim.restart_client(host)
                self._follow()
                return
            self.handled[n] += 1
            for reader in readers:
                host.session.acknowledge(reader, cursor)
        host.wake()

    def dead(self) -> list[int]:
        link = dead_letters_link(self.link)
        if link not in self.host.ends:
            return []
        bodies = [body for _, body in self.host.disk.read_outbox(link, 0, 1_000)]
        messages = [m.decode(body, link) for body in bodies]
        return [
            int(CONTENT.read_event(message.event.payload)["n"])
            for message in messages
            if isinstance(message, m.Delivery)
        ]

    def _judge(self) -> None:
        dead = self.dead()
        if len(dead) > len(set(dead)):
            raise InvariantError(f"dead twice: {sorted(dead)}")
        if lost := set(range(1, EVENTS + 1)) - {*self.handled} - {*dead}:
            raise InvariantError(f"neither handled nor dead: {sorted(lost)}")
        if not self.wires_break and (too_early := [n for n in dead if self.attempts[n] < MOST]):
            raise InvariantError(f"dead before {MOST} attempts: {too_early}")
        if not self.wires_break and (innocent := {*dead} - self.poison):
            raise InvariantError(f"dead without a failure: {sorted(innocent)}")
        if left := self.poison - {*dead}:
            raise InvariantError(f"still tried: {sorted(left)}")
        if len(self.host.ends[self.link].outbox):
            raise InvariantError("messages are left")


def run_seeds(seeds: range) -> Counter[str]:
    totals: Counter[str] = Counter()
    for seed in seeds:
        world = Failing(seed)
        try:
            world.run()
        except InvariantError as error:
            raise InvariantError(f"seed {seed}: {error.broken}") from error
        totals.update(crashes=world.sim.counts.get("crashes", 0), dead=len(world.dead()))
    return totals


def test_what_a_client_fails_on_is_a_dead_letter_and_nothing_is_lost() -> None:
    totals = run_seeds(range(10))
    assert min(totals["crashes"], totals["dead"]) > 5, totals


@pytest.mark.soak
@pytest.mark.parametrize("start", range(0, 2_000, 250))
def test_what_a_client_fails_on_is_a_dead_letter_in_many_worlds(start: int) -> None:
    run_seeds(range(start, start + 250))


def test_the_judge_notices_that_nothing_is_counted() -> None:
    with (
        mock.patch.object(FailedDeliveries, "end_reading", return_value=None),
        pytest.raises(InvariantError, match="neither handled nor dead"),
    ):
        run_seeds(range(4))


# One machine


def queue(most: int = 2, **about: Any) -> tuple[BrokerMachine, str, BrokerSimulator]:
    """Return a broker with a queue of three events."""
    world = Failing(0)
    link = http_link("default", "q")
    about_bytes = msgspec.json.encode(m.About("local", "", max_deliveries=most, **about))
    message = m.Subscribe("q", CONTENT.write_filter(CONTENT.compile("n >= 0")), about=about_bytes)
    machine = world.host.machine
    assert machine is not None
    machine.submit(SubscribeFor(((link, message),), RIGHTS))
    world.sim.run()
    machine.submit(Posts((Post(({"n": 1}, {"n": 2}, {"n": 3}), "default", RIGHTS, "p@b", 1),)))
    world.sim.run()
    return machine, link, world.sim


def test_the_first_open_message_of_a_reader_that_ends_is_counted_and_no_other() -> None:
    machine, link, sim = queue()
    end, dead = machine.node.ends[link], dead_letters_link(link)
    for written in (3, 0):  # the second got nothing
        machine.failing.end_reading(link, written)
        sim.run()
    assert (end.acknowledged, dead in machine.node.ends) == (0, False)
    machine.failing.end_reading(link, 1)
    sim.run()
    assert (end.acknowledged, machine.node.ends[dead].sent) == (1, 1)
    machine.failing.stop()
    machine.failing.end_reading(link, 2)
    sim.run()
    assert not machine.node.core.backlogs.sharing._holds[link]


@pytest.mark.parametrize("about", [{"most": 0}, {"durable": False}])
def test_without_a_limit_nothing_is_counted(about: dict[str, Any]) -> None:
    machine, link, sim = queue(**about)
    for _ in range(5):
        machine.failing.end_reading(link, 1)
    sim.run()
    assert machine.node.ends[link].acknowledged == 0


@pytest.mark.parametrize("most", [1, 3])
def test_a_message_that_was_not_alone_is_not_a_dead_letter(most: int) -> None:
    machine, link, sim = queue(most=most)
    for _ in range(5):  # the client may have failed on the second or third, and acknowledges several at once
        machine.failing.end_reading(link, 3)
        sim.run()
    assert machine.node.ends[link].acknowledged == 0
    assert machine.node.core.backlogs.sharing.has_failed(link)
    machine.failing.end_reading(link, 1)
    sim.run()
    assert machine.node.ends[link].acknowledged == 1


def test_messages_in_the_middle_are_buried_and_the_rest_stays_open() -> None:
    machine, link, sim = queue(most=1)
    worn: list[Any] = []
    machine.failing.count(link, [2], worn.append)
    sim.run()
    assert worn == [(2,)]
    assert machine.node.ends[link].acknowledged == 0
    assert machine.node.core.backlogs.sharing.is_settled(link, 2)
    machine.failing.count(link, [2], worn.append)
    sim.run()
    assert worn == [(2,), (2,)], "a reader that tries a settled message must learn that it is settled"
    assert machine.node.ends[dead_letters_link(link)].sent == 1
    machine.failing.count(link, [1], worn.append)
    sim.run()
    assert machine.node.ends[link].acknowledged == 2


# One client


def test_a_client_that_acknowledges_several_messages_at_once_goes_on_after_a_failure() -> None:
    world, got, held = Failing(0), list[int](), list[tuple[Any, Any]]()
    sim, machine = world.sim, world.host.machine
    assert machine is not None

    def read(host: ClientHost) -> None:
        for cursor, delivery, readers in take_waiting(host.session):
            got.append(int(CONTENT.read_event(delivery.event.payload)["n"]))
            held.extend((reader, cursor) for reader in readers)
        if len(got) == 3:
            for reader, cursor in held:
                host.session.acknowledge(reader, cursor)
        host.wake()

    world._follow()
    sim.run()
    world.client.on_news = lambda host: None
    machine.submit(Posts((Post(({"n": 1}, {"n": 2}, {"n": 3}), "default", RIGHTS, "p@b", 1),)))
    sim.run()
    for _ in range(2 * MOST):  # it ends each time, having all of them
        sim.restart_client(world.client)
        world._follow()
        sim.run(until=sim.now + 2.0)
        machine.tick()
        sim.run(until=sim.now + ALONE_SECONDS + 1.0)
        machine.tick()
        sim.run()
    assert world.dead() == []
    sim.restart_client(world.client)
    world._follow()
    world.client.on_news = read
    sim.run(until=sim.now + 2.0)
    assert got == [1], "what it failed on comes alone"
    sim.run(until=sim.now + ALONE_SECONDS + 1.0)
    machine.tick()
    sim.run()
    assert got == [1, 2, 3]
    assert not len(world.host.ends[world.link].outbox)


def test_a_connection_that_the_broker_ends_does_not_count() -> None:
    world = Failing(0)
    sim, machine = world.sim, world.host.machine
    assert machine is not None
    world._follow()
    sim.run()
    world.client.on_news = lambda host: None
    machine.submit(Posts((Post(({"n": 1},), "default", RIGHTS, "p@b", 1),)))
    sim.run()
    sim.close(world.client, "the token was revoked")
    sim.run()
    assert world.link not in machine.connections
    assert not machine.node.core.backlogs.sharing.has_failed(world.link)
