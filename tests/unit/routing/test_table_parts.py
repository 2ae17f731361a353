"""Whole tables cross a link in parts: bounded steps, nothing lost meanwhile, and nonsense refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest import mock

import msgspec
import pytest

from tamis import Number, Schema
from tamis.errors import RemoteProtocolError
from tamis.node import records
from tamis.node.content import Content
from tamis.node.core import LinkUp
from tamis.node.effects import Again, Persist, Send
from tamis.node.published import EventId, Published
from tamis.routing import messages as m
from tamis.routing import table_parts
from tamis.routing.core.broker import BrokerCore, client_key
from tamis.routing.early_entries import EarlyEntries
from tamis.routing.edge.border import cut_message
from tamis.routing.edge.limits import MAX_BODY, MAX_PART_ENTRIES
from tamis.routing.policies import find_policy
from tamis.routing.table_parts import PART_BYTES, Connected

SCHEMA = Schema({"n": Number(0, 100_000)})
CONTENT = Content(SCHEMA)
#: Entries of a part here, and of a table of many parts.
PART_ENTRIES, MANY = 16, 200


@pytest.fixture(autouse=True)
def small_parts() -> Iterator[None]:
    with mock.patch.object(table_parts, "PART_ENTRIES", PART_ENTRIES):
        yield


def written(text: str) -> bytes:
    return CONTENT.write_filter(CONTENT.compile(text))


def equal(value: int) -> bytes:
    return written(f"n = {value}")


def entry(key: str, value: int) -> m.Entry:
    return m.Entry(key, "default", equal(value))


def event(value: int, number: int = 1) -> m.Publish:
    return m.Publish(Published(EventId("zoe", 1, number), "default", CONTENT.write_event({"n": value})))


class Broker:
    """A core with one neighbour, and its disk."""

    def __init__(self, name: str, neighbour: str) -> None:
        self.name, self.neighbour = name, neighbour
        self.disk: dict[Any, bytes] = {}
        self.core = self.new_core()

    def new_core(self) -> BrokerCore:
        return BrokerCore(self.name, {self.neighbour: find_policy("identity")}, CONTENT)

    def take(self, message: Any, sender: str) -> list[Any]:
        """Handle a message, keep what it persists, and return what is sent to the neighbour, or Again."""
        return self.follow(self.core.handle(message, sender=sender, now=0.0))

    def follow(self, effects: list[Any]) -> list[Any]:
        for effect in effects:
            if isinstance(effect, Persist) and effect.value is None:
                self.disk.pop(effect.key, None)
            elif isinstance(effect, Persist):
                self.disk[effect.key] = effect.value
        return [
            effect if isinstance(effect, Again) else effect.message
            for effect in effects
            if isinstance(effect, Again) or (isinstance(effect, Send) and effect.link == self.neighbour)
        ]

    def restart(self) -> list[Any]:
        self.core = self.new_core()
        self.disk[records.LINK.key(self.neighbour)] = b""
        return self.follow(self.core.restore(self.disk, now=1.0))

    def held(self) -> dict[str, bytes]:
        return {key: entry.document for key, entry in self.core.table.interests(self.neighbour).items()}

    def subscribe(self, id: int, value: int) -> list[Any]:
        return self.take(m.Subscribe(id, equal(value)), "alice")


def sender_of(count: int) -> Broker:
    broker = Broker("a", "b")
    broker.take(m.Update(1, replace=True), "b")
    for id in range(count):
        broker.subscribe(id, id)
    return broker


def key(id: int) -> str:
    return client_key("alice", "default", id)


def begin(broker: Broker) -> list[Any]:
    """Connect the neighbour, which has nothing; return the first messages of the table."""
    return [*broker.take(Connected(takes_parts=True), broker.neighbour), *broker.take(LinkUp(), broker.neighbour)]


def carry(a: Broker, b: Broker, to_b: list[Any]) -> list[Any]:
    """Carry messages both ways until none is left; return what was carried to ``b``."""
    carried = []
    while to_b:
        message = to_b.pop(0)
        carried.append(message)
        for answer in b.take(m.Tick() if isinstance(message, Again) else message, "a"):
            if isinstance(answer, Again):
                to_b.append(answer)
            else:
                to_b += a.take(answer, "b")
    return carried


def test_a_large_table_crosses_in_parts_of_bounded_size() -> None:
    a, b = sender_of(MANY), Broker("b", "a")
    first = begin(a)
    assert len(first) == table_parts.PARTS_UNDER_WAY  # the others wait until one of these was taken
    parts = [message for message in carry(a, b, first) if isinstance(message, m.TablePart)]
    assert [part.index for part in parts] == list(range(MANY // PART_ENTRIES + 1))
    assert [part.is_last for part in parts] == [False] * (len(parts) - 1) + [True]
    assert max(len(part.announce) for part in parts) == PART_ENTRIES
    assert b.held() == {key(id): equal(id) for id in range(MANY)}
    assert a.core.progress_of("b") == (True, True)


def test_parts_are_bounded_in_bytes_too() -> None:
    a, b = Broker("a", "b"), Broker("b", "a")
    a.take(m.Update(1, replace=True), "b")
    for id in range(20):
        values = ", ".join(str(value) for value in range(id, 40_000 + id, 20))
        a.take(m.Subscribe(id, written(f"n IN ({values})")), "alice")
    parts = [message for message in carry(a, b, begin(a)) if isinstance(message, m.TablePart)]
    assert len(parts) > 1
    assert max(len(m.encode(part)) for part in parts) < PART_BYTES + 1_000
    assert len(b.held()) == 20


def test_a_neighbour_of_an_earlier_release_gets_one_message() -> None:
    a = sender_of(MANY)
    a.take(Connected(takes_parts=False), "b")
    [update] = a.take(LinkUp(), "b")
    assert isinstance(update, m.Update)
    assert (update.replace, len(update.announce)) == (True, MANY)


def test_a_large_table_waits_until_its_neighbour_is_connected_and_a_small_one_does_not() -> None:
    a, small = sender_of(MANY), sender_of(PART_ENTRIES)
    assert [type(message) for message in a.restart()] == [m.Confirm]
    assert [type(message) for message in small.restart()] == [m.Update, m.Confirm]
    assert a.take(m.Subscribe("late", equal(5)), "bob") == []
    assert {type(message) for message in a.take(Connected(takes_parts=True), "b")} == {m.TablePart}


def test_what_changes_while_a_table_is_under_way_is_in_it() -> None:
    a, b = sender_of(MANY), Broker("b", "a")
    to_b = begin(a)
    a.take(m.Unsubscribe(0), "alice")  # it crossed
    a.take(m.Unsubscribe(199), "alice")  # it did not
    a.subscribe(1, 70_000)
    a.subscribe(198, 70_001)
    a.subscribe(5_000, 70_002)
    a.subscribe(5_001, 70_003)
    a.take(m.Unsubscribe(5_001), "alice")
    a.take(m.Unsubscribe(2), "alice")
    a.subscribe(2, 70_004)
    carry(a, b, to_b)
    changed = {1: 70_000, 2: 70_004, 198: 70_001, 5_000: 70_002}
    assert b.held() == {key(id): equal(changed.get(id, id)) for id in [*range(1, 199), 5_000]}


def test_a_subscription_is_active_when_the_table_under_way_is_confirmed() -> None:
    a, b = sender_of(MANY), Broker("b", "a")
    to_b = begin(a)
    a.subscribe(7_000, 7_000)
    states: list[m.State] = []
    handle = a.core.handle

    def noted(message: Any, **named: Any) -> list[Any]:
        effects = handle(message, **named)
        states.extend(
            effect.message.state
            for effect in effects
            if isinstance(effect, Send) and isinstance(effect.message, m.Status) and effect.message.id == 7_000
        )
        if states:
            assert key(7_000) in b.held()
        return effects

    with mock.patch.object(a.core, "handle", noted):
        carry(a, b, to_b)
    assert states == [m.State.ACTIVE]


def test_the_former_table_is_kept_until_the_last_part() -> None:
    b = Broker("b", "a")
    b.take(m.Update(1, (entry("k", 1), entry("gone", 2)), replace=True), "a")
    wants = {value: b.core.table.next_hops({"n": value}, "default", "") for value in (1, 2, 3)}
    assert wants == {1: ["a"], 2: ["a"], 3: []}
    b.take(m.TablePart(2, 0, (entry("k", 3), entry("gone", 2))), "a")
    b.take(m.TablePart(2, 1, retract=("gone",)), "a")
    for value in (1, 2, 3):
        assert b.core.table.next_hops({"n": value}, "default", "") == ["a"]
    b.take(m.TablePart(2, 2, is_last=True), "a")
    assert b.held() == {"k": equal(3)}
    assert {key[2] for key in b.disk if key[0] == "interest"} == {"k"}


def test_a_receiver_that_restarts_goes_on_with_the_next_part() -> None:
    b = Broker("b", "a")
    b.take(m.Update(1, (entry("k", 1), entry("same", 2), entry("gone", 4)), replace=True), "a")
    b.take(m.TablePart(2, 0, (entry("k", 3), entry("same", 2), entry("late", 9))), "a")
    b.take(m.TablePart(2, 1, retract=("late",)), "a")
    b.restart()
    assert set(b.held().values()) == {equal(1), equal(2), equal(3), equal(4), equal(9)}
    b.take(m.TablePart(2, 2, (entry("new", 5),), is_last=True), "a")
    assert b.held() == {"k": equal(3), "same": equal(2), "new": equal(5)}
    b.restart()
    assert b.held() == {"k": equal(3), "same": equal(2), "new": equal(5)}


def test_stale_entries_are_dropped_in_slices_across_a_restart() -> None:
    b = Broker("b", "a")
    b.take(m.Update(1, tuple(entry(f"k{id}", id) for id in range(100)), replace=True), "a")
    with mock.patch.object(table_parts, "DROPPED_AT_ONCE", 16):
        [confirm, *rest] = b.take(m.Update(2, (entry("k7", 7),), replace=True), "a")
        assert (rest, confirm) == ([m.Confirm(2)], Again())
        assert len(b.held()) == 84
        assert Again() in b.restart()
        assert len(b.held()) == 68
        while len(b.held()) > 1:
            assert b.take(m.Tick(), "") == ([Again()] if len(b.held()) > 1 else [])
    assert b.held() == {"k7": equal(7)}


def test_a_table_that_begins_again_replaces_the_one_under_way() -> None:
    b = Broker("b", "a")
    b.take(m.TablePart(2, 0, (entry("a", 1),)), "a")
    b.take(m.TablePart(3, 0, (entry("b", 2),)), "a")
    b.take(m.TablePart(3, 1, is_last=True), "a")
    assert b.held() == {"b": equal(2)}
    b.take(m.TablePart(4, 0, (entry("c", 3),)), "a")
    b.take(m.Update(5, (entry("d", 4),), replace=True), "a")
    assert b.held() == {"d": equal(4)}


def early(number: int, *entries: m.Entry) -> EarlyEntries:
    return EarlyEntries(m.Update(number, entries))


def test_what_early_entries_replace_is_kept_until_their_message_is_taken() -> None:
    b = Broker("b", "a")
    b.take(m.Update(1, (entry("k", 1), entry("gone", 2)), replace=True), "a")
    update = m.Update(2, (entry("k", 3), entry("new", 4)), retract=("gone",))
    assert b.take(early(2, entry("k", 3)), "a") == []
    for _ in range(2):  # also after a restart, and when the neighbour sends the message again
        assert set(b.held().values()) == {equal(1), equal(2), equal(3)}
        b.restart()
        b.take(early(2, entry("k", 3)), "a")
    b.take(early(2, entry("new", 4)), "a")
    assert m.Confirm(2) in b.take(update, "a")
    for _ in range(2):
        assert b.held() == {"k": equal(3), "new": equal(4)}
        b.restart()


def test_a_table_replaces_what_early_entries_have_added_and_kept() -> None:
    for table in (m.Update(2, (entry("k", 3),), replace=True), m.TablePart(2, 0, (entry("k", 3),), is_last=True)):
        b = Broker("b", "a")
        b.take(m.Update(1, (entry("k", 1), entry("gone", 2)), replace=True), "a")
        b.take(EarlyEntries(table), "a")
        assert set(b.held().values()) == {equal(1), equal(2), equal(3)}
        b.take(table, "a")
        for _ in range(2):
            assert b.held() == {"k": equal(3)}
            b.restart()


BAD_EARLY = {
    "no filter": m.Update(2, (entry("good", 1), m.Entry("k", "default", b"7"))),
    "wrong ranges": m.Update(2, (entry("k", 2),), ranges=(m.Ranges("default", b"x"),)),
    "a part that is not next": m.TablePart(2, 2, (entry("k", 2),)),
    "no namespace": m.Update(2, (m.Entry("k", "", equal(1)),)),
}


@pytest.mark.parametrize("name", BAD_EARLY)
def test_bad_early_entries_are_refused_and_change_nothing(name: str) -> None:
    b = Broker("b", "a")
    b.take(m.Update(1, (entry("k", 1),), replace=True), "a")
    disk, held = dict(b.disk), b.held()
    with pytest.raises(RemoteProtocolError):
        b.core.handle(EarlyEntries(BAD_EARLY[name]), sender="a", now=0.0)
    with pytest.raises(RemoteProtocolError):
        b.core.handle(EarlyEntries(m.Update(2)), sender="alice", now=0.0)
    assert (b.disk, b.held()) == (disk, held)


def test_early_entries_cross_a_border_without_those_of_other_namespaces() -> None:
    cut = cut_message(early(2, entry("k", 1), m.Entry("s", "secret", equal(2))), {"default"})
    assert cut == early(2, entry("k", 1))


BAD = {
    "a part is missing": m.TablePart(2, 2),
    "a part of another table": m.TablePart(3, 1),
    "no number": m.TablePart(0, 0),
    "a key twice": m.TablePart(2, 1, (entry("k", 1), entry("k", 2))),
    "a namespace that is none": m.TablePart(2, 1, (m.Entry("k", "", equal(1)),)),
    "too many entries": m.TablePart(2, 1, tuple(entry(f"k{id}", 1) for id in range(MAX_PART_ENTRIES + 1))),
    "too many keys": m.TablePart(2, 1, retract=("k",) * (MAX_PART_ENTRIES + 1)),
    "too many bytes": m.TablePart(2, 1, (m.Entry("k", "default", b" " * MAX_BODY + equal(1)),)),
    "a filter that is none": m.TablePart(2, 1, (entry("good", 1), m.Entry("k", "default", b"7"))),
    "ranges that are none": m.TablePart(2, 1, is_last=True, ranges=(m.Ranges("default", b"x"),)),
    "ranges before the last part": m.TablePart(2, 1, ranges=(m.Ranges("default", b"x"),)),
    "an update between two parts": m.Update(2, (entry("k", 1),)),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_part_is_refused_and_changes_nothing(name: str) -> None:
    b = Broker("b", "a")
    b.take(m.TablePart(2, 0, (entry("k", 5),)), "a")
    disk, held = dict(b.disk), b.held()
    with pytest.raises(RemoteProtocolError):
        b.core.handle(BAD[name], sender="a", now=0.0)
    assert (b.disk, b.held()) == (disk, held)
    b.take(m.TablePart(2, 1, is_last=True), "a")
    assert b.held() == {"k": equal(5)}


def test_an_answer_about_a_part_that_was_not_sent_is_refused() -> None:
    a = sender_of(MANY)
    begin(a)
    number = a.core._confirmations.sent["b"]
    with pytest.raises(RemoteProtocolError, match="took part 4 of a table, 4 were sent"):
        a.core.handle(m.PartTaken(number, 4), sender="b", now=0.0)


def test_a_client_may_not_send_parts() -> None:
    b = Broker("b", "a")
    for message in (m.TablePart(1, 0), m.PartTaken(1, 0)):
        with pytest.raises(RemoteProtocolError):
            b.core.handle(message, sender="alice", now=0.0)


def test_an_answer_about_a_former_table_counts_for_nothing() -> None:
    a = sender_of(MANY)
    begin(a)
    former = a.core._confirmations.sent["b"]
    assert len(a.take(LinkUp(), "b")) == table_parts.PARTS_UNDER_WAY
    assert a.take(m.PartTaken(former, 3), "b") == []
    assert len(a.take(m.PartTaken(former + 1, 0), "b")) == 1


def test_a_part_crosses_a_border_without_the_entries_of_other_namespaces() -> None:
    part = m.TablePart(2, 0, (entry("k", 1), m.Entry("s", "secret", equal(2))))
    assert cut_message(part, {"default"}) == m.TablePart(2, 0, (entry("k", 1),))
    assert cut_message(part, {"none"}) == m.TablePart(2, 0)


def test_entries_that_an_earlier_release_wrote_are_read() -> None:
    b = Broker("b", "a")
    b.disk[records.INTEREST.key("a", "k")] = msgspec.msgpack.encode(entry("k", 1))
    b.disk[records.SPOKEN.key("a")] = b"1"
    b.restart()
    assert b.held() == {"k": equal(1)}
    b.take(m.TablePart(2, 0, (entry("other", 2),), is_last=True), "a")
    assert b.held() == {"other": equal(2)}
