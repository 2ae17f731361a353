"""A broker loses its disk before a publisher receives a refusal: what is confirmed in the end arrives (G4)."""

from __future__ import annotations

import logging

import pytest

from tamis import Number, Schema
from tamis.errors import TamisError
from tamis.node.content import Content
from tamis.node.frames import Frame, encode_frame
from tamis.node.node import Codec, Node
from tamis.node.stream import Ends, Quota, read_nothing
from tamis.routing import messages as m
from tamis.routing.core.broker import BrokerCore
from tamis.routing.edge.core import EdgeCore
from tamis.routing.edge.rights import Rights
from tamis.routing.policies import POLICIES
from tamis.runtime.broker.machine import BrokerMachine, Connection
from tamis.runtime.client.client_values import encode_event
from tamis.runtime.client.session import ClientSession, Reader
from tamis.runtime.packets import join_frames
from tamis.runtime.simulation.inbox import take_waiting

CONTENT = Content(Schema({"n": Number(0, 100)}))


def start_broker(
    name: str, neighbour: str, *, epoch: int = 1, quota: Quota | None = None, drops: bool = False
) -> BrokerMachine:
    """Return a broker that starts without a disk, in the life ``epoch``; ``drops`` is whether its link drops events."""
    ends = Ends()
    core = BrokerCore(name, {neighbour: POLICIES["covering"]}, CONTENT, drops=[neighbour] if drops else ())
    edge = EdgeCore(core, CONTENT, ends)
    node = Node(edge, [neighbour], Codec(m.encode, m.decode), epoch, quota=quota, ends=ends)
    machine = BrokerMachine(node, clock=lambda: 0.0, commit=lambda changes, then: then(), read=read_nothing)
    machine.step(lambda node, now: node.start(now))
    return machine


def connect(machine: BrokerMachine, link: str, rights: Rights | None = None) -> Connection:
    connection = Connection(link, rights)
    machine.connect(connection)
    return connection


class Link:
    """A wire between two brokers that carries only when it is told to."""

    def __init__(self, a: BrokerMachine, b: BrokerMachine) -> None:
        self.ends = [(a, connect(a, "b")), (b, connect(b, "a"))]

    def carry(self) -> None:
        """Carry packets both ways until there are none."""
        is_busy = True
        while is_busy:
            is_busy = False
            for (sender, out), (receiver, into) in (self.ends, self.ends[::-1]):
                while (packet := sender.take_packet(out)) is not None:
                    receiver.receive(into, packet)
                    is_busy = True


class WiredClient:
    """A client on a wire to a broker; what the broker says arrives only when it is told to."""

    def __init__(self, name: str, machine: BrokerMachine) -> None:
        self.name, self.session = name, ClientSession(name, None, 1)
        self.dial(machine)

    def dial(self, machine: BrokerMachine) -> None:
        self.session.link.lost()
        self.machine, self.connection = machine, connect(machine, self.name, Rights(self.name))
        machine.receive(self.connection, self.session.link.greeting())
        self.hear()

    def speak(self) -> None:
        while (packet := self.session.next_packet()) is not None:
            self.machine.receive(self.connection, packet)

    def hear(self) -> None:
        while (packet := self.machine.take_packet(self.connection)) is not None:
            self.session.take(packet)

    def publish(self, n: int, fates: dict[int, str]) -> None:
        """Publish an event with this ``n`` and this number; ``fates`` will say what became of it."""

        def note(error: TamisError | None) -> None:
            fates[n] = "confirmed" if error is None else "refused"

        self.session.publish("default", [encode_event({"n": n})], note)
        self.speak()

    def read(self) -> list[int]:
        """Return the numbers of the events that wait to be read."""
        return [delivery.event.id.seq for _, delivery, _ in take_waiting(self.session)]


def test_an_event_that_a_former_life_refused_arrives_behind_later_ones() -> None:
    a, b = start_broker("a", "b", quota=Quota(messages=1)), start_broker("b", "a")
    link = Link(a, b)
    link.carry()
    publisher, subscriber = WiredClient("publisher", a), WiredClient("subscriber", b)
    wanted = m.Subscribe(1, CONTENT.write_filter(CONTENT.compile("n >= 0")))
    reader = Reader(wanted)
    subscriber.session.follow(reader)
    subscriber.session.say(wanted)
    subscriber.speak()
    link.carry()
    subscriber.hear()
    assert reader.state is m.State.ACTIVE

    fates: dict[int, str] = {}
    publisher.publish(1, fates)  # it waits for b, so the link is full
    publisher.publish(2, fates)  # it is refused, and the publisher does not receive the refusal
    link.carry()
    publisher.publish(3, fates)
    link.carry()
    subscriber.hear()
    assert (subscriber.read(), fates) == ([1, 3], {})

    a = start_broker("a", "b", epoch=2)  # a lost its disk
    link = Link(a, b)
    link.carry()
    publisher.dial(a)
    publisher.speak()
    publisher.hear()
    link.carry()
    subscriber.hear()
    assert fates == {1: "confirmed", 2: "confirmed", 3: "confirmed"}
    assert (subscriber.read(), subscriber.session.repeated) == ([2], 2)


def test_the_log_says_that_messages_of_an_old_copy_are_ignored(caplog: pytest.LogCaptureFixture) -> None:
    """A neighbour whose disk was replaced by a copy is in a life before the one that is known: none of it is taken."""
    caplog.set_level(logging.WARNING, "tamis")
    a = start_broker("a", "b")
    Link(a, start_broker("b", "a", epoch=5)).carry()
    assert not caplog.messages
    copy = start_broker("b", "a", epoch=3)
    Link(a, copy).carry()
    wire = connect(a, "b")
    while a.node.ends["b"].n_late < 100:
        a.receive(wire, join_frames([encode_frame(Frame(3, 1, 0, 0))]))
    noted = [message for message in caplog.messages if message.startswith("link b: a message of life 3 ")]
    assert noted == caplog.messages
    assert [message.partition("since (")[2].partition(" so far")[0] for message in noted] == ["1", "10", "100"]
    assert "it began life 5" in noted[0]
    assert "tamis serve restore" in noted[0]
