"""What a link was not sent: it is counted, survives a crash, and is told before anything else is sent (promise G23)."""

from __future__ import annotations

from collections.abc import Iterable

from tamis.node.core import LinkFull
from tamis.node.effects import Effect, Key, Persist, Send
from tamis.routing.core.flow import Flow
from tamis.routing.messages import EventId, LinkGap

FIRST, SECOND, OTHER = EventId("a", 1, 1), EventId("a", 1, 2), EventId("b", 1, 1)


def stored(effects: Iterable[Effect], disk: dict[Key, bytes] | None = None) -> dict[Key, bytes]:
    """Return what is on disk after effects."""
    disk = {**(disk or {})}
    for effect in effects:
        if isinstance(effect, Persist) and effect.value is not None:
            disk[effect.key] = effect.value
        elif isinstance(effect, Persist):
            disk.pop(effect.key, None)
    return disk


def full_link() -> tuple[Flow, dict[Key, bytes]]:
    """Return a link to ``b`` that was not sent three events of two namespaces, and the disk of its broker."""
    flow = Flow(["b", "c"], drops=["b"])
    flow.full["b"] = LinkFull(9, 900)
    for namespace, event in (("x", FIRST), ("x", SECOND), ("y", OTHER)):
        assert flow.is_dropping("b")
        flow.gaps.add("b", namespace, event)
    return flow, stored(flow.gaps.take_changes())


REPORTED = [Send("b", LinkGap("x", FIRST, 2)), Send("b", LinkGap("y", OTHER, 1))]


def test_a_gap_has_the_first_event_and_the_count_of_each_namespace() -> None:
    flow, disk = full_link()
    assert flow.close_gaps() == []  # it is full still
    del flow.full["b"]
    effects = flow.close_gaps()
    assert [effect for effect in effects if isinstance(effect, Send)] == REPORTED
    assert (stored(effects, disk), flow.is_dropping("b"), flow.close_gaps()) == ({}, False, [])


def test_a_gap_is_told_after_a_crash_and_before_the_next_event() -> None:
    _, disk = full_link()
    flow = Flow(["b", "c"], drops=["b"])
    flow.restore(disk)
    assert flow.is_dropping("b")  # although nothing waits: an event would overtake the gap
    assert not flow.is_dropping("c")
    assert [effect for effect in flow.close_gaps() if isinstance(effect, Send)] == REPORTED
    assert not flow.is_dropping("b")


def test_the_gap_of_a_former_neighbour_is_not_reported() -> None:
    _, disk = full_link()
    flow = Flow(["c"])
    flow.restore(disk)
    assert flow.close_gaps() == []


def test_a_skipped_link_stays_skipped_after_a_crash_and_is_told_when_it_is_taken_back() -> None:
    flow = Flow(["b", "c"])
    disk = stored(flow.skip("b", True))
    flow.gaps.add("b", "x", FIRST)
    disk = stored(flow.gaps.take_changes(), disk)
    again = Flow(["b", "c"])
    again.restore(disk)
    assert again.is_dropping("b")
    assert again.close_gaps() == []
    effects = again.skip("b", False)
    assert [effect for effect in effects if isinstance(effect, Send)] == [Send("b", LinkGap("x", FIRST, 1))]
    assert (stored(effects, disk), again.is_dropping("b")) == ({}, False)
