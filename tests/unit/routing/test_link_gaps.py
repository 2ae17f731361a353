"""What a link dropped: it is counted, survives a crash, and is told before anything newer is sent (promise G23)."""

from __future__ import annotations

from collections.abc import Iterable

from tamis.node import records
from tamis.node.core import Dropped, LinkUp
from tamis.node.effects import Effect, Key, Persist, Queue, Refill, Send
from tamis.node.overflow import overflow_of
from tamis.routing import messages as m
from tamis.routing.core.flow import Flow
from tamis.routing.messages import EventId, LinkGap
from tests.simulation.test_lost_disk import start_broker

FIRST, SECOND, OTHER = EventId("a", 1, 1), EventId("a", 1, 2), EventId("b", 1, 1)

#: Events of two namespaces, and a gap of another link.
DROPPED = (
    m.PublishBatch((m.Published(FIRST, "x", b""), m.Published(OTHER, "y", b""))),
    LinkGap("x", SECOND, 5),
)


def stored(effects: Iterable[Effect], disk: dict[Key, bytes] | None = None) -> dict[Key, bytes]:
    """Return what is on disk after effects."""
    disk = {**(disk or {})}
    for effect in effects:
        if isinstance(effect, Persist) and effect.value is not None:
            disk[effect.key] = effect.value
        elif isinstance(effect, Persist):
            disk.pop(effect.key, None)
    return disk


def link_with_a_gap() -> tuple[Flow, dict[Key, bytes]]:
    """Return a link to ``b`` that dropped events of two namespaces, and the disk of its broker."""
    flow = Flow(["b", "c"], drops=["b"])
    assert flow.gaps.add_all("b", DROPPED) == 2  # those of the gap were dropped by another link
    return flow, stored(flow.gaps.take_changes())


REPORTED = [Send("b", LinkGap("x", FIRST, 6)), Send("b", LinkGap("y", OTHER, 1)), Refill("b")]


def test_a_gap_has_the_first_event_and_the_count_of_each_namespace() -> None:
    flow, disk = link_with_a_gap()
    effects = flow.use_room("b")
    assert [effect for effect in effects if not isinstance(effect, Persist)] == REPORTED
    assert (stored(effects, disk), flow.use_room("b")) == ({}, [Refill("b")])


def test_a_gap_is_told_after_a_crash_and_before_what_waits() -> None:
    _, disk = link_with_a_gap()
    flow = Flow(["b", "c"], drops=["b"])
    flow.restore(disk)
    assert [effect for effect in flow.use_room("b") if not isinstance(effect, Persist)] == REPORTED


def test_the_gap_of_a_former_neighbour_is_not_reported() -> None:
    _, disk = link_with_a_gap()
    flow = Flow(["c"])
    flow.restore(disk)
    assert flow.use_room("b") == []


def test_what_waits_gets_numbers_when_the_link_no_longer_drops() -> None:
    _, disk = link_with_a_gap()
    disk |= stored([records.OVERFLOW_END.put(overflow_of("b"), value=3)])
    effects = Flow(["b", "c"]).restore(disk)
    assert [effect for effect in effects if not isinstance(effect, Persist)] == [
        *REPORTED[:2],
        Refill("b", is_all=True),
    ]
    assert Flow(["b", "c"], drops=["b"]).restore(disk) == []


def test_a_skipped_link_stays_skipped_after_a_crash_and_is_told_when_it_is_taken_back() -> None:
    flow = Flow(["b", "c"])
    disk = stored(flow.skip("b", True))
    flow.gaps.add("b", "x", FIRST)
    disk = stored(flow.gaps.take_changes(), disk)
    again = Flow(["b", "c"])
    again.restore(disk)
    assert again.is_counting("b")
    assert again.use_room("b") == []
    effects = again.skip("b", False)
    assert [effect for effect in effects if isinstance(effect, Send)] == [Send("b", LinkGap("x", FIRST, 1))]
    assert (stored(effects, disk), again.is_counting("b")) == ({}, False)


def test_what_a_skipped_link_that_drops_is_sent_waits() -> None:
    flow = Flow(["b"], drops=["b"])
    assert flow.send("b", DROPPED[0]) == Queue("b", DROPPED[0])
    flow.skip("b", True)
    assert (flow.send("b", DROPPED[0]), flow.is_counting("b")) == (Queue("b", DROPPED[0], is_held=True), False)
    assert Refill("b") in flow.skip("b", False)


def test_the_last_confirmation_among_what_is_dropped_is_sent() -> None:
    core = start_broker("a", "b", drops=True).node.core.broker
    dropped = Dropped((DROPPED[0], m.Confirm(3), m.Confirm(4), DROPPED[1]))
    effects = core.events.drop(dropped, "b")
    assert [effect for effect in effects if isinstance(effect, Send)] == [Send("b", m.Confirm(4))]
    assert core.counters["b"].dropped == 2


def test_a_new_life_of_a_neighbour_gets_the_gap_then_what_waited_and_no_old_confirmation() -> None:
    core = start_broker("a", "b", drops=True).node.core.broker
    core.events.drop(Dropped(DROPPED[:1]), "b")
    waited = m.Publish(m.Published(SECOND, "x", b""))
    effects = core.handle(LinkUp((m.Confirm(1),), (m.Confirm(2), waited)), sender="b", now=0.0)
    table, *messages = [effect for effect in effects if isinstance(effect, Send | Queue)]
    assert isinstance(table.message, m.Update)
    assert messages == [Send("b", LinkGap("x", FIRST, 1)), Send("b", LinkGap("y", OTHER, 1)), Queue("b", waited)]
