"""Notes about events that their publishers have not finished yet.

A publisher numbers its events and sends with each the *floor*: all events with lower numbers are done. Notes about
those are dropped, but the floor is kept: a copy that was delayed for a long time has an old floor, and would otherwise
count as a new event.

The size of a book is limited: the publisher that has been silent longest is forgotten, and the oldest notes of a
publisher that never finishes. A copy of a forgotten event counts as new, so an event may then be delivered twice; none
is lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from tamis.overlay.messages import EventId, PeerEvent

__all__ = ["EventBook"]

T = TypeVar("T")

#: Lives of publishers in a book, and notes about one of them.
MAX_PAGES, MAX_NOTES = 4_096, 20_000


@dataclass
class _Page(Generic[T]):
    """The events of one life of a publisher: numbers below ``floor`` are done."""

    floor: int = 0
    notes: dict[int, T] = field(default_factory=dict)


class EventBook(Generic[T]):
    """Stores a note for each event that is not done.

    >>> book = EventBook[str]()
    >>> first, third = (PeerEvent(EventId("alice", 1, seq), "", b"", floor) for seq, floor in [(1, 1), (3, 2)])
    >>> book.write(first.id, "seen")
    >>> book.is_done(first), book.is_done(third), book.is_done(first)
    (False, False, True)
    >>> book.read(first.id) is None
    True
    """

    def __init__(self) -> None:
        self._pages: dict[tuple[str, int], _Page[T]] = {}

    def is_done(self, event: PeerEvent) -> bool:
        """Whether its publisher is done with an event; records the event's floor."""
        page = self._page(event.id)
        if event.floor > page.floor:
            page.floor = event.floor
            for seq in [seq for seq in page.notes if seq < page.floor]:
                del page.notes[seq]
        return event.id.seq < page.floor

    def read(self, id: EventId) -> T | None:
        """Return the note about an event, if there is one."""
        page = self._pages.get((id.publisher, id.epoch))
        return None if page is None else page.notes.get(id.seq)

    def write(self, id: EventId, note: T) -> None:
        """Store a note about an event that is not done."""
        notes = self._page(id).notes
        notes[id.seq] = note
        if len(notes) > MAX_NOTES:
            del notes[next(iter(notes))]

    def erase(self, id: EventId) -> None:
        """Drop the note about an event."""
        self._page(id).notes.pop(id.seq, None)

    def __iter__(self) -> Iterator[T]:
        return iter([note for page in self._pages.values() for note in page.notes.values()])

    def _page(self, id: EventId) -> _Page[T]:
        key = (id.publisher, id.epoch)
        page = self._pages.pop(key, None) or _Page()
        self._pages[key] = page  # in the order of use: the first has been silent longest
        if len(self._pages) > MAX_PAGES:
            del self._pages[next(iter(self._pages))]
        return page
