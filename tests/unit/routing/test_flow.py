"""What a broker does about links that take no more events (promise G16)."""

from __future__ import annotations

import pytest

from tamis.errors import InvariantError, RemoteProtocolError
from tamis.node.core import LinkFree, LinkFull, LinkUp
from tamis.node.effects import Deliver, Persist, Send
from tamis.routing import messages as m
from tamis.routing.core.broker import BrokerCore
from tamis.routing.policies import find_policy
from tests.unit.routing.test_broker import CONTENT, Middle, entry, event, outgoing, text

FULL = LinkFull(1_000, 52_000)


def subscribe_both(broker: Middle) -> None:
    """Let a client behind east subscribe to small x, and bob, a client of this broker, to small y."""
    broker.handled(m.Update(2, (entry("eve", 1, "x < 10"),)), "east")
    broker.handled(m.Confirm(2), "west")
    broker.handled(m.Subscribe(1, text("y < 10")), "bob")


def test_an_event_for_a_full_link_is_refused_and_delivered_nowhere() -> None:
    broker = Middle()
    subscribe_both(broker)
    assert broker.handled(FULL, "east") == [Send("west", m.Pause())]
    [refusal] = broker.handled(m.Publish(event(7, x=1, y=1)), "zoe")
    why = "1,000 messages (52,000 bytes) wait for the way to 'east'; publish it again later"
    assert refusal == Send("zoe", m.Refusal("event 7", why, m.EventId("zoe", 1, 7), is_temporary=True))
    assert broker.counters["east"].refused == 1


def test_events_that_go_elsewhere_are_taken() -> None:
    broker = Middle()
    subscribe_both(broker)
    broker.handled(FULL, "east")
    assert broker.handled(m.Publish(event(x=50, y=1)), "zoe") == [Deliver("bob", m.Delivery(event(x=50, y=1), (1,)))]
    batch = m.PublishBatch((event(1, x=1), event(2, y=1)))
    refusal, delivery = broker.handled(batch, "zoe")
    assert (refusal.message.subject, delivery.message.event) == ("event 1", event(2, y=1))


def test_an_event_of_a_neighbour_was_accepted_and_goes_on() -> None:
    broker = Middle()
    subscribe_both(broker)
    broker.handled(FULL, "east")
    assert broker.handled(m.Publish(event(x=1)), "west") == [Send("east", m.Publish(event(x=1)))]


def test_pauses_travel_away_from_what_is_full() -> None:
    broker = Middle()
    subscribe_both(broker)
    assert broker.handled(m.Pause(), "east") == [Send("west", m.Pause())]
    [refusal] = broker.handled(m.Publish(event(x=1)), "zoe")
    assert refusal.message.reason == "a link behind 'east' is full; publish it again later"
    assert broker.handled(m.Pause(), "west") == [Send("east", m.Pause())]
    assert broker.handled(m.Resume(), "east") == [Send("west", m.Resume())]
    assert broker.handled(m.Resume(), "west") == [Send("east", m.Resume())]
    assert broker.flow.is_open


def test_all_resumes_when_the_link_is_free() -> None:
    broker = Middle()
    subscribe_both(broker)
    broker.handled(FULL, "east")
    assert broker.handled(LinkFree(), "east") == [Send("west", m.Resume())]
    assert broker.handled(m.Publish(event(x=1)), "zoe") == [Send("east", m.Publish(event(x=1)))]


def test_what_changed_meanwhile_comes_as_one_table() -> None:
    broker = Middle()
    subscribe_both(broker)
    broker.handled(FULL, "east")
    accepted = Send("bob", m.Status(2, "default", m.State.ACCEPTED))
    assert broker.handled(m.Subscribe(2, text("x < 5")), "bob") == [accepted]
    broker.handled(m.Confirm(3), "west")
    broker.handled(m.Unsubscribe(1), "bob")
    update, resume = broker.handled(LinkFree(), "east")
    assert update == Send("east", m.Update(3, (entry("bob", 2, "x < 5"),), replace=True))
    assert resume == Send("west", m.Resume())


def test_an_event_is_not_refused_because_of_a_slow_reader() -> None:
    broker = Middle()
    subscribe_both(broker)
    assert broker.handled(FULL, "bob") == []
    assert broker.handled(m.Publish(event(y=1)), "zoe") == [Deliver("bob", m.Delivery(event(y=1), (1,)))]
    assert broker.handled(LinkFree(), "bob") == []


def test_a_new_life_of_a_neighbour_has_asked_for_nothing() -> None:
    broker = Middle()
    broker.handled(m.Pause(), "east")
    broker.handled(m.Pause(), "west")
    effects = broker.handled(LinkUp((m.Pause(),)), "east")
    assert [effect.message for effect in effects if not isinstance(effect.message, m.Update)] == [m.Pause(), m.Resume()]
    assert (list(broker.flow.paused), broker.flow.pausing) == (["west"], {"east"})


def test_a_restart_remembers_who_asked_whom() -> None:
    broker, disk = Middle(), {}
    for link in ("east", "west"):
        disk["link", link] = b""
    for effect in broker.handle(m.Pause(), sender="east", now=0):
        if isinstance(effect, Persist) and effect.value is not None:
            disk[effect.key] = effect.value
    again = BrokerCore("middle", dict.fromkeys(("east", "west"), find_policy("covering")), CONTENT)
    assert outgoing(again.restore(disk, now=1)) == []
    assert again.flow.pausing == {"west"}
    assert outgoing(again.handle(m.Resume(), sender="east", now=2)) == [Send("west", m.Resume())]


def test_clients_cannot_stop_a_network() -> None:
    with pytest.raises(RemoteProtocolError, match="link 'zoe': .* Pause"):
        Middle().handle(m.Pause(), sender="zoe", now=0)


def test_invariants_name_who_waits_in_vain() -> None:
    broker = Middle()
    broker.flow.pausing.add("west")
    with pytest.raises(InvariantError, match=r"\['west'\] were asked to pause, \[\] must be"):
        broker.check_invariants()
