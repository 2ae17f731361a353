"""A broker's decisions, each as two lists: what came, what follows."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from tamis import Number, Region, Schema, String, Timestamp, Vector
from tamis.errors import InvariantError, RemoteProtocolError
from tamis.node import records
from tamis.node.content import Content
from tamis.node.core import LinkUp
from tamis.node.effects import Deliver, Effect, Persist, Send
from tamis.routing import messages as m
from tamis.routing.core.broker import BrokerCore, client_key
from tamis.routing.core.event_batch import SMALL_BATCH
from tamis.routing.core.routing_table import SMALL_TABLE
from tamis.routing.policies import POLICIES, find_policy

CONTENT = Content(
    Schema(
        {"x": Number(), "y": Number(), "s": String(), "at": Timestamp(), "where": Region(), "look": Vector(2)},
    )
)


def text(source: str) -> bytes:
    return CONTENT.write_filter(CONTENT.compile(source))


def event(seq: int = 1, namespace: str = "default", **values: Any) -> m.Published:
    return m.Published(m.EventId("zoe", 1, seq), namespace, CONTENT.write_event(values))


def entry(client: str, id: int | str, source: str, namespace: str = "default") -> m.Entry:
    return m.Entry(client_key(client, namespace, id), namespace, text(source))


def outgoing(effects: list[Effect]) -> list[Effect]:
    """Return what leaves the broker; what is persisted is for other tests."""
    return [effect for effect in effects if not isinstance(effect, Persist)]


class Middle(BrokerCore):
    """A broker between west and east that both know it, and that was told their empty tables."""

    def __init__(self, policy: str = "covering") -> None:
        super().__init__("middle", {"east": find_policy(policy), "west": find_policy(policy)}, CONTENT)
        for link in ("east", "west"):
            self.handle(LinkUp(), sender=link, now=0)
            self.handle(m.Update(1, replace=True), sender=link, now=0)
        for link in ("east", "west"):
            self.handle(m.Confirm(1), sender=link, now=0)

    def handled(self, message: Any, sender: str, now: float = 0.0) -> list[Effect]:
        effects = outgoing(self.handle(message, sender=sender, now=now))
        self.check_invariants()
        return effects


ACCEPTED, ACTIVE, CANCELLED = m.State.ACCEPTED, m.State.ACTIVE, m.State.CANCELLED


def test_a_subscription_is_announced_to_every_neighbour_and_a_covered_one_to_none() -> None:
    broker = Middle()
    assert broker.handled(m.Subscribe("wide", text("x < 10")), "alice") == [
        Send("alice", m.Status("wide", "default", ACCEPTED)),
        Send("east", m.Update(2, (entry("alice", "wide", "x < 10"),))),
        Send("west", m.Update(2, (entry("alice", "wide", "x < 10"),))),
    ]
    assert broker.handled(m.Subscribe("narrow", text("x < 5")), "bob") == [
        Send("bob", m.Status("narrow", "default", ACCEPTED)),
    ]


def test_a_subscription_is_active_when_all_neighbours_have_confirmed() -> None:
    broker = Middle()
    broker.handled(m.Subscribe("wide", text("x < 10")), "alice")
    assert broker.handled(m.Confirm(2), "east") == []
    assert broker.handled(m.Confirm(2), "west") == [Send("alice", m.Status("wide", "default", ACTIVE))]


def test_a_covered_one_is_active_when_its_cover_is() -> None:
    broker = Middle()
    broker.handled(m.Subscribe("wide", text("x < 10")), "alice")
    broker.handled(m.Subscribe("narrow", text("x < 5")), "bob")
    broker.handled(m.Confirm(2), "east")
    assert broker.handled(m.Confirm(2), "west") == [
        Send("alice", m.Status("wide", "default", ACTIVE)),
        Send("bob", m.Status("narrow", "default", ACTIVE)),
    ]


def test_what_a_cover_hid_is_announced_in_the_step_that_retracts_it() -> None:
    broker = Middle()
    broker.handled(m.Subscribe("wide", text("x < 10")), "alice")
    broker.handled(m.Subscribe("narrow", text("x < 5")), "bob")
    update = m.Update(3, (entry("bob", "narrow", "x < 5"),), (client_key("alice", "default", "wide"),))
    assert broker.handled(m.Unsubscribe("wide"), "alice") == [
        Send("east", update),
        Send("west", update),
        Send("alice", m.Status("wide", "default", CANCELLED)),
    ]


def test_a_new_cover_takes_the_place_of_what_it_covers() -> None:
    broker = Middle()
    broker.handled(m.Subscribe("narrow", text("x < 5")), "bob")
    update = m.Update(3, (entry("alice", "wide", "x < 10"),), (client_key("bob", "default", "narrow"),))
    assert broker.handled(m.Subscribe("wide", text("x < 10")), "alice")[1:] == [
        Send("east", update),
        Send("west", update),
    ]


def test_a_cover_from_a_neighbour_suppresses_nothing_toward_it() -> None:
    broker = Middle()
    wide = entry("zoe", "wide", "x < 10")
    assert broker.handled(m.Update(2, (wide,)), "east") == [Send("west", m.Update(2, (wide,)))]
    assert broker.handled(m.Subscribe("narrow", text("x < 5")), "bob") == [
        Send("bob", m.Status("narrow", "default", ACCEPTED)),
        Send("east", m.Update(2, (entry("bob", "narrow", "x < 5"),))),
    ]


def test_an_update_is_confirmed_when_the_others_have_confirmed() -> None:
    broker = Middle()
    broker.handled(m.Update(2, (entry("zoe", "wide", "x < 10"),)), "east")
    assert broker.handled(m.Confirm(2), "west") == [Send("east", m.Confirm(2))]


def test_equal_filters_do_not_suppress_each_other() -> None:
    broker = Middle()
    assert len(broker.handled(m.Subscribe(1, text("x < 10")), "alice")) == 3
    assert len(broker.handled(m.Subscribe(2, text("x < 10")), "bob")) == 1
    again = broker.handled(m.Unsubscribe(1), "alice")
    assert Send("east", m.Update(3, (entry("bob", 2, "x < 10"),), (client_key("alice", "default", 1),))) in again


def test_namespaces_do_not_cover_each_other() -> None:
    broker = Middle()
    broker.handled(m.Subscribe(1, text("x < 10")), "alice")
    assert len(broker.handled(m.Subscribe(1, text("x < 5"), "other"), "alice")) == 3


def test_an_event_goes_where_it_is_wanted_and_not_back() -> None:
    broker = Middle()
    broker.handled(m.Update(2, (entry("zoe", 1, "x < 10"),)), "east")
    broker.handled(m.Update(2, (entry("yan", 1, "x < 10"),)), "west")
    assert broker.handled(m.Publish(event(x=3)), "east") == [Send("west", m.Publish(event(x=3)))]
    assert broker.handled(m.Publish(event(x=30)), "east") == []
    assert broker.handled(m.Publish(event(x=3)), "zed") == [
        Send("east", m.Publish(event(x=3))),
        Send("west", m.Publish(event(x=3))),
    ]


def test_one_copy_per_client_with_all_its_ids() -> None:
    broker = Middle()
    broker.handled(m.Subscribe("a", text("x < 10")), "alice")
    broker.handled(m.Subscribe("b", text("x > 1")), "alice")
    broker.handled(m.Subscribe("c", text("x > 5")), "alice")
    assert broker.handled(m.Publish(event(x=3)), "zed") == [Deliver("alice", m.Delivery(event(x=3), ("a", "b")))]


def test_events_of_another_namespace_are_not_delivered() -> None:
    broker = Middle()
    broker.handled(m.Subscribe("a", text("x < 10"), "other"), "alice")
    assert broker.handled(m.Publish(event(x=3)), "zed") == []
    assert len(broker.handled(m.Publish(event(x=3, namespace="other")), "zed")) == 1


def test_a_new_subscription_gets_events_of_a_neighbour_once_it_has_confirmed() -> None:
    broker = Middle()
    broker.handled(m.Subscribe("a", text("x < 10")), "alice")
    assert broker.handled(m.Publish(event(1, x=3)), "east") == []
    assert len(broker.handled(m.Publish(event(2, x=3)), "zed")) == 1
    broker.handled(m.Confirm(2), "east")
    assert len(broker.handled(m.Publish(event(3, x=3)), "east")) == 1


def test_a_filter_that_changes_leaves_no_gap() -> None:
    broker = Middle()
    broker.handled(m.Subscribe("a", text("x BETWEEN 0 AND 10")), "alice")
    broker.handled(m.Confirm(2), "east")
    broker.handled(m.Confirm(2), "west")
    update = m.Update(3, (entry("alice", "a", "x BETWEEN 5 AND 15"),))  # one step, and nothing is retracted
    changed = broker.handled(m.Subscribe("a", text("x BETWEEN 5 AND 15")), "alice")
    assert changed[1:] == [Send("east", update), Send("west", update)]
    assert broker.handled(m.Publish(event(1, x=3)), "east") == []  # outside the new filter
    assert len(broker.handled(m.Publish(event(2, x=7)), "east")) == 1  # in both: no broker drops it at any time
    assert (
        broker.handled(m.Publish(event(3, x=12)), "east") == []
    )  # in the new one only: a broker may still drop the next
    assert len(broker.handled(m.Publish(event(4, x=12)), "zed")) == 1
    broker.handled(m.Confirm(3), "east")
    assert len(broker.handled(m.Publish(event(5, x=12)), "east")) == 1
    assert broker.handled(m.Confirm(3), "west") == [Send("alice", m.Status("a", "default", ACTIVE))]


def test_a_filter_that_changes_twice_is_active_once_and_brings_what_all_of_them_match() -> None:
    broker = Middle()
    broker.handled(m.Subscribe("a", text("x < 10")), "alice")
    broker.handled(m.Confirm(2), "east")
    broker.handled(m.Confirm(2), "west")
    broker.handled(m.Subscribe("a", text("x < 5")), "alice")
    broker.handled(m.Subscribe("a", text("x < 9")), "alice")
    assert broker.handled(m.Publish(event(1, x=7)), "east") == []  # a broker with x < 5 would drop the next one
    assert len(broker.handled(m.Publish(event(2, x=3)), "east")) == 1
    assert broker.handled(m.Confirm(3), "east") == broker.handled(m.Confirm(3), "west") == []
    assert broker.handled(m.Confirm(4), "east") == []
    assert broker.handled(m.Confirm(4), "west") == [Send("alice", m.Status("a", "default", ACTIVE))]


def test_a_batch_stays_a_batch_and_keeps_its_order() -> None:
    broker = Middle()
    broker.handled(m.Update(2, (entry("zoe", 1, "x < 10"),)), "east")
    batch = m.PublishBatch((event(1, x=3), event(2, x=30), event(3, x=4)))
    assert broker.handled(batch, "west") == [Send("east", m.PublishBatch((event(1, x=3), event(3, x=4))))]


def test_a_large_batch_meets_many_subscriptions_as_one_table() -> None:
    one_by_one, batched = Middle(), Middle()
    for number in range(SMALL_TABLE + 10):
        for broker in (one_by_one, batched):
            broker.handle(m.Subscribe(number, text(f"x BETWEEN {number} AND {number + 3}")), sender="alice", now=0)
    values: list[dict[str, Any]] = [{"x": x / 2} for x in range(SMALL_BATCH * 2)]
    values += [{"x": Decimal("5.00000000000000000000000001")}, {"s": "x"}, {}]
    events = [event(seq, **fields) for seq, fields in enumerate(values)]
    single = [effect for event in events for effect in one_by_one.handle(m.Publish(event), sender="zed", now=0)]
    assert batched.handle(m.PublishBatch(tuple(events)), sender="zed", now=0) == single
    assert len(single) == SMALL_BATCH * 2 + 1


@pytest.mark.parametrize("policy", ["covering", "two-stage", "mics"])
def test_a_large_batch_is_put_to_each_neighbour_as_one_table(policy: str) -> None:
    brokers = [BrokerCore("middle", dict.fromkeys(("east", "west"), POLICIES[policy]), CONTENT) for _ in range(2)]
    for broker in brokers:
        for number, link in enumerate(("east", "west")):
            entries = [
                entry("zoe", n, f"x BETWEEN {n} AND {n + number}") for n in range(0, 2 * SMALL_TABLE, 1 + number)
            ]
            broker.handle(m.Update(1, tuple(entries), replace=True), sender=link, now=0)
    values: list[dict[str, Any]] = [{"x": x / 2} for x in range(SMALL_BATCH * 2)]
    values += [{"x": Decimal("4.50000000000000000000000001")}, {"s": "x"}, {}]
    events = [event(seq, **fields) for seq, fields in enumerate(values)]
    for sender in ("zed", "west"):
        singly = [outgoing(brokers[0].handle(m.Publish(event), sender=sender, now=0)) for event in events]
        hops = [[(send.link, send.message.event.id.seq) for send in sends] for sends in singly]
        batched = brokers[1].handle(m.PublishBatch(tuple(events)), sender=sender, now=0)
        sent = {send.link: [event.id.seq for event in send.message.events] for send in outgoing(batched)}
        assert sent == {
            link: [seq for some in hops for name, seq in some if name == link]
            for link in ("east", "west")
            if link != sender
        }
        assert 0 < len(sent["east"]) < len(events)


def test_a_neighbour_that_has_not_spoken_gets_everything() -> None:
    broker = BrokerCore("middle", {"east": POLICIES["covering"]}, CONTENT)
    assert outgoing(broker.handle(m.Publish(event(x=3)), sender="zed", now=0)) == [Send("east", m.Publish(event(x=3)))]


def test_a_table_is_sent_when_all_others_have_spoken() -> None:
    covering = POLICIES["covering"]
    broker = BrokerCore("middle", {"east": covering, "west": covering}, CONTENT)
    assert outgoing(broker.handle(LinkUp(), sender="east", now=0)) == []
    assert outgoing(broker.handle(LinkUp(), sender="west", now=0)) == []
    wide = entry("zoe", "wide", "x < 10")
    assert outgoing(broker.handle(m.Update(1, (wide,), replace=True), sender="west", now=0)) == [
        Send("east", m.Update(1, (wide,), replace=True)),
    ]


def test_a_neighbour_that_lost_its_disk_gets_the_table_and_then_its_events() -> None:
    broker = Middle()
    broker.handled(m.Subscribe("wide", text("x < 10")), "alice")
    lost = (m.Update(2), m.Publish(event(x=3)), m.Confirm(1))
    assert broker.handled(LinkUp(lost), "east") == [
        Send("east", m.Update(3, (entry("alice", "wide", "x < 10"),), replace=True)),
        Send("east", m.Publish(event(x=3))),
    ]


def test_the_old_table_of_a_lost_neighbour_is_kept_until_it_speaks() -> None:
    broker = Middle()
    broker.handled(m.Update(2, (entry("zoe", 1, "x < 10"),)), "east")
    broker.handled(LinkUp(), "east")
    assert broker.handled(m.Publish(event(x=3)), "west") == [Send("east", m.Publish(event(x=3)))]
    broker.handled(m.Update(1, replace=True), "east")
    assert broker.handled(m.Publish(event(x=3)), "west") == []


def test_a_restart_sends_every_table_again() -> None:
    first, disk = Middle(), dict[Any, bytes]()
    for message, sender in [
        (m.Subscribe("wide", text("x < 10")), "alice"),
        (m.Update(2, (entry("zoe", 1, "y < 10"),)), "east"),
    ]:
        for effect in first.handle(message, sender=sender, now=0):
            if isinstance(effect, Persist) and effect.value is not None:
                disk[effect.key] = effect.value
    disk |= {("spoken", "west"): b"1", ("link", "east"): b"", ("link", "west"): b""}
    disk[records.TABLE.key("east")] = records.TABLE.layout.encode(records.TablePosition(1))
    again = BrokerCore("middle", {"east": POLICIES["covering"], "west": POLICIES["covering"]}, CONTENT)
    wide, low = entry("alice", "wide", "x < 10"), entry("zoe", 1, "y < 10")
    assert outgoing(again.restore(disk, now=9)) == [
        Send("east", m.Update(3, (wide,), replace=True)),
        Send("west", m.Update(4, (wide, low), replace=True)),
    ]
    assert outgoing(again.handle(m.Confirm(3), sender="east", now=9)) == [Send("west", m.Confirm(1))]
    assert outgoing(again.handle(m.Confirm(4), sender="west", now=9)) == [
        Send("alice", m.Status("wide", "default", ACTIVE)),
        Send("east", m.Confirm(2)),
    ]


def test_flooding_asks_for_everything_once() -> None:
    broker = BrokerCore("middle", {"east": POLICIES["flood"]}, CONTENT)
    [update] = outgoing(broker.handle(LinkUp(), sender="east", now=0))
    assert update == Send("east", m.Update(1, (m.Entry("*", "*", b"true"),), replace=True))
    assert len(outgoing(broker.handle(m.Subscribe(1, text("x < 1")), sender="alice", now=0))) == 1


def test_an_entry_for_everything_crosses_namespaces() -> None:
    broker = Middle()
    broker.handled(m.Update(2, (m.Entry("*", "*", b"true"),)), "east")
    assert broker.handled(m.Publish(event(namespace="any", x=1)), "west") == [
        Send("east", m.Publish(event(namespace="any", x=1))),
    ]


def test_an_expired_subscription_ends() -> None:
    broker = Middle()
    broker.handled(m.Subscribe("a", text("x < 10"), expires=2_000_000), "alice")
    assert len(broker.handled(m.Publish(event(1, x=3)), "zed", now=1.9)) == 1
    assert broker.handled(m.Publish(event(2, x=3)), "zed", now=2.0) == []
    assert broker.handled(m.Tick(), "", now=1.9) == []
    retraction = m.Update(3, (), (client_key("alice", "default", "a"),))
    assert broker.handled(m.Tick(), "", now=2.0) == [
        Send("east", retraction),
        Send("west", retraction),
        Send("alice", m.Status("a", "default", CANCELLED)),
    ]


def test_what_cannot_be_is_refused_with_a_reason() -> None:
    broker = Middle()
    [refused] = broker.handled(m.Subscribe("a", b'{"op":"<","args":[{"property":"z"},1]}'), "alice")
    assert isinstance(refused, Send)
    assert "z" in refused.message.reason
    [refused] = broker.handled(m.Subscribe("a", b"not json"), "alice")
    assert isinstance(refused, Send)
    assert "CQL2-JSON" in refused.message.reason
    [refused] = broker.handled(m.Subscribe("a", text("x < 1"), "*"), "alice")
    assert isinstance(refused, Send)
    [refused] = broker.handled(m.Publish(m.Published(m.EventId("a", 1, 1), "default", b"\xc1")), "alice")
    assert isinstance(refused, Send)
    assert refused.message.subject == "event 1"


@pytest.mark.parametrize(
    ("message", "sender"),
    [
        (m.Update(1), "alice"),
        (m.Confirm(1), "alice"),
        (m.Status(1, "default", ACTIVE), "east"),
        (m.Update(2, (m.Entry("k", "default", b"oops"),)), "east"),
        (m.Publish(m.Published(m.EventId("a", 1, 1), "default", b"\xc1")), "east"),
    ],
)
def test_who_breaks_the_protocol_is_named(message: Any, sender: str) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        Middle().handle(message, sender=sender, now=0)
    assert caught.value.link == sender


def test_a_broken_invariant_tells_the_story() -> None:
    broker = Middle()
    broker.handled(m.Subscribe("wide", text("x < 10")), "alice")
    [summary] = broker.table.summaries["east"].values()
    summary._groups.clear()
    summary.members.clear()
    with pytest.raises(InvariantError) as caught:
        broker.check_invariants()
    assert "broker middle" in str(caught.value)
    assert any("Subscribe" in line for line in caught.value.story)


@pytest.mark.parametrize("policy", POLICIES)
def test_after_all_is_cancelled_nothing_is_left(policy: str) -> None:
    broker = Middle(policy)
    sources = ["x < 10", "x < 5", "x BETWEEN 2 AND 8", "x >= 5 OR y = 1", "y = 1", "s LIKE 'a%' AND x = 1", "x < 10"]
    for place, source in enumerate(sources):
        broker.handled(m.Subscribe(place, text(source)), "alice" if place % 2 else "bob")
    for place in (0, 3, 1, 6, 5, 2, 4):
        broker.handled(m.Unsubscribe(place), "alice" if place % 2 else "bob")
    kept = [content for link in ("east", "west") for content in broker.table.contents(link) if content.namespace != "*"]
    assert kept == []
