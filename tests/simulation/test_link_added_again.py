"""A link is removed and added again at one end while an acknowledgement is under way: the event comes once."""

from __future__ import annotations

from tamis.node.stream import Quota
from tamis.routing import messages as m
from tamis.routing.core.link_gaps import AddLink, RemoveLink
from tamis.routing.edge.rights import Rights
from tamis.routing.policies import POLICIES
from tamis.runtime.broker.config import LinkConfig
from tamis.runtime.client.session import Reader
from tamis.runtime.links.changing import add_link, remove_link
from tamis.runtime.links.overrides import LinkOverride
from tests.simulation.test_lost_disk import CONTENT, Link, WiredClient, start_broker


def test_what_was_taken_before_the_link_was_removed_does_not_come_again() -> None:
    a, b = start_broker("a", "b"), start_broker("b", "a")
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
    publisher.publish(1, fates)
    (sender, out), (receiver, into) = link.ends
    packet = sender.take_packet(out)
    assert packet is not None
    receiver.receive(into, packet)  # b has the event, and a does not know
    publisher.publish(2, fates)  # this one b never gets on that wire
    answers: list[object] = []
    operator = Rights("operator", is_admin=True)
    remove_link(b, RemoveLink("a", LinkOverride(None, None).record("a")), operator, answers.append)
    record = LinkOverride(LinkConfig("a"), None).record("a")
    add_link(b, AddLink("a", POLICIES["covering"], record), operator, answers.append)
    assert answers == [0, 0]
    while b.node.core.broker.table.filling:  # the driver makes these steps: the broker has asked for them
        b.step(lambda node, now: node.submit(m.Tick(), sender="", now=now))
    again = Link(a, b)
    again.carry()
    publisher.publish(3, fates)
    again.carry()
    subscriber.hear()
    assert subscriber.read() == [1, 2, 3]
    assert not subscriber.session.repeated
    assert b.node.core.broker.progress_of("a") == a.node.core.broker.progress_of("b") == (True, True)


def test_what_waits_for_a_dead_link_that_drops_is_sent_over_another_with_the_gap_in_its_place() -> None:
    a = start_broker("a", "b", quota=Quota(4), drops=True)
    publisher, fates = WiredClient("publisher", a), dict[int, str]()
    for number in range(1, 7):  # b never comes: a forwards everything to it
        publisher.publish(number, fates)
    answers: list[object] = []
    record, operator = LinkOverride(LinkConfig("c"), None).record("c"), Rights("operator", is_admin=True)
    add_link(a, AddLink("c", POLICIES["covering"], record), operator, answers.append, resend_from="b")
    outbox, overflow = a.node.waiting("c")
    published = [message.event.id.seq if isinstance(message, m.Publish) else message.count for message in outbox]
    assert [type(message) for message in outbox] == [m.Publish, m.LinkGap, m.Publish, m.Publish, m.Publish]
    assert (published, overflow) == ([1, 2, 4, 5, 6], [])
    remove_link(a, RemoveLink("b", LinkOverride(None, None).record("b")), operator, answers.append)
    assert answers == [6, 6]


def test_a_link_is_added_once_and_removed_once() -> None:
    a = start_broker("a", "b")
    answers: list[object] = []
    operator, record = Rights("operator", is_admin=True), LinkOverride(None, None).record("b")
    add_link(a, AddLink("b", POLICIES["covering"], record), operator, answers.append)
    remove_link(a, RemoveLink("c", record), operator, answers.append)
    assert [getattr(answer, "code", None) for answer in answers] == [409, 404]
    add_link(a, AddLink("c", POLICIES["covering"], record), operator, answers.append, resend_from="d")
    assert getattr(answers[-1], "code", None) == 404
    assert not a.is_neighbour("c")
