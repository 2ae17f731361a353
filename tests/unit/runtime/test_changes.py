"""A change of a subscription's filter as its client sees it: what a word of the broker is about."""

from __future__ import annotations

from tamis.errors import RefusedError
from tamis.routing import messages as m
from tamis.runtime.client.session import Reader

OLD, NEW = m.Subscribe("a", b"old"), m.Subscribe("a", b"new")
ACCEPTED, ACTIVE, PENDING = m.State.ACCEPTED, m.State.ACTIVE, m.State.PENDING


def active_reader() -> Reader:
    reader = Reader(OLD)
    reader.came_to(ACCEPTED, 1)
    reader.came_to(ACTIVE, 1)
    return reader


def test_words_about_the_former_filter_do_not_count() -> None:
    reader = active_reader()
    change = reader.begin_change(NEW)
    reader.came_to(ACTIVE, 2)  # without ACCEPTED before it
    assert reader.state is PENDING
    reader.came_to(ACCEPTED, 3)
    reader.came_to(ACTIVE, 3)  # the former filter was said again just before
    reader.take_change(change, 4)
    assert (reader.state, change.is_taken) == (PENDING, True)
    reader.came_to(ACCEPTED, 5)
    reader.came_to(ACTIVE, 6)
    assert (reader.state, reader.message) == (ACTIVE, NEW)


def test_words_in_the_packet_that_takes_the_change_count() -> None:
    reader = active_reader()
    change = reader.begin_change(NEW)
    reader.came_to(ACCEPTED, 2)
    reader.came_to(ACTIVE, 2)
    reader.take_change(change, 2)
    assert reader.state is ACTIVE


def test_a_refused_change_leaves_what_was_there() -> None:
    reader = active_reader()
    change = reader.begin_change(NEW)
    reader.refuse(RefusedError(400, "no"))
    reader.take_change(change, 2)  # the message was taken, and what it asks for refused
    assert (reader.state, reader.message, reader.error, change.is_taken) == (ACTIVE, OLD, None, False)
    assert change.error is not None
    again = reader.begin_change(NEW)
    reader.came_to(ACCEPTED, 3)
    reader.take_change(again, 3)
    reader.refuse(RefusedError(403, "the right is gone"))  # said again on another connection
    assert reader.error is not None
