"""A client: asks, publishes, and takes each event once."""

from __future__ import annotations

import pytest

from tamis.errors import LocalProtocolError, RemoteProtocolError
from tamis.node.core import LinkUp
from tamis.node.effects import Persist, Send
from tamis.routing import messages as m
from tamis.routing.core.client import USER, ClientCore

EVENT = m.Published(m.EventId("zoe", 1, 2), "default", b"\x80")


def asked() -> ClientCore:
    client = ClientCore("alice", "b1")
    client.handle(m.Subscribe("a", b"true"), sender=USER, now=0)
    return client


def test_what_the_user_says_goes_to_the_broker() -> None:
    client = ClientCore("alice", "b1")
    assert Send("b1", m.Subscribe("a", b"true")) in client.handle(m.Subscribe("a", b"true"), sender=USER, now=0)
    assert client.handle(m.Publish(EVENT), sender=USER, now=0) == [Send("b1", m.Publish(EVENT))]
    with pytest.raises(LocalProtocolError, match="Confirm"):
        client.handle(m.Confirm(1), sender=USER, now=0)
    with pytest.raises(RemoteProtocolError, match="link 'b1': .* Confirm"):
        client.handle(m.Confirm(1), sender="b1", now=0)


def test_states_follow_the_broker() -> None:
    client = asked()
    assert client.states == {("default", "a"): m.State.PENDING}
    for state in (m.State.ACCEPTED, m.State.ACTIVE):
        client.handle(m.Status("a", "default", state), sender="b1", now=0)
        assert client.states == {("default", "a"): state}
    client.handle(m.Unsubscribe("a"), sender=USER, now=0)
    client.handle(m.Status("a", "default", m.State.ACTIVE), sender="b1", now=0)  # late news of one that is cancelled
    client.handle(m.Status("a", "default", m.State.CANCELLED), sender="b1", now=0)
    assert client.states == {("default", "a"): m.State.CANCELLED}


def test_an_event_is_new_once() -> None:
    client = asked()
    assert client.handle(m.Delivery(EVENT, ("a",)), sender="b1", now=0) == [Persist(("cursor", "zoe", "1"), b"2")]
    assert client.handle(m.Delivery(EVENT, ("a",)), sender="b1", now=0) == []
    older = m.Published(m.EventId("zoe", 1, 1), "default", b"\x80")
    client.handle(m.Delivery(older, ("a",)), sender="b1", now=0)
    assert (len(client.deliveries), client.repeated) == (1, 2)
    client.check_invariants()


def test_the_cursor_and_the_questions_survive() -> None:
    disk = {("cursor", "zoe", "1"): b"2", ("asked", "default", '"a"'): m.encode(m.Subscribe("a", b"true"))}
    client = ClientCore("alice", "b1")
    assert client.restore(disk, now=0) == []
    client.handle(m.Delivery(EVENT, ("a",)), sender="b1", now=0)
    assert client.deliveries == []
    assert client.states == {("default", "a"): m.State.PENDING}


def test_a_broker_that_lost_its_disk_is_asked_again() -> None:
    client = asked()
    client.handle(m.Subscribe("b", b"true"), sender=USER, now=0)
    client.handle(m.Unsubscribe("b"), sender=USER, now=0)
    lost = (m.Unsubscribe("b"), m.Publish(EVENT))
    assert client.handle(LinkUp(lost), sender="b1", now=0) == [
        Send("b1", m.Subscribe("a", b"true")),
        Send("b1", m.Publish(EVENT)),
    ]
    assert client.states == {("default", "a"): m.State.PENDING, ("default", "b"): m.State.CANCELLED}


def test_refusals_are_kept() -> None:
    client = asked()
    client.handle(m.Refusal("event 1", "why"), sender="b1", now=0)
    assert [one.reason for one in client.refusals] == ["why"]
