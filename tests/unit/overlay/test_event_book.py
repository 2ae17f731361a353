"""A book of events forgets, so that it does not grow without end."""

from __future__ import annotations

import pytest

from tamis.overlay import event_book
from tamis.overlay.event_book import EventBook
from tamis.overlay.messages import EventId, PeerEvent


def test_publishers_that_were_silent_for_longest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_book, "MAX_PAGES", 3)
    book = EventBook[str]()
    for name in ("a", "b", "c"):
        book.write(EventId(name, 1, 1), name)
    assert not book.is_done(PeerEvent(EventId("a", 1, 2), "", b"", 1))  # an event of a arrives again
    book.write(EventId("d", 1, 1), "d")
    assert [book.read(EventId(name, 1, 1)) for name in "abcd"] == ["a", None, "c", "d"]


def test_a_publisher_that_is_never_done_keeps_its_newest_notes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_book, "MAX_NOTES", 3)
    book = EventBook[int]()
    for seq in range(5):
        book.write(EventId("a", 1, seq), seq)
    assert list(book) == [2, 3, 4]
    assert not book.is_done(PeerEvent(EventId("a", 1, 0), "", b"", 0))  # forgotten, not done: it would be delivered
